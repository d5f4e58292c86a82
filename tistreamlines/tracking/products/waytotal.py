"""The number of streamlines in a file, as probtrackx2 writes its waytotal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...io import sidecar
from ...io.drafts import completed
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch, Space
from ..growth.settings import Settings
from .collector import Collector
from .files import ProductFile

SUFFIXES = (".txt", "")  # FSL's file has none


@dataclass(frozen=True, repr=False, eq=False)
class WaytotalOptions:
    """The option that names the file, a part of :class:`tistreamlines.Parameters`."""

    waytotal: PathLike | None = option(
        None, OUTPUT, "Write the number of streamlines, all that are selected, to a file, as probtrackx2's waytotal. "
        "Without --output, no streamline is written.", unit="FILE", absent="not written", affects="run",
    )


class Waytotal(ProductFile):
    """Counts streamlines, and writes their number; see :class:`.files.ProductFile`.

    Parameters
    ----------
    options : its options.
    space, step_mm, threads : of the image that is tracked, the step size and the threads; not needed.
    """

    needs_points = False

    def __init__(self, options: WaytotalOptions, space: Space, step_mm: float, threads: int | None = None) -> None:
        assert options.waytotal is not None
        super().__init__(Path(options.waytotal))
        self.value: int = 0

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch."""
        self.value += len(batch)

    def collector(self, space: Space, settings: Settings) -> Collector:
        """Return a collector that does nothing, so that no points come back."""
        return Collector()

    def write(self, *, force: bool) -> None:
        """Write the number in a line."""
        (path,) = self.paths
        with completed(path, force=force) as draft:
            draft.write_text(f"{self.value}\n", encoding="ascii", newline="")
        self.details = sidecar.file_record(path) | {"streamlines": self.value}
