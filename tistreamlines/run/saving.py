"""What becomes of the streamlines of a whole run: they are counted, written to a tractogram, and made into products."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ..aliases import Array, Json
from ..errors import OutputError
from ..io import sidecar
from ..io.images import existing
from ..io.writer import completed
from ..io.writer_thread import WriterThread
from ..options.definitions import product_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.growth.statistics import Statistics
from ..tracking.products.points.content import Content, layout_of
from .counts import Counts
from .outputs import Outputs, check_outputs, reserved
from .pieces import StoredTrx
from .products import Products, gathered_of, record_path
from .record import header_fields, tractogram

if TYPE_CHECKING:
    from ..report.gathered import Gathered


@dataclass
class Receiver:
    """Receives the streamlines of a run, or those of all its parts, in the order of their seeds.

    Parameters
    ----------
    parameters : all options.
    space : grid of the image that was tracked.
    step_mm : step size, mm.
    products : what is made of the streamlines besides a tractogram.
    content : what the tractogram holds of them.
    statistics : of the seeds and of all streamlines that were grown from them, once these have come.

    Attributes
    ----------
    counts : of the streamlines so far.
    gathered : what a report shows of them, if one is asked for.
    force : whether existing files are replaced.
    """

    parameters: Parameters
    space: Space
    step_mm: float
    products: Products
    content: Content
    statistics: Statistics
    counts: Counts = field(default_factory=Counts)
    gathered: Gathered | None = field(init=False)

    def __post_init__(self) -> None:
        self.force = self.parameters.force
        self.gathered = gathered_of(self.parameters, self.space, self.step_mm)

    def count(self, batches: Iterable[Batch]) -> Generator[Batch, None, None]:
        """Take the streamlines of batches into account."""
        for batch in batches:
            self.counts.add(batch)
            self.products.add(batch)
            if self.gathered is not None and batch.has_points:
                self.gathered.add(batch)
            yield batch

    def summary(self) -> Json:
        """Return counts, lengths and ends of the streamlines so far."""
        return self.counts.summary(self.step_mm, self.statistics)

    def save(
        self, output: Path, batches: Iterable[Batch], record: Callable[[], Json],
        finished: Callable[[], object] = lambda: None, drafts: Path | None = None,
    ) -> None:
        """Write a tractogram and the products.

        Parameters
        ----------
        output : the tractogram.
        batches : all streamlines, which :meth:`count` has counted.
        record : returns the record of the run, once all streamlines have come.
        finished : is called when all is written, before the tractogram gets its name.
        drafts : folder in which the tractogram is written until it is complete.
        """
        writer = WriterThread(
            output, self.space, force=self.force, drafts=drafts, fields=lambda: header_fields(record(), self.space),
            content=partial(self.content.of, groups=self.products.groups), late=self.products.per_streamline,
            **self.content.layout(self.step_mm),
        )
        with writer:
            for batch in batches:
                writer.put(batch)
            writer.finish()
            self.products.write(force=self.force)
            finished()

    @property
    def doubts(self) -> list[str]:
        """Why what was written may be wrong."""
        return list(dict.fromkeys([*self.content.doubts, *self.products.doubts]))

    def write_record(self, output: Path | None, record: Json) -> Json:
        """Write the record beside the tractogram or the first product, and the counts; return what was written."""
        beside = record_path(output, self.products.paths)
        if beside is None:
            return record
        file = {} if output is None else {"tractogram": tractogram(output)}
        content = record | file | self.products.details
        sidecar.write_record(beside, content, force=self.force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, content["result"], force=self.force)
        return content


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
            with WriterThread(output, space, force=force, fields=fields, late=lambda: late, **layout) as writer:
                for batch in streamlines:
                    writer.put(batch)
        content = {**record, "tractogram": tractogram(output)}
        sidecar.write_record(sidecar.sidecar_path(output), content, force=force)
