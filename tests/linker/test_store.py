"""Where compiled code lies: whose folder is trusted, what damage does, and that a run can do without it."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import pickle
import sys
import tempfile
import textwrap
import threading
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import platformdirs
import pytest
from commands import Command, python
from places import SUPPORT
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.backends.numba import cache as _cache
from tistreamlines.backends.numba import dialect as _dialect
from tistreamlines.backends.taichi import starting as _starting
from tistreamlines.devices import choose
from tistreamlines.devices.compilers import COMPILERS
from tistreamlines.errors import DeviceError
from tistreamlines.linker import store as _store
from tistreamlines.linker.link import link

TWICE = """
from tistreamlines.backends.numba.compiler import compiled

@compiled
def twice(x):
    x[0] = 2 * x[0]
"""
CHUNK = Path(ts.__file__).parent / "tracking" / "growth" / "chunk_kernels.py"
STRANGER = 65534  # another user, whom root can give files to

TAICHI = COMPILERS["taichi"]


@pytest.fixture
def silent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The notes of a store that has had nothing to tell yet."""
    monkeypatch.setattr(_store, "_notes", [])
    monkeypatch.setattr(_store, "_told", 0)
    return _store._notes


@pytest.fixture
def store(silent: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of compiled code in a cache of the test's own; temporary files have one too."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(_cache, "compile_process", lambda *_: None)  # so that tests see what is compiled
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    return tmp_path / "cache" / "tistreamlines" / "kernels"


@pytest.fixture
def no_cache(store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that nobody can make, since a file is in its way; the folder that stands in for it."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file" / "cache"))
    return tmp_path / "temporary" / f"tistreamlines-{os.geteuid()}"


def test_the_users_own_files_are_no_place(no_cache, tmp_path, monkeypatch):
    """Python takes the folder that one is in for temporary files where it finds no other."""
    monkeypatch.chdir(tmp_path / "temporary")
    assert _store.folder() is None


def test_a_cache_whose_name_is_no_text_is_not_used(store, tmp_path, monkeypatch):
    """Numba would fail to name a file there in its messages."""
    monkeypatch.setenv("XDG_CACHE_HOME", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    assert _store.folder() == tmp_path / "temporary" / f"tistreamlines-{os.geteuid()}"


@pytest.mark.parametrize("setting", ["NUMBA_NUM_THREADS=0", "NUMBA_DISABLE_JIT=1"])
def test_variables_that_keep_numba_from_compiling_are_one_line(setting, monkeypatch):
    name, value = setting.split("=")
    monkeypatch.setenv(name, value)
    code = "from tistreamlines.errors import DeviceError\ntry: import tistreamlines.backends.numba.compiler\n"
    done = python("-c", code + "except DeviceError as error: print(error)")
    assert "NUMBA_" in done.stdout and "unset" in done.stdout
    assert not done.stderr


def module() -> Any:
    """The text's module as another process would load it."""
    sys.modules.pop(_store.stem_of(TWICE), None)
    return _store.load(TWICE)


def hits() -> int:
    """How often another process would find compiled code rather than make it, for a call that is right in any case."""
    sys.modules.pop(_store.stem_of(TWICE), None)
    number = np.array([21.0])
    _cache.Function(TWICE, "twice")(number)
    assert number[0] == 42
    return _store.stem_of(TWICE) not in sys.modules


class Planted:
    """Leaves a file when it is read by pickle."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> Any:
        return Path.touch, (self.trace,)


def plant(folder: Path, trace: Path) -> dict[Path, bytes]:
    """Put in the place of all that was kept what leaves a trace when it is run or unpickled."""
    harmful = pickle.dumps(Planted(trace))
    for path in folder.iterdir():
        if path.suffix == ".py":
            path.write_text(f"import pathlib\npathlib.Path({str(trace)!r}).touch()\n{path.read_text()}")
        else:
            path.write_bytes(hashlib.sha256(path.name.encode() + b"\0" + harmful).digest() + harmful)
    return {path: path.read_bytes() for path in folder.iterdir()}


# ------------------------------------------------------------------------------------------------- whose folder
def test_compiled_code_is_found_again(store):
    assert [hits(), hits()] == [0, 1]
    assert sorted(path.suffix for path in store.iterdir()) == [".bin", ".py"]
    assert store.stat().st_mode & 0o777 == 0o700
    assert _store.notes() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps both folders in the user's profile")
def test_without_a_cache_a_folder_among_temporary_files_serves(no_cache):
    assert [hits(), hits()] == [0, 1]
    assert no_cache.stat().st_mode & 0o777 == 0o700
    assert len(list(no_cache.iterdir())) == 2
    assert _store.notes() == []


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps both folders in the user's profile")
@pytest.mark.parametrize("whose", ["a stranger's", "everybody's", "a link"])
def test_what_others_can_write_is_not_run(no_cache, tmp_path, whose):
    """The folder has the right name and right files, so that whoever trusted it would run what was planted."""
    assert hits() == 0
    planted = plant(no_cache, tmp_path / "trace")
    if whose == "a stranger's":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder to another user")
        os.chown(no_cache, STRANGER, STRANGER)
    elif whose == "everybody's":
        no_cache.chmod(0o777)
    else:
        no_cache.rename(tmp_path / "elsewhere")
        no_cache.symlink_to(tmp_path / "elsewhere")
    assert hits() == 0
    assert not (tmp_path / "trace").exists()
    assert {path: path.read_bytes() for path in no_cache.iterdir()} == planted
    (note,) = _store.notes()
    assert note.startswith(
        "kernels are compiled again in each run, since no folder for them can be written by this user"
    )
    assert str(no_cache) in note
    assert _store.notes() == []


# ------------------------------------------------------------------------------------------------- the folders above
posix = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows keeps both folders in the user's profile")


@pytest.fixture
def above(store: Path, public_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder above that of compiled code; it is not the home, and all above it are this user's or root's."""
    monkeypatch.setenv("HOME", str(public_folder / "home"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(public_folder / "above" / "cache"))
    (public_folder / "above").mkdir()
    monkeypatch.setattr(_store, "_is_private", _store._is_private.__wrapped__)
    return public_folder / "above"


@posix
@pytest.mark.parametrize(
    ("mode", "group", "safe"),
    [
        (0o755, 0, True), (0o700, 0, True), (0o1777, STRANGER, True), (0o3775, STRANGER, True),
        (0o2755, STRANGER, True), (0o777, 0, False), (0o775, STRANGER, False), (0o2770, STRANGER, False),
    ],
)
@pytest.mark.parametrize("level", [0, 1, 2])
def test_a_folder_above_that_others_can_write_to(above, tmp_path, mode, group, safe, level):
    """What they put in place of the cache has the right name and right files, of this user."""
    folders = [above, above / "cache", above / "cache" / "tistreamlines"]
    for folder in folders[1:]:
        folder.mkdir()
    if os.geteuid() == 0:
        os.chown(folders[level], 0, group)
    elif group:
        pytest.skip("only root can give a folder to another group")
    folders[level].chmod(mode)
    assert [hits(), hits()] == [0, 1]
    kept = (folders[2] / "kernels") if safe else (tmp_path / "temporary" / f"tistreamlines-{os.geteuid()}")
    assert _store.folder() == kept
    assert len(list(kept.iterdir())) == 2
    if safe:
        assert _store.notes() == []
    else:
        (note,) = _store.notes()
        assert f"which others can replace in {folders[level]}: let XDG_CACHE_HOME name" in note
        assert str(kept) in note


@posix
def test_a_folder_above_that_belongs_to_another_user(above, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    os.chown(above, STRANGER, STRANGER)
    assert _store.folder() == tmp_path / "temporary" / f"tistreamlines-{os.geteuid()}"
    assert f"which others can replace in {above}" in _store.notes()[0]


@posix
@pytest.mark.parametrize(
    ("group", "members", "primary", "safe"),
    [
        ("anna", [], True, True), ("anna", ["anna"], True, True), ("anna", ["bert"], True, False),
        ("lab", [], True, False), ("anna", [], False, False),
    ],
)
def test_a_group_of_this_user_alone(above, monkeypatch, group, members, primary, safe):
    """As many systems make for each user; folders of umask 002 can be written by it."""
    import grp
    import pwd
    from types import SimpleNamespace

    above.chmod(0o775)
    if os.geteuid() == 0:
        os.chown(above, -1, 4321)
    number = above.stat().st_gid
    user = SimpleNamespace(pw_name="anna", pw_gid=number if primary else number + 1)
    monkeypatch.setattr(pwd, "getpwuid", lambda _: user)
    monkeypatch.setattr(grp, "getgrgid", lambda _: SimpleNamespace(gr_name=group, gr_mem=members))
    assert (_store.folder() == above / "cache" / "tistreamlines" / "kernels") is safe


@posix
def test_where_the_home_lies_is_the_administrators_choice(above, monkeypatch):
    """A home that is a link, in a folder of a group: others could replace it, as for sshd."""
    home = above / "real"
    home.mkdir()
    above.chmod(0o2777)
    (above / "home").symlink_to("real")
    monkeypatch.setenv("HOME", str(above / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert _store.folder() == home.resolve() / ".cache" / "tistreamlines" / "kernels"
    home.chmod(0o777)
    assert _store.folder() != home.resolve() / ".cache" / "tistreamlines" / "kernels"


@posix
@pytest.mark.parametrize(
    ("system", "kind", "place"),
    [("unix", "Unix", ".cache/tistreamlines"), ("macos", "MacOS", "Library/Caches/tistreamlines")],
)
def test_each_system_has_its_own_cache_unless_another_is_named(above, monkeypatch, system, kind, place):
    monkeypatch.setattr(platformdirs, "PlatformDirs", getattr(import_module(f"platformdirs.{system}"), kind))
    monkeypatch.setenv("HOME", str(above))
    assert _store.folder() == above / "cache" / "tistreamlines" / "kernels"
    for unset in (lambda: monkeypatch.setenv("XDG_CACHE_HOME", ""), lambda: monkeypatch.delenv("XDG_CACHE_HOME")):
        unset()
        assert _store.folder() == above / place / "kernels"


@posix
def test_a_link_that_is_replaced_leads_nowhere_else(above):
    """The name of the folder has no links."""
    (above / "real").mkdir()
    (above / "cache").symlink_to("real")
    folder = _store.folder()
    assert folder == above.resolve() / "real" / "tistreamlines" / "kernels"


@posix
def test_the_root_of_a_container_may_belong_to_anyone(above, monkeypatch):
    """As nobody, where the user of the host that owns it has no number in the container."""
    real, root = Path.stat, Path("/")

    def stat_of(path: Path, **named: Any) -> Any:
        status = real(path, **named)
        return os.stat_result((*status[:4], STRANGER, *status[5:10])) if path == root else status

    monkeypatch.setattr(Path, "stat", stat_of)
    assert _store.folder() == above / "cache" / "tistreamlines" / "kernels"


# ------------------------------------------------------------------------------------------------- what is shown
def test_a_text_is_run_and_shown_as_it_was_linked(store, tmp_path):
    """Taichi compiles what Python shows of a function, so that must be what was run too."""
    assert hits() == 0
    path = next(store.glob("*.py"))
    plant(store, tmp_path / "trace")
    aside = tmp_path / "aside.py"
    path.rename(aside)
    path.symlink_to(aside)
    loaded = module()
    assert "x[0] = 2 * x[0]" in inspect.getsource(loaded.twice.py_func)
    assert "touch" not in inspect.getsource(loaded)
    assert "touch" in aside.read_text()  # a link's end is nobody's business
    assert path.read_text() == TWICE
    assert not (tmp_path / "trace").exists()


# ------------------------------------------------------------------------------------------------- damage
@pytest.mark.parametrize("damage", ["cut", "turned over", "emptied"])
def test_damaged_files_are_made_again(store, damage):
    assert hits() == 0
    for path in store.iterdir():
        content = bytearray(path.read_bytes())
        if damage == "turned over":
            content[len(content) // 2] ^= 16
        path.write_bytes(content if damage == "turned over" else content[: len(content) // 2 * (damage == "cut")])
    assert [hits(), hits()] == [0, 1]
    assert next(store.glob("*.py")).read_text() == TWICE
    assert _store.notes() == []


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no FIFOs")
@pytest.mark.parametrize("kind", ["link", "FIFO", "written by others"])
def test_what_is_no_file_of_the_user_is_not_read(store, tmp_path, kind):
    """Nor waited for."""
    assert hits() == 0
    for path in store.iterdir():
        if kind == "written by others":
            path.chmod(0o666)
        else:
            path.rename(tmp_path / path.name)
            path.symlink_to(tmp_path / path.name) if kind == "link" else os.mkfifo(path)
    assert [hits(), hits()] == [0, 1]
    assert all(path.is_file() and not path.is_symlink() for path in store.iterdir())


def test_code_of_another_function_is_not_run(store):
    """Under this one's name; it is whole, but was made for other arguments."""
    assert hits() == 0
    (path,) = store.glob("*.bin")
    content = path.read_bytes()[32:]
    path.write_bytes(_store.seal(path.with_name("other.bin"), content) + content)
    assert [hits(), hits()] == [0, 1]
    content = path.read_bytes()
    assert content[:32] == _store.seal(path, content[32:])


def test_a_full_disk_is_a_note(store):
    """A limit on the size of files stands in for it: the folder can be written, but not so much."""
    resource = pytest.importorskip("resource", reason="Windows has no such limit")
    held = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(TWICE), held[1]))
    try:
        first = hits()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, held)
    assert first == 0
    assert [path.suffix for path in store.iterdir()] == [".py"]  # and no draft
    (note,) = _store.notes()
    assert f"since {store} cannot be written (File too large): let XDG_CACHE_HOME" in note
    assert [hits(), hits()] == [0, 1]


def test_an_interrupted_write_leaves_nothing(store, monkeypatch):
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "replace", interrupted)
        hits()
    assert list(store.iterdir()) == []
    assert hits() == 0  # nor half a module


@pytest.fixture
def nowhere(no_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No folder that can be written, for a user without a home."""

    def missing() -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    monkeypatch.setattr(tempfile, "gettempdir", missing)


def test_a_run_can_do_without_a_folder(nowhere, tmp_path):
    assert hits() == 0
    loaded = module()
    assert "x[0] = 2 * x[0]" in inspect.getsource(loaded.twice.py_func)
    assert not hasattr(loaded, "__file__")
    (note,) = _store.notes()
    assert f"(tried: {tmp_path / 'file' / '.cache'}" in note


def test_a_run_tells_the_note_once(silent, track: Command, tmp_path):
    silent.append("kernels are compiled again")
    done = track(tmp_path / "a.tck")
    assert done.code == 0
    assert done.err.count("Note: kernels are compiled again\n") == 1
    assert _store.notes() == []


# ------------------------------------------------------------------------------------------------- calls
def test_a_run_that_finds_all_functions_compiled_does_without_numba(tmp_path):
    """What the first process compiles, unless it is in the cache, the second one finds."""
    code = (
        "import json, sys, tistreamlines as ts\n"
        "from tistreamlines.backends.numba import cache\n"
        "cache.compile_process = lambda *_: None\n"
        "result = ts.track(**json.loads(sys.argv[1]))\n"
        "print(result.n_streamlines, 'numba' in sys.modules)"
    )
    options = json.dumps(write_inputs(tmp_path))
    (count, _), answer = (python("-c", code, options).stdout.split() for _ in range(2))
    assert answer == [count, "False"]
    assert int(count) > 50


def test_arrays_that_numba_would_take_otherwise_are_refused(store):
    double = _cache.Function(TWICE, "twice")
    for array in (np.ones(8)[::2], np.ones(3, ">f8"), np.ones(20, np.uint8)[1:17].view(float)):
        with pytest.raises(ValueError, match="contiguous, aligned and in the byte order"):
            double(array)
    number = np.array([2.5, 7.0], np.float32)
    double(number)
    assert np.array_equal(number, np.array([5, 7], np.float32))


def test_what_calls_more_than_its_machine_code_has_is_refused(store):
    """LLVM would end the process that loads it."""
    allocating = TWICE.replace("@compiled", "@numba.njit").replace("from", "import numba\nfrom", 1)
    with pytest.raises(TypeError, match="which its object file does not contain"):
        _cache.Function(allocating.replace("x[0] =", "y = [x[0]]; x[0] = len(y) +"), "twice")(np.ones(1))
    assert [path.suffix for path in store.iterdir()] == [".py"]


# ------------------------------------------------------------------------------------------------- threads, forks
def test_threads_that_ask_at_once_get_a_whole_module():
    text = f"# {os.urandom(8).hex()}\nimport time\ntime.sleep(0.1)\n\ndef answer():\n    return 42\n"
    together, answers = threading.Barrier(4), []

    def ask() -> None:
        together.wait()
        answers.append(_store.load(text).answer())

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [42] * 4


def test_a_module_that_fails_is_not_kept(store):
    text = "raise OSError('once')\n"
    for _ in range(2):
        with pytest.raises(OSError, match="once"):
            _store.load(text)


FORKS = """
    import json, multiprocessing, sys
    sys.path[:0] = [sys.argv[1]]
    from taichi_runs import SIDE, Doubler, digest, run, said
    from tistreamlines.devices import ARCHS, list_devices
    from tistreamlines.tracking.engine.engine import Engine

    def anew(_):
        return digest(list(run("cpu")))

    def inherited(_):
        return digest([batch for batch in engines[0].track(*seeds[0])])

    def on_gpu(_):
        return said(double), said(lambda: Doubler("vulkan")())

    engines, seeds, plain = [], [], Engine.track
    def noted(self, *arguments):
        engines.append(self), seeds.append(arguments)
        return plain(self, *arguments)
    Engine.track = noted
    found = {"here": anew(0)}
    gpu = any(device.arch == "vulkan" and device.available for device in list_devices())
    if gpu:
        double = Doubler("vulkan")
        found["gpu here"] = double()
    with multiprocessing.get_context("fork").Pool(2) as pool:
        for work in (anew, inherited, *([on_gpu] if gpu else [])):
            found[work.__name__] = pool.map_async(work, range(2)).get(60)
    print(json.dumps(found))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_workers_track_on_the_cpu_and_refuse_a_gpu():
    """What multiprocessing does on Linux unless told otherwise."""
    done = python("-c", textwrap.dedent(FORKS), SUPPORT)
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout.splitlines()[-1])
    assert answers["anew"] == answers["inherited"] == [answers["here"]] * 2
    if "gpu here" not in answers:
        pytest.skip("no Vulkan device for the second half")
    assert answers["gpu here"] == [0, 2, 4, 6, 8]
    for messages in answers["on_gpu"]:
        assert all("this process was forked from one that uses a GPU" in message for message in messages)


# ------------------------------------------------------------------------------------------------- Taichi
NOWHERE = """
    import os, sys
    sys.stdout = os.fdopen(os.dup(1), "w")  # as the command wraps it, of which Taichi would tell
    sys.path[:0] = [sys.argv[1]]
    def missing():
        raise FileNotFoundError("No usable temporary directory found")
    from tistreamlines.linker import store
    store._among_temporary_files = missing
    from taichi_runs import Doubler
    from tistreamlines.backends import notes
    assert Doubler("vulkan")() == [0, 2, 4, 6, 8]
    assert len(notes()) == 1 and notes() == []
"""


@pytest.mark.parametrize("home", [True, False])
def test_taichi_runs_where_nothing_can_be_written(home, tmp_path, monkeypatch):
    """Taichi ends the process where it cannot make its folder, or knows of no home to have one in."""
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    (tmp_path / "file").touch()
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "file"))
    prologue = "" if home else "import os, pwd; del os.environ['HOME']; pwd.getpwuid = {}.__getitem__\n"
    done = python("-c", prologue + textwrap.dedent(NOWHERE), SUPPORT)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "wrapped" not in done.stderr


def test_taichi_keeps_what_it_compiles_in_the_same_folder(store, nowhere, monkeypatch):
    assert _starting._storage(TAICHI)["offline_cache"] is False
    assert Path(_starting._storage(TAICHI)["offline_cache_file_path"]).is_dir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(store.parents[1]))
    expected = {"offline_cache": True, "offline_cache_file_path": str(store / "taichi")}
    assert _starting._storage(TAICHI) == expected


@pytest.mark.parametrize(("variable", "value"), [("TI_ARCH", "foo"), ("TI_ARCH", ""), ("TI_DEBUG", "abc")])
def test_variables_that_taichi_cannot_read_are_one_line(monkeypatch, variable, value):
    try:
        device = choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))

    class Taichi:
        ERROR = f32 = vulkan = None

        @staticmethod
        def set_logging_level(_: object) -> None: ...

        @staticmethod
        def init(**_: Any) -> None:
            int(os.environ[variable])  # as Taichi does

    monkeypatch.setenv(variable, value)
    monkeypatch.setattr(_starting, "import_module", lambda _: Taichi())
    with pytest.raises(DeviceError) as raised:
        _starting.initialise(TAICHI, device, {})
    expected = {"TI_DEBUG": "reads TI_DEBUG=abc from the environment: unset that"}
    assert expected.get(variable, f"makes Taichi run on {value!r}, not vulkan: unset it") in str(raised.value)


# ------------------------------------------------------------------------------------------------- what is told apart
def test_compiled_code_is_told_apart_by_all_that_it_copies(monkeypatch):
    """Numba copies the team's operations into what calls them, but that is known by the caller's text alone."""
    text, linked = _cache.text_of(CHUNK), link([], _dialect.dialect(), {}).text
    for package in ("numba", "llvmlite"):
        assert f"{package} {version(package)}" in text
        assert f"{package} {version(package)}" in linked
    real = Path.read_bytes
    changed = lambda path: real(path) + (b"#" if path.name == "simd.py" else b"")  # noqa: E731
    monkeypatch.setattr(Path, "read_bytes", changed)
    monkeypatch.setattr(_cache, "made_by", _cache.made_by.__wrapped__)
    monkeypatch.setattr(_dialect, "made_by", _cache.made_by)
    assert _cache.text_of(CHUNK) != text
    assert link([], _dialect.dialect(), {}).text != linked
