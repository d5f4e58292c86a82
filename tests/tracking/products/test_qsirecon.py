"""The four matrices of QSIRecon's recipe beside tck2connectome's, for atlases and streamlines at the edges.

``github.com/PennLINC/qsirecon`` calls it with these options (``data/pipelines/mrtrix_multishell_msmt_ACT-hsvs.yaml``
and ``interfaces/mrtrix.py``). ``benchmarks/atlases.py`` compares them on a whole brain.
"""

import nibabel as nib
import numpy as np
import pytest
from empties import write
from mrtrix_tests import inputs

import tistreamlines as ts
from tistreamlines.errors import ParameterError
from tistreamlines.options.presets import PRESETS
from tistreamlines.tracking.products.connectome import held
from tistreamlines.tracking.products.connectome.matrix import QSIRECON_MEASURES

pytestmark = pytest.mark.filterwarnings("ignore:.* streamlines have an end without a node")
RECIPE = PRESETS["qsirecon-msmt-act"].options
# QSIRecon's names, and its options besides -assignment_radial_search 2 -symmetric -stat_edge sum
MATRICES = {
    "sift_radius2_count": "-tck_weights_in w.txt", "radius2_count": "",
    "sift_invnodevol_radius2_count": "-tck_weights_in w.txt -scale_invnodevol",
    "radius2_meanlength": "-scale_length -stat_edge mean",
}
EMPTY = [0, 17, 500, 899]  # streamlines without points
# float32 of tck2connectome, and the six digits that it writes
DIGITS = 2e-5


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Atlases, streamlines and weights, and what calls MRtrix3's programs."""
    folder, rng = tmp_path_factory.mktemp("qsirecon"), np.random.default_rng(4)
    call = inputs(folder, "tck2connectome")
    call("mrconvert SIFT_phantom/parc.mif phantom.nii -datatype uint16 -strides 1,2,3")
    image = nib.load(folder / "phantom.nii")
    shape, affine = image.shape, image.affine
    whole = 1 + np.indices(shape).sum(axis=0) // 5
    holes = np.where(rng.random(shape) < 0.5, whole, 0)
    turn = nib.affines.from_matvec(nib.eulerangles.euler2mat(0.3, 0.2, -0.1) @ np.diag([1.3, 1.1, 1.7]), [-3, 2, -1])
    fine = 1 + np.indices((20, 16, 18)).sum(axis=0) // 6
    # plain, with holes, with labels that leave numbers out, on another grid, and one label in a corner
    atlases = {
        "parc": (image.get_fdata(), affine), "whole": (whole, affine), "holes": (holes, affine),
        "gaps": (7 * holes, affine), "turned": (fine, affine @ turn), "corner": (whole * (whole < 2), affine),
    }
    for name, (values, grid) in atlases.items():
        nib.save(nib.Nifti1Image(values.astype(np.uint16), grid), folder / f"{name}.nii.gz")
    lines = []
    for count in rng.integers(1, 30, 900):  # of one point, and with ends far outside
        steps = 0.8 * rng.normal(size=3) + 0.3 * rng.normal(size=(count, 3))
        start = nib.affines.apply_affine(affine, rng.uniform(-2, np.add(shape, 2), 3))
        lines.append(start + steps.cumsum(axis=0))
    weights = rng.lognormal(0, 1.5, 900)
    weights[rng.random(900) < 0.2] = 0
    for number in EMPTY:
        lines[number] = np.zeros((0, 3))
    write(folder / "lines.tck", lines, affine, shape)
    np.savetxt(folder / "w.txt", weights, fmt="%.10g")
    # tck2connectome ends with a fault in a streamline without points
    write(folder / "full.tck", [line for line in lines if len(line)], affine, shape)
    np.savetxt(folder / "w_full.txt", np.delete(weights, EMPTY), fmt="%.10g")
    return folder, call, [*atlases]


def check_matrices(folder, call, atlases, tractogram, weights, named):
    """Compare the files of all atlases with those of tck2connectome."""
    for atlas in atlases:
        for name, options in MATRICES.items():
            options = f"-assignment_radial_search 2 -symmetric {options}".replace("w.txt", weights)
            call(f"tck2connectome {tractogram} {atlas}.nii.gz t.csv {options}")
            suffix = "" if name == "sift_radius2_count" else f"_{named.get(name, name)}"
            files = (f"{atlas}{suffix}.csv", "t.csv")
            ours, theirs = (np.loadtxt(folder / path, delimiter=",", ndmin=2) for path in files)
            assert np.array_equal(ours != 0, theirs != 0), (atlas, name)
            if name == "radius2_count":
                np.testing.assert_array_equal(ours, theirs)
            np.testing.assert_allclose(ours, theirs, rtol=DIGITS, err_msg=f"{atlas} {name}")


def recipe(folder, atlases):
    """The options of the preset that concern matrices."""
    return {name: value for name, value in RECIPE.items() if name.startswith("connectome")} | {
        "connectome": [(folder / f"{atlas}.nii.gz", folder / f"{atlas}.csv") for atlas in atlases], "force": True,
    }


@pytest.mark.parametrize(("block", "named"), [(1, True), (held.AT_ONCE, False)])
def test_maps_of_a_tractogram_are_those_of_qsirecon(place, block, named, monkeypatch):
    """With the measures that the preset names, and with those that one word stands for."""
    folder, call, atlases = place
    monkeypatch.setattr(held, "AT_ONCE", block)
    options = recipe(folder, atlases)
    if not named:
        options["connectome_measure"] = "qsirecon"
        del options["connectome_radius"]
    result = ts.map_tractogram(folder / "lines.tck", weights=str(folder / "w.txt"), **options)
    matrices, count = result["products"]["connectome"], "unweighted-count" if named else "radius2_count"
    assert all(matrix.streamlines == 900 for matrix in matrices)
    assert min(matrix.values[count].sum() for matrix in matrices) > 0
    check_matrices(folder, call, atlases, "full.tck", "w_full.txt", QSIRECON_MEASURES if named else {})


@pytest.mark.parametrize(
    ("options", "words"), [({}, "needs weights"), ({"weights": "w.txt", "connectome_radius": 4}, "within 2 mm: leave")]
)
def test_names_of_qsirecon_need_its_options(place, options, words, monkeypatch):
    monkeypatch.chdir(place[0])
    with pytest.raises(ParameterError, match=words):
        ts.map_tractogram(
            "lines.tck", connectome=("parc.nii.gz", "n.csv"), connectome_measure="qsirecon", **options
        )


def test_many_atlases_have_the_bytes_of_each_alone(place, tmp_path):
    folder, _, atlases = place
    options = recipe(folder, atlases) | {"weights": str(folder / "w.txt"), "connectome_pairs": True}
    for together, name in ((atlases, "all"), *(([atlas], atlas) for atlas in atlases)):
        (tmp_path / name).mkdir()
        options["connectome"] = [(folder / f"{atlas}.nii.gz", tmp_path / name / f"{atlas}.csv") for atlas in together]
        ts.map_tractogram(folder / "lines.tck", **options)
    for atlas in atlases:
        files = sorted((tmp_path / atlas).glob("*.?sv"))
        assert len(files) == 10
        assert [path.name for path in files if path.read_bytes() != (tmp_path / "all" / path.name).read_bytes()] == []


def test_tracking_makes_the_matrices_of_qsirecon(place, monkeypatch):
    """Of the streamlines and the weights of SIFT2 that the same command writes."""
    folder, call, atlases = place
    monkeypatch.chdir(folder)
    call("mrconvert SIFT_phantom/fods.mif fods.nii.gz")
    call("mrconvert SIFT_phantom/mask.mif mask.nii.gz")
    ts.track(
        sh="fods.nii.gz", sh_basis="tournier07", seed_mask="mask.nii.gz", stop_mask="mask.nii.gz", output="tracked.tck",
        nseeds=2000, dg="prob", arch="cpu", weights="sift2", sift2=("fods.nii.gz", "w.txt"), sift2_basis="tournier07",
        **recipe(folder, atlases),
    )
    check_matrices(folder, call, atlases, "tracked.tck", "w.txt", QSIRECON_MEASURES)
