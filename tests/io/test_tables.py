"""Names in tables: no spreadsheet takes one for a formula, and each is read back as it was."""

import csv
from pathlib import Path

import numpy as np
import pytest

from tistreamlines.io.node_tables import read_nodes
from tistreamlines.io.number_lines import SymmetricLines, lines_of
from tistreamlines.io.tables import cell_of_name, name_of_cell, write_matrix, write_nodes, write_numbers, write_rows

FORMULAS = (
    "=cmd|' /C calc'!A0", '=HYPERLINK("http://a.b")', "+1+1", "-2+3", "@SUM(A1)", "'=1", "''=1", "\uff1d1", "-", "+-=@",
)
NAMES = ("Left-Hippocampus", "a=b", "'quoted'", 'with "quotes"', "a,b", "'", "n/a", "1", "", "é", "(=1)")
BEGIN_A_FORMULA = set("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # OWASP's list


@pytest.mark.parametrize("name", [*FORMULAS, "\t=1", "\r=1", "\n=1"])
def test_formulas_become_text(name):
    assert cell_of_name(name)[0] not in BEGIN_A_FORMULA
    assert name_of_cell(cell_of_name(name)) == name


@pytest.mark.parametrize("name", NAMES)
def test_other_names_stay(name):
    assert name_of_cell(cell_of_name(name)) == cell_of_name(name) == name


def test_nodes_are_read_back(tmp_path):
    names, path = [*FORMULAS, *NAMES], tmp_path / "a_nodes.tsv"
    labels = np.arange(1, len(names) + 1)
    write_nodes(path, labels, names, labels, force=False)
    assert list(read_nodes(path).values()) == names
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file, delimiter="\t"))
    assert len(rows) == len(names) + 1
    assert {len(row) for row in rows} == {3}
    assert not any(cell[:1] in BEGIN_A_FORMULA for row in rows for cell in row if cell)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tsv", 'index\tname\n1\t"=1\t+2\r\n-3"\n2\n'),
        ("a.xml", '<atlas><header><type>Label</type></header><data><label index="1">\t=1&#9;+2&#13;&#10;-3</label>'
                  '<label index="2"></label></data></atlas>'),
    ],
)
def test_names_of_several_lines_have_one(tmp_path, name, text):
    (tmp_path / name).write_bytes(text.encode())
    assert read_nodes(tmp_path / name) == {1: "=1 +2 -3", 2: ""}


@pytest.mark.parametrize("separator", [",", "\t"])
def test_the_line_of_names_has_no_formula_and_no_column_more(tmp_path, separator):
    path, names = Path(tmp_path / "a.csv"), ["=1+1", "a,b", "FA_mean", "-x\ty"]
    with path.open("w", newline="\n") as file:
        for heading in (True, False):
            write_rows(file, {name: np.ones(3, np.float32) for name in names}, separator, heading=heading)
    with path.open(newline="") as file:
        head, *rows = csv.reader(file, delimiter=separator)
    assert head == ["'=1+1", "a,b", "FA_mean", "'-x\ty"]
    assert rows == [["1"] * 4] * 6


def test_numbers_have_the_digits_of_python(tmp_path):
    """Weights that compiled code writes, beside Python's format; extreme numbers in a block are left to Python."""
    rng = np.random.default_rng(1)
    weights = np.exp(rng.normal(0, 3, 120_000)).astype(np.float32).astype(float)
    weights[:6] = 0, 1, 9999999999, 0.5, 1234567.5, 99999.999995
    for values in (weights, np.log(weights), np.concatenate([weights, [np.inf, 1e300, 1e-300, -0.0, 1e10]])):
        with np.errstate(divide="ignore"):
            write_numbers(tmp_path / "w.txt", values, force=True)
        assert (tmp_path / "w.txt").read_text() == "".join(f"{value + 0.0:.10g}\n" for value in values)
    sizes = np.geomspace(1e-14, 9e9, 50_000)
    for values in (sizes, sizes[sizes > 1e-13], sizes[sizes > 1.01e-12].repeat(2)):
        write_numbers(tmp_path / "w.txt", values, force=True)
        assert (tmp_path / "w.txt").read_text() == "".join(f"{value:.10g}\n" for value in values)


@pytest.mark.parametrize("columns", [10, 50_000])
def test_whole_rows_have_all_digits(columns, tmp_path):
    values = np.zeros((1, columns))
    values[0, :3] = 12345678901, 2e10, 3
    write_matrix(tmp_path / "m.csv", values, force=True)
    assert (tmp_path / "m.csv").read_text().split(",")[:4] == ["12345678901", "20000000000", "3", "0"]


@pytest.mark.parametrize("nodes", [1, 2, 7, 90])
def test_symmetric_matrices_have_the_lines_of_whole_ones(nodes):
    """Among them rows that have only whole numbers, of which some have more digits than others write."""
    rng = np.random.default_rng(nodes)
    rows, columns = np.triu_indices(nodes)
    kept = rng.random(len(rows)) < 0.4
    rows, columns = rows[kept], columns[kept]
    lines = SymmetricLines(nodes, rows, columns)
    for values in (
        rng.integers(0, 3, len(rows)) * 12345678901.0, np.exp(rng.normal(0, 9, len(rows))), -rng.random(len(rows)),
        np.where(rng.random(len(rows)) < 0.9, 2e10, 0.5), np.where(rng.random(len(rows)) < 0.1, np.nan, 3),
    ):
        whole = np.zeros((nodes, nodes))
        whole[rows, columns] = whole[columns, rows] = values
        assert bytes(lines.of(values, "\t")) == bytes(lines_of(whole, "\t"))
    if len(rows):
        assert lines.of(np.full(len(rows), np.inf), ",") is None
