"""A table of the values of maps along streamlines: a row for each of them, with or without a tractogram."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...aliases import Json
from ...devices.threads import thread_pool
from ...io import sidecar
from ...io.tabular import write_rows
from ...io.writer import completed
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch, Space
from ..growth.settings import Settings
from .content import ContentOptions, names_of
from .samples import Sampler, Values, load_sampled, unmet_maps

WAITING = 4  # batches that may wait to be sampled


@dataclass(frozen=True)
class SampleTableOptions:
    """The option that names the table, a part of :class:`tistreamlines.Parameters`."""

    sample_table: PathLike | None = option(
        None, OUTPUT, "Write the values of --sample to this table, .csv or .tsv: a line of names, then a row for each "
        "streamline. Without --output, no streamline is written.", unit="FILE", absent="not written",
        requires=("sample",), affects="run",
    )


@dataclass(frozen=True)
class TableOptions(SampleTableOptions, ContentOptions):
    """The name of the table, and the maps."""


class SampleTable:
    """Samples maps along streamlines, and writes the table; see :class:`.files.ProductFile`.

    The values are held until then, 16 bytes for each map and streamline.

    Parameters
    ----------
    options : name of the table, and the maps.
    space, step_mm : of the image that is tracked, and the step size; not needed.
    threads : how many threads sample; None for as many as help.
    """

    def __init__(self, options: TableOptions, space: Space, step_mm: float, threads: int | None = None) -> None:
        assert options.sample_table is not None
        self._path, notes = Path(options.sample_table), list[str]()
        self._maps = names_of(options.sample or ())  # type: ignore[arg-type]  # Parameters has made it a tuple
        note: Callable[[str], Any] = notes.append
        self._sampler = Sampler({name: load_sampled(one, note) for name, one in self._maps.items()}, threads)
        self._made: list[Future[dict[str, Values]]] = []
        self.paths = (self._path,)
        self.value: dict[str, Values] = {}
        self.told: Json = {}
        self._notes, self.doubts = notes, tuple(notes)

    def add(self, batch: Batch) -> None:
        """Sample along the streamlines of a batch, in another thread; wait if several batches are not sampled yet."""
        if len(self._made) > WAITING:
            self._made[-WAITING].result()
        self._made.append(thread_pool("sample table", 1).submit(self._sampler.per_streamline, batch))

    def collector(self, space: Space, settings: Settings) -> None:
        """Points are needed."""

    def write(self, *, force: bool) -> None:
        """Wait until all streamlines are sampled, and write the table."""
        parts = [self._sampler.per_streamline(Batch.concatenate([])), *(one.result() for one in self._made)]
        self.value = {name: np.concatenate([one[name] for one in parts]) for name in parts[0]}
        with completed(self._path, force=force) as draft, draft.open("w", encoding="ascii", newline="\n") as file:
            write_rows(file, self.value, "," if self._path.suffix.lower() == ".csv" else "\t")
        maps = {name: str(one) for name, one in self._maps.items()}
        self.doubts = (*self._notes, *unmet_maps(self._sampler, self._maps))
        self.told = {"path": str(self._path), "sha256": sidecar.sha256(self._path), "maps": maps}
