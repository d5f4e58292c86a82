"""Streamlines that are tracked again from their numbers: the bytes of those cut from the whole tractogram."""

import json
import shutil
from types import SimpleNamespace

import nibabel as nib
import numpy as np
import pytest
from commands import one_line, python
from head import SHAPE, SIDE, make_head, make_maze, tracked
from small_runs import change

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError, InputError, OutputError, ParameterError
from tistreamlines.io.numbers import read_numbers
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.run import regrow as module
from tistreamlines.run.saving import StoredTrx
from tistreamlines.tracking.weights.options import TRACKED

GETTERS = {
    "ifod2": {"backtrack": True, "select": 150, "nseeds": None},
    "ptt": {"backtrack": True, "select": 60, "nseeds": None},
    "prob": {"backtrack": True, "nseeds": 150}, "det": {"nseeds": 150},
}


@pytest.fixture(scope="module")
def maze(tmp_path_factory):
    """Fibres that turn between pockets of fluid and of cortex, and blocks of them as nodes."""
    folder = make_maze(tmp_path_factory.mktemp("maze"))
    blocks = np.indices(SHAPE) // 8
    labels = (1 + blocks[0] + 4 * blocks[1]).astype(np.int16)
    nib.save(nib.Nifti1Image(labels, np.diag([SIDE, SIDE, SIDE, 1])), folder / "nodes.nii.gz")
    return folder


@pytest.fixture(scope="module")
def bent(maze):
    """The numbers of a run of ifod2 in the maze."""
    tracked(maze, output=maze / "n.npz", **GETTERS["ifod2"] | {"select": 60})
    return maze / "n.npz"


@pytest.fixture(scope="module")
def weighed(tmp_path_factory):
    """A run with weights and nodes, twice: as a tractogram and as numbers."""
    folder = make_head(tmp_path_factory.mktemp("weighed"))
    labels = (1 + np.indices(SHAPE)[0] // 8).astype(np.int16)
    labels[0, 0, 0] = 6
    nib.save(nib.Nifti1Image(labels, np.diag([SIDE, SIDE, SIDE, 1])), folder / "nodes.nii.gz")
    for suffix in ("trx", "npz"):
        tracked(
            folder, output=folder / f"{suffix}.{suffix}", sift2=[(TRACKED, folder / f"{suffix}.txt")], weights="sift2",
            connectome=[(folder / "nodes.nii.gz", folder / f"{suffix}.csv")], groups=True, nseeds=200,
            connectome_assignment="end-voxel", backtrack=True,
        )
    return SimpleNamespace(folder=folder, whole=folder / "trx.trx", numbers=folder / "npz.npz")


def cut(whole, rows, path):
    """Write some streamlines of a tractogram."""
    stored = StoredTrx(whole)
    with TractogramWriter(path, stored.space) as writer:
        writer.write(ts.Batch.concatenate(stored.batches())[np.asarray(rows)])
    return path.read_bytes()


def lines_of(result):
    return [line.tobytes() for line in result]


@pytest.mark.parametrize("dg", GETTERS)
def test_bundles_have_the_bytes_of_those_cut_from_the_tractogram(maze, tmp_path, dg):
    """On one thread and on two, with any size of chunks, all of them, the last ones and some far apart."""
    whole, numbers = tmp_path / "whole.trx", tmp_path / "numbers.npz"
    for output in (whole, numbers):
        result = tracked(maze, output=output, dg=dg, **GETTERS[dg])
    assert numbers.stat().st_size < 8 * len(result) + 1000 and len(result) > 20
    again = ts.regrow(numbers, tmp_path / "again.trx", arch="cpu")
    assert (tmp_path / "again.trx").read_bytes() == whole.read_bytes() and len(again) == len(result)
    for name, rows, running in (
        ("last", range(len(result) - 5, len(result)), {"threads": 1}),
        ("apart", [0, 1, len(result) // 2, len(result) - 1], {"threads": 2, "chunk_size": 7}),
    ):
        result = ts.regrow(numbers, tmp_path / f"{name}.trx", rows=list(rows), arch="cpu", **running)
        assert (tmp_path / f"{name}.trx").read_bytes() == cut(whole, rows, tmp_path / f"{name}-cut.trx")
        assert len(result) == len(rows) >= result.seeds


def test_seeds_far_apart_are_in_blocks_of_their_own(bent, monkeypatch):
    expected = lines_of(ts.regrow(bent, arch="cpu"))
    for name, size in (("GAP", 0), ("SEEDS_AT_ONCE", 3)):
        monkeypatch.setattr(module, name, size)
        assert lines_of(ts.regrow(bent, arch="cpu")) == expected


@pytest.mark.nightly
def test_on_a_gpu(maze, tmp_path):
    """At night, since test_conformance.py compares devices by day."""
    try:
        choose("vulkan")
    except DeviceError as error:
        pytest.skip(str(error))
    for output in ("whole.trx", "n.npz"):
        tracked(maze, output=tmp_path / output, dg="ifod2", **GETTERS["ifod2"])
    done = python(
        "-m", "tistreamlines", "regrow", tmp_path / "n.npz", "-o", tmp_path / "b.trx", "--rows", "20:90", "--arch",
        "vulkan", timeout=500,
    )
    assert not done.returncode, done.stderr
    assert (tmp_path / "b.trx").read_bytes() == cut(tmp_path / "whole.trx", range(20, 90), tmp_path / "cut.trx")


def test_weights_and_groups_are_those_of_the_run(weighed, tmp_path):
    ts.regrow(weighed.numbers, tmp_path / "again.trx", arch="cpu")
    theirs, mine = (path.read_bytes() for path in (weighed.whole, tmp_path / "again.trx"))
    assert mine == theirs.replace(b"groups/trx_", b"groups/npz_")
    texts = [np.loadtxt(path) for path in (weighed.folder / "trx.txt", tmp_path / "again_weights.txt")]
    np.testing.assert_allclose(*texts, rtol=1e-7)


def test_an_edge_and_a_node(weighed, tmp_path, run):
    """Their streamlines are those that the matrix counts."""
    numbers = read_numbers(weighed.numbers)
    (kind,) = numbers.groups
    ends = np.sort(kind.numbers, axis=1)
    for names in (("1", "4"), ("npz_2", "4")):
        first, second = sorted(kind.names.index(name if "_" in name else f"npz_{name}") + 1 for name in names)
        rows = np.flatnonzero((ends == (first, second)).all(axis=1))
        name = "".join(names)
        assert len(rows)
        done = run("regrow", weighed.numbers, "-o", tmp_path / f"{name}.trx", "--edge", *names, "--arch", "cpu")
        assert done.code == 0 and f"{len(rows)} streamlines" in done.out, done
        stored = ts.Batch.concatenate(StoredTrx(tmp_path / f"{name}.trx").batches())
        expected = ts.Batch.concatenate(StoredTrx(weighed.whole).batches())[rows]
        np.testing.assert_array_equal(stored.points, expected.points)
        np.testing.assert_array_equal(
            stored.data_per_streamline["weights"], expected.data_per_streamline["weights"]
        )
    pairs = ("1", "4"), [("1", "4"), ("2", "4")]
    edge, edges = (ts.regrow(weighed.numbers, edge=nodes, arch="cpu") for nodes in pairs)
    assert len(edge) < len(edges)
    either = ts.regrow(weighed.numbers, node=["1", "2"], arch="cpu")
    assert len(either) == np.isin(kind.numbers, (1, 2)).any(axis=1).sum()
    assert either.products["sift2"].weights.shape == (len(either),)


def test_a_node_is_not_one_whose_name_ends_alike(weighed, tmp_path):
    """Names often end in a number that is not the label; a file of the same name, elsewhere, makes a name ambiguous."""
    table = tmp_path / "names.tsv"
    table.write_text("index\tname\n1\tLH_Vis_2\n2\tLH_Vis_1\n3\tRH_Vis_4\n4\tRH_Vis_1\n")
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
    labels = weighed.folder / "nodes.nii.gz"
    options = {"groups": True, "nseeds": 50, "connectome_assignment": "end-voxel"}
    named = {"connectome": [(labels, tmp_path / "a" / "m.csv")], "connectome_nodes": table}
    tracked(weighed.folder, output=tmp_path / "named.npz", **named, **options)
    with pytest.raises(InputError, match="has no node '2': give a whole name, such as m_LH_Vis_2"):
        ts.regrow(tmp_path / "named.npz", node="2", arch="cpu")
    ends = read_numbers(tmp_path / "named.npz").groups[0].numbers
    for name in ("LH_Vis_1", "m_LH_Vis_1"):
        assert len(ts.regrow(tmp_path / "named.npz", node=name, arch="cpu")) == (ends == 2).any(axis=1).sum() > 0
    twice = [(labels, tmp_path / folder / "n.csv") for folder in ("a", "b")]
    tracked(weighed.folder, output=tmp_path / "twice.npz", connectome=twice, **options)
    with pytest.raises(InputError, match="has 2 nodes that may be '2': give a whole name, such as n_2, n_2_2"):
        ts.regrow(tmp_path / "twice.npz", node="2", arch="cpu")


def test_regions_are_tested_at_the_points(weighed, tmp_path, run):
    whole = ts.Batch.concatenate(StoredTrx(weighed.whole).batches())
    ball, mask = [30.0, 20.0, 16.0, 8.0], np.zeros(SHAPE, bool)
    mask[10:20, :, 8:] = True
    image = nib.Nifti1Image(mask.astype(np.uint8), np.diag([SIDE, SIDE, SIDE, 1]))
    nearest = [np.floor(line.astype(float) / SIDE + 0.5).astype(int) for line in whole]
    inside = np.array([mask[tuple(voxels.T)].any() for voxels in nearest])
    near = np.array([(np.linalg.norm(line - ball[:3], axis=1) <= ball[3]).any() for line in whole])
    both, without = {"include": [ball, image]}, {"include": [ball], "exclude": image}
    for more, kept in ((both, near & inside), (without, near & ~inside)):
        assert 0 < kept.sum() < len(whole)
        again = ts.regrow(weighed.numbers, tmp_path / "again.trx", force=True, arch="cpu", **more)
        assert len(again) == kept.sum()
        rows = ts.Batch.concatenate(StoredTrx(tmp_path / "again.trx").batches())
        np.testing.assert_array_equal(rows.points, whole[np.flatnonzero(kept)].points)
        np.testing.assert_array_equal(
            rows.data_per_streamline["weights"], whole.data_per_streamline["weights"][kept]
        )
    with pytest.warns(UserWarning, match="no streamline passes"):
        assert not len(ts.regrow(weighed.numbers, include=[[*ball[:3], 0.01]], arch="cpu"))
    words = ("--include", ",".join(map(str, [*ball[:3], 0.01])), "--arch", "cpu", "-q")
    done = run("regrow", weighed.numbers, "-o", tmp_path / "none.trx", *words)
    assert not done.code and not StoredTrx(tmp_path / "none.trx").streamlines
    assert done.err == "Warning: no streamline passes by the regions as --include and --exclude ask for\n"
    with pytest.raises(InputError, match="no streamline can pass include"):
        ts.regrow(weighed.numbers, include=[ball], exclude=[[*ball[:3], 9.0]], arch="cpu")


def test_in_memory_and_in_other_formats(weighed, tmp_path):
    again = ts.regrow(weighed.numbers.with_suffix(".json"), rows=slice(0, 20), arch="cpu")
    again.save(tmp_path / "a.trx")
    ts.regrow(weighed.numbers, tmp_path / "b.trx", rows=slice(0, 20), arch="cpu")
    assert (tmp_path / "a.trx").read_bytes() == (tmp_path / "b.trx").read_bytes()
    for suffix in (".tck", ".trk"):
        output = tmp_path / f"{suffix[1:]}{suffix}"
        ts.regrow(weighed.numbers, output, rows=slice(0, 20), arch="cpu")
        lines = nib.streamlines.load(output).streamlines
        assert all(np.allclose(line, other, atol=1e-4) for line, other in zip(lines, again, strict=True))
    with pytest.raises(OutputError, match="numbers are written where streamlines are tracked"):
        again.save(tmp_path / "d.npz")


def test_a_run_that_goes_on_keeps_the_same_numbers(maze, tmp_path):
    options = {"connectome_assignment": "end-voxel", "groups": True, **GETTERS["ifod2"]}
    for name, resume in (("a", False), ("b", True)):
        (tmp_path / name).mkdir()
        matrix = [(maze / "nodes.nii.gz", tmp_path / name / "m.csv")]
        result = tracked(maze, output=tmp_path / f"{name}.npz", resume=resume, connectome=matrix, **options)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    with pytest.raises(InputError, match="holds numbers of streamlines, and no points"):
        result[0]
    assert lines_of(ts.regrow(tmp_path / "b.npz", arch="cpu"))


def test_of_a_series_and_in_another_folder(head, tmp_path, monkeypatch):
    """Relative paths begin where they did in the run, as seen from the record: a whole study can be moved."""
    study, work = tmp_path / "study", tmp_path / "study" / "work"
    work.mkdir(parents=True)
    for path in (*head.series, head.mask):
        shutil.copy(path, study)
    monkeypatch.chdir(work)
    names = {"dwi": "../dwi.nii.gz", "bvals": "../dwi.bval", "bvecs": "../dwi.bvec", "mask": "../mask.nii.gz"}
    result = ts.track(**names, output="n.npz", nseeds=200, dg="prob", arch="cpu")
    expected = lines_of(ts.regrow("n.npz", arch="cpu"))
    assert len(expected) == len(result)
    study.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert lines_of(ts.regrow("moved/work/n.npz", arch="cpu", threads=1)) == expected


class TestErrors:
    @pytest.fixture
    def copy(self, weighed, tmp_path):
        """A copy of the numbers, with their record and inputs."""
        for name in ("npz.npz", "npz.json", "fod.nii.gz", "5tt.nii.gz", "mask.nii.gz"):
            shutil.copy(weighed.folder / name, tmp_path)
        record = tmp_path / "npz.json"
        for name in ("sh", "act", "seed_mask"):
            path = json.loads(record.read_text())["inputs"][name]["path"]
            change(record, ("inputs", name, "path"), str(tmp_path / path.rpartition("/")[2]), renewed=True)
        return tmp_path / "npz.npz"

    def refused(self, run, copy, *words, options=()):
        done = run("regrow", copy, "-o", copy.with_name("out.trx"), "--arch", "cpu", "-q", *options)
        one_line(done, done.code, *words)
        assert done.code and not copy.with_name("out.trx").exists()

    def test_an_input_that_has_changed_or_is_missing(self, copy, run):
        with (copy.with_name("5tt.nii.gz")).open("ab") as file:
            file.write(b"\0" * 10)
        self.refused(run, copy, "5tt.nii.gz: has changed since npz.npz was tracked")
        copy.with_name("5tt.nii.gz").unlink()
        self.refused(run, copy, "5tt.nii.gz: is missing, from which npz.npz was tracked")

    @pytest.mark.parametrize("place", [("recipe", "kernels"), ("recipe", "tables"), ("recipe", "options", "max_angle")])
    def test_a_version_that_would_change_a_bit(self, copy, run, place):
        record = copy.with_suffix(".json")
        change(record, ("versions", "numpy"), "1.0", renewed=True)
        change(record, place, 20.0 if place[-1] == "max_angle" else "0", renewed=True)
        words = {
            "kernels": "the kernels are others than when it was tracked (numpy is",
            "tables": "other tables are made of the inputs here", "max_angle": "--max-angle is 20.0, not 45.0",
        }
        self.refused(run, copy, words[place[-1]])

    def test_streamlines_that_grow_otherwise(self, copy, run, monkeypatch):
        monkeypatch.setattr(module, "OUTSIDE", 3.0)
        numbers = dict(np.load(copy))
        numbers["points"][7] += 1
        np.savez(copy, **numbers)
        record = copy.with_suffix(".json")
        from tistreamlines.run.record import tractogram

        change(record, ("tractogram", "contents"), tractogram(copy)["contents"], renewed=True)
        self.refused(run, copy, "npz.npz: the streamline of seed ", "does not grow as it did")

    @pytest.mark.parametrize("damage", ["record", "missing", "numbers", "deflated", "end", "other", "order"])
    def test_a_damaged_recipe(self, copy, run, damage):
        record = copy.with_suffix(".json")
        if damage == "record":
            change(record, ("recipe", "options", "step_size"), 2.0, renewed=False)
            self.refused(run, copy, "its record npz.json has been changed since it was written")
        elif damage == "missing":
            record.unlink()
            self.refused(run, copy, "has no record npz.json beside it")
        elif damage == "numbers":
            content = bytearray(copy.read_bytes())
            content[200] ^= 1
            copy.write_bytes(content)
            self.refused(run, copy, "npz.npz: holds no numbers of streamlines, or is damaged (Bad CRC-32")
        elif damage == "deflated":  # which zlib cannot read
            content = copy.read_bytes()
            copy.write_bytes(content[:70] + b"\xff" * 20 + content[90:])
            self.refused(run, copy, "npz.npz: holds no numbers of streamlines, or is damaged")
        elif damage == "end":
            copy.write_bytes(copy.read_bytes()[:-40])
            self.refused(run, copy, "npz.npz: holds no numbers of streamlines, or is damaged")
        elif damage == "other":
            np.savez(copy, a=np.zeros(3))
            self.refused(run, copy, "it lacks 'seed_number'")
        else:
            numbers = dict(np.load(copy))
            numbers["seed_number"] = numbers["seed_number"][::-1]
            np.savez(copy, **numbers)
            self.refused(run, copy, "its streamlines are not in the order of their seeds")

    def test_nothing_that_is_asked_for(self, copy, run):
        self.refused(run, copy, "none of its", options=("--edge", "1", "6"))
        self.refused(run, copy, "has no node '17': give a whole name, such as npz_1", options=("--edge", "1", "17"))
        self.refused(run, copy, "none of its", options=("--rows", "9000000:"))
        done = run("regrow", copy, "-o", copy.with_name("out.trx"), "--rows", "5")
        assert done.code == 2 and "--rows is '5': give FIRST:LAST" in done.err
        self.refused(run, copy, "no part of --include is in the image", options=("--include", "900,0,0,3"))
        with pytest.raises(ParameterError, match="rows are none of the"):
            ts.regrow(copy, rows=[10**7], arch="cpu")
        with pytest.raises(ParameterError, match="edge is"):
            ts.regrow(copy, edge=("1", "2", "3"), arch="cpu")

    def test_what_is_not_replaced(self, copy, run):
        done = run("regrow", copy, "-o", copy.with_name("npz.trx"), "--force", "-q")
        assert done.code and "belongs to the numbers" in done.err

    def test_outputs_that_it_cannot_write(self, copy, run, tmp_path):
        done = run("regrow", copy, "-o", tmp_path / "other.npz", "-q")
        one_line(done, 1, "other.npz: holds no points: give a .trx, .trk or .tck")
        done = run("join", copy, "-o", tmp_path / "other.npz")
        one_line(done, 1, "other.npz: numbers are written in one run")

    def test_no_numbers(self, weighed, bent, run, tmp_path):
        done = run("regrow", weighed.whole, "-o", tmp_path / "a.trx")
        one_line(done, 1, "trx.trx: holds no numbers of streamlines: give a .npz")
        done = run("regrow", bent, "-o", tmp_path / "a.trx", "--node", "3")
        one_line(done, 1, "n.npz: has no nodes of streamlines: track with --connectome and --groups")


@pytest.mark.parametrize(("more", "words"), [
    ({"seed_dynamic": TRACKED, "seed_mask": None}, "with seed_dynamic a seed depends"),
    ({"exact": False}, "with exact=False their"), ({"part": "1/2"}, "a .npz is written in one run"),
    ({"seed_mask": nib.Nifti1Image(np.ones(SHAPE), np.eye(4))}, "seed_mask .in memory. is in no file"),
])
def test_runs_whose_streamlines_could_not_be_tracked_again(maze, tmp_path, more, words):
    with pytest.raises((ParameterError, OutputError), match=words):
        tracked(maze, output=tmp_path / "n.npz", **more)
    assert not list(tmp_path.iterdir())
