"""The page about FODs: responses and their voxels, tissues, residuals, and the shapes of FODs in a slice."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..fit.fod_fit import FodFit
from ..fit.tissues import BASIS, RED_GREEN_BLUE
from ..io.drafts import completed
from ..io.picture import DIRECTIONS, VIEWS, direction_colours
from ..option import flag
from ..space.batch import Space
from ..space.harmonics import order_of, sampling_matrix
from ..viewer.matrix import ramp_of
from .charts import nice
from .content import HABITS, SERIES
from .markup import colour_stops, fill_template, notes, page_of, picture_of, section, table_of, three_views
from .scene import ImageScene
from .views import VOXEL_PIXELS, WIDEST, enlarge, repeat_pixels, to_bytes

WIDE, HIGH, ABOVE = 400, 200, 1.08  # of a chart of responses, in its own units, and its top over the greatest signal
COLOURS = ("#0f9488", "#d97706", "#8b5cf6", "#e11d48", "#2563eb", "#65a30d")  # of shells
ANGLES = 91  # of a curve
LARGE = 90.0  # percentile of FODs that fill their voxel
ROUND = 64  # directions of the plane in which amplitudes are shown
TISSUE_COLOURS = (("CSF", "#ff4545"), ("grey matter", "#45dd45"), ("white matter", "#6488ff"))
TITLES = {"wm": "white matter", "gm": "grey matter", "csf": "CSF"}
MUCH = 0.5  # of the 95th percentile of white matter, from which a voxel counts in the choice of slices


def write_fod_report(
    page: Path, record: Json, fit: FodFit, space: Space, background: npt.NDArray[np.uint8] | None, *, force: bool
) -> None:
    """Write the page about FODs, whose directions are along the scanner's axes.

    Parameters
    ----------
    page : Path
    record : dict
        Of the run.
    fit : FodFit
    space : Space
        Grid of the series.
    background : (x, y, z) uint8 or None
        The mean b0.
    force : bool
        Replace an existing file.

    Raises
    ------
    OutputError
        If the file exists and ``force`` is false, or if it cannot be written.
    """
    white = fit.coefficients["wm"][..., 0]
    much = white > MUCH * np.percentile(white[fit.mask], 95)
    scene = ImageScene(space, much & fit.mask, background)
    result = record["result"]
    tiles = {
        "model": record["parameters"]["model"], "voxels": f"{result['voxels']:,}",
        "without FODs": f"{result['failed']:,}", "shells": f"{len(fit.shells)}",
        "time": f"{result['seconds']['total']:.3g} s",
    }
    sections = (
        _responses(fit), *_maps(scene, fit), _glyphs(scene, fit), _run(record, fit), notes(record["notes"]),
    )
    text = page_of("FODs", record["versions"]["tistreamlines"], tiles.items(), record["warnings"], sections)
    with completed(page, force=force) as draft:
        draft.write_text(text, encoding="utf-8", errors="backslashreplace")


# ----------------------------------------------------------------------------------------------------------- responses
def _responses(fit: FodFit) -> str:
    charts = (_response(TITLES[name], rows, fit.shells) for name, rows in fit.responses.items())
    return section("Responses", "responses", charts="".join(charts))


def _response(name: str, rows: Array, shells: Sequence[float]) -> str:
    """Draw the signal of each shell by the angle to the fibre."""
    angles = np.linspace(0, np.pi / 2, ANGLES)
    vectors = np.stack([np.sin(angles), np.zeros(ANGLES), np.cos(angles)], axis=1)
    order = 2 * rows.shape[1] - 2
    degree = np.arange(0, order + 1, 2)
    signals = rows @ sampling_matrix(vectors, order, BASIS)[:, degree * (degree + 1) // 2].T
    top = ABOVE * max(float(signals.max()), 1e-12)
    lines = "".join(
        f'<polyline style="stroke:{COLOURS[k % len(COLOURS)]}" points="'
        + " ".join(f"{WIDE * i / (ANGLES - 1):.1f},{HIGH * (1 - y / top):.1f}" for i, y in enumerate(line)) + '"/>'
        for k, line in enumerate(signals.tolist())
    )
    width = nice(top / 4)
    levels = {mark: HIGH * (1 - mark / top) for mark in np.arange(width, 0.9 * top, width).tolist()}
    keys = (
        f'<span><i style="background:{COLOURS[k % len(COLOURS)]}"></i>b = {shell:.0f}</span>'
        for k, shell in enumerate(shells)
    )
    return fill_template(
        "response", name=name, wide=WIDE, high=HIGH, lines=lines, keys="".join(keys),
        grid="".join(f'<line x1="0" x2="{WIDE}" y1="{y:.1f}" y2="{y:.1f}"/>' for y in levels.values()),
        texts="".join(f'<text x="4" y="{y - 4:.1f}">{mark:g}</text>' for mark, y in levels.items()),
    )


# ------------------------------------------------------------------------------------------------------ maps in slices
def _maps(scene: ImageScene, fit: FodFit) -> Iterator[str]:
    """Write the sections of the voxels of responses, of tissues, of residuals and of the field."""
    keys = "".join(f'<span><i style="background:{colour}"></i>{name}</span>' for name, colour in TISSUE_COLOURS)
    if fit.selections:
        text = "The voxels from which the responses were estimated, of all slices."
        yield _slices("Voxels of the responses", text, scene, _coloured(scene, fit.selections, whole=True), keys)
    if len(fit.coefficients) > 1:
        text = "The share of each tissue, of its coefficient of degree 0 in the sum."
        yield _slices("Tissues", text, scene, _coloured(scene, fit.shares(), whole=False), keys)
    text = "Root of the mean squared difference between the signals and those of the fit."
    high = float(np.percentile(fit.residual[fit.mask], 99))
    yield _ramped("Residuals", text, "units of the signals", scene, fit.residual, (0.0, high))
    if fit.field is not None:
        low, high = np.percentile(fit.field[fit.mask], (0, 100))
        text = "The field by which the tissues were divided, so that their sum is the same everywhere."
        yield _ramped("Normalisation", text, "", scene, np.where(fit.mask, fit.field, 0), (float(low), float(high)))


def _slices(title: str, text: str, scene: ImageScene, pictures: Sequence[Array], keys: str) -> str:
    return section(title, "slices", text=text, views=three_views(scene, pictures, slices=True), keys=keys)


def _coloured(scene: ImageScene, of_tissues: Mapping[str, Array], *, whole: bool) -> list[Array]:
    """Draw maps of tissues, 0 to 1, in three views, (h, w, 3) uint8; ``whole`` shows the voxels of all slices."""
    pictures = []
    for view in VIEWS:
        size = scene.size(view)
        picture = np.repeat(enlarge(0.55 * scene.slice_of(scene.grey, view), size)[..., None], 3, axis=2)
        for tissue, (_, colour) in zip(RED_GREEN_BLUE, TISSUE_COLOURS, strict=True):
            if tissue not in of_tissues:
                continue
            volume = scene.frame.volume(np.asarray(of_tissues[tissue], np.float32))
            if whole:
                volume = np.broadcast_to(volume.max(axis=view.towards, keepdims=True), volume.shape)
            share = repeat_pixels(scene.slice_of(volume, view), size)[..., None]
            tone = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
            picture = picture * (1 - share) + share * tone
        pictures.append(to_bytes(picture))
    return pictures


def _ramped(
    title: str, text: str, unit: str, scene: ImageScene, values: Array, ends: tuple[float, float]
) -> str:
    """Write the section of a map that is drawn in colours from dark to light."""
    ramp, (low, high) = ramp_of(256), ends
    volume, pictures = scene.frame.volume(values), []
    for view in VIEWS:
        level = np.clip((scene.slice_of(volume, view) - low) / max(high - low, 1e-12), 0, 1)
        pictures.append(to_bytes(repeat_pixels(ramp[(255 * level).astype(np.uint8)], scene.size(view))))
    stops = colour_stops(ramp_of(9))
    keys = fill_template("scale", low=f"{low:.3g}", high=f"{high:.3g}", stops=stops, unit=unit)
    return _slices(title, text, scene, pictures, keys)


# ------------------------------------------------------------------------------------------------------ shapes of FODs
def _glyphs(scene: ImageScene, fit: FodFit) -> str:
    keys = "".join(f'<span><i style="background:{c}"></i>{name}</span>' for name, c in DIRECTIONS)
    image = picture_of(glyph_picture(scene, fit), "FODs in an axial slice")
    return section("FODs in a slice", "glyphs", level=f"{scene.level(VIEWS[0]):.0f}", image=image, keys=keys)


def glyph_picture(scene: ImageScene, fit: FodFit) -> npt.NDArray[np.uint8]:
    """Draw the amplitudes of FODs in the plane of the axial slice, (h, w, 3) uint8, over the background.

    A pixel is in the shape of its voxel if it is no farther from the centre than the amplitude in its direction says.
    """
    from PIL import Image

    view, frame = VIEWS[0], scene.frame
    cut = (scene.box[view.across], scene.box[view.up], scene.slices[view.towards])
    across, up = (part.stop - part.start for part in cut[:2])
    pixels = 2 * int(np.clip(WIDEST // max(across, up), *VOXEL_PIXELS))  # reduced to half in the end
    angles = np.arange(ROUND) * np.pi / ROUND
    in_plane = np.zeros((ROUND, 3))
    in_plane[:, view.across], in_plane[:, view.up] = np.cos(angles), np.sin(angles)
    directions = in_plane @ (scene.space.axes[:, list(frame.order)] * frame.signs).T
    coefficients = fit.coefficients["wm"]
    places = np.stack(np.meshgrid(*(np.arange(part.start, part.stop) for part in cut[:2]), cut[2], indexing="ij"), -1)
    functions = coefficients[tuple(frame.voxels(places.reshape(-1, 3)).T)]
    sampling = sampling_matrix(directions, order_of(coefficients.shape[-1]), BASIS).T
    amplitudes = (functions @ sampling).astype(np.float32).reshape(across, up, ROUND)
    shown = amplitudes.max(axis=-1)
    highest = float(np.percentile(shown[shown > 0], LARGE)) if (shown > 0).any() else 1.0
    middle = (np.arange(pixels) + 0.5) / pixels * 2 - 1  # of a voxel, -1 to 1
    x, y = middle[None, :], -middle[:, None]  # rows run down
    number = np.rint(np.arctan2(y, x) / np.pi * ROUND).astype(int) % ROUND
    inside = np.hypot(x, y) <= amplitudes[:, ::-1][..., number] / max(highest, 1e-12)
    inside = inside.transpose(1, 2, 0, 3).reshape(up * pixels, across * pixels)[..., None]
    tones = np.tile(direction_colours(np.abs(directions))[number], (up, across, 1))
    behind = enlarge(0.4 * scene.grey[cut].T[::-1], (across * pixels, up * pixels))[..., None]
    return np.asarray(Image.fromarray(to_bytes(np.where(inside, tones, behind))).reduce(2))


# -------------------------------------------------------------------------------------------------------------- the run
def _run(record: Json, fit: FodFit) -> str:
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(file['path'])}</td><td><code>{escape(file['sha256'])}</code></td></tr>"
        for name, file in record["inputs"].items()
    )
    seconds = record["result"]["seconds"]
    facts = record["chosen"] | {
        "b-values of the shells": ", ".join(f"{shell:.0f}" for shell in fit.shells),
        "seconds": ", ".join(f"{name} {value:.3g}" for name, value in seconds.items() if value),
    }
    return section(
        "What was run", "fitted", command=escape(command(record)), inputs="".join(rows),
        facts=table_of((name, str(value)) for name, value in facts.items()),
        written=escape(record["folder"] or "nothing: the FODs are kept in memory"),
    )


def command(record: Json) -> str:
    """Return the command of the command line with which the run can be repeated."""
    inputs = record["inputs"]
    words = ["tistreamlines", "fod", *(str(inputs[name]["path"]) for name in SERIES if name in inputs)]
    words += ["-o", record["folder"]] if record["folder"] else []
    for name, value in record["parameters"].items():
        if name not in HABITS and value is not None and value is not False:
            words += [flag(name)] if value is True else [flag(name), str(value)]
    return shlex.join(words)
