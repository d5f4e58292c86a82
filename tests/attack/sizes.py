"""Files whose headers promise less or more than there is: neither time nor memory may follow."""

from __future__ import annotations

import gzip
import random
import resource
from functools import partial
from pathlib import Path

from .material import LABELS, LINES
from .products import DONE, EITHER, MATRIX, OTHER, REFUSED, SAME, judged, mapped
from .room import Room

MEMORY = 3 << 29  # bytes of addresses, of which the libraries take half
BLOCK = bytes(1 << 24)
NIFTI = {"dim": (42, 6), "dim[0]": (40, 2), "pixdim": (80, 12), "vox_offset": (108, 4), "datatype": (70, 4)}


def packed(rng: random.Random, room: Room) -> list[str]:
    """Pack gigabytes of zeros behind a parcellation, or let its header promise other sizes."""
    content = bytearray(gzip.decompress((room.inputs / LABELS).read_bytes()))
    path, field = room.inputs / "odd.nii.gz", rng.choice((None, None, *sorted(NIFTI)))
    if field is not None:
        place, size = NIFTI[field]
        content[place : place + size] = rng.choice((b"\xff\x7f" * 6, b"\0\0" * 6, rng.randbytes(12)))[:size]
    blocks = rng.choice((0, 1, 130))
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(content)
        for _ in range(blocks):
            file.write(BLOCK)
    room.did.append(f"{blocks} blocks of 16 MB behind the values, {field or 'nothing'} changed")
    return _limited(room, path.name, DONE if field is None else EITHER, SAME if field is None else OTHER)


def long_files(rng: random.Random, room: Room) -> list[str]:
    """Give files of 256 MB of one byte, whose first lines are right."""
    name = rng.choice(("tracks", "tracks without END", "image without END", "table", "surface"))
    filling = rng.choice((b"\0", b"\n", b" ", b"x", b"a: b\n", b'"'))
    room.did.append(f"{name} of {filling!r}")
    heads = {
        "tracks": (b"mrtrix tracks\ndatatype: Float32LE\nfile: . 64\nEND\n", "odd.tck"),
        "tracks without END": (b"mrtrix tracks\ndatatype: Float32LE\n", "odd.tck"),
        "image without END": (b"mrtrix image\ndim: 3,3,3\n", "odd.mif"), "table": (b"1 one\n2 ", "odd.txt"),
        "surface": (b'<?xml version="1.0"?>\n<GIFTI Version="1.0">', "odd.gii"),
    }
    head, file = heads[name]
    _fill(room.inputs / file, head, filling)
    if file.endswith(".tck"):
        return judged(room, _run(room, ["map", file, "--ends", "../out/e.nii", "--density-voxel", "9"]), REFUSED, OTHER)
    if file.endswith(".txt"):
        return mapped(room, LABELS, "--connectome-nodes", file, codes=REFUSED)
    return _limited(room, file, REFUSED, OTHER)


def grids(rng: random.Random, room: Room) -> list[str]:
    """Ask for a map of more voxels than the limit of memory allows."""
    import nibabel as nib
    import numpy as np

    side = rng.choice((700, 1000, 1020, 5000, 30_000))
    image = nib.Nifti1Image(np.zeros((2, 2, 2), "u1"), np.diag([0.2, 0.2, 0.2, 1]))
    image.header.set_data_shape((side, side, side))
    (room.inputs / "odd.nii").write_bytes(image.header.binaryblock + bytes(12))
    kind = rng.choice((("--ends",), ("--density-kind", "direction", "--density"), ("--density",)))
    limit = rng.choice((["--memory-limit", "0.5"], ["--memory-limit", "1e-3"]))
    program = ["map", LINES, *kind, "../out/e.nii", "--density-grid", "odd.nii", *limit]
    return judged(room, _run(room, program), REFUSED, OTHER)


def _fill(path: Path, head: bytes, filling: bytes) -> None:
    """Write a file of 256 MB, which takes no space if it is of zeros."""
    with path.open("wb") as file:
        file.write(head)
        if filling != b"\0":
            for _ in range(4):
                file.write((filling * len(BLOCK))[: len(BLOCK)])
        file.truncate(1 << 28)


def _limited(room: Room, labels: str, codes: tuple[int, ...], run: str | None) -> list[str]:
    program = ["map", LINES, "--connectome", labels, f"../out/{MATRIX}"]
    return judged(room, _run(room, program), codes, run)


def _run(room: Room, program: list[str]) -> object:
    return room.run(program, setup=partial(resource.setrlimit, resource.RLIMIT_AS, (MEMORY, MEMORY)), real=())
