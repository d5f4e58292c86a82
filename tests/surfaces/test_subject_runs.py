"""Runs that end streamlines by the tissues of a subject's folder: the bytes are those of the image that 5tt writes."""

import json
import os
import shutil
import tempfile
from pathlib import Path

import nibabel as nib
import numpy as np
import pytest
from commands import one_line
from subjects import CENTRE, save_subject

import tistreamlines as ts
from tistreamlines.errors import InputError, OutputError, ParameterError
from tistreamlines.io.images import silent
from tistreamlines.io.sidecar import sha256
from tistreamlines.space.harmonics import sampling_matrix
from tistreamlines.tracking.stopping.segmentation import TissueFiles

SIDE, COUNT = 4.0, 24  # of the voxels of the FODs, which cover the brain
NOBODY = 65534  # a user without rights


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a subject, sub, its image of five tissues, and FODs of fibres along x."""
    folder = tmp_path_factory.mktemp("subjects")
    ts.five_tissues(save_subject(folder / "sub", side=4.0), folder / "5tt.nii.gz", crop=True)
    affine = np.diag([SIDE, SIDE, SIDE, 1])
    affine[:3, 3] = CENTRE - SIDE * (COUNT - 1) / 2
    lobe = 2 * sampling_matrix([[1.0, 0, 0]], 4, "tournier07")[0]
    fod = np.broadcast_to(lobe.astype(np.float32), (COUNT, COUNT, COUNT, 15))
    nib.save(nib.Nifti1Image(np.ascontiguousarray(fod), affine), folder / "fod.nii.gz")
    return folder


@pytest.fixture(scope="module")
def options(folder):
    return {"sh": folder / "fod.nii.gz", "sh_basis": "tournier07", "dg": "ifod2", "seed_gmwmi": "act", "nseeds": 100,
            "arch": "cpu"}


@pytest.fixture(scope="module")
def whole(folder, options):
    """A run of the folder, which writes its five tissues."""
    return ts.track(output=folder / "whole.trx", act=folder / "sub", save_5tt=folder / "saved.nii.gz", **options)


def test_a_run_follows_the_image_that_5tt_writes(folder, options, whole, tmp_path, monkeypatch):
    """By whatever name the folder is called; the record lists its files."""
    assert whole.n_streamlines > 30
    assert (folder / "saved.nii.gz").read_bytes() == (folder / "5tt.nii.gz").read_bytes()
    content = json.loads((folder / "whole.json").read_text())["inputs"]["act"]
    assert content["path"] == str(folder / "sub")
    assert [file.removeprefix(f"{folder}/sub/") for file in content["files"]] == [
        "mri/aparc+aseg.mgz", "mri/brainmask.mgz", "surf/lh.white", "surf/lh.pial", "surf/rh.white", "surf/rh.pial"
    ]
    assert content["sha256"] == "+".join(map(sha256, content["files"]))
    (tmp_path / "a link").symlink_to(folder / "sub")
    monkeypatch.chdir(tmp_path)
    linked = {"act": "a link/", "seed_gmwmi": "./a link", "sift2_act": "a link"}
    ts.track(output="link.trx", **options | linked, sift2=("tracked", "a.txt"))
    ts.track(output="5tt.trx", **options, act=folder / "5tt.nii.gz", sift2=("tracked", "b.txt"))
    assert (tmp_path / "link.trx").read_bytes() == (tmp_path / "5tt.trx").read_bytes()  # with weights


def test_parts_and_numbers(folder, options, whole, tmp_path):
    shutil.copytree(folder / "sub", tmp_path / "sub")  # which may lie elsewhere for each part
    parts = [tmp_path / f"{number}.trx" for number in (1, 2)]
    for number, path in enumerate(parts, 1):
        ts.track(output=path, act=(folder, tmp_path)[number - 1] / "sub", **options, part=f"{number}/2")
    ts.join(parts, tmp_path / "joined.trx")
    assert (tmp_path / "joined.trx").read_bytes() == whole.path.read_bytes()
    ts.track(output=tmp_path / "numbers.npz", act=tmp_path / "sub", **options)
    assert len(ts.regrow(tmp_path / "numbers.npz", arch="cpu")) == whole.n_streamlines
    with (tmp_path / "sub" / "surf" / "lh.pial").open("ab") as file:
        file.write(b"more")
    with pytest.raises(InputError, match="has changed since"):
        ts.regrow(tmp_path / "numbers.npz", arch="cpu")


def test_tissues_are_kept_until_a_file_changes(folder, tmp_path):
    subject = shutil.copytree(folder / "sub", tmp_path / "sub")
    first, again = (TissueFiles((subject,)).read(silent)[0] for _ in range(2))
    assert again is first
    shutil.copyfile(subject / "surf" / "rh.white", subject / "surf" / "rh.pial")
    assert not np.array_equal(TissueFiles((subject,)).read(silent)[0], first)


def test_files_of_the_folder_are_not_replaced(folder, options, tmp_path):
    surface = folder / "sub" / "surf" / "lh.white"
    with pytest.raises(OutputError, match=r"lh\.white: is an input, and is not replaced"):
        ts.track(output=tmp_path / "a.trx", act=folder / "sub", json_stats=surface, force=True, **options)


def test_a_folder_excludes_maps(folder, options):
    maps = dict.fromkeys(("pve_wm", "pve_gm", "pve_csf"), "a.nii")
    with pytest.raises(ParameterError, match="act and pve_wm exclude each other"):
        ts.track(act=folder / "sub", **options | maps)


def test_an_option_of_labels_changes_nothing(folder):
    """A preset has it, too."""
    said: list[str] = []
    TissueFiles((folder / "sub",), sgm_amyg_hipp=True).read(said.append)
    assert len(said) == 1
    assert "--sgm-amyg-hipp changes nothing" in said[0]


def test_an_error_in_the_folder_is_one_line(folder, tmp_path, run):
    shutil.copytree(folder / "sub", tmp_path / "sub")
    (tmp_path / "sub" / "surf" / "rh.pial").unlink()
    (tmp_path / "empty").mkdir()
    command = ["track", "--sh", folder / "fod.nii.gz", "--sh-basis", "tournier07", "--dg", "ifod2", "--arch", "cpu",
               "--seed-gmwmi", "act", "-o", tmp_path / "out.tck", "--act"]
    for name, words in (("sub", "rh.pial: no such file"), ("empty", "aparc+aseg.mgz: no such file")):
        one_line(run(*command, tmp_path / name), 1, words, "a subject's folder of FreeSurfer has")
    with pytest.raises(ParameterError, match="need affine: give it"):
        ts.track(sh=np.zeros((4, 4, 4, 15)), sh_basis="tournier07", dg="ifod2", act=folder / "sub", seed_gmwmi="act")
    assert not (tmp_path / "out.tck").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="Windows has no such permissions")
def test_a_folder_without_permission(folder):
    user = os.geteuid()
    with tempfile.TemporaryDirectory() as place:  # pytest's folders are closed to other users
        Path(place).chmod(0o755)
        subject = Path(shutil.copytree(folder / "sub", Path(place, "sub")))
        for closed in (subject, subject / "mri"):
            closed.chmod(0)
            try:
                if user == 0:  # who may read all
                    os.seteuid(NOBODY)
                with pytest.raises(InputError, match=r"cannot be read \(Permission denied\); check the path"):
                    TissueFiles((subject,)).read(silent)
            finally:
                os.seteuid(user)
                closed.chmod(0o755)
