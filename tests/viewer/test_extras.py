"""Values, weights, groups and nodes, which colour and divide the streamlines of a page."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from commands import one_line
from nibabel.streamlines.trk import encode_value_in_name, header_2_dtype
from viewed import LINES, POINTS, bundle, write_files

from tistreamlines.io.tractograms import groups_of_tractogram, stored_batches
from tistreamlines.io.trk import header_of_trk, values_of_trk
from tistreamlines.viewer import scene as scenes
from tistreamlines.viewer.extras import MOST_SETS, ExtraMaker, Values
from tistreamlines.viewer.matrix import connectomes
from tistreamlines.viewer.scene import scene_of


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("extras"))


def shown(path, **extras):
    maker = ExtraMaker(path.name, groups=partial(groups_of_tractogram, path), **extras)
    points = partial(stored_batches, path)
    return scene_of(path.name, partial(points, values=True), None, maker, points)


def drawn(scene):
    """The sample: points of all, and how many each streamline has."""
    begin = int(re.search(rb"file: \. (\d+)", scene.streamlines)[1])
    rows = np.frombuffer(scene.streamlines[begin:], "<f4").reshape(-1, 3)[:-1]
    ends = np.flatnonzero(np.isnan(rows[:, 0]))
    lengths = np.diff(ends, prepend=-1) - 1
    assert lengths[0] == 0, "since NiiVue loses the first one"
    return rows[np.isfinite(rows[:, 0])], lengths[1:]


def numbers_of(scene):
    return {each.name: each.numbers for each in scene.extras.values}


@pytest.mark.parametrize("suffix", ["trx", "trk"])
def test_values_of_a_file_follow_its_points_and_streamlines(files, suffix, monkeypatch):
    """Also where points are left out and only every fourth streamline is drawn."""
    monkeypatch.setattr(scenes, "MOST_STREAMLINES", 100)
    scene = shown(files / f"bundle.{suffix}")
    points, lengths = drawn(scene)
    assert (scene.every, scene.shown, len(lengths)) == (4, 75, 75)
    assert len(points) < 75 * POINTS
    numbers = numbers_of(scene)
    np.testing.assert_allclose(numbers["depth"], points[:, 2], atol=1e-4)
    np.testing.assert_array_equal(numbers["number"], np.arange(0, LINES, 4))
    assert [each.of_points for each in scene.extras.values if each.name in ("depth", "number")] == [True, False]
    assert not scene.extras.begins_with_values


def test_maps_are_sampled_at_the_points_and_along_the_streamlines(files, run, tmp_path):
    """The means are those of ``map``, though points are left out on the page."""
    scene = shown(files / "bundle.trx", maps=[str(files / "x.nii.gz")])
    points, lengths = drawn(scene)
    numbers = numbers_of(scene)
    np.testing.assert_allclose(numbers["x (map)"], points[:, 0], atol=1e-3)
    assert max(np.linalg.norm(np.diff(points[:lengths[0]], axis=0), axis=1)) <= scenes.VALUED_MM
    words = ("--sample", files / "x.nii.gz", "--sample-table", tmp_path / "x.csv")
    assert run("map", files / "bundle.trx", *words).code == 0
    table = np.genfromtxt(tmp_path / "x.csv", delimiter=",", names=True)
    np.testing.assert_allclose(numbers["x (map), mean"], table["x_mean"], rtol=1e-6)
    assert scene.extras.begins_with_values and scene.extras.values[0].name == "x (map)"
    low, high = scene.extras.values[0].window
    assert 2 <= low < 4 and 34 < high <= 36


def test_weights_and_groups_are_those_of_the_streamlines_that_are_drawn(files, monkeypatch):
    monkeypatch.setattr(scenes, "MOST_STREAMLINES", 200)
    scene = shown(files / "bundle.trx", weights=str(files / "weights.txt"), shown=["high"])
    assert scene.every == 2
    np.testing.assert_allclose(numbers_of(scene)["weights"], np.arange(0, LINES, 2) / 10)
    groups = {group.name: group for group in scene.extras.groups}
    assert {name: group.total for name, group in groups.items()} == {"low": 100, "high": 50}
    np.testing.assert_array_equal(groups["low"].places, np.arange(50))
    np.testing.assert_array_equal(groups["high"].places, np.arange(125, 150))
    assert list(scene.extras.shown) == ["high"]


def test_values_of_points_and_of_streamlines_have_other_names(files):
    """Though both are called the same in the file, and whatever others are called."""
    whole = bundle()
    points = {name: whole.points[:, axis] for axis, name in enumerate(("cost", "cost (at points)", "depth"))}
    streamlines = {name: np.arange(LINES) + place for place, name in enumerate(("cost", "cost (at points)", "number"))}
    stored = replace(whole, data_per_point=points, data_per_streamline=streamlines)
    scene = scene_of("a.trx", lambda: [stored], None, ExtraMaker("a.trx"))
    assert {each.name: each.of_points for each in scene.extras.values} == {
        "cost (at points) (at points)": True, "cost (at points) (at points) (at points)": True, "depth": True,
        "cost (of streamlines)": False, "cost (at points) (of streamlines)": False, "number": False,
    }
    numbers = numbers_of(scene)
    np.testing.assert_array_equal(numbers["cost (of streamlines)"], np.arange(LINES))
    del points["cost (at points)"], streamlines["cost (at points)"]
    stored = replace(whole, data_per_point=points, data_per_streamline=streamlines)
    scene = scene_of("a.trx", lambda: [stored], None, ExtraMaker("a.trx"))
    names = [each.name for each in scene.extras.values]
    assert names == ["cost (at points)", "depth", "cost (of streamlines)", "number"]


def test_values_of_a_file_keep_their_names_apart_from_maps_and_weights(files):
    """Also where the other name is taken; all of them are there."""
    whole = bundle()
    points = {"x (map)": whole.points[:, 1], "x (map) (file)": whole.points[:, 2]}
    streamlines = {name: np.arange(LINES) + place for place, name in enumerate(("weights", "x (map), mean"))}
    stored = replace(whole, data_per_point=points, data_per_streamline=streamlines)
    maker = ExtraMaker("a.trx", maps=[str(files / "x.nii.gz")], weights=str(files / "weights.txt"))
    scene = scene_of("a.trx", lambda: [stored], None, maker)
    names = [each.name for each in scene.extras.values]
    assert len(names) == len(set(names)) == 7
    numbers, (drawn_points, _) = numbers_of(scene), drawn(scene)
    for axis, name in enumerate(("x (map)", "x (map) (file) (file)", "x (map) (file)")):
        np.testing.assert_allclose(numbers[name], drawn_points[:, axis], atol=1e-3, err_msg=name)
    np.testing.assert_allclose(numbers["weights"], np.arange(LINES) / 10, rtol=1e-6)
    np.testing.assert_array_equal(numbers["weights (file)"], np.arange(LINES))
    np.testing.assert_array_equal(numbers["x (map), mean (file)"], np.arange(LINES) + 1)


def test_values_beyond_the_room_of_a_page_are_not_kept():
    """Of the file; a warning names them."""
    whole, maker = bundle(), ExtraMaker("a.trx")
    sets = {f"set{place:02}": whole.points[:, 0] + place for place in range(MOST_SETS + 2)}
    stored = replace(whole, data_per_point=sets)
    assert sorted(maker.extend(stored).data_per_point) == sorted(sets)[:MOST_SETS]
    extras = scene_of("a.trx", lambda: [stored], None, maker).extras
    assert [each.name for each in extras.values if each.of_points] == sorted(sets)[:MOST_SETS]
    (doubt,) = extras.doubts
    assert f"has {MOST_SETS + 2} sets" in doubt and "set12" in doubt and "set13" in doubt


def test_values_are_read_once():
    """The density needs points alone."""
    whole, read = bundle(), []

    def batches(values):
        read.append(values)
        return [whole if values else replace(whole, data_per_point={}, data_per_streamline={})]

    scene = scene_of("a.trx", partial(batches, True), None, ExtraMaker("a.trx"), partial(batches, False))
    assert read == [True, False] and {"depth", "number"} <= numbers_of(scene).keys()


@pytest.mark.parametrize("weighted", [False, True])
def test_the_matrix_is_that_of_map(files, run, tmp_path, monkeypatch, weighted):
    """Of all streamlines; nodes are those of the streamlines that are drawn."""
    monkeypatch.setattr(scenes, "MOST_STREAMLINES", 100)
    weights = str(files / "weights.txt") if weighted else None
    labels, nodes = str(files / "labels.nii.gz"), {"connectome_measure": ["mean-length"]}
    scene = shown(files / "bundle.trx", labels=labels, nodes=nodes, weights=weights)
    words = ("--connectome", files / "labels.nii.gz", tmp_path / "c.csv", "--connectome-pairs")
    assert run("map", files / "bundle.trx", *words, *(("--weights", weights) if weighted else ())).code == 0
    matrix = scene.extras.matrix
    np.testing.assert_allclose(matrix.values["count"], np.loadtxt(tmp_path / "c.csv", delimiter=","))
    assert scene.extras.weighted == weighted and "mean-length" in matrix.values
    (page,) = connectomes([matrix], weighted=weighted)
    assert page["counted"] == ("unweighted-count" if weighted else "count")
    assert matrix.values[page["counted"]].sum() == 2 * LINES
    pairs = np.loadtxt(tmp_path / "c_pairs.tsv")
    np.testing.assert_array_equal(scene.extras.nodes, pairs[::4])
    assert set(map(tuple, pairs.tolist())) == {(1, 2), (1, 3)}


def test_the_page_holds_what_its_script_needs(files, run):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    out = files / "page.html"
    words = ("--map", files / "x.nii.gz", "--weights", files / "weights.txt", "--connectome", files / "labels.nii.gz")
    assert run("view", files / "bundle.trx", *words, "--group", "low", "-o", out).code == 0
    page = out.read_text(encoding="utf-8")

    def text(name):
        return re.search(rf'id="{name}">(.*?)</script>', page)[1]

    facts = json.loads(text("facts"))
    assert [each["name"] for each in facts["values"]][:3] == ["x (map)", "x (map), mean", "weights"]
    for place, each in enumerate(facts["values"]):
        numbers = np.frombuffer(b64decode(text(f"values-{place}")), "<f4")
        assert np.isfinite(numbers).all() and each["window"][0] < each["window"][1]
        assert each["ofPoints"] or len(numbers) == LINES
    assert [group["name"] for group in facts["groups"]] == ["high", "low"] and facts["shownGroups"] == ["low"]
    assert facts["connectome"]["names"] == ["1", "2", "3"]
    assert facts["connectome"]["counted"] == "unweighted-count"
    assert len(b64decode(text("nodes"))) == 8 * LINES


@pytest.mark.parametrize(
    "numbers", [[], [np.nan], [3], [3, 3, np.inf], [1.8e19] * 4, [-3e38, 3e38], [0, 1e-40], [0] * 500 + [1]]
)
def test_a_scale_has_two_ends(numbers):
    low, high = Values("any", True, np.array(numbers, np.float32)).window
    assert np.isfinite([low, high]).all() and low < high


def test_several_numbers_for_a_point_have_no_name(tmp_path):
    """Such as colours; names of single numbers behind them keep their column."""
    header = np.zeros((), header_2_dtype.newbyteorder("<"))
    named = {"magic_number": b"TRACK", "version": 2, "hdr_size": 1000, "voxel_sizes": 1, "dimensions": 5,
             "voxel_to_rasmm": np.eye(4), "voxel_order": b"RAS", "nb_scalars_per_point": 4}
    for name, value in named.items():
        header[name] = value
    for place, (name, count) in enumerate((("colour", 3), ("fa", 1), ("beyond", 1))):
        header["scalar_name"][place] = encode_value_in_name(count, name)
    values = np.arange(7, dtype="<f4")
    (tmp_path / "a.trk").write_bytes(header.tobytes() + np.int32(1).tobytes() + values.tobytes())
    assert values_of_trk(header_of_trk(tmp_path / "a.trk")) == ({"fa": 3}, {})
    (batch,) = stored_batches(tmp_path / "a.trk", values=True)
    assert {name: each.tolist() for name, each in batch.data_per_point.items()} == {"fa": [6.0]}


@pytest.mark.parametrize(("words", "texts"), [
    (("--weights", "few.txt"), ("has 7 weights, but bundle.trx has 300 streamlines",)),
    (("--weights", "none.txt"), ("none.txt: no such file",)),
    (("--weights", "x.nii.gz"), ("cannot be read as text",)),
    (("--map", "far.nii.gz"), ("far.nii.gz: no point of a streamline lies in this map",)),
    (("--map", "soft.nii.gz"), ("give a 3-D image",)),
    (("--group", "middle"), ("has no group 'middle'; it has high, low",)),
    (("--connectome", "soft.nii.gz"), ("has probabilities",)),
    (("--connectome", "labels.nii.gz", "--connectome-nodes", "none.tsv"), ("none.tsv: no such file",)),
])  # fmt: skip
def test_what_does_not_belong_to_the_streamlines_is_one_line(files, run, monkeypatch, words, texts):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    monkeypatch.chdir(files)
    one_line(run("view", "bundle.trx", *words, "-o", "out.html"), 1, *texts)
    assert not (files / "out.html").exists()


def test_options_that_need_others_are_one_line(files, run, monkeypatch):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    monkeypatch.chdir(files)
    for words, text in (
        (("--connectome-radius", "3"), "--connectome-radius needs --connectome"),
        (("--connectome", "labels.nii.gz", "--connectome-measure", "mass"), "--connectome-measure is 'mass'"),
    ):
        refused = run("view", "bundle.trx", *words, "-o", "out.html")
        assert refused.code == 2 and text in refused.err, refused
    one_line(run("view", "bundle.trk", "--group", "low", "-o", "out.html"), 1, "has no group 'low'; it has none")
