"""A method for the tests: the kernel file, as small as one can be; ``toys`` has its host side and its row."""

from __future__ import annotations

from tistreamlines.kernels.orientation.peaks import VERTEX_CHUNKS
from tistreamlines.kernels.orientation.pmf import Pmf, PmfScratch, probability, sample, toward
from tistreamlines.linker.lang import *


@func
def next_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of the direction closest to the heading among those whose value is high enough, or NONE."""
    barrier()
    high = sample(method, scratch, heading, method.rule.cos_angle)
    best = lanes(0.0)
    number = lanes(-1)
    for chunk in range(VERTEX_CHUNKS):
        c = chunk * 32
        x = at(method.sphere.vertices, c)
        y = at(method.sphere.vertices, c + 32 * VERTEX_CHUNKS)
        z = at(method.sphere.vertices, c + 64 * VERTEX_CHUNKS)
        cosine = absolute((x * heading[0] + y * heading[1]) + z * heading[2])
        better = (probability(scratch.pmf, c, method.threshold * high) > 0.0) & (cosine > best)
        number = where(better, lane() + c, number)
        best = where(better, cosine, best)
    straightest = team_max(best)
    first = team_min(where((number >= 0) & (best == straightest), real(number), 1.0e9))
    chosen = -1
    if first < 1.0e9:
        chosen = i32(first)
    return toward(method.sphere, chosen, heading)
