"""Shows what docstrings have and Markdown does not: roles, as in :class:`Tracker`, and references, as [1]_."""

import re
from typing import Any

ROLE = re.compile(r":(?:class|func|meth|mod|attr):(<code>)~?(?:tistreamlines\.(?:[a-z_]+\.)*)?")
CITATION = re.compile(r"(\[\d+\])_")
PAPER = re.compile(r"(<p>)?\.\. (\[\d+\]) ")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with each role left out, names without their modules, and each paper on a line of its own."""
    html = PAPER.sub(lambda paper: f"{paper[1] or '<br>'}{paper[2]} ", html)
    return CITATION.sub(r"\1", ROLE.sub(r"\1", html))
