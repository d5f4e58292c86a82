"""Connectomes beside tck2connectome and DIPY, standard errors, lookup tables, and ends from devices."""

import pickle
import shutil
import subprocess

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io.node_tables import read_nodes
from tistreamlines.kernels.products.lengths import UNITS
from tistreamlines.options.parameters import Parameters
from tistreamlines.space.batch import Batch
from tistreamlines.tracking.products import keyed_sums
from tistreamlines.tracking.products.connectome import edges_kernels, matrix
from tistreamlines.tracking.products.connectome.connectome import Connectomes
from tistreamlines.tracking.products.connectome.matrix import BLOCKS, MEASURES, EdgeSums, mean_sample, nodes_of

SHAPE, SEARCH = (20, 18, 16), 12.0
AFFINE = np.array([[1.7, 0.3, 0, -9], [-0.3, 1.6, 0.2, 4], [0, -0.2, 2.1, -20], [0, 0, 0, 1.0]])
RULES = {"radial": [], "end-voxel": ["-assignment_end_voxels"], "reverse": ["-assignment_reverse_search", f"{SEARCH}"]}
SCALES = {
    "count": [], "length": ["-scale_length"], "mean-length": ["-scale_length", "-stat_edge", "mean"],
    "inverse-length": ["-scale_invlength"], "inverse-volume": ["-scale_invnodevol"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A parcellation with holes, and streamlines that cross it and leave it."""
    place, rng = tmp_path_factory.mktemp("connectome"), np.random.default_rng(5)
    blocks = np.indices(SHAPE) // 6
    labels = 1 + blocks[0] + 4 * blocks[1] + 12 * blocks[2]
    labels[rng.random(SHAPE) < 0.6] = 0
    nib.save(nib.Nifti1Image(labels.astype(np.int16), AFFINE), place / "labels.nii.gz")
    steps = rng.normal(size=(300, 40, 3)) * 0.3 + rng.normal(size=(300, 1, 3)) * 0.6
    starts = nib.affines.apply_affine(AFFINE, rng.random((300, 1, 3)) * SHAPE)
    whole = (starts + np.cumsum(steps, axis=1)).astype(np.float32)
    lines = [line[:n] for line, n in zip(whole, rng.integers(1, 41, 300), strict=True)]
    nib.streamlines.save(nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), str(place / "lines.tck"))
    return place


def batch_of(lines):
    offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])])
    n = len(lines)
    return Batch(np.concatenate(lines), offsets, np.zeros((n, 3)), np.arange(n), np.zeros(n), np.zeros((n, 2)))


def written(folder, **options):
    options = {"connectome": (folder / "labels.nii.gz", folder / "out.csv")} | options
    product = Connectomes(Parameters(**options), None, 1.0)
    lines = nib.streamlines.load(folder / "lines.tck").streamlines
    product.add(batch_of(lines[:100]))
    product.add(batch_of(lines[100:]))
    product.write(force=True)
    return product


@pytest.mark.skipif(shutil.which("tck2connectome") is None, reason="MRtrix3 is not installed")
@pytest.mark.parametrize("rule", RULES)
def test_matrices_are_tck2connectomes(folder, rule):
    radius = {"connectome_radius": SEARCH} if rule == "reverse" else {}
    (ours,) = written(
        folder, connectome_assignment=rule, connectome_measure=list(SCALES), connectome_pairs=True, **radius
    ).value
    assert ours.values["count"].sum() > 100 or rule == "end-voxel"
    for measure, scale in SCALES.items():
        command = ["tck2connectome", "-quiet", "-force", "-symmetric", *RULES[rule], *scale]
        command += ["-out_assignments", folder / "pairs.txt"] if measure == "count" else []
        subprocess.run([*command, folder / "lines.tck", folder / "labels.nii.gz", folder / "mrtrix.csv"], check=True)
        theirs = np.loadtxt(folder / "mrtrix.csv", delimiter=",")
        np.testing.assert_allclose(ours.values[measure], theirs, rtol=1e-5, atol=0, err_msg=measure)
        if measure == "count":
            np.testing.assert_array_equal(ours.values[measure], theirs)
            np.testing.assert_array_equal(np.loadtxt(folder / "out.csv", delimiter=","), theirs)
            np.testing.assert_array_equal(np.loadtxt(folder / "out_pairs.tsv"), np.loadtxt(folder / "pairs.txt"))


@pytest.mark.skipif(shutil.which("tck2connectome") is None, reason="MRtrix3 is not installed")
def test_a_diagonal_of_zeros_is_tck2connectomes(folder):
    (ours,) = written(folder, connectome_zero_diagonal=True).value
    command = ["tck2connectome", "-quiet", "-force", "-symmetric", "-zero_diagonal", folder / "lines.tck"]
    subprocess.run([*command, folder / "labels.nii.gz", folder / "mrtrix.csv"], check=True)
    np.testing.assert_array_equal(ours.values["count"], np.loadtxt(folder / "mrtrix.csv", delimiter=","))
    assert not np.diag(ours.errors["count"]).any()
    assert np.diag(written(folder).value[0].values["count"]).any()


def tcksampled(folder, image, which):
    command = ["tcksample", "-quiet", "-force", "-stat_tck", which]
    subprocess.run([*command, folder / "lines.tck", image, folder / "each.txt"], check=True)
    return np.loadtxt(folder / "each.txt")


@pytest.mark.skipif(shutil.which("tck2connectome") is None, reason="MRtrix3 is not installed")
@pytest.mark.parametrize("rule", ["radial", "reverse"])
def test_means_of_maps_are_those_of_tcksample_and_tck2connectome(folder, rule):
    """Of two maps, of which one is negative in part and the other has a grid that some streamlines leave."""
    rng = np.random.default_rng(8)
    turned = np.array([[1.6, -1.2, 0, -9], [1.2, 1.6, 0, 0], [0, 0, 2, -20], [0, 0, 0, 1.0]])
    for name, shape in {"FA": (25, 25, 20), "MD": (12, 12, 9)}.items():
        values = rng.normal(0.3, 0.5, shape) if name == "FA" else rng.random(shape) * 1e-3
        nib.save(nib.Nifti1Image(values.astype(np.float32), turned), folder / f"{name}.nii.gz")
    radius = {"connectome_radius": SEARCH} if rule == "reverse" else {}
    product = written(
        folder, connectome_assignment=rule, connectome_sample=[folder / "FA.nii.gz", folder / "MD.nii.gz"], **radius
    )
    (ours,) = product.value
    single = [len(line) == 1 for line in nib.streamlines.load(folder / "lines.tck").streamlines]
    assert list(ours.values) == ["count", "FA_mean", "MD_mean"]
    for name in ("FA", "MD"):
        means, medians = (tcksampled(folder, folder / f"{name}.nii.gz", which) for which in ("mean", "median"))
        np.savetxt(folder / "means.txt", np.where(single, medians, means))  # tcksample's mean of a single point is 0
        subprocess.run(["tck2connectome", "-quiet", "-force", "-symmetric", *RULES[rule], "-stat_edge", "mean",
                        "-scale_file", folder / "means.txt", folder / "lines.tck", folder / "labels.nii.gz",
                        folder / "mrtrix.csv"], check=True)
        theirs = np.loadtxt(folder / "mrtrix.csv", delimiter=",")
        np.testing.assert_allclose(ours.values[f"{name}_mean"], theirs, rtol=2e-5, atol=2e-5 * np.abs(theirs).max())
        stored = np.loadtxt(folder / f"out_{name}_mean.csv", delimiter=",")
        np.testing.assert_allclose(stored, ours.values[f"{name}_mean"], rtol=1e-8)
        assert np.count_nonzero(theirs) > 30
    left = product.details["samples"]["MD"]["streamlines_outside"]
    assert 0 < left < 300
    assert any(f"MD.nii.gz: {left} streamlines leave the map" in text for text in product.doubts)
    holds = next(file["holds"] for file in product.details["files"] if file["path"].endswith("MD_mean.csv"))
    assert "MD along each" in holds


def test_end_voxels_are_dipys(folder):
    from dipy.tracking.utils import connectivity_matrix

    (ours,) = written(folder, connectome_assignment="end-voxel").value
    image = nib.load(folder / "labels.nii.gz")
    inside = [
        line for line in nib.streamlines.load(folder / "lines.tck").streamlines
        if (np.abs(nib.affines.apply_affine(np.linalg.inv(AFFINE), line[[0, -1]]) - (np.array(SHAPE) - 1) / 2)
            < np.array(SHAPE) / 2).all()
    ]
    theirs = connectivity_matrix(inside, AFFINE, np.asarray(image.dataobj).astype(int), symmetric=True)
    np.testing.assert_array_equal(ours.values["count"], theirs[1:, 1:])


def test_standard_errors_are_those_of_leaving_a_block_out(folder):
    rng = np.random.default_rng(2)
    nodes, lengths, numbers = rng.integers(0, 4, (500, 2)), rng.integers(1, 1 << 22, 500), rng.integers(0, 900, 500)
    samples = rng.integers(-900, 900, (500, 2))
    measures = {name: MEASURES[name] for name in ("count", "mean-length")} | {"MD_mean": mean_sample("MD", 1)}
    whole = EdgeSums(3, measures)
    whole.add(nodes, numbers, whole.amounts(lengths, samples))
    values, errors, unassigned, streamlines = whole.matrices(measures, np.ones(3), (8.0, 16.0))
    assert (unassigned, streamlines) == ((nodes == 0).any(axis=1).sum(), 500)
    edge = np.sort(nodes, axis=1) == [1, 3]
    mine = edge.all(axis=1)
    assert values["count"][0, 2] == values["count"][2, 0] == mine.sum() > BLOCKS
    left = [mine & (numbers % BLOCKS != block) for block in range(BLOCKS)]
    for name, each in (
        ("count", [kept.sum() * BLOCKS / (BLOCKS - 1) for kept in left]),
        ("mean-length", [lengths[kept].mean() / UNITS for kept in left]),
        ("MD_mean", [samples[kept, 1].mean() / 16 for kept in left]),
    ):
        expected = np.sqrt((BLOCKS - 1) * np.var(each))
        np.testing.assert_allclose(errors[name][0, 2], expected, rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("direct", [True, False], ids=["each key has a place", "table"])
def test_sums_do_not_depend_on_parts(direct, monkeypatch):
    monkeypatch.setattr(keyed_sums, "MOST_DIRECT", keyed_sums.MOST_DIRECT if direct else 0)
    monkeypatch.setattr(keyed_sums, "FEWEST", 5)
    rng = np.random.default_rng(3)
    nodes, lengths, numbers = rng.integers(0, 9, (2000, 2)), rng.integers(0, 1 << 20, 2000), np.arange(2000)
    measures = MEASURES | {"MD_mean": mean_sample("MD", 0)}
    whole, parts, other = (EdgeSums(8, measures) for _ in range(3))
    added = nodes, numbers, whole.amounts(lengths, rng.integers(-(1 << 31), 1 << 31, (2000, 1)))
    whole.add(*added)
    other.add(*(columns[700:] for columns in added))
    parts.keyed.merge(pickle.loads(pickle.dumps(other.keyed.take())))
    parts.add(*(columns[:700] for columns in added))
    assert not len(other.keyed.sorted()[0])
    ours, theirs = parts.keyed.take(), whole.keyed.take()
    assert theirs.sorted()[1][:, 0].sum() == 2000
    for columns, same in zip(ours.sorted(), theirs.sorted(), strict=True):
        np.testing.assert_array_equal(columns, same)
    again = EdgeSums(8, measures)
    for taken in (ours, theirs):
        again.keyed.merge(taken)
    np.testing.assert_array_equal(again.keyed.take().sorted()[1], 2 * same)


@pytest.mark.parametrize("nodes", [3, 2000])
def test_sums_of_blocks_are_those_of_any_order(nodes):
    """Few nodes have places for all edges, and many are in a table of the edges that have streamlines."""
    rng, measures = np.random.default_rng(nodes), {name: MEASURES[name] for name in ("count", "mean-length")}
    ends = rng.integers(0, nodes + 1, (3000, 2)).astype(np.int32)
    numbers, sums, volumes = rng.integers(0, 1 << 20, 3000), EdgeSums(nodes, measures), rng.integers(1, 9, nodes)
    amounts = sums.amounts(rng.integers(1, 1 << 20, 3000))
    sums.add(ends, numbers, amounts)
    expected = sums.matrices(measures, volumes, ())
    blocks = (numbers % BLOCKS).astype(np.uint8)
    order = np.argsort(blocks, kind="stable")
    parts = [part for part in np.split(order, np.flatnonzero(np.diff(blocks[order]))[[4, 5, 20]] + 1)]
    keyed = sums.of_blocks(((ends[part], blocks[part], amounts[part]) for part in parts), 3000)
    ours = sums.matrices(measures, volumes, (), keyed)
    assert ours[2:] == expected[2:] and ours[3] == 3000
    for mine, theirs in zip(ours[:2], expected[:2], strict=True):
        for name in measures:
            np.testing.assert_array_equal(mine[name], theirs[name])


@pytest.mark.parametrize("nodes", [1, 2, 84, 1000])
def test_edges_have_their_nodes(nodes):
    rows, columns = np.triu_indices(nodes)
    for ours, expected in zip(nodes_of(np.arange(len(rows)), nodes), (rows, columns), strict=True):
        np.testing.assert_array_equal(ours, expected)
    sums = EdgeSums(nodes, {"count": MEASURES["count"]})
    pairs = np.stack([columns, rows], axis=1)[:: max(1, nodes // 9)] + 1
    sums.add(pairs, np.arange(len(pairs)), sums.amounts(np.ones(len(pairs), int)))
    edges = sums.matrices({"count": MEASURES["count"]}, np.ones(nodes), ())[0]["count"]
    assert (edges == edges.T).all() and (edges[tuple(pairs.T - 1)] == 1).all() and np.triu(edges).sum() == len(pairs)


TABLES = {
    "freesurfer.txt": "#No. Name R G B A\n0 Unknown 0 0 0 0\n"
                      "17 Left-Hippocampus 220 216 20 0\n53 Right-Hippocampus 1 2 3 0\n",
    "mrtrix.txt": "# index short long\n17 LHP Left-Hippocampus 220 216 20 255\n53 RHP Right-Hippocampus 1 2 3 255\n",
    "basic.txt": '17 "Left-Hippocampus"\n53 Right-Hippocampus\n',
    "itksnap.txt": '17 1 2 3 1 1 1 "Left-Hippocampus"\n53 1 2 3 1 1 1 "Right-Hippocampus"\n',
    "dseg.tsv": "index\tname\tcolor\n17\tLeft-Hippocampus\t#ff\n53\tRight-Hippocampus\t#f0\n",
    "label.xml": '<atlas><header><type>Label</type></header><data><label index="17">Left-Hippocampus</label>'
                 '<label index="53">Right-Hippocampus</label></data></atlas>',
    "value.xml": '<atlas><header><type>Statistic</type></header><data><label index="0" value="17">Left-Hippocampus'
                 '</label><label index="1" value="53">Right-Hippocampus</label></data></atlas>',
    # as in fs_default.txt, in which the thalamus has two names; MRtrix3's tables for AAL have the label at the end
    "twice.txt": "17 LHP Left-Hippocampus 1 2 3 255\n17 LHP Left-Hippo 1 2 3 255\n53 RHP Right-Hippocampus 1 2 3 255\n",
    "aal.txt": "LHP Left-Hippocampus 17\nRHP Right-Hippocampus 53\n",
    "atlaspack.tsv": "index\tlabel\tnetwork_label\n17\tLeft-Hippocampus\tn/a\n53\tRight-Hippocampus\t\n",
    "max.xml": '<atlas><header><type>Probabalistic</type></header><data><label index="16">Left-Hippocampus</label>'
               '<label index="52">Right-Hippocampus</label></data></atlas>',
}


@pytest.mark.parametrize("name", TABLES)
def test_lookup_tables_of_others(tmp_path, name):
    (tmp_path / name).write_text(TABLES[name])
    assert read_nodes(tmp_path / name) == {17: "Left-Hippocampus", 53: "Right-Hippocampus"}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("1 Frontal Pole\n2 Insular Cortex\n3 Precuneus\n", ["Frontal Pole", "Insular Cortex", "Precuneus"]),
        ("1 Left Thalamus\n2 Right Thalamus\n", ["Left Thalamus", "Right Thalamus"]),
        ("1 L.A 44_45 0 0 0 255\n2 L.I inf 0 0 0 255\n", ["44_45", "inf"]),
    ],
)
def test_names_of_several_words_and_those_like_numbers(tmp_path, text, names):
    (tmp_path / "nodes.txt").write_text(text)
    assert list(read_nodes(tmp_path / "nodes.txt").values()) == names


def test_an_atlas_that_does_not_say_where_labels_begin(tmp_path):
    (tmp_path / "a.xml").write_text('<atlas><data><label index="0">Left-Hippocampus</label></data></atlas>')
    with pytest.raises(InputError, match="no <type> in its header"):
        read_nodes(tmp_path / "a.xml")


def test_rows_are_those_of_the_table(folder):
    (folder / "nodes.tsv").write_text("index\tname\n7\tseven\n2\ttwo\n2000000000\tnone\n")
    (all_nodes,) = written(folder, connectome_assignment="end-voxel").value
    product = written(
        folder, connectome_nodes=folder / "nodes.tsv", connectome_assignment="end-voxel", connectome_pairs=True
    )
    (ours,) = product.value
    assert ours.names == ("seven", "two", "none")
    np.testing.assert_array_equal(ours.values["count"][:2, :2], all_nodes.values["count"][np.ix_([6, 1], [6, 1])])
    assert "34 labels are not in the lookup table (1, 3, 4, 5, 6, ...)" in product.doubts[0]
    assert "1 of 3 nodes have no voxel (none)" in product.doubts[1]
    assert (folder / "out_nodes.tsv").read_text().splitlines()[2].startswith("2\ttwo\t")
    pairs = np.loadtxt(folder / "out_pairs.tsv", dtype=int)
    assert len(pairs) == 300
    assert set(pairs.ravel().tolist()) == {0, 2, 7}


@pytest.mark.parametrize(
    ("values", "options", "words"),
    [
        (np.full((3, 3, 3), 0.5), {}, r"value 0\.5 in voxel \(0, 0, 0\) and others, 27 in all, is no"),
        (np.zeros((3, 3, 3)), {}, "no label above 0"),
        (np.ones((3, 3, 3, 1, 1)), {}, "5 axes"),
        (np.full((3, 3, 3), 12175.0), {}, "give the lookup table"),
        (np.ones((3, 3, 3)), {"connectome_measure": "counts"}, "give count, length"),
        (np.ones((3, 3, 3)), {"connectome_nodes": ["a", "b"]}, "one table for all"),
        (np.full((3, 3, 3), 3e9), {}, "value 3000000000 in voxel .* below 2"),
        (np.ones((3, 3, 3)), {"connectome_radius": 1e6}, "give a smaller one"),
    ],
)
def test_bad_input_is_one_line(tmp_path, values, options, words):
    nib.save(nib.Nifti1Image(values.astype(np.float32), np.eye(4)), tmp_path / "bad.nii")
    with pytest.raises((InputError, ParameterError), match=words):
        Connectomes(Parameters(connectome=(tmp_path / "bad.nii", tmp_path / "out.csv"), **options), None, 1.0)


@pytest.mark.parametrize(
    ("text", "words"),
    [("9" * 30 + " far\n", "beyond 2"), ("\n".join(f"{k} n" for k in range(1, 10_002)), "10,001 nodes")],
)
def test_tables_that_are_too_long(folder, text, words):
    (folder / "long.txt").write_text(text)
    with pytest.raises(InputError, match=words):
        written(folder, connectome_nodes=folder / "long.txt")


def test_ends_of_devices_make_the_matrix_that_points_make(folder, head):
    mask = nib.load(head.mask)
    labels = np.indices(mask.shape).sum(axis=0) // 9 + 1
    image = nib.Nifti1Image(labels.astype(np.int16), mask.affine)
    options = {
        "nseeds": 200, "connectome_measure": ["count", "length"], "arch": "cpu", "dg": "ptt", "mask": head.mask,
        "cache_dir": head.cache,
    }
    runs = [
        ts.track(*head.series, connectome=(image, folder / "a.npy"), keep_streamlines=False, **options),
        ts.track(*head.series, folder / "streamlines.tck", connectome=(image, folder / "b.npy"), **options),
    ]
    ends, other = (run.products["connectome"][0] for run in runs)
    assert ends.streamlines == other.streamlines == runs[0].n_streamlines > 50
    for name in ("a", "a_error", "a_length", "a_length_error"):
        assert (folder / f"{name}.npy").read_bytes() == (folder / f"{name.replace('a', 'b', 1)}.npy").read_bytes()
    assert runs[0].record["parameters"]["connectome"] is not None


def test_compiled_code_has_the_same_blocks():
    """It is loaded as text, which cannot import them."""
    assert (edges_kernels.BLOCK_BITS, edges_kernels.BLOCKS) == (matrix.BLOCK_BITS, matrix.BLOCKS)
