"""Seed points from NumPy and text files."""

import re

import numpy as np
import pytest

from tistreamlines.errors import InputError
from tistreamlines.tracking.seeding.files import load_seeds


@pytest.mark.parametrize("text", ["1 2 3\n4 5 6\n", "1,2,3\n4,5,6\n", "# x y z\n1\t2\t3\n4\t5\t6"])
def test_seeds_of_text(tmp_path, text):
    path = tmp_path / "seeds.txt"
    path.write_text(text)
    assert np.array_equal(load_seeds(str(path)), [[1, 2, 3], [4, 5, 6]])


def test_seeds_of_one_line(tmp_path):
    (tmp_path / "seeds.txt").write_text("1 2 3")
    assert load_seeds(tmp_path / "seeds.txt").shape == (1, 3)


def test_seeds_of_numpy(tmp_path):
    seeds = np.random.default_rng(3).normal(size=(9, 3)).astype(np.float32)
    np.save(tmp_path / "seeds.npy", seeds)
    loaded = load_seeds(tmp_path / "seeds.npy")
    assert loaded.dtype == np.float64
    assert np.array_equal(loaded, seeds)


@pytest.mark.parametrize(
    ("seeds", "part"),
    [
        (np.zeros((0, 3)), "0 seeds"),
        (np.zeros((4, 2)), "(4, 2)"),
        (np.zeros(3), "(3,)"),
        (np.zeros((2, 2, 3)), "(2, 2, 3)"),
        (np.array([["a", "b", "c"]]), "(1, 3)"),
        (np.array([[0, 0, 0], [1, np.nan, 2]]), "seed 1"),
        (np.array([[0, np.inf, 0]]), "inf"),
        (np.array([[None, 1, 2]]), "cannot be read"),
    ],
)
def test_malformed_seeds_of_numpy(tmp_path, seeds, part):
    np.save(tmp_path / "seeds.npy", seeds)
    with pytest.raises(InputError, match=rf"seeds\.npy: .*{re.escape(part)}.*; "):
        load_seeds(tmp_path / "seeds.npy")


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "0 seeds"), ("1 2\n3 4\n", "(2, 2)"), ("1 2 3\n4 5\n", "cannot be read"), ("x y z\n", "not of numbers")],
)
def test_malformed_seeds_of_text(tmp_path, text, part):
    (tmp_path / "seeds.txt").write_text(text)
    with pytest.raises(InputError, match=rf"seeds\.txt: .*{re.escape(part)}.*; "):
        load_seeds(tmp_path / "seeds.txt")


def test_missing_seeds(tmp_path):
    with pytest.raises(InputError, match=r"seeds\.npy: no such file; "):
        load_seeds(tmp_path / "seeds.npy")


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("x y z\n1 2 3\n4 5 6\n", ("line 1, 'x y z'", "begin it with #")),
        ("x,y,z\n1.5,2.5,3\n", ("line 1", "begin it with #")),
        ("1 2 3\n# a comment\nend of left side\n", ("line 3, 'end of left side'", "begin it with #")),
        # of three numbers, which were taken for six
        ("1,5 2,5 3,5\n1,5 2,5 3,5\n", ("line 1", "decimal points")),
        ("1,5e-1 2,5e0 3,5e+1\n", ("line 1", "decimal points")),
        ("1,5\t-2,5\t3\n", ("line 1", "decimal points")),
        ("1,5, 2,5, 3,5\n", ("line 1", "decimal points")),
        ("1,5;2,5;3,5\n", ("line 1", "decimal points")),
        ("# x;y;z\n1;2;3\n", ("line 2", "semicolons")),
    ],
)
def test_the_line_that_is_not_of_numbers(tmp_path, text, parts):
    (tmp_path / "seeds.txt").write_text(text)
    with pytest.raises(InputError, match=rf"seeds\.txt: {'.*'.join(map(re.escape, parts))}"):
        load_seeds(tmp_path / "seeds.txt")


@pytest.mark.parametrize("text", ["1,2,3 4,5,6\n", "1, 2,3, 4 5,6", "1 2 3 4 5 6", "1,2,3,4,5,6\n", "+1,2e0 3 4 5 ,6,"])
def test_commas_between_numbers(tmp_path, text):
    (tmp_path / "seeds.txt").write_text(text)
    assert np.array_equal(load_seeds(tmp_path / "seeds.txt"), [[1, 2, 3, 4, 5, 6]])
