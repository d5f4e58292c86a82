"""Five tissues of a subject's folder, against closed forms of balls, and MRtrix3's 5ttgen hsvs."""

import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
import subjects
from commands import one_line
from meshes import icosphere, save_freesurfer
from subjects import CENTRE, HEMISPHERE, MIDLINE, MIRROR, PAIRS, PIAL_RADIUS, WHITE_RADIUS, save_subject

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.images import open_image
from tistreamlines.io.nifti import load_map
from tistreamlines.space.batch import Space

CORTICAL, DEEP, WHITE, FLUID, PATHOLOGICAL = range(5)
SAMPLES = 32  # of a voxel along x and y


@pytest.fixture(scope="module")
def subject(tmp_path_factory):
    return save_subject(tmp_path_factory.mktemp("subjects") / "sub")


@pytest.fixture
def copy(subject, tmp_path):
    """A copy of the folder, which a test may change."""
    return shutil.copytree(subject, tmp_path / "sub")


@pytest.fixture(scope="module")
def image(subject):
    return ts.five_tissues(subject)


def values_of(image):
    return np.asarray(image.dataobj)


def places_of(image):
    """Where the voxels lie, mm from the centre of the volume."""
    voxels = np.stack(np.meshgrid(*map(np.arange, image.shape[:3]), indexing="ij"), axis=-1)
    return nib.affines.apply_affine(image.affine, voxels) - CENTRE


def ball(places, side, centre, radius):
    """The shares of voxels in a ball: samples across, and closed along z."""
    x, y, z = (places - centre).T
    offsets = side * ((np.arange(SAMPLES) + 0.5) / SAMPLES - 0.5)
    total = np.zeros(len(places))
    for across, along in np.stack(np.meshgrid(offsets, offsets), axis=-1).reshape(-1, 2):
        half = np.sqrt(np.maximum(radius**2 - (x + across) ** 2 - (y + along) ** 2, 0))
        total += (half - z).clip(-side / 2, side / 2) - (-half - z).clip(-side / 2, side / 2)
    return total / (SAMPLES**2 * side)


def far_from_others(image, clear=5.0):
    """Voxels that no structure but the cortex is near."""
    places, free = places_of(image), np.ones(image.shape[:3], bool)
    balls = [*MIDLINE.values(), *((MIRROR * place, r) for place, r in PAIRS.values()), *PAIRS.values()]
    for place, radius in balls:
        free &= np.linalg.norm(places - place, axis=-1) > radius + clear
    return free


def test_cortex_and_white_matter(image):
    """Between two balls there is cortex, within the smaller one white matter, and around them fluid."""
    places, values = places_of(image), values_of(image)
    away, free = np.linalg.norm(places, axis=-1), far_from_others(image)
    assert values[free & (away > 45)].max() == 0
    depth = np.linalg.norm(np.abs(places) * [1, 0, 0] + places * [0, 1, 1] - HEMISPHERE, axis=-1)
    chosen = free & (away < 40) & (depth > WHITE_RADIUS - 2) & (depth < PIAL_RADIUS + 2)
    places, values = places[chosen], values[chosen]
    pial, white = (
        sum(ball(places, image.header.get_zooms()[0], sign * HEMISPHERE, radius) for sign in (MIRROR, 1)).clip(0, 1)
        for radius in (PIAL_RADIUS, WHITE_RADIUS)
    )
    assert (pial > 0).sum() > 3000
    for tissue, expected in ((WHITE, white), (CORTICAL, pial - white)):
        assert np.abs(values[:, tissue] - expected).max() < 0.02
        assert abs(values[:, tissue].sum() / expected.sum() - 1) < 0.01
    np.testing.assert_allclose(values.sum(axis=-1), 1, atol=1e-5)


@pytest.mark.parametrize(("label", "tissue"), [
    *((label, DEEP) for label in (10, 11, 12, 13, 17, 18, 26)), *((label, FLUID) for label in (14, 24, 72, 4, 5, 30)),
    (25, PATHOLOGICAL), (252, WHITE), (250, WHITE), (16, PATHOLOGICAL), (7, WHITE), (8, DEEP),
])
def test_structures(image, label, tissue):
    """The tissue in the middle of a structure, and that of its counterpart."""
    pair = next((pair for pair in PAIRS if label in pair), None)
    place = np.array(PAIRS[pair][0] if pair else MIDLINE[label][0])
    if label == 8:
        place[2] += 8  # grey matter is around the white matter of the cerebellum
    for sign in (1, MIRROR):
        voxel = np.rint(nib.affines.apply_affine(np.linalg.inv(image.affine), sign * place + CENTRE)).astype(int)
        assert values_of(image)[tuple(voxel)].argmax() == tissue


def test_stem(subject, image):
    """Below the fourth ventricle, the image ends; above, the stem may be white matter."""
    values, places = values_of(image), places_of(image)
    stem = np.linalg.norm(places - MIDLINE[16][0], axis=-1) < 6.5
    lower, upper = (stem & side for side in (places[..., 2] < -31, places[..., 2] > -27))
    assert values[lower].max() == 0
    assert values[upper & (values[..., FLUID] == 0)][:, PATHOLOGICAL].min() > 0.9
    white = values_of(ts.five_tissues(subject, white_stem=True))
    changed = white != values
    assert changed[upper].any()
    assert not changed[..., [CORTICAL, DEEP, FLUID]].any()
    np.testing.assert_allclose(white[..., [WHITE, PATHOLOGICAL]].sum(-1), values[..., [WHITE, PATHOLOGICAL]].sum(-1))


def test_the_command_and_other_grids(subject, image, tmp_path, run):
    out = tmp_path / "5tt.nii.gz"
    done = run("5tt", subject, "-o", out, "--crop", "-q")
    assert done.code == 0, done
    cropped = nib.load(out)
    low = np.rint(np.linalg.inv(image.affine) @ cropped.affine[:, 3]).astype(int)[:3]
    box = tuple(slice(start, start + size) for start, size in zip(low, cropped.shape, strict=False))
    np.testing.assert_array_equal(cropped.dataobj, values_of(image)[box])
    if shutil.which("5ttcheck"):
        assert "[WARNING]" not in subprocess.run(["5ttcheck", out], capture_output=True, text=True, check=True).stderr
    coarse = ts.five_tissues(subject, voxel_size=3.0)
    assert coarse.shape == (32, 32, 32, 5)
    again = ts.five_tissues(subject, template=coarse)
    np.testing.assert_array_equal(values_of(again), values_of(coarse))
    volumes = [values_of(item).sum(axis=(0, 1, 2)) * np.prod(item.header.get_zooms()[:3]) for item in (image, coarse)]
    np.testing.assert_allclose(*(volume[[CORTICAL, DEEP, FLUID]] for volume in volumes), rtol=0.02)


def test_threads_do_not_matter(subject, image, monkeypatch):
    from tistreamlines.surfaces import hybrid

    monkeypatch.setattr(hybrid, "in_threads", lambda task, items, _: list(map(task, items)))
    np.testing.assert_array_equal(values_of(ts.five_tissues(subject)), values_of(image))


def test_surfaces_without_geometry(copy, image):
    """They lie as the volume of the labels says, which 5ttgen always takes."""
    for name, sign in (("lh", MIRROR), ("rh", 1)):
        for kind, radius in (("white", WHITE_RADIUS), ("pial", PIAL_RADIUS)):
            save_freesurfer(copy / "surf" / f"{name}.{kind}", *icosphere(4, radius, sign * HEMISPHERE))
    np.testing.assert_allclose(values_of(ts.five_tissues(copy)), values_of(image), atol=1e-4)


def test_modules(copy, image, run, tmp_path):
    """Images of FreeSurfer's modules replace the labels of their structures, and only these."""
    for option, module in (("hippocampi", "subfields"), ("thalami", "nuclei")):
        one_line(run("5tt", copy, f"--{option}", module, "-o", tmp_path / "5tt.nii"), 1, f"leave --{option} out")
    for version in ("v10.T1", "v13.T1.FSvoxelSpace", "v9.T1.long"):
        (copy / "mri" / f"ThalamicNuclei.{version}.mgz").write_bytes(b"not read")
    subjects.save_fine(copy / "mri" / "ThalamicNuclei.v13.T1.mgz", subjects.NUCLEI)
    for side, sign in (("lh", -1), ("rh", 1)):
        (copy / "mri" / f"{side}.hippoAmygLabels-T1.v21.mgz").write_bytes(b"not read")
        subjects.save_fine(copy / "mri" / f"{side}.hippoAmygLabels-T1.v21.FS60.mgz", subjects.subfields_of(sign))
    coarse = ts.five_tissues(copy, hippocampi="aseg", thalami="aseg")
    np.testing.assert_array_equal(values_of(coarse), values_of(image))
    values = values_of(ts.five_tissues(copy))

    def tissue_at(place):
        voxel = np.rint(np.linalg.inv(image.affine) @ [*(place + CENTRE), 1]).astype(int)[:3]
        return values[tuple(voxel)].argmax()

    for sign in (1, MIRROR):
        for place in ((22, -16, -8), (22, 10, -12), (13, 2, 0)):
            assert tissue_at(sign * np.array(place)) == DEEP
        for place in ((22, -16, -1.5), (13, -0.5, -4), (17, -14, -8), (20, 10, -7)):
            assert tissue_at(sign * np.array(place)) == WHITE
    far = [np.linalg.norm(places_of(image) - sign * np.array(PAIRS[pair][0]), axis=-1) > 12
           for sign in (1, MIRROR) for pair in ((10, 49), (17, 53), (18, 54))]
    np.testing.assert_array_equal(values[np.all(far, axis=0)], values_of(image)[np.all(far, axis=0)])


@pytest.mark.parametrize("name", ["mri/aparc+aseg.mgz", "mri/brainmask.mgz", "surf/lh.white", "surf/rh.pial"])
def test_missing_and_damaged_files(copy, name, run, tmp_path):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    one_line(run("5tt", copy, "-o", tmp_path / "5tt.nii"), 1, name.rpartition("/")[2])
    (copy / name).unlink()
    one_line(run("5tt", copy, "-o", tmp_path / "5tt.nii"), 1, f"{name}: no such file")
    assert not (tmp_path / "5tt.nii").exists()


def test_other_folders(copy, tmp_path, run):
    for folder in (copy / "mri", copy.parent):
        one_line(run("5tt", folder, "-o", tmp_path / "5tt.nii"), 1, "aparc+aseg.mgz: no such file", "subject's folder")
    (copy / "mri" / "aparc+aseg.mgz").rename(copy / "mri" / "aseg.mgz")
    assert ts.five_tissues(copy).shape == (48, 48, 48, 5)
    one_line(run("5tt", copy, "--force", "-o", copy / "mri" / "brainmask.mgz"), 1, "is an input")


def test_surfaces_that_cannot_be_used(copy):
    vertices, triangles = icosphere(4, WHITE_RADIUS, MIRROR * HEMISPHERE)
    for surface, words in (
        ((vertices, triangles[5:]), r"lh\.white: is not closed"),
        ((vertices + np.array([60, 0, 0]), triangles), r"lh\.white: only .*% of its vertices lie where .*seg\.mgz has"),
        ((vertices + 900, triangles), r"lh\.white: only 0%"),
    ):
        save_freesurfer(copy / "surf" / "lh.white", *surface)
        with pytest.raises(InputError, match=words):
            ts.five_tissues(copy)


def test_an_empty_brain_and_a_cortex_without_grey_matter(copy, run, tmp_path):
    """As of a hemisphere whose surfaces are the same file; on any grid that has a side of them."""
    shutil.copy(copy / "surf" / "rh.white", copy / "surf" / "rh.pial")
    for options in ({}, {"voxel_size": 3.0}):
        with pytest.warns(UserWarning, match=r"rh\.pial: there is no cortical grey matter") as told:
            ts.five_tissues(copy, **options)
        assert len(told) == 1
    brain = nib.load(copy / "mri" / "brainmask.mgz")
    nib.save(nib.MGHImage(np.zeros(brain.shape, np.float32), brain.affine), copy / "mri" / "brainmask.mgz")
    one_line(run("5tt", copy, "-o", tmp_path / "5tt.nii"), 1, "brainmask.mgz: no voxel is inside the brain")


@pytest.mark.parametrize(("options", "words"), [
    ({"sgm_amyg_hipp": True}, "leave it out"), ({"voxel_size": 0.01}, "give 0.2 to 10 mm"),
    ({"voxel_size": 1.0, "template": "mri/brainmask.mgz"}, "give one of them"),
    ({"pve_wm": "wm.nii"}, "cannot be combined"),
])
def test_options_of_folders(subject, options, words):
    options = {name: subject / value if name == "template" else value for name, value in options.items()}
    with pytest.raises(ParameterError, match=words):
        ts.five_tissues(subject, **options)
    with pytest.raises(ParameterError, match="white_stem is for a subject's folder"):
        ts.five_tissues(subject / "mri" / "aparc+aseg.mgz", white_stem=True)


def test_a_template_elsewhere(subject):
    far = nib.Nifti1Image(np.zeros((4, 4, 4), np.float32), np.eye(4) + 900 * np.eye(4, k=3))
    with pytest.raises(InputError):
        ts.five_tissues(subject, template=far)


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("5ttgen") is None, reason="MRtrix3's 5ttgen is not installed")
def test_5ttgen(tmp_path):
    """Without FSL, it takes structures from the labels and the nuclei; its fractions come of 1000 samples."""
    folder = save_subject(tmp_path / "sub", side=1.0)
    subjects.save_fine(folder / "mri" / "ThalamicNuclei.v13.T1.mgz", subjects.NUCLEI)
    words = "5ttgen hsvs sub theirs.nii -nocrop -nthreads 2 -quiet"
    subprocess.run(words.split(), cwd=tmp_path, check=True, capture_output=True, timeout=600)
    ours = ts.five_tissues(folder)
    space = Space(ours.affine, ours.shape[:3])
    theirs = load_map(open_image(tmp_path / "theirs.nii"), space, volumes=5)
    apart = np.abs(values_of(ours) - theirs)
    stem = np.linalg.norm(places_of(ours) - MIDLINE[16][0], axis=-1) < 16  # whose surface crosses itself
    outside = np.linalg.norm(places_of(ours), axis=-1) > 43  # a thousandth there is filled with fluid
    assert apart[~stem & ~outside].max() < 0.07
    assert (apart[~stem & ~outside] > 0.03).sum() < 100
    assert (apart[stem] > 0.04).sum() < 100
    assert (apart[outside] > 0.04).sum() < 300
