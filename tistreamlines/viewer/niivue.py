"""NiiVue, the viewer in the browser, from the package ipyniivue: as a module for pages, and as a widget."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ..errors import InputError
from .scene import Scene

if TYPE_CHECKING:
    from ipyniivue import NiiVue

NEEDED = "the viewer needs ipyniivue: pip install 'tistreamlines[view]'"
# the widget's script has NiiVue's own module in a string, percent-encoded, with which it writes pages
MODULE = re.compile(r'"([^"\\\s]{1000000,})"')
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


def widget(make: Callable[[], Scene]) -> NiiVue:
    """Return a scene as an ipyniivue widget, for notebooks; it is only made if ipyniivue is installed.

    Raises
    ------
    InputError
        If ipyniivue is not installed.
    """
    try:
        import ipyniivue
    except ImportError as error:
        raise InputError(NEEDED) from error
    scene, shown = make(), ipyniivue.NiiVue(height=480, is_slice_mm=True, mesh_thickness_on_2d=SLAB_MM)
    image = [] if scene.image is None else [{"name": "image.nii.gz", "data": scene.image, "colorbar_visible": False}]
    density = {"name": "density.nii.gz", "data": scene.density, "colormap": "hot", "opacity": 0.0, "cal_min": 0.0}
    shown.load_volumes([*image, density | {"cal_max": scene.brightest}])
    mesh = ipyniivue.Mesh(name="streamlines.tck", data=scene.streamlines)
    mesh.fiber_radius, mesh.fiber_color = RADIUS_MM, "Local"
    shown.load_meshes([mesh])
    shown.set_clip_plane(*CLIP)
    return shown
