"""Some streamlines of a tractogram as another one: in TRX and TRK with all that belongs to them."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..space.batch import Space
from .drafts import completed
from .images import reading
from .tractograms import step_of_tractogram, stored_batches
from .trk import SIZE, WORD, header_of_trk, records_of_trk
from .trx import entry_of
from .trx_schema import HEADER, ROWS_AT_ONCE, Member, Trx, open_trx
from .writer import TractogramWriter

Kept = npt.NDArray[np.bool_]
COUNT_AT = 988  # byte of the header of a .trk at which the number of streamlines is
HEADS = "DIMENSIONS", "VOXEL_TO_RASMM", "NB_VERTICES", "NB_STREAMLINES"


def write_subset(
    source: Path, target: Path, kept: Kept, space: Space, fields: Mapping[str, object], *, force: bool
) -> None:
    """Write the streamlines of a tractogram that are kept, in their order.

    Parameters
    ----------
    source : Path
        Of :func:`.tractograms.check_tractogram`.
    target : Path
        .trx, .trk or .tck. A .trx of a .trx, and a .trk of a .trk, have all values and groups of their streamlines.
        Otherwise it has points, and of a .trx also the seeds and their numbers, if it has room for these.
    kept : (n,) bool
        Which of the streamlines are kept.
    space : Space
        Grid of a target that needs one.
    fields : mapping
        Further lines of the header of a .tck.
    force : bool
        Replace an existing file.

    Raises
    ------
    InputError
        If the source is damaged.
    OutputError
        If the target exists and ``force`` is false, or cannot be written.
    """
    suffix = ".trx" if source.is_dir() else source.suffix.lower()
    if suffix == target.suffix.lower() != ".tck":
        write = _write_trx if suffix == ".trx" else _write_trk
        with reading(source), completed(target, force=force) as draft:
            write(source, draft, kept)
        return
    step, first = step_of_tractogram(source), 0
    with TractogramWriter(target, space, force=force, step_mm=step, fields=lambda: fields) as writer:
        for batch in stored_batches(source):
            rows = np.flatnonzero(kept[first : first + len(batch)])
            first += len(batch)
            writer.write(batch if len(rows) == len(batch) else batch[rows])


def _write_trk(source: Path, draft: Path, kept: Kept) -> None:
    """Write a TRK file with the records of streamlines that are kept."""
    header, first = header_of_trk(source), 0
    kind = header.fields.dtype["nb_streamlines"]
    with source.open("rb") as file:
        head = bytearray(file.read(SIZE))
    head[COUNT_AT : COUNT_AT + WORD] = np.array(kept.sum(), kind).tobytes()
    with draft.open("wb") as file:
        file.write(head)
        for words, starts, lengths in records_of_trk(header):
            rows = np.repeat(kept[first : first + len(lengths)], np.diff([*starts, len(words)]))
            file.write(words[rows].astype(kind).data)
            first += len(lengths)


def _write_trx(source: Path, draft: Path, kept: Kept) -> None:
    """Write a TRX file with the arrays of another one, as far as they belong to streamlines that are kept."""
    with open_trx(source) as trx, zipfile.ZipFile(draft, "w") as archive:
        _write_members(trx, archive, kept)


def _write_members(trx: Trx, archive: zipfile.ZipFile, kept: Kept) -> None:
    """Write the members of a TRX file."""
    lengths = np.concatenate([np.zeros(0, np.int64), *trx.lengths()])
    left = lengths[kept] if len(lengths) else lengths
    points = int(left.sum())
    space = trx.space
    header = dict(zip(HEADS, (list(space.shape), space.affine.tolist(), points, int(kept.sum())), strict=True))
    archive.writestr(entry_of(HEADER), json.dumps(header))
    if not kept.any():
        return
    groups: set[str] = set()
    for name, member in trx.members.items():
        kind, *parts = name.split("/")
        if kind == "offsets":
            _write_offsets(archive, member, left)
        elif kind in ("positions", "dpv") and points:  # trx-python cannot map members without bytes
            _write(archive, member, points, lambda read: _points(read, lengths, kept))
        elif kind == "dps":
            _write(archive, member, int(kept.sum()), lambda read: _rows(read, kept))
        elif kind == "groups" and _write_group(archive, member, kept):
            groups |= {*parts}
    for name, member in trx.members.items():
        kind, *parts = name.split("/")
        if kind == "dpg" and parts[0] in groups:
            archive.writestr(entry_of(member.name), member.reader()(member.count).tobytes())


def _write(
    archive: zipfile.ZipFile, member: Member, rows: int, blocks: Callable[[Callable[[int], Array]], Iterator[Array]]
) -> None:
    """Write an array of so many rows, of which ``blocks`` returns some at a time."""
    with archive.open(entry_of(member.name, rows * member.width), "w") as file:
        for block in blocks(member.reader()):
            file.write(np.ascontiguousarray(block).data)


def _rows(read: Callable[[int], Array], kept: Kept) -> Iterator[Array]:
    """Yield the rows that are kept."""
    for first in range(0, len(kept), ROWS_AT_ONCE):
        rows = kept[first : first + ROWS_AT_ONCE]
        yield read(len(rows))[rows]


def _points(read: Callable[[int], Array], lengths: npt.NDArray[np.int64], kept: Kept) -> Iterator[Array]:
    """Yield the rows of the points of streamlines that are kept."""
    ends, first = np.cumsum(lengths), 0
    while first < len(lengths):
        done = int(ends[first - 1]) if first else 0
        last = max(int(np.searchsorted(ends, done + ROWS_AT_ONCE, "right")), first + 1)
        block = slice(first, last)
        yield read(int(ends[last - 1]) - done)[np.repeat(kept[block], lengths[block])]
        first = last


def _write_offsets(archive: zipfile.ZipFile, member: Member, lengths: npt.NDArray[np.int64]) -> None:
    """Write where each streamline begins, and the end of the last one, in the type in which they were."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(member.kind)
    archive.writestr(entry_of(member.name), offsets.tobytes())


def _write_group(archive: zipfile.ZipFile, member: Member, kept: Kept) -> bool:
    """Write the numbers of the streamlines of a group that are kept, and return whether there are any.

    trx-python cannot map a group that has none.
    """
    numbers = member.reader()(member.count).ravel().astype(np.int64)
    numbers = (np.cumsum(kept) - 1)[numbers[kept[numbers]]]
    if len(numbers):
        archive.writestr(entry_of(member.name), numbers.astype(member.kind).tobytes())
    return len(numbers) > 0
