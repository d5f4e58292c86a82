"""Parts and pieces of iFOD1 and iFOD2 with ACT and seeds at the interface make the file of one run."""

import json

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.run import resume
from tistreamlines.space.harmonics import sampling_matrix

SHAPE, AFFINE = (24, 12, 12), np.diag([2.0, 2.0, 2.0, 1.0])


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    """Fibres along x between two cortices, which touch fluid on one side and deep grey matter in the middle."""
    folder = tmp_path_factory.mktemp("in")
    lobe = 2 * sampling_matrix([[1.0, 0, 0]], 4, "tournier07")[0]
    x, y, _ = np.indices(SHAPE)
    deep = (np.abs(x - 11.5) < 2) & (y > 8)
    kinds = np.where((x < 4) | (x >= 20), 0, np.where(deep, 1, np.where(y < 2, 3, 2)))
    tissues = np.stack([kinds == kind for kind in range(5)], axis=-1)
    for name, values in (("fod", np.broadcast_to(lobe, (*SHAPE, 15))), ("5tt", tissues)):
        nib.save(nib.Nifti1Image(np.asarray(values, np.float32), AFFINE), folder / f"{name}.nii.gz")
    anatomy = folder / "5tt.nii.gz"
    return {"sh": folder / "fod.nii.gz", "sh_basis": "tournier07", "act": anatomy, "seed_gmwmi": anatomy,
            "nseeds": 150, "arch": "cpu"}


def test_their_weights_are_those_of_one_run(options, tmp_path):
    weights = {name: {"sift2": [(options["sh"], tmp_path / f"{name}.txt")], "sift2_basis": "tournier07"}
               for name in ("whole", "joined")}
    ts.track(output=tmp_path / "whole.trx", **options, dg="ifod2", **weights["whole"])
    parts = [tmp_path / f"part{number}.trx" for number in (1, 2)]
    for number, path in enumerate(parts, 1):
        ts.track(output=path, **options, dg="ifod2", part=f"{number}/2")
    ts.join(parts, tmp_path / "joined.trx", **weights["joined"], sift2_act=options["act"])
    assert len(np.unique(np.loadtxt(tmp_path / "whole.txt"))) > 10
    assert (tmp_path / "joined.txt").read_bytes() == (tmp_path / "whole.txt").read_bytes()


@pytest.mark.parametrize("dg", ["ifod1", "ifod2"])
def test_they_make_the_file_of_one_run(options, tmp_path, monkeypatch, dg):
    options = options | {"dg": dg}
    whole = ts.track(output=tmp_path / "whole.trx", **options)
    assert whole.n_streamlines > 50
    assert len(whole.dropped) > 1
    parts = [tmp_path / f"part{number}.trx" for number in (1, 2)]
    for number, path in enumerate(parts, 1):
        ts.track(output=path, **options, part=f"{number}/2")
    ts.join(parts, tmp_path / "joined.trx")
    monkeypatch.setattr(resume, "FEWEST", 30)
    monkeypatch.setattr(resume, "MOST", 50)
    real, left = resume._track_piece, [2]

    def stop(*arguments):
        left[0] -= 1
        if left[0] < 0:
            raise Stopped
        return real(*arguments)

    with monkeypatch.context() as broken, pytest.raises(Stopped):
        broken.setattr(resume, "_track_piece", stop)
        ts.track(output=tmp_path / "resumed.trx", **options, resume=True)
    resumed = ts.track(output=tmp_path / "resumed.trx", **options, resume=True)
    assert any("goes on after" in note for note in resumed.notes)
    for name in ("joined", "resumed"):
        assert (tmp_path / f"{name}.trx").read_bytes() == (tmp_path / "whole.trx").read_bytes()
        record = json.loads((tmp_path / f"{name}.json").read_text())
        assert record["result"]["stop_reasons"] == whole.stop_reasons
        assert record["result"]["dropped"] == whole.dropped
        assert record["parameters"]["downsample"] == whole.record["parameters"]["downsample"] == {"ifod1": 1}.get(dg, 3)
