"""Writing of a result that is there already, as the run would have written it."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..io import sidecar
from ..io.images import existing
from ..io.writer import completed
from ..io.writer_thread import WriterThread
from ..options.definitions import product_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.products.content import layout_of
from .header import header_fields
from .kept import Stored
from .outputs import check_outputs, reserved
from .record import tractogram


def save(
    streamlines: Iterable[Batch] | Path, output: Path, space: Space, parameters: Parameters, record: Mapping[str, Any],
    *, force: bool, late: Mapping[str, Any] | None = None,
) -> None:
    """Write the streamlines of a result to a tractogram, and its record beside it.

    Parameters
    ----------
    streamlines : in memory, or the tractogram in which they are.
    output : tractogram to write.
    space, parameters : grid of the image that was tracked, and options of the run.
    record : of the run, without what it says of a tractogram.
    force : whether existing files are replaced.
    late : values of each streamline in memory that a .trx holds besides, by name.

    Raises
    ------
    OutputError
        If the output cannot be written, or not from the file in which the streamlines are.
    InputError
        If that file is missing, or damaged.
    """
    given = record["inputs"]
    series = [given[name]["path"] for name in ("dwi", "bvals", "bvecs") if name in given]
    others = dict.fromkeys(("json_stats", "report", *product_options()))  # no other file is written
    chosen = parameters.changed(force=force, resume=False, groups=False, **others)
    with reserved(output, partial(check_outputs, output, chosen, series), {}):
        layout = layout_of(chosen, record["step_mm"]) | {"fields": lambda: header_fields(record, space)}
        layout |= {} if late is None or isinstance(streamlines, Path) else {"late": lambda: late}
        _write(streamlines, output, space, layout, force=force)
        told = {**record, "tractogram": tractogram(output)}
        sidecar.write_record(sidecar.sidecar_path(output), told, force=force)


def _write(
    source: Iterable[Batch] | Path, output: Path, space: Space, layout: Mapping[str, Any], *, force: bool
) -> None:
    """Write the tractogram: from memory, from a .trx file, which has all that other formats have, or as a copy."""
    if isinstance(source, Path) and source.suffix.lower() == output.suffix.lower():
        if output.suffix.lower() == ".trx":
            Stored(source).check()
        with completed(output, force=force) as draft:
            shutil.copyfile(existing(source), draft)
        return
    if isinstance(source, Path) and source.suffix.lower() != ".trx":
        raise OutputError(
            f"{output}: {source.name} lacks what a {output.suffix} of the run has, or has it rounded: track to a "
            ".trx file or to memory, or save what to_sft() returns with DIPY"
        )
    batches = Stored(source).batches() if isinstance(source, Path) else source
    with WriterThread(output, space, force=force, **layout) as writer:
        for batch in batches:
            writer.put(batch)
