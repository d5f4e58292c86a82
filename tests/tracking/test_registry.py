"""A method and a stopping rule that the package does not know, each one kernel file, one host file and one row."""

import ast
from pathlib import Path
from unittest import mock

import nibabel as nib
import numpy as np
import pytest
from distributions import directions, fibres, unit
from toys import CHANCE, FADING, STRAIGHTEST

import tistreamlines as ts
from tistreamlines.options.definitions import applies_with
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.from_arrays import prepare_arrays
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.registry import METHODS, STOPPING_RULES, describe_default, owners
from tistreamlines.tracking.sources import describe_inputs
from tistreamlines.tracking.tables.inputs import OrientationFunctions

SHAPE, LEVEL = (24, 20, 9), 0.6
SAMPLES = {"pmf_threshold": 0.3, "max_angle": 40.0}


@pytest.fixture(autouse=True)
def toys():
    """The toys' rows, as long as a test lasts."""
    with mock.patch.dict(METHODS, straightest=STRAIGHTEST), mock.patch.dict(STOPPING_RULES, fading=FADING):
        yield


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_the_toy_method_takes_the_straightest_direction(dialect):
    vertices = load_sphere("default")[0]
    rng = np.random.default_rng(1)
    levels, headings = rng.uniform(0, 1, len(vertices)), unit(rng.normal(size=(200, 3)))
    pmf = np.broadcast_to(levels.astype(np.float32), (3, 3, 3, len(levels)))
    follows = OrientationFunctions("pmf", pmf)
    prepared = prepare_arrays("straightest", follows, np.ones((3, 3, 3)), 0.5, np.ones((1, 3)), **SAMPLES)
    codes = directions(prepared, dialect, np.ones((200, 3)), headings)[0]
    cosines = headings @ vertices.T
    allowed = (np.abs(cosines) >= np.cos(np.radians(40.0))) & (levels >= 0.3 * levels.max())
    expected = np.where(allowed, np.abs(cosines), -1).argmax(axis=1)
    assert (codes >> 1).tolist() == expected.tolist()
    assert np.array_equal(codes & 1, cosines[np.arange(200), expected] <= 0)


def test_the_toy_rule_ends_streamlines_by_chance(tmp_path):
    """With the toy method, from files to a file."""
    axis = np.broadcast_to(unit(np.array([0.94, 0.33, 0.05])), (*SHAPE, 3))
    for name, values in {"sh": fibres(axis), "stop_map": np.full(SHAPE, LEVEL, np.float32)}.items():
        nib.save(nib.Nifti1Image(values, np.eye(4)), tmp_path / f"{name}.nii")
    np.save(tmp_path / "seeds.npy", np.random.default_rng(0).uniform((2, 2, 2), np.array(SHAPE) - 3, (300, 3)))
    result = ts.track(
        output=tmp_path / "a.tck", arch="cpu", dg="straightest", stopping="fading", sh=tmp_path / "sh.nii",
        sh_basis="descoteaux07_legacy", stop_map=tmp_path / "stop_map.nii", stop_threshold=0.5, max_directions=1,
        max_steps=90, seeds=tmp_path / "seeds.npy",
    )
    lines = nib.streamlines.load(tmp_path / "a.tck").streamlines
    steps, chance = len(lines.get_data()) - len(lines), CHANCE * (1 - LEVEL)
    assert result.stop_reasons["end_point"] == 0
    assert steps > 3000
    assert abs(result.stop_reasons["max_length"] - chance * steps) < 3 * np.sqrt(chance * steps)


def test_a_row_is_all_that_options_need():
    assert Parameters(dg="straightest").max_angle == 30
    assert Parameters(dg="straightest").model == "opdt"
    assert "straightest" in owners("pmf_threshold")["dg"]
    assert "straightest" in applies_with("sh")["dg"]
    assert "30 for boot or straightest" in describe_default("max_angle")
    assert describe_inputs(METHODS["straightest"].follows) == describe_inputs(METHODS["prob"].follows)
    with pytest.raises(ts.ParameterError, match="straightest"):
        Parameters.given({"dg": "straightest", "det_rule": "max"})
    with pytest.raises(ts.ParameterError, match=", ".join(STOPPING_RULES)):
        Parameters(stopping="chance")


def test_no_other_place_lists_the_methods():
    """Outside the registry, the rooms that all methods pass through name none of them."""
    package, names = Path(ts.__file__).parent, {"boot", "prob", "det", "ptt"}
    tracking = (f"tracking/{part}" for part in ("seeding", "selection", "products", "engine"))
    rooms = ("options", "space", "linker", "backends", "io", "fit", *tracking, "run", "cli")
    for path in (path for room in rooms for path in (package / room).rglob("*.py")):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        texts = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        assert not names & texts, f"{path}: {names & texts}"
