"""A session opens what grows streamlines: an engine in this process, or a process for each of several devices.

Runs, the drop-ins and the benchmarks all use one, so each of them can have every filter and several devices.
It stands above :mod:`tistreamlines.tracking`, because it opens an engine in this process or a process for each device.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ..devices import Device
from ..space.batch import Space
from ..tracking.engine.engine import Engine
from ..tracking.engine.kernels import KernelParts
from ..tracking.growth.settings import Settings
from ..tracking.products.collector import Collector
from ..tracking.selection.filters import Filter
from ..tracking.tables.inputs import KernelTables

if TYPE_CHECKING:
    from .several import Several


class Session:
    """Opens what grows streamlines on some devices; a context manager, which ends the processes of the devices.

    Parameters
    ----------
    devices : where to track.
    note : receives messages about the devices.
    own_process : whether a separate process tracks even on a single device, which any but the first of an arch needs.
    """

    def __init__(
        self, devices: Sequence[Device], note: Callable[[str], object] = lambda _: None, *, own_process: bool = False
    ) -> None:
        self.devices, self._note = devices, note
        self._several: Several | None = None
        if own_process or len(devices) > 1:
            from .several import Several  # imports more than one device needs

            self._several = Several(devices, note)

    def __enter__(self) -> Session:
        """Return the session."""
        return self

    def __exit__(self, *_: object) -> None:
        """End the processes of the devices; what this process has opened lives on."""
        if self._several is not None:
            self._several.close()

    @property
    def here(self) -> bool:
        """Whether this process tracks."""
        return self._several is None

    def compile(self, parts: KernelParts) -> None:
        """Compile kernels before the tables are known; workers do so while this process goes on."""
        if self._several is None:
            parts.compile(self.devices[0])
        else:
            self._several.compile(parts)

    def open(
        self, prepared: KernelTables, space: Space, settings: Settings, filters: Sequence[Filter] = (),
        products: Sequence[Collector] = (), *, points: bool = True,
    ) -> Engine | Several:
        """Compile the kernels, and return what grows streamlines; of several devices, there is one at a time.

        See :class:`..tracking.engine.engine.Engine`; products merge what workers have made.
        """
        if self._several is None:
            (device,) = self.devices
            return Engine(prepared, space, device, settings, filters, products, self._note, points)
        from .messages import Opening

        return self._several.load(Opening(prepared, space, settings, filters, products, points))
