"""Regions of a parcellation by name, and the edges of what is shown, through the server of ``view --live``."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Iterator

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError

pytest.importorskip("websockets", reason="needs websockets")
from live_requests import Running, asked, read, started

from tistreamlines.live.parcels import Parcels

NAMES = {7: "left back", 12: "left front", 30: "right", 31: "right", 99: "nowhere"}


@pytest.fixture(scope="module")
def files(head, tmp_path_factory):
    """Write a parcellation of the head, and the names of its labels."""
    folder = tmp_path_factory.mktemp("parcels")
    mask = nib.load(head.mask)
    values = np.zeros(mask.shape, np.int16)
    x, y, _ = (size // 2 for size in mask.shape)
    values[:x, :y], values[:x, y:], values[x:, :y], values[x:, y:] = 7, 12, 30, 31
    values[np.asarray(mask.dataobj) == 0] = 0
    nib.save(nib.Nifti1Image(values, mask.affine), folder / "parcels.nii.gz")
    rows = "".join(f"{label}\t{name}\n" for label, name in NAMES.items())
    (folder / "parcels.tsv").write_text(f"index\tname\n{rows}")
    return folder


@pytest.fixture(scope="module")
def parcels(files) -> Parcels:
    return Parcels(str(files / "parcels.nii.gz"), files / "parcels.tsv")


@pytest.fixture(scope="module")
def options(head):
    return {"mask": head.mask, "dg": "prob", "arch": "cpu", "min_length": 0}


@pytest.fixture(scope="module")
def running(head, options, parcels) -> Iterator[Running]:
    yield started(ts.Live(*head.series, **options), parcels, keep=True)


def test_names(parcels, files):
    assert parcels.names == ("left back", "left front", "right (30)", "right (31)")
    assert parcels.region("right (31)").endswith("parcels.nii.gz:31")
    for name in ("right", "nowhere", str(files / "parcels.nii.gz"), None, 7, ["left back"]):
        with pytest.raises(ParameterError, match="is no region of the parcellation"):
            parcels.region(name)
    assert Parcels(files / "parcels.nii.gz").names == ("7", "12", "30", "31")


def test_names_are_no_markup_of_the_page(head, options, files, tmp_path):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    from tistreamlines.live.page import page_of

    odd = "</script><b>x"
    (tmp_path / "names.tsv").write_text(f"index\tname\n7\t{odd}\n")
    parcels = Parcels(files / "parcels.nii.gz", tmp_path / "names.tsv")
    page = page_of(ts.Live(*head.series, **options), regions=parcels.names).decode()
    facts = page.split('<script type="application/json" id="facts">')[1].split("</script>")[0]
    assert tuple(json.loads(facts)["regions"]) == parcels.names and odd in parcels.names
    assert "<b>x" not in page


def test_probabilities_have_no_regions(files, tmp_path):
    nib.save(nib.Nifti1Image(np.full((4, 4, 4, 2), 0.5, np.float32), np.eye(4)), tmp_path / "soft.nii.gz")
    with pytest.raises(InputError, match="has probabilities"):
        Parcels(tmp_path / "soft.nii.gz")


@pytest.mark.parametrize("chosen", [
    {"seed_sphere": None, "seed_mask": "left back"},
    {"seed_sphere": None, "seed_mask": "right (30)", "include": ["left front"], "exclude": [[0, 40, 0, 5]]},
    {"seed_sphere": [0, 0, 0, 30], "include": ["left front", [0, 0, 0, 40]], "exclude": ["right (31)"]},
    {"seed_sphere": [0, 0, 0, 30], "include": "left back"},
])
def test_regions_and_edges(running, files, run, tmp_path, monkeypatch, chosen):
    monkeypatch.chdir(tmp_path)
    chosen = {name: value for name, value in chosen.items() if value is not None}
    with running.connect() as channel:
        channel.send(json.dumps({"id": 1, "options": chosen | {"nseeds": 500}, "edges": True}))
        answer = read(channel.recv(60))
        channel.send(json.dumps({"id": 2, "options": chosen | {"nseeds": 500}, "save": "trx"}))
        saved = read(channel.recv(60))
    assert answer["streamlines"] > 10
    words = shlex.split(answer["command"])[1:]
    words += ["--connectome", str(files / "parcels.nii.gz"), "matrix.csv"]
    words += ["--connectome-nodes", str(files / "parcels.tsv"), "--connectome-pairs"]
    assert run(*words, "-q").code == 0
    assert (tmp_path / "streamlines.trx").read_bytes() == saved["content"]
    counts: dict[frozenset, int] = {}
    labels = {"left back": 7, "left front": 12, "right (30)": 30, "right (31)": 31, None: 0}
    for first, second, count in answer["edges"]:
        counts[frozenset((labels[first], labels[second]))] = count
    expected: dict[frozenset, int] = {}
    for pair in np.loadtxt(tmp_path / "matrix_pairs.tsv", int, ndmin=2).tolist():
        expected[frozenset(pair)] = expected.get(frozenset(pair), 0) + 1
    assert counts == expected and len(counts) > 1
    assert [count for *_, count in answer["edges"]] == sorted(counts.values(), reverse=True)


@pytest.mark.parametrize("chosen", [
    {"include": ["/etc/passwd"]}, {"include": "parcels.nii.gz:7"}, {"exclude": [["left back"]]},
    {"seed_mask": ["left back"]}, {"seed_mask": "parcels.nii.gz"}, {"seed_mask": [0, 0, 0, 5]}, {"seed_mask": 7},
    {"seed_sphere": "left back"}, {"include": ["left back"] * 51}, {"mask": "left back"},
])
def test_no_other_text_is_a_region(running, chosen):
    with running.connect() as channel:
        channel.send(json.dumps({"id": 1, "options": {"seed_sphere": [0, 0, 0, 30], "nseeds": 20} | chosen}))
        text = json.loads(channel.recv(30))["error"]
        assert text and "\n" not in text and "passwd" not in text.replace("'/etc/passwd'", "")
        assert asked(channel, seed_sphere=[0, 0, 0, 30])["streamlines"] > 0


def test_files_that_are_written_anew_are_read_again(head, options, files, tmp_path):
    image, table = tmp_path / "parcels.nii.gz", tmp_path / "parcels.tsv"
    for path in (image, table):
        shutil.copy(files / path.name, path)
    running = started(ts.Live(*head.series, **options), Parcels(image, table), keep=True)
    ball = {"seed_sphere": [0, 0, 0, 30]}
    with running.connect() as channel:
        before = asked(channel, edges=True, **ball)
        assert before["regions"] is None and asked(channel, exclude=["left back"], **ball)["streamlines"] > 0
        table.write_text(table.read_text().replace("left back", "posterior"))
        renamed = asked(channel, edges=True, **ball)
        assert renamed["regions"] == ["posterior", "left front", "right (30)", "right (31)"]
        new = {"left back": "posterior"}
        assert renamed["edges"] == [[new.get(first, first), new.get(second, second), count]
                                    for first, second, count in before["edges"]]
        assert "is no region" in asked(channel, exclude=["left back"], **ball)["error"]
        values = np.asarray(nib.load(image).dataobj).copy()
        values[values == 7] = 12
        nib.save(nib.Nifti1Image(values, nib.load(image).affine), image)
        assert "is no region" in asked(channel, exclude=["posterior"], **ball)["error"]
        joined = asked(channel, edges=True, **ball)
        assert joined["regions"] == ["left front", "right (30)", "right (31)"]
        assert "posterior" not in {name for *pair, _ in joined["edges"] for name in pair}
        image.write_bytes(b"")  # half of it is there
        assert "parcels.nii.gz: " in asked(channel, edges=True, **ball)["error"]
        shutil.copy(files / image.name, image)
        assert asked(channel, edges=True, **ball)["edges"] == renamed["edges"]


def test_no_streamline_has_no_edge(running):
    with running.connect() as channel:
        answer = asked(channel, edges=True, seed_sphere=[0, 0, 0, 30], min_length=199.0, max_length=200.0)
    assert (answer["streamlines"], answer["edges"]) == (0, [])


def test_edges_are_counted_where_a_request_asks_for_them(running, monkeypatch):
    counted, count = [], Parcels.edges
    monkeypatch.setattr(Parcels, "edges", lambda self, batch: counted.append(len(batch)) or count(self, batch))
    with running.connect() as channel:
        answers = [asked(channel, edges=edges, seed_sphere=[0, 0, 0, 30]) for edges in (None, False, True)]
        assert [answer["edges"] is None for answer in answers] == [True, True, False]
        assert counted == [answers[2]["streamlines"]]
        channel.send(json.dumps({"id": 1, "options": {"seed_sphere": [0, 0, 0, 30]}, "edges": "all"}))
        assert json.loads(channel.recv(30))["error"] == "edges of a request is true or false"
