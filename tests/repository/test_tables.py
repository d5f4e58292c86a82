"""The tables of speed are of the kernels as they are."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest
from places import ROOT
from records import kernels, shape

RESULTS = ROOT / "benchmarks" / "results"
TABLED = sorted({*RESULTS.glob("suite-*.json"), *RESULTS.glob("*-files-to-file.json")})


def test_the_kernels_have_not_changed_since_the_tables_were_measured():
    old = [
        path.name for path in TABLED
        if json.loads(path.read_text(encoding="utf-8"))["kernels"] != kernels(fits="files" in path.name)
    ]
    assert TABLED
    assert not old, f"{old}: measured with other kernels: run benchmarks/tables.sh on these computers, or delete them"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "kernels").mkdir()
    (tmp_path / "fit").mkdir()
    (tmp_path / "kernels" / "add.py").write_text('"""Add."""\nimport math\n\ndef add(a, b):\n    return a + 2 * b\n')
    (tmp_path / "fit" / "fit_kernels.py").write_text("def fit(x):\n    return x.a[0]\n")
    (tmp_path / "fit" / "host.py").write_text("FACTOR = 3\n")
    return tmp_path


def test_names_comments_and_places_do_not_change_the_fingerprint(package):
    before = kernels(package)
    (package / "kernels" / "add.py").unlink()
    (package / "kernels" / "sum.py").write_text("def total(p, q):\n    # twice\n    return p + 2 * q\n")
    (package / "fit" / "host.py").write_text("FACTOR = 4\n")
    assert kernels(package) == before


@pytest.mark.parametrize("body", ["a + 3 * b", "a - 2 * b", "b + 2 * a", "a + 2 * b + b"])
def test_other_arithmetic_changes_the_fingerprint(package, body):
    before = kernels(package)
    (package / "kernels" / "add.py").write_text(f"def add(a, b):\n    return {body}\n")
    assert kernels(package) != before


def test_fits_count_for_whole_commands_alone(package):
    before = kernels(package), kernels(package, fits=False)
    (package / "fit" / "fit_kernels.py").write_text("def fit(x):\n    return 2 * x.a[0]\n")
    assert kernels(package) != before[0]
    assert kernels(package, fits=False) == before[1]


def test_operands_in_another_order_have_another_shape():
    assert shape(ast.parse("f = lambda a, b: a - b")) != shape(ast.parse("f = lambda a, b: b - a"))
    assert shape(ast.parse("f = lambda a, b: a - b")) == shape(ast.parse("g = lambda x, y: x - y"))
