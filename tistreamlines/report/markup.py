"""Parts of a page in HTML, which loads nothing and runs only its own script.

The text is in ``page.html``, in parts; a comment before each part has its name.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from io import BytesIO
from pathlib import Path
from string import Template

from ..aliases import Array
from ..io.picture import LETTERS, VIEWS
from .scene import ImageScene

HERE = Path(__file__).parent
QUALITY = 82  # of pictures in JPEG
_PARTS = re.split(r"^<!-- (\w+) -->\n", (HERE / "page.html").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
TEMPLATES = {name: Template(text.removesuffix("\n")) for name, text in zip(_PARTS[::2], _PARTS[1::2], strict=True)}


def page_of(
    name: str, version: str, tiles: Iterable[tuple[str, str]], warnings: Iterable[str], sections: Iterable[str],
    script: str = "", policy: str = "'none'",
) -> str:
    """Return a page: its title, main numbers, warnings and sections, and a script that the policy allows."""
    shown = (f"<div><dt>{key}</dt><dd>{escape(value)}</dd></div>" for key, value in tiles)
    texts = bullets(warnings)
    return fill_template(
        "page", policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src {policy}",
        name=escape(Path(name).name), style=(HERE / "page.css").read_text(encoding="utf-8"), version=escape(version),
        now=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"), tiles="".join(shown),
        warnings=fill_template("warnings", items=texts) if texts else "",
        sections="\n".join(filter(None, sections)), scripts=script,
    )


def fill_template(template: str, **parts: object) -> str:
    """Return a part of ``page.html`` with its variables, which are HTML."""
    return TEMPLATES[template].substitute(parts)


def section(title: str, template: str, **parts: object) -> str:
    return fill_template("section", title=escape(title), body=fill_template(template, **parts))


def bullets(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


def notes(texts: Sequence[str]) -> str:
    return section("Notes", "plain", body=f"<ul>{bullets(texts)}</ul>") if texts else ""


def table_of(rows: Iterable[tuple[str, str]]) -> str:
    out = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'<table class="stack"><tbody>{out}</tbody></table>' if out else ""


def colour_stops(colours: Array) -> str:
    """Return colours, (n, 3), 0 to 1, as the stops of a gradient."""
    return ", ".join(f"rgb({r},{g},{b})" for r, g, b in (255 * colours).astype(int).tolist())


def three_views(scene: ImageScene, pictures: Sequence[Array], *, slices: bool) -> str:
    """Lay the three views beside each other, as high as each other."""
    out = []
    for view, picture in zip(VIEWS, pictures, strict=True):
        sides = zip(("left", "right", "low", "high"), LETTERS[view.across] + LETTERS[view.up], strict=True)
        out.append(fill_template(
            "view", share=f"{picture.shape[1] / picture.shape[0]:.4f}", image=picture_of(picture, f"{view.name} view"),
            letters="".join(f'<b class="{side}">{letter}</b>' for side, letter in sides), name=view.name,
            level=f", {'xyz'[view.towards]} = {scene.level(view):.0f} mm" if slices else "",
        ))
    return "".join(out)


def picture_of(picture: Array, name: str) -> str:
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=QUALITY, subsampling=0)
    data, (height, width) = base64.b64encode(file.getvalue()).decode(), picture.shape[:2]
    return fill_template("image", name=name, width=width, height=height, data=data)
