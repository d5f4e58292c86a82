"""A label of a parcellation as a region, LABELS:NUMBER: streamlines are those of a mask of its voxels."""

from __future__ import annotations

import gzip
import json
import shutil

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError, OutputError
from tistreamlines.io import images
from tistreamlines.live.parcels import Parcels
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.finished import difference_from, finished_run
from tistreamlines.run.outputs import Outputs

LABELS = (3, 200, 70_000)


@pytest.fixture(scope="module")
def files(head, tmp_path_factory):
    """Write an image of labels, and a mask of each."""
    folder = tmp_path_factory.mktemp("labels")
    mask = nib.load(head.mask)
    values = np.zeros(mask.shape, np.int32)
    third = mask.shape[1] // 3
    for number, label in enumerate(LABELS):
        values[:, number * third : (number + 1) * third] = label
    values[np.asarray(mask.dataobj) == 0] = 0
    nib.save(nib.Nifti1Image(values, mask.affine), folder / "labels.nii.gz")
    for label in LABELS:
        nib.save(nib.Nifti1Image((values == label).astype(np.uint8), mask.affine), folder / f"{label}.nii.gz")
    return folder


@pytest.fixture(scope="module")
def options(head):
    return {"mask": head.mask, "dg": "prob", "arch": "cpu", "min_length": 0, "nseeds": 300}


def points(result) -> bytes:
    return ts.Batch.concatenate(list(result.batches)).points.tobytes()


def with_labels(files, chosen: dict, name: str) -> dict:
    """Return options whose regions are labels, or masks of them."""
    place = {"labels": "labels.nii.gz:{}", "masks": "{}.nii.gz"}[name]
    return {option: [str(files / place.format(label)) for label in labels] for option, labels in chosen.items()}


@pytest.mark.filterwarnings("ignore:no streamline was accepted")
@pytest.mark.parametrize(
    "chosen", [{"include": [3, 200], "exclude": [70_000]}, {"limit_mask": [200, 3]}, {"ends_in": [200]}],
)
def test_regions(head, files, options, chosen):
    results = [ts.track(*head.series, **options, **with_labels(files, chosen, name)) for name in ("labels", "masks")]
    assert points(results[0]) == points(results[1])
    whole = ts.track(*head.series, **options)
    assert points(results[0]) != points(whole) and len(results[0])


def test_seeds_and_the_cache(head, files, options, tmp_path):
    """The hash that names results has the label: those of one label are not taken for another one."""
    for _ in range(2):
        for label in LABELS:
            common = {**options, "cache_dir": tmp_path}
            result = ts.track(*head.series, seed_mask=files / f"labels.nii.gz:{label}", **common)
            assert points(result) == points(ts.track(*head.series, seed_mask=files / f"{label}.nii.gz", **options))
            assert result.record["inputs"]["seed_mask"]["sha256"].endswith(f":{label}")


def test_live_runs(head, files, options):
    live = ts.Live(*head.series, **options)
    live.track(seed_sphere="4,-6,2,9")
    for label in (*LABELS, 3):
        for other in LABELS[:2]:
            chosen = {"seed_mask": f"{files}/labels.nii.gz:{label}", "include": f"{files}/labels.nii.gz:{other}"}
            assert points(live.track(**chosen)) == points(ts.track(*head.series, **options | chosen))


@pytest.mark.parametrize("name", ["labels.nii.gz", "labels.img"])
def test_an_image_is_read_once_for_all_of_its_labels(files, tmp_path, monkeypatch, name):
    """Until it is written anew."""
    image, read, paths = nib.load(files / "labels.nii.gz"), images.read_array, []
    kind = nib.Nifti1Pair if name.endswith("img") else nib.Nifti1Image
    nib.save(kind(np.asarray(image.dataobj), image.affine), tmp_path / name)
    monkeypatch.setattr(images, "read_array", lambda path, image: paths.append(path) or read(path, image))

    def voxels(label: int) -> np.ndarray:
        return np.asarray(images.open_image(f"{tmp_path / name}:{label}").image.dataobj)

    for label in LABELS:
        assert np.array_equal(voxels(label), np.asarray(nib.load(files / f"{label}.nii.gz").dataobj))
    assert paths == [tmp_path / name]
    nib.save(kind(np.asarray(image.dataobj)[::-1], image.affine), tmp_path / name)
    for label in LABELS:
        assert np.array_equal(voxels(label), np.asarray(nib.load(files / f"{label}.nii.gz").dataobj)[::-1])
    assert len(paths) == 2


def test_a_file_with_such_a_name_is_that_file(head, files, options, tmp_path):
    shutil.copy(files / "200.nii.gz", tmp_path / "odd.nii.gz:3")
    with pytest.raises(InputError, match=r"odd\.nii\.gz:3"):  # whose format no suffix tells
        ts.track(*head.series, **options, include=tmp_path / "odd.nii.gz:3")


@pytest.mark.parametrize(
    ("text", "message"),
    [("labels.nii.gz:4", "has no voxel of label 4"), ("labels.nii.gz:0", "has no voxel of label 0"),
     ("none.nii.gz:4", "none.nii.gz: no such file"), ("labels.nii.gz:x", "no such file")],
)
def test_errors(head, files, options, text, message):
    with pytest.raises(InputError, match=message):
        ts.track(*head.series, **options, include=files / text)


def test_no_output_takes_the_place_of_the_labels(head, files, options):
    with pytest.raises(OutputError, match="is an input"):
        region, image = files / "labels.nii.gz:3", files / "labels.nii.gz"
        ts.track(*head.series, **options, include=region, density=image, force=True)


def test_numbers_are_grown_again(head, files, options, run, tmp_path):
    words = ["track", *head.series, "--mask", head.mask, "--dg", "prob", "--arch", "cpu", "--nseeds", "50", "-q"]
    words += ["--include", f"{files}/labels.nii.gz:200", "--min-length", "0"]
    for name in ("a.npz", "c.tck"):
        assert run(*map(str, words), "-o", str(tmp_path / name), "--force").code == 0
    assert run("regrow", str(tmp_path / "a.npz"), "-o", str(tmp_path / "b.tck"), "-q").code == 0
    first, second = (nib.streamlines.load(tmp_path / name).streamlines for name in ("c.tck", "b.tck"))
    assert first.get_data().tobytes() == second.get_data().tobytes() and len(first)
    record = json.loads((tmp_path / "a.json").read_text())
    assert record["inputs"]["include 1"]["path"].endswith("labels.nii.gz:200")


def test_labels_that_scaling_rounds(head, files, options, tmp_path):
    """As a parcellation has them: those of a float32 image with a factor."""
    image = nib.load(files / "labels.nii.gz")
    stored = nib.Nifti1Image(np.where(np.asarray(image.dataobj) == 70_000, 700, 0).astype(np.int16), image.affine)
    nib.save(stored, tmp_path / "small.nii.gz")
    data = bytearray(gzip.decompress((tmp_path / "small.nii.gz").read_bytes()))
    data[112:116] = np.float32(0.1).tobytes()  # scl_slope
    (tmp_path / "scaled.nii").write_bytes(data)
    assert not (nib.load(tmp_path / "scaled.nii").get_fdata() % 1 == 0).all()
    values = np.rint(nib.load(tmp_path / "scaled.nii").get_fdata())
    nib.save(nib.Nifti1Image((values == 70).astype(np.uint8), image.affine), tmp_path / "mask.nii.gz")
    results = [
        ts.track(*head.series, **options, include=tmp_path / name) for name in ("scaled.nii:70", "mask.nii.gz")
    ]
    assert points(results[0]) == points(results[1]) and len(results[0])


def test_a_finished_run_is_old_when_the_labels_change(head, files, options, tmp_path):
    shutil.copy(files / "labels.nii.gz", tmp_path / "labels.nii.gz")
    chosen = {**options, "include": [f"{tmp_path}/labels.nii.gz:200"]}
    output = tmp_path / "a.trx"
    ts.track(*head.series, output, **chosen)
    series = dict(zip(("dwi", "bvals", "bvecs"), map(str, head.series), strict=True))

    def difference():
        parameters = Parameters.given(chosen)
        return difference_from(finished_run(Outputs(output)), series, parameters, tmp_path / "a.json")

    assert difference() == ""
    image = nib.load(files / "labels.nii.gz")
    nib.save(nib.Nifti1Image(np.asarray(image.dataobj) // 2 * 2, image.affine), tmp_path / "labels.nii.gz")
    assert "labels.nii.gz:200 has changed" in difference()


def test_a_parcellation_is_no_label(files):
    with pytest.raises(InputError, match="is one label"):
        Parcels(f"{files}/labels.nii.gz:3")
