"""Shows the roles of the docstrings, as in :class:`Tracker`, as code: Markdown has no roles."""

import re
from typing import Any

ROLE = re.compile(r":(?:class|func|meth|mod|attr):(<code>)~?(?:tistreamlines\.(?:[a-z_]+\.)*)?")


def on_page_content(html: str, **_: Any) -> str:
    """Return the page with each role left out, and the name without its modules."""
    return ROLE.sub(r"\1", html)
