"""The one table of getters, models and references, and the documents that repeat it."""

import re

import pytest
from places import ROOT

from tistreamlines.errors import listed
from tistreamlines.fit.models import MODELS
from tistreamlines.options.definitions import absent
from tistreamlines.tracking.references import REFERENCES
from tistreamlines.tracking.registry import METHODS, citations, describe_default
from tistreamlines.tracking.sources import describe_inputs


def text(name):
    """A document on one line."""
    return " ".join((ROOT / name).read_text(encoding="utf-8").split())


def test_the_page_of_direction_getters_has_the_table():
    page = text("docs/direction-getters.md")
    for name, row in METHODS.items():
        models, references = ", ".join(row.models) or "none", ", ".join(row.references)
        cells = row.title, describe_inputs(row.follows), models, row.use, references
        assert " | ".join([f"| `{name}`", *cells]) + " |" in page


def test_the_page_of_citations_has_every_reference():
    page = text("docs/citations.md")
    for reference in REFERENCES.values():
        assert reference in page


def test_citation_file_has_no_others():
    known = {reference.partition("doi:")[2] for reference in REFERENCES.values()}
    cited = re.findall(r'doi: "?([^\s"]+)', (ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited
    assert set(cited) <= known


def test_names_of_references_are_known():
    """With a DOI, which abstracts of conferences do not have."""
    used = [name for known in (*METHODS.values(), *MODELS.values()) for name in known.references]
    assert set(used) <= set(REFERENCES)
    for name, reference in REFERENCES.items():
        author, year = name.split()
        assert reference.startswith(author)
        assert f"{year}. doi:10." in reference or re.search(rf"ISMRM [^.]+, {year}\.$", reference)


@pytest.mark.parametrize("dg", METHODS)
def test_citations(dg):
    for model in (*METHODS[dg].models, None):
        texts = citations(dg, model)
        assert len(texts) == len(set(texts)) >= 3
        assert any("Salmon" in reference for reference in texts)
    assert any("Tournier" in reference for reference in citations("prob", "csd"))


def test_words():
    assert [listed("a"), listed("ab"), listed("abc")] == ["a", "a or b", "a, b or c"]
    assert describe_default("sm_lambda") == "0.006 for opdt, 0.003 for csa"
    orders = "4 for opdt, 6 for csa, 8 for csd"
    assert absent("sh_order") == f"{orders}, or the highest that the directions determine; 8 for msmt"
    assert describe_default("max_angle").startswith("30 for boot, 25 for prob, 20 for det")
