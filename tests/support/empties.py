"""Tractograms with streamlines that have no points, which nibabel leaves out when it writes them."""

import json
import struct
import zipfile
from pathlib import Path

import nibabel as nib
import numpy as np


def write(path: Path, lines: list[np.ndarray], affine: np.ndarray, shape: tuple[int, ...], step: float = 1.0) -> Path:
    """Write a .tck, .trk or .trx; only the first has the step size, and not the grid."""
    lines = [np.asarray(line, np.float32).reshape(-1, 3) for line in lines]
    path.write_bytes(b"")
    {".tck": _tck, ".trk": _trk, ".trx": _trx}[path.suffix](path, lines, affine, shape, step)
    return path


def _tck(path, lines, affine, shape, step):
    rows = [np.concatenate([line, np.full((1, 3), np.nan, np.float32)]) for line in lines]
    header = f"mrtrix tracks\ndatatype: Float32LE\ncount: {len(lines)}\nstep_size: {step}\nfile: . 256\nEND\n"
    points = np.concatenate([*rows, np.full((1, 3), np.inf)]).astype("<f4")
    path.write_bytes(header.encode().ljust(256, b"\n") + points.tobytes())


def _trk(path, lines, affine, shape, step):
    sides = np.linalg.norm(affine[:3, :3], axis=0)
    header = nib.streamlines.trk.TrkFile.create_empty_header()
    header |= {
        "voxel_to_rasmm": affine, "dimensions": shape, "voxel_sizes": sides,
        "voxel_order": "".join(nib.aff2axcodes(affine)),
    }
    nib.streamlines.save(nib.streamlines.Tractogram([], affine_to_rasmm=np.eye(4)), str(path), header=header)
    content = bytearray(path.read_bytes()[:1000])
    content[988:992] = struct.pack("<i", len(lines))
    for line in lines:
        places = (nib.affines.apply_affine(np.linalg.inv(affine), line) + 0.5) * sides
        content += struct.pack("<i", len(line)) + places.astype("<f4").tobytes()
    path.write_bytes(bytes(content))


def _trx(path, lines, affine, shape, step):
    starts = np.cumsum([0, *map(len, lines)]).astype("<u8")
    header = {
        "DIMENSIONS": list(shape), "VOXEL_TO_RASMM": affine.tolist(), "NB_VERTICES": int(starts[-1]),
        "NB_STREAMLINES": len(lines),
    }
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("header.json", json.dumps(header))
        file.writestr("positions.3.float32", np.concatenate(lines).astype("<f4").tobytes())
        file.writestr("offsets.uint64", starts.tobytes())
