"""The page: one HTML file with the viewer and all data in it, which loads nothing from anywhere."""

from __future__ import annotations

import json
from base64 import b64encode
from html import escape
from pathlib import Path

from .niivue import CLIP, RADIUS_MM, SLAB_MM, module_text
from .scene import Scene


def page_of(scene: Scene) -> bytes:
    """Return the page of a scene, UTF-8.

    Raises
    ------
    InputError
        If NiiVue is not installed.
    """
    drawn = "all are drawn" if scene.every == 1 else f"one in {scene.every} is drawn ({scene.shown:,})"
    over = f" over {scene.image_name}" if scene.image is not None else ""
    facts = {
        "radius": RADIUS_MM, "slab": SLAB_MM, "clip": CLIP, "brightest": scene.brightest,
        "hasImage": scene.image is not None,
    }
    parts = {
        "title": escape(scene.title),
        "counts": escape(f"{scene.total:,} streamlines; {drawn}{over}"),
        "facts": json.dumps(facts),
        "streamlines": b64encode(scene.streamlines).decode(),
        "density": b64encode(scene.density).decode(),
        "image": b64encode(scene.image or b"").decode(),
        # no text within a script may look like its end
        "niivue": module_text().replace("</script", r"<\/script"),
    }
    page = Path(__file__).with_name("page.html").read_text(encoding="utf-8")
    pieces = page.split("@@")  # text and names of parts in turn
    text = "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
    return text.encode(errors="backslashreplace")  # bytes of a file name that are not UTF-8 are lone surrogates
