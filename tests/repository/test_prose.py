"""Plain English in documents, help, messages, docstrings and comments: turns that a reader has to read twice."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from places import ROOT
from prose import Sentence, divided, of_module, of_page, sentences

FILES = [
    *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "tistreamlines").rglob("*.py")),
]
MOST_WORDS = 40
IS, DID = r"(?:is|are|was|were)", r"(?:given|told|asked|found|made)"
# name of a fault -> the turn, and how to mend it
TURNS = {
    "headless what": (
        r"^(?:What|Whatever|Whoever)\b(?!.*\?)|\b(?:of|from|than|with|in|for|by|on|to) what\b",
        "name the thing: 'arguments that a kernel takes' says more than 'what a kernel takes'",
    ),
    "where it, it": (r"^Where (?:it|they|this|that|there|these|those)\b", "begin with 'If', or name the place"),
    "in place of": (r"\bin place of\b", "write 'instead of'"),
    "let go": (r"\blet(?:s|ting)? go\b", "name the deed: release, close, free"),
    "passive chain": (
        rf"(?:\b(?:{IS}|be|been)(?: \w+ly)? (?!no\b|in\b)\w+(?:ed|en|wn|ne|ught|ade|ead)\b[^;:]*){{3}}",
        "say who does it, or divide the sentence",
    ),
    "inversion": (rf"(?:,| and) (?:as|so) (?:{IS}|has|have|does|do|did) \w+", "subject, then verb"),
    "causative": (r"\b(?:has|have|had) (?:them|it) \w+ed\b", "say who does it"),
    "that of, those of": (r"\b(?:that|those) of\b.*\b(?:that|those) of\b", "repeat the noun"),
    "participle as a noun": (
        rf"\b(?:the|one|ones|those|all|than the one) {DID}\b(?! \w)|\b(?:that|which) {IS} {DID}\b(?! (?:of|from|by|up|for the|no))",
        "name the thing: the option, the value, the user's mask",
    ),
    "asked for": (r"\basked for\b", "name who wants it: an option, the caller, the user"),
    "told": (r"\btold\b", "a function receives a message; a user sees a note"),
    "private word": (r"\b(?:rooms|halls?|house|fillings?)\b(?! (?:of|style))", "use a word of the field, or of the glossary in ARCHITECTURE.md"),
    "of its own": (
        r"\b(?:process|process|thread|grid|file|folder|lock|stream|row)(?:es|s)? of (?:its|their|one's) own\b",
        "write 'separate' or 'another'",
    ),
    "double negation": (
        r"\b(?:nothing|nobody|none|anything) but\b|\bnot un\w+ed\b|\bnever \w+ not\b"
        r"|\bno \w+ (?:that|which) (?:is|are|has|have|does|do) (?:not|no)\b|\b(?:not|cannot) \w+ (?:without|unless)\b",
        "say it positively: only, always",
    ),
}
# sentences that may stay: part of the sentence -> the reason
EXCEPTIONS: dict[str, str] = {}
PAGES = {path: sentences(path, ROOT) for path in FILES}


def faults(sentence: Sentence) -> list[str]:
    """The faults of a sentence, by name."""
    found = [name for name, (turn, _) in TURNS.items() if re.search(turn, sentence.text)]
    return found + ["long sentence"] * (sentence.words > MOST_WORDS)


@pytest.mark.parametrize("name", [*TURNS, "long sentence"])
def test_sentences_can_be_read_at_once(name):
    advice = TURNS[name][1] if name in TURNS else f"divide it: more than {MOST_WORDS} words"
    lines = [
        f"{sentence.path}:{sentence.line}: {sentence.text}"
        for page in PAGES.values() for sentence in page
        if name in faults(sentence) and not any(part in sentence.text for part in EXCEPTIONS)
    ]
    assert not lines, f"{name} ({advice}):\n" + "\n".join(lines)
