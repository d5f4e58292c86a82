"""The files of a report: the page, a picture and numbers for MultiQC; they appear complete or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..io.drafts import completed
from ..io.sidecar import write_json
from .names import files_of
from .page import Pictures, Told, html
from .views import ReportScene, SlicePeaks, density_pictures, peaks_picture, streamline_pictures

GAP = 8  # pixels between the pictures of one file


def write_report(page: Path, told: Told, scene: ReportScene, peaks: SlicePeaks | str, *, force: bool) -> None:
    """Draw the pictures of a run, and write its report.

    Parameters
    ----------
    page : name of the page; the other files lie beside it.
    told, scene : what is known of the run, and what the pictures show.
    peaks : the directions in the axial slice of the scene, or why there are none.
    force : replace existing files.

    Raises
    ------
    OutputError
        If a file exists and ``force`` is false, or if it cannot be written.
    """
    known = isinstance(peaks, SlicePeaks)
    pictures = Pictures(
        streamline_pictures(scene), density_pictures(scene), peaks_picture(scene, peaks) if known else None,
        "" if known else peaks,
    )
    files = files_of(page)
    write_json(files["numbers"], numbers(told), force=force)
    with completed(files["picture"], force=force) as draft:
        _save(draft, np.concatenate([_row(pictures.streamlines), _row(pictures.density)]))
    with completed(files["page"], force=force) as draft:
        # bytes of a file name that are not UTF-8 are lone surrogates in Python
        draft.write_text(html(told, scene, pictures), encoding="utf-8", errors="backslashreplace")


def numbers(told: Told) -> Mapping[str, object]:
    """Return the numbers of a run, as a result has them, and those of its connectomes."""
    connectomes = [
        {"labels": str(matrix.labels), "nodes": len(matrix.nodes), "unassigned": matrix.unassigned}
        for matrix in told.connectomes
    ]
    return dict(told.record["result"]) | ({"connectomes": connectomes} if connectomes else {})


def _row(pictures: Sequence[Array]) -> npt.NDArray[np.uint8]:
    """Lay pictures beside each other, the lower ones in the middle."""
    height = max(map(len, pictures))
    parts = []
    for picture in pictures:
        above = (height - len(picture)) // 2
        parts.append(np.pad(picture, ((above + GAP, height - len(picture) - above), (GAP, 0), (0, 0))))
    return np.concatenate(parts, axis=1)


def _save(path: Path, picture: npt.NDArray[np.uint8]) -> None:
    from PIL import Image

    # a palette makes the file a third as large
    Image.fromarray(picture).quantize(256, Image.Quantize.FASTOCTREE).save(path, "PNG")
