"""Streamlines of any program's TRX, TRK or TCK file, read in batches, so that memory stays bounded."""

from __future__ import annotations

import math
import stat
from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping
from concurrent.futures import Future, wait
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..aliases import Array
from ..devices import usable_cores
from ..devices.threads import thread_pool
from ..errors import InputError
from ..option import FARTHEST
from ..space.batch import Batch, Space
from .images import existing_path, mode_of, reading
from .tck import header_of_tck, streamlines_of_tck
from .trk import header_of_trk, streamlines_of_trk, values_of_trk
from .trx_schema import HEADER, Trx, open_trx

SUFFIXES = (".trx", ".trk", ".tck")
POINTS_AT_ONCE = 1 << 18
CHECKERS = 3  # threads at most that look at points while a file is read, each of about that many
DPS, DPV, GROUPS = "dps/", "dpv/", "groups/"
SEEDS, SEED_NUMBER = "dps/seeds", "dps/seed_number"
NONE = np.empty((0, 3), np.float32)
LONGEST_MM = 1000.0  # step of a streamline, beyond which the file is taken to be damaged
NEAR_MM = LONGEST_MM / 4  # no step is as long if all points are within so many mm along each axis


def check_tractogram(path: str | PathLike[str]) -> Path:
    """Return the path of a file with the suffix of a tractogram, or of the folder of a TRX, or raise an InputError."""
    if stat.S_ISDIR(mode_of(path)):
        if not (Path(path) / HEADER).is_file():
            raise InputError(f"{path}: is a folder without header.json; give a tractogram: {', '.join(SUFFIXES)}")
        return Path(path)
    path = existing_path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"{path}: unknown suffix {path.suffix!r}; give a tractogram: {', '.join(SUFFIXES)}")
    return path


def _format(path: Path) -> str:
    """Return the suffix of a tractogram's format; a folder is one of TRX."""
    return ".trx" if path.is_dir() else path.suffix.lower()


def doubts_of_tractogram(path: Path) -> list[str]:
    """Return what the header of a tractogram lacks, and what is taken in its place: a line each."""
    with reading(path):
        if (suffix := _format(path)) == ".trx":
            return []
        return list((header_of_trk(path) if suffix == ".trk" else header_of_tck(path)).doubts)


def stored_batches(path: Path, *, values: bool = False) -> Generator[Batch, None, None]:
    """Read the streamlines of a tractogram, in its order, also those without points.

    Parameters
    ----------
    path : Path
        Of :func:`check_tractogram`.
    values : bool
        Read the numbers of points and of streamlines, too: ``dpv`` and ``dps`` of a TRX file, scalars and properties of
        a TRK. Those with several numbers for each are left out.

    Yields
    ------
    Batch
        Points in RASmm.  Seeds, numbers and reasons to stop are 0, since not every program writes them, except for the
        seeds and their numbers that a TRX file has.

    Raises
    ------
    InputError
        If the file is damaged, if a point or seed is not finite or too far away, or if the next one is.
    """
    with reading(path):
        pieces = READERS[_format(path)](path, values)

    def read() -> Batch | None:
        with reading(path):
            return next(pieces, None)

    def check(coming: Future[Batch | None]) -> Batch | None:
        if (batch := coming.result()) is not None:
            _check(path, batch)
        return batch

    readers, checkers = thread_pool("reading", 1), thread_pool("checking", min(CHECKERS, usable_cores()))
    waiting = deque[Future[Batch | None]]()
    try:
        while True:
            while len(waiting) <= CHECKERS:  # those beyond the end are None, too
                waiting.append(checkers.submit(check, readers.submit(read)))
            if (batch := waiting.popleft().result()) is None:
                return
            yield batch
    finally:
        wait(waiting)  # without cancelling any: the reading behind a cancelled check would go on


def _check(path: Path, batch: Batch) -> None:
    """Raise an InputError if a point or seed cannot be one."""
    reach = {name: _reach(points) for name, points in (("points", batch.points), ("seeds", batch.seeds))}
    for name, farthest in reach.items():
        if not math.isfinite(farthest):
            raise InputError(f"{path}: has {name} that are not finite; correct or write the file again")
        if farthest > FARTHEST:
            raise InputError(f"{path}: has {name} {farthest:.4g} mm away; correct or write the file again")
    if reach["points"] > NEAR_MM and (longest := batch.longest_step) > LONGEST_MM:
        raise InputError(f"{path}: has a step of {longest:.4g} mm; correct or write the file again")


def _reach(points: Array) -> float:
    """Return the greatest distance of points along an axis, mm; NaN if they have one."""
    return float(max(points.max(), -points.min())) if len(points) else 0.0


def grid_of_tractogram(path: Path) -> Space | None:
    """Return the grid of the image that a tractogram belongs to, as its header has it; None for TCK."""
    with reading(path):
        if (suffix := _format(path)) == ".trx":
            with open_trx(path) as file:
                return file.space
        if suffix == ".trk":
            return header_of_trk(path).grid()
    return None


def step_of_tractogram(path: Path) -> float | None:
    """Return the distance of the points of a streamline, mm, as the header of a TCK has it.

    None for other files, and where the header has none, or one with which no program tracks.
    """
    if _format(path) != ".tck":
        return None
    with reading(path):
        return header_of_tck(path).step_mm


def has_seeds(path: Path) -> bool:
    """Whether a tractogram has the seed of each streamline, which only a TRX file can have."""
    if _format(path) != ".trx":
        return False
    with reading(path), open_trx(path) as file:
        return SEEDS in _seeds_of(file)


def _seeds_of(file: Trx) -> set[str]:
    """Return those of the seeds and their numbers that a TRX file has, in the form in which they are written here."""
    kinds = {SEEDS: {(3, "f")}, SEED_NUMBER: {(1, "i"), (1, "u")}}
    members = ((name, file.members[name]) for name in kinds if name in file.members)
    return {name for name, array in members if (array.columns, array.kind.kind) in kinds[name]}


class StoredGroup(NamedTuple):
    """A group of a TRX file: its name, how many streamlines it has, and which of some rows belong to it."""

    name: str
    total: int
    places: Array


def groups_of_tractogram(path: Path, rows: Array) -> list[StoredGroup]:
    """Return the groups of a tractogram, which only a TRX file can have.

    Parameters
    ----------
    path : Path
        Of :func:`check_tractogram`.
    rows : (n,) integers
        Numbers of streamlines, whose places here the groups have.
    """
    if _format(path) != ".trx":
        return []
    with reading(path), open_trx(path) as file:
        members = {name[len(GROUPS) :]: member for name, member in file.members.items() if name.startswith(GROUPS)}
        return [
            StoredGroup(name, member.count, np.flatnonzero(np.isin(rows, member.reader()(member.count))))
            for name, member in sorted(members.items())
        ]


def batch_of(points: Array, lengths: Array, numbers: Array | None = None, seeds: Array | None = None) -> Batch:
    """Return streamlines, points (p, 3) in RASmm and how many each has, as a batch."""
    n, offsets = len(lengths), np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    numbers = np.zeros(n, np.uint32) if numbers is None else numbers
    seeds = np.zeros((n, 3), np.float32) if seeds is None else seeds
    return Batch(points, offsets, seeds, numbers, np.zeros(n, np.uint16), np.zeros((n, 2), np.uint8))


def _of_trx(path: Path, values: bool) -> Iterator[Batch]:
    """Read a TRX file, or its folder."""
    with open_trx(path) as file:
        stored = _seeds_of(file) | {"positions"} & file.members.keys()
        named = {name for name, member in file.members.items() if _is_value(name) and member.columns == 1 and values}
        readers = {name: file.members[name].reader() for name in sorted(stored | named)}
        for lengths in file.lengths():
            ends, first = np.cumsum(lengths), 0
            while first < len(lengths):
                done = int(ends[first - 1]) if first else 0
                last = max(int(np.searchsorted(ends, done + POINTS_AT_ONCE, "right")), first + 1)
                points = int(ends[last - 1]) - done
                block = {name: read(last - first if name.startswith(DPS) else points) for name, read in readers.items()}
                numbers = block[SEED_NUMBER].ravel() if SEED_NUMBER in block else None
                batch = batch_of(block.get("positions", NONE), lengths[first:last], numbers, block.get(SEEDS))
                kinds = ({n[len(kind) :]: block[n] for n in named if n.startswith(kind)} for kind in (DPS, DPV))
                yield _with_values(batch, *kinds)
                first = last


def _is_value(name: str) -> bool:
    """Tell whether a member of a TRX file has numbers that are of interest, and not the place of a seed."""
    return name.startswith((DPS, DPV)) and name not in (SEEDS, SEED_NUMBER)


def _with_values(batch: Batch, per_streamline: Mapping[str, Array], per_point: Mapping[str, Array]) -> Batch:
    """Return a batch with numbers of its streamlines and points, which become float32."""
    if not per_streamline and not per_point:
        return batch
    of_streamlines, of_points = (
        {name: values.ravel() for name, values in each.items()} for each in (per_streamline, per_point)
    )
    return replace(batch, data_per_streamline=of_streamlines, data_per_point=of_points)


def _of_trk(path: Path, values: bool) -> Iterator[Batch]:
    """Read a TRK file."""
    header = header_of_trk(path)
    if not values:
        for points, lengths, *_ in streamlines_of_trk(header):
            yield batch_of(points, lengths)
        return
    of_points, of_streamlines = values_of_trk(header)
    for points, lengths, scalars, properties in streamlines_of_trk(header):
        batch = batch_of(points, lengths)
        yield _with_values(
            batch, {name: properties[:, column] for name, column in of_streamlines.items()},
            {name: scalars[:, column] for name, column in of_points.items()},
        )


def _of_tck(path: Path, _: bool) -> Iterator[Batch]:
    """Read a TCK file, which has points alone."""
    for points, lengths in streamlines_of_tck(header_of_tck(path), POINTS_AT_ONCE):
        yield batch_of(points, lengths)


READERS: dict[str, Callable[[Path, bool], Iterator[Batch]]] = {".trx": _of_trx, ".trk": _of_trk, ".tck": _of_tck}
