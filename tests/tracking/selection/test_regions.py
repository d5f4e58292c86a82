"""Regions of interest, selection, one-way tracking and truncation, against MRtrix3 and filtering after the fact."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, ints
from dialects import run as run_kernel
from nights import at_night
from region_runs import LoopState, digest, lines_of, same_lines, whole, within

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.kernels.selection import regions as kernels
from tistreamlines.kernels.selection.regions import EXCLUDE, INCLUDES, Demands, add_bits, bits_at
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import Hole, Ints, Reals, func, i32, vec3
from tistreamlines.linker.records import spread
from tistreamlines.phantom.phantom import save_phantom
from tistreamlines.tracking.parts import Selection
from tistreamlines.tracking.selection.places import MaskRegion, SphereRegion
from tistreamlines.tracking.selection.regions import ROLES, Regions

GETTERS = ("prob", "det", "boot", "ptt")
Filter = Hole("record of the filter")
tckedit = pytest.mark.skipif(shutil.which("tckedit") is None, reason="tckedit is not installed: install mrtrix3")


def halves(batch: ts.Batch) -> list[tuple[np.ndarray, np.ndarray]]:
    """Forward and backward half of each streamline, both from the seed on."""
    out = []
    for line, seed in zip(batch, batch.seeds, strict=True):
        at = int(np.argmin(np.linalg.norm(line - seed, axis=1)))
        out.append((line[at:], line[at::-1]))
    return out


# ------------------------------------------------------------------------------------------------- which are kept
@pytest.mark.parametrize(("dg", "alone"), [
    ("prob", False), *at_night(("prob", True), *((dg, False) for dg in GETTERS[1:])),
])
def test_include_and_exclude_keep_what_filtering_afterwards_would(tracked, spots, dg, alone):
    """One kind of regions alone at night, since each has kernels of its own."""
    plain = tracked(dg=dg)
    kinds = ((spots[:1], spots[1:2]), (spots[:2], []), ([], spots[:1])) if alone else ((spots[:2], spots[2:4]),)
    for include, exclude in kinds:
        result = tracked(dg=dg, include=include or None, exclude=exclude or None)
        kept = [
            line for line in whole(plain)
            if all(within(line, spot).any() for spot in include)
            and not any(within(line, spot).any() for spot in exclude)
        ]
        assert 0 < len(kept) < plain.n_streamlines
        assert same_lines(lines_of(whole(result)), kept)


@pytest.mark.parametrize("role", ["passing", *at_night("ending")])
def test_only_the_final_points_of_particle_filtering_count(tracked, head, spots, tmp_path, role):
    save_phantom(head.phantom, tmp_path)
    rules: dict[str, Any] = {"stopping": "act", "pft": True, "step_size": "1mm"}
    rules |= {f"pve_{name}": tmp_path / f"pve_{name}.nii.gz" for name in head.phantom.tissues}
    plain = lines_of(whole(tracked(**rules)))
    include, exclude = spots[0], spots[1]
    if role == "passing":
        regions = {"include": [include], "exclude": [exclude]}
        kept = [line for line in plain if within(line, include).any() and not within(line, exclude).any()]
    else:
        regions = {"ends_in": [include]}
        kept = [line for line in plain if within(line[[0, -1]], include).any()]
    assert 0 < len(kept) < len(plain)
    assert same_lines(lines_of(whole(tracked(**rules, **regions))), kept)


@func
def look(item: i32, filter: Filter, points: Reals, out: Ints):
    """Bits of points."""
    out[item] = bits_at(filter, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]), 0)


def values_of(regions: Regions) -> dict[str, Any]:
    """The kernels' arguments of regions by name."""
    return spread("filter", regions.demand(Selection()).filter)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_bits_of_points_are_those_of_nearest_voxels_and_spheres(dialect):
    """Also where a voxel of the image has points with and without them, and next to the borders of voxels."""
    rng, shape = np.random.default_rng(4), (17, 14, 11)
    space = ts.Space(np.array([[2.0, 0.3, 0, 4], [-0.3, 1.5, 0, -7], [0, 0, 2.5, 1], [0, 0, 0, 1]]), shape)
    turn = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    masks = [MaskRegion("grid of the image", space, rng.random(shape) < 0.3)]
    for scale, size in ((0.7, 27), (1.9, 13), (6.0, 5)):  # smaller voxels, similar ones, larger ones
        affine = np.eye(4)
        affine[:3, :3] = scale * turn
        affine[:3, 3] = space.to_ras(np.array([6.0, 5.0, 4.0])) - affine[:3, :3] @ np.full(3, size // 2)
        depth = np.minimum(*np.meshgrid(*[np.arange(size)] * 3, indexing="ij")[:2])
        inside = rng.random((size,) * 3) < 4 * depth / size
        masks.append(MaskRegion(str(scale), ts.Space(affine, (size, size, size)), inside))
    places = ([3.2, 4.1, 5.3], 4.0), ([9.0, 3.0, 2.0], 8.0)
    spheres = [SphereRegion(str(radius), space.to_ras(np.array(at)), radius) for at, radius in places]
    values = values_of(Regions({"include": [*masks, *spheres]}, space, False))
    count = 3000 if dialect == "python" else 20_000
    voxels = np.stack([rng.integers(0, size, count) for size in shape], axis=1)
    points = (voxels + rng.uniform(-0.499, 0.499, voxels.shape)).astype(np.float32).astype(float)
    points[:1000] = np.where(rng.random((1000, 3)) < 0.5, voxels[:1000] + 0.49995, voxels[:1000])
    bits = run_kernel(dialect, look, count, {**values, "points": points, "out": ints(count)},
                      {"filter": kernels.Regions, "more": 0})["out"]
    expected, sure = np.zeros(count, int), np.ones(count, bool)
    for number, mask in enumerate(masks):
        places = mask.space.to_voxel(space.to_ras(points))
        nearest = np.floor(places + 0.5).astype(int)
        inside = ((nearest >= 0) & (nearest < mask.voxels.shape)).all(axis=1)
        held = inside & mask.voxels[tuple(np.where(inside[:, None], nearest, 0).T)]
        expected |= held.astype(int) << INCLUDES + number
        sure &= (np.abs(places + 0.5 - np.round(places + 0.5)) > 1e-4).all(axis=1) | (number == 0)
    for number, sphere in enumerate(spheres):
        far = np.linalg.norm((points - space.to_voxel(sphere.centre)) * space.voxel_sizes, axis=1)
        expected |= (far <= sphere.radius).astype(int) << INCLUDES + len(masks) + number
        sure &= np.abs(far - sphere.radius) > 1e-3
    mixed = values["filter_voxels"].reshape(shape)[tuple(voxels.T)] >= kernels.MIXED
    assert sure.mean() > 0.95
    assert 0.2 < mixed.mean() < 0.9
    assert all(len(np.unique(expected[sure & ~mixed] >> INCLUDES + number & 1)) == 2 for number in range(6))
    assert np.array_equal(bits[sure], expected[sure])


def test_a_mask_on_the_grid_of_the_image_needs_no_other_look():
    """Even if its header was kept in float32."""
    affine = np.diag([1.7, 1.8, 1.9, 1.0])
    affine[:3, 3] = -91.37, -121.13, 17.77
    held = np.random.default_rng(2).random((40, 50, 60)) < 0.5
    there = ts.Space(affine.astype(np.float32).astype(float), held.shape)
    values = values_of(Regions({"exclude": [MaskRegion("mask", there, held)]}, ts.Space(affine, held.shape), False))
    assert values["filter_grids"] == 0
    assert np.array_equal(values["filter_voxels"], np.where(held, EXCLUDE, 0).ravel())


@tckedit
def test_the_same_streamlines_as_tckedit(tracked, spots, mask_on_another_grid, tmp_path):
    ball = ",".join(map(str, spots[1]))
    plain, edited = tmp_path / "plain.tck", tmp_path / "edited.tck"
    tracked(output=plain, nseeds=1500)
    command = ["tckedit", "-quiet", "-force", str(plain), str(edited)]
    cases: list[dict[str, Any]] = [
        {"include": [str(mask_on_another_grid), ball]}, {"exclude": [str(mask_on_another_grid)]},
        {"include": [ball], "exclude": [str(mask_on_another_grid)]},
    ]
    for case in cases:
        options = [word for name, regions in case.items() for region in regions for word in (f"-{name}", region)]
        subprocess.run([*command, *options], check=True)
        expected = [np.asarray(line) for line in nib.streamlines.load(edited).streamlines]
        tracked(output=tmp_path / "ours.tck", nseeds=1500, force=True, **case)
        ours = [np.asarray(line) for line in nib.streamlines.load(tmp_path / "ours.tck").streamlines]
        assert len(expected) > 20
        assert same_lines(ours, expected)


@tckedit
@pytest.mark.parametrize("kind", ["fractions", "labels"])
def test_images_that_are_no_masks_are_taken_as_tckedit_does(tracked, mask_on_another_grid, tmp_path, kind):
    """Linear interpolation of a mask leaves fractions, some of which are 0.5; a region of labels is one region."""
    ball = nib.load(mask_on_another_grid)
    far = np.linalg.norm(np.indices(ball.shape) - 20, axis=0)
    values = np.clip((8 - far) / 4, 0, 1) if kind == "fractions" else 4 * (far <= 6) + 3 * (far <= 3)
    region, plain, edited = (tmp_path / name for name in ("region.nii.gz", "plain.tck", "edited.tck"))
    nib.save(nib.Nifti1Image(values.astype(np.float32), ball.affine), region)
    tracked(dg="det", output=plain, nseeds=1000)
    subprocess.run(["tckedit", "-quiet", str(plain), str(edited), "-include", str(region)], check=True)
    expected = [np.asarray(line) for line in nib.streamlines.load(edited).streamlines]
    result = tracked(dg="det", include=region, nseeds=1000)
    assert 20 < len(expected) < 1000
    assert [len(line) for line in expected] == [len(line) for line in whole(result)]
    texts, other = (result.notes, result.warnings) if kind == "fractions" else (result.warnings, result.notes)
    assert [text for text in texts if "not a mask of 0 and 1" in text and "voxels of at least 0.5 are used" in text]
    assert not [text for text in other if "not a mask" in text]


def test_ends_in_one_region_or_in_two(tracked):
    plain = lines_of(whole(tracked(dg="det")))
    long = max(plain, key=len)
    spots = [[*map(float, end), 20.0] for end in (long[0], long[-1])]
    ends = [[within(line[[0, -1]], spot) for spot in spots] for line in plain]
    either = [line for line, (a, _) in zip(plain, ends, strict=True) if a.any()]
    both = [line for line, (a, b) in zip(plain, ends, strict=True) if (a[0] and b[1]) or (a[1] and b[0])]
    assert 0 < len(both) < len(either) < len(plain)
    assert same_lines(lines_of(whole(tracked(dg="det", ends_in=[spots[0]]))), either)
    assert same_lines(lines_of(whole(tracked(dg="det", ends_in=spots))), both)


@pytest.mark.parametrize("dg", ["prob", *at_night("ptt")])
def test_a_limit_mask_cuts_both_halves(tracked, spots, dg):
    large, expected, compared = [[*spots[0][:3], 45.0], [*spots[1][:3], 25.0]], [], []
    plain = whole(tracked(dg=dg))
    for number, pair in enumerate(halves(plain)):
        inside = [within(half, large[0]) | within(half, large[1]) for half in pair]
        # without its first step, the backward half has another direction
        if inside[0][:2].all() and len(pair[0]) > 1:
            forward, backward = (
                half if held.all() else half[: held.argmin()] for half, held in zip(pair, inside, strict=True)
            )
            expected.append(np.concatenate([backward[:0:-1], forward]))
            compared.append((plain.seed_number[number], plain.direction_number[number]))
    result = tracked(dg=dg, limit_mask=large)
    batch = whole(result)
    keys = list(zip(batch.seed_number, batch.direction_number, strict=True))
    assert 0 < len(expected) < len(plain)
    assert result.stop_reasons["outside_limit"] > 100
    assert same_lines([line for line, key in zip(batch, keys, strict=True) if key in set(compared)], expected)
    assert (within(batch.points, large[0]) | within(batch.points, large[1])).all()


@pytest.fixture(scope="module")
def scattered(head, tracked, tmp_path_factory) -> Path:
    """A mask of a tenth of all voxels, so that nearly every streamline visits one, anywhere."""
    image = nib.load(head.mask)
    mask = np.random.default_rng(4).random(image.shape) < 0.1
    path = tmp_path_factory.mktemp("scattered") / "mask.nii.gz"
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), image.affine), path)
    return path


@pytest.mark.parametrize(("dg", "nseeds", "spread"), [("prob", 500, False), *at_night(("ptt", 800, True))])
def test_streamlines_stop_once_all_regions_are_visited(tracked, spots, scattered, dg, nseeds, spread):
    """The forward half first; the backward half takes a step, as MRtrix3's -stop, if nothing is left to visit.

    The last point of a half of ptt is dropped where no direction is found there, so a visit of such a point counts for
    nothing.
    """
    regions, expected = ([scattered] if spread else spots[:2]), []
    for forward, backward in halves(whole(tracked(dg=dg, nseeds=nseeds))):
        visited, parts = held(forward[:1], regions)[0], []
        for half in (forward, backward):
            length = 1
            for inside in held(half[1:], regions):
                length += 1
                visited = visited | inside
                if visited.all():
                    break
            parts.append(half[:length])
        if visited.all():
            expected.append(np.concatenate([parts[1][:0:-1], parts[0]]))
    result = tracked(dg=dg, nseeds=nseeds, include=regions, stop_when_included=True)
    assert result.stop_reasons["all_included"] > 0
    assert same_lines(lines_of(whole(result)), expected)


def held(points: np.ndarray, regions: list[Any]) -> np.ndarray:
    """Whether each sphere, or mask, holds each point, (points, regions)."""
    columns = []
    for region in regions:
        if isinstance(region, Path):
            image = nib.load(region)
            voxel = np.rint(nib.affines.apply_affine(np.linalg.inv(image.affine), points)).astype(int)
            columns.append(np.asarray(image.dataobj)[tuple(voxel.T)] > 0)
        else:
            columns.append(within(points, region))
    return np.stack(columns, axis=-1)


# ------------------------------------------------------------------------------------------------- order


@func
def walk(item: i32, filter: Demands, bits: Ints, points: i32, out: Ints):
    """What a walk over the bits of points comes to."""
    visited = 0
    for i in range(points):
        visited = add_bits(filter, visited, bits[item * points + i])
        visited = add_bits(filter, visited, bits[item * points + i])
    out[item] = visited


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ordered_regions_are_entered_as_in_mrtrix(dialect):
    rng, walks, points, size = np.random.default_rng(1), 400, 12, 3
    inside = np.zeros((walks, points, size), bool)
    turns = np.sort(rng.integers(0, points, (walks, size)), axis=1)
    for number in range(walks):
        inside[number, turns[number], range(size)] = True
    inside |= rng.random(inside.shape) < np.linspace(0, 0.1, walks)[:, None, None]
    bits = (inside << np.arange(INCLUDES + 1, INCLUDES + 1 + size)).sum(axis=2)
    ordered = sum(1 << INCLUDES + 1 + number for number in range(size))
    values = {
        "filter_counted": EXCLUDE, "filter_ordered": ordered, "filter_first": 1 << INCLUDES + 1,
        "filter_wanted": ordered, "filter_limited": 0, "filter_stops": 0, "bits": bits.ravel().astype(np.int32),
        "points": points, "out": ints(walks),
    }
    visited = run_kernel(dialect, walk, walks, values)["out"]
    expected = []
    for number in range(walks):
        state = LoopState(size)
        for regions in inside[number]:
            state.enter(regions)
        expected.append(state.passed)
    assert 20 < sum(expected) < walks - 20
    assert np.array_equal((visited & (ordered | EXCLUDE)) == ordered, expected)


def test_ordered_regions_along_one_way(tracked, spots):
    plain, expected = lines_of(whole(tracked(one_way=True, nseeds=2000))), []
    for line in plain:
        state = LoopState(2)
        for inside in held(line, spots[:2]):
            state.enter(inside)
        expected += [line] if state.passed else []
    assert len(expected) > 3
    assert same_lines(lines_of(whole(tracked(one_way=True, nseeds=2000, include_ordered=spots[:2]))), expected)


# ------------------------------------------------------------------------------------------------- how far they grow
def test_one_way_streamlines_begin_at_their_seeds_in_either_sense(tracked):
    batch = whole(tracked(one_way=True))
    assert np.allclose(batch.points[batch.offsets[:-1]], batch.seeds, atol=1e-4)
    assert (batch.stop_reasons[:, 0] == Stop.NOT_GROWN).all()
    steps = np.array([line[1] - line[0] for line in batch])
    both = whole(tracked())
    initial = {(s, d): half[0][1] - half[0][0] for s, d, half in zip(
        both.seed_number, both.direction_number, halves(both), strict=True) if len(half[0]) > 1}
    along = [
        float(step @ initial[key]) > 0 for step, key in zip(
            steps, zip(batch.seed_number, batch.direction_number, strict=True), strict=True) if key in initial
    ]
    assert abs(np.mean(along) - 0.5) < 4 * 0.5 / np.sqrt(len(along))


@pytest.mark.parametrize(("dg", "nseeds"), [("prob", 500), ("ptt", 4000)])
def test_truncated_streamlines_have_what_the_forward_half_leaves(tracked, dg, nseeds):
    """Also with ptt, which drops the last point of a half where it finds no direction."""
    step = tracked(dg=dg).parameters.step_mm([5.0] * 3)
    expected = []
    for forward, backward in halves(whole(tracked(dg=dg, nseeds=nseeds))):
        forward = forward[:11]
        expected.append(np.concatenate([backward[: 12 - len(forward)][:0:-1], forward]))
    truncated = tracked(dg=dg, nseeds=nseeds, max_length=10 * step, too_long="truncate")
    assert any(len(line) == 11 for line in expected)
    assert same_lines(lines_of(whole(truncated)), expected)
    dropped = tracked(dg=dg, nseeds=nseeds, max_length=10 * step)
    assert dropped.n_streamlines < truncated.n_streamlines


# ------------------------------------------------------------------------------------------------- selection
def test_a_selection_is_the_first_accepted_streamlines(tracked, spots):
    options: dict[str, Any] = {"include": spots[:1], "select": 150, "max_seeds": 20_000}
    everything = tracked(include=spots[:1], nseeds=3000)
    first = whole(everything)[np.arange(150)]
    result = tracked(**options)
    assert result.n_streamlines == 150
    assert np.array_equal(whole(result).points, first.points)
    assert result.seeds == first.seed_number[-1] + 1
    for other in ({"threads": 1}, {"threads": 2, "chunk_size": 137}, {"chunk_size": 9}):
        again = tracked(**options, **other)
        assert digest(again) == digest(result)
        assert again.stop_reasons == result.stop_reasons
        assert again.seeds == result.seeds


def test_rejected_streamlines_are_counted_alike(tracked, spots):
    """However far the other half of a rejected one has come by then."""
    result = tracked(exclude=spots[:1])
    assert result.stop_reasons["rejected"] > 0
    assert tracked(exclude=spots[:1], chunk_size=7, threads=1).stop_reasons == result.stop_reasons


def test_too_few_seeds_for_a_selection_are_a_warning(tracked, spots):
    result = tracked(select=10_000, max_seeds=300, include=spots[:1])
    assert result.seeds == 300
    assert 0 < result.n_streamlines < 10_000
    assert "select 10000" in result.warnings[-1]
    assert "max_seeds" in result.warnings[-1]
    grid = {"nseeds": None, "select": 10_000, "seed_grid": 1, "include": spots[:1]}
    assert "give more seeds (seed_grid)" in tracked(**grid).warnings[-1]
    assert "give more seeds (max_seeds)" in tracked(**grid, max_seeds=300).warnings[-1]


def test_a_time_limit_ends_between_chunks(tracked):
    result = tracked(nseeds=2_000_000, time_limit=0.5)
    assert 0 < result.seeds < 2_000_000
    assert whole(result).seed_number.max() < result.seeds
    assert "time_limit" in result.warnings[-1]


# ------------------------------------------------------------------------------------------------- files and errors
def test_the_record_names_the_files_and_the_cache_does_not_depend_on_them(head, spots, mask_on_another_grid, tmp_path):
    cache = tmp_path / "cache"
    known = {"mask": head.mask, "nseeds": 50, "arch": "cpu", "cache_dir": cache, "dg": "det", "model": "csa"}
    ts.track(*head.series, tmp_path / "a.trx", **known)
    held = sorted(path.name for path in cache.rglob("*"))
    ts.track(*head.series, tmp_path / "b.trx", include=[mask_on_another_grid, spots[1]], **known)
    assert sorted(path.name for path in cache.rglob("*")) == held
    record = json.loads((tmp_path / "b.json").read_text())
    sha = hashlib.sha256(mask_on_another_grid.read_bytes()).hexdigest()
    assert record["inputs"]["include 1"] == {"path": str(mask_on_another_grid), "sha256": sha}
    assert record["parameters"]["include"] == [str(mask_on_another_grid), ",".join(map(str, spots[1]))]


def test_regions_in_memory(tracked, mask_on_another_grid):
    image = nib.load(mask_on_another_grid)
    expected = digest(tracked(include=mask_on_another_grid))
    assert digest(tracked(include=[image])) == expected
    assert digest(tracked(include=image)) == expected


def test_an_array_lies_on_the_grid_of_the_series(tracked, head):
    image = nib.load(head.mask)
    half = np.zeros(image.shape, np.uint8)
    half[: image.shape[0] // 2] = 1
    as_array, as_image = tracked(exclude=half), tracked(exclude=nib.Nifti1Image(half, image.affine))
    assert digest(as_array) == digest(as_image)
    assert 0 < as_array.n_streamlines < tracked().n_streamlines


BAD: list[tuple[dict[str, Any], str]] = [
    ({"include": "900,900,900,5"}, "no part of include is in the image"),
    ({"exclude": "0,0,0,-5"}, "radius above 0"),
    ({"include": "nowhere.nii"}, "no such file"),
    ({"include": "0,0,10,5", "exclude": "0,0,10,6"}, "no streamline can pass include"),
    ({"ends_in": ["0,0,0,5"] * 3}, "two ends"),
    ({"include_ordered": "0,0,0,5"}, "needs one_way"),
    ({"too_long": "truncate"}, "needs max_length"),
    ({"max_seeds": 5}, "needs select"),
    ({"select": 5, "nseeds": 5}, "exclude each other"),
    ({"stop_when_included": True}, "needs regions"),
]


@pytest.mark.parametrize(("options", "part"), BAD, ids=[part for _, part in BAD])
def test_one_line_for_bad_regions(tracked, options, part):
    with pytest.raises((InputError, ParameterError)) as caught:
        tracked(**options)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_empty_mask_or_one_that_is_excluded_is_an_error(tracked, head):
    image = nib.load(head.mask)
    empty = nib.Nifti1Image(np.zeros(image.shape, np.uint8), image.affine)
    with pytest.raises(InputError, match=r"has no voxels of at least 0\.5 among"):
        tracked(include=empty)
    with pytest.raises(InputError, match="no streamline can pass"):
        tracked(include=image, exclude=image)


def test_a_mask_with_an_axis_of_one_volume_or_without_a_place(tracked, head, tmp_path):
    """MRtrix3 and FSL write the former; the latter may lie anywhere."""
    image = nib.load(head.mask)
    half = np.asarray(image.dataobj) * (np.arange(image.shape[0]) > 15)[:, None, None].astype(np.uint8)
    placed, lost = nib.Nifti1Image(half[..., None], image.affine), nib.Nifti1Image(half, None)
    lost.set_sform(None, 0)
    lost.set_qform(None, 0)
    paths = [tmp_path / name for name in ("half.nii.gz", "one.nii.gz", "lost.nii.gz")]
    for path, mask in zip(paths, (nib.Nifti1Image(half, image.affine), placed, lost), strict=True):
        nib.save(mask, path)
    expected, sure, unsure = (tracked(dg="det", include=path) for path in paths)
    assert 0 < len(whole(expected)) < 500
    assert digest(sure) == digest(expected)
    assert not [text for text in sure.warnings if "header" in text]
    assert [text for text in unsure.warnings if "lost.nii.gz: the header does not say where the image lies" in text]


def test_every_role_is_an_option_that_can_be_given_several_times(run, head, tmp_path):
    help_text = run("track", "--help-all").out
    for role in ROLES:
        assert f"--{role.replace('_', '-')}" in help_text
    out = tmp_path / "x.tck"
    done = run("track", *head.series, "--mask", head.mask, "--arch", "cpu", "--nseeds", 50, "-o", out,
               "--exclude", "0,0,0,3", "--exclude", "0,0,10,3")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "x.json").read_text())["parameters"]["exclude"] == ["0,0,0,3", "0,0,10,3"]
