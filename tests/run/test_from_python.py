"""What Python's own tools expect of the package: names, types, pickles, and lists where arrays go."""

import copy
import pickle
from importlib.resources import files

import nibabel as nib
import numpy as np
import pytest
from commands import python
from small_runs import SHAPE, write_inputs

import tistreamlines as ts
from tistreamlines.options.objects import TABLES, choice


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


# ------------------------------------------------------------------------------------------------- names and types
def test_names_are_those_that_are_public():
    """Also in a process that has tracked, whose modules are attributes of the package."""
    code = "import tistreamlines as ts; ts.track; ts.Prob; print(*dir(ts))"
    shown = python("-c", code).stdout.split()
    assert shown == sorted(shown)
    assert {*shown} == {*ts.__all__, "__version__"}
    assert all(hasattr(ts, name) for name in shown)


def test_type_checkers_read_the_annotations():
    assert files("tistreamlines").joinpath("py.typed").is_file()


# ------------------------------------------------------------------------------------------------- lists
def test_seeds_in_lists_are_those_of_an_array(options):
    points = np.load(options["seeds"])[:9]
    expected = ts.track(**options | {"seeds": points})
    for seeds in (points.tolist(), tuple(map(tuple, points)), list(points)):
        result = ts.track(**options | {"seeds": seeds})
        assert np.array_equal(result.streamlines.get_data(), expected.streamlines.get_data())
    directed = [[*point, 0, 1, 0] for point in points.tolist()]
    assert ts.track(**options | {"seeds": directed}).n_streamlines == 9


@pytest.mark.parametrize(
    ("seeds", "error", "words"),
    [
        ([], ts.InputError, "0 seeds"),
        ([1, 2, 3], ts.InputError, r"shape \(3,\)"),
        ([[1, 2, 3], [1, 2]], ts.ParameterError, "rows of several lengths"),
        ([["a", "b", "c"]], ts.InputError, "seeds .in memory."),
        ([[1, 2, None]], ts.InputError, "object array"),
        ([np.ma.masked_array([1, 2, 3], [0, 1, 0])], ts.ParameterError, "masked"),
    ],
)
def test_lists_that_are_no_seeds_are_one_line(options, seeds, error, words):
    with pytest.raises(error, match=words) as raised:
        ts.track(**options | {"seeds": seeds})
    assert "\n" not in str(raised.value)


def test_gradients_in_lists(head):
    bvals, bvecs = np.loadtxt(head.series[1]), np.loadtxt(head.series[2])
    (arrays,), (lists,) = (
        ts.stream(head.series[0], *gradients, mask=head.mask, nseeds=20, arch="cpu")
        for gradients in ((bvals, bvecs), (bvals.tolist(), bvecs.tolist()))
    )
    assert np.array_equal(arrays.points, lists.points)


# ------------------------------------------------------------------------------------------------- pickles
def returned(value):
    """The value as another process receives it."""
    copy.deepcopy(value)
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize("asked", [False, True])
def test_a_result_in_memory_can_be_sent_to_another_process(options, asked):
    result = ts.track(**options)
    if asked:
        assert len(result.streamlines) == result.n_streamlines
    again = returned(result)
    assert np.array_equal(again.streamlines.get_data(), result.streamlines.get_data())
    assert again.as_dict() == result.as_dict()
    assert again.parameters == result.parameters
    assert again._repr_html_() == result._repr_html_()


def test_so_can_a_result_with_products(options, tmp_path):
    image = nib.Nifti1Image(np.ones(SHAPE, np.uint8), np.diag([2.0, 2, 2, 1]))
    labels = np.ones(SHAPE, np.int16)
    labels[:, 9:] = 2
    result = ts.track(
        **options, output=tmp_path / "a.trx", density=tmp_path / "d.nii", ends=tmp_path / "e.nii", seed_mask=None,
        connectome=(nib.Nifti1Image(labels, image.affine), tmp_path / "c.csv"), waytotal=tmp_path / "w.txt",
        voxel_matrix=(image, tmp_path / "v.npz"), seed_matrix=(image, tmp_path / "s.npz"), sample=[image],
        sample_table=tmp_path / "t.csv", include=[ts.Mask(image)],
    )
    again = returned(result)
    assert again.products.keys() == result.products.keys()
    assert np.array_equal(again.density, result.density)
    (matrix,), (first,) = again.products["connectome"], result.products["connectome"]
    assert np.array_equal(matrix.values["count"], first.values["count"])
    assert len(again.streamlines) == result.n_streamlines
    mapped = returned(ts.map_tractogram(tmp_path / "a.trx", ends=tmp_path / "again.nii"))
    assert np.array_equal(mapped["products"]["ends"], result.products["ends"])


@pytest.mark.parametrize(("option", "name"), [(option, name) for option, rows in TABLES.items() for name in rows])
def test_objects(option, name):
    kind = choice(option, name)
    example = kind("file.nii") if option == "products" else kind()
    assert repr(returned(example)) == repr(example)
    assert type(returned(example)) is kind


def test_other_objects(options):
    for value in (ts.Sphere((1, 2, 3), 4), ts.Parameters(dg=ts.Prob(max_angle=30)), ts.estimate(**options)):
        assert repr(returned(value)) == repr(value)
    assert str(returned(ts.InputError("a.nii: is empty"))) == "a.nii: is empty"
