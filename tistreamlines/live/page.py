"""The page of live tracking: NiiVue, the image, and what can be changed."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable
from html import escape
from pathlib import Path

import numpy as np

from ..aliases import Json
from ..option import ImageLike
from ..options.definitions import options
from ..run.result import TrackResult
from ..tracking.registry import METHODS
from ..viewer.niivue import filled, module_text
from ..viewer.scene import nifti_of
from .tracker import Live

NSEEDS, RADIUS_MM = 1000, 3.0
SLIDERS = {  # option -> least, greatest and distance of values, and the unit
    "max_angle": (5, 90, 1, "°"), "cutoff": (0.01, 0.5, 0.01, ""), "stop_threshold": (0.01, 0.6, 0.01, ""),
    "fa_threshold": (0.01, 0.6, 0.01, ""), "step_size": (0.1, 2, 0.05, "mm"), "min_length": (0, 100, 1, "mm"),
    "max_length": (10, 400, 5, "mm"),
}
SCRIPTS = ("planes.js", "painter.js", "meshes.js", "regions.js")
ALWAYS = ("max_angle", "step_size", "min_length", "max_length")  # sliders of all getters


def page_of(live: Live, image: ImageLike | None = None, regions: Iterable[str] = ()) -> bytes:
    """Return the page of live tracking, UTF-8; the series is read and fitted first.

    Parameters
    ----------
    live : Live
        Tracks.
    image : str, Path, nibabel image or ndarray, optional
        Lies under the streamlines; by default the mean b0.
    regions : iterable of str
        Names of the regions that the server knows.

    Raises
    ------
    InputError, ParameterError
        If an input or an option is wrong, or if NiiVue is not installed.
    """
    module = module_text()
    shape, ras = np.asarray(live.space.shape), live.space.to_ras
    centre = ras((shape[None] - 1) / 2.0)[0]
    first = live.track(seed_sphere=[_text([*centre, RADIUS_MM])], nseeds=1)
    values = _values(first)
    name, space, picture = live.picture(image)
    facts = {
        "image": name, "centre": [round(float(x), 2) for x in centre], "radius": RADIUS_MM, "nseeds": NSEEDS,
        "sliders": {name: row for name, row in SLIDERS.items() if name in ALWAYS or values[name] is not None},
        "values": values, "getters": _getters(first), "tissues": first.parameters.act is not None,
        "regions": [*regions],
        "help": {name: options()[name].help for name in (*SLIDERS, "dg", "nseeds")},
    }
    parts = {
        "title": escape(name), "facts": json.dumps(facts).replace("<", r"\u003c"),
        "image": b64encode(nifti_of(np.asarray(picture), space)).decode(),
        "scripts": "".join(Path(__file__).with_name(name).read_text(encoding="utf-8") for name in SCRIPTS),
        "niivue": module.replace("</script", r"<\/script"),
    }
    return filled(Path(__file__).with_name("page.html"), parts)


def _values(result: TrackResult) -> Json:
    """Return the values of the options that the page can change."""
    parameters = result.record["parameters"]
    values = {name: parameters.get(name) for name in (*SLIDERS, "dg", "stopping")}
    return values | {"step_size": result.record["step_mm"]}


def _getters(result: TrackResult) -> list[str]:
    """Return the direction getters that can follow what this run follows, its own first."""
    source, getter = result.parameters.source, result.parameters.dg
    return [getter, *(name for name, row in METHODS.items() if name != getter and source in row.follows)]


def _text(sphere: list[float]) -> str:
    return ",".join(f"{number:.6g}" for number in sphere)
