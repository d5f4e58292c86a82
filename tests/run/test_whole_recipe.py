"""A subject's whole recipe, from a series of three shells to weights and matrices: killed, and on a full disk."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from subject import PRESET, write_subject

pytestmark = pytest.mark.nightly
SHAPE, SELECT = (24, 29, 24), 300
KILLS = 30
SMALL_PIECES = (
    "import sys; from tistreamlines.run import resume; resume.FEWEST = resume.MOST = 40\n"
    "from tistreamlines.cli.main import main; main()"
)
FILES = {"a.trx", "a_weights.txt", "m.csv", "m_inverse-volume.csv", "m_unweighted-count.csv", "m_nodes.tsv"}  # and more


@pytest.fixture(scope="module")
def command(tmp_path_factory):
    """The command of the recipe, without its outputs."""
    folder = tmp_path_factory.mktemp("subject")
    (atlas,) = write_subject(folder, SHAPE, 1)
    words = [
        "track", folder / "dwi.nii", folder / "dwi.bval", folder / "dwi.bvec", "--mask", folder / "mask.nii.gz",
        "--preset", PRESET, "--act", folder / "5tt.nii.gz", "--select", SELECT, "--arch", "cpu", "-q",
    ]
    return [sys.executable, "-c", SMALL_PIECES, *map(str, words), "--connectome", str(atlas)]


def outputs(to: Path) -> list[str]:
    return [str(to / "m.csv"), "-o", str(to / "a.trx")]


def contents(folder: Path) -> dict[str, bytes]:
    """Bytes of the files but the record, which has times."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}


@pytest.fixture(scope="module")
def whole(command, tmp_path_factory):
    """What a run leaves that nothing breaks, and its seconds once kernels are compiled."""
    folders = [tmp_path_factory.mktemp("whole") for _ in range(2)]
    for folder in folders:
        begun = time.perf_counter()
        subprocess.run([*command, *outputs(folder)], check=True)
    seconds = time.perf_counter() - begun
    assert set(contents(folders[0])) > FILES
    assert contents(folders[0]) == contents(folders[1])
    return contents(folders[0]), seconds


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kills_at_random_moments(command, whole, tmp_path):
    """Runs go on after each kill until they end; then another one begins."""
    expected, seconds = whole
    moments, ended, left = random.Random(1), 0, KILLS
    while left or not ended:
        (folder := tmp_path / str(ended)).mkdir(exist_ok=True)
        process = subprocess.Popen([*command, *outputs(folder), "--resume"])
        try:
            process.wait(moments.uniform(0, 1.2 * seconds) if left else None)
        except subprocess.TimeoutExpired:
            number = moments.choice((signal.SIGKILL, signal.SIGTERM))
            os.kill(process.pid, number)
            assert process.wait(60) in (0, -number, 128 + number)
            left -= 1
        if process.returncode == 0 or (folder / "a.json").exists():  # which is written last, before the process ends
            assert contents(folder) == expected
            ended += 1


@pytest.mark.skipif(sys.platform == "win32", reason="no limit on files")
@pytest.mark.parametrize("kilobytes", [1, 3, 8, 20, 50, 100, 200, 400, 800])
def test_a_full_disk(command, whole, tmp_path, kilobytes):
    """A limit on the size of files stands in for it, which each kind of file meets in turn."""
    limit = kilobytes * 1000

    def set_limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [*command, *outputs(tmp_path)], preexec_fn=set_limit, capture_output=True, text=True, check=False,
        env=environment,
    )
    if max(map(len, whole[0].values())) < limit:
        assert (done.returncode, contents(tmp_path)) == (0, whole[0])
        return
    assert done.returncode == 1, done.stderr
    lines = [line for line in done.stderr.splitlines() if not line.startswith(("Note: ", "Warning: "))]
    assert len(lines) == 1 and lines[0].startswith("Error: ") and "File too large" in lines[0], done.stderr
    assert not [*tmp_path.iterdir()]
