"""Weights and dynamic seeds of iFOD2's streamlines, whose arcs are several points: their ends make the curve."""

from dataclasses import replace

import numpy as np
import pytest
from mrtrix_tests import inputs
from region_runs import vulkan
from visited import STEP, curves, densities, lengths_of

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.tracking.products.points.thinning import downsample_batch
from tistreamlines.tracking.weights.options import Sift2Options
from tistreamlines.tracking.weights.sift2 import sift2
from tistreamlines.tracking.weights.visit_list import DeviceWords
from tistreamlines.tracking.weights.visits import Visitor

FODS = "SIFT_phantom/fods.mif"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """MRtrix3's phantom."""
    path = tmp_path_factory.mktemp("arcs")
    call = inputs(path, "tcksift2")
    call(f"mrconvert {FODS} fods.nii.gz -coord 3 0 -axes 0,1,2")
    return path


@pytest.mark.parametrize("seeds", [{"nseeds": 300, "seed_image": "fods.nii.gz"}, {"select": 300, "seed_dynamic": FODS}])
def test_a_run_weighs_the_streamlines_that_it_writes(folder, seeds, monkeypatch):
    """As map weighs those of its file; a density, which needs all points, changes neither streamlines nor weights."""
    monkeypatch.chdir(folder)
    options = {"sh": FODS, "dg": "ifod2", "arch": "cpu", "force": True, "min_length": 0, **seeds}
    few = ts.track(output="few.tck", sift2=(FODS, "few.txt"), **options)
    ts.track(output="all.tck", sift2=(FODS, "all.txt"), density="density.nii.gz", **options)
    assert (folder / "few.tck").read_bytes() == (folder / "all.tck").read_bytes()
    weights = np.loadtxt("few.txt")
    np.testing.assert_array_equal(weights, np.loadtxt("all.txt"))
    ts.map_tractogram("few.tck", sift2=(FODS, "map.txt"), force=True)
    np.testing.assert_array_equal(weights, np.loadtxt("map.txt"))
    assert len(weights) == len(few) > 200
    assert len(np.unique(weights)) > 100


def test_arcs_have_the_visits_of_their_ends():
    """Whether a batch has all points or those alone; and it knows the lengths of the whole streamlines."""
    fixels, lines = densities(), curves(60, seed=4)
    lines = replace(lines, seeds=lines.points[lines.offsets[:-1]])
    ends = downsample_batch(lines, 3)
    np.testing.assert_array_equal(ends.whole_lengths, lines.lengths)
    assert len(ends.points) < 0.5 * len(lines.points)
    visitor, count = Visitor(fixels.table, STEP, choose("cpu"), every=3), len(lines)
    units = [lengths_of(visitor.parts(batch), count, fixels.table.count) for batch in (lines, ends)]
    np.testing.assert_array_equal(*units)
    whole = lengths_of(Visitor(fixels.table, STEP, choose("cpu")).parts(lines), count, fixels.table.count)
    assert not np.array_equal(units[0], whole)
    np.testing.assert_allclose(units[0].sum(), whole.sum(), rtol=0.02)


@pytest.mark.skipif(not vulkan(), reason="no Vulkan device: install mesa-vulkan-drivers and libvulkan1")
def test_visits_that_stay_on_a_gpu_have_the_same_weights():
    """As many as there is room for; the others come to the host."""
    fixels, lines, device = densities(), curves(200, seed=5), choose("vulkan")
    visitor, parts, options = Visitor(fixels.table, STEP, device), [], Sift2Options()
    visitor.leave_on_device()
    room = visitor._room
    assert room.words > 0
    for first in range(0, 200, 50):
        if first == 100:
            room._array = replace(room._array, first=room._array.count - 40)
        if first == 150:
            room.words, room._array = 0, replace(room._array, first=room._array.count - 40)
        parts += [part.renumber(first) for part in visitor.parts(lines[np.arange(first, first + 50)])]
    assert [isinstance(part.words, DeviceWords) for part in parts] == [True, True, True, False]
    assert parts[0].words.array is parts[1].words.array is not parts[2].words.array
    expected = sift2(fixels, Visitor(fixels.table, STEP, choose("cpu")).parts(lines), 200, choose("cpu"), options)
    weights = sift2(fixels, parts, 200, device, options).weights
    np.testing.assert_array_equal(weights, expected.weights)
