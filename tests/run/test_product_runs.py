"""Products of runs: the same bytes in any chunks, in parts, in a run that goes on, and from devices, lost ones too."""

import hashlib
import subprocess
import sys

import nibabel as nib
import numpy as np
import pytest
from planted import plant_in_workers
from present import PRESENT
from small_runs import SHAPE, write_inputs

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.run import resume, setup
from tistreamlines.tracking.products.connectome.matrix import MEASURES

# products that devices make, and some that need points
KINDS = {"devices": ("count", "radial"), "points": ("direction", "reverse")}
SUFFIXES = (".nii", ".gz", ".csv", ".tsv", ".npy")


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    folder = tmp_path_factory.mktemp("in")
    inputs = write_inputs(folder)
    x, y, _ = np.indices(SHAPE)
    for name, labels in (("slabs", 1 + y // 5), ("blocks", 1 + y // 8 + 3 * (x // 6))):
        nib.save(nib.Nifti1Image(labels.astype(np.int16), np.diag([2.0, 2, 2, 1])), folder / f"{name}.nii")
    for name, inside in (("seeds", x > 3), ("front", y < 10), ("back", (y > 7) & (x < 9))):
        nib.save(nib.Nifti1Image(inside.astype(np.uint8), np.diag([2.0, 2, 2, 1])), folder / f"{name}.nii")
    return inputs, folder


@pytest.fixture(params=KINDS)
def asked(request, options):
    """Options of all products, by the folder that they are written to."""
    kind, rule = KINDS[request.param]

    def named(folder):
        pairs = ("slabs", "c.csv"), ("blocks", "c.npy")
        seeds, *targets = (str(options[1] / f"{name}.nii") for name in ("seeds", "front", "back"))
        counts = {"seeds_to_targets": (seeds, str(folder / "t.tsv")), "targets": targets}
        return (counts if request.param == "points" else {}) | {
            "density": str(folder / "d.nii.gz"), "density_kind": kind, "density_voxel": 0.7,
            "ends": str(folder / "e.nii"), "connectome_assignment": rule, "connectome_measure": [*MEASURES],
            "connectome": [(str(options[1] / f"{labels}.nii"), str(folder / f"{labels}-{c}")) for labels, c in pairs],
        }

    return named


wholes = {}  # what one run with a tractogram has written, by the kind of the products


@pytest.fixture
def check(request, options, asked, tmp_path_factory):
    """Compare the products in a folder with those of one run that keeps its streamlines."""
    name = request.node.callspec.params["asked"]
    if name not in wholes:
        folder = tmp_path_factory.mktemp("whole")
        result = ts.track(output=folder / "a.trx", **options[0], **asked(folder))
        assert result.products["connectome"][0].values["count"].sum() > 50
        wholes[name] = written(folder)

    def equal(folder):
        assert written(folder).keys() == wholes[name].keys()
        assert [file for file, content in written(folder).items() if content != wholes[name][file]] == []

    return equal


def written(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in SUFFIXES}


@pytest.mark.parametrize("keep", [False, True])
def test_without_a_tractogram_in_other_chunks_and_threads(check, asked, options, tmp_path, keep):
    result = ts.track(**options[0] | {"chunk_size": 7, "threads": 2}, **asked(tmp_path), keep_streamlines=keep)
    assert bool(result.batches) == keep
    check(tmp_path)


@pytest.mark.nightly
@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
@pytest.mark.parametrize("asked", ["devices"], indirect=True)
def test_vulkan(check, asked, options, tmp_path):
    named = options[0] | {"arch": "vulkan", "keep_streamlines": False} | asked(tmp_path)
    subprocess.run([sys.executable, "-c", f"import tistreamlines as ts; ts.track(**{named!r})"], check=True)
    check(tmp_path)


def test_parts_that_are_joined(check, asked, options, tmp_path):
    parts, joined = [tmp_path / f"part{k}.trx" for k in (1, 2, 3)], tmp_path / "joined"
    joined.mkdir()
    for k, part in enumerate(parts, 1):
        ts.track(output=part, **options[0], part=f"{k}/3")
    ts.join(reversed(parts), joined / "a.trx", **asked(joined))
    check(joined)


def test_a_run_that_goes_on(check, asked, options, tmp_path, monkeypatch):
    monkeypatch.setattr(resume, "FEWEST", 25)
    monkeypatch.setattr(resume, "MOST", 25)
    track_piece, done = resume._track_piece, []

    def broken(*arguments):
        if len(done) == 3:
            raise KeyboardInterrupt
        done.append(track_piece(*arguments))
        return done[-1]

    arguments = options[0] | {"output": tmp_path / "a.trx", "resume": True} | asked(tmp_path)
    with monkeypatch.context() as within, pytest.raises(KeyboardInterrupt):
        within.setattr(resume, "_track_piece", broken)
        ts.track(**arguments)
    assert not written(tmp_path)
    ts.track(**arguments)
    check(tmp_path)


@pytest.mark.parametrize("asked", ["devices"], indirect=True)
def test_several_devices_of_which_one_is_lost(check, asked, options, tmp_path, monkeypatch):
    """Two workers on the CPU stand for two GPUs."""
    monkeypatch.setattr(setup, "choose_several", lambda arch, text: [choose("cpu")] * 2)
    plant_in_workers(monkeypatch, worker=0, at="advance", how="lost", number=4)
    named = {name: value for name, value in options[0].items() if name != "threads"}
    result = ts.track(**named, devices="all", chunk_size=20, keep_streamlines=False, **asked(tmp_path))
    assert any("was lost" in note and "started anew" in note for note in result.notes)
    check(tmp_path)


def test_a_lookup_table_is_recorded_and_not_replaced(options, tmp_path):
    table = tmp_path / "nodes.tsv"
    table.write_text("index\tname\n4\tfour\n1\tone\n")
    named = options[0] | {"connectome_nodes": table, "force": True}
    with pytest.raises(ts.OutputError, match="is an input"):
        ts.track(**named, connectome=(options[1] / "slabs.nii", table))
    result = ts.track(**named, connectome=(options[1] / "slabs.nii", tmp_path / "c.csv"))
    assert result.record["inputs"]["connectome_nodes 1"]["sha256"] == hashlib.sha256(table.read_bytes()).hexdigest()


@pytest.mark.parametrize("asked", ["devices"], indirect=True)
def test_a_disk_that_is_full_leaves_no_file(asked, options, tmp_path, monkeypatch):
    """Also of the products that were written before the one that has no room."""
    from tistreamlines.tracking.products.connectome import matrix

    def full(*arguments, **more):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(matrix, "write_nodes", full)
    with pytest.raises(OSError, match="No space left"):
        ts.track(output=tmp_path / "a.trx", **options[0], **asked(tmp_path))
    assert not list(tmp_path.iterdir())
