"""Kernels that call the parts of SD_STREAM, and codes of directions."""

from __future__ import annotations

import numpy as np
from dialects import ints, reals, run

from tistreamlines.kernels.getters.along_peaks import SdStream, SdStreamScratch, peak_from
from tistreamlines.kernels.getters.shared import decode_direction, encode_direction
from tistreamlines.kernels.interpolate import ROW_CHUNKS
from tistreamlines.linker.lang import Ints, Reals, at, barrier, each, func, i32, put, vec3


@func
def encode(item: i32, directions: Reals, codes: Ints):
    """The codes of 32 directions, whose x, y and z are 32 apart."""
    c = 96 * item
    put(codes, 32 * item, encode_direction(vec3(at(directions, c), at(directions, c + 32), at(directions, c + 64))))


@func
def decode(item: i32, codes: Ints, directions: Reals):
    """The directions of 32 codes."""
    d = decode_direction(at(codes, 32 * item))
    for i in range(3):
        put(directions, 96 * item + 32 * i, d[i])


@func
def peaks(
    item: i32, method: SdStream, scratch: SdStreamScratch, rows: Reals, directions: Reals, codes: Ints,
    amplitudes: Reals,
):
    """Code and amplitude of the peak of a row, uphill from a direction."""
    barrier()
    for i in each(32 * ROW_CHUNKS):
        scratch.row[i] = rows[32 * ROW_CHUNKS * item + i]
    d = vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2])
    codes[item] = peak_from(method, scratch, d)
    amplitudes[item] = scratch.amplitudes[0]


def codes_of(directions, dialect):
    """Codes of directions (32 n, 3)."""
    lanewise = np.moveaxis(directions.reshape(-1, 32, 3), 1, 2)
    values = {"directions": lanewise, "codes": ints(len(directions))}
    return np.asarray(run(dialect, encode, len(lanewise), values)["codes"])


def directions_of(codes, dialect="python"):
    """The directions (n, 3) of codes."""
    n = len(codes)
    padded = np.resize(np.asarray(codes, np.int32), 32 * -(-n // 32))
    out = run(dialect, decode, len(padded) // 32, {"codes": padded, "directions": reals(3 * len(padded))})
    return np.asarray(out["directions"]).reshape(-1, 3, 32).swapaxes(1, 2).reshape(-1, 3)[:n]
