"""Compilation of the kernels in a thread, while the inputs are read and fitted."""

from __future__ import annotations

from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

import numpy as np

from ..backends import before_threads, warm_up
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.registry import PRODUCTS
from ..tracking.selection.selection import Selection
from ..workers.session import Session
from .products import all_or_nothing, asked
from .seeds import Region, seeds_of
from .setup import settings_on
from .tables import Shapes


class Precompiling:
    """The compilation of the kernels of a run, in a ``with`` block; the process keeps the compiled code.

    Parameters
    ----------
    parameters : all options.
    selection : of the run.
    session : compiles the kernels, in this process or in others, which start the device by themselves.
    only_products : neither a tractogram nor streamlines in memory.
    """

    def __init__(
        self, parameters: Parameters, selection: Selection, session: Session, *, only_products: bool = False
    ) -> None:
        self._parameters, self._selection, self._session = parameters, selection, session
        self._only_products = only_products
        self._given: SimpleQueue[Shapes | None] = SimpleQueue()
        self._thread = Thread(target=self._compile, name="compile")

    def __enter__(self) -> Precompiling:
        """Start the compiler and the device."""
        before_threads(self._session.devices[0].arch)
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
            if self._session.here:
                warm_up(self._session.devices[0], exact=self._parameters.exact)
            if all(getattr(self._parameters, name) is None for name in ("seeds", "seed_surface", "seed_dynamic")):
                voxel = Region(np.zeros((1, 3), np.int32), np.ones(1, np.float32), np.eye(4))
                seeds_of(self._parameters, Space(np.eye(4), (1, 1, 1)), voxel).points(0, 1)
            if shapes := self._given.get():
                prepared, space = shapes()
                settings = settings_on(space.voxel_sizes, self._parameters)
                made = []
                if self._only_products:
                    rows = [PRODUCTS[name].collector for name in asked(self._parameters)]
                    made = all_or_nothing(row and row(self._parameters, space, settings) for row in rows)
                self._session.open(prepared, space, settings, self._selection.filters(), made, points=not made)
