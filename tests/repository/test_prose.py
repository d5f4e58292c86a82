"""Plain English in documents, help, messages, docstrings and comments: no turns that a reader has to read twice."""

from __future__ import annotations

import re
from functools import cache

import pytest
from places import ROOT
from prose import Sentence, divided, of_module, of_page, sentences

FILES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")),
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "tistreamlines").rglob("*.py")),
]
MOST_WORDS = 40  # between semicolons
IS, PARTICIPLE = r"(?:is|are|was|were)", r"\w+(?:ed|en|wn|ne|ught|ade|ead)"
GIVEN = r"(?:given|told|asked|found|made)"
# fault -> its pattern, and how to mend it
TURNS = {
    "headless what": (
        r"^(?:What|Whatever|Whoever)\b(?!.*\?)|\b(?:of|from|than|with|in|for|by|on|to) what\b",
        "name the thing: 'the arguments of a kernel', not 'what a kernel takes'",
    ),
    "where it, it": (r"^Where (?:it|they|this|that|there|these|those)\b", "begin with 'If', or name the place"),
    "in place of": (r"\b[Ii]n place of\b", "write 'instead of'"),
    "let go": (r"\blet(?:s|ting)? go\b", "write release, close or free"),
    "passive chain": (
        rf"(?:\b(?:{IS}|be|been)(?: \w+ly)? (?!no\b|in\b){PARTICIPLE}\b[^;:]*){{3}}",
        "say who does it, or divide the sentence",
    ),
    "inversion": (rf"(?:,| and) so (?:{IS}|has|have|does|do|did) \w+|, as (?:{IS}) \w+", "subject first, then verb"),
    "causative": (r"\b(?:has|have|had) (?:them|it) \w+ed\b", "say who does it"),
    "that of, those of": (r"\b(?:that|those) of\b.*\b(?:that|those) of\b", "repeat the noun"),
    "participle as a noun": (
        rf"\b(?:the|one|ones|those|all) {GIVEN}\b(?! \w)"
        rf"|\b(?:that|which) {IS} {GIVEN}\b(?! (?:of|from|by|up|for the|no))",
        "name the thing: the option, the value, the user's mask",
    ),
    "asked for": (r"\basked for\b", "say who wants it: an option, the caller, the user"),
    "told": (r"\btold\b", "a function receives a message, and a user sees a note"),
    "private word": (r"\b(?:rooms|halls?|fillings?)\b", "use a word of the field, or of the list in ARCHITECTURE.md"),
    "of its own": (
        r"\b(?:process|thread|grid|file|folder|lock|stream)(?:es|s)? of (?:its|their|one's) own\b",
        "write 'separate' or 'another'",
    ),
    "double negation": (
        r"\b(?:nothing|nobody|none|anything) but\b|\bnot un\w+ed\b|\bnever \w+ not\b"
        r"|\bno \w+ (?:that|which) (?:is|are|has|have|does|do) (?:not|no)\b|\b(?:not|cannot) \w+ (?:without|unless)\b",
        "say it positively: only, always",
    ),
}
# part of a sentence that may stay -> the reason
EXCEPTIONS: dict[str, str] = {
    "The form is that of Keep a Changelog": "a sentence in common with other projects' changelogs",
}


def faults(sentence: Sentence) -> set[str]:
    """The names of a sentence's faults."""
    names = {name for name, (pattern, _) in TURNS.items() if re.search(pattern, sentence.text)}
    return names | ({"long"} if sentence.words > MOST_WORDS else set())


@cache
def faulty() -> list[tuple[Sentence, set[str]]]:
    """All sentences that have faults, and their faults."""
    pairs = ((sentence, faults(sentence)) for path in FILES for sentence in sentences(path, ROOT))
    return [(sentence, names) for sentence, names in pairs if names]


@pytest.mark.parametrize("name", [*TURNS, "long"])
def test_sentences_are_understood_at_once(name):
    advice = TURNS[name][1] if name in TURNS else f"divide it: at most {MOST_WORDS} words"
    lines = [
        f"{sentence.path}:{sentence.line}: {sentence.text}" for sentence, names in faulty()
        if name in names and not any(part in sentence.text for part in EXCEPTIONS)
    ]
    assert not lines, f"{name} ({advice}):\n" + "\n".join(lines)


def test_exceptions_are_few_and_needed():
    assert len(EXCEPTIONS) <= 10
    for part in EXCEPTIONS:
        assert any(part in sentence.text for sentence, _ in faulty()), part


@pytest.mark.parametrize(("name", "text"), [
    ("headless what", "What is not known in its output is an error."),
    ("headless what", "It depends on a hash of what the header says."),
    ("where it, it", "Where it is missing, it is made again."),
    ("in place of", "Write map in place of track."),
    ("let go", "The lock is let go of."),
    ("passive chain", "Inputs are read, models are fitted and tables are made."),
    ("inversion", "The file is replaced, and so is the record."),
    ("inversion", "Rows are dropped, as are columns."),
    ("causative", "The run has them checked."),
    ("that of, those of", "The axis is that of the series, and the values those of FA."),
    ("participle as a noun", "Options are checked against the given."),
    ("participle as a noun", "It reads the mask that is given."),
    ("asked for", "It writes a page if one is asked for."),
    ("told", "The user is told."),
    ("private word", "Each of the rooms has a floor."),
    ("of its own", "It runs in a process of its own."),
    ("double negation", "It holds nothing but zeros."),
    ("long", "word " * 41),
])
def test_faults_are_found(name, text):
    assert name in faults(Sentence("page.md", 1, text))


def test_sentences_are_divided():
    assert divided("One, e.g. `a. B`. Two: it is [here](a.md).\nThree is 1.5 mm. 4 mm") == [
        "One, e.g CODE.", "Two: it is here.", "Three is 1.5 mm.", "4 mm",
    ]
    page = "# What\n\nOne\nline.\n\n| What |\n|---|\n| a cell |\n\n- an item\n  of two\n\n```\nnot this\n```\n"
    assert [(line, " ".join(text.split())) for line, text in of_page(page)] == [
        (3, "One line."), (8, "a cell"), (10, "an item of two"),
    ]
    module = '"""A module.\n\nname : its value.\n"""\nraise ValueError(f"{name}: has no such value")  # a comment\n'
    assert [(line, text.strip()) for line, text in of_module(module)] == [
        (1, "A module."), (3, "its value."), (5, "VALUE: has no such value"), (5, "a comment"),
    ]
