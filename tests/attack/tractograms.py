"""Tractograms that are damaged, empty or odd, of which matrices and maps are made."""

from __future__ import annotations

import random
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .damage import damage
from .material import LABELS, LINES
from .products import DONE, EITHER, MATRIX, OTHER, REFUSED, SAME, judged
from .room import Room, number_up_to

GRID = ("--density-grid", "stop.nii.gz")
Lines = list[Any]


def _point(value: float) -> Callable[[Lines], Lines]:
    """One coordinate of a value."""

    def changed(lines: Lines) -> Lines:
        lines[3] = lines[3].copy()
        lines[3][2, 1] = value
        return lines

    return changed


# how streamlines change -> exit codes
CONTENTS: dict[str, tuple[Callable[[Lines], Lines], tuple[int, ...]]] = {
    "as they are": (lambda lines: lines, DONE),
    "none": (lambda lines: [], DONE),
    "one": (lambda lines: lines[:1], DONE),
    "single points": (lambda lines: [line[:1] for line in lines], DONE),
    "two points": (lambda lines: [line[[0, -1]] for line in lines], DONE),
    "some without points": (lambda lines: [line[:0] if k % 3 == 0 else line for k, line in enumerate(lines)], EITHER),
    "points that repeat": (lambda lines: [line[[0] * 5] for line in lines], DONE),
    "far away": (lambda lines: [line + 9e5 for line in lines], DONE),
    "too far": (lambda lines: [line + 2e6 for line in lines], REFUSED),
    "farther": (lambda lines: [line * 1e30 for line in lines], REFUSED),
    "NaN": (_point(float("nan")), REFUSED),
    "infinite": (_point(float("inf")), REFUSED),
    "a leap": (_point(1e7), REFUSED),
    "NaN everywhere": (lambda lines: [line * float("nan") for line in lines], EITHER),
}
# lines of the header of a .tck -> what they become, and exit codes
TCK: dict[str, tuple[bytes, bytes, tuple[int, ...], str | None]] = {
    "no count": (b"count: ", b"tnuoc: ", DONE, SAME),
    "another count": (b"count: 00", b"count: 99", EITHER, OTHER),
    "no END": (b"\nEND\n", b"\nEDN\n", REFUSED, OTHER),
    "another type": (b"Float32LE", b"Float16LE", REFUSED, OTHER),
    "another order": (b"Float32LE", b"Float32BE", EITHER, OTHER),
    "reals of 64 bits": (b"Float32LE", b"Float64LE", EITHER, OTHER),
    "no type": (b"datatype: Float32LE\n", b"", EITHER, OTHER),
    "data elsewhere": (b"file: . ", b"file: . 9", EITHER, OTHER),
    "data in a file": (b"file: . ", b"file: other.dat ", REFUSED, OTHER),
    "no place of the data": (b"file: . ", b"place: ", EITHER, OTHER),
    "no magic": (b"mrtrix tracks", b"mrtrix images", REFUSED, OTHER),
}
# place and form of a field of the header of a .trk -> values
TRK: dict[str, tuple[int, str, tuple[Any, ...]]] = {
    "magic": (0, "6s", (b"TRACK\0", b"TRICK\0")), "dim": (6, "3h", ((0, 0, 0), (-1, 2, 3), (1, 1, 1))),
    "voxel_size": (12, "3f", ((0, 0, 0), (float("nan"), 1, 1), (1e-30, 1, 1), (-1, 1, 1))),
    "n_scalars": (36, "h", (0, 1, -1, 9, 32767)), "n_properties": (238, "h", (0, 1, -1, 9)),
    "affine": (440, "16f", ((0.0,) * 16, (1.0,) * 16, (float("nan"),) * 16)),
    "voxel_order": (948, "4s", (b"", b"LPS\0", b"XYZ\0", b"LLL\0", b"\xff\xff\xff\0")),
    "n_count": (988, "i", (-1, 7, 10**9)), "version": (992, "i", (0, 1, 2, 3, -5)),
    "hdr_size": (996, "i", (0, 1000, 999, -1)),
}


def contents(rng: random.Random, room: Room) -> list[str]:
    """Write odd streamlines, in any format, and map them."""
    name, suffix = rng.choice(sorted(CONTENTS)), rng.choice((".tck", ".trk", ".trx"))
    change, codes = CONTENTS[name]
    if suffix == ".tck" and name.startswith("NaN"):
        codes = EITHER  # a point of NaN is the end of a streamline there
    room.did.append(f"{name} as {suffix}")
    write(room.inputs / f"odd{suffix}", change(lines_of(room)), rng.choice(("f4", "f4", "f8")))
    return _mapped(rng, room, f"odd{suffix}", codes, SAME if name == "as they are" and suffix == ".tck" else OTHER)


def damaged(rng: random.Random, room: Room) -> list[str]:
    """Damage a tractogram; one that is cut has to be refused."""
    suffix = rng.choice((".tck", ".trk", ".trx"))
    path = room.inputs / f"odd{suffix}"
    if suffix == ".trx" and rng.random() < 0.5:
        path.write_bytes((room.inputs / LINES).read_bytes())
    else:
        write(path, lines_of(room), "f4")
    how = damage(rng, path)
    room.did.append(f"{how} {path.name}")
    return _mapped(rng, room, path.name, REFUSED if how.startswith("cut") else EITHER, OTHER)


def headers(rng: random.Random, room: Room) -> list[str]:
    """Change a field of a header."""
    if rng.random() < 0.5:
        path, name = room.inputs / "odd.tck", rng.choice(sorted(TCK))
        write(path, lines_of(room), "f4")
        before, after, codes, run = TCK[name]
        path.write_bytes(path.read_bytes().replace(before, after, 1))
        room.did.append(f"{name} of .tck")
        return _mapped(rng, room, path.name, codes, run)
    path, name = room.inputs / "odd.trk", rng.choice(sorted(TRK))
    write(path, lines_of(room), "f4")
    place, form, values = TRK[name]
    value = rng.choice(values)
    content = bytearray(path.read_bytes())
    packed = struct.pack("<" + form, *(value if isinstance(value, tuple) else (value,)))
    content[place : place + len(packed)] = packed
    path.write_bytes(content)
    room.did.append(f"{name} of .trk is {value!r}")
    return _mapped(rng, room, path.name, EITHER, OTHER)


def counts(rng: random.Random, room: Room) -> list[str]:
    """Cut a .trk between records, or count other streamlines than there are: it is read whole, or refused."""
    path = room.inputs / "odd.trk"
    lines = lines_of(room)
    write(path, lines, "f4")
    content = bytearray(path.read_bytes())
    starts = [1000]
    for line in lines:
        starts.append(starts[-1] + 4 + 12 * len(line))
    kept, counted = rng.choice((len(lines), rng.randrange(len(lines)))), rng.choice((0, -1, None, rng.randrange(1, 99)))
    counted = kept if counted is None else counted
    more = rng.choice((b"", b"", b"\0", rng.randbytes(number_up_to(rng, 40))))
    content[988:992] = struct.pack("<i", counted)
    path.write_bytes(content[: starts[kept]] + more)
    room.did.append(f"{kept} of {len(lines)} streamlines, n_count {counted}, {len(more)} bytes behind them")
    right = counted in (0, -1, kept) and not more
    return _mapped(rng, room, path.name, DONE if right else EITHER if counted < 1 else REFUSED, OTHER)


def members(rng: random.Random, room: Room) -> list[str]:
    """Change the members of a .trx, or give a file or folder of another kind under a tractogram's name."""
    path = room.inputs / "odd.trx"
    with zipfile.ZipFile(room.inputs / LINES) as file:
        held = {name: file.read(name) for name in file.namelist()}
    how = rng.choice(("remove", "empty", "shorten", "rename", "header", "add", "folder", "other"))
    name = rng.choice(sorted(held))
    room.did.append(f"{how} {name}")
    if how in ("folder", "other"):
        path = path.with_suffix(rng.choice((".trx", ".tck", ".trk", ".TRX", ".vtk", "")))
        path.mkdir() if how == "folder" else path.write_bytes((room.inputs / "dwi.bvec").read_bytes())
        return _mapped(rng, room, path.name, REFUSED, OTHER)
    content = held.pop(name)
    if how == "header":
        values = (b"{}", b"[]", b"null", b"{", b'{"NB_VERTICES": 5, "NB_STREAMLINES": -1}')
        held[name], held["header.json"] = content, rng.choice(values)
    elif how != "remove":
        stem = rng.choice(("positions.3.float16", "../x", "offsets.uint32", "dps/a.float32", "x", "dpv/b.7.int8"))
        held[stem if how in ("rename", "add") else name] = {"empty": b"", "shorten": content[:-3]}.get(how, content)
        held |= {name: content} if how == "add" else {}
    with zipfile.ZipFile(path, "w") as file:
        for member, what in held.items():
            file.writestr(member, what)
    return _mapped(rng, room, path.name, EITHER, OTHER)


def _mapped(rng: random.Random, room: Room, name: str, codes: tuple[int, ...], run: str | None) -> list[str]:
    more: tuple[str, ...] = rng.choice(((), ("--ends", "../out/e.nii.gz", *GRID), ("--density", "../out/d.nii", *GRID)))
    if more and codes == DONE and "far" in room.did[-1]:
        codes = EITHER  # beyond the integers of a grid
    return judged(room, room.run(["map", name, "--connectome", LABELS, f"../out/{MATRIX}", *more]), codes, run)


def lines_of(room: Room) -> Lines:
    """Return the streamlines of the material."""
    import numpy as np

    from tistreamlines.io.tractograms import stored_batches

    batches = stored_batches(room.inputs / LINES)
    return [line for batch in batches for line in np.split(batch.points, batch.offsets[1:-1])]


def write(path: Path, lines: Lines, kind: str) -> None:
    """Write streamlines with the libraries that other programs use; ``kind`` is that of the points of a .trx."""
    import nibabel as nib
    import numpy as np

    stop = nib.load(path.parent / "stop.nii.gz")
    with np.errstate(all="ignore"):
        if path.suffix == ".trx":
            from trx.trx_file_memmap import TrxFile, save

            file = TrxFile.from_tractogram(
                nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4)), reference=stop,
                dtype_dict={"positions": np.dtype(kind), "offsets": np.dtype("u8"), "dpv": {}, "dps": {}},
            )
            save(file, str(path))
            file.close()
            return
        header = nib.streamlines.trk.TrkFile.create_empty_header()
        header |= {"voxel_to_rasmm": stop.affine, "dimensions": stop.shape, "voxel_sizes": stop.header.get_zooms()[:3],
                   "voxel_order": "".join(nib.aff2axcodes(stop.affine))}
        tractogram = nib.streamlines.Tractogram(lines, affine_to_rasmm=np.eye(4))
        nib.streamlines.save(tractogram, str(path), header=header if path.suffix == ".trk" else None)
