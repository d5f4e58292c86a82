"""NiiVue, the viewer in the browser, from the package ipyniivue: in a page, and as a widget.

A page is one HTML file with the viewer and all data in it, which loads nothing from anywhere.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..aliases import Json
from ..errors import InputError
from .matrix import connectomes, matrix_colours
from .scene import Scene

if TYPE_CHECKING:
    from ipyniivue import NiiVue

    from ..tracking.products.connectome.matrix import Matrix

NEEDED = "the viewer needs ipyniivue: pip install 'tistreamlines[view]'"
# the widget's script has NiiVue's own module in a string, percent-encoded, with which it writes pages
MODULE = re.compile(r'"([^"\\\s]{1000000,})"')
HERE = Path(__file__).parent
SCRIPTS = ("matrix.js", "scale.js", "lines.js", "connectome.js", "page.js")
MATRIX_BYTES = 20_000_000  # of all measures
RADIUS_MM = 0.3
SLAB_MM = 4.0  # streamlines so near to a slice are drawn on it
CLIP = (0.0, 270.0, 0.0)  # depth, azimuth and elevation: without the left half of the image


def module_text() -> str:
    """Return the text of NiiVue's module, which exports the class ``Niivue`` and loads nothing.

    Raises
    ------
    InputError
        If ipyniivue is not installed, or has no such module.
    """
    package = find_spec("ipyniivue")
    if package is None or package.origin is None:
        raise InputError(NEEDED)
    script = Path(package.origin).parent / "static" / "widget.js"
    try:
        texts = [unquote(text) for text in MODULE.findall(script.read_text(encoding="utf-8")) if "Niivue" in text]
    except OSError as error:
        raise InputError(f"{script}: cannot be read ({error.strerror}); install ipyniivue anew") from error
    module = next((text for text in texts if re.search(r"export\s*\{[^}]*\bNiivue\b[^}]*\};?\s*$", text)), None)
    if module is None:
        raise InputError(f"{script}: has no module of NiiVue; {NEEDED}")
    return module


def page_of(scene: Scene) -> bytes:
    """Return the page of a scene, UTF-8.

    Raises
    ------
    InputError
        If NiiVue is not installed.
    """
    drawn = "all are drawn" if scene.every == 1 else f"one in {scene.every} is drawn ({scene.shown:,})"
    over = f" over {scene.image_name}" if scene.image is not None else ""
    blocks = {"streamlines": scene.streamlines, "density": scene.density, "image": scene.image or b""}
    blocks |= {f"values-{i}": each.numbers.astype("<f4").tobytes() for i, each in enumerate(scene.extras.values)}
    blocks["nodes"] = b"" if scene.extras.nodes is None else scene.extras.nodes.astype("<i4").tobytes()
    parts = {
        "title": escape(scene.title),
        "counts": escape(f"{scene.total:,} streamlines; {drawn}{over}"),
        "facts": json_text(_facts(scene)),
        "style": HERE.joinpath("page.css").read_text(encoding="utf-8"),
        "script": "".join(HERE.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS),
        "data": "\n".join(
            f'<script type="text/plain" id="{name}">{b64encode(block).decode()}</script>'
            for name, block in blocks.items()
        ),
        # no text within a script may look like its end
        "niivue": module_text().replace("</script", r"<\/script"),
    }
    return filled(HERE / "page.html", parts)


def _facts(scene: Scene) -> Json:
    """Return what the script of a page has to know of a scene, besides the blocks of numbers."""
    extras = scene.extras
    return {
        "radius": RADIUS_MM, "slab": SLAB_MM, "clip": CLIP, "brightest": scene.brightest,
        "hasImage": scene.image is not None, "shown": scene.shown, "total": scene.total,
        "values": [
            {"name": each.name, "ofPoints": each.of_points, "window": each.window} for each in extras.values
        ],
        "beginsWithValues": extras.begins_with_values,
        "groups": [
            {"name": group.name, "total": group.total, "places": group.places.tolist()} for group in extras.groups
        ],
        "shownGroups": list(extras.shown),
        "connectome": None if extras.matrix is None else _connectome(extras.matrix, extras.weighted),
        "ramp": (255 * matrix_colours()).astype(int).tolist(),
    }


def _connectome(matrix: Matrix, weighted: bool) -> Json:
    """Return what a page shows of a matrix."""
    (facts,) = connectomes([matrix], weighted=weighted, most_bytes=MATRIX_BYTES)
    return facts


def json_text(data: Json) -> str:
    """Return JSON that cannot end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def filled(template: Path, parts: Mapping[str, str]) -> bytes:
    """Return a page, UTF-8: a file with its parts, whose names stand between @@."""
    page = template.read_text(encoding="utf-8")
    pieces = page.split("@@")  # text and names of parts in turn
    text = "".join(parts[piece] if i % 2 else piece for i, piece in enumerate(pieces))
    return text.encode(errors="backslashreplace")  # bytes of a file name that are not UTF-8 are lone surrogates


def empty_widget() -> NiiVue:
    """Return an ipyniivue widget without image and streamlines; raise InputError if ipyniivue is not installed."""
    try:
        import ipyniivue
    except ImportError as error:
        raise InputError(NEEDED) from error
    return ipyniivue.NiiVue(height=480, is_slice_mm=True, mesh_thickness_on_2d=SLAB_MM)


def widget(make: Callable[[], Scene]) -> NiiVue:
    """Return a scene as an ipyniivue widget, for notebooks; it is only made if ipyniivue is installed.

    Raises
    ------
    InputError
        If ipyniivue is not installed.
    """
    viewer = empty_widget()
    import ipyniivue

    scene = make()
    image = [] if scene.image is None else [{"name": "image.nii.gz", "data": scene.image, "colorbar_visible": False}]
    density = {"name": "density.nii.gz", "data": scene.density, "colormap": "hot", "opacity": 0.0, "cal_min": 0.0}
    viewer.load_volumes([*image, density | {"cal_max": scene.brightest}])
    mesh = ipyniivue.Mesh(name="streamlines.tck", data=scene.streamlines)
    mesh.fiber_radius, mesh.fiber_color = RADIUS_MM, "Local"
    viewer.load_meshes([mesh])
    viewer.set_clip_plane(*CLIP)
    return viewer
