"""Runs from MRtrix3's images: they give what the same values give as NIfTI, wherever an image is read."""

import hashlib
import json

import nibabel as nib
import numpy as np
import pytest
from linked import contents
from mif_files import write
from plans import described

import tistreamlines as ts

COMMON = {"arch": "cpu", "nseeds": 60}


def numbers(values):
    return ",".join(map(repr, map(float, values)))


def as_mif(source, path, **more):
    """Write the values of a NIfTI file along the same axes, so that no streamline may differ."""
    image = nib.load(source)
    values = np.asarray(image.dataobj).astype("<f4")
    axes = image.affine[:3, :3] / np.linalg.norm(image.affine[:3, :3], axis=0)
    rows = [numbers(row) for row in np.column_stack([axes, image.affine[:3, 3]])]
    fields = {"dim": ",".join(map(str, values.shape)), "vox": numbers(image.header.get_zooms()), "transform": rows}
    layout = ",".join(f"+{axis}" for axis in range(values.ndim))
    return write(path, values.tobytes(order="F"), **fields | {"layout": layout, "dw_scheme": None} | more)


def scheme(head, turn=(1, 1, 1)):
    """Lines of the head's gradients along the scanner's axes, with other signs of the voxel axes."""
    affine = nib.load(head.series[0]).affine[:3, :3]
    bvecs = (np.loadtxt(head.series[2]).T * turn) @ (affine / np.linalg.norm(affine, axis=0)).T
    return [numbers(row) for row in np.column_stack([bvecs, np.loadtxt(head.series[1])])]


@pytest.fixture(scope="module")
def files(head, tmp_path_factory):
    """The head's series with its gradients along the scanner's axes and without them, and its mask."""
    folder = tmp_path_factory.mktemp("mif")
    as_mif(head.series[0], folder / "dwi.mif", dw_scheme=scheme(head))
    as_mif(head.series[0], folder / "bare.mif")
    as_mif(head.mask, folder / "mask.mif.gz")
    return folder


def tracked(path, *series, **named):
    result = ts.track(*series, output=path, **COMMON | named)
    assert result.n_streamlines > 20
    return path.read_bytes()


def test_a_series_with_its_own_gradients(head, files, tmp_path):
    """As from NIfTI and FSL's files; the record says which gradients were used, and what was read."""
    expected = tracked(tmp_path / "a.tck", *head.series, mask=head.mask, bvecs_frame="voxel")
    assert tracked(tmp_path / "b.tck", files / "dwi.mif", mask=files / "mask.mif.gz") == expected
    record = json.loads((tmp_path / "b.json").read_text())
    assert set(record["inputs"]) == {"dwi", "mask"}
    assert record["inputs"]["dwi"]["sha256"] == hashlib.sha256((files / "dwi.mif").read_bytes()).hexdigest()
    assert record["frames"]["dwi"] == {"frame": "scanner", "decided_by": "file", "coherence": {}}
    assert "bvecs" not in record["frames"]


def test_on_the_command_line(head, files, run, tmp_path):
    common = ["--mask", files / "mask.mif.gz", "--arch", "cpu", "--nseeds", 60, "-o"]
    alone = run("track", files / "dwi.mif", *common, tmp_path / "a.tck")
    assert alone.code == 0, alone.err
    assert "gradients of its own" not in alone.err
    beside = run("track", files / "dwi.mif", *head.series[1:], *common, tmp_path / "b.tck", "-v")
    assert "dwi.mif: has gradients of its own, which are not used, since BVALS and BVECS are given" in beside.err
    assert (tmp_path / "a.tck").read_bytes() == (tmp_path / "b.tck").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["bare.mif"], 1, "bare.mif: has no gradients of its own; give BVALS and BVECS after it"),
        (["dwi.mif", "--bvecs-frame", "fsl"], 2, "dwi.mif has gradients of its own, along the scanner's axes"),
        (["dwi.nii.gz"], 1, "dwi.nii.gz: no such file (but dwi.mif is there)"),
        (["dwi.mif", "a.bval"], 2, "give DWI, BVALS and BVECS"),
        (["none.mif"], 1, "none.mif: no such file"),
    ],
)
def test_one_line_says_what_to_do(files, run, monkeypatch, tmp_path, arguments, code, words):
    monkeypatch.chdir(files)
    done = run("track", *arguments, "--arch", "cpu", "-o", tmp_path / "a.tck")
    assert done.code == code
    assert words in done.err.splitlines()[-1]
    assert not (tmp_path / "a.tck").exists()


def test_gradients_that_appear_flipped_get_a_warning(head, files, tmp_path):
    as_mif(head.series[0], tmp_path / "dwi.mif", dw_scheme=scheme(head, (-1, 1, 1)))
    with pytest.warns(UserWarning, match="better with x flipped than with the gradients as given; check the file"):
        ts.track(tmp_path / "dwi.mif", mask=files / "mask.mif.gz", **COMMON)


PLACES = ("mask", "seed_mask", "seed_image", "stop_map", "include", "exclude", "limit_mask")


@pytest.mark.parametrize("name", PLACES)
def test_maps_and_masks(head, files, tmp_path, name):
    """Each option that takes an image."""
    half = nib.load(head.mask)
    values = np.asarray(half.dataobj).astype(np.float32)
    values[: 8 if name == "exclude" else 15] = 0
    nib.Nifti1Image(values, half.affine).to_filename(tmp_path / "half.nii")
    as_mif(tmp_path / "half.nii", tmp_path / "half.mif")
    common = head.options | {"nseeds": 400 if name in ("include", "exclude") else 60}
    results = [ts.track(**common | {name: tmp_path / f"half.{suffix}"}) for suffix in ("nii", "mif")]
    lines = [[line.tobytes() for line in result.streamlines] for result in results]
    assert lines[0] == lines[1]
    assert lines[0]


def test_a_region_of_unknown_place_gets_a_warning(head, tmp_path):
    """MRtrix3 takes an image without a transform to lie around the origin."""
    as_mif(head.mask, tmp_path / "region.mif", transform=None)
    with pytest.warns(UserWarning, match="region.mif: the header does not say where the image lies"):
        ts.track(**head.options, include=tmp_path / "region.mif", nseeds=60)


@pytest.mark.parametrize("stopping", ["act", "cmc"])
def test_tissues(head, files, tmp_path, stopping):
    counts = []
    for make in (lambda path, _: path, as_mif):
        maps = {f"pve_{t}": make(head.folder / f"pve_{t}.nii.gz", tmp_path / f"{t}.mif") for t in ("wm", "gm", "csf")}
        result = ts.track(**head.options, stopping=stopping, nseeds=60, **maps)
        counts.append((result.n_streamlines, result.stop_reasons))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("kind", ["sh", "odf", "pmf", "peaks"])
def test_orientations(head, tmp_path, kind):
    """Functions of each voxel that are 1 in one direction, or the peak along it."""
    count = {"sh": 15, "odf": 362, "pmf": 362, "peaks": 3}[kind]
    values = np.zeros((8, 9, 7, count), np.float32)
    values[1:-1, 1:-1, 1:-1, :2] = 1, 0.5
    affine = nib.load(head.mask).affine
    for name, image in (("functions", values), ("inside", np.ones(values.shape[:3], np.uint8))):
        nib.Nifti1Image(image, affine).to_filename(tmp_path / f"{name}.nii")
    as_mif(tmp_path / "functions.nii", tmp_path / "functions.mif.gz")
    inside = {name: tmp_path / "inside.nii" for name in ("stop_map", "seed_mask")}
    more = {"sh": {"sh_basis": "tournier07"}, "peaks": {"dg": "det"}}.get(kind, {})
    lines = []
    for suffix in ("nii", "mif.gz"):
        result = ts.track(**inside, **{kind: tmp_path / f"functions.{suffix}"}, min_length=0, **more, **COMMON)
        lines.append([line.tobytes() for line in result.streamlines])
    assert lines[0] == lines[1]
    assert lines[0]


def test_a_header_with_its_values_beside_it(files, tmp_path):
    """The record and the cache depend on both files."""
    content = (files / "dwi.mif").read_bytes()
    text = content[: content.index(b"\nEND\n")].replace(b"file: . 4096", b"file: dwi.dat")
    (tmp_path / "dwi.mih").write_bytes(text + b"\n")
    (tmp_path / "dwi.dat").write_bytes(content[4096:])
    mask, folder = files / "mask.mif.gz", tmp_path / "cache"
    expected = tracked(tmp_path / "a.tck", files / "dwi.mif", mask=mask)
    assert tracked(tmp_path / "b.tck", tmp_path / "dwi.mih", mask=mask, cache_dir=folder) == expected
    parts = [hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in ("dwi.mih", "dwi.dat")]
    assert json.loads((tmp_path / "b.json").read_text())["inputs"]["dwi"]["sha256"] == "+".join(parts)
    (tmp_path / "dwi.dat").write_bytes(content[4096:][::-1][: len(content)])
    with pytest.raises(ts.TrackingError):  # values that are no image: the cache must not hide them
        ts.track(tmp_path / "dwi.mih", mask=mask, cache_dir=folder, **COMMON)


def test_the_cache_spares_reading(files, tmp_path, monkeypatch):
    named = {"mask": files / "mask.mif.gz", "cache_dir": tmp_path / "cache"}
    first = tracked(tmp_path / "a.tck", files / "dwi.mif", **named)
    monkeypatch.setattr("tistreamlines.run.plan.read", None)
    assert tracked(tmp_path / "b.tck", files / "dwi.mif", **named) == first


def test_parts_and_a_run_that_can_go_on(files, tmp_path):
    named = {"mask": files / "mask.mif.gz"}
    whole = tracked(tmp_path / "a.tck", files / "dwi.mif", **named)
    assert tracked(tmp_path / "b.tck", files / "dwi.mif", resume=True, **named) == whole
    parts = [tmp_path / f"{k}.trx" for k in (1, 2)]
    for number, part in enumerate(parts, 1):
        ts.track(files / "dwi.mif", output=part, part=f"{number}/2", **named, **COMMON)
    ts.join(parts, tmp_path / "c.tck")
    assert (tmp_path / "c.tck").read_bytes() == whole


def test_kernels_are_known_from_the_header(files):
    parameters = ts.Parameters.given({"mask": str(files / "mask.mif.gz")})
    plan, parts, spec = described({"dwi": str(files / "dwi.mif")}, parameters)
    assert contents(parts) == contents(plan.prepared)
    assert spec.shape == plan.space.shape
    assert spec.voxel_sizes == pytest.approx(plan.space.voxel_sizes)
