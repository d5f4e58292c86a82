"""Inputs given to Python as NumPy arrays or nibabel images, where the loaders otherwise take the path of a file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import ParameterError
from ..option import flag

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class InMemory:
    """An array or an image that stands in for a file.

    Parameters
    ----------
    name : str
        The argument it was given as, for messages and the record of the run.
    data : array_like
        NumPy array, or the array proxy of a nibabel image.
    affine : (4, 4) float64, optional
        Voxel coordinates (centre of a voxel = integer) to RASmm; tables and points have none.
    header : nibabel header, optional
        That of an image.
    """

    name: str
    data: npt.ArrayLike
    affine: npt.NDArray[np.float64] | None = None
    header: object = None

    def __fspath__(self) -> str:
        """Return the label that messages show instead of a path."""
        return f"{self.name} (in memory)"

    __str__ = __fspath__

    @cached_property
    def values(self) -> Any:
        """The values; those of an image that lies in a file are read once."""
        return np.asanyarray(self.data)

    def sha256(self) -> str:
        """Hash the values, their type and shape, and the affine; return 64 hexadecimal digits."""
        digest = hashlib.sha256()
        for array in (self.values, self.affine if self.affine is not None else ()):
            values = np.ascontiguousarray(array)
            digest.update(f"{values.dtype.str} {values.shape}\n".encode())
            digest.update(values.data)  # the buffer itself: a series may be large
        return digest.hexdigest()


def unmask(name: str, value: T) -> T | Array:
    """Return a value, a masked array as its data; NumPy drops the mask of an array wherever it converts it.

    Parameters
    ----------
    name : str
        The argument the value was given as, for the message.
    value : object
        The array or image.

    Raises
    ------
    ParameterError
        If the value is a masked array of which a value is masked.
    """
    if not isinstance(value, np.ma.MaskedArray):
        return value
    if np.ma.is_masked(value):
        count = np.ma.count_masked(value)
        raise ParameterError(
            f"{name} is a masked array with {count} masked value{'' if count == 1 else 's'}: say what these stand for, "
            "with .filled(value), e.g. .filled(0)"
        )
    return value.data


def refuse_arrays(sources: Mapping[str, object]) -> None:
    """Raise a ParameterError for an array without an affine, where nothing else says on which grid it lies."""
    for name, source in sources.items():
        if isinstance(source, InMemory) and source.affine is None:
            raise ParameterError(f"{name} is an array: give a nibabel image, or the path of one")


def source_of(name: str, value: object, *, lists: bool = False) -> str | os.PathLike[str]:
    """Return a path as it is, and wrap an array or an image in :class:`InMemory`.

    Parameters
    ----------
    name : str
        The argument the value was given as.
    value : str, os.PathLike, numpy.ndarray or nibabel image
    lists : bool
        Whether the value may also be a list, or a list of rows, as that of points or b-values may.

    Raises
    ------
    ParameterError
        If the value is anything else, or has masked values.
    """
    if isinstance(value, str | os.PathLike):
        return value
    if lists and isinstance(value, list | tuple):
        rows = [unmask(flag(name), row) for row in value]
        try:
            value = np.asarray(rows)
        except ValueError as error:
            raise ParameterError(f"{flag(name)} has rows of several lengths: give as many numbers in each") from error
    if isinstance(value, np.ndarray):
        return InMemory(name, unmask(flag(name), value))
    if hasattr(value, "dataobj") and hasattr(value, "affine"):
        data, affine = (getattr(value, attribute) for attribute in ("dataobj", "affine"))
        return InMemory(name, unmask(flag(name), data), affine, getattr(value, "header", None))
    raise ParameterError(f"{flag(name)} is a {type(value).__name__}: give a path, a nibabel image or a NumPy array")
