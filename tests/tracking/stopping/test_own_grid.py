"""A rule with maps on a grid of its own, a memory, a verdict and a say about seeds (``tests/support/layers.py``)."""

import shutil
import subprocess
import sys
from functools import cache

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, reals
from dialects import run as run_kernel
from nights import at_night
from registries import restore_registries
from scipy.ndimage import map_coordinates

import tistreamlines as ts
from tistreamlines.kernels.lanes import MapVolume, map_at, point_in_map
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import Reals, func, i32, vec3
from tistreamlines.tracking.tables.inputs import MapCount, MapImage

TURN = np.array([[0.55, -0.2, 0.1, 3.0], [0.15, 0.6, -0.1, -2.0], [-0.1, 0.05, -0.7, 20.0], [0, 0, 0, 1]])
CLOSE = 1e-3  # of a map to a threshold, within which float32 may decide otherwise
TRACKED = {"nseeds": 200, "max_steps": 60, "min_length": 0, "arch": "cpu", "like": "dipy"}


@pytest.fixture(scope="module")
def layers():
    """The rule, registered until the end of this file."""
    with restore_registries():
        import layers

        yield layers
        del sys.modules["layers"]


@pytest.fixture(scope="module")
def image(head, layers, tmp_path_factory):
    """Depth and cost on an oblique grid of 3 mm that does not cover the head: layers as of an onion, rough costs."""
    place = np.array([[2.9, 0.3, 0, -40.0], [-0.3, 2.9, 0, -50.0], [0, 0, 3, -30.0], [0, 0, 0, 1]])
    shape = (40, 48, 36)
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n) for n in shape), indexing="ij")
    depth = np.clip(1.15 - np.sqrt(x**2 + y**2 + z**2), 0, 1) + 0.3 * np.sin(14 * x) * np.sin(11 * y)
    cost = np.random.default_rng(2).random(shape)
    path = tmp_path_factory.mktemp("layers") / "layers.nii.gz"
    centred = place.copy()
    centred[:3, 3] = nib.load(head.series[0]).affine[:3] @ [15, 18, 14, 1] - place[:3, :3] @ (np.array(shape) / 2)
    nib.save(nib.Nifti1Image(np.stack([np.clip(depth, 0, 1), cost], axis=-1).astype(np.float32), centred), path)
    return path


def ruled_track(head, image, **more):
    """Track with the rule, by prob if nothing else is said."""
    common = {"dg": "prob", "stopping": "layers", "layers": image, "mask": head.mask, "cache_dir": head.cache}
    return ts.track(*head.series, **common | TRACKED | more)


@pytest.fixture(scope="module")
def ruled_run(layers, image, head):
    """What prob gives with the rule: several tests look at it."""
    return ruled_track(head, image)


@func
def looked_up(item: i32, grid: MapVolume, points: Reals, out: Reals):
    """Two maps at a point of the tracked image."""
    q = point_in_map(grid, vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2]))
    for k in range(2):
        out[2 * item + k] = map_at(grid, q, k)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_maps_are_interpolated_on_their_grid(dialect):
    rng = np.random.default_rng(3)
    image = MapImage(rng.random((9, 12, 14, 2)).astype(np.float32), TURN)
    points = rng.uniform(-5, 30, (2000, 3))
    values = {f"grid_{name}": array for name, array in image.fields().items()}
    values = {**values, "points": points, "out": reals(4000)}
    maps = run_kernel(dialect, looked_up, len(points), values, MapCount(maps=2))["out"].reshape(-1, 2)
    at = points @ TURN[:3, :3].T + TURN[:3, 3]
    inside = ((at >= -0.5) & (at < np.array([9, 12, 14]) - 0.5)).all(axis=1)
    near = (np.abs(at + 0.5 - np.rint(at + 0.5)) < 1e-4).any(axis=1)  # of the border of the image, or of voxels
    for k in range(2):
        expected = inside * map_coordinates(image.values[..., k].astype(float), at.T, order=1, mode="nearest")
        np.testing.assert_allclose(maps[~near, k], expected[~near], atol=3e-5)
    assert 0.05 < inside.mean() < 0.5


def halves(batch: ts.Batch) -> dict[tuple[int, int, int], tuple[np.ndarray, int]]:
    """Points of each half from its seed on, and why it ended, by seed, direction and side (0 forward)."""
    sides = {}
    for i, line in enumerate(batch):
        seed = int(np.linalg.norm(line - batch.seeds[i], axis=1).argmin())
        number, direction = int(batch.seed_number[i]), int(batch.direction_number[i])
        backward, forward = batch.stop_reasons[i]
        sides[number, direction, 0] = line[seed:], int(forward)
        sides[number, direction, 1] = line[seed::-1], int(backward)
    return sides


@cache
def maps_in(path):
    """From RASmm to voxels, the shape, and both maps with a border of one voxel."""
    image = nib.load(path)
    values = np.asarray(image.dataobj, float)
    padded = [np.pad(values[..., k], 1, mode="edge") for k in range(2)]
    return np.linalg.inv(image.affine), np.array(image.shape[:3]), padded


def ruled(points: np.ndarray, path, rule) -> tuple[int, int, bool]:
    """Steps of a half by the rule, its reason, and whether the maps are clear of the thresholds; 99 if it went on."""
    to_voxel, shape, maps = maps_in(path)
    at = nib.affines.apply_affine(to_voxel, points)
    depth, cost = (map_coordinates(values, at.T + 1, order=1, mode="constant") for values in maps)
    depth *= ((at >= -0.5) & (at < shape - 0.5)).all(axis=1)
    clear = min(np.abs(depth - rule.TISSUE).min(), np.abs(depth - rule.DEEP).min()) > CLOSE
    if depth[0] < rule.TISSUE:
        return 0, Stop.INVALID_END, clear
    within, best = False, 0
    for step in range(1, len(points)):
        if depth[step] < rule.TISSUE:
            return step - 1, Stop.INVALID_END, clear
        if depth[step] >= rule.DEEP:
            clear &= not within or abs(cost[step] - cost[best]) > CLOSE
            best = step if not within or cost[step] < cost[best] else best
            within = True
        elif within:
            return best, Stop.VALID_END, clear
    return 99, Stop.GROWING, clear


@pytest.mark.parametrize("dg", ["prob", *at_night("ptt")])
def test_halves_end_where_the_rule_says(layers, image, head, ruled_run, dg):
    """As halves that nothing but the lack of a direction ends would be cut by numpy."""
    brain = head.folder / "everywhere.nii.gz"
    nib.save(nib.Nifti1Image(np.ones(nib.load(head.series[0]).shape[:3], np.float32), nib.load(head.series[0]).affine),
             brain)
    few = {} if dg == "prob" else {"nseeds": 70}
    unruled = ruled_track(head, None, dg=dg, stopping="binary", stop_mask=brain, **few)
    free = halves(ts.Batch.concatenate(list(unruled.batches)))
    result = ruled_run
    if dg != "prob":
        result = ruled_track(head, image, dg=dg, **few)
    grown = halves(ts.Batch.concatenate(list(result.batches)))
    compared, reasons = 0, []
    for key, (points, reason) in free.items():
        steps, why, clear = ruled(points, image, layers)
        first = ruled(free[key[0], key[1], 0][0], image, layers)[0]
        if not clear or (first == 0 and key[2] == 1):  # the backward half starts opposite to the first step, if any
            continue
        if steps == 99 and dg == "ptt":  # which drops the last point, where the rule may have ended it
            continue
        if steps == 99:
            steps, why = len(points) - 1, reason
        compared, reasons = compared + 1, [*reasons, why]
        if key not in grown:  # dropped, since it took no step
            assert steps == 0
            continue
        assert grown[key][1] == why
        np.testing.assert_array_equal(grown[key][0], points[: steps + 1])
    assert compared > 0.4 * len(free)
    assert min(reasons.count(Stop.VALID_END), reasons.count(Stop.INVALID_END)) > 0.1 * len(reasons)


def test_seeds_are_refused(layers, image, ruled_run):
    """No streamline starts outside the tissue, and their halves have the rule's reason."""
    result, kept = ruled_run, nib.load(image)
    starts = ts.Batch.concatenate(list(result.batches)).seeds
    at = nib.affines.apply_affine(np.linalg.inv(kept.affine), starts)
    depth = map_coordinates(np.asarray(kept.dataobj, float)[..., 0], at.T, order=1, mode="nearest")
    assert (depth > layers.TISSUE - CLOSE).all()
    assert result.stop_reasons["invalid_end"] > 0.1 * sum(result.stop_reasons.values())


def test_tables_are_kept_and_sent_to_other_processes(image, head, tmp_path):
    """With the sizes of the rule's own grid, which are checked as all that is read back."""
    first, again = (ruled_track(head, image, cache_dir=tmp_path) for _ in range(2))
    assert len(list(tmp_path.glob("tables-*"))) == 1
    np.testing.assert_array_equal(first.batches[0].points, again.batches[0].points)
    record = MapVolume(**MapImage(np.zeros((2, 3, 4, 2), np.float32), np.eye(4)).fields())
    assert record.elements(MapCount(maps=2)) == {"maps": 48, "sides": 3, "to_grid": 12}
    record.sides[:2] *= -1
    with pytest.raises(ValueError, match="a grid of"):
        record.elements(MapCount(maps=2))


def test_regions_look_at_what_the_verdict_has_left(image, head, ruled_run):
    """A region excludes the streamlines of which a point that is kept lies in it, and no others."""
    whole = ts.Batch.concatenate(list(ruled_run.batches))
    centre = nib.load(head.series[0]).affine[:3] @ [15, 18, 14, 1]
    sphere = ",".join(f"{number:.2f}" for number in (*centre, 18))
    left = ts.Batch.concatenate(list(ruled_track(head, image, exclude=[sphere]).batches))
    apart = [bool((np.linalg.norm(line - centre, axis=1) > 18).all()) for line in whole]
    expected = whole[np.flatnonzero(apart)]
    assert 20 < len(expected) < 0.9 * len(whole)
    np.testing.assert_array_equal(left.points, expected.points)


def test_density_is_counted_where_the_streamlines_grow(image, head, tmp_path, ruled_run):
    """As beside a tractogram: the kernels of the map and of the rule's grid are linked together."""
    alone = ruled_track(head, image, density=tmp_path / "a.nii", keep_streamlines=False)
    beside = ruled_track(head, image, output=tmp_path / "b.trx", density=tmp_path / "b.nii")
    assert alone.n_streamlines == ruled_run.n_streamlines
    np.testing.assert_array_equal(alone.density, beside.density)


@pytest.mark.skipif(not shutil.which("mrconvert"), reason="no MRtrix3")
def test_maps_that_mrtrix_wrote(image, head, tmp_path, ruled_run):
    """With another order and sense of axes, nearly all halves end where they did: coordinates round otherwise."""
    path = tmp_path / "layers.mif.gz"
    subprocess.run(["mrconvert", "-quiet", str(image), "-strides", "-3,1,-2,4", str(path)], check=True)
    grown, expected = (halves(ts.Batch.concatenate(list(run.batches)))
                       for run in (ruled_track(head, path), ruled_run))
    assert abs(len(grown) - len(expected)) <= 2
    same = [np.array_equal(grown[key][0], expected[key][0]) for key in grown.keys() & expected.keys()]
    assert np.mean(same) > 0.99
