"""Streamlines counted on the device: the same integers as those of their points, and no point comes back."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from crossings import crossing
from distributions import CIRCLE_SEEDS, whole
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceMemoryError
from tistreamlines.space.batch import Space
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.products.density import density
from tistreamlines.tracking.products.density.density import Density, DeviceDensity, DeviceEnds, Ends
from tistreamlines.workers.messages import Opening
from tistreamlines.workers.several import Several

SPACE = Space(np.array([[1.9, 0.3, 0, -20], [-0.3, 1.9, 0, 4], [0, 0, 2.1, 1], [0, 0, 0, 1.0]]), (24, 24, 5))
GRID = Space(np.array([[0.8, -0.9, 0.1, -30], [0.6, 1.1, 0, -5], [0.2, 0.3, 2, 0], [0, 0, 0, 1.0]]), (60, 50, 20))
SEEDS = np.tile(CIRCLE_SEEDS, (3, 1))


def settings(**more):
    return Settings(**{"step_mm": 0.9, "max_steps": 12} | more)


def product(chosen):
    return DeviceDensity(SPACE, GRID, chosen.step_mm, 2 * chosen.max_steps)


@pytest.fixture(scope="module")
def expected():
    """What the host counts of the points."""
    batch = whole(Engine(crossing(), SPACE, choose("cpu"), settings()).track(SEEDS))
    counts = Density(GRID, 0.9)
    counts.add(batch)
    assert counts.counts().max() > 5
    return batch, counts.counts().ravel()


@pytest.mark.parametrize(("part", "more"), [
    (None, {}), (None, {"threads": 1}), (40, {"chunk_size": 7}), (40, {"threads": 2, "chunk_size": 50}),
])
def test_counts_are_those_of_the_points(expected, more, part, monkeypatch):
    """In chunks of any size, and launches of any number of listed voxels."""
    monkeypatch.setattr(density, "PART_WORDS", part or density.PART_WORDS)
    chosen = settings(**more)
    counts = product(chosen)
    engine = Engine(crossing(), SPACE, choose("cpu"), chosen, products=[counts], points=False)
    batches = list(engine.track(SEEDS))
    assert np.array_equal(counts.total, expected[1])
    assert np.array_equal(np.concatenate([batch.lengths for batch in batches]), expected[0].lengths)
    assert all(len(batch.points) == 0 and not batch.has_points for batch in batches)
    assert (engine.statistics.streamlines, engine.statistics.points) == (len(expected[0]), len(expected[0].points))
    # the counts come back once; besides them, the halves' steps and reasons, and nothing for each step
    once = 4 * len(counts.total)
    assert once < engine.statistics.copied_bytes <= once + 64 * len(SEEDS) * 2 * 16
    assert "pack" not in engine.growth.program.signatures


@pytest.mark.parametrize("chunk_size", [7, 50])
def test_ends_and_counts_in_one_pass(expected, chunk_size):
    """No point comes back for the map of the ends either."""
    chosen = settings(chunk_size=chunk_size)
    counts, ends = product(chosen), DeviceEnds(SPACE, GRID, chosen.step_mm, 2 * chosen.max_steps)
    list(Engine(crossing(), SPACE, choose("cpu"), chosen, products=[counts, ends], points=False).track(SEEDS))
    on_host = Ends(GRID, 0.9)
    on_host.add(expected[0])
    assert np.array_equal(ends.total, on_host.counts().ravel())
    assert np.array_equal(counts.total, expected[1])
    assert ends.total.max() > 1


def test_points_and_counts_of_one_engine(expected):
    counts = product(settings())
    batch = whole(Engine(crossing(), SPACE, choose("cpu"), settings(), products=[counts]).track(SEEDS))
    assert np.array_equal(counts.total, expected[1])
    assert np.array_equal(batch.points, expected[0].points)


class Failing(DeviceDensity):
    """Finds no memory once, after some launches of a chunk."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.left = 0

    def _launch(self, growth, part, by):
        self.left -= by == 1
        if self.left == 0 and by == 1:
            raise DeviceMemoryError("planted")
        super()._launch(growth, part, by)


@pytest.mark.parametrize("launches", [1, 2, 5])
def test_a_chunk_that_is_tried_again_counts_once(expected, launches, monkeypatch):
    monkeypatch.setattr(density, "PART_WORDS", 500)
    chosen, notes = settings(), []
    failing = Failing(SPACE, GRID, chosen.step_mm, 2 * chosen.max_steps)
    engine = Engine(crossing(), SPACE, choose("cpu"), chosen, (), [failing], notes.append, points=True)
    failing.left = launches
    batch = whole(engine.track(np.tile(SEEDS, (3, 1))))
    assert "out of memory" in notes[0]
    assert len(notes) == 1
    counts = Density(GRID, 0.9)
    counts.add(batch)
    assert np.array_equal(failing.total, counts.counts().ravel())


def test_two_workers():
    chosen, most = settings(chunk_size=9), 17
    shared, alone = product(chosen), product(chosen)
    several = Several([choose("cpu")] * 2)
    try:
        loaded = several.load(Opening(crossing(), SPACE, chosen, (), [shared], points=False))
        batches = list(loaded.track(SEEDS, most=most))
    finally:
        several.close()
    list(Engine(crossing(), SPACE, choose("cpu"), chosen, (), [alone], points=False).track(SEEDS, most=most))
    assert sum(map(len, batches)) == most
    assert np.array_equal(shared.total, alone.total)


def equal(options, folder, **more):
    """Compare the maps of a run with a tractogram, of its points, and those of streamlines that stay on the device."""
    maps = {name: {kind: str(folder / f"{name}-{kind}.nii") for kind in ("density", "ends")} for name in "ab"}
    written = ts.track(output=folder / "a.trx", density_voxel=0.9, **options, **more, **maps["a"])
    assert written.density.max() > 1
    ts.track(keep_streamlines=False, density_voxel=0.9, **options, **more, **maps["b"])
    for kind, path in maps["a"].items():
        assert Path(path).read_bytes() == Path(maps["b"][kind]).read_bytes(), kind


@pytest.mark.parametrize("more", [
    {"one_way": True}, {"chunk_size": 17, "max_length": 15.0, "too_long": "truncate"}, {"include": ["16,16,14,6"]},
])
def test_runs_along_peaks(tmp_path, more):
    equal(write_inputs(tmp_path), tmp_path, **more)


@pytest.fixture
def series(head):
    """The options of a run on the head."""
    files = dict(zip(("dwi", "bvals", "bvecs"), map(str, head.series), strict=True))
    return files | {"mask": head.mask, "cache_dir": head.cache, "threads": 2, "arch": "cpu"}


@pytest.mark.parametrize("dg", ["prob", "ptt"])
def test_steps_along_vertices_and_with_a_frame(series, tmp_path, dg):
    equal(series, tmp_path, nseeds=60, dg=dg)


@pytest.mark.nightly
def test_particles(series, fractions, tmp_path):
    tissues = {name: path for name, path in fractions.items() if name.startswith("pve")}
    equal(series | tissues, tmp_path, nseeds=40, dg="prob", stopping="act", pft=True)
