"""Sentences of the documents and of the package: of pages, docstrings, comments, messages and help."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCKS = re.compile(r"^```.*?^```|<!-- generated: ([a-z-]+) -->.*?<!-- /generated: \1 -->|^---\n.*?^---\n", re.M | re.S)
CODE = re.compile(r"``[^`]+``|`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ENDS = re.compile(r"(?<=[.!?:;])[\"')*]*\s+(?=[\"'(*A-Z0-9`])|(?<=\.)\s+(?=``)")
SHORT = re.compile(r"\b(e\.g|i\.e|cf|vs|et al|Fig|Eq|no)\.")
WORDS_OF_A_MESSAGE = 4
NO_COMMENT = re.compile(r"#( ?[-=]{5}|!|\s*(noqa|fmt|type|pyright|pyrefly|ruff))")
# pages, patterns and code
NO_MESSAGE = re.compile(r"<\w+[ >]|[{};]\n|\(\?|^ *(def|return|import) |@ti\.|^\s*\w+ = ", re.M)
TABLE = re.compile(r"^ *=+ [= ]+\n( *\S.*\n)*", re.M)
HEADING = re.compile(r"\n *\S.*\n *-{3,}(?=\n)")  # of a section of a docstring


@dataclass(frozen=True)
class Sentence:
    """A sentence, and where it begins."""

    path: str
    line: int
    text: str

    @property
    def words(self) -> int:
        """The words of its longest part between semicolons."""
        return max(len(re.findall(r"[A-Za-z0-9_'-]+", part)) for part in self.text.split(";"))


def sentences(path: Path, root: Path) -> list[Sentence]:
    """All sentences of a page or of a module."""
    text = path.read_text(encoding="utf-8")
    passages = of_page(text) if path.suffix == ".md" else of_module(text)
    name = str(path.relative_to(root))
    return [Sentence(name, line, part) for line, passage in passages for part in divided(passage)]


def divided(passage: str) -> list[str]:
    """The sentences of a passage, with CODE in place of code."""
    plain = CODE.sub("CODE", LINK.sub(r"\1", passage))
    plain = SHORT.sub(r"\1", " ".join(plain.split()))
    return [part.strip() for part in ENDS.split(plain) if part and re.search("[a-z]{2}", part)]


def of_page(text: str) -> Iterator[tuple[int, str]]:
    """Lines and passages of a page: paragraphs, items of lists, and cells of tables."""
    text = BLOCKS.sub(lambda block: "\n" * block[0].count("\n"), text)
    text = re.sub(r"^\|.*(?=\n\| ?:?--)", "", text, flags=re.M)  # heads of tables
    passage, begun = [], 1
    for line, row in enumerate([*text.splitlines(), ""], 1):
        apart = not row.strip() or re.match(r"\s*([-*] |\d+\. |#|\||>|<|!\[)", row)
        if apart and passage:
            yield begun, "\n".join(passage)
            passage = []
        if row.startswith("|"):
            yield from ((line, cell) for cell in re.split(r"(?<!\\)\|", row)[1:-1] if re.search(r"\w", cell))
        elif row.strip() and not row.startswith(("<", "#")):
            if not passage:
                begun = line
            passage.append(re.sub(r"^\s*([-*] |\d+\. |> )", "", row))


def of_module(source: str) -> Iterator[tuple[int, str]]:
    """Lines and passages of a module: docstrings, comments, and strings that are messages or help."""
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):  # a string as a statement: a docstring, also of a field
            docstrings |= {id(line.value) for line in body
                           if isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in docstrings and isinstance(node.value, str):
            for count, passage in _of_docstring(node.value):
                yield node.lineno + count, passage
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield from _message(node.lineno, node.value)
        elif isinstance(node, ast.JoinedStr):
            text = [part.value if isinstance(part, ast.Constant) else "VALUE" for part in node.values]
            yield from _message(node.lineno, "".join(map(str, text)))
    yield from _comments(source)


def _of_docstring(text: str) -> Iterator[tuple[int, str]]:
    """Paragraphs, entries and items of a docstring, without examples and headings."""
    for kind in (TABLE, HEADING):
        text = kind.sub(lambda part: "\n" * part[0].count("\n"), text)
    text = re.sub(r"^ *(>>>|\.\.\.) .*$", "", text, flags=re.M)
    text = re.sub(r"::\n\n((?: +.*)?\n)+", lambda block: "\n" * block[0].count("\n"), text)
    passage, begun, depth = [], 0, 0
    for count, row in enumerate([*text.splitlines(), ""]):
        indent = len(row) - len(row.lstrip())
        entry = re.match(r" *[\w`, *]+ : ", row)
        apart = not row.strip() or re.match(r"\s*([-*] |\d+\. )", row) or entry or (indent != depth and count > 1)
        if apart and passage:
            yield begun, "\n".join(passage)
            passage = []
        depth = indent
        if row.strip():
            if not passage:
                begun = count
            passage.append(re.sub(r"^ *[\w`, *]+ : ", "", row) if entry else row)


def _message(line: int, text: str) -> Iterator[tuple[int, str]]:
    if len(re.findall(r"\b[a-z]{2,}\b", text)) >= WORDS_OF_A_MESSAGE and not NO_MESSAGE.search(text):
        yield line, text


def _comments(source: str) -> Iterator[tuple[int, str]]:
    """Comments; those of neighbouring lines are one passage."""
    passage, begun, last = [], 0, (0, 0)
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type != tokenize.COMMENT or NO_COMMENT.match(token.string):
            continue
        text, (line, column) = token.string.lstrip("#: "), token.start
        if passage and (line, column) == (last[0] + 1, last[1]) and not token.line[:column].strip():
            passage.append(text)
        else:
            if passage:
                yield begun, "\n".join(passage)
            passage, begun = [text], line
        last = line, column
    if passage:
        yield begun, "\n".join(passage)
