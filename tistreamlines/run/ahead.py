"""Compilation of the kernels in a thread, while the inputs are read and fitted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

import numpy as np
import numpy.typing as npt

from ..backends import warm_up
from ..devices import Device
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.engine.settings import Settings
from ..tracking.selection.filters import Filter
from .tables import Region, Shapes, seeds_of


class Ahead:
    """The compilation of the kernels of a run, in a ``with`` block; the process keeps the compiled code.

    Parameters
    ----------
    parameters : all options.
    device : where streamlines are computed.
    settings : returns the settings of the engine for voxels of given sides in mm.
    filters : those of the run, made for the same kernels.
    engine_for : makes an engine, in this process or in others, which compiles the kernels.
    here : whether this process tracks; others start the device by themselves.
    """

    def __init__(
        self, parameters: Parameters, device: Device, settings: Callable[[npt.NDArray[np.float64]], Settings],
        filters: Sequence[Filter], engine_for: Callable[..., object], here: bool,
    ) -> None:  # fmt: skip
        self._parameters, self._device, self._settings, self._filters = parameters, device, settings, filters
        self._engine_for, self._here = engine_for, here
        self._given: SimpleQueue[Shapes | None] = SimpleQueue()
        self._thread = Thread(target=self._compile, name="compile")

    def __enter__(self) -> Ahead:
        """Start the compiler and the device."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Let the thread end."""
        self._given.put(None)

    def compile(self, shapes: Shapes) -> None:
        """Start to compile for tables and a grid of a few voxels, which ``shapes`` returns when they are known."""
        self._given.put(shapes)

    def join(self) -> None:
        """Wait for the end of the compilation."""
        self._given.put(None)
        self._thread.join()

    def _compile(self) -> None:
        with suppress(Exception):  # it occurs again in the run itself
            if self._here:
                warm_up(self._device, exact=self._parameters.exact)
            if self._parameters.seeds is None:
                voxel = Region(np.zeros((1, 3), np.int32), np.ones(1, np.float32), np.eye(4))
                seeds_of(self._parameters, Space(np.eye(4), (1, 1, 1)), voxel).points(0, 1)
            if shapes := self._given.get():
                prepared, space = shapes()
                self._engine_for(prepared, space, self._settings(space.voxel_sizes), self._filters)
