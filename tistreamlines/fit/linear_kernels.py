"""The kernel of CSA and OPDT, whose coefficients are sums over transformed signals: a voxel, by a team of 32 lanes.

A lane first transforms one of 32 signals, then adds the products of all 32 to one coefficient. So additions have a fixed
order, and one compiled kernel serves all orders and numbers of volumes. Reals have 64 bits, since logarithms of signals
next to the unweighted one lose their first digits.
"""

from ..linker.lang import *
from ..linker.wide_maths import inverse, log_of_bits, wide_log

OPDT = Constant("1: OPDT, 0: CSA")
MOST_CHUNKS = 3  # of 32 coefficients: order 12 has 91
TOO_GREAT = 0x7E000000  # bits of 2^125: a signal from here on is none, and infinity stands for it
INFINITE = 0x7F800000
GREATEST = 4.3e37  # no mean is above this unless a signal is infinite
LARGEST = 3.4e38  # a coefficient that float32 can hold
LEAST_DECAY, MOST_DECAY = 0.0010005003335835335, 6.907755278982137  # logarithms of DIPY's limits, 0.999 and 0.001


class Layout(Record):
    """Sizes: a voxel has so many ``volumes``, of which ``weighted`` are transformed, from the ``first`` one on.

    Unweighted volumes may be among these. Coefficients lie in ``chunks`` of 32. ``least`` has the bits of the least signal.
    """

    volumes: i32
    first: i32
    weighted: i32
    unweighted: i32
    chunks: i32
    least: i32


class Tables(Record):
    """Numbers of the unweighted volumes; and the model in chunks of 32 coefficients: constants, and a row for each signal.

    Rows of OPDT for transformed signals come first, then those for signals. Rows of unweighted volumes are 0.
    """

    unweighted: Ints
    constants: Reals
    matrix: Reals


class Working(Record):
    """Team memory: 32 transformed signals, with OPDT 32 signals after them, and the sums of all coefficients."""

    values: Reals
    sums: Reals

    @staticmethod
    def sizes(part):
        return {"values": 32 * (1 + part.opdt), "sums": 32 * MOST_CHUNKS}


@func
def clipped(word: i32, least: i32) -> i32:
    """Bits of a signal, raised to the least; those of infinity if it is too great or no number."""
    return where((word & 0x7FFFFFFF) < TOO_GREAT, maximum(word, least), INFINITE)


@func
def unweighted_mean(start: i32, layout: Layout, tables: Tables, signals: Ints) -> real:
    """Mean of a voxel's unweighted signals."""
    total = 0.0
    for k in range(layout.unweighted):
        total = total + real(from_bits(clipped(signals[start + tables.unweighted[k]], layout.least)))
    return total * inverse(real(layout.unweighted))


@func
def transform(words: i32, mean: real, log_mean: real, values: Reals):
    """Transforms of 32 signals, in which the coefficients are linear."""
    decay = log_mean - log_of_bits(words)
    if OPDT == 1:
        share = real(from_bits(words)) * inverse(mean)
        put(values, 0, decay * (1.5 - decay) * share)
        put(values, 32, share)
    else:
        put(values, 0, wide_log(minimum(maximum(decay, LEAST_DECAY), MOST_DECAY)))


@func
def add_products(first: i32, count: i32, layout: Layout, tables: Tables, work: Working):
    """Add the products of some signals to all coefficients."""
    for h in range(layout.chunks):
        total = at(work.sums, 32 * h)
        for kind in range(1 + OPDT):
            row = layout.weighted * ((1 + OPDT) * h + kind) + first
            for i in range(count):
                total = total + at(tables.matrix, 32 * (row + i)) * work.values[32 * kind + i]
        put(work.sums, 32 * h, total)


@func
def fit_voxel(item: i32, layout: Layout, tables: Tables, signals: Ints, work: Working, out: Ints):
    """Coefficients of a voxel, as the bits of float32; all 0 if a signal is no number, or too great.

    Signals are the bits of float32, in rows of ``volumes``. Lanes read beyond their end.
    """
    start = layout.volumes * item
    mean = unweighted_mean(start, layout, tables, signals)
    log_mean = wide_log(mean)
    for h in range(layout.chunks):
        put(work.sums, 32 * h, at(tables.constants, 32 * h))
    greatest = lanes(0)
    for turn in range((layout.weighted + 31) // 32):
        first = 32 * turn
        count = minimum(32, layout.weighted - first)
        words = clipped(at(signals, start + layout.first + first), layout.least)
        greatest = maximum(greatest, where(lane() < count, words, 0))
        barrier()
        transform(words, mean, log_mean, work.values)
        barrier()
        add_products(first, count, layout, tables, work)
    sound = where(mean < GREATEST, 1 - team_any(greatest == INFINITE), 0)
    for h in range(layout.chunks):
        total = at(work.sums, 32 * h)
        put(out, 32 * (layout.chunks * item + h), bits(where((sound == 1) & (absolute(total) < LARGEST), total, 0.0)))
