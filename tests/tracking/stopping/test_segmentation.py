"""Five tissues that a run makes of a segmentation or of fractions: those of ``tistreamlines 5tt``, bit for bit."""

import json
import shutil
import subprocess
from functools import partial

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from head import SHAPE, make_head, tracked

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.images import silent
from tistreamlines.io.sidecar import sha256
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.cluster import _Job
from tistreamlines.tracking.stopping.segmentation import read_tissues, tissue_files
from tistreamlines.tracking.weights.options import tissues_of
from tistreamlines.tracking.weights.voxel_masks import tissue_mask

AFFINE = np.array([[-1.1, 0.3, 0.1, 21], [0.2, 0.1, 1.2, -17], [-0.1, -1.0, 0.2, 9], [0, 0, 0, 1]])  # as of recon-all
FRACTIONS = ("pve_wm", "pve_gm", "pve_csf")


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """The made-up head with a segmentation of its tissues, whose labels are those of FreeSurfer."""
    folder = make_head(tmp_path_factory.mktemp("head"))
    x, y, z = np.indices(SHAPE)
    deep = (np.abs(x - 15) < 2.5) & (y < 8)
    labels = np.where(x < 4, 24, np.where(x >= 26, np.where(z < 8, 3, 1022), np.where(deep, 10, 2)))
    labels[:, :2] = 0
    affine = nib.load(folder / "mask.nii.gz").affine
    nib.save(nib.MGHImage(labels.astype(np.int32), affine), folder / "aparc+aseg.mgz")
    # axes and types differ between programs, not the places of labels
    turned = np.ascontiguousarray(labels.transpose(1, 2, 0)[::-1])
    axes = affine @ np.array([[0, 0, 1, 0], [-1, 0, 0, SHAPE[1] - 1], [0, 1, 0, 0], [0, 0, 0, 1]])
    nib.save(nib.Nifti1Image(turned.astype(np.float32), axes), folder / "synthseg.nii.gz")
    return folder


@pytest.fixture
def save(tmp_path):
    def saved(values, name="image.nii.gz", affine=AFFINE):
        image = nib.MGHImage if name.endswith(".mgz") else nib.Nifti1Image
        nib.save(image(np.asarray(values), affine), tmp_path / name)
        return tmp_path / name

    return saved


def labels_of(shape=(7, 8, 9), seed=0):
    """Labels of each tissue in the middle of an image."""
    labels = np.random.default_rng(seed).choice([0, 2, 3, 10, 17, 24, 77], shape).astype(np.int32)
    labels[0] = labels[:, -1] = 0
    return labels


read = partial(read_tissues, warn=silent)


# ----------------------------------------------------------------------------------------------- which image it is
@pytest.mark.parametrize(("name", "kind", "axes"), [
    ("aseg.mgz", np.int32, 3), ("aseg.nii", np.float32, 3), ("aseg.nii.gz", np.int16, 4),
])
def test_labels_are_made_the_image_that_5tt_writes(save, tmp_path, name, kind, axes):
    path = save(labels_of().astype(kind).reshape((7, 8, 9, 1)[:axes]), name)
    values, space = read(path)
    ts.five_tissues(path, tmp_path / "5tt.nii.gz", crop=True)
    again, grid = read(tmp_path / "5tt.nii.gz")
    np.testing.assert_array_equal(values, again)
    np.testing.assert_array_equal(space.affine, grid.affine)
    assert values.shape == (7, 8, 9, 5)  # cut at one side, where there is a voxel to spare at no other


def test_scaled_labels_count_as_whole_numbers(save):
    """As those of an image whose header scales them."""
    labels = labels_of()
    path = save(labels)
    image = nib.Nifti1Image((10 * labels).astype(np.int16), AFFINE)
    image.header.set_slope_inter(0.1, 0)
    nib.save(image, path.with_name("scaled.nii"))
    np.testing.assert_array_equal(read(path.with_name("scaled.nii"))[0], read(path)[0])


@pytest.mark.parametrize("name", ["5tt.nii.gz", "5tt.mif", "5tt.mif.gz"])
def test_five_tissues_are_read_as_they_are(save, name):
    """As 5ttgen writes them: float32, cropped or not."""
    values = np.random.default_rng(5).dirichlet(np.ones(5), (4, 5, 6)).astype(np.float32)
    values[0] = 0
    path = save(values, "5tt.nii.gz", np.diag([2.0, 2, 2, 1]))
    if name != path.name:
        if shutil.which("mrconvert") is None:
            pytest.skip("MRtrix3 is not installed")
        subprocess.run(["mrconvert", "-quiet", path, path.with_name(name)], check=True)
    np.testing.assert_array_equal(read(path.with_name(name))[0], values)


RNG = np.random.default_rng(3)
PIECE = RNG.integers(0, 2, (5, 6, 7))


@pytest.mark.parametrize(("values", "words"), [
    (PIECE.astype(np.uint8), "has only 0 and 1, as a mask"),
    (PIECE.astype(np.float32), "has only 0 and 1, as a mask"),
    (255 * PIECE.astype(np.uint8), "has no labels of grey matter; give an aseg"),  # 255 is a part of corpus callosum
    (10 * PIECE.astype(np.uint8), "has no labels of white matter; give an aseg"),
    (24 * PIECE.astype(np.uint8), "has no labels of grey matter and white matter; give"),
    (0 * PIECE.astype(np.uint8), "has no label above 0"),
    (RNG.integers(0, 4, (5, 6, 7)).astype(np.uint8), r".* voxels have labels of no known tissue \(1\)"),  # fast
    (RNG.integers(0, 401, (5, 6, 7)).astype(np.int16), r".* voxels have labels of no known tissue \(19, "),  # parcels
    (RNG.random((5, 6, 7)).astype(np.float32), "value .* is no label; give whole numbers"),  # a T1 image, or FA
    (np.full((5, 6, 7), np.nan, np.float32), "value nan .* is no label; give whole numbers"),
    ((-2 * PIECE).astype(np.int16), "value -2 .* is no label; give labels from 0 on"),
    (RNG.random((5, 6, 7, 65)).astype(np.float32), r"shape \(5, 6, 7, 65\); give a five-tissue-type image"),
    (RNG.integers(0, 2000, (5, 6, 7, 5)).astype(np.int16), "values of 210 voxels are no fractions"),  # a series of five
    (RNG.random((5, 6, 7, 3)).astype(np.float32), r"shape \(5, 6, 7, 3\); give a five-tissue-type image"),
    (RNG.random((5, 6)).astype(np.float32), r"shape \(5, 6\) has 2 axes"),
])
def test_other_images_are_named_in_one_line(save, values, words):
    path = save(values)
    with pytest.raises(InputError, match=f"image.nii.gz: {words}") as error:
        read(path)
    assert "\n" not in str(error.value)


# ----------------------------------------------------------------------------------------------------- what options say
def test_which_files_options_name():
    def files(name="act", **options):
        return tissue_files(Parameters(sh="fod.mif", dg="ifod2", **options), name)

    assert files() is None
    assert files("seed_gmwmi", seed_gmwmi="5tt.mif").files == ("5tt.mif",)
    assert files("seed_gmwmi", seed_gmwmi="act", act="aseg.mgz") == files(act="aseg.mgz")
    fractions = {name: f"{name}.nii" for name in FRACTIONS}
    assert files(**fractions) is None  # DIPY's rule
    assert files(stopping="act5", **fractions).files == tuple(fractions.values())
    assert files(**fractions, sgm="first.nii").files == (*fractions.values(), "first.nii")  # which chooses the rule
    assert files(act="aseg.mgz", sgm_amyg_hipp=True).sgm_amyg_hipp


@pytest.mark.parametrize(("options", "words"), [
    ({"act": "aseg.mgz", **dict.fromkeys(FRACTIONS, "a.nii")}, "act and pve_wm exclude each other"),
    ({"act": "aseg.mgz", "sgm": "first.nii"}, "sgm needs pve_wm"),
    ({"sgm_amyg_hipp": True}, "sgm_amyg_hipp needs act or sgm"),
    ({"crop_at_gmwmi": True}, "crop_at_gmwmi needs act or pve_wm"),
    ({"save_5tt": "5tt.nii"}, "save_5tt needs act or pve_wm"),
    ({"seed_gmwmi": "act"}, "seed_gmwmi act takes the five tissues of the stopping rule: give act"),
    ({**dict.fromkeys(FRACTIONS, "a.nii"), "save_5tt": "5tt.nii"}, "save_5tt can be used with stopping act5"),
])
def test_options_that_cannot_be_combined(options, words):
    with pytest.raises(ParameterError, match=words):
        Parameters.given({"sh": "fod.mif", "dg": "ifod2", **options})


def test_a_file_of_five_tissues_has_no_labels(save):
    tissues, notes = np.zeros((3, 3, 3, 5), np.float32), []
    tissues[..., 2] = 1
    path = save(tissues)
    tissue_files(Parameters(sh="fod.mif", dg="ifod2", act=path, sgm_amyg_hipp=True)).read(notes.append)
    assert notes == [f"--sgm-amyg-hipp changes nothing: {path} has five tissues, not labels"]


# ----------------------------------------------------------------------------------------------------------------- runs
@pytest.fixture(scope="module")
def whole(head):
    """A run of the segmentation, which writes its five tissues."""
    out = head / "whole.trx"
    return tracked(head, act=head / "aparc+aseg.mgz", output=out, save_5tt=head / "saved.nii.gz", nseeds=300)


def test_a_run_follows_the_image_that_it_writes(head, whole, tmp_path):
    again = tracked(head, act=head / "saved.nii.gz", output=tmp_path / "again.trx", nseeds=300)
    assert whole.n_streamlines > 50
    assert whole.path.read_bytes() == again.path.read_bytes()
    ts.five_tissues(head / "aparc+aseg.mgz", tmp_path / "5tt.nii.gz", crop=True)
    assert (tmp_path / "5tt.nii.gz").read_bytes() == (head / "saved.nii.gz").read_bytes()


def test_the_record_names_the_segmentation_and_the_image(head, whole):
    record = json.loads((head / "whole.json").read_text())
    segmentation, written = head / "aparc+aseg.mgz", head / "saved.nii.gz"
    assert record["inputs"]["act"] == {"path": str(segmentation), "sha256": sha256(segmentation)}
    assert record["five_tissues"] == {"path": str(written), "sha256": sha256(written)}
    assert record["parameters"]["act"] == str(segmentation)


def test_other_axes_and_types_give_the_same_streamlines(head, whole):
    other = tracked(head, act=head / "synthseg.nii.gz", nseeds=300)
    assert other.stop_reasons == whole.stop_reasons
    np.testing.assert_allclose(np.concatenate(list(other)), np.concatenate(list(whole.streamlines)), atol=1e-3)


def test_an_array_of_labels_is_a_segmentation(head, whole):
    """On the grid of the FODs, as arrays are."""
    labels = np.asarray(nib.load(head / "aparc+aseg.mgz").dataobj)
    assert tracked(head, act=labels, nseeds=300).stop_reasons == whole.stop_reasons


def test_fractions_and_labels_of_deep_nuclei(head, tmp_path):
    """As 5tt makes them of the same files; seeds lie at their interface."""
    labels = np.asarray(nib.load(head / "aparc+aseg.mgz").dataobj)
    affine = nib.load(head / "mask.nii.gz").affine
    deep = labels == 10
    parts = {"pve_wm": (labels == 2) + 0.6 * deep, "pve_gm": np.isin(labels, (3, 1022)) + 0.4 * deep,
             "pve_csf": labels == 24}
    files = {name: tmp_path / f"{name}.nii" for name in (*parts, "sgm")}
    for name, values in (parts | {"sgm": 10 * deep}).items():
        nib.save(nib.Nifti1Image(values.astype(np.float32), affine), files[name])
    ts.five_tissues(output=tmp_path / "5tt.nii", crop=True, **files)
    common = {"seed_mask": None, "nseeds": 100}
    result = tracked(head, output=tmp_path / "made.trx", act=None, stopping="act5", seed_gmwmi="act",
                     save_5tt=tmp_path / "saved.nii", **files, **common)
    tracked(head, output=tmp_path / "read.trx", act=tmp_path / "5tt.nii", seed_gmwmi=tmp_path / "5tt.nii", **common)
    assert result.n_streamlines > 20
    assert (tmp_path / "made.trx").read_bytes() == (tmp_path / "read.trx").read_bytes()
    assert (tmp_path / "saved.nii").read_bytes() == (tmp_path / "5tt.nii").read_bytes()


def test_weights_count_the_white_matter_of_labels(save, tmp_path):
    path = save(labels_of(), affine=np.eye(4))
    ts.five_tissues(path, tmp_path / "5tt.nii")
    options = Parameters(sh="fod.mif", dg="ifod2", act=path, sift2=("tracked", "w.txt"))
    space, inside = ts.Space(np.eye(4), (7, 8, 9)), np.ones((7, 8, 9), bool)
    ours, theirs = (tissue_mask(source, space, inside, choose("cpu"), 1, silent)
                    for source in (tissues_of(options), tmp_path / "5tt.nii"))
    np.testing.assert_array_equal(ours, theirs)


def test_the_cache_belongs_to_the_labels(head, whole, tmp_path):
    """With other labels under the same name, tables are made anew."""
    path = tmp_path / "aseg.mgz"
    shutil.copyfile(head / "aparc+aseg.mgz", path)
    options = {"act": path, "nseeds": 300, "cache_dir": tmp_path / "cache"}
    for name in ("first", "cached"):
        tracked(head, output=tmp_path / f"{name}.trx", **options, save_5tt=tmp_path / f"{name}.nii.gz")
        assert (tmp_path / f"{name}.trx").read_bytes() == whole.path.read_bytes()
        assert (tmp_path / f"{name}.nii.gz").read_bytes() == (head / "saved.nii.gz").read_bytes()
    labels = np.asarray(nib.load(path).dataobj).copy()
    labels[labels == 10] = 2
    nib.save(nib.MGHImage(labels, nib.load(path).affine), path)
    assert tracked(head, **options).stop_reasons != whole.stop_reasons


def test_workers_of_a_cluster_write_the_image_once(head, tmp_path):
    """The client refuses a name that every part would write, and knows the segmentation as an input."""
    options = {"sh": head / "fod.nii.gz", "sh_basis": "tournier07", "act": head / "aparc+aseg.mgz", "dg": "ifod2",
               "seed_mask": head / "mask.nii.gz", "output": tmp_path / "out.trx"}
    job = _Job(0, options | {"save_5tt": tmp_path / "5tt.nii"}, 2, 2)
    assert job.arguments["act"] == str(head / "aparc+aseg.mgz")
    with pytest.raises(ParameterError, match="save_5tt is within parameters"):
        _Job(0, options | {"parameters": Parameters(save_5tt="5tt.nii", act="a.mgz")}, 2, 2)
    with pytest.raises(ts.errors.OutputError, match=r"5tt.mif: unknown suffix '.mif'; end the name with .nii.gz, .nii"):
        _Job(0, options | {"save_5tt": tmp_path / "5tt.mif"}, 2, 2)
    with pytest.raises(ts.errors.OutputError, match="is an input"):
        _Job(0, options | {"save_5tt": head / "5tt.nii.gz", "seed_gmwmi": head / "5tt.nii.gz", "force": True}, 2, 2)


def test_the_command_names_a_mask_and_a_segmentation_elsewhere(head, tmp_path, run):
    common = ["track", "--sh", head / "fod.nii.gz", "--sh-basis", "tournier07", "--seed-mask", head / "mask.nii.gz",
              "--dg", "ifod2", "--arch", "cpu", "-o", tmp_path / "out.tck", "--act"]
    one_line(run(*common, head / "mask.nii.gz"), 1, "mask.nii.gz: has only 0 and 1, as a mask")
    one_line(run(*common, head / "fod.nii.gz"), 1, "fod.nii.gz: shape (30, 16, 16, 15)", "has three axes")
    image = nib.load(head / "aparc+aseg.mgz")
    away = image.affine + 500 * np.eye(4, k=3)
    nib.save(nib.MGHImage(np.asarray(image.dataobj), away), tmp_path / "away.mgz")
    one_line(run(*common, tmp_path / "away.mgz"), 1, "away.mgz: has only zeros where", "in one space")
    assert not (tmp_path / "out.tck").exists()
