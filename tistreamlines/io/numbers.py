"""Numbers of streamlines in the place of their points: arrays in an archive of NumPy (.npz).

The numbers of its seed and of its direction say which streamline it is, and the run tracks it again from these alone
(:mod:`tistreamlines.run.regrow`).
"""

from __future__ import annotations

import zipfile
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..space.batch import Batch, Groups, Space
from .trx import Details

SUFFIX = ".npz"
DIRECTION_BITS = 16
KINDS = {"seed_number": ("uint32",), "direction_number": ("uint16",), "points": ("uint16", "uint32")}
NODES, NAMES = "nodes_", "names_"  # of a parcellation, before its number from 1 on
Block = tuple[list[Array], list[Array], list[tuple[str, ...]]]  # of a batch: numbers, nodes and their names


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of streamlines, in ascending order of seeds and directions.

    Parameters
    ----------
    seed_number : (n,) uint32
    direction_number : (n,) uint16
    points : (n,) uint16 or uint32
        Number of points of each streamline, which a streamline that is tracked again must have, too.
    weights : (n,) float32, or None
    groups : tuple of Groups
        The nodes of both ends, for each parcellation.
    """

    seed_number: npt.NDArray[np.uint32]
    direction_number: npt.NDArray[np.uint16]
    points: npt.NDArray[np.unsignedinteger]
    weights: npt.NDArray[np.float32] | None = None
    groups: tuple[Groups, ...] = ()

    def __len__(self) -> int:
        """Return the number of streamlines."""
        return len(self.seed_number)

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        """A number for each streamline, (n,), which tells it from all others of the run, in ascending order."""
        return keys_of(self.seed_number, self.direction_number)

    def select(self, rows: Array | slice) -> Numbers:
        """Return the numbers of some of the streamlines."""
        return replace(
            self, weights=None if self.weights is None else self.weights[rows],
            groups=tuple(Groups(kind.names, kind.numbers[rows]) for kind in self.groups),
            **{name: getattr(self, name)[rows] for name in KINDS},
        )


def keys_of(seed_number: Array, direction_number: Array) -> npt.NDArray[np.int64]:
    """Return a number for each streamline, (n,), of the numbers of its seed and its direction."""
    return seed_number.astype(np.int64) << DIRECTION_BITS | direction_number


class NumbersSink:
    """Keeps the numbers of the streamlines of batches, and writes them at the end."""

    STREAMLINE_BYTES: ClassVar[int] = 8
    beside: Path | None = None

    def __init__(self, folder: Path, space: Space, files: ExitStack, details: Details) -> None:
        self._path, self._late = folder / f"numbers{SUFFIX}", details.get("late", dict)
        self._parts: list[list[Array]] = [[np.empty(0, np.uint32)], [np.empty(0, np.uint16)], [np.empty(0, np.uint32)]]
        self._nodes: list[list[Array]] = []
        self._names: list[tuple[str, ...]] = []

    def lay_out(self, batch: Batch) -> Block:
        """Return the numbers of the streamlines of a batch, and their nodes."""
        kept = batch.seed_number, batch.direction_number, batch.whole_lengths
        # copies, since the memory of a batch may be used again
        numbers = [values.astype(part[0].dtype) for part, values in zip(self._parts, kept, strict=True)]
        nodes = [groups.numbers.astype(_smallest(len(groups.names))) for groups in batch.groups]
        return numbers, nodes, [groups.names for groups in batch.groups]

    def append(self, block: Block) -> None:
        """Keep the numbers of a batch."""
        numbers, nodes, self._names = block
        self._nodes = self._nodes or [[] for _ in nodes]
        for part, values in zip([*self._parts, *self._nodes], [*numbers, *nodes], strict=True):
            part.append(values)

    def finish(self) -> Path:
        """Write the archive; return its path."""
        arrays: dict[str, Array] = dict(zip(KINDS, map(np.concatenate, self._parts), strict=True))
        arrays["points"] = arrays["points"].astype(_smallest(int(arrays["points"].max(initial=0))))
        arrays |= {name: np.asarray(values, np.float32) for name, values in self._late().items()}
        for number, (nodes, names) in enumerate(zip(self._nodes, self._names, strict=True), 1):
            arrays |= {f"{NODES}{number}": np.concatenate(nodes), f"{NAMES}{number}": np.array(names)}
        # numpy.savez_compressed takes eight times as long for a sixth less
        with zipfile.ZipFile(self._path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name, values in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, values, allow_pickle=False)
        return self._path


def _smallest(greatest: int) -> type[np.unsignedinteger]:
    """Return the type of the fewest bytes, from two on, for whole numbers up to the greatest one."""
    return np.uint16 if greatest < 1 << 16 else np.uint32


def read_numbers(path: Path) -> Numbers:
    """Read a file of :class:`NumbersSink`.

    Raises
    ------
    InputError
        If the file is damaged, or of another program.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = dict(archive)
        groups = tuple(
            Groups(tuple(map(str, arrays[f"{NAMES}{number}"])), arrays[f"{NODES}{number}"].astype(np.int32))
            for number in range(1, 1 + sum(name.startswith(NODES) for name in arrays))
        )
        known: dict[str, Array] = {name: arrays[name] for name in KINDS}
        numbers = Numbers(**known, weights=arrays.get("weights"), groups=groups)
        _check(numbers)
    except Exception as error:  # zipfile, zlib and NumPy raise a dozen types that have nothing in common
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise InputError(f"{path}: holds no numbers of streamlines, or is damaged ({reason})") from error
    return numbers


def _check(numbers: Numbers) -> None:
    """Raise ValueError if arrays have other types or lengths than the sink writes, or another order."""
    count = len(numbers)
    for name, kinds in KINDS.items():
        values = getattr(numbers, name)
        if values.dtype.name not in kinds or values.shape != (count,):
            raise ValueError(f"{name} is {values.dtype} {values.shape}")
    if numbers.weights is not None and (numbers.weights.dtype, numbers.weights.shape) != (np.float32, (count,)):
        raise ValueError(f"weights are {numbers.weights.dtype} {numbers.weights.shape}")
    for kind in numbers.groups:
        if kind.numbers.shape != (count, 2) or kind.numbers.max(initial=0) > len(kind.names):
            raise ValueError("its nodes do not fit the streamlines")
    if (np.diff(numbers.keys) <= 0).any():
        raise ValueError("its streamlines are not in the order of their seeds")
