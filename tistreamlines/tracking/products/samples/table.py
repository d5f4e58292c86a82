"""A table of the values of maps along streamlines: a row for each of them, with or without a tractogram."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ....io import sidecar
from ....io.drafts import completed
from ....io.tables import write_rows
from ....option import OUTPUT, PathLike, option, values_of
from ....space.batch import Batch, Space
from ..batch_work import Backlog
from ..files import ProductFile
from ..points.content import ContentOptions
from .sampler import Sampler, Values

WAITING = 4  # batches that may wait to be sampled


@dataclass(frozen=True, repr=False, eq=False)
class SampleTableOptions:
    """The option that names the table, a part of :class:`tistreamlines.Parameters`."""

    sample_table: PathLike | None = option(
        None, OUTPUT, "Write the values of --sample to this table, .csv or .tsv: a line of names, then a row for each "
        "streamline. Without --output, no streamline is written.", unit="FILE", absent="not written",
        requires=("sample",), affects="run",
    )


@dataclass(frozen=True, repr=False, eq=False)
class TableOptions(SampleTableOptions, ContentOptions):
    """The name of the table, and the maps."""


class SampleTable(ProductFile):
    """Samples maps along streamlines, and writes the table; see :class:`..files.ProductFile`.

    The values are held until then, 16 bytes for each map and streamline.

    Parameters
    ----------
    options : name of the table, and the maps.
    space, step_mm : of the image that is tracked, and the step size; not needed.
    threads : how many threads sample; None for as many as help.
    """

    def __init__(self, options: TableOptions, space: Space, step_mm: float, threads: int | None = None) -> None:
        assert options.sample_table is not None
        super().__init__(Path(options.sample_table))
        self._notes: list[str] = []
        self._sampler = Sampler.of(values_of(options.sample), threads, self._notes.append)
        self._parts: list[dict[str, Values]] = []
        self._backlog = Backlog[dict[str, Values]]("sample table", 1, WAITING, self._parts.append)
        self.value: dict[str, Values] = {}
        self.doubts = tuple(self._notes)

    def add(self, batch: Batch) -> None:
        """Sample along the streamlines of a batch, in another thread; wait if several batches are not sampled yet."""
        self._backlog.submit(self._sampler.per_streamline, batch)

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are sampled, and write the table."""
        self._backlog.wait()
        parts, (path,) = [self._sampler.per_streamline(Batch.concatenate([])), *self._parts], self.paths
        self.value = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        with completed(path, force=force) as draft, draft.open("w", encoding="ascii", newline="\n") as file:
            write_rows(file, self.value, "," if path.suffix.lower() == ".csv" else "\t")
        self.doubts = (*self._notes, *self._sampler.doubts)
        self.details = sidecar.file_record(path) | {"maps": self._sampler.details}
