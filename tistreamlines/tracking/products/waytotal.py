"""The number of streamlines in a file, as probtrackx2 writes its waytotal."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ...io import sidecar
from ...io.drafts import completed
from ...option import OUTPUT, PathLike, option
from ...space.batch import Batch, Space
from ..growth.chunk import Chunk
from ..growth.growth import Growth
from ..growth.settings import Settings
from .collector import Collector
from .files import ProductFile

SUFFIXES = (".txt", "")  # FSL's file has none


@dataclass(frozen=True)
class WaytotalOptions:
    """The option that names the file, a part of :class:`tistreamlines.Parameters`."""

    waytotal: PathLike | None = option(
        None, OUTPUT, "Write the number of streamlines, all that are selected, to a file, as probtrackx2's waytotal. "
        "Without --output, no streamline is written.", unit="FILE", absent="not written", affects="run",
    )


class DeviceCount(Collector):
    """Counts accepted streamlines, of which nothing comes back."""

    def __init__(self) -> None:
        self.total = self._counted = self._last = 0

    def collect(self, growth: Growth, accepted: Chunk) -> None:
        """Count the streamlines of a chunk."""
        self._last = len(accepted.number)
        self._counted += self._last

    def undo(self, growth: Growth) -> None:
        """Take the streamlines of the last chunk back."""
        self._counted -= self._last
        self._last = 0

    def take(self, growth: Growth) -> int:
        """Return what was counted since the last call."""
        taken, self._counted, self._last = self._counted, 0, 0
        return taken

    def merge(self, delta: int) -> None:
        """Add what was counted on some device."""
        self.total += delta


class Waytotal(ProductFile):
    """Counts streamlines, and writes their number; see :class:`.files.ProductFile`.

    Parameters
    ----------
    options : its options.
    space, step_mm, threads : of the image that is tracked, the step size and the threads; not needed.
    """

    def __init__(self, options: WaytotalOptions, space: Space, step_mm: float, threads: int | None = None) -> None:
        del space, step_mm, threads
        assert options.waytotal is not None
        super().__init__(Path(options.waytotal))
        self._device = DeviceCount()
        self.value: int = 0

    def add(self, batch: Batch) -> None:
        """Count the streamlines of a batch."""
        self.value += len(batch)

    def collector(self, space: Space, settings: Settings) -> DeviceCount:
        """Count them where they are tracked."""
        del space, settings
        return self._device

    def write(self, *, force: bool) -> None:
        """Write the number in a line."""
        self.value += self._device.total
        (path,) = self.paths
        with completed(path, force=force) as draft:
            draft.write_text(f"{self.value}\n", encoding="ascii", newline="")
        self.details = sidecar.described(path) | {"streamlines": self.value}
