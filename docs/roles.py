"""Hooks of the site: roles and references of docstrings, which Markdown does not know, and marks for style.css."""

import re
from itertools import cycle
from typing import Any

ROLE = re.compile(r":(?:class|func|meth|mod|attr):(<code>)~?(?:tistreamlines\.(?:[a-z_]+\.)*)?")
CITATION = re.compile(r"(\[\d+\])_")
PAPER = re.compile(r"(<p>)?\.\. (\[\d+\]) ")
OPTION = re.compile(r"<code>(?=--[\w-]+</code>)")
TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
HEAD, CELL, TAG = re.compile(r"<th[^>]*>(.*?)</th>", re.DOTALL), re.compile(r"<td(?=[ >])"), re.compile(r"<[^>]*>")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with each role left out, names without their modules, and each paper on a line of its own.

    Options have the class ``option``, and cells of tables the head of their column as ``data-head``.
    """
    html = PAPER.sub(lambda paper: f"{paper[1] or '<br>'}{paper[2]} ", html)
    html = OPTION.sub('<code class="option">', CITATION.sub(r"\1", ROLE.sub(r"\1", html)))
    return TABLE.sub(lambda table: with_heads(table[0]), html)


def with_heads(table: str) -> str:
    """Return a table whose cells name their column, for screens on which the rows are stacks."""
    heads = cycle([TAG.sub("", head).replace('"', "&quot;") for head in HEAD.findall(table)] or [""])
    return CELL.sub(lambda _: f'<td data-head="{next(heads)}"', table)
