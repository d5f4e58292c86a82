"""The page: one HTML file, which loads nothing and runs only its own script.

Its text is in ``page.html``, in parts; a comment before each part has its name.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from html import escape
from io import BytesIO
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from ..aliases import Array, Json
from ..io.picture import DIRECTIONS, LETTERS, VIEWS
from ..kernels.stop_reasons import DROPPED, Stop
from ..tracking.products.connectome.matrix import Matrix
from . import content
from .charts import bins, connectomes, curves, facts, nice, ramp_of
from .scene import ReportScene

HERE = Path(__file__).parent
QUALITY = 82  # of pictures in JPEG
UNFOLDED = 4  # connectomes that are shown at once
_PARTS = re.split(r"^<!-- (\w+) -->\n", (HERE / "page.html").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
TEMPLATES = {name: Template(text.removesuffix("\n")) for name, text in zip(_PARTS[::2], _PARTS[1::2], strict=True)}


@dataclass(frozen=True, eq=False)
class RunFacts:
    """The known facts of a run.

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


def html(run: RunFacts, scene: ReportScene, pictures: Pictures) -> str:
    """Write a page about a run.

    Parameters
    ----------
    run : its counts and what it was made of.
    scene, pictures : what the pictures show, and the pictures.

    Returns
    -------
    str
        HTML in UTF-8, with a light and a dark theme, and one for print.
    """
    record, script = run.record, (HERE / "matrix.js").read_text(encoding="utf-8")
    matrices = connectomes(run.connectomes)
    name = content.title(record, run.output)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-{digest}'"
    sections = (
        _pictures(scene, pictures), _counts(run), _weights(run), _connectomes(matrices), _run(run),
        _notes(run.notes),
        _references(record), _options(record),
    )
    data = {"ramp": (255 * ramp_of(256)[20:]).astype(int).tolist(), "connectomes": matrices}
    tiles = (f"<div><dt>{k}</dt><dd>{escape(v)}</dd></div>" for k, v in content.headline(record).items())
    warnings = record.get("warnings") or ()
    return _fill_template(
        "page", policy=policy, name=escape(Path(name).name), style=(HERE / "page.css").read_text(encoding="utf-8"),
        version=escape(record["versions"]["tistreamlines"]),
        now=datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"), tiles="".join(tiles),
        warnings=_fill_template("warnings", items=_items(warnings)) if warnings else "",
        sections="\n".join(filter(None, sections)),
        scripts=_fill_template("scripts", data=_json(data), script=script) if matrices else "",
    )


def _fill_template(template: str, **parts: object) -> str:
    """Return a part of ``page.html`` with its variables, which are HTML."""
    return TEMPLATES[template].substitute(parts)


def _json(data: Json) -> str:
    """Return JSON that cannot end the element that it stands in."""
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    return text.replace("<", "\\u003c").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def _section(title: str, template: str, **parts: object) -> str:
    return _fill_template("section", title=escape(title), body=_fill_template(template, **parts))


def _items(texts: Iterable[str]) -> str:
    return "".join(f"<li>{escape(text)}</li>" for text in texts)


# ------------------------------------------------------------------------------------------------------------ pictures
def _pictures(scene: ReportScene, pictures: Pictures) -> str:
    usual = "the mean b0" if scene.background is not None else "the density, since there is no series at hand"
    shown, total = len(scene.sample), int(scene.streamlines)
    keys = "".join(f'<span><i style="background:{c}"></i>{name}</span>' for name, c in DIRECTIONS)
    lines = _section(
        "Streamlines", "streamlines", share=f"All {total:,}" if shown >= total else f"{shown:,} of {total:,}",
        behind=escape(scene.behind or usual), views=_views(scene, pictures.streamlines, slices=False), keys=keys,
    )
    density = _section(
        "Density", "density", views=_views(scene, pictures.density, slices=True), stops=_stops(ramp_of(9)),
        most=f"{int(scene.counts.max(initial=0)):,}",
    )
    return "\n".join(filter(None, [lines, density, _directions(scene, pictures, keys)]))


def _stops(colours: Array) -> str:
    """Return colours, (n, 3), 0 to 1, as the stops of a gradient."""
    return ", ".join(f"rgb({r},{g},{b})" for r, g, b in (255 * colours).astype(int).tolist())


def _views(scene: ReportScene, pictures: Sequence[Array], *, slices: bool) -> str:
    """Lay the three views beside each other, as high as each other."""
    out = []
    for view, picture in zip(VIEWS, pictures, strict=True):
        sides = zip(("left", "right", "low", "high"), LETTERS[view.across] + LETTERS[view.up], strict=True)
        out.append(_fill_template(
            "view", share=f"{picture.shape[1] / picture.shape[0]:.4f}", image=_image(picture, f"{view.name} view"),
            letters="".join(f'<b class="{side}">{letter}</b>' for side, letter in sides), name=view.name,
            level=f", {'xyz'[view.towards]} = {scene.level(view):.0f} mm" if slices else "",
        ))
    return "".join(out)


def _directions(scene: ReportScene, pictures: Pictures, keys: str) -> str:
    title = "Directions in a slice"
    if pictures.peaks is None:
        return _section(title, "plain", body=f"<p>{escape(pictures.without)}</p>") if pictures.without else ""
    image = _image(pictures.peaks, "directions in an axial slice")
    return _section(title, "directions", level=f"{scene.level(VIEWS[0]):.0f}", image=image, keys=keys)


def _image(picture: Array, name: str) -> str:
    from PIL import Image

    file = BytesIO()
    Image.fromarray(picture).save(file, "JPEG", quality=QUALITY, subsampling=0)
    data, (height, width) = base64.b64encode(file.getvalue()).decode(), picture.shape[:2]
    return _fill_template("image", name=name, width=width, height=height, data=data)


# -------------------------------------------------------------------------------------------------------------- numbers
def _counts(run: RunFacts) -> str:
    record, result = run.record, run.record["result"]
    counts, width = bins(run.histogram, record["step_mm"])
    most = max(counts.max(initial=0), 1)
    bars = (
        f'<i style="height:{100 * count / most:.2f}%" title="{k * width:g} to {(k + 1) * width:g} mm: {count:,}"></i>'
        for k, count in enumerate(counts.tolist())
    )
    far = len(counts) * width
    marks = np.arange(0, far * (1 + 1e-9), nice(far / 6))
    ticks = (f'<span style="left:{100 * mark / far:.2f}%">{mark:g}</span>' for mark in marks.tolist())
    histogram = {"bars": "".join(bars), "ticks": "".join(ticks), "width": f"{width:g}", "most": f"{most:,}"}
    if not content.is_tracked(record):
        return _section("Lengths", "histogram", **histogram)
    dropped, written = content.reasons(DROPPED, result["dropped"]), result["streamlines"]
    grown = written + sum(count for _, count in dropped)
    return _section(
        "Lengths and ends", "ends", histogram=_fill_template("histogram", **histogram),
        ends=_shares(content.reasons(Stop, result["written_stop_reasons"]), 2 * written),
        dropped=_shares(dropped, grown) if dropped else "<p>No streamline was dropped.</p>",
    )


def _shares(rows: Iterable[tuple[str, int]], total: int) -> str:
    """Write a table of counts, with the share of each in all."""
    shares = ((escape(text), count, count / max(total, 1)) for text, count in rows)
    out = (
        _fill_template("share", text=text, percent=f"{100 * share:.1f}", count=f"{count:,}", share=f"{share:.1%}")
        for text, count, share in shares
    )
    return f"<table><tbody>{''.join(out)}</tbody></table>"


def _weights(run: RunFacts) -> str:
    weights = run.products.get("sift2")
    if weights is None:
        return ""
    picture = _fill_template("curves", **curves(weights)) if weights.iterations else ""
    body = f"{picture}\n{_table(facts(weights).items())}"
    return _section("Weights of streamlines (SIFT2)", "plain", body=body)


def _connectomes(matrices: Sequence[Json]) -> str:
    """Write the sections of all connectomes; those after the first ones are folded."""
    sections = [_connectome(place, matrix) for place, matrix in enumerate(matrices)]
    folded = "\n".join(sections[UNFOLDED:])
    if folded:
        folded = f"<details><summary>Other connectomes: {len(sections) - UNFOLDED}</summary>\n{folded}</details>"
    return "\n".join((*sections[:UNFOLDED], folded))


def _connectome(place: int, matrix: Json) -> str:
    """Write what the script fills: a canvas, its controls and the text of the edge that is pointed at."""
    nodes = len(matrix["nodes"])
    out = f"{matrix['unassigned']:,} of {matrix['streamlines']:,} streamlines have an end without a node."
    if matrix["missing"]:
        out += f" The page has no room for {', '.join(matrix['missing'])}: see the files."
    choices = "".join(f'<option value="{k}">{escape(m["name"])}</option>' for k, m in enumerate(matrix["measures"]))
    canvas = _fill_template("matrix", place=place, choices=choices, nodes=nodes, stops=_stops(ramp_of(256)[20::29]))
    return _section(
        "Connectome", "connectome", nodes=nodes, labels=escape(matrix["labels"]), facts=escape(out),
        matrix=canvas if matrix["measures"] else "",
    )


# -------------------------------------------------------------------------------------------------------------- the run
def _run(run: RunFacts) -> str:
    record = run.record
    rows = (
        f"<tr><th>{escape(name)}</th><td>{escape(path)}</td><td><code>{escape(digest)}</code></td></tr>"
        for name, path, digest in content.inputs(record)
    )
    nothing = "nothing: the streamlines are kept in memory" if content.is_tracked(record) else "only this page"
    return _section(
        "What was run", "run", command=escape(content.command(record, run.output)),
        facts=_table(content.method(record).items()), inputs="".join(rows),
        written=escape(", ".join(content.outputs(record, run.output)) or nothing),
        options=_values(content.changed_options(record)) or "<p>None.</p>",
    )


def _table(rows: Iterable[tuple[str, str]]) -> str:
    out = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows)
    return f'<table class="stack"><tbody>{out}</tbody></table>' if out else ""


def _values(values: Mapping[str, object]) -> str:
    """Write a table of options."""
    return _table((name, _list(value, ", ")) for name, value in values.items())


def _list(value: object, separator: str) -> str:
    """Write a value, or several, of which each may be a pair."""
    return separator.join(_list(item, " ") for item in value) if isinstance(value, list | tuple) else str(value)


def _notes(notes: Sequence[str]) -> str:
    return _section("Notes", "plain", body=f"<ul>{_items(notes)}</ul>") if notes else ""


def _references(record: content.Record) -> str:
    items = _items(content.references(record))
    body = f"<p>Please cite what this run has used.</p><ol>{items}</ol>"
    return _section("References", "plain", body=body) if items else ""


def _options(record: content.Record) -> str:
    values = {name: value for name, value in record["parameters"].items() if value is not None}
    return f"<details><summary>All options of the run</summary>\n{_values(values)}</details>"
