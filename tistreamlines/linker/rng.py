"""Philox4x32-10: random words that depend only on a counter and a key (Salmon et al. 2011, Random123).

The counter's four words, by whose draw it is:

============== ======= ============= ================== =======================================================
stream         word 0  word 1        word 2             word 3
============== ======= ============= ================== =======================================================
STEPPING       seed    steps, from 1 2 branch + side    number of the direction getter's draw, below 2**28
STEPPING       seed    0             0                  number of the draw for an initial direction: 0 or 1 for ``bedpostx``,
                                                        0 for ``sd_stream``, below 1000 for ``ifod1`` and ``ifod2``
SEEDING        seed    0 to 1999     0                  ``SEEDING << STREAM``
SEEDING        seed    0             branch + 1         ``SEEDING << STREAM``, the sense of a one-way streamline
STOPPING       seed    steps, from 0 2 branch + side    ``STOPPING << STREAM``, plus the number of the rule's draw
RESAMPLING     seed    steps, from 1 2 branch + side    ``RESAMPLING << STREAM``, plus the particle, or 32 for the choice
============== ======= ============= ================== =======================================================

``seed`` is the seed's number in the run, ``branch`` the number of the initial direction among the seed's, ``side`` 0
for the forward half and 1 for the backward half, ``steps`` the number of steps that lead to the point.  With particle
filtering, word 2 also counts the half's trials so far (times ``1 << TRIAL``) and, for the steps of a particle, the
particles from 1 (times ``1 << PARTICLE``). With backtracking it counts how often the half has gone back (times ``1 <<
PARTICLE``): steps that are taken again draw other numbers.
"""

from __future__ import annotations

from .lang import *

STREAM = 28  # place of the stream's number in the counter's last word
STEPPING, SEEDING, STOPPING, RESAMPLING = 0, 1, 2, 3
PARTICLE, TRIAL = 17, 23  # places in the counter's third word; below are 2 branch + side


@func
def philox(c0: u32, c1: u32, c2: u32, c3: u32, k0: u32, k1: u32) -> words:
    """Four random words for a counter of four words and a key of two."""
    for _ in rolled(10):
        high0 = umulhi(u32(0xD2511F53), c0)
        low0 = u32(0xD2511F53) * c0
        high1 = umulhi(u32(0xCD9E8D57), c2)
        low1 = u32(0xCD9E8D57) * c2
        c0 = (high1 ^ c1) ^ k0
        c1 = low1
        c2 = (high0 ^ c3) ^ k1
        c3 = low0
        k0 = k0 + u32(0x9E3779B9)
        k1 = k1 + u32(0xBB67AE85)
    return words(c0, c1, c2, c3)


@func
def uniform(word: u32) -> real:
    """A real in [0, 1) with 24 random bits."""
    return real(i32(word >> u32(8))) * 5.9604644775390625e-08
