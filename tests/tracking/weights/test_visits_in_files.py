"""Visits that a limit of memory has no room for are in a file, and the weights are the same."""

import sys
import tempfile
from functools import partial
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import assert_same_bits, importing, one_line, python
from fods import random_fods
from visited import fixel_table, fixels_with, weigh_within

from tistreamlines.devices import ARCHS, choose
from tistreamlines.errors import InputError, OutputError
from tistreamlines.tracking.weights.options import Sift2Options
from tistreamlines.tracking.weights.sift2 import sift2
from tistreamlines.tracking.weights.visit_list import StoredWords, VisitFile, VisitList
from tistreamlines.tracking.weights.visit_memory import VisitBuffer, VisitMemory

COUNT = 2000


# ------------------------------------------------------------------------------------------------------------ the bits
@pytest.fixture
def passes(monkeypatch):
    """Notes the size of each piece that is fetched for a pass."""
    seen, filled = [], VisitBuffer.fill

    def noting(buffer, words):
        seen.append(len(words))
        return filled(buffer, words)

    monkeypatch.setattr(VisitBuffer, "fill", noting)
    return seen


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The weights without a limit."""
    weights, stored = weigh_within(None, tmp_path_factory.mktemp("whole"), COUNT, threads=1)
    assert not stored and len(weights.iterations) > 10 and weights.coefficients.std() > 0.1
    return weights


@pytest.mark.parametrize(("threads", "batches", "left", "in_file"), [
    (1, 1, 8_000, True), (1, 9, 12_000, True), (1, 40, 60_000, True),
    # visits that come take at most half of the limit, so none is in the file until other things take more than half
    (1, 1, 82_000, False), (2, 9, 28_000, False), (2, 40, 115_000, False),
])
def test_a_limit_does_not_change_the_weights(tmp_path, passes, whole, threads, batches, left, in_file):
    weights, stored = weigh_within(left, tmp_path, COUNT, threads=threads, parts=batches)
    np.testing.assert_array_equal(weights.coefficients, whole.coefficients)
    assert [state.data for state in weights.iterations] == [state.data for state in whole.iterations]
    assert (stored > 0) == in_file
    assert 4 * threads * max(passes) <= left + 100
    # several pieces, each for two passes at first and for two in each iteration
    assert len(passes) >= 2 * (2 * len(weights.iterations))


def test_without_need_nothing_is_fetched(tmp_path, passes, whole):
    weights, stored = weigh_within(10**9, tmp_path, COUNT, threads=1)
    np.testing.assert_array_equal(weights.coefficients, whole.coefficients)
    assert not stored and not passes


def compute(arch, left=20_000):
    """Weights on an arch under a limit, with visits in a file and in the host's memory."""
    with tempfile.TemporaryDirectory() as folder:
        rules = {"max_iters": 4, "min_iters": 4, "max_factor": 1.5, "min_factor": 0.6, "reg_tikhonov": 0.1}
        weights, stored = weigh_within(left, Path(folder), COUNT, arch=arch, parts=9, **rules)
    assert stored or left is None
    return {"coefficients": weights.coefficients}


@pytest.fixture(scope="module")
def without_a_limit():
    """The weights that the CPU computes."""
    return compute("cpu", left=None)


@pytest.mark.parametrize("arch", [arch for arch in ARCHS if arch != "cpu"])
def test_devices_weigh_alike_under_a_limit(arch, tmp_path, without_a_limit):
    assert_same_bits(__file__, arch, tmp_path, without_a_limit)


# ---------------------------------------------------------------------------------------------------------- the memory
TEAMS, DEPTH, PARTS = 1000, 32, 20
VISITS_GB = 4 * 32 * TEAMS * DEPTH * PARTS / 1e9


def peak_gb():
    """The most memory that this process has had; unlike ru_maxrss, it does not begin with that of its parent."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) * 1024 / 1e9


def made_up(number, fixels):
    """A part of random visits."""
    rng, count = np.random.default_rng(number), 32 * TEAMS
    words = (rng.integers(0, fixels, count * DEPTH) | (rng.integers(1, 90, count * DEPTH) << 24)).astype(np.int32)
    order = np.arange(number * count, (number + 1) * count, dtype=np.int32)
    begin, depth = np.arange(0, count * DEPTH, 32 * DEPTH, dtype=np.int32), np.full(TEAMS, DEPTH, np.int32)
    return VisitList(order, begin, depth, words)


def weigh_many(folder, limit_gb):
    """Weights of made-up visits, the peak of memory so far, and how many parts are in a file."""
    table, device = fixel_table(), choose("cpu")
    limit = None if limit_gb is None else int(limit_gb * 1e9)
    room = VisitMemory(table.count, device, 2, limit=limit, beside=Path(folder) / "w.txt")
    parts = [room.keep(made_up(number, table.count)) for number in range(PARTS)]
    stored = sum(isinstance(part.words, StoredWords) for part in parts)
    fixels = fixels_with(table, np.linspace(0.1, 1.0, table.count), np.ones(table.counts.shape))
    options = Sift2Options(sift2_max_iters=2, sift2_min_iters=2)
    weighed = sift2(fixels, parts, PARTS * 32 * TEAMS, device, options, memory=room)
    room.close()
    return weighed.coefficients, peak_gb(), stored


def compare_peaks(folder):
    """Print the peaks with and without a limit; fail if the weights differ."""
    weigh_many(folder, 0.03)  # compiles
    limited, least, stored = weigh_many(folder, 0.03)
    half, _, partly = weigh_many(folder, 0.8 * VISITS_GB)
    whole, most, none = weigh_many(folder, None)
    np.testing.assert_array_equal(limited, whole)
    np.testing.assert_array_equal(half, whole)
    assert PARTS - 4 <= stored <= PARTS and 0 < partly < PARTS - 4 and none == 0
    print(least, most)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of memory from /proc")
def test_a_limit_keeps_visits_out_of_memory(tmp_path):
    """Of 20 million visits, in a process of their own; by day, fewer visits are only counted."""
    code = f"{Path(__file__).stem}.compare_peaks(sys.argv[1])"
    done = python("-c", importing(__file__) + code, tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    least, most = map(float, done.stdout.split())
    assert most - least > 0.6 * VISITS_GB
    assert not list(tmp_path.iterdir())


# ------------------------------------------------------------------------------------------------------------ the file
def left_open(folder):
    """What this process has open in a folder, with or without a name."""
    names = []
    for link in Path("/proc/self/fd").iterdir():
        try:
            names.append(str(link.readlink()))
        except OSError:  # that of the listing itself
            continue
    return [name for name in names if name.startswith(str(folder))]


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc, or writes to /dev/full")


@on_linux
def test_nothing_is_left_of_the_file(tmp_path):
    file = VisitFile(tmp_path / "w.txt")
    words = np.arange(1000, dtype=np.int32)
    first, second = file.put(words), file.put(words[::-1])
    assert left_open(tmp_path) and not list(tmp_path.iterdir())  # it has no name, so no signal can leave it
    out = np.empty(1000, np.int32)
    file.read(second[10:20].first, out[:10])
    np.testing.assert_array_equal(out[:10], words[::-1][10:20])
    file.read(first.first, out)
    np.testing.assert_array_equal(out, words)
    file.close()
    assert not left_open(tmp_path)
    forgotten = VisitFile(tmp_path / "w.txt")
    forgotten.put(words)
    assert left_open(tmp_path)
    del forgotten
    assert not left_open(tmp_path)


@on_linux
def test_nothing_is_left_after_an_error(tmp_path):
    table = fixel_table()
    nothing = fixels_with(table, np.ones(table.count), np.zeros(table.counts.shape))
    with pytest.raises(InputError, match="in one space"):
        weigh_within(8_000, tmp_path, COUNT, fixels=nothing, threads=1)
    assert not left_open(tmp_path) and not list(tmp_path.iterdir())


def test_reading_needs_no_function_that_a_system_lacks(tmp_path, monkeypatch):
    """As on Windows."""
    monkeypatch.delattr("os.preadv", raising=False)
    file = VisitFile(tmp_path / "w.txt")
    parts = [file.put(np.full(100, number, np.int32)) for number in range(3)]
    for number in (2, 0, 1):
        out = np.empty(100, np.int32)
        file.read(parts[number].first, out)
        assert (out == number).all()
    file.close()


# ------------------------------------------------------------------------------------------------- of the command line
@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with random FODs and straight streamlines there, which is the current one."""
    functions, _ = random_fods(8 * 8 * 8, seed=1)
    nib.save(nib.Nifti1Image(functions.reshape(8, 8, 8, -1), np.diag([2, 2, 2, 1.0])), tmp_path / "fod.nii.gz")
    ends = np.random.default_rng(4).uniform(0, 14, (2, 4000, 1, 3))
    along = np.linspace(0, 1, 30)[:, None]
    lines = (ends[0] + along * (ends[1] - ends[0])).astype(np.float32)
    nib.streamlines.save(nib.streamlines.Tractogram(list(lines), affine_to_rasmm=np.eye(4)), tmp_path / "a.tck")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def mapped(run, name, *words):
    """Weigh them."""
    asked = ("--sift2", "fod.nii.gz", name, "--basis", "tournier07", "--threads", "1", "-q", *words)
    return run("map", "a.tck", *asked)


def test_the_command_weighs_alike_under_a_limit(place, run, passes):
    assert mapped(run, "whole.txt").code == 0
    assert not passes
    assert mapped(run, "limited.txt", "--memory-limit", "0.00046").code == 0
    assert len(passes) > 20
    assert (place / "limited.txt").read_bytes() == (place / "whole.txt").read_bytes()
    assert not [path for path in place.iterdir() if path.name.startswith(".")]


def test_a_limit_that_is_too_small_is_told_in_a_line(place, run):
    before = sorted(place.iterdir())
    # at once for the fixels alone, and when streamlines come that need more
    one_line(mapped(run, "w.txt", "--memory-limit", "0.00001"), 2, "--memory-limit is 1e-05 GB", " of 0 streamlines")
    one_line(mapped(run, "w.txt", "--memory-limit", "0.00038"), 2, "is 0.00038 GB", " of 4,000 streamlines", "or more")
    assert sorted(place.iterdir()) == before


@on_linux
def test_a_full_disk_is_told_in_a_line(place, run, monkeypatch):
    before = sorted(place.iterdir())
    full = partial(Path("/dev/full").open, "r+b", buffering=0)
    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: full())
    outcome = mapped(run, "w.txt", "--memory-limit", "0.00046")
    one_line(outcome, 1, "w.txt: visits of streamlines", "No space left on device", "--memory-limit")
    with pytest.raises(OutputError, match="greater memory_limit"):
        VisitFile(place / "w.txt").put(np.zeros(10, np.int32))
    assert sorted(place.iterdir()) == before
