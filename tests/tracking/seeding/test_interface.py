"""Seeds at the interface of grey and white matter: where they lie, and how they are spread beside those of tckgen."""

import os
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from scipy.ndimage import map_coordinates
from scipy.stats import chi2_contingency, ks_2samp

import tistreamlines as ts
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.seeding.interface import NEAR, InterfaceSeeds, Segmentation, interface_seeds
from tistreamlines.tracking.seeding.seeds import Draw

SHAPE, RADIUS, CORTEX = (30, 28, 32), 11.3, 5.0  # voxels, and mm
TURN = np.linalg.qr(np.random.default_rng(4).normal(size=(3, 3)))[0]
AFFINE = np.eye(4)
AFFINE[:3, :3] = TURN * [1.25, 1.0, 1.5]
AFFINE[:3, 3] = -AFFINE[:3, :3] @ [14.2, 13.6, 15.7]
GRID = ts.Space(AFFINE, SHAPE)
IMAGE = ts.Space(np.diag([3.0, 3, 3, 1]) + np.outer([-22, -22, -22, 0], [0, 0, 0, 1]), (15, 15, 15))  # that is tracked


def tissues(width, grid=GRID):
    """A ball of white matter in a shell of grey matter in fluid, whose fractions change over a width in mm."""
    away = np.linalg.norm(grid.to_ras(np.argwhere(np.ones(grid.shape))), axis=1).reshape(grid.shape)
    white, head = (np.clip(0.5 + (edge - away) / width, 0, 1) for edge in (RADIUS, RADIUS + CORTEX))
    parts = (1 - white) * head, 0 * white, white * head, 1 - head, 0 * white
    return np.stack(parts, axis=-1).astype(np.float32)


WIDTHS = {"smooth": 4.0, "hard": 1e-9}
FIVE = {name: tissues(width) for name, width in WIDTHS.items()}


def seeds_of(kind, count=4000, key=3, threads=None, image=IMAGE):
    segmentation = Segmentation(FIVE[kind], GRID, "5tt.nii")
    voxels = segmentation.interface()
    return InterfaceSeeds(segmentation, voxels, np.ones(len(voxels)), AFFINE, image, Draw(count, key, threads))


def fractions_at(values, points):
    """The tissues at points in RASmm, interpolated by scipy, (n, 5)."""
    places = GRID.to_voxel(points).T
    return np.stack([map_coordinates(values[..., i], places, order=1, mode="nearest") for i in range(5)], axis=-1)


@pytest.mark.parametrize("kind", FIVE)
class TestPlaces:
    def test_grey_equals_white_matter_at_the_seeds(self, kind):
        """They are just on the grey side, and as far from the centre as the interface."""
        points = IMAGE.to_ras(seeds_of(kind).points(0, 4000))
        cortex, _, white, fluid, _ = fractions_at(FIVE[kind], points).T
        excess = cortex - white
        assert excess.min() > -1e-6
        assert excess.max() < NEAR + 1e-6
        assert (white > 0.3).all()
        assert (fluid < white).all()
        away = np.linalg.norm(points, axis=1)
        assert np.abs(away - RADIUS).max() < {"smooth": 0.1, "hard": 1.1}[kind]
        assert len(np.unique(points, axis=0)) == len(points)

    def test_a_seed_depends_on_its_number_alone(self, kind):
        whole = seeds_of(kind).points(0, 4000)
        alone = seeds_of(kind, 700_000, threads=1)
        assert np.array_equal(np.concatenate([alone.points(first, 617) for first in range(0, 3702, 617)]), whole[:3702])
        assert np.array_equal(alone.points(3999, 1)[0], whole[3999])
        assert len(seeds_of(kind).points(3990, 100)) == 10
        assert not np.isin(seeds_of(kind, key=4).points(0, 50), whole).any()

    def test_all_voxels_that_are_read_are_in_reach(self, kind):
        seeds = seeds_of(kind)
        corners = [np.floor(points).astype(int) for points in (seeds.points(0, 4000), seeds.reach())]
        read, reached = ({tuple(cell) for cell in cells} for cells in corners)
        assert read <= reached
        assert len(reached) < 0.5 * np.prod(IMAGE.shape)


def directions(points):
    """How many points lie in each of 64 cubes of directions, and how far they are from the centre."""
    away = np.linalg.norm(points, axis=1)
    cubes = np.minimum(np.floor((points / away[:, None] + 1) * 2), 3).astype(int) @ [16, 4, 1]
    return np.bincount(cubes, minlength=64), away


@pytest.mark.skipif(shutil.which("tckgen") is None, reason="MRtrix3's tckgen is not installed")
@pytest.mark.parametrize("kind", FIVE)
def test_tckgen_spreads_seeds_alike(kind, tmp_path):
    """From random points in the mask of 5tt2gmwmi: the same distances and directions from the centre, up to chance."""
    count = 20_000
    nib.save(nib.Nifti1Image(FIVE[kind], AFFINE), tmp_path / "5tt.nii")
    options = f"-seed_gmwmi mask.nii -act 5tt.nii -select {count} -seeds 0 -minlength 0"
    for command in ("5tt2gmwmi 5tt.nii mask.nii", f"tckgen -algorithm seedtest 5tt.nii a.tck {options}"):
        subprocess.run([*command.split(), "-quiet", "-nthreads", "0"], cwd=tmp_path, check=True, capture_output=True,
                       env=os.environ | {"MRTRIX_RNG_SEED": "3"}, timeout=60)
    theirs = nib.streamlines.load(tmp_path / "a.tck").streamlines.get_data()
    weights = np.asarray(nib.load(tmp_path / "mask.nii").dataobj)
    voxels = np.argwhere(weights).astype(np.int32)
    drawn = voxels, weights[tuple(voxels.T)], AFFINE
    seeds = interface_seeds(tmp_path / "5tt.nii", *drawn, IMAGE, Draw(count, 0))
    (ours, away), (others, their_distances) = map(directions, (IMAGE.to_ras(seeds.points(0, count)), theirs))
    counts = np.array([ours, others])
    assert counts.sum() == 2 * count
    assert chi2_contingency(counts[:, counts.sum(axis=0) > 20]).pvalue > 1e-3
    assert ks_2samp(away, their_distances).pvalue > 1e-3


@pytest.fixture(scope="module")
def run():
    """Options of a run along straight fibres everywhere; all seeds in the image have a streamline."""
    fibre = sampling_matrix(np.array([[0, 0, 1.0]]), 4, "tournier07")
    sh = np.broadcast_to(fibre[0], (*IMAGE.shape, 15)).astype(np.float32)
    five = nib.Nifti1Image(FIVE["smooth"], AFFINE)
    return {
        "sh": sh, "sh_basis": "tournier07", "affine": IMAGE.affine, "stop_map": np.ones(IMAGE.shape, np.float32),
        "dg": "det", "seed_gmwmi": five, "nseeds": 300, "max_steps": 3, "min_length": 0, "arch": "cpu",
    }


def begun(**options):
    """Seeds of the streamlines of a run, by their number."""
    batch = ts.Batch.concatenate(list(ts.stream(**options)))
    return batch.seeds[np.argsort(batch.seed_number)]


class TestRuns:
    def test_chunks_and_masks(self, run):
        seeds = begun(**run)
        assert len(seeds) == 300
        assert np.allclose(seeds, IMAGE.to_ras(seeds_of("smooth", 300, key=0).points(0, 300)), atol=1e-4)
        assert np.array_equal(begun(**run, chunk_size=37), seeds)
        half = IMAGE.to_ras(np.argwhere(np.ones(IMAGE.shape)))[:, 0].reshape(IMAGE.shape) > 3
        there = begun(**run, seed_mask=half)
        assert there[:, 0].min() > 1.5 - 4 * np.sqrt(2)  # where the mask ends, less the greatest shift
        assert np.array_equal(begun(**run, seed_image=np.float32(0.1) * half), there)
        with pytest.raises(ts.InputError, match="seed 0 was not found in 1000 attempts: hardly any voxel of seed_mask"):
            begun(**run, seed_mask=np.indices(IMAGE.shape).max(axis=0) < 2)

    def test_with_tables_of_the_cache(self, run, tmp_path):
        nib.save(run["seed_gmwmi"], tmp_path / "5tt.nii.gz")
        kept = run | {"seed_gmwmi": tmp_path / "5tt.nii.gz", "cache_dir": tmp_path}
        first, again = begun(**kept), begun(**kept)
        assert np.array_equal(first, again)
        assert np.allclose(first, begun(**run), atol=1e-4)  # the file has its affine in float32

    def test_what_is_no_segmentation_is_refused(self, run):
        for values, words in (
            (FIVE["hard"][..., :4], r"seed_gmwmi \(in memory\): shape .* give a five-tissue-type image"),
            (FIVE["hard"][..., [3, 1, 4, 0, 2]], "grey and white matter meet nowhere; give five volumes"),
        ):
            with pytest.raises(ts.InputError, match=words):
                begun(**run | {"seed_gmwmi": nib.Nifti1Image(values, AFFINE)})
        far = AFFINE + np.outer([0, 500, 0, 0], [0, 0, 0, 1])
        with pytest.raises(ts.ParameterError, match="seed_gmwmi lies outside the image"):
            begun(**run | {"seed_gmwmi": nib.Nifti1Image(FIVE["hard"], far)})
        unnumbered = {name: value for name, value in run.items() if name != "nseeds"}
        others = {"seed_sphere": [0, 0, 0, 5], "seeds_per_voxel": 3, "seed_grid": 2, "seeds": np.zeros((2, 3))}
        for name, value in others.items():
            with pytest.raises(ts.ParameterError, match="exclude each other"):
                begun(**unnumbered, **{name: value})
