"""Images of MRtrix3, written byte by byte."""

from __future__ import annotations

import gzip

import numpy as np

SHAPE = (5, 4, 3, 7)
OBLIQUE = ["0.96,-0.28,0,-31.7", "0.28,0.96,0,12.3", "0,0,1,-5.1"]
UPRIGHT = ["0,0,-1,40.7", "1,0,0,-12.1", "0,-1,0,3.3"]  # the axes in another order, two of them turned
TYPES = {
    "Int8": "i1", "UInt8": "u1", "Int16LE": "<i2", "Int16BE": ">i2", "UInt16LE": "<u2", "UInt16BE": ">u2",
    "Int32LE": "<i4", "Int32BE": ">i4", "UInt32LE": "<u4", "UInt32BE": ">u4", "Int64LE": "<i8", "Int64BE": ">i8",
    "UInt64LE": "<u8", "UInt64BE": ">u8", "Float32LE": "<f4", "Float32BE": ">f4", "Float64LE": "<f8",
    "Float64BE": ">f8",
}
B = [[0, 0, 0, 0], [0.6, 0, 0.8, 1000], [0, 1, 0, 1000], [0, 0.6, 0.8, 1000], [1, 0, 0, 2000], [0, 0, 1, 2000],
     [0.8, 0.6, 0, 2000]]


def header(offset=4096, **fields):
    """The text of a header; a field of several lines is a list, and None leaves one out."""
    known = {
        "dim": ",".join(map(str, SHAPE)), "vox": "2,2.5,1.7,1", "layout": "+0,+1,+2,+3", "datatype": "Float32LE",
        "transform": OBLIQUE, "dw_scheme": [",".join(map(str, row)) for row in B], "file": f". {offset}", **fields,
    }
    lines = [(key, line) for key, value in known.items() if value is not None for line in np.atleast_1d(value)]
    return "\n".join(["mrtrix image", *(f"{key}: {line}" for key, line in lines), "END", ""]).encode()


def write(path, values=None, **fields):
    """Write an image of stored values, or of numbers for its type."""
    content = header(**fields)
    kind = TYPES.get(fields.get("datatype", ""), "<f4")
    if values is None:
        rng, ends = np.random.default_rng(3), np.iinfo(kind) if "f" not in kind else None
        # mrconvert scales there and back, and so changes larger integers
        most = 2**40 if ends is None else min(ends.max, 2**40)
        drawn = rng.normal(size=SHAPE) if ends is None else rng.integers(max(ends.min, -most), most, SHAPE)
        values = drawn.astype(kind).tobytes()
    assert len(content) <= 4096
    content = content.ljust(4096, b"\0") + values
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path
