"""The kernel of constrained spherical deconvolution: the normal equations of each voxel, by a team of 32 lanes.

The equations are solved again for each set of constrained directions. Each of these adds its square to the matrix, whose
Cholesky factor is computed anew. Additions have a fixed order, and no addition is fused with a product.

Of a symmetric matrix and of a factor, four rows make a block, and have the columns from the first of these rows on, in
chunks of 32. The right-hand side is the column after the last one. What lies beyond it is never read.

Of n directions, lane l has those from l GROUPS on, so that the lists of :func:`collect` keep their order. The tables of
directions have the k-th one of lane l in row or column ``32 k + l``.

Reals have 64 bits.
"""

from ..linker.lang import *
from ..linker.maths_wide import divide, square_root

COEFFICIENTS = Constant("coefficients of a voxel")
SIZE = Constant("COEFFICIENTS, rounded up to a multiple of 32")
WIDTH = Constant("COEFFICIENTS and the right-hand side, rounded up to a multiple of 4")
BLOCKS = Constant("blocks of four rows")
CHUNKS = Constant("chunks of 32 columns of the first block")
SHIFT = Constant("blocks by which the first eight that have as many chunks are fewer than eight")
FEW = Constant("coefficients that choose the first set of directions")
DIRECTIONS = Constant("directions of the constraint")
GROUPS = Constant("directions of a lane")
VOLUMES = Constant("volumes that are fitted")
RUN = Constant("voxels that a team fits one after the other")
MATRIX = Constant("elements from the matrix of a run to that of the next one; 0 in team memory")
FACTOR = Constant("the same of the factor")
CONVERGED, UNFINISHED, SINGULAR = 0, 1, 2


class Equations(Record):
    """Tables of all voxels.

    ``moments`` and ``unconstrained`` map signals to the right-hand side and to the solution without a constraint, and
    ``sampling`` maps coefficients to amplitudes times the weight; all three in chunks of 32 columns. ``table`` has a row
    of WIDTH for each direction, and ``limits`` the two factors of the threshold.
    """

    moments: Reals
    unconstrained: Reals
    normal: Reals
    table: Reals
    sampling: Reals
    limits: Reals


class Working(Record):
    """Team memory: right-hand side, solution without a constraint, solution, and a list of directions."""

    z: Reals
    start: Reals
    x: Reals
    listed: Reals
    count: Reals

    @staticmethod
    def sizes(part):
        return dict.fromkeys(("z", "start", "x"), part.size) | {"listed": 32 * part.groups, "count": 1}


@func
def first_of(block: i32) -> i32:
    """Where a block begins."""
    later = block + SHIFT
    steps = later >> 3
    return 128 * (CHUNKS * block - steps * (later - 4 * steps - 4))


@func
def chunks_of(block: i32) -> i32:
    """Chunks of each row of a block."""
    return CHUNKS - ((block + SHIFT) >> 3)


@func
def take_signals(voxel: i32, signals: Ints, equations: Equations, work: Working):
    """Compute the right-hand side, and the solution without a constraint."""
    for h in range(SIZE // 32):
        begin = 32 * VOLUMES * h
        signal = real(from_bits(signals[VOLUMES * voxel]))
        moment = at(equations.moments, begin) * signal
        start = at(equations.unconstrained, begin) * signal
        for number in range(VOLUMES - 1):
            place = begin + 32 * (number + 1)
            signal = real(from_bits(signals[VOLUMES * voxel + number + 1]))
            moment = moment + at(equations.moments, place) * signal
            start = start + at(equations.unconstrained, place) * signal
        put(work.z, 32 * h, moment)
        put(work.start, 32 * h, start)
    barrier()


@func
def small_amplitudes(count: i32, threshold: real, x: Reals, sampling: Reals) -> i32:
    """Mark the directions whose amplitude, of the first coefficients alone, is below the threshold: a bit for each group."""
    marks = lanes(0)
    for group in range(GROUPS):
        begin = 32 * COEFFICIENTS * group
        total = at(sampling, begin) * x[0]
        for i in range(count - 1):
            total = total + at(sampling, begin + 32 * (i + 1)) * x[i + 1]
        small = (total < threshold) & (GROUPS * lane() + group < DIRECTIONS)
        marks = marks | where(small, 1 << group, 0)
    return marks


@func
def set_matrix(home: i32, work: Working, normal: Reals, matrix: Reals):
    """Set the matrix to that of the unconstrained problem, with the right-hand side."""
    for block in range(BLOCKS):
        chunks = chunks_of(block)
        for row in range(4):
            moment = work.z[minimum(4 * block + row, COEFFICIENTS - 1)]
            for h in range(chunks):
                place = first_of(block) + 32 * (chunks * row + h)
                column = 4 * block + 32 * h + lane()
                put(matrix, home + place, where(column == COEFFICIENTS, moment, at(normal, place)))


@func
def add_squares(sign: real, marks: i32, home: i32, work: Working, table: Reals, matrix: Reals):
    """Add ``sign`` times t t' to the matrix, for the row t of each marked direction."""
    collect(work.listed, work.count, marks, 32 * GROUPS)
    barrier()
    count = i32(work.count[0])
    for block in range(BLOCKS):
        chunks = chunks_of(block)
        for row in range(4):
            for h in range(chunks):
                place = home + first_of(block) + 32 * (chunks * row + h)
                total = at(matrix, place)
                for number in range(count):
                    t = WIDTH * i32(work.listed[number]) + 4 * block
                    total = total + (sign * table[t + row]) * at(table, t + 32 * h)
                put(matrix, place, total)
    barrier()


@func
def reduce_block(block: i32, place: i32, home: i32, matrix: Reals, factor: Reals):
    """Subtract the products of all rows before a block of the factor from those of the matrix, which become its rows."""
    chunks = chunks_of(block)
    for row in range(4):
        for h in range(chunks):
            begin = first_of(block) + 32 * (chunks * row + h)
            total = at(matrix, place + begin)
            for earlier in range(block):
                for part in unrolled(4):
                    u = home + first_of(earlier) + 32 * chunks_of(earlier) * part + 4 * (block - earlier)
                    total = total - factor[u + row] * at(factor, u + 32 * h)
            put(factor, home + begin, total)
    barrier()


@func
def reduced(row: i32, begin: i32, step: i32, h: i32, factor: Reals) -> real:
    """A chunk of a row of a block that begins there, less the products of the rows before it in the block."""
    total = at(factor, begin + step * row + 32 * h)
    for k in range(row):
        total = total - factor[begin + step * k + row] * at(factor, begin + step * k + 32 * h)
    return total


@func
def finish_block(block: i32, home: i32, factor: Reals) -> i32:
    """Complete the rows of a block of the factor; return 0 if the matrix has no factor, else 1."""
    begin = home + first_of(block)
    step = 32 * chunks_of(block)
    sound = 1
    for row in range(minimum(4, COEFFICIENTS - 4 * block)):
        first = reduced(row, begin, step, 0, factor)
        pivot = team_value(first, row)
        if not pivot > 0.0:
            sound = 0
        if sound == 1:
            scale = divide(1.0, square_root(pivot))
            put(factor, begin + step * row, first * scale)
            for h in range(chunks_of(block) - 1):
                put(factor, begin + step * row + 32 * (h + 1), reduced(row, begin, step, h + 1, factor) * scale)
        barrier()
    return sound


@func
def factorise(place: i32, home: i32, matrix: Reals, factor: Reals) -> i32:
    """Compute U with matrix = U'U, and y with U'y = z, where z is the right-hand side; return 0 if there is none."""
    sound = 1
    for block in range(BLOCKS):
        if sound == 1:
            reduce_block(block, place, home, matrix, factor)
            sound = finish_block(block, home, factor)
    return sound


@func
def substitute_back(home: i32, factor: Reals, x: Reals):
    """Solve U x = y. Elements of x beyond the last one become 0."""
    for i in each(4 * BLOCKS):
        place = home + first_of(i >> 2) + 32 * chunks_of(i >> 2) * (i & 3) + COEFFICIENTS - 4 * (i >> 2)
        x[i] = where(i < COEFFICIENTS, factor[place], 0.0)
    barrier()
    for turn in range(BLOCKS):
        block = BLOCKS - 1 - turn
        i = 4 * block
        first = home + first_of(block)
        second = first + 32 * chunks_of(block)
        third = second + 32 * chunks_of(block)
        fourth = third + 32 * chunks_of(block)
        d = where(i + 3 < COEFFICIENTS, divide(x[i + 3], factor[fourth + 3]), 0.0)
        c = where(i + 2 < COEFFICIENTS, divide(x[i + 2] - d * factor[third + 3], factor[third + 2]), 0.0)
        b = x[i + 1] - d * factor[second + 3] - c * factor[second + 2]
        b = where(i + 1 < COEFFICIENTS, divide(b, factor[second + 1]), 0.0)
        a = divide(x[i] - d * factor[first + 3] - c * factor[first + 2] - b * factor[first + 1], factor[first])
        barrier()
        for j in each(i):
            earlier = j >> 2
            u = home + first_of(earlier) + 32 * chunks_of(earlier) * (j & 3) + 4 * (block - earlier)
            x[j] = x[j] - d * factor[u + 3] - c * factor[u + 2] - b * factor[u + 1] - a * factor[u]
        for _ in each(1):
            x[i] = a
            x[i + 1] = b
            x[i + 2] = c
            x[i + 3] = d
        barrier()


@func
def fit_voxel(
    run: i32, voxel: i32, solved: i32, most: i32, signals: Ints, equations: Equations, work: Working, matrix: Reals,
    factor: Reals, kept: Ints, out: Ints
) -> i32:
    """Solve until the set of small amplitudes stays the same, at most so many times; return how it ended.

    A voxel that was ``solved`` before goes on with the sets that were kept.
    """
    take_signals(voxel, signals, equations, work)
    threshold = equations.limits[0] * work.start[0] * equations.limits[1]
    before = lanes(0)
    small = lanes(0)
    if solved == 0:
        small = small_amplitudes(FEW, threshold, work.start, equations.sampling)
        if team_any(small != 0) == 0:
            small = small_amplitudes(COEFFICIENTS, threshold, work.start, equations.sampling)
        for h in range(SIZE // 32):
            put(work.x, 32 * h, at(work.start, 32 * h))
        if team_any(small != 0) == 1:
            set_matrix(MATRIX * run, work, equations.normal, matrix)
    else:
        before = at(kept, 64 * run)
        small = at(kept, 64 * run + 32)
        for h in range(SIZE // 32):
            put(work.x, 32 * h, real(from_bits(at(out, SIZE * voxel + 32 * h))))
    barrier()
    sound = 1
    number = 0
    going = team_any(small != before)
    while (going == 1) & (sound == 1) & (number < most):
        change = small ^ before
        add_squares(1.0, small & change, MATRIX * run, work, equations.table, matrix)
        add_squares(-1.0, before & change, MATRIX * run, work, equations.table, matrix)
        sound = factorise(MATRIX * run, FACTOR * run, matrix, factor)
        if sound == 1:
            substitute_back(FACTOR * run, factor, work.x)
            before = small
            small = small_amplitudes(COEFFICIENTS, threshold, work.x, equations.sampling)
            going = team_any(small != before)
        number = number + 1
    end = where(sound == 0, SINGULAR, where(going == 1, UNFINISHED, CONVERGED))
    if end == UNFINISHED:
        put(kept, 64 * run, before)
        put(kept, 64 * run + 32, small)
    for h in range(SIZE // 32):
        put(out, SIZE * voxel + 32 * h, bits(at(work.x, 32 * h)))
    return end


@func
def fit_run(
    item: i32, first: i32, last: i32, solved: i32, most: i32, signals: Ints, equations: Equations, work: Working,
    matrix: Reals, factor: Reals, kept: Ints, out: Ints, ends: Ints
):
    """Fit the voxels of a run, from ``first`` on and before ``last``. Signals are the bits of float32, in rows of VOLUMES.

    Voxels that were ``solved`` so often in launches before are fitted only if they are unfinished.
    """
    begin = first + RUN * item
    for turn in range(minimum(RUN, last - begin)):
        voxel = begin + turn
        end = UNFINISHED
        if solved > 0:
            end = ends[voxel]
        barrier()
        if end == UNFINISHED:
            end = fit_voxel(item, voxel, solved, most, signals, equations, work, matrix, factor, kept, out)
            for _ in each(1):
                ends[voxel] = end
        barrier()
