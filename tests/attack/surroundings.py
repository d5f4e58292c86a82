"""What a run finds around it: variables, folders, limits, closed files, another user."""

from __future__ import annotations

import os
import random
import resource
import shutil
import subprocess
from collections.abc import Callable, Mapping
from functools import cache, partial

from .material import track
from .room import COMPILING, Outcome, Room, number_up_to, spoken

STRANGER = ("unshare", "--user", "--map-user=12345")  # a user without a name, who may not do what root may
NOWHERE = "/nonexistent/folder"
VARIABLES: tuple[Mapping[str, str | None], ...] = (
    {"HOME": None}, {"HOME": NOWHERE}, {"HOME": ""}, {"HOME": None, "XDG_CACHE_HOME": None},
    {"HOME": NOWHERE, "XDG_CACHE_HOME": None}, {"XDG_CACHE_HOME": ""}, {"XDG_CACHE_HOME": NOWHERE},
    {"XDG_CACHE_HOME": "dwi.nii.gz"}, {"XDG_CACHE_HOME": "../tmp"}, {"XDG_CACHE_HOME": "/proc"},
    {"XDG_CACHE_HOME": "../\udcff"}, {"XDG_CACHE_HOME": "x" * 300}, {"TMPDIR": NOWHERE}, {"TMPDIR": ""},
    {"TMPDIR": "dwi.nii.gz"}, {"TMPDIR": "/proc", "XDG_CACHE_HOME": "/proc"}, {"TMPDIR": None, "TEMP": "a", "TMP": "b"},
    {"TI_ARCH": "cuda"}, {"TI_ARCH": "nonsense"}, {"TI_LOG_LEVEL": "error"}, {"TI_OFFLINE_CACHE": "0"},
    {"TI_OFFLINE_CACHE_FILE_PATH": NOWHERE}, {"TI_VISIBLE_DEVICE": "99"}, {"TI_LIB_DIR": NOWHERE}, {"TI_DEBUG": "1"},
    {"NUMBA_NUM_THREADS": "1"}, {"NUMBA_NUM_THREADS": "5"}, {"NUMBA_NUM_THREADS": "0"}, {"NUMBA_NUM_THREADS": "many"},
    {"NUMBA_NUM_THREADS": "-1"}, {"NUMBA_CACHE_DIR": NOWHERE}, {"NUMBA_CACHE_DIR": "../tmp"},
    {"NUMBA_DISABLE_JIT": "1"}, {"NUMBA_CPU_NAME": "generic"}, {"NUMBA_CPU_NAME": "nonsense"}, {"NUMBA_OPT": "0"},
    {"NUMBA_BOUNDSCHECK": "1"},
    {"NUMBA_THREADING_LAYER": "nonsense"}, {"NUMBA_CAPTURED_ERRORS": "nonsense"}, {"NUMBA_ENABLE_AVX": "0"},
    {"OMP_NUM_THREADS": "1"}, {"OMP_NUM_THREADS": "many"}, {"OPENBLAS_NUM_THREADS": "1"},
    {"OPENBLAS_NUM_THREADS": "64"}, {"OPENBLAS_CORETYPE": "Nehalem"},
    {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    {"LC_ALL": "nonsense"}, {"PYTHONIOENCODING": "ascii"}, {"PYTHONIOENCODING": "utf-16"}, {"PYTHONOPTIMIZE": "1"},
    {"PYTHONDONTWRITEBYTECODE": "1"}, {"PYTHONHASHSEED": "17"}, {"PYTHONUNBUFFERED": "1"}, {"PYTHONSAFEPATH": "1"},
    {"PYTHONWARNINGS": "default"}, {"PYTHONFAULTHANDLER": "1"}, {"PYTHONMALLOC": "debug"}, {"PYTHONNOUSERSITE": "1"},
    {"TERM": None}, {"TERM": "dumb"}, {"COLUMNS": "1"}, {"COLUMNS": "nonsense"}, {"NO_COLOR": "1"}, {"PATH": ""},
    {"PATH": None}, {"MPLCONFIGDIR": NOWHERE}, {"MPLBACKEND": "nonsense"}, {"CUDA_VISIBLE_DEVICES": "99"},
    {"PYTHONOPTIMIZE": "2"}, {"PYTHONWARNINGS": "error"}, {"PYTHONWARNINGS": "nonsense"}, {"PYTHONDEVMODE": "1"},
    {"PYTHONSTARTUP": "dwi.nii.gz"}, {"PYTHONINTMAXSTRDIGITS": "640"}, {"PYTHONBREAKPOINT": "0"},
    {"NUMBA_THREADING_LAYER": "tbb"}, {"NUMBA_DEBUGINFO": "1"}, {"NUMBA_LOOP_VECTORIZE": "0"}, {"NUMBA_NRT_STATS": "1"},
    {"NUMBA_DISABLE_INTEL_SVML": "1"}, {"NUMBA_DEVELOPER_MODE": "1"}, {"NUMBA_FULL_TRACEBACKS": "1"},
    {"SOURCE_DATE_EPOCH": "0"}, {"DIPY_HOME": NOWHERE}, {"VK_ICD_FILENAMES": NOWHERE}, {"DISPLAY": ":99"},
    {"TZ": "nonsense"},
)


HOMES: tuple[Mapping[str, str | None], ...] = (
    {}, {"HOME": None}, {"HOME": None, "XDG_CACHE_HOME": None}, {"XDG_CACHE_HOME": "../none"},
)


def variables(rng: random.Random, room: Room) -> list[str]:
    """Set one or two sets of variables."""
    env: dict[str, str | None] = {}
    for chosen in rng.sample(VARIABLES, number_up_to(rng, 2)):
        env |= chosen
    room.did.append(" ".join(f"{name}={value}" if value is not None else f"-{name}" for name, value in env.items()))
    room.copy("cache")
    run = rng.choice(("boot", "det"))
    outcome = room.track(run, env=env, real=(), limit=COMPILING)
    faults = room.faults(outcome, run)
    # of a run that goes well, libraries may say what they think of their variables
    return faults if outcome.code else [fault for fault in faults if fault not in spoken(outcome)]


def strangers(rng: random.Random, room: Room) -> list[str]:
    """Run as a user without a name, where some folders may not be written to."""
    if not _may_be_strangers():
        return []
    cache = room.copy("cache")
    closed = rng.sample(("cache", "kernels", "tmp", "in", "out"), rng.randint(0, 3))
    folders = {"kernels": cache / "tistreamlines" / "kernels"}
    for name in closed:
        folders.get(name, room.folder / name).chmod(0o555)
    env = rng.choice(HOMES)
    room.did.append(f"closed: {', '.join(closed) or 'nothing'}; {env}")
    outcome = room.track("det", env=env, real=STRANGER, limit=COMPILING)
    codes = (1,) if "out" in closed else (0,)
    for name in closed:
        folders.get(name, room.folder / name).chmod(0o755)
    return room.faults(outcome, "det", codes=codes)


@cache
def _may_be_strangers() -> bool:
    if shutil.which(STRANGER[0]) is None:
        return False
    return not subprocess.run([*STRANGER, "true"], capture_output=True, check=False).returncode


def limits(rng: random.Random, room: Room) -> list[str]:
    """Run with little memory, few open files, or small files, as on a full disk."""
    name = rng.choice(("FSIZE", "FSIZE", "NOFILE", "AS"))
    value = {
        "FSIZE": rng.choice((0, 1, 100, rng.randrange(30_000), rng.randrange(100_000))),
        "NOFILE": rng.randint(5, 60), "AS": rng.randrange(1 << 29, 1 << 31),
    }[name]
    cache = room.copy("cache")
    if rng.random() < 0.5:  # small kernels have to be compiled, and kept
        for path in cache.rglob("*place_seed*"):
            path.unlink()
    room.did.append(f"RLIMIT_{name} {value}")
    limit = getattr(resource, f"RLIMIT_{name}"), (value, value)
    how = {"setup": partial(resource.setrlimit, *limit), "real": (), "limit": COMPILING}
    outcome = room.track("det", "--cache-dir", "../tables", **how)
    silent = name == "FSIZE" and value < 1000  # what it prints is cut too
    return _heard(room.faults(outcome, "det"), outcome, silent)


def _heard(faults: list[str], outcome: Outcome, silent: bool) -> list[str]:
    """Leave out what a run does not say, where it cannot."""
    return [fault for fault in faults if not silent or fault not in spoken(outcome)]


def streams(rng: random.Random, room: Room) -> list[str]:
    """Close or fill what the run prints to or reads from."""
    name = rng.choice(sorted(STREAMS))
    room.did.append(name)
    tracks = rng.random() < 0.6 and name != "folder gone"
    program = track("det", "../out/a.trx") if tracks else rng.choice(PROGRAMS)
    outcome = room.run(program, setup=STREAMS[name], real=())
    if tracks and room.digest() == room.clean["det"]["sha256"]:
        outcome.changed.clear()  # the tractogram is whole, though what is said of it cannot be
    silent = "stderr" in name or name == "all closed"
    return _heard(room.faults(outcome, "det" if tracks else None), outcome, silent)


def _to(number: int, path: str, mode: int) -> None:
    os.dup2(os.open(path, mode), number)


def _broken(number: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, number)


def _leave() -> None:
    """Go into a folder that is then removed."""
    os.mkdir("../tmp/gone")  # noqa: PTH102
    os.chdir("../tmp/gone")
    os.rmdir("../gone")  # noqa: PTH106


STREAMS: dict[str, Callable[[], object]] = {
    "stdin closed": partial(os.close, 0),
    "stdout closed": partial(os.close, 1),
    "stderr closed": partial(os.close, 2),
    "all closed": partial(os.closerange, 0, 3),
    "stdout full": partial(_to, 1, "/dev/full", os.O_WRONLY),
    "stderr full": partial(_to, 2, "/dev/full", os.O_WRONLY),
    "stdout for reading alone": partial(_to, 1, "/dev/null", os.O_RDONLY),
    "stdout a pipe that nobody reads": partial(_broken, 1),
    "stderr a pipe that nobody reads": partial(_broken, 2),
    "folder gone": _leave,
}
PROGRAMS = (
    ["--help"], ["--version"], ["devices"], ["devices", "--json"], ["track", "--citations"], ["track", "--help"],
    ["trak"], ["track", "--peaks", "a.nii", "-o", "a.trx"], ["track", "-o", "a.trx"],
)
