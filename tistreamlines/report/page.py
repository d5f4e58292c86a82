"""The page about a run of tracking, or about a tractogram."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from ..aliases import Array, Json
from ..io.picture import DIRECTIONS, VIEWS
from ..kernels.stop_reasons import DROPPED, Stop
from ..tracking.products.connectome.matrix import Matrix
from ..viewer.matrix import SCRIPT, connectomes, matrix_colours, ramp_of
from ..viewer.niivue import json_text
from . import content
from .charts import bins, curves, facts, nice
from .markup import (
    HERE,
    bullets,
    colour_stops,
    fill_template,
    notes,
    page_of,
    picture_of,
    section,
    table_of,
    three_views,
)
from .scene import ReportScene

UNFOLDED = 4  # connectomes that are shown at once


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
    record = run.record
    script = "".join(file.read_text(encoding="utf-8") for file in (SCRIPT, HERE / "matrices.js"))
    matrices = connectomes(run.connectomes, weighted=record["parameters"].get("weights") is not None)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    sections = (
        _pictures(scene, pictures), _counts(run), _weights(run), _connectomes(matrices), _run(run), notes(run.notes),
        _references(record), _options(record),
    )
    data = {"ramp": (255 * matrix_colours()).astype(int).tolist(), "connectomes": matrices}
    return page_of(
        content.title(record, run.output), record["versions"]["tistreamlines"], content.headline(record).items(),
        record.get("warnings") or (), sections,
        fill_template("scripts", data=json_text(data), script=script) if matrices else "", f"'sha256-{digest}'",
    )


# ------------------------------------------------------------------------------------------------------------ pictures
def _pictures(scene: ReportScene, pictures: Pictures) -> str:
    usual = "the mean b0" if scene.background is not None else "the density, since there is no series at hand"
    shown, total = len(scene.sample), int(scene.streamlines)
    keys = "".join(f'<span><i style="background:{c}"></i>{name}</span>' for name, c in DIRECTIONS)
    lines = section(
        "Streamlines", "streamlines", share=f"All {total:,}" if shown >= total else f"{shown:,} of {total:,}",
        behind=escape(scene.behind or usual), views=three_views(scene, pictures.streamlines, slices=False), keys=keys,
    )
    density = section(
        "Density", "density", views=three_views(scene, pictures.density, slices=True), stops=colour_stops(ramp_of(9)),
        most=f"{int(scene.counts.max(initial=0)):,}",
    )
    return "\n".join(filter(None, [lines, density, _directions(scene, pictures, keys)]))


def _directions(scene: ReportScene, pictures: Pictures, keys: str) -> str:
    title = "Directions in a slice"
    if pictures.peaks is None:
        return section(title, "plain", body=f"<p>{escape(pictures.without)}</p>") if pictures.without else ""
    image = picture_of(pictures.peaks, "directions in an axial slice")
    return section(title, "directions", level=f"{scene.level(VIEWS[0]):.0f}", image=image, keys=keys)


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
        return section("Lengths", "histogram", **histogram)
    dropped, written = content.reasons(DROPPED, result["dropped"]), result["streamlines"]
    grown = written + sum(count for _, count in dropped)
    return section(
        "Lengths and ends", "ends", histogram=fill_template("histogram", **histogram),
        ends=_shares(content.reasons(Stop, result["written_stop_reasons"]), 2 * written),
        dropped=_shares(dropped, grown) if dropped else "<p>No streamline was dropped.</p>",
    )


def _shares(rows: Iterable[tuple[str, int]], total: int) -> str:
    """Write a table of counts, with the share of each in all."""
    shares = ((escape(text), count, count / max(total, 1)) for text, count in rows)
    out = (
        fill_template("share", text=text, percent=f"{100 * share:.1f}", count=f"{count:,}", share=f"{share:.1%}")
        for text, count, share in shares
    )
    return f"<table><tbody>{''.join(out)}</tbody></table>"


def _weights(run: RunFacts) -> str:
    weights = run.products.get("sift2")
    if weights is None:
        return ""
    picture = fill_template("curves", **curves(weights)) if weights.iterations else ""
    body = f"{picture}\n{table_of(facts(weights).items())}"
    return section("Weights of streamlines (SIFT2)", "plain", body=body)


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
    stops = colour_stops(matrix_colours()[::29])
    canvas = fill_template("matrix", place=place, choices=choices, nodes=nodes, stops=stops)
    return section(
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
    return section(
        "What was run", "run", command=escape(content.command(record, run.output)),
        facts=table_of(content.method(record).items()), inputs="".join(rows),
        written=escape(", ".join(content.outputs(record, run.output)) or nothing),
        options=_values(content.changed_options(record)) or "<p>None.</p>",
    )


def _values(values: Mapping[str, object]) -> str:
    """Write a table of options."""
    return table_of((name, _list(value, ", ")) for name, value in values.items())


def _list(value: object, separator: str) -> str:
    """Write a value, or several, of which each may be a pair."""
    return separator.join(_list(item, " ") for item in value) if isinstance(value, list | tuple) else str(value)


def _references(record: content.Record) -> str:
    items = bullets(content.references(record))
    body = f"<p>Please cite what this run has used.</p><ol>{items}</ol>"
    return section("References", "plain", body=body) if items else ""


def _options(record: content.Record) -> str:
    values = {name: value for name, value in record["parameters"].items() if value is not None}
    return f"<details><summary>All options of the run</summary>\n{_values(values)}</details>"
