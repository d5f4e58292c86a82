"""SIFT beside MRtrix3's tcksift and a plain search, and the same selection everywhere."""

import json
import zipfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from empties import write
from mrtrix_tests import inputs, means_of_bundles
from nights import at_night
from present import PRESENT
from visited import STEP, curves, densities, lengths_of

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.io.maps import write_fixels
from tistreamlines.io.tractograms import stored_batches
from tistreamlines.tracking.weights.sift import SiftRules, sift
from tistreamlines.tracking.weights.visits import Visitor


# ---------------------------------------------------------------------------------------------------- beside tcksift
@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with MRtrix3's phantom, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("sift")
    return folder, inputs(folder, "tcksift")


CASES = {
    "to the end": ("", {}),
    "grey matter, a number": (
        "-act SIFT_phantom/5tt.mif -fd_scale_gm -term_number 3000", {"act": "5tt", "fd_scale_gm": True, "number": 3000}
    ),
    "mu": ("-term_mu 0.0025", {"mu": 0.0025}),
    "few fixels": ("-remove_untracked -fd_thresh 0.2", {"remove_untracked": True, "fd_thresh": 0.2}),
    "null lobes, mask": (
        "-no_dilate_lut -make_null_lobes -proc_mask SIFT_phantom/mask.mif",
        {"no_dilate_lut": True, "make_null_lobes": True, "proc_mask": "mask"},
    ),
    "a number beyond the end": ("-term_number 100", {"number": 100}),
}
BY_DAY = ("to the end", "grey matter, a number")


def table_of(name):
    """The rows of a table of iterations, without words: the first and the last one."""
    rows = [line.split(",")[:7] for line in Path(name).read_text().splitlines() if line[0].isdigit()]
    return np.array([rows[0], rows[-1]], float)


@pytest.mark.parametrize("case", [*BY_DAY, *at_night(*sorted({*CASES} - {*BY_DAY}))])
def test_selections_are_near_those_of_tcksift(place, case, monkeypatch):
    folder, call = place
    monkeypatch.chdir(folder)
    theirs, ours = CASES[case]
    call(f"tcksift SIFT_phantom/tracks.tck SIFT_phantom/fods.mif t.tck -csv t.csv -out_selection t.txt -out_mu tm.txt "
         f"{theirs} -nthreads 2")
    images = ("act", "proc_mask")
    named = {name: f"SIFT_phantom/{value}.mif" if name in images else value for name, value in ours.items()}
    result = ts.sift(
        "SIFT_phantom/tracks.tck", "SIFT_phantom/fods.mif", "o.tck", csv="o.csv", selection="o.txt", mu_file="om.txt",
        force=True, **named,
    )
    (first, last), (other_first, expected) = table_of("o.csv"), table_of("t.csv")
    np.testing.assert_allclose(first, other_first, rtol=1e-3)
    iteration, removed, total, left, cost, length, mu = last
    assert (iteration, removed) == (result.iterations[-1].number, result.iterations[-1].removed)
    assert (left, mu) == (len(result), pytest.approx(result.mu)) and total == 5000 - left
    assert abs(left - expected[3]) < 0.02 * 5000
    assert abs(cost - expected[4]) < 1e-3 * first[4]
    np.testing.assert_allclose([length, mu], expected[[5, 6]], rtol=0.05)
    np.testing.assert_allclose(np.loadtxt("om.txt"), np.loadtxt("tm.txt"), rtol=0.05)
    kept, other_kept = np.loadtxt("o.txt", bool), np.loadtxt("t.txt", bool)
    np.testing.assert_array_equal(kept, result.kept)
    assert kept.sum() == left == len(nib.streamlines.load("o.tck").streamlines)
    by_chance = kept.mean() * other_kept.mean()
    assert (kept & other_kept).mean() > by_chance + 0.4 * (min(kept.mean(), other_kept.mean()) - by_chance)
    assert ("not reached" in " ".join(result.warnings)) == (case == "a number beyond the end")


def test_both_bundles_have_the_density_of_the_phantom(place, run, monkeypatch):
    """MRtrix3's own test of tcksift, with its tolerance."""
    folder, call = place
    monkeypatch.chdir(folder)
    done = run("sift", "SIFT_phantom/tracks.tck", "SIFT_phantom/fods.mif", "-o", "own.tck", "--force")
    assert done.code == 0, done.err
    assert "own.tck: 2,520 of 5,000 streamlines, 0.1% of the cost of the densities is left" in done.out
    call("tckmap own.tck -template SIFT_phantom/mask.mif -precise own.mif")
    upper, lower = means_of_bundles("own.mif")
    assert abs(upper - lower) < 10
    assert json.loads((folder / "own.json").read_text())["result"]["streamlines"] == 2520


# --------------------------------------------------------------------------------------------- beside a plain search
COUNT = 240


def selection(threads=None, parts=1, **rules):
    """The selection of random curves, whose visits are found in so many parts."""
    fixels, lines = densities(), curves(COUNT, seed=11)
    visitor, visits = Visitor(fixels.table, STEP, choose("cpu"), threads), []
    for numbers in np.array_split(np.arange(COUNT), parts):
        visits += [part.renumber(int(numbers[0])) for part in visitor.parts(lines[numbers])]
    return sift(fixels, visits, np.diff(lines.offsets).astype(float), SiftRules(**rules), threads=threads)


class PlainSearch:
    """The same rules, with costs of all fixels in the place of their changes."""

    def __init__(self, number=None, ratio=None):
        fixels, lines = densities(), curves(COUNT, seed=11)
        self.units = lengths_of(Visitor(fixels.table, STEP, choose("cpu")).parts(lines), COUNT, fixels.table.count)
        self.fibres, self.masks, self.length = fixels.fibres, fixels.masks, np.diff(lines.offsets).astype(float)
        self.contributions = self.units @ self.masks
        self.kept, self.number, self.ratio = np.ones(COUNT, bool), number, ratio
        self.spare = [i for i in np.argsort(np.arange(COUNT) * 2654435761 % 2**32) if self.contributions[i] == 0]
        self.whole = self.length[self.contributions > 0].sum(), self.length[self.spare].sum()

    def cost(self, density, mu):
        return np.sum(self.masks * (mu * density - self.fibres) ** 2)

    def mu(self, density):
        return np.sum(self.masks * self.fibres) / np.sum(self.masks * density)

    def change(self, density, item, slope):
        """What tcksift computes: the change in the streamline's fixels, and in others to first order."""
        mu, left = self.mu(density), density - self.units[item]
        other, visited = self.mu(left), self.units[item] > 0
        inside = np.sum((self.masks * ((other * left - self.fibres) ** 2 - (mu * density - self.fibres) ** 2))[visited])
        slopes = 2 * self.masks * density * (mu * density - self.fibres)
        return slope * (other - mu) - np.sum(slopes[visited]) * (other - mu) + inside

    def run(self):
        strict = True
        while True:
            removed, reason = self.iterate(strict)
            if reason in ("number",) or (reason == "ratio" and not removed):
                return self.kept
            if not removed:
                if not (strict and reason == "own" and (self.number or self.ratio)):
                    return self.kept
                strict = False

    def iterate(self, strict):
        density = self.units[self.kept].sum(axis=0)
        mu, cost, removed = self.mu(density), None, 0
        cost = self.cost(density, mu)
        slope = np.sum(2 * self.masks * density * (mu * density - self.fibres))
        gradients = np.array([
            self.change(density, i, slope) if self.kept[i] and self.contributions[i] else 0.0 for i in range(COUNT)
        ])
        shares = np.divide(gradients, self.contributions, out=np.zeros(COUNT), where=self.contributions > 0)
        order = [i for i in np.argsort(shares, kind="stable") if shares[i] < 0]
        while True:
            if self.kept.sum() == self.number:
                return removed, "number"
            gone = self.length[~self.kept & (self.contributions > 0)].sum()
            spare_gone = self.length[~self.kept & (self.contributions == 0)].sum()
            left = [i for i in self.spare if self.kept[i]]
            if left and gone * self.whole[1] > spare_gone * self.whole[0]:
                self.kept[left[0]] = False
                removed += 1
                continue
            if not order:
                return removed, "positive"
            item = order.pop(0)
            density = self.units[self.kept].sum(axis=0)
            change, mu = self.change(density, item, slope), self.mu(density)
            if not change < gradients[item] - change:
                return removed, "not linear"
            if self.ratio and not -change / cost > self.ratio * self.length[item] / (self.whole[0] - gone):
                return removed, "ratio"
            if strict and not change < -0.5 * np.sum(self.masks * (mu * self.units[item]) ** 2):
                return removed, "own"
            self.kept[item] = False
            removed += 1


@pytest.mark.parametrize("rules", [{}, {"number": 224}, {"ratio": 0.1}, {"number": 3}], ids=str)
def test_selections_are_those_of_a_plain_search(rules):
    result, expected = selection(**rules), PlainSearch(**rules).run()
    assert 0 < expected.sum() < COUNT
    np.testing.assert_array_equal(result.kept, expected)


def test_selections_depend_neither_on_threads_nor_on_parts():
    whole = selection(threads=1)
    costs = [state.cost for state in whole.iterations]
    assert len(costs) > 3 and (np.diff(costs[:-1]) < 0).all()
    for threads, parts in ((2, 1), (3, 4)):
        other = selection(threads=threads, parts=parts)
        np.testing.assert_array_equal(other.kept, whole.kept)
        assert other.iterations == whole.iterations


def test_a_greater_ratio_keeps_more():
    counts = [selection(ratio=ratio).kept.sum() for ratio in (0.01, 0.1, 0.2, 1e6)]
    assert counts == sorted(counts) and counts[0] < counts[-2] <= counts[-1] == COUNT


# ------------------------------------------------------------------------------------------------------------- in files
@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Fixels along x in a folder, and streamlines there, beside them, and without points."""
    monkeypatch.chdir(tmp_path)
    index = np.stack([np.ones(1000), np.arange(1000)], axis=1).astype(np.uint32).reshape(10, 10, 10, 2)
    images = {"directions": np.tile(np.float32([1, 0, 0]), (1000, 1)), "fd": np.ones(1000, np.float32)}
    write_fixels(tmp_path / "fixels", index, images, ts.Space(np.eye(4), (10, 10, 10)), "mif", force=True)
    places = np.random.default_rng(0).integers(0, 10, (300, 2))
    places[:150] = places[:150] // 3 * 3  # several in the same place
    inside = [np.float32([[0, y, z], [4, y, z], [9, y, z]]) for y, z in places]
    outside = [line + np.float32([0, 0, 100]) for line in inside[:100]]
    streamlines = [*inside, *outside, *[np.zeros((0, 3), np.float32)] * 4]
    write(tmp_path / "a.tck", streamlines, np.eye(4), (10, 10, 10))
    write(tmp_path / "one.tck", inside[:1], np.eye(4), (10, 10, 10))
    return streamlines


def test_streamlines_beside_all_fixels_go_along(lines):
    """The same share of their length; those without points stay, as with tcksift."""
    result = ts.sift("a.tck", "fixels", number=200)
    assert len(result) == 200 and any("104 of 404 streamlines visit no fixel" in text for text in result.warnings)
    inside, outside, none = np.split(result.kept, [300, 400])
    assert none.all()
    assert abs(inside.mean() - outside.mean()) < 0.02
    alone = ts.sift("one.tck", "fixels")
    assert len(alone) == 1 and alone.iterations[-1].removed == 0


@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
def test_a_gpu_selects_the_same(lines):
    results = [ts.sift("a.tck", "fixels", number=200, arch=arch) for arch in ("cpu", "vulkan")]
    np.testing.assert_array_equal(results[0].kept, results[1].kept)
    assert results[0].iterations == results[1].iterations


def test_a_number_of_all_keeps_all(lines):
    result = ts.sift("a.tck", "fixels", "b.trk", number=len(lines))
    assert result.kept.all() and len(result.iterations) == 2
    assert sum(map(len, stored_batches(Path("b.trk")))) == len(lines)


def test_data_of_a_trx_follow_their_streamlines(lines, run):
    write(Path("a.trx"), lines, np.eye(4), (10, 10, 10))
    weights, seeds = np.arange(len(lines), dtype="<f4"), np.random.default_rng(1).random((len(lines), 3)).astype("<f4")
    with zipfile.ZipFile("a.trx", "a") as archive:
        archive.writestr("dps/weights.float32", weights.tobytes())
        archive.writestr("dps/seeds.3.float32", seeds.tobytes())
        archive.writestr("groups/even.uint32", np.arange(0, len(lines), 2, dtype="<u4").tobytes())
    done = run("sift", "a.trx", "fixels", "-o", "b.trx", "--number", 250, "--selection", "s.txt", "-q")
    assert done.code == 0, done.err
    kept = np.loadtxt("s.txt", bool)
    with zipfile.ZipFile("b.trx") as archive:
        assert archive.read("dps/weights.float32") == weights[kept].tobytes()
        assert archive.read("dps/seeds.3.float32") == seeds[kept].tobytes()
        group = np.frombuffer(archive.read("groups/even.uint32"), "<u4")
    np.testing.assert_array_equal(group, np.flatnonzero(weights[kept] % 2 == 0))
    record = json.loads(Path("b.json").read_text())
    assert record["result"]["streamlines"] == kept.sum() == 250
    assert record["inputs"]["fod"]["path"] == "fixels" and record["parameters"]["number"] == 250
    assert done.out == "" and "visit no fixel" in done.err


def test_points_of_any_format_are_those_of_the_selection(lines):
    kept = ts.sift("a.tck", "fixels", "b.tck", number=260).kept
    expected = [line for line, stays in zip(lines, kept, strict=True) if stays and len(line)]
    for name in ("b.tck", "c.trk", "d.trx"):
        if name != "b.tck":
            ts.sift("a.tck", "fixels", name, number=260)
        found = [line for part in stored_batches(Path(name)) for line in part if len(line)]
        assert len(found) == len(expected)
        for line, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(line, other, atol=1e-4)


@pytest.mark.parametrize(("code", "words", "parts"), [
    (1, ["-o", "a.tck", "--force"], ["a.tck: is an input"]), (1, ["-o", "there.tck"], ["exists already", "--force"]),
    (1, ["-o", "b.png"], ["unknown suffix"]), (1, ["-o", "b.npz"], ["holds no points"]),
    (2, ["-o", "b.tck", "--ratio", "0"], ["--ratio is 0"]), (2, ["-o", "b.tck", "--mu", "-1"], ["--mu is -1"]),
    (2, ["-o", "b.tck", "--mu", "nan"], ["--mu is nan"]), (2, ["-o", "b.tck", "--fd-thresh", "-1"], ["--fd-thresh"]),
    (1, ["-o", "b.tck", "--number", "405"], ["has 404 streamlines, fewer than --number 405"]),
    (2, ["-o", "b.tck", "--fd-scale-gm"], ["--fd-scale-gm needs --act"]),
    (2, ["-o", "b.tck", "--make-null-lobes"], ["--make-null-lobes needs --no-dilate-lut"]),
    (2, ["-o", "b.tck", "--act", "5tt.nii", "--proc-mask", "m.nii"], ["--act and --proc-mask exclude each other"]),
    (2, ["-o", "b.tck", "--csv", "c.txt", "--selection", "c.txt"], ["is also the name of another output"]),
    (1, ["-o", "b.tck", "--csv", "fixels/fd.mif", "--force"], ["is an input"]),
    (2, ["-o", "b.tck", "--sh-basis", "tournier07"], ["--sh-basis is one of harmonics"]),
    (1, ["-o", "b.tck", "--act", "nothing.nii"], ["nothing.nii: no such file"]),
])
def test_a_mistake_is_told_in_a_line(run, lines, code, words, parts):
    Path("there.tck").write_bytes(b"there")
    before = {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()}
    one_line(run("sift", "a.tck", "fixels", *words), code, *parts)
    assert {path.name: path.read_bytes() for path in Path().iterdir() if path.is_file()} == before


def test_a_number_of_0_and_no_streamlines_are_told(run, lines):
    done = run("sift", "a.tck", "fixels", "-o", "b.tck", "--number", 0)
    assert done.code == 2 and "--number" in done.err
    with pytest.raises(ts.ParameterError, match="number is 0"):
        ts.sift("a.tck", "fixels", number=0)
    write(Path("far.tck"), lines[300:400], np.eye(4), (10, 10, 10))
    one_line(run("sift", "far.tck", "fixels", "-o", "b.tck"), 1, "no streamline visits a fixel that counts")
    write(Path("none.tck"), [np.zeros((0, 3))], np.eye(4), (10, 10, 10))
    one_line(run("sift", "none.tck", "fixels", "-o", "b.tck"), 1, "no streamline visits a fixel that counts")
    assert not Path("b.tck").exists()
