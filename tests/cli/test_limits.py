"""Limits of the system, and names that it does not accept: one line each."""

import errno
import os
import subprocess
import sys
import threading

import nibabel as nib
import numpy as np
import pytest
from commands import Outcome

from tistreamlines.cli import limits, main
from tistreamlines.errors import TrackingError

LINES = [np.cumsum(np.full((20, 3), 0.5, np.float32), axis=0) for _ in range(5)]
BYTE = os.fsdecode(b"\xff")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with a tractogram and a parcellation, in which commands are run."""
    tractogram = nib.streamlines.Tractogram(LINES, affine_to_rasmm=np.eye(4))
    nib.streamlines.save(tractogram, str(tmp_path / "a.tck"))
    nib.save(nib.Nifti1Image(np.ones((12, 12, 12), "i2"), np.eye(4)), tmp_path / "labels.nii")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def process(folder, *arguments, before="", **environment):
    """Run the command line in a process of its own."""
    code = f"{before}\nimport sys\nsys.argv[0] = 'tistreamlines'\nfrom tistreamlines.__main__ import main\nmain()"
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False,
        env={**os.environ, **environment}, errors="backslashreplace",
    )


def one_line(code, text, words, expected=1):
    assert code == expected, text
    (line,) = text.splitlines()
    assert line.startswith("Error: ")
    assert "unexpected" not in line
    assert words in line


@pytest.mark.parametrize("files", [5, 13])
def test_few_open_files(folder, files):
    before = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}, {files}))"
    done = process(folder, "map", "a.tck", before=before)
    one_line(done.returncode, done.stderr, f"the limit of open files is {files}, and 14 are needed")


def test_as_many_files_as_are_needed(folder):
    before = "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (14, 14))"
    done = process(folder, "map", "a.tck", "--ends", "e.nii", "--density-voxel", 2, before=before)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_thread_to_be_had(folder):
    """Root may start as many processes as it likes, so that this has to be pretended."""
    before = (
        "import threading\ndef no(*_):\n    raise RuntimeError(\"can't start new thread\")\n"
        "threading._start_new_thread = no"
    )
    done = process(folder, "map", "a.tck", before=before)
    one_line(done.returncode, done.stderr, "the system starts 0 threads, but libraries need")


def test_threads_of_libraries(monkeypatch):
    """OpenBLAS starts as many as its variables say, and no more than cores."""
    for name in limits.BLAS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)), raising=False)
    left = [0]

    class Thread(threading.Thread):
        def start(self):
            if not left[0]:
                raise RuntimeError("can't start new thread")
            left[0] -= 1
            super().start()

    monkeypatch.setattr(threading, "Thread", Thread)
    for value, needed in ((None, 17), ("3", 7), ("1", 3), ("100", 17), ("many", 17)):
        if value is not None:
            monkeypatch.setenv("OPENBLAS_NUM_THREADS", value)
        left[0] = needed
        limits.check_limits("map")
        left[0] = needed - 1
        with pytest.raises(TrackingError, match=f"starts {needed - 1} threads, but libraries need {needed}"):
            limits.check_limits("map")


@pytest.mark.parametrize("side", ["1e-320", "1e-300", "1e-30"])
@pytest.mark.parametrize("option", ["--density", "--ends"])
def test_voxels_of_no_size(folder, run, option, side):
    done = run("map", "a.tck", option, "e.nii", "--density-voxel", side)
    one_line(done.code, done.err, "voxels along an axis", 2)


def test_bytes_that_are_no_text(folder):
    """In a process of its own, whose messages are bytes."""

    def run(*arguments):
        done = process(folder, *arguments)
        return Outcome(done.returncode, done.stdout, done.stderr)

    check_name(folder, run, BYTE)


def test_names_that_are_odd(folder, run):
    """With what means something to a terminal, in markup and in formats."""
    check_name(folder, run, "\u2603 a b[bold]\x1b[31m%s{}")


def check_name(folder, run, name):
    """All files are read and written."""
    (folder / "a.tck").rename(folder / f"{name}.tck")
    (folder / "labels.nii").rename(folder / f"{name}_labels.nii")
    products = ["--ends", f"{name}_e.nii", "--density-voxel", 2, "--report", f"{name}.html"]
    done = run("map", f"{name}.tck", *products, "--connectome", f"{name}_labels.nii", f"{name}.csv")
    assert done.code == 0, done.err
    assert {f"{name}_e.nii", f"{name}.html", f"{name}.csv"} <= {path.name for path in folder.iterdir()}
    done = run("view", f"{name}.tck", "-o", f"{name}_v.html", "--image", f"{name}_labels.nii")
    assert done.code == 0, done.err


@pytest.mark.parametrize("name", ["x" * 300, "y/" * 3000 + "z"])
@pytest.mark.parametrize(
    "command",
    [
        ["map", "{}.tck", "--ends", "e.nii", "--density-voxel", "2"],
        ["map", "a.tck", "--ends", "{}.nii", "--density-voxel", "2"], ["map", "a.tck", "--report", "{}.html"],
        ["map", "a.tck", "--connectome", "labels.nii", "{}.csv"], ["view", "a.tck", "-o", "{}.html"],
        ["fixels", "labels.nii", "{}"], ["5tt", "labels.nii", "-o", "{}.nii"], ["join", "{}.trx", "-o", "b.trx"],
        ["track", "{}.mif", "-o", "b.trx"],
    ],
)
def test_names_that_are_too_long(folder, run, name, command):
    before = {*folder.iterdir()}
    done = run(*(word.format(name) for word in command))
    assert {*folder.iterdir()} == before
    one_line(done.code, done.err, "", done.code)
    assert done.code in (1, 2)


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OSError(errno.EMFILE, "Too many open files", "a.nii"), "a.nii: cannot be used (Too many open files): raise"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "a"), "a: cannot be used (File name too long): give"),
        (OSError(errno.ENOSPC, "No space left on device"), "cannot be used (No space left on device): free some space"),
        (RuntimeError("can't start new thread"), "the system starts no more threads: raise the limit of processes"),
        (RuntimeError("other"), "unexpected RuntimeError: other"), (OSError("other"), "unexpected OSError: other"),
    ],
)
def test_what_nothing_else_explains(error, words):
    assert words in vars(main)["_explanation"](error, None)


@pytest.mark.parametrize(("variable", "number", "kept"), [
    ("OMP_NUM_THREADS", "", "1"), ("OMP_NUM_THREADS", "2", ""), ("OPENBLAS_NUM_THREADS", "3", "3"),
])
def test_tracking_has_one_thread_of_blas_unless_the_user_sets_more(monkeypatch, variable, number, kept):
    for name in limits.BLAS_VARIABLES:
        monkeypatch.setenv(name, "")
    monkeypatch.setenv(variable, number)
    limits.keep_blas_single()  # which threads.py does not trust, since NumPy is loaded here
    assert os.environ["OPENBLAS_NUM_THREADS"] == kept
