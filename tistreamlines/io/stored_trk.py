"""Reading of TRK files (TrackVis) of any program: a header that is checked, and records that are counted."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..space.batch import MOST_POINTS
from .trk import moved

SIZE, WORD = 1000, 4  # bytes of the header, and of a number
WORDS_AT_ONCE = 1 << 20
VERSIONS = (1, 2, 3)  # the first has no matrix; nibabel, too, reads the third as the second
AXES = str.maketrans("RLAPSI", "xxyyzz")
UNPLACED = "docs/troubleshooting.md says how to add it"


@dataclass(frozen=True, eq=False)
class TrkHeader:
    """What a TRK file says of itself.

    Parameters
    ----------
    path : Path
    order : str
        Of bytes, '<' or '>'.
    affine : (4, 4) float64
        From voxels to RASmm.
    shape : tuple of int
        Of the image that the streamlines belong to.
    to_rasmm : (4, 4) float64
        From the coordinates in the file, mm from the corner of the first voxel, to RASmm.
    values : tuple of int
        How many numbers follow the coordinates of a point, and how many follow the points of a streamline.
    count : int
        Of streamlines; 0 if it is unknown.
    doubts : tuple of str
        What the header lacks, and what is taken in its place.
    """

    path: Path
    order: str
    affine: npt.NDArray[np.float64]
    shape: tuple[int, int, int]
    to_rasmm: npt.NDArray[np.float64]
    values: tuple[int, int]
    count: int
    doubts: tuple[str, ...]


def header_of_trk(path: Path) -> TrkHeader:
    """Read the header of a TRK file.

    Raises
    ------
    InputError
        If it is no header of TrackVis, or says what cannot be.
    """
    from nibabel.streamlines.trk import get_affine_trackvis_to_rasmm, header_2_dtype

    with path.open("rb") as file:
        content = file.read(SIZE)
    if not content.startswith(b"TRACK") or len(content) < SIZE:
        raise InputError(f"{path}: does not begin with a header of TrackVis; give a .trk file")
    sizes = {order: int(np.frombuffer(content, f"{order}i4", 1, SIZE - WORD)[0]) for order in "<>"}
    order = "<" if sizes["<"] == SIZE else ">"
    if sizes[order] != SIZE:
        raise _fault(path, "hdr_size", sizes["<"], f"it has to be {SIZE}")
    header: np.void = np.frombuffer(bytearray(content), header_2_dtype.newbyteorder(order))[0]
    if header["version"] not in VERSIONS:
        raise _fault(path, "version", header["version"], "it has to be 1, 2 or 3")
    doubts = []
    if header["version"] == 1 or header["voxel_to_rasmm"][3, 3] == 0:
        header["voxel_to_rasmm"] = np.eye(4)
        doubts.append(
            f"{path}: has no vox_to_ras, as from TrackVis before version 2: voxel coordinates are taken as RASmm, as "
            f"nibabel takes them; {UNPLACED}"
        )
    if not header["voxel_order"]:
        header["voxel_order"] = b"LPS"
        doubts.append(f"{path}: has no voxel_order: LPS is taken, TrackVis's default; {UNPLACED}")
    _check(path, header)
    affine = header["voxel_to_rasmm"].astype(np.float64)
    with np.errstate(all="ignore"):  # a matrix that is not finite is told of
        to_rasmm = get_affine_trackvis_to_rasmm(header).astype(np.float64)
    if not np.isfinite(to_rasmm).all():
        raise _fault(path, "vox_to_ras", affine.tolist(), "it has to be an affine that can be inverted")
    return TrkHeader(
        path, order, affine, tuple(header["dimensions"].tolist()), to_rasmm,
        (int(header["nb_scalars_per_point"]), int(header["nb_properties_per_streamline"])),
        max(0, int(header["nb_streamlines"])), tuple(doubts),
    )


def _check(path: Path, header: np.void) -> None:
    """Raise an InputError at the first field whose value cannot be."""
    from nibabel.orientations import aff2axcodes

    sizes, affine = header["voxel_sizes"], header["voxel_to_rasmm"].astype(np.float64)
    if not (np.isfinite(sizes).all() and sizes.all()):
        raise _fault(path, "voxel_size", sizes.tolist(), "each has to be above 0 mm")
    if not np.isfinite(affine).all() or np.linalg.matrix_rank(affine[:3, :3]) < 3 or None in aff2axcodes(affine):
        raise _fault(path, "vox_to_ras", affine.tolist(), "it has to be an affine that can be inverted")
    order = header["voxel_order"].decode("latin1").upper()
    if sorted(order.translate(AXES)) != [*"xyz"]:
        raise _fault(path, "voxel_order", repr(order), "it has to be three letters such as LPS")
    if order != "".join(aff2axcodes(affine)) and not (header["dimensions"] > 0).all():
        raise _fault(path, "dim", header["dimensions"].tolist(), f"they have to be above 0, since voxel_order, "
                     f"{order}, is not that of vox_to_ras")
    for name in ("nb_scalars_per_point", "nb_properties_per_streamline"):
        if header[name] < 0:
            raise _fault(path, {"nb_s": "n_scalars", "nb_p": "n_properties"}[name[:4]], header[name], "give 0 or more")


def _fault(path: Path, field: str, value: object, needed: str) -> InputError:
    return InputError(f"{path}: its header has {field} {value}: {needed}; write the tractogram again")


def streamlines_of_trk(
    header: TrkHeader,
) -> Generator[tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]], None, None]:
    """Read the streamlines, some of them at a time.

    Yields
    ------
    points : (p, 3) float32, RASmm
    lengths : (n,) int64
        How many points each streamline has.

    Raises
    ------
    InputError
        If the file ends within a streamline, or has another number of them than its header says.
    """
    (scalars, properties), number, size = header.values, 0, 0
    width, held = 3 + scalars, np.empty(0, np.int32)
    left, rest = divmod(header.path.stat().st_size - SIZE, WORD)
    with header.path.open("rb") as file:
        file.seek(SIZE)
        while left or len(held):
            block = np.fromfile(file, f"{header.order}i4", max(WORDS_AT_ONCE, size - len(held)))
            left, held = left - len(block), np.concatenate([held, block.astype(np.int32, copy=False)])
            starts, place = [], 0
            while place < len(held):
                count = int(held[place])
                size = 1 + width * count + properties
                if not 0 <= count <= MOST_POINTS or size > len(held) - place + left:
                    raise _wrong(header, number + len(starts))
                if size > len(held) - place:
                    break
                starts.append(place)
                place += size
            number += len(starts)
            lengths = held[starts].astype(np.int64)
            rows = [held[a + 1 : a + 1 + width * n] for a, n in zip(starts, lengths.tolist(), strict=True)]
            values = np.concatenate([held[:0], *rows]).view(np.float32).reshape(-1, width)
            yield moved(values[:, :3], header.to_rasmm), lengths
            held = held[place:]
            if 0 < header.count < number:
                raise _wrong(header, number)
    if rest or number < header.count:
        raise _wrong(header, number)


def _wrong(header: TrkHeader, number: int) -> InputError:
    """Return the error of a file whose content ends badly behind so many streamlines."""
    if header.count and number >= header.count:
        return InputError(
            f"{header.path}: its header tells of {header.count:,} streamlines (n_count), but more follows; write it "
            "again, or set n_count to 0 if all of it is right"
        )
    total = f" of {header.count:,}" if header.count else ""
    return InputError(
        f"{header.path}: ends behind streamline {number:,}{total}, or is damaged there; copy or create it again"
    )
