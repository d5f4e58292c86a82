"""The engine: seeds go in, batches of finished streamlines come out, chunk by chunk.

The seeds of a chunk get their initial directions, each direction becomes a streamline, and both halves of every
streamline grow in launches of bounded length (:mod:`.growth`).  Filters accept streamlines (:mod:`.filters`), and
products are made of the accepted ones (:mod:`.products`).  The host lays out the points of one chunk while the device
grows the next.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from ..devices import Device
from ..errors import ParameterError
from ..io.tractogram import Batch, Space
from ..methods.given import Prepared
from .directed import initial_codes
from .filters import Filter, Length
from .growth import Growth
from .products import Points, Product
from .settings import Settings
from .tally import Tally
from .unpacking import Unpacker

Array = npt.NDArray[Any]


class Engine:
    """Grows streamlines on one device.

    Parameters
    ----------
    prepared : tables of the method and the stopping rule.
    space : the image's space.
    device : where to run (see :func:`tistreamlines.devices.choose`).
    settings : how streamlines are grown.
    filters : what accepts streamlines, besides their length.
    products : what is made of the accepted streamlines, besides their points.

    Raises
    ------
    DeviceError
        If the device cannot start, computes wrong results or has too little memory.
    ParameterError
        If the memory limit is too small for the tables and a single seed.
    """

    def __init__(
        self, prepared: Prepared, space: Space, device: Device, settings: Settings, filters: Sequence[Filter] = (),
        products: Sequence[Product] = (),
    ) -> None:  # fmt: skip
        begun = time.perf_counter()
        if prepared.fill["CARRIED"]:
            settings = replace(settings, exact=True)
        if not prepared.fill.get("SYMMETRIC", 1):
            settings = replace(settings, either_sense=False)
        self.settings = settings
        self.points = Points(Unpacker(prepared, space), settings.threads, device.arch == "cpu")
        self.filters, self.products = (Length(*settings.bounds), *filters), (self.points, *products)
        roots = [root for product in self.products for root in product.roots]
        self.growth = Growth(prepared, space.voxel_sizes, device, settings, self.filters, roots)
        self.growth.compile()
        for product in self.products:
            product.compile(self.growth)
        self.growth.measure_pace()
        self.growth.tally = Tally()
        self.tally.seconds["compile"] = time.perf_counter() - begun
        self.growth.program.kernel_seconds()

    @property
    def tally(self) -> Tally:
        """What the engine has done so far."""
        return self.growth.tally

    def chunk_size(self) -> int:
        """Return the seeds of a chunk: what the caller asked for, or what fits the device's memory, if that is less."""
        return self.growth.room.seeds

    def track(
        self, seeds: Array, first_seed: int = 0, directions: Array | None = None, *, most: int | None = None,
        enough: Callable[[], bool] = lambda: False,
    ) -> Iterator[Batch]:  # fmt: skip
        """Grow streamlines from seeds.

        Parameters
        ----------
        seeds : (n, 3) voxel coordinates, centre of voxel = integer.
        first_seed : number of the first seed; random numbers are counted by the seeds' numbers.
        directions : (n, 3) unit vectors along the voxel axes: the one initial direction of each seed, which is moved to
            the nearest vertex of the sphere. Without them, the peaks at each seed are its initial directions.
        most : end after so many accepted streamlines, in the order of seeds and directions.
        enough : asked before each chunk; if it returns True, tracking ends.

        Yields
        ------
        Batch
            Accepted streamlines, in the order of their seeds and directions.

        Raises
        ------
        ParameterError
            If a seed's number does not fit 32 bits, or if there is not one unit vector for each seed.
        """
        if not 0 <= first_seed <= first_seed + len(seeds) <= 2**32:
            raise ParameterError(
                f"seeds are numbered from {first_seed} to {first_seed + len(seeds) - 1}, but random numbers are drawn "
                "for seeds from 0 to 2**32 - 1: give fewer seeds, or a lower number to the first"
            )
        begun = time.perf_counter()
        points = np.asarray(seeds, np.float32)
        codes = None
        if directions is not None:
            codes = initial_codes(directions, points, self.growth.prepared, self.settings.threads)
        for batch in self._batches(points, first_seed, codes, 2**62 if most is None else most, enough):
            self.tally.seconds["track"] = time.perf_counter() - begun
            yield batch
        self.tally.seconds["track"] = time.perf_counter() - begun
        self.tally.seconds["kernels"] = self.growth.program.kernel_seconds()

    def _batches(
        self, seeds: Array, first_seed: int, codes: Array | None, left: int, enough: Callable[[], bool]
    ) -> Iterator[Batch]:
        growth, points, first = self.growth, self.points, 0
        try:
            while first < len(seeds) and left and not enough():
                with self.tally.stage("start"):
                    some = slice(first, first + growth.ready())
                    chunk = growth.begin(seeds[some], first_seed + first, None if codes is None else codes[some])
                points.lay_out(growth)
                while points.waiting:
                    with growth.pace.away():
                        yield points.next(growth)
                chunk = growth.finish(chunk)
                verdicts = reduce(np.logical_and, [one.accepted(chunk) for one in self.filters])
                if (count := int(np.count_nonzero(verdicts))) >= left:  # what comes after the last one does not count
                    verdicts = verdicts[: np.flatnonzero(verdicts)[left - 1] + 1]
                    chunk = chunk.first(len(verdicts))
                left -= min(count, left)
                accepted = chunk if verdicts.all() else chunk.some(np.flatnonzero(verdicts))
                for product in self.products:
                    product.collect(growth, accepted)
                growth.count(chunk)
                first += len(chunk.seeds)
            points.lay_out(growth)
            while points.waiting:
                yield points.next(growth)
        finally:
            points.cancel()
