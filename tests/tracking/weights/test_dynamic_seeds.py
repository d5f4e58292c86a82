"""Dynamic seeding: where seeds lie, how dense their streamlines are beside tckgen's, and the same bits everywhere."""

from contextlib import nullcontext
from functools import cache
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from fods import random_fods
from mrtrix_tests import inputs, means_of_bundles
from nights import at_night
from visited import fixel_table, fixels_with

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import InputError
from tistreamlines.fit.fod_image import load_fods
from tistreamlines.io.in_memory import source_of
from tistreamlines.io.tractograms import stored_batches
from tistreamlines.run import resume
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.seeding.directed import along_voxel_axes
from tistreamlines.tracking.seeding.more_seeds import voxels_by_share
from tistreamlines.tracking.seeding.seeds import Draw
from tistreamlines.tracking.weights import fixels, product
from tistreamlines.tracking.weights.comparison import PROBABILITY, SMALL, Comparison
from tistreamlines.tracking.weights.dynamic_seeds import BEGUN, DynamicSeeds
from tistreamlines.tracking.weights.fixels import FixelRules, fixels_of
from tistreamlines.tracking.weights.visits import Visitor

FODS = "SIFT_phantom/fods.mif"
WAYS = {"fixels": {}, "five tissues": {"act": "SIFT_phantom/5tt.mif"}}


# ----------------------------------------------------------------------------------------------------- beside tckgen
@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with MRtrix3's phantom, and what calls its programs there."""
    folder = tmp_path_factory.mktemp("dynamic")
    return folder, inputs(folder, "tckgen")


def track(output, **more):
    ends = {} if "act" in more else {"stop_mask": "SIFT_phantom/mask.mif"}
    return ts.track(
        sh=FODS, sh_basis="tournier07", output=output, arch="cpu", min_length=4, force=True, **ends,
        **{"dg": "ifod2", "seed_dynamic": FODS} | more,
    )


def density_of(path, fixels):
    """The density of streamlines in each fixel, as fibre densities are."""
    visitor, units = Visitor(fixels.table, 1.0, choose("cpu")), np.zeros(fixels.table.count)
    for batch in stored_batches(Path(path)):
        units += visitor.lengths(batch)
    return units * (fixels.masks * fixels.fibres).sum() / (fixels.masks * units).sum()


@pytest.mark.nightly
@pytest.mark.parametrize("way", ["fixels", *at_night("five tissues")])
def test_densities_come_as_near_to_fibres_as_those_of_tckgen(place, way, monkeypatch):
    """Nightly, since it tracks long; by day, both bundles become as dense."""
    folder, call = place
    monkeypatch.chdir(folder)
    act = WAYS[way].get("act")
    fixels = fixels_of(load_fods(FODS, None), choose("cpu"), None, print, FixelRules(act))
    ends = f"-act {act}" if act else "-mask SIFT_phantom/mask.mif"
    call(f"tckgen {FODS} theirs.tck -seed_dynamic {FODS} {ends} -select 1500 -minlength 4")
    track("ours.tck", select=1500, **WAYS[way])
    track("static.tck", select=1500, **WAYS[way], seed_dynamic=None, seed_mask="SIFT_phantom/mask.mif")
    theirs, ours, static = (
        np.sum(fixels.masks * (density_of(f"{name}.tck", fixels) - fixels.fibres) ** 2)
        for name in ("theirs", "ours", "static")
    )
    assert ours < 1.1 * theirs
    assert theirs < 0.8 * static


def test_both_bundles_are_as_dense(place, monkeypatch):
    """MRtrix3's own test of dynamic seeding, with its tolerance, on FODs in place of fixed peaks."""
    folder, call = place
    monkeypatch.chdir(folder)
    track("own.tck", dg="sd_stream", select=10_000)
    call("tckmap own.tck -template SIFT_phantom/dwi.mif own.mif")
    upper, lower = means_of_bundles("own.mif")
    assert abs(upper - lower) < 50


# ----------------------------------------------------------------------------------------------------- probabilities
def test_probabilities_are_those_of_the_formula():
    """Of each fixel alone, as tckgen computes them when a fixel is tried."""
    table, rng = fixel_table(), np.random.default_rng(1)
    fibres, mask = rng.uniform(0.05, 1, table.count), rng.integers(1, 5, table.counts.shape) / 4
    fixels = fixels_with(table, fibres, mask)
    comparison, count, units = Comparison(fixels, target=50), 0, np.zeros(table.count)
    means, applied = np.full(table.count, PROBABILITY), np.full(table.count, PROBABILITY)
    assert np.array_equal(comparison.probabilities, applied)
    for more in (10, 10, 15, 14):
        visits = rng.integers(0, 3, table.count) * rng.integers(0, 90, table.count)
        comparison.add(visits, more, comparison.probabilities)
        comparison.compare()
        before, count, units = count, count + more, units + visits
        mu = np.sum(fixels.masks * fibres) / np.sum(fixels.masks * units)
        for i in range(table.count):
            means[i] = (before * means[i] + more * applied[i]) / count
            ratio, end = mu * units[i] / fibres[i], min(50, 2 * count)
            if fibres[i] * fixels.masks[i] < SMALL:
                applied[i] = PROBABILITY
            elif units[i] == 0:
                applied[i] = means[i]
            elif ratio >= 1:
                applied[i] = 0.0
            else:
                applied[i] = min(means[i] * (end - count * ratio) / (ratio * (end - count)), 1.0)
        np.testing.assert_allclose(comparison.probabilities, applied, rtol=1e-9)
    assert 0.2 < np.mean(applied == 0) < 0.6 and applied.max() > 5 * PROBABILITY


def test_without_streamlines_nothing_changes():
    table = fixel_table()
    comparison = Comparison(fixels_with(table, np.ones(table.count), np.ones(table.counts.shape)))
    comparison.compare()
    comparison.add(np.zeros(table.count, int), 3, comparison.probabilities)
    comparison.compare()
    assert (comparison.probabilities == PROBABILITY).all()


# ------------------------------------------------------------------------------------------------------------- places
@cache
def field():
    """Random FODs, as a NIfTI image in memory, on a grid that is turned."""
    turn = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [2.0, 1.5, 2.5], [-30, 12, 5]
    return nib.Nifti1Image(random_fods(9 * 8 * 7, seed=1)[0].reshape(9, 8, 7, -1), affine)


def seeds_of(image, tissues=None, count=3000, space=None):
    space = space or ts.Space(image.affine, image.shape[:3])
    return DynamicSeeds(image, "tournier07", tissues, space, 1.0, 1, "cpu", Draw(count, 5), None, 500)


def test_seeds_lie_anywhere_in_the_voxels_of_their_fixels():
    image = field()
    seeds = seeds_of(image)
    points, along = seeds.points(0, 3000), seeds.directions(0, 3000)
    fixels = fixels_of(load_fods(image, "tournier07"), choose("cpu"), None, print)
    voxels = np.floor(points + 0.5).astype(int)
    of = np.ravel_multi_index(tuple(voxels.T), fixels.table.counts.shape)
    expected = fixels.table.counts.ravel() / fixels.table.count * 3000
    counts = np.bincount(of, minlength=len(expected))
    assert np.sum((counts - expected)[expected > 0] ** 2 / expected[expected > 0]) < 1.3 * np.count_nonzero(expected)
    assert np.abs((points - voxels).mean(axis=0)).max() < 0.02
    assert (points - voxels).min() < -0.49 and (points - voxels).max() > 0.49
    scanner = along / ts.Space(image.affine, image.shape[:3]).voxel_sizes @ image.affine[:3, :3].T
    scanner /= np.linalg.norm(scanner, axis=1, keepdims=True)
    for i in range(0, 3000, 50):
        directions = fixels.directions[fixels.table.voxel_of == of[i]]
        assert np.abs(directions @ scanner[i]).max() > 1 - 1e-6


def test_a_kernel_draws_seeds_as_others_are_drawn():
    """The random numbers, and the choice among fixels, are those of other seeds."""
    seeds, first = seeds_of(field()), 70
    fixels = seeds._comparison.fixels
    seeds._comparison.probabilities = np.maximum(np.random.default_rng(8).normal(size=fixels.table.count), 0)
    items = np.arange(2000, dtype=np.int32)
    reals = seeds.draw.attempts(first, items, 0 * items)
    chosen = voxels_by_share(np.cumsum(seeds._comparison.probabilities), reals[:, :2])
    voxels = np.stack(np.unravel_index(fixels.table.voxel_of[chosen], fixels.table.counts.shape), axis=1)
    points = fixels.table.space.to_ras(voxels + (reals[:, 2:5].astype(float) - 0.5))
    assert np.array_equal(seeds.points(first, 2000), seeds.space.to_voxel(points))
    assert np.array_equal(seeds.directions(first, 2000), along_voxel_axes(fixels.directions, seeds.space)[chosen])


def test_codes_are_found_before_a_round_is_asked_for():
    seeds, asked = seeds_of(field()), []
    along = seeds.directions(500, 500)
    seeds.code_with(lambda points, first, along: asked.append((points, first, along)) or np.arange(len(points)))
    seeds.advance(0, 0)
    for seed_round in seeds._rounds:
        seed_round.seeds.result()
    points, first, directions = asked[1]
    assert len(asked) == BEGUN and first == 500 and np.array_equal(directions, along)
    assert np.array_equal(seeds.directions(500, 400), np.arange(400))
    assert np.array_equal(seeds.points(500, 400), points[:400]) and points.dtype == np.float32
    assert len(asked) == BEGUN


def test_a_finer_image_may_be_tracked():
    """Seeds lie at the same places of RASmm, and around the reach there are all voxels that they need."""
    image = field()
    finer = ts.Space(image.affine @ np.diag([0.5, 0.5, 0.5, 1]), (18, 16, 14))
    coarse, fine = seeds_of(image), seeds_of(image, space=finer)
    np.testing.assert_allclose(finer.to_ras(fine.points(0, 99)), coarse.space.to_ras(coarse.points(0, 99)), atol=1e-5)
    low = np.floor(fine.points(0, 99)).astype(int)
    around = {tuple(cell) for cell in np.floor(fine.reach()).astype(int)}
    clipped = np.clip(low, -1, np.array(finer.shape) - 1)
    assert {tuple(cell) for cell in clipped} <= around


def test_five_tissues_refuse_fluid_and_move_seeds_to_the_interface():
    image = field()
    x = np.indices((9, 8, 7))[0]
    share = np.stack([x == 3, 0 * x, x > 3, x < 3, 0 * x], axis=-1).astype(np.float32)
    tissues = source_of("act", nib.Nifti1Image(share, image.affine))
    points = seeds_of(image, tissues).points(0, 2000)
    assert 3.49 < points[:, 0].min() < 3.51, "the interface lies between grey and white matter"
    inside = points[:, 0] < 3.52
    assert 0 < inside.mean() < 0.05, "half of its voxel is left for seeds in the voxels of white matter"
    assert (np.floor(points[:, 0] + 0.5) >= 4).all() or not inside.any()


# -------------------------------------------------------------------------------------------------- everywhere alike
def tracked(dg, **options):
    """Streamlines of 300 dynamic seeds, or of as many as the options say."""
    image = field()
    mask = nib.Nifti1Image(np.ones(image.shape[:3], np.uint8), image.affine)
    count = {} if "select" in options else {"nseeds": 300}
    common = {"arch": "cpu", "seed_round": 60, "min_length": 0, "stopping": "binary", "stop_mask": mask}
    batches = ts.stream(sh=image, sh_basis="tournier07", seed_dynamic=image, dg=dg, **common | count | options)
    return ts.Batch.concatenate(list(batches))


def same(batch, other):
    names = "points", "offsets", "seed_number"
    return all(np.array_equal(getattr(batch, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("dg", ["ifod1", *at_night("prob")])
def test_threads_and_chunks_change_nothing(dg):
    whole = tracked(dg, threads=1)
    assert len(whole) > 150
    assert same(tracked(dg, threads=2, chunk_size=37), whole)
    assert not same(tracked(dg, seed_round=100), whole)
    selected = tracked(dg, select=100, threads=1)
    assert len(selected) == 100
    assert same(tracked(dg, select=100, chunk_size=23), selected)


def test_a_round_waits_for_the_streamlines_of_all_rounds_but_the_last_ones():
    seeds, whole = seeds_of(field()), tracked("ifod1")
    seeds.prepare(lambda _: None)
    last, after = 500 * (BEGUN - 1), 500 * BEGUN
    assert all(seeds.advance(first, 0) for first in range(0, after, 500))
    uniform = seeds.points(0, after + 500)
    assert np.array_equal(seeds.points(last, 500), uniform[last:after])  # nothing is known yet
    seeds.heed(whole, 499)
    assert not seeds.advance(after, 499)
    seeds.heed(whole[:0], 500)
    assert seeds.advance(after, 500) and not seeds.advance(after + 500, 999)
    assert not np.array_equal(seeds.points(after, 500), uniform[after : after + 500])


@pytest.mark.parametrize("limit", [None, 0.02])
def test_weights_take_the_visits_that_the_seeds_have(limit, tmp_path, monkeypatch):
    image, weights = field(), []
    mask = nib.Nifti1Image(np.ones(image.shape[:3], np.uint8), image.affine)
    give, visitors = DynamicSeeds.give_visits, []
    monkeypatch.setattr(DynamicSeeds, "give_visits", lambda *all_: visitors.append(give(*all_)) or visitors[-1])
    find = product.fixels_of
    for forget in (fixels._IN_USE.clear, lambda: None):  # so that the weights have other fixels, or the same
        monkeypatch.setattr(product, "fixels_of", lambda *args, forget=forget: forget() or find(*args))
        result = ts.track(
            sh=image, sh_basis="tournier07", output=tmp_path / "x.tck", seed_dynamic="tracked", dg="ifod1", select=200,
            sift2=("tracked", tmp_path / "w.txt"), stopping="binary", stop_mask=mask, arch="cpu", force=True,
            memory_limit=limit, min_length=0,
        )
        weights.append(np.loadtxt(tmp_path / "w.txt"))
        assert len(weights[-1]) == result.n_streamlines == 200
    assert visitors[0] is None and visitors[1] is not None
    assert np.array_equal(*weights) and weights[0].std() > 0.1


def test_runs_of_one_process_share_fixels(monkeypatch):
    """A run that is made before another one, and read after it, still finds visits."""
    image = field()
    mask = nib.Nifti1Image(np.ones(image.shape[:3], np.uint8), image.affine)
    options = {"sh": image, "sh_basis": "tournier07", "dg": "ifod1", "stopping": "binary", "stop_mask": mask,
               "arch": "cpu", "min_length": 0, "seed_dynamic": "tracked", "select": 200}
    alone = Batch.concatenate(ts.stream(**options))
    calls, find = [], fixels._populations
    monkeypatch.setattr(fixels, "_populations", lambda *args: calls.append(args) or find(*args))
    early, other = ts.stream(**options), ts.stream(**options)
    assert len(calls) < 2
    Batch.concatenate(other)
    np.testing.assert_array_equal(Batch.concatenate(early).points, alone.points)


@pytest.mark.parametrize(("dg", "pieces"), [("ifod1", 0), ("ifod2", 1), ("ifod1", 3), *at_night(("ifod2", 2))])
def test_a_run_goes_on_with_the_same_streamlines_and_weights(dg, pieces, tmp_path, monkeypatch):
    """After so many pieces of whole rounds, of which the last is damaged; each has fewer seeds than it is asked for."""
    image = field()
    mask = nib.Nifti1Image(np.ones(image.shape[:3], np.uint8), image.affine)
    options = {
        "sh": image, "sh_basis": "tournier07", "seed_dynamic": "tracked", "dg": dg, "select": 250,
        "seed_round": 40, "stopping": "binary", "stop_mask": mask, "arch": "cpu", "min_length": 0,
    }
    for name in ("whole", "pieces"):
        (tmp_path / name).mkdir()

    def go_on(name, **more):
        folder = tmp_path / name
        return ts.track(output=folder / "x.tck", sift2=("tracked", folder / "w.txt"), **options, **more)

    go_on("whole")
    monkeypatch.setattr(resume, "FEWEST", 50)
    monkeypatch.setattr(resume, "MOST", 50)
    track_piece, left = resume._track_piece, [pieces + 1]

    def end(*arguments):
        left[0] -= 1
        if not left[0]:
            raise KeyboardInterrupt
        return track_piece(*arguments)

    with monkeypatch.context() as broken, pytest.raises(KeyboardInterrupt):
        broken.setattr(resume, "_track_piece", end)
        go_on("pieces", resume=True)
    kept = sorted((tmp_path / "pieces" / "x.tck.unfinished").glob("*.trx"))
    assert len(kept) == pieces
    if pieces == 3:
        kept[-1].write_bytes(kept[-1].read_bytes()[:-9])
    with pytest.warns(UserWarning, match="tracked anew") if pieces == 3 else nullcontext():
        result = go_on("pieces", resume=True)
    assert any("goes on after" in note for note in result.notes) == (pieces > 0)
    for file in ("x.tck", "w.txt"):
        assert (tmp_path / "pieces" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert np.loadtxt(tmp_path / "pieces" / "w.txt").std() > 0.1


# -------------------------------------------------------------------------------------------------------------- errors
@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    image = field()
    nib.save(image, folder / "fod.nii.gz")
    nib.save(nib.Nifti1Image(np.ones(image.shape[:3], np.uint8), image.affine), folder / "mask.nii.gz")
    nib.save(nib.Nifti1Image(image.get_fdata(), image.affine + 200 * np.eye(4, k=3)), folder / "far.nii.gz")
    return folder


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        (["--seed-dynamic", "far.nii.gz"], 1, ["far.nii.gz: no fixel lies in the tracked image"]),
        (["--seed-dynamic", "no.nii.gz"], 1, ["no.nii.gz"]),
        (["--seed-dynamic", "fod.nii.gz", "--part", "1/2"], 2, ["--seed-dynamic and --part exclude each other"]),
        (["--seed-dynamic", "fod.nii.gz", "--seed-mask", "mask.nii.gz"], 2, ["--seed-mask", "--seed-dynamic"]),
        (["--seed-round", "9", "--seed-mask", "mask.nii.gz"], 2, ["--seed-round needs --seed-dynamic"]),
    ],
)
def test_one_line_for_a_bad_input(files, options, code, words, run, monkeypatch):
    monkeypatch.chdir(files)
    sh = ["--sh", "fod.nii.gz", "--sh-basis", "tournier07", "--stop-mask", "mask.nii.gz", "--dg", "ifod1"]
    done = run("track", *sh, *options, "--nseeds", "9", "-o", "a.tck", "--arch", "cpu", "-q")
    one_line(done, code, *words)
    assert not (files / "a.tck").exists()


def test_a_basis_must_be_known(files):
    with pytest.raises(ts.ParameterError, match="seed_dynamic_basis is needed"):
        ts.track(
            peaks=np.ones((9, 8, 7, 3), np.float32), affine=field().affine, seed_dynamic=files / "fod.nii.gz",
            stop_map=np.ones((9, 8, 7), np.float32), nseeds=9, arch="cpu",
        )


def test_only_fluid_is_an_error():
    image = field()
    fluid = np.zeros((9, 8, 7, 5), np.float32)
    fluid[..., 3], fluid[4, 4, 3] = 1, [0, 0, 1, 0, 0]
    seeds = seeds_of(image, source_of("act", nib.Nifti1Image(fluid, image.affine)))
    assert np.abs(seeds.points(0, 50) - [4, 4, 3]).max() < 0.5
    fluid[4, 4, 3] = fluid[0, 0, 0]
    with pytest.raises(InputError, match="no white matter"):
        seeds_of(image, source_of("act", nib.Nifti1Image(fluid, image.affine))).points(0, 1)
