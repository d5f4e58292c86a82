"""More include regions than one word has bits, against filtering after the fact; and regions of very small voxels."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from nights import at_night
from region_runs import LoopState, digest, lines_of, same_lines, vulkan, whole, within

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.kernels.selection.regions import MIXED, MOST_INCLUDES, WORD_BITS
from tistreamlines.phantom.phantom import save_phantom
from tistreamlines.tracking.parts import Selection
from tistreamlines.tracking.selection.criteria import check_regions
from tistreamlines.tracking.selection.places import MaskRegion
from tistreamlines.tracking.selection.regions import Regions

COUNTS = (MOST_INCLUDES + 2, 40, MOST_INCLUDES + WORD_BITS + 1)


def around(spots: list[list[float]], count: int) -> list[list[float]]:
    """Spheres about the middle of the head, of which the last ones are the smallest."""
    rng, middle = np.random.default_rng(count), np.array(spots[0][:3])
    return [[*map(float, middle + rng.uniform(-12, 12, 3)), radius] for radius in np.linspace(34.0, 20.0, count)]


@pytest.mark.parametrize(("dg", "count"), [*(("prob", count) for count in COUNTS), ("ptt", COUNTS[-1])])
def test_many_regions_keep_what_filtering_afterwards_would(tracked, spots, dg, count):
    include, plain = around(spots, count), tracked(dg=dg)
    visits = np.array([[within(line, region).any() for region in include] for line in whole(plain)])
    kept = [line for line, visited in zip(whole(plain), visits, strict=True) if visited.all()]
    assert 0 < len(kept) < visits[:, :MOST_INCLUDES].all(axis=1).sum()  # the last ones have a say
    assert same_lines(lines_of(whole(tracked(dg=dg, include=include))), kept)


def test_the_last_of_many_regions_may_be_a_mask_on_any_grid(tracked, head, spots, mask_on_another_grid, tmp_path):
    """With other roles beside them."""
    first, second = spots[0], spots[1]
    for mask in (mask_on_another_grid, head.mask):
        roles: dict[str, Any] = {"exclude": [second], "limit_mask": [[*first[:3], 60.0]], "ends_in": [head.mask]}
        roles |= {"rejected": tmp_path / "places.nii", "force": True}
        few = tracked(include=[first, mask, spots[2]], **roles)
        many = tracked(include=[*[first] * MOST_INCLUDES, mask, spots[2]], **roles)
        places = few.products["rejected"]
        assert places[..., 0].any()
        np.testing.assert_array_equal(many.products["rejected"], places)
        assert few.n_streamlines > 0
        assert digest(few) == digest(many)


@pytest.mark.parametrize("dg", ["prob", "ptt"])
def test_streamlines_stop_once_many_regions_are_visited(tracked, spots, dg):
    few = tracked(dg=dg, include=spots[:2], stop_when_included=True)
    for first, last in (spots[:2], spots[1::-1]):
        include = [*[first] * MOST_INCLUDES, *[last] * (WORD_BITS + 1)]
        many = tracked(dg=dg, include=include, stop_when_included=True)
        assert 0 < few.stop_reasons["all_included"] == many.stop_reasons["all_included"]
        assert digest(few) == digest(many)


@pytest.mark.parametrize("count", [COUNTS[0], *at_night(COUNTS[2])])
def test_many_ordered_regions(tracked, spots, count, tmp_path):
    """Balls along the longest streamline, which overlap, besides one that is visited in any order."""
    known: dict[str, Any] = {"one_way": True, "nseeds": 600, "step_size": "1mm"}
    plain = lines_of(whole(tracked(**known)))
    longest = max(plain, key=len)
    every = len(longest) // count
    assert every > 1
    ordered = [[*map(float, place), 0.8 * every] for place in longest[: every * count : every]]
    expected = []
    for line in plain:
        state, inside = LoopState(count), np.array([within(line, region) for region in ordered])
        for regions in inside.T:
            state.enter(regions)
        expected += [line] if state.passed else []
    passed = tracked(**known, include_ordered=ordered, rejected=tmp_path / "places.nii")
    passing, places = lines_of(whole(passed)), passed.products["rejected"].sum(axis=(0, 1, 2))
    assert dict(zip(passed.dropped, places.tolist(), strict=True)) == passed.dropped
    assert passed.dropped["out_of_turn"] > 0
    assert 0 < len(expected) < len(plain) / 4
    assert same_lines(passing, expected)
    beside = lines_of(whole(tracked(**known, include_ordered=ordered, include=[ordered[3]] * 30)))
    assert same_lines(beside, expected)


def test_particles_and_many_regions(tracked, head, spots, tmp_path):
    save_phantom(head.phantom, tmp_path)
    rules: dict[str, Any] = {"stopping": "act", "pft": True, "step_size": "1mm"}
    rules |= {f"pve_{name}": tmp_path / f"pve_{name}.nii.gz" for name in head.phantom.tissues}
    few = tracked(**rules, include=spots[:2])
    assert 0 < few.n_streamlines < tracked(**rules).n_streamlines
    assert digest(few) == digest(tracked(**rules, include=[*[spots[0]] * MOST_INCLUDES, spots[1], spots[1]]))


@pytest.mark.nightly
@pytest.mark.skipif(not vulkan(), reason="no Vulkan device: install mesa-vulkan-drivers and libvulkan1")
def test_a_gpu_takes_many_regions_of_every_kind(tracked, head, spots, mask_on_another_grid, tmp_path):
    """Kernels have at most 64 arguments there. At night, since they take long to compile."""
    options: dict[str, Any] = {
        "include": [*around(spots, 40), mask_on_another_grid], "exclude": [spots[3]], "limit_mask": head.mask,
        "ends_in": [[*spots[0][:3], 90.0]], "max_length": 200, "stop_when_included": True,
    }
    options |= {"rejected": tmp_path / "places.nii", "force": True}
    result, expected = (tracked(nseeds=150, arch=arch, **options) for arch in ("vulkan", "cpu"))
    assert 0 < expected.n_streamlines == result.n_streamlines
    assert digest(result) == digest(expected)
    assert expected.products["rejected"][..., 0].any()
    np.testing.assert_array_equal(*(run.products["rejected"] for run in (result, expected)))


def test_a_mask_of_very_small_voxels_takes_neither_time_nor_memory():
    """Voxels of 0.005 mm on a grid of 5 mm: a voxel has a thousand of them along an axis."""
    space = ts.Space(np.diag([5.0, 5, 5, 1]), (30, 36, 28))
    small = ts.Space(np.diag([0.005, 0.005, 0.005, 1]), (60, 60, 60))
    regions = {"include": [MaskRegion("small.nii.gz", small, np.ones(small.shape, bool))]}
    tracemalloc.start()
    before = time.process_time()
    try:
        check_regions(regions, space)
        Regions(regions, space, False)
        assert time.process_time() - before < 5
        assert tracemalloc.get_traced_memory()[1] < 2e8
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("scale", [0.9, 0.3, 0.11])
def test_voxels_that_are_taken_together_are_certain_of_all_their_points(scale):
    """Random voxels, in half of which a whole block is alike."""
    rng, size = np.random.default_rng(7), round(30 / scale)
    space = ts.Space(np.diag([2.0, 1.5, 2.5, 1.0]), (17, 14, 11))
    affine = np.eye(4)
    affine[:3, :3] = scale * np.linalg.qr(rng.normal(size=(3, 3)))[0]
    affine[:3, 3] = space.to_ras(np.array([8.0, 6.0, 5.0])) - affine[:3, :3] @ np.full(3, size / 2)
    held = rng.random((size,) * 3) < 0.5
    held[: size // 3], held[size // 2 :, : size // 2] = False, True
    mask = MaskRegion("mask", ts.Space(affine, held.shape), held)
    words = Regions({"include": [mask]}, space, False).demand(Selection()).filter.voxels.reshape(space.shape)
    voxels = np.stack([rng.integers(0, side, 100_000) for side in space.shape], axis=1)
    points = voxels + rng.uniform(-0.499, 0.499, voxels.shape)
    nearest = np.floor(mask.space.to_voxel(space.to_ras(points)) + 0.5).astype(int)
    inside = ((nearest >= 0) & (nearest < size)).all(axis=1)
    expected = inside & held[tuple(np.where(inside[:, None], nearest, 0).T)]
    bits = words[tuple(voxels.T)]
    certain = bits < MIXED
    assert np.array_equal(bits[certain] != 0, expected[certain])
    assert (bits[certain] != 0).mean() > 0.02
    assert 0.3 < certain.mean() < 0.99


def test_a_mask_of_voxels_that_cannot_be_told_apart_is_refused(tracked, spots):
    affine = np.diag([1e-5, 1e-5, 1e-5, 1])
    affine[:3, 3] = spots[0][:3]
    with pytest.raises(InputError, match=r"voxels of 1e-05 mm are too small .*: resample the mask") as error:
        tracked(include=nib.Nifti1Image(np.ones((9, 9, 9), np.uint8), affine))
    assert "\n" not in str(error.value)
