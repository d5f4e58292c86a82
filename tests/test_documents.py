"""What the documents quote can be traced: to a file of results, which has its commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
DOCUMENTS = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
FILE = re.compile(r"\b(?:suite|sweeps|h200|cpu|parity|micro)-[a-z0-9*-]+\.json")
MEASURED = re.compile(r"\d (?:Mpoints/s|million points|[mnu]?s\b|seconds\b|%|times\b|percent)|\b1e-\d")


def sections(text: str) -> list[str]:
    """Headed parts of a document, without blocks of code."""
    return re.split(r"^(?=##)", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S), flags=re.M)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_of_results_that_are_named_are_there(name):
    for pattern in FILE.findall((ROOT / name).read_text()):
        assert list(RESULTS.glob(pattern)), f"{name} names {pattern}"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_sections_with_measurements_name_their_source(name):
    for section in sections((ROOT / name).read_text()):
        found = MEASURED.search(section)
        held = FILE.search(section) or re.search(r"tests/test_\w+\.py", section)
        assert not found or held, f"{name}: {section.splitlines()[0]}: {found}"


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*.json")), ids=lambda path: path.stem)
def test_results_have_their_commands(path):
    text = path.read_text()
    found = json.loads(text)
    for record in found if isinstance(found, list) else [found]:
        commands = record.get("commands") or [record["command"]]
        assert any(re.search(r"tistreamlines |python |pytest ", command) for command in commands), commands
    assert not re.search(r"/(?:home|root|tmp|work)/", text)


def test_a_measurement_without_a_source_is_found():
    assert MEASURED.search("It does 27 Mpoints/s in chunks")
    assert MEASURED.search("a wait takes 0.57 ms there")
    assert not MEASURED.search("8 of 3 kB, in 40 lines, 5.5 degrees")
    assert len(sections("# a\n\n## b\n```\n## not this\n```\n### c\n")) == 3
