"""What a run writes besides a tractogram, or in its place: a file that is made of its streamlines."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable
from weakref import finalize

import numpy as np
import numpy.typing as npt

from ...aliases import Json
from ...space.batch import Batch, Groups, Space
from ..growth.settings import Settings
from .products import Collector

Read = TypeVar("Read")


class ProductFile(Protocol):
    """A file, or several, that a run makes of its streamlines; a row of the registry makes it from the options.

    Attributes
    ----------
    paths : the files.
    value : what a result holds of it, once it is written.
    told : what the record says of it, once it is written.
    doubts : why it may be wrong, as warnings, once it is written.
    """

    paths: tuple[Path, ...]
    value: Any
    told: Json
    doubts: tuple[str, ...]

    def add(self, batch: Batch) -> None:
        """Take the streamlines of a batch into account, if their points come back to the host."""
        ...

    def collector(self, space: Space, settings: Settings) -> Collector | None:
        """Return what the devices make while the streamlines are there, so that no points need come back.

        None if points are needed, or more memory than the devices can spare.

        Parameters
        ----------
        space : grid of the image that is tracked.
        settings : those of the engine.
        """
        ...

    def write(self, *, force: bool) -> None:
        """Write the file, when all streamlines have come."""
        ...


@runtime_checkable
class Grouping(Protocol):
    """A product that tells which groups streamlines belong to, for a tractogram that holds them."""

    def groups(self, batch: Batch) -> tuple[Groups, ...]:
        """Return the groups of the streamlines of a batch."""
        ...


@runtime_checkable
class Following(Protocol):
    """A product that may need what streamlines follow."""

    def follow(self, followed: Any, told: Callable[[float], object]) -> None:
        """Take the FODs, or the samples of fibres, that streamlines follow; called before ``add``.

        None if no streamline is tracked, or if no option asks for them. ``told`` receives the share of the work that is
        done, 0 to 1.
        """
        ...


@runtime_checkable
class Weighing(Protocol):
    """A product that weighs streamlines.

    Attributes
    ----------
    watch : receives the number of each iteration, and the costs of densities and of coefficients, as shares of the
        first cost.
    """

    watch: Callable[[int, float, float], object]

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each streamline, (n,), when all have come."""
        ...


@runtime_checkable
class Weighted(Protocol):
    """A product that may wait for the weights of streamlines."""

    def take_weights(self, weights: npt.NDArray[np.float64]) -> None:
        """Take the weight of each streamline into account, (n,), when all have come; called before ``write``."""
        ...


class Checked(Generic[Read]):
    """Inputs of a product that a check has read, until a run takes them or the options are gone.

    Parameters
    ----------
    read : returns the inputs, from the options; raises an error if they are wrong.
    """

    def __init__(self, read: Callable[[Any], Read]) -> None:
        self._read, self._known = read, dict[int, Read]()  # by the identity of the options

    def check(self, options: Any) -> None:
        """Read the inputs: an error of a small file comes before the work."""
        self._known[id(options)] = self._read(options)
        finalize(options, self._known.pop, id(options), None)

    def take(self, options: Any) -> Read:
        """Return what was read of these options, or read it."""
        return self._known.pop(id(options)) if id(options) in self._known else self._read(options)
