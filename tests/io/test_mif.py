"""MRtrix3's images are read as mrconvert writes them to NIfTI: values to the bit, affine, order of axes, gradients."""

import gzip
import itertools
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest
from mif_files import OBLIQUE, SHAPE, TYPES, UPRIGHT, B, header, write
from nights import few_by_day
from places import CROP, DATA

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.io.images import open_image, read_array, read_series
from tistreamlines.io.maps import map_content
from tistreamlines.io.mif import normalise_gradients
from tistreamlines.io.nifti import load_dwi
from tistreamlines.space.batch import Space

SIFT = DATA / "mrtrix_sift_phantom"
needs_mrtrix = pytest.mark.skipif(shutil.which("mrconvert") is None, reason="mrconvert is missing: install mrtrix3")
needs_crop = pytest.mark.skipif(not CROP.is_dir(), reason="no real data at ../shared/data/sherbrooke_crop")
LAYOUTS = [
    ",".join(sign + str(place) for sign, place in zip(signs, places, strict=True))
    for places in itertools.permutations(range(4)) for signs in itertools.product("+-", repeat=4)
]


def mrtrix(*arguments):
    """What a program of MRtrix3 prints."""
    return subprocess.run([*map(str, arguments), "-quiet"], check=True, capture_output=True, text=True).stdout


def converted(path, *options):
    """What mrconvert makes of an image: NIfTI."""
    out, source = path.parent / "out.nii", path
    *strides, last = mrtrix("mrinfo", path, "-strides").split()
    if len(strides) == 3 and int(last) < 0:
        # mrconvert 3.0.3 writes the volumes of such an image to NIfTI in the wrong order, but not to its own format
        source = path.parent / "between.mif"
        mrtrix("mrconvert", path, source, "-force", "-strides", ",".join([*strides, last[1:]]))
    mrtrix("mrconvert", source, out, "-force", *options)
    return nib.load(out)


def same(path):
    """Compare values, shape and affine with mrconvert's, bit for bit."""
    theirs, (_, ours) = converted(path), open_image(path)
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours.affine, theirs.affine)
    with np.errstate(all="ignore"):
        values = np.asarray(theirs.dataobj)
        assert read_array(path, ours).astype(np.float32).tobytes() == values.astype(np.float32).tobytes()
    np.testing.assert_array_equal(read_array(path, ours), values)
    if len(ours.shape) == 4:
        series = read_series(path, ours)
        assert series.flags.c_contiguous
        assert series.tobytes() == values.astype(np.float32).tobytes()


# ---------------------------------------------------------------------------------------------- beside mrconvert
def layouts_of(places):
    """All signs of an order of the axes."""
    layouts = [layout for layout in LAYOUTS if layout.replace("+", "").replace("-", "") == places]
    assert len(layouts) == 16
    return layouts


ORDERS = sorted({layout.replace("+", "").replace("-", "") for layout in LAYOUTS})


@needs_mrtrix
def test_every_order_of_the_axes(tmp_path):
    """With three combinations of signs each, and all combinations among the orders."""
    for number, places in enumerate(ORDERS):
        layouts = layouts_of(places)
        for transform, turn in ((OBLIQUE, 0), (OBLIQUE, 5), (UPRIGHT, 11)):
            same(write(tmp_path / "a.mif", layout=layouts[(number + turn) % 16], transform=transform))


@pytest.mark.nightly
@needs_mrtrix
@pytest.mark.parametrize("transform", [OBLIQUE, UPRIGHT], ids=["oblique", "upright"])
@pytest.mark.parametrize("places", ORDERS)
def test_every_layout(tmp_path, places, transform):
    """Nightly, since mrconvert is called 768 times."""
    for layout in layouts_of(places):
        same(write(tmp_path / "a.mif", layout=layout, transform=transform))


@needs_mrtrix
@pytest.mark.parametrize("kind", few_by_day(TYPES))
def test_every_type_and_scaling(tmp_path, kind):
    for scaling, layout in itertools.product((None, "0,0.0689", "-3.3,1", "7.7,1e-3"), ("+0,+1,+2,+3", "-2,+3,-1,+0")):
        same(write(tmp_path / "a.mif", datatype=kind, scaling=scaling, layout=layout))
        same(write(tmp_path / "a.mif.gz", datatype=kind, scaling=scaling, layout=layout))


@needs_mrtrix
@pytest.mark.parametrize("layout", ["+0,+1,+2,+3", "-2,+3,-1,+0"])
def test_bits(tmp_path, layout):
    bits = np.random.default_rng(1).bytes(-(-int(np.prod(SHAPE)) // 8))
    same(write(tmp_path / "a.mif", bits, datatype="Bit", layout=layout, scaling="1.5,0.1"))


@needs_mrtrix
@pytest.mark.parametrize(
    "fields",
    [
        {"transform": None}, {"transform": [*OBLIQUE, "0,0,0,1"]}, {"vox": "2,2.5,1.7,nan"},
        {"transform": [row.replace(",", ", ") for row in UPRIGHT]}, {"datatype": "float32le"},
        {"dim": "5,4,21", "vox": "1,1,1", "layout": "-1,+0,+2"}, {"dim": "5,2,2,3,7", "layout": "+4,-0,-1,+2,+3"},
        {"dim": "420,1,1,1", "layout": "0,1,2,3"}, {"command_history": "mrcalc é # x: y\nEND_OF"},
    ],
    ids=str,
)
def test_headers_that_are_valid(tmp_path, fields):
    same(write(tmp_path / "a.mif", **fields))


@needs_mrtrix
@pytest.mark.parametrize("kind", ["mih", "mif.gz"])
def test_what_mrconvert_writes(tmp_path, kind):
    """The other forms of the format; the values of a .mih are in a file beside it."""
    path = write(tmp_path / "a.mif", datatype="Int16LE", scaling="1.5,0.1")
    other = tmp_path / f"b.{kind}"
    mrtrix("mrconvert", path, other, "-strides", "-2,3,-1,4")
    same(other)


def test_half_precision_and_the_order_of_this_machine(tmp_path):
    values = np.random.default_rng(0).normal(size=SHAPE).astype(np.float16)
    for kind, order in (("Float16LE", "<"), ("Float16BE", ">"), ("Float16", "=")):
        path = write(tmp_path / "a.mif", values.astype(f"{order}f2").tobytes(order="F"), datatype=kind)
        np.testing.assert_array_equal(read_series(*open_image(path)), values.astype(np.float32))


# ------------------------------------------------------------------------------------------------------ gradients
SCHEMES = {
    "units": B,
    "lengths": [[0, 0, 1, 0], [0.3, 0, 0.4, 2000], [0, 1, 0, 2000], [0, 0.6, 0.8, 2000]],
    "half a percent": [[0, 0, 1, 5], [0.6 * 1.004, 0, 0.8 * 1.004, 1000], [1, 0, 0, 1000]],
    "a percent": [[0, 0, 1, 5], [0.6 * 1.006, 0, 0.8 * 1.006, 1000], [1, 0, 0, 1000]],
    "no length": [[0, 0, 0, 5], [0.6 * 1.001, 0, 0.8 * 1.001, 1000], [1, 0, 0, 1000]],
    "digits": [[0, 0, 1, 5], [0.1234567890123, 0.2345678901234, 0.3456789012345, 1234.567890123]],
    "nearly one": [[0, 0, 1, 5], [0.600001, 0, 0.8, 1000], [1, 0, 0, 1000]],
    "more columns": [[0, 0, 1, 0, 7], [0.3, 0, 0.4, 2000, 7]],
}


@needs_mrtrix
@pytest.mark.parametrize("name", few_by_day(SCHEMES, 2))
@pytest.mark.parametrize("transform", [OBLIQUE, UPRIGHT], ids=["oblique", "upright"])
def test_gradients_are_those_of_mrconvert(tmp_path, name, transform):
    """b-values to the bit, directions to what float64 rounds; FSL's x is turned back."""
    scheme = SCHEMES[name]
    for layout in LAYOUTS[::23]:
        rows = [",".join(map(repr, row)) for row in scheme]
        dim = f"5,4,3,{len(scheme)}"
        path = write(tmp_path / "a.mif", dim=dim, transform=transform, layout=layout, dw_scheme=rows)
        image = converted(path, "-export_grad_fsl", tmp_path / "bvec", tmp_path / "bval")
        ours = open_image(path)[1].gradients()
        bvecs = np.loadtxt(tmp_path / "bvec").T
        if np.linalg.det(image.affine[:3, :3]) > 0:
            bvecs[:, 0] *= -1
        np.testing.assert_array_equal(ours.bvals, np.loadtxt(tmp_path / "bval"))
        np.testing.assert_allclose(ours.bvecs, bvecs, rtol=0, atol=3e-15)


def test_lengths_of_directions_scale_b_values():
    """A shell as scanners store it: half the length is a quarter of the b-value."""
    scheme = normalise_gradients(np.array([[0, 0, 0, 0], [0, 0.5, 0, 3000], [1, 0, 0, 3000.0]]))
    np.testing.assert_array_equal(scheme, [[0, 0, 0, 0], [0, 1, 0, 750], [1, 0, 0, 3000]])


@needs_mrtrix
@pytest.mark.parametrize("kind", ["uint8", "int16", "uint32", "int32", "float32"])
@pytest.mark.parametrize("shape", [(5, 4, 3), (5, 4, 3, 2)])
def test_images_that_are_written_are_read_back(tmp_path, kind, shape):
    """By this package and by mrconvert, with a place on oblique axes of which one is turned."""
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    affine = np.eye(4)
    affine[:3, :3], affine[:3, 3] = turn * [2.0, -1.5, 2.5], (-20.25, 10, 5)
    values = np.random.default_rng(1).integers(0, 100, shape).astype(kind)
    (tmp_path / "a.mif").write_bytes(map_content(".mif", values, Space(affine, shape[:3]), keys={"nfixels": "7"}))
    image = open_image(tmp_path / "a.mif").image
    np.testing.assert_array_equal(read_array(tmp_path / "a.mif", image), values)
    assert image.get_data_dtype() == np.dtype(kind)
    np.testing.assert_allclose(image.affine, affine, atol=1e-5)
    same(tmp_path / "a.mif")
    assert mrtrix("mrinfo", "-property", "nfixels", tmp_path / "a.mif").strip() == "7"


@needs_mrtrix
@pytest.mark.skipif(not SIFT.is_dir(), reason="no real data at ../shared/data/mrtrix_sift_phantom")
@pytest.mark.parametrize("name", ["5tt", "dwi", "fods", "lower", "mask", "parc"])
def test_images_that_mrtrix_comes_with(tmp_path, name):
    """Older headers, of other layouts, with voxels of no size along the volumes."""
    (tmp_path / "a.mif").write_bytes((SIFT / f"{name}.mif").read_bytes())
    same(tmp_path / "a.mif")


@pytest.mark.nightly
@needs_mrtrix
@needs_crop
def test_a_real_series_and_its_streamlines(tmp_path):
    """The tractogram from .mif is that of mrconvert's NIfTI, byte for byte.

    Nightly; by day, test_mif_runs.py tracks such files.
    """
    strides = "-2,4,-3,1"
    mif, mask = tmp_path / "dwi.mif.gz", tmp_path / "mask.mif"
    # the file's directions are along the voxel axes; FSL has x flipped
    np.savetxt(tmp_path / "fsl.bvec", np.loadtxt(CROP / "dwi.bvec") * [[-1], [1], [1]])
    grad = tmp_path / "fsl.bvec", CROP / "dwi.bval"
    mrtrix("mrconvert", CROP / "dwi.nii.gz", mif, "-fslgrad", *grad, "-strides", strides)
    mrtrix("mrconvert", CROP / "mask.nii.gz", mask, "-datatype", "bit", "-strides", "-1,3,2")
    same(mif)
    files = [tmp_path / name for name in ("out.nii", "out.bval", "out.bvec")]
    mrtrix("mrconvert", mif, files[0], "-force", "-export_grad_fsl", files[2], files[1])
    common = {"mask": CROP / "mask.nii.gz", "arch": "cpu", "nseeds": 300}
    ours = ts.track(mif, output=tmp_path / "a.tck", **common | {"mask": mask})
    theirs = ts.track(*files, output=tmp_path / "b.tck", **common)
    assert ours.n_streamlines == theirs.n_streamlines > 100
    assert (tmp_path / "a.tck").read_bytes() == (tmp_path / "b.tck").read_bytes()


# --------------------------------------------------------------------------------------------------------- damages
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dim": None}, "no lines with 'dim'"), ({"dim": ["5,4,3,7", "5,4,3,7"]}, "2 lines with 'dim'"),
        ({"dim": "5,4,0,7"}, "dim is '5,4,0,7'"), ({"dim": "5,4,-3,7"}, "dim is '5,4,-3,7'"),
        ({"dim": "5,4"}, "three sizes or more"), ({"dim": "5,4,x,7"}, "not numbers"), ({"dim": "5,4,3.5,7"}, "3.5"),
        ({"dim": "5,4,nan,7"}, "nan"), ({"dim": "9" * 400 + ",1,1,1"}, "dim is '999"), ({"dim": "1,1,1,1e99"}, "1e99"),
        ({"dim": "2147483647,2147483647,1,7"}, "need 129127208395707777052"), ({"dim": "5,4,4,7"}, "need 2240"),
        ({"dim": "5,4,3"}, "layout has 4 axes, but dim has 3"), ({"layout": None}, "no lines with 'layout'"),
        ({"layout": "+0,+1,+1,+3"}, "layout is '+0,+1,+1,+3'"), ({"layout": "+0,+1,+2,+4"}, "layout is"),
        ({"layout": "+0,+1,+2"}, "layout has 3 axes"), ({"layout": "--0,1,2,3"}, "layout is"),
        ({"layout": ""}, "layout is ''"),
        ({"vox": None}, "no lines with 'vox'"), ({"vox": "2,2"}, "vox is '2,2'"), ({"vox": "2,nan,2,1"}, "vox is"),
        ({"vox": "2,0,2,1"}, "vox is"), ({"vox": "2,-1,2,1"}, "vox is"), ({"vox": "inf,1,2,1"}, "vox is"),
        ({"datatype": None}, "no lines with 'datatype'"), ({"datatype": "Int24LE"}, "datatype 'Int24LE' is none of"),
        ({"datatype": "CFloat32LE"}, "datatype CFloat32LE has complex values; give"), ({"datatype": "LE"}, "datatype"),
        ({"transform": ["nan,0,0,1", "0,1,0,1", "0,0,1,1"]}, "transform is [[nan"),
        ({"transform": ["1,0,0,1", "0,1,0,1"]}, "three rows"), ({"transform": ["1,0,0"] * 3}, "three rows"),
        ({"transform": ["1e300,0,0,1", "0,1,0,1", "0,0,1,1"]}, "cannot be inverted"),
        ({"transform": ["0,0,0,0"] * 3}, "cannot be inverted"),
        ({"transform": ["1,0.1,0,1", "0,1,0,1", "0,0,1,1"]}, "affine is sheared"),
        ({"datatype": "Int16LE", "scaling": "1"}, "scaling is '1'"),
        ({"datatype": "Int8", "scaling": "0,0"}, "scaling is '0,0'"),
        ({"datatype": "Int8", "scaling": "nan,1"}, "scaling is 'nan,1'"), ({"file": None}, "no lines with 'file'"),
        ({"file": "."}, "file is '.'"), ({"file": ". 12"}, "file is '. 12'"),
        ({"file": ". x"}, "cannot be read"), ({"file": "none.dat"}, "none.dat"),
        ({"file": ". 99999999"}, "has 0 bytes of values from byte 99999999 on"), ({"file": "9" * 400}, "file is"),
        ({"file": [". 4096", "b 0"]}, "2 lines with 'file'"),
        ({"dw_scheme": ["1,2,3"] * 7}, "[1.0, 2.0, 3.0] in row 0"),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", ["mif", "mif.gz"])
def test_a_header_that_says_nonsense(tmp_path, recwarn, suffix, fields, message):
    path = write(tmp_path / f"a.{suffix}", np.zeros(SHAPE, np.float32).tobytes(), **fields)
    with pytest.raises(InputError) as caught:
        load_dwi(path)
    text = str(caught.value)
    assert str(tmp_path) in text
    assert message in text
    assert "\n" not in text
    assert len(text) < 400
    # Python may close what earlier tests have left open
    assert not [warning for warning in recwarn if not issubclass(warning.category, ResourceWarning)]


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        (B[:6], "dw_scheme has 6 rows, but the image 7 volumes"),
        ([[1, 0, 0, 1000]] * 7, "no b0"), ([*B[:6], [1, 0, 0, -5]], "b-value -5"),
        ([*B[:6], [1, 0, 0, float("nan")]], "b-value nan"), ([*B[:6], [float("nan"), 0, 0, 1000]], "has length nan"),
        ([*B[:6], [1e200, 0, 0, 1000]], "volume 6"), ([[0, 0, 0, 0]] * 7, "highest b-value is 0"),
    ],
    ids=str,
)
def test_gradients_that_no_scanner_has(tmp_path, recwarn, scheme, message):
    path = write(tmp_path / "a.mif", dw_scheme=[",".join(map(repr, row)) for row in scheme])
    with pytest.raises(InputError, match=r"a\.mif: .*") as caught:
        load_dwi(path)
    assert message in str(caught.value)
    # Python may close what earlier tests have left open
    assert not [warning for warning in recwarn if not issubclass(warning.category, ResourceWarning)]


@pytest.mark.parametrize("suffix", ["mif", "mif.gz"])
def test_files_that_are_no_images(tmp_path, suffix):
    path = tmp_path / f"a.{suffix}"
    pack = gzip.compress if suffix == "mif.gz" else bytes
    whole = write(tmp_path / "b.mif").read_bytes()
    for content, message in (
        (pack(b""), "begins with b''"), (pack(b"mrtrix tracks\nEND\n"), "begins with b'mrtrix track'"),
        (pack(header()[:-5]), "has no line END"), (pack(whole[:-1]), "it is incomplete"),
        (pack(whole[:4000]), "has 0 bytes"),
        (b"\x1f\x8b\x08", "damaged" if suffix == "mif.gz" else "begins with"),
    ):
        path.write_bytes(content)
        with pytest.raises(InputError, match=r"a\.mif") as caught:
            load_dwi(path)
        assert message in str(caught.value)


def test_a_damaged_value_of_a_compressed_image(tmp_path):
    path = write(tmp_path / "a.mif.gz")
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"is damaged \(CRC"):
        load_dwi(path)
