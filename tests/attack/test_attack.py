"""A few tries of every class; ``python -m tests.attack`` makes all of them."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("resource", reason="no forks and limits here")
from .damage import damage
from .room import Outcome, spoken

ROOT = Path(__file__).resolve().parents[2]
TRIES = 6


@pytest.mark.skipif(sys.platform != "linux", reason="/proc and /dev/full are Linux's")
def test_a_few_tries(tmp_path):
    """In a process of its own, since one that is forked may have no threads."""
    command = [sys.executable, "-m", "tests.attack", "--tries", str(TRIES), "--out", str(tmp_path / "table.json")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads((tmp_path / "table.json").read_text())
    assert table["tries"] >= TRIES
    assert table["failures"] == 0
    assert all(row["tries"] for row in table["classes"])


@pytest.mark.parametrize("seed", range(20))
def test_damage_is_the_same_again(tmp_path, seed):
    files = [tmp_path / name for name in ("a", "b")]
    for file in files:
        file.write_bytes(bytes(range(256)))
    told = {damage(random.Random(seed), file) for file in files}
    assert len(told) == 1
    assert files[0].read_bytes() == files[1].read_bytes() != bytes(range(256))


@pytest.mark.parametrize(
    ("code", "err", "right"),
    [
        (0, "", True),
        (0, "Note: chosen\nWarning: see\n", True),
        (0, "something\n", False),
        (1, "Error: a.nii: no such file\n", True),
        (1, "Note: chosen\nError: a.nii: no such file\n", True),
        (1, "Error: a.nii: no such file\nand more\n", False),
        (1, "", False),
        (1, "Error: unexpected KeyError: 3\n", False),
        (1, "Traceback (most recent call last):\nKeyError: 3\n", False),
        (2, "Usage: tistreamlines track\nTry 'tistreamlines track -h' for help.\n\nError: No such option: -x\n", True),
        (130, "Interrupted\n", True),
    ],
)
def test_words_are_judged(code, err, right):
    assert (not spoken(Outcome(code, "", err, []))) is right
