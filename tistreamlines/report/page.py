"""The page: one HTML file, which loads nothing and runs only its own script."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..aliases import Array, Json
from ..io.picture import DIRECTIONS, LETTERS, VIEWS
from . import content
from .charts import bins, connectomes, curves, facts, nice, ramp_of
from .scene import ReportScene

if TYPE_CHECKING:
    from ..tracking.products.connectome.matrix import Matrix

HERE = Path(__file__).parent
QUALITY = 82  # of pictures in JPEG
UNFOLDED = 4  # connectomes that are shown at once


@dataclass(frozen=True, eq=False)
class Told:
    """What is known of a run.

    Parameters
    ----------
    record : its record; of a tractogram that is there, see ``run/reporting.py``.
    output : its tractogram, if it has written one.
    histogram : (m,), number of streamlines with 0, 1, ... m - 1 points.
    notes : choices that were made for the user.
    products : what was made of the streamlines besides, by the name of the product.
    """

    record: content.Record
    output: str | None
    histogram: Array
    notes: Sequence[str] = ()
    products: Mapping[str, Any] = field(default_factory=dict)

    @property
    def connectomes(self) -> Sequence[Matrix]:
        """The matrices of its connectomes."""
        return self.products.get("connectome") or ()


@dataclass(frozen=True, eq=False)
class Pictures:
    """The pictures of a run, (h, w, 3) uint8: three views of streamlines and of density, and a slice with directions.

    ``without`` says why there are no directions; without a reason, the page does not speak of them.
    """

    streamlines: Sequence[Array]
    density: Sequence[Array]
    peaks: Array | None
    without: str = ""


def html(told: Told, scene: ReportScene, pictures: Pictures) -> str:
    """Write a page about a run.

    Parameters
    ----------
    told : its counts and what it was made of.
    scene, pictures : what the pictures show, and the pictures.

    Returns
    -------
    str
        HTML in UTF-8, with a light and a dark theme, and one for print.
    """
    record, script = told.record, (HERE / "matrix.js").read_text(encoding="utf-8")
    matrices = connectomes(told.connectomes)
    name = content.title(record, told.output)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    sections = (
        _pictures(scene, pictures), _counts(told), _weights(told), _connectomes(matrices), _run(told),
        _notes(told.notes),
        _references(record), _options(record),
    )
    data = {"ramp": (255 * ramp_of(256)[20:]).astype(int).tolist(), "connectomes": matrices}
    scripts = f'<script type="application/json" id="connectomes">{_json(data)}</script>\n<script>{script}</script>'
    now = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<title>{escape(Path(name).name)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{(HERE / 'page.css').read_text(encoding='utf-8')}</style>\n</head>\n<body>\n<main>\n"
        f"<header><h1>{escape(Path(name).name)}</h1><p>tistreamlines {escape(record['versions']['tistreamlines'])}, "
        f"{now}</p></header>\n{_tiles(record)}{_warnings(record)}" + "\n".join(filter(None, sections))
        + f"\n{scripts if matrices else ''}\n</main>\n</body>\n</html>\n"
    )


def _json(data: Json) -> str:
    """Return JSON that cannot end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}\n</section>"


def _tiles(record: content.Record) -> str:
    tiles = "".join(f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in content.headline(record).items())
    return f'<dl class="tiles">{tiles}</dl>\n'


def _warnings(record: content.Record) -> str:
    texts = record.get("warnings") or ()
    return f'<div class="warnings" role="note"><h2>Warnings</h2><ul>{_items(texts)}</ul></div>\n' if texts else ""


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


# ------------------------------------------------------------------------------------------------------------ pictures
def _pictures(scene: ReportScene, pictures: Pictures) -> str:
    usual = "the mean b0" if scene.background is not None else "the density, since there is no series at hand"
    behind = escape(scene.behind or usual)
    shown, total = len(scene.sample), int(scene.streamlines)
    share = f"All {total:,}" if shown >= total else f"{shown:,} of {total:,}"
    keys = "".join(f'<span><i style="background:{c}"></i>{name}</span>' for name, c in DIRECTIONS)
    lines = _section(
        "Streamlines",
        f"<p>{share} streamlines, coloured by direction and projected on a slice of {behind}.</p>\n"
        f'{_views(scene, pictures.streamlines, slices=False)}<div class="key">{keys}</div>',
    )
    most = int(scene.counts.max(initial=0))
    stops = ", ".join(f"rgb({r},{g},{b})" for r, g, b in (255 * ramp_of(9)).astype(int).tolist())
    scale = (
        f'<div class="key"><span class="scale">0 <span class="ramp" style="background:linear-gradient(90deg,{stops})">'
        f"</span> {most:,}</span><span>streamlines in a voxel (logarithmic)</span></div>"
    )
    density = _section(
        "Density", "<p>How many streamlines pass through each voxel of the slice of each axis of which they pass most "
        f"voxels.</p>\n{_views(scene, pictures.density, slices=True)}{scale}",
    )
    return "\n".join(filter(None, [lines, density, _directions(scene, pictures, keys)]))


def _views(scene: ReportScene, pictures: Sequence[Array], *, slices: bool) -> str:
    """Lay the three views beside each other, as high as each other."""
    out = []
    for view, picture in zip(VIEWS, pictures, strict=True):
        sides = zip(("left", "right", "low", "high"), LETTERS[view.across] + LETTERS[view.up], strict=True)
        letters = "".join(f'<b class="{side}">{letter}</b>' for side, letter in sides)
        level = f", {'xyz'[view.towards]} = {scene.level(view):.0f} mm" if slices else ""
        share = picture.shape[1] / picture.shape[0]
        out.append(
            f'<figure style="flex:{share:.4f} 1 0"><div class="picture">{_image(picture, f"{view.name} view")}{letters}'
            f"</div><figcaption>{view.name}{level}</figcaption></figure>"
        )
    return f'<div class="views">{"".join(out)}</div>\n'


def _directions(scene: ReportScene, pictures: Pictures, keys: str) -> str:
    if pictures.peaks is None:
        return _section("Directions in a slice", f"<p>{escape(pictures.without)}</p>") if pictures.without else ""
    text = (
        "The directions of fibres at the centre of each voxel, where streamlines would start, in the axial slice z = "
        f"{scene.level(VIEWS[0]):.0f} mm. The line of the greatest peak of a voxel is the longest and the "
        "brightest. Where fibres bend, lines must follow the bend from voxel to voxel: if they lie across it, an axis "
        "of the gradients is probably flipped. Click to enlarge."
    )
    return _section(
        "Directions in a slice",
        f'<p>{text}</p>\n<div class="zoom"><label><input type="checkbox" aria-label="Enlarge the picture">'
        f'{_image(pictures.peaks, "directions in an axial slice")}</label></div><div class="key">{keys}</div>',
    )


def _image(picture: Array, name: str) -> str:
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=QUALITY, subsampling=0)
    data, (height, width) = base64.b64encode(file.getvalue()).decode(), picture.shape[:2]
    return f'<img alt="{name}" width="{width}" height="{height}" src="data:image/jpeg;base64,{data}">'


# -------------------------------------------------------------------------------------------------------------- numbers
def _counts(told: Told) -> str:
    record, result = told.record, told.record["result"]
    counts, width = bins(told.histogram, record["step_mm"])
    most = max(counts.max(initial=0), 1)
    bars = "".join(
        f'<i style="height:{100 * count / most:.2f}%" title="{k * width:g} to {(k + 1) * width:g} mm: {count:,}"></i>'
        for k, count in enumerate(counts.tolist())
    )
    far = len(counts) * width
    marks = np.arange(0, far * (1 + 1e-9), nice(far / 6))
    ticks = "".join(f'<span style="left:{100 * one / far:.2f}%">{one:g}</span>' for one in marks.tolist())
    histogram = (
        f'<div class="histogram" role="img" aria-label="Histogram of lengths"><div class="bars">{bars}</div>'
        f'<div class="ticks">{ticks}</div><p class="axis">length (mm); {width:g} mm a bar, {most:,} streamlines in the '
        "highest</p></div>"
    )
    if not content.is_tracked(record):
        return _section("Lengths", histogram)
    dropped = content.dropped(record)
    none = "<p>No streamline was dropped.</p>"
    return _section(
        "Lengths and ends",
        f'<div class="two"><div>{histogram}</div><div>'
        f"<h3>Why streamlines ended</h3>{_shares(content.ends(record), 2 * result['streamlines'])}"
        f"<h3>Why streamlines were dropped</h3>"
        f"{_shares(dropped, result['streamlines'] + sum(n for _, n in dropped)) if dropped else none}</div></div>",
    )


def _shares(rows: Iterable[tuple[str, int]], total: int) -> str:
    """Write a table of counts, with the share of each in all."""
    out = "".join(
        f'<tr><td>{escape(text)}<span class="share" style="width:{100 * count / max(total, 1):.1f}%"></span></td>'
        f'<td class="number">{count:,}</td><td class="number">{count / max(total, 1):.1%}</td></tr>'
        for text, count in rows
    )
    return f"<table><tbody>{out}</tbody></table>"


def _weights(told: Told) -> str:
    weights = told.products.get("sift2")
    if weights is None:
        return ""
    picture = curves(weights) if weights.iterations else ""
    return _section("Weights of streamlines (SIFT2)", f"{picture}\n{_table(facts(weights).items())}")


def _connectomes(matrices: Sequence[Json]) -> str:
    """Write the sections of all connectomes; those after the first ones are folded."""
    sections = [_connectome(place, matrix) for place, matrix in enumerate(matrices)]
    folded = "\n".join(sections[UNFOLDED:])
    if folded:
        folded = f"<details><summary>Other connectomes: {len(sections) - UNFOLDED}</summary>\n{folded}</details>"
    return "\n".join((*sections[:UNFOLDED], folded))


def _connectome(place: int, matrix: Json) -> str:
    """Write what the script fills: a canvas, its controls and the text of the edge that is pointed at."""
    n, text = len(matrix["nodes"]), matrix["labels"]
    out = f"{matrix['unassigned']:,} of {matrix['streamlines']:,} streamlines have an end without a node."
    if matrix["missing"]:
        out += f" The page has no room for {', '.join(matrix['missing'])}: see the files."
    choices = "".join(f'<option value="{k}">{escape(m["name"])}</option>' for k, m in enumerate(matrix["measures"]))
    stops = ", ".join(f"rgb({r},{g},{b})" for r, g, b in (255 * ramp_of(256)[20::29]).astype(int).tolist())
    body = f"<p>{n} nodes of {escape(text)}. {escape(out)}</p>"
    if matrix["measures"]:
        body += (
            f'<div class="matrix" id="connectome-{place}"><div><div class="controls">'
            f'<select aria-label="Measure">{choices}</select><button class="in" aria-label="Zoom in">+</button>'
            '<button class="out" aria-label="Zoom out">−</button><button class="all">Whole matrix</button></div>'
            f'<canvas tabindex="0" role="img" aria-label="Connectome, {n} by {n}"></canvas>'
            '<div class="key"><span class="scale"><span class="least"></span> <span class="ramp" '
            f'style="background:linear-gradient(90deg,{stops})"></span> <span class="most"></span></span>'
            "<span>logarithmic; empty where 0</span></div></div>"
            '<div class="told" aria-live="polite"><p>Point at a cell, or touch it, for its nodes, its value and the '
            'standard error of it.</p><p class="quiet">The wheel, a pinch or + and − zoom; dragging moves. Values '
            "here are rounded to four digits.</p></div></div>"
        )
    return _section("Connectome", body)


# -------------------------------------------------------------------------------------------------------------- the run
def _run(told: Told) -> str:
    record = told.record
    facts = _table(content.method(record).items())
    rows = "".join(
        f"<tr><th>{escape(name)}</th><td>{escape(path)}</td><td><code>{escape(digest)}</code></td></tr>"
        for name, path, digest in content.inputs(record)
    )
    head = "<thead><tr><th>input</th><th>file</th><th>SHA-256</th></tr></thead>"
    nothing = "nothing: the streamlines are kept in memory" if content.is_tracked(record) else "nothing but this page"
    written = ", ".join(content.outputs(record, told.output)) or nothing
    return _section(
        "What was run",
        f"<pre>{escape(content.command(record, told.output))}</pre>\n{facts}\n<h3>Inputs</h3>\n"
        f'<div class="scroll"><table class="stack">{head}<tbody>{rows}</tbody></table></div>\n'
        f"<h3>Written</h3><p>{escape(written)}</p>\n"
        f"<h3>Options that are not the defaults</h3>\n{_values(content.differing(record)) or '<p>None.</p>'}",
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    out = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'<table class="stack"><tbody>{out}</tbody></table>' if out else ""


def _values(values: Mapping[str, object]) -> str:
    """Write a table of options."""
    return _table((name, _listed(value, ", ")) for name, value in values.items())


def _listed(value: object, separator: str) -> str:
    """Write a value, or several, of which each may be a pair."""
    return separator.join(_listed(item, " ") for item in value) if isinstance(value, list | tuple) else str(value)


def _notes(notes: Sequence[str]) -> str:
    return _section("Notes", f"<ul>{_items(notes)}</ul>") if notes else ""


def _references(record: content.Record) -> str:
    items = _items(content.references(record))
    return _section("References", f"<p>Please cite what this run has used.</p><ol>{items}</ol>") if items else ""


def _options(record: content.Record) -> str:
    values = {name: value for name, value in record["parameters"].items() if value is not None}
    return f"<details><summary>All options of the run</summary>\n{_values(values)}</details>"
