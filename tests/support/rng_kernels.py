"""Kernels of random words, and the published answers."""

from __future__ import annotations

import numpy as np

from tistreamlines.linker.lang import Ints, Reals, func, i32, lane, lanes, put, u32
from tistreamlines.linker.rng import philox, uniform

# Random123's kat_vectors: counter, key, answer of philox4x32 with 10 rounds
KNOWN = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000", "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff", "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0", "d16cfe09 94fdcceb 5001e420 24126ea1"),
]


def words(text: str) -> np.ndarray:
    return np.array([int(w, 16) for w in text.split()], np.uint32).view(np.int32)


@func
def scalar_words(item: i32, counter: Ints, key: Ints, out: Ints):
    """One block, in halves of a word that fit any int."""
    w = philox(u32(counter[0]), u32(counter[1]), u32(counter[2]), u32(counter[3]), u32(key[0]), u32(key[1]))
    for i in range(4):
        out[2 * i] = i32(w[i] >> u32(16))
        out[2 * i + 1] = i32(w[i] & u32(0xFFFF))


@func
def lane_words(item: i32, counter: Ints, key: Ints, out: Ints):
    """32 blocks, the third word of the counter rising with the lane."""
    c2 = u32(counter[2]) + u32(lane())
    c0 = lanes(u32(counter[0]))
    c1 = lanes(u32(counter[1]))
    c3 = lanes(u32(counter[3]))
    w = philox(c0, c1, c2, c3, u32(key[0]), u32(key[1]))
    for i in range(4):
        put(out, 64 * i, i32(w[i] >> u32(16)))
        put(out, 64 * i + 32, i32(w[i] & u32(0xFFFF)))


@func
def uniforms(item: i32, counter: Ints, out: Reals):
    """A real of each word."""
    out[item] = uniform(u32(counter[item]))
