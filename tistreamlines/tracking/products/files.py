"""Products: files that a run makes of its streamlines, with or without a tractogram."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ...aliases import Json
from ...backends.program import Program
from ...errors import ParameterError
from ...space.batch import Batch, Groups, Space
from ..growth.settings import Settings
from ..seeding.seeds import Seeds
from .collector import Collector

Options = TypeVar("Options")
NAMED = 5  # names that a warning gives
SIFT2 = "sift2"  # the weights of the product of this name
SUM_BITS, PART_BITS = 61, 30  # rounding up or down adds less than a bit
WEIGHABLE = ("connectome", "density", "ends")  # products that weigh streamlines


def first_of(names: Sequence[object]) -> str:
    """Return the first of some names, in words."""
    return ", ".join(map(str, names[:NAMED])) + (", ..." if len(names) > NAMED else "")


class ProductFile:
    """A file, or several, that a run makes of its streamlines; a row of the registry makes it from the options.

    A subclass replaces ``add`` and ``write``, and of the other methods those that concern it.

    Parameters
    ----------
    *paths : the files.

    Attributes
    ----------
    paths : the files.
    value : what a result holds of it, once it is written.
    details : what the record says of it, once it is written.
    doubts : why it may be wrong, as warnings, once it is written.
    nowhere : why it may be wrong if there are streamlines, once it is written.
    follows : whether it may need what streamlines follow, see :meth:`follow`.
    of_dropped : whether it is made of streamlines that are not accepted. Its collector is needed in any case.
    needs_points : whether ``add`` needs the points of streamlines; without them, batches may be outlines.
    inner_points : whether it needs all of them; without the inner ones of arcs, batches know how long streamlines are.
    """

    nowhere: str = ""
    follows: bool = False
    of_dropped: bool = False
    needs_points: bool = True
    inner_points: bool = True

    def __init__(self, *paths: Path) -> None:
        self.paths = paths
        self.value: object = None
        self.details: Json = {}
        self.doubts: tuple[str, ...] = ()

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account, if their points come back to the host or are not needed."""
        raise NotImplementedError

    def write(self, *, force: bool) -> None:
        """Write the file, when all streamlines have come."""
        raise NotImplementedError

    def collector(self, space: Space, settings: Settings) -> Collector | None:
        """Return what the devices make while the streamlines are there, so that no points need come back.

        None if points are needed, as by default, or more memory than the devices can spare.

        Parameters
        ----------
        space : grid of the image that is tracked.
        settings : those of the engine.
        """

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the groups that the streamlines of a batch belong to, for a tractogram that holds them."""
        return ()

    def move_to(self, program: Program) -> None:
        """Run kernels that take points with a program of a device from now on, if this product has such kernels.

        It is called before the first batch.
        """

    def follow(self, followed: object, progress: Callable[[float], object], seeds: Seeds | None) -> None:
        """Take the FODs, or the samples of fibres, that streamlines follow; called before ``add``.

        None if no streamline is tracked, or if no option asks for them. ``progress`` receives the share of the work
        that is done, 0 to 1. ``seeds`` are those of the run, which may know what the product is about to find.
        """

    def keep(self, path: Path) -> None:
        """Write what has come since the last call, if streamlines do not tell it, to a file for a run that goes on."""

    def restore(self, path: Path, dropped: npt.NDArray[np.int64]) -> None:
        """Read what :meth:`keep` has written; ``dropped`` has the dropped streamlines for each reason."""

    def complete(self) -> None:
        """Begin what needs all streamlines, but no weights: all have come. It may be called again."""

    def take_weights(self, weights: npt.NDArray[np.float64]) -> None:
        """Take the weight of each streamline into account, (n,), when all have come.

        It is called before ``write`` in the same thread; other products write meanwhile.
        """


class WeightProduct(ProductFile):
    """A product that weighs streamlines.

    Attributes
    ----------
    watch : receives the number of each iteration, and the costs of densities and of coefficients, as shares of the
        first cost.
    """

    watch: Callable[[int, float, float], object]

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each streamline, (n,), when all have come."""
        raise NotImplementedError


Maker = Callable[[Space, float, int | None], ProductFile]  # from grid, step size and threads, see registry.Product


def at_once(read: Callable[[Options], Maker]) -> Callable[[Options, Space, float, int | None], ProductFile]:
    """Return a function that reads the inputs of a product and makes it."""
    return lambda options, space, step_mm, threads: read(options)(space, step_mm, threads)


def weight_unit(weights: npt.NDArray[np.float64], greatest: float = 1.0) -> float:
    """Return by how much weights times some values are multiplied to be whole numbers, a power of two.

    Sums of these then have at most 62 bits, whatever is summed in which order.

    Parameters
    ----------
    weights : (n,) from 0 on, of all streamlines.
    greatest : the greatest size of the values.
    """
    most = float(weights.max(initial=0))
    if not most > 0 or not greatest > 0:
        return 1.0
    exponent = int(np.frexp(most)[1])
    # parts of a power of two that no weight exceeds, rounded up: their sum does not depend on the order
    parts = np.ceil(np.ldexp(weights, PART_BITS - exponent)).astype(np.int64)
    bits = int(parts.sum()).bit_length() - PART_BITS + exponent + int(np.frexp(greatest)[1])
    return 2.0 ** (SUM_BITS - bits)


def check_weights(weights: str | None, sift2: object) -> None:
    """Raise a ParameterError if options name the weights of SIFT2, but not SIFT2."""
    if weights == SIFT2 and sift2 is None:
        raise ParameterError("--weights sift2 needs --sift2 FOD FILE; a file of this name is ./sift2")
