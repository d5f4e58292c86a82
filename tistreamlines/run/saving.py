"""Writing of a result that is there already, as the run would have written it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from ..aliases import Array, Json
from ..errors import OutputError
from ..io import sidecar
from ..io.drafts import completed
from ..io.images import existing
from ..io.writer import WriterThread
from ..options.definitions import product_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.products.points.content import layout_of
from .outputs import Outputs, check_outputs, reserved
from .pieces import StoredTrx
from .record import header_fields, tractogram


def write(
    writer: WriterThread, batches: Iterable[Batch], takers: Iterable[Callable[[Batch], object]] = (),
    written: Callable[[], object] = lambda: None,
) -> None:
    """Write batches, each of which the takers receive, too.

    ``written`` is called when the tractogram is complete, before it gets its name.
    """
    with writer:
        for batch in batches:
            for take in takers:
                take(batch)
            writer.put(batch)
        writer.finish()
        written()


def save(
    streamlines: Iterable[Batch] | Path, output: Path, space: Space, parameters: Parameters, record: Json, *,
    force: bool, late: dict[str, Array],
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
    files = record["inputs"]
    series = [files[name]["path"] for name in ("dwi", "bvals", "bvecs") if name in files]
    others = dict.fromkeys(("json_stats", "report", *product_options()))  # no other file is written
    chosen = parameters.changed(force=force, resume=False, groups=False, **others)
    with reserved(Outputs(output), partial(check_outputs, output, chosen, series)):
        if isinstance(streamlines, Path) and streamlines.suffix.lower() == output.suffix.lower():
            if output.suffix.lower() == ".trx":
                StoredTrx(streamlines).check()
            with completed(output, force=force) as draft:
                shutil.copyfile(existing(streamlines), draft)
        else:
            if isinstance(streamlines, Path):
                if streamlines.suffix.lower() != ".trx":
                    raise OutputError(
                        f"{output}: {streamlines.name} lacks what a {output.suffix} of the run has, or has it rounded: "
                        "track to a .trx file or to memory, or save what to_sft() returns with DIPY"
                    )
                streamlines, late = StoredTrx(streamlines).batches(), {}  # a .trx has all that other formats have
            layout = layout_of(chosen, record["step_mm"])
            fields = partial(header_fields, record, space)
            writer = WriterThread(output, space, force=force, fields=fields, late=lambda: late, **layout)
            write(writer, streamlines)
        content = {**record, "tractogram": tractogram(output)}
        sidecar.write_record(sidecar.sidecar_path(output), content, force=force)
