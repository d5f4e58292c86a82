"""Processes that help a run find their modules where the run does, and never in the current folder."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from commands import python
from nights import at_night
from present import SOFTWARE
from small_runs import words_of, write_inputs

from tistreamlines import helpers
from tistreamlines.__main__ import _leave_current_folder

# of packages that are installed, and of some that libraries look for and do without
OTHERS = ("dipy", "nibabel", "numba", "numpy", "scipy", "taichi", "tistreamlines", "cupy", "pandas", "sitecustomize")
COMMAND = """
from tistreamlines.__main__ import main
main()
"""
TRACK = ["--dg", "det", "--nseeds", "60", "--max-steps", "20"]
KINDS = {
    "cpu": ["--arch", "cpu"],
    "beside a GPU": ["--arch", "vulkan"],
    "workers": ["--arch", "vulkan", "--devices", "0", "--resume"],
}


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    """A folder with a file for each name of the standard library, which leaves a trace if it is imported."""
    folder = tmp_path_factory.mktemp("planted")
    for name in {*sys.stdlib_module_names, *OTHERS}:
        trace = str(folder / f"{name}.imported")
        (folder / f"{name}.py").write_text(f"open({trace!r}, 'w').close()\nraise ImportError('not mine')\n")
    (folder / "elsewhere").mkdir()
    (folder / "elsewhere" / "command.py").write_text(COMMAND)
    return folder


def run_in(folder, *command, **variables):
    """Run a command there; return what it left, and the names that were imported from there."""
    done = subprocess.run(
        [sys.executable, *map(str, command)], cwd=folder, env=os.environ | variables, capture_output=True, text=True,
        timeout=300, check=False,
    )
    traces = sorted(folder.glob("*.imported"))
    for trace in traces:
        trace.unlink()
    return done, [trace.stem for trace in traces]


def test_the_trap_works(planted):
    """Python itself imports what ``python -c`` finds in the current folder."""
    done, imported = run_in(planted, "-c", "import sys, shlex")
    assert done.returncode == 1
    assert imported == ["shlex"]


@pytest.mark.parametrize("kind", ["workers", *at_night("cpu", "beside a GPU")])
def test_nothing_of_the_current_folder_is_imported(head, planted, tmp_path, kind):
    if "vulkan" in KINDS[kind] and not SOFTWARE:
        pytest.skip("needs software Vulkan (Debian: mesa-vulkan-drivers, libvulkan1)")
    fitted = [*head.series, "--mask", head.mask, *TRACK]
    words = fitted if kind == "cpu" else words_of(write_inputs(tmp_path))
    command = [planted / "elsewhere" / "command.py", "track", *words, "-o", tmp_path / "a.trx", *KINDS[kind]]
    done, imported = run_in(planted, *command)
    assert not imported
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "a.trx").stat().st_size > 0


@pytest.mark.parametrize("arguments", [["devices", "--test"], ["benchmark", "--help"]])
def test_nor_by_the_tests_of_devices(planted, arguments):
    done, imported = run_in(planted, planted / "elsewhere" / "command.py", *arguments)
    assert not imported
    assert done.returncode == 0, done.stderr


def test_nor_by_modules_that_are_run(planted):
    """As the benchmark's, whose command is the one of ``python -m``."""
    command = helpers.module("tistreamlines", "track", "--citations")
    done, imported = run_in(planted, *command[1:])
    assert not imported
    assert "Garyfallidis" in done.stdout, done.stderr


def test_python_m_leaves_the_current_folder(tmp_path):
    """Once Python has found the package; until then it imports runpy and the like from there."""
    before = tmp_path / "before"
    before.mkdir()
    for name in ("__init__.py", "__init__.pyi"):
        (before / name).write_text((Path(helpers.PACKAGES) / "tistreamlines" / name).read_text())
    (before / "__main__.py").write_text("import sys; print(*sys.modules)")
    done, _ = run_in(tmp_path, "-m", "before")
    late = sys.stdlib_module_names - {name.split(".")[0] for name in done.stdout.split()}
    for name in late:
        (tmp_path / f"{name}.py").write_text("raise SystemExit('of the current folder')\n")
    done, _ = run_in(tmp_path, "-m", "tistreamlines", "track", "--citations", PYTHONPATH=helpers.PACKAGES)
    assert "Garyfallidis" in done.stdout, done.stderr
    assert {"signal", "json", "pathlib", "socket"} <= late


@pytest.mark.parametrize(("folder", "left"), [("elsewhere", ["b"]), ("", ["b", helpers.PACKAGES])])
def test_only_the_packages_own_folder_stays(tmp_path, monkeypatch, folder, left):
    """Behind all others."""
    current = tmp_path if folder else Path(helpers.PACKAGES)
    monkeypatch.chdir(current)
    monkeypatch.setattr(sys, "path", [str(current), "b"])
    _leave_current_folder()
    assert sys.path == left
    monkeypatch.setattr(sys, "path", ["a", str(current)])
    _leave_current_folder()
    assert sys.path == ["a", str(current)]


def test_a_helper_finds_what_the_run_does(tmp_path):
    """In folders that the run has added, but names of the standard library are the library's."""
    (tmp_path / "own_method.py").write_text("known = 'yes'\n")
    (tmp_path / "shlex.py").write_text("quote = print\n")
    code = (
        f"import subprocess, sys; sys.path.insert(0, {str(tmp_path)!r})\n"
        "from tistreamlines.helpers import helper\n"
        "code = 'import own_method, shlex, sys; print(own_method.known, shlex.quote(\"a b\"), sys.argv[1:])'\n"
        "subprocess.run(helper(code, '--', 'c'), check=True)\n"
    )
    done = python("-c", code)
    assert done.stdout == "yes 'a b' ['--', 'c']\n", done.stderr


def test_a_helper_is_as_isolated_as_the_run(tmp_path):
    (tmp_path / "shlex.py").write_text("raise SystemExit('of PYTHONPATH')\n")
    code = "from tistreamlines.helpers import helper; import subprocess; "
    code += "subprocess.run(helper('import shlex; print(shlex.__name__)'), check=True)"
    done, _ = run_in(tmp_path, "-I", "-c", code, PYTHONPATH=str(tmp_path))
    assert done.stdout == "shlex\n", done.stderr


def test_warnings_of_libraries_are_no_errors(head, tmp_path):
    """DIPY warns of the basis of --dg boot."""
    files = [*head.series, "--mask", head.mask, "-o", tmp_path / "a.trx", "--nseeds", "20", "--max-steps", "10"]
    done, _ = run_in(tmp_path, "-W", "error", "-m", "tistreamlines", "track", *files, "--arch", "cpu", "-q")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""


@pytest.mark.parametrize(("flags", "variables"), [(["-W", "error"], {}), ([], {"PYTHONWARNINGS": "error"})])
def test_nor_are_they_in_helpers(tmp_path, flags, variables):
    code = "from tistreamlines.helpers import helper; import subprocess; "
    code += "subprocess.run(helper('import warnings; warnings.warn(\"seen\")'), check=True)"
    done, _ = run_in(tmp_path, *flags, "-c", code, **variables)
    assert done.returncode == 0, done.stderr
    assert "UserWarning: seen" in done.stderr


@pytest.mark.parametrize("flags", [["-OO"], ["-O"]])
def test_without_docstrings_one_line_says_so(flags):
    done, _ = run_in(Path.cwd(), *flags, "-m", "tistreamlines", "track", "--citations")
    if flags == ["-O"]:
        assert done.returncode == 0 and "Garyfallidis" in done.stdout
    else:
        assert done.returncode == 1
        assert done.stderr.startswith("Error: python -OO") and done.stderr.count("\n") == 1


def test_threads_that_numba_cannot_start_are_not_needed():
    code = """
import numba
from tistreamlines.backends.numba import program
print(program._threads_of_numba() > 0)
"""
    done, _ = run_in(Path.cwd(), "-c", code, NUMBA_THREADING_LAYER="nonsense")
    assert done.stdout == "True\n", done.stderr


def test_a_numba_that_another_thread_imports_has_no_threads_yet():
    code = """
import sys
from types import ModuleType
from tistreamlines.backends.numba import program
sys.modules["numba"] = ModuleType("numba")
print(program._threads_of_numba())
"""
    done, _ = run_in(Path.cwd(), "-c", code, NUMBA_NUM_THREADS="3")
    assert done.stdout == "3\n", done.stderr
