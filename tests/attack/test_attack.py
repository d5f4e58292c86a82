"""A try of some classes; ``.ci/nightly`` makes 2,000 of all classes."""

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
# classes whose tries compile nothing, of each kind of attack
QUICK = (
    "damage-packed", "damage-record", "fuzz-options", "fuzz-headers", "folders", "caches-results", "resume", "join",
    "product-options", "names", "lines-damaged", "weights-files", "cohort-tables",
)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="/proc and /dev/full are Linux's")
def test_a_few_tries(tmp_path):
    """In a process of its own, since one that is forked may have no threads; many runs come before the first try."""
    classes = [word for name in QUICK for word in ("--only", name)]
    command = [sys.executable, "-m", "tests.attack", "--tries", str(len(QUICK)), *classes]
    done = subprocess.run([*command, "--out", tmp_path / "table.json"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    table = json.loads((tmp_path / "table.json").read_text())
    assert table["failures"] == 0
    assert {row["class"] for row in table["classes"] if row["tries"]} == {*QUICK}


def test_damage_is_the_same_again(tmp_path):
    files = [tmp_path / name for name in ("a", "b")]
    for seed in range(20):
        for file in files:
            file.write_bytes(bytes(range(256)))
        assert len({damage(random.Random(seed), file) for file in files}) == 1
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
