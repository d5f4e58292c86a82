"""The kernel of constrained spherical deconvolution: the normal equations of each voxel, by a team of 32 lanes.

The equations are solved again for each set of constrained directions. Each direction adds its square to the matrix, whose
Cholesky factor is computed anew. Additions have a fixed order, and no addition is fused with a product.

Four rows of a symmetric matrix, or of its factor, make a block. They have the columns from the first of these rows on, in
chunks of 32. The right-hand side is the column after the last one. Columns beyond it have no meaning.

Neighbouring directions belong to one lane, as many as there are groups, so that the lists of :func:`collect` keep their
order. Tables of directions have the k-th one of lane l in row or column ``32 k + l``.

Reals have 64 bits. One compiled kernel serves all orders and numbers of volumes, so sizes are arguments.
"""

from ..linker.lang import *
from ..linker.wide_maths import divide, square_root

ABREAST = Constant("rows of a block whose sums grow together, 1 or 4")
TOGETHER = 32  # directions whose rows a processor's first cache holds; fits are 1.06 times as fast as with all
CONVERGED, UNFINISHED, SINGULAR = 0, 1, 2


class Layout(Record):
    """Sizes of the equations and of their memory.

    ``size`` is the number of coefficients, rounded up to a multiple of 32. ``width`` counts the right-hand side too, and is
    a multiple of 4. ``chunks`` are those of the first block. Eight blocks in a row have as many chunks, but the first ones
    are fewer by ``shift``. The first ``few`` coefficients choose the first set of directions. A team fits as many voxels as
    ``run`` says, one after the other. The matrices of two runs are ``matrix`` elements apart, and their factors ``factor``:
    0 in team memory.
    """

    coefficients: i32
    size: i32
    width: i32
    blocks: i32
    chunks: i32
    shift: i32
    few: i32
    directions: i32
    groups: i32
    volumes: i32
    run: i32
    matrix: i32
    factor: i32


class Equations(Record):
    """Tables of all voxels.

    ``moments`` and ``unconstrained`` map signals to the right-hand side and to the solution without a constraint, and
    ``sampling`` maps coefficients to amplitudes times the weight; all three in chunks of 32 columns. ``table`` has a row
    of ``width`` for each direction, and ``limits`` the two factors of the threshold.
    """

    moments: Reals
    unconstrained: Reals
    normal: Reals
    table: Reals
    sampling: Reals
    limits: Reals


class Working(Record):
    """Team memory: right-hand side, solution, and a list of directions."""

    z: Reals
    x: Reals
    listed: Reals
    count: Reals

    @staticmethod
    def sizes(part):
        return dict.fromkeys(("z", "x"), part.size) | {"listed": 32 * part.groups, "count": 1}


class Sums(Record):
    """Local variables: sums of a chunk of ``ABREAST`` rows in a row."""

    first: real
    second: real
    third: real
    fourth: real


@func
def first_of(block: i32, layout: Layout) -> i32:
    """Where a block begins."""
    later = block + layout.shift
    steps = later >> 3
    return 128 * (layout.chunks * block - steps * (later - 4 * steps - 4))


@func
def chunks_of(block: i32, layout: Layout) -> i32:
    """Chunks of each row of a block."""
    return layout.chunks - ((block + layout.shift) >> 3)


@func
def place_of(row: i32, column: i32, layout: Layout) -> i32:
    """Where an element lies, of a column from the first one of the row's block on."""
    block = row >> 2
    return first_of(block, layout) + 32 * chunks_of(block, layout) * (row & 3) + column - 4 * block


@func
def take_signals(voxel: i32, signals: Ints, equations: Equations, layout: Layout, work: Working):
    """Compute the right-hand side, and as x the solution without a constraint."""
    for h in range(layout.size // 32):
        begin = 32 * layout.volumes * h
        signal = real(from_bits(signals[layout.volumes * voxel]))
        moment = at(equations.moments, begin) * signal
        start = at(equations.unconstrained, begin) * signal
        for number in range(layout.volumes - 1):
            place = begin + 32 * (number + 1)
            signal = real(from_bits(signals[layout.volumes * voxel + number + 1]))
            moment = moment + at(equations.moments, place) * signal
            start = start + at(equations.unconstrained, place) * signal
        put(work.z, 32 * h, moment)
        put(work.x, 32 * h, start)
    barrier()


@func
def small_amplitudes(count: i32, threshold: real, x: Reals, sampling: Reals, layout: Layout) -> i32:
    """Mark the directions whose amplitude, of the first coefficients alone, is below the threshold: a bit for each group."""
    marks = lanes(0)
    for group in range(layout.groups):
        begin = 32 * layout.coefficients * group
        total = at(sampling, begin) * x[0]
        for i in range(count - 1):
            total = total + at(sampling, begin + 32 * (i + 1)) * x[i + 1]
        small = (total < threshold) & (layout.groups * lane() + group < layout.directions)
        marks = marks | where(small, 1 << group, 0)
    return marks


@func
def set_matrix(home: i32, layout: Layout, work: Working, normal: Reals, matrix: Reals):
    """Set the matrix to that of the unconstrained problem, with the right-hand side."""
    for block in range(layout.blocks):
        chunks = chunks_of(block, layout)
        for row in range(4):
            moment = work.z[minimum(4 * block + row, layout.coefficients - 1)]
            for h in range(chunks):
                place = first_of(block, layout) + 32 * (chunks * row + h)
                column = 4 * block + 32 * h + lane()
                put(matrix, home + place, where(column == layout.coefficients, moment, at(normal, place)))


@stage
def begin_sums(sums: Sums, place: i32, step: i32, matrix: Reals):
    """Begin with the rows of a matrix, which are ``step`` apart."""
    sums.first = at(matrix, place)
    if ABREAST == 4:
        sums.second = at(matrix, place + step)
        sums.third = at(matrix, place + 2 * step)
        sums.fourth = at(matrix, place + 3 * step)


@stage
def add_products(sums: Sums, sign: real, place: i32, chunk: real, table: Reals):
    """Add ``sign`` times the products of a chunk and of the table's elements from ``place`` on, one for each row."""
    sums.first = sums.first + (sign * table[place]) * chunk
    if ABREAST == 4:
        sums.second = sums.second + (sign * table[place + 1]) * chunk
        sums.third = sums.third + (sign * table[place + 2]) * chunk
        sums.fourth = sums.fourth + (sign * table[place + 3]) * chunk


@stage
def subtract_products(sums: Sums, place: i32, chunk: real, table: Reals):
    """Do the same with a sign of -1, without a multiplication."""
    sums.first = sums.first - table[place] * chunk
    if ABREAST == 4:
        sums.second = sums.second - table[place + 1] * chunk
        sums.third = sums.third - table[place + 2] * chunk
        sums.fourth = sums.fourth - table[place + 3] * chunk


@stage
def keep_sums(sums: Sums, place: i32, step: i32, matrix: Reals):
    """Write the sums as rows of a matrix, which are ``step`` apart."""
    put(matrix, place, sums.first)
    if ABREAST == 4:
        put(matrix, place + step, sums.second)
        put(matrix, place + 2 * step, sums.third)
        put(matrix, place + 3 * step, sums.fourth)


@func
def add_squares(sign: real, marks: i32, home: i32, layout: Layout, work: Working, table: Reals, matrix: Reals):
    """Add ``sign`` times t t' to the matrix, for the row t of each marked direction."""
    collect(work.listed, work.count, marks, 32 * layout.groups)
    barrier()
    listed = i32(work.count[0])
    sums = Sums()
    for part in range((listed + TOGETHER - 1) // TOGETHER):
        begin = TOGETHER * part
        for block in range(layout.blocks):
            step = 32 * chunks_of(block, layout)
            for turn in range(4 // ABREAST):
                row = ABREAST * turn
                for h in range(chunks_of(block, layout)):
                    place = home + first_of(block, layout) + step * row + 32 * h
                    begin_sums(sums, place, step, matrix)
                    for number in range(minimum(TOGETHER, listed - begin)):
                        t = layout.width * i32(work.listed[begin + number]) + 4 * block
                        add_products(sums, sign, t + row, at(table, t + 32 * h), table)
                    keep_sums(sums, place, step, matrix)
    barrier()


@func
def reduce_block(block: i32, place: i32, home: i32, layout: Layout, matrix: Reals, factor: Reals):
    """Subtract the products of all rows before a block of the factor from those of the matrix, which become its rows."""
    sums = Sums()
    step = 32 * chunks_of(block, layout)
    for turn in range(4 // ABREAST):
        row = ABREAST * turn
        for h in range(chunks_of(block, layout)):
            begin = first_of(block, layout) + step * row + 32 * h
            begin_sums(sums, place + begin, step, matrix)
            for earlier in range(block):
                for part in unrolled(4):
                    u = home + place_of(4 * earlier + part, 4 * block, layout)
                    subtract_products(sums, u + row, at(factor, u + 32 * h), factor)
            keep_sums(sums, home + begin, step, factor)
    barrier()


@func
def reduced(row: i32, begin: i32, step: i32, h: i32, factor: Reals) -> real:
    """A chunk of a row of a block that begins there, less the products of the rows before it in the block."""
    total = at(factor, begin + step * row + 32 * h)
    for k in range(row):
        total = total - factor[begin + step * k + row] * at(factor, begin + step * k + 32 * h)
    return total


@func
def finish_block(block: i32, home: i32, layout: Layout, factor: Reals) -> i32:
    """Complete the rows of a block of the factor; return 0 if the matrix has no factor, else 1."""
    begin = home + first_of(block, layout)
    step = 32 * chunks_of(block, layout)
    sound = 1
    for row in range(minimum(4, layout.coefficients - 4 * block)):
        first = reduced(row, begin, step, 0, factor)
        pivot = team_value(first, row)
        if not pivot > 0.0:
            sound = 0
        if sound == 1:
            scale = divide(1.0, square_root(pivot))
            put(factor, begin + step * row, first * scale)
            for h in range(chunks_of(block, layout) - 1):
                put(factor, begin + step * row + 32 * (h + 1), reduced(row, begin, step, h + 1, factor) * scale)
        barrier()
    return sound


@func
def factorise(place: i32, home: i32, layout: Layout, matrix: Reals, factor: Reals) -> i32:
    """Compute U with matrix = U'U, and y with U'y = z, where z is the right-hand side; return 0 if there is none."""
    sound = 1
    for block in range(layout.blocks):
        if sound == 1:
            reduce_block(block, place, home, layout, matrix, factor)
            sound = finish_block(block, home, layout, factor)
    return sound


@func
def substitute_back(home: i32, layout: Layout, factor: Reals, x: Reals):
    """Solve U x = y, from the last block of rows on."""
    for i in each(layout.coefficients):
        x[i] = factor[home + place_of(i, layout.coefficients, layout)]
    barrier()
    for turn in range(layout.blocks):
        first = 4 * (layout.blocks - 1 - turn)
        count = minimum(4, layout.coefficients - first)
        for number in range(count):
            k = count - 1 - number
            value = divide(x[first + k], factor[home + place_of(first + k, first + k, layout)])
            barrier()
            for i in each(k):
                x[first + i] = x[first + i] - value * factor[home + place_of(first + i, first + k, layout)]
            for _ in each(1):
                x[first + k] = value
            barrier()
        for i in each(first):
            u = home + place_of(i, first, layout) + count - 1
            total = x[i]
            for number in range(count):
                total = total - x[first + count - 1 - number] * factor[u - number]
            x[i] = total
        barrier()


@func
def fit_voxel(
    run: i32, voxel: i32, solved: i32, most: i32, signals: Ints, equations: Equations, layout: Layout, work: Working,
    matrix: Reals, factor: Reals, kept: Ints, out: Ints
) -> i32:
    """Solve until the set of small amplitudes stays the same, at most so many times; return how it ended.

    A voxel that was ``solved`` before goes on with the sets that were kept.
    """
    take_signals(voxel, signals, equations, layout, work)
    threshold = equations.limits[0] * work.x[0] * equations.limits[1]
    before = lanes(0)
    small = lanes(0)
    if solved == 0:
        count = layout.few
        for _ in range(2):
            if team_any(small != 0) == 0:
                small = small_amplitudes(count, threshold, work.x, equations.sampling, layout)
            count = layout.coefficients
        if team_any(small != 0) == 1:
            set_matrix(layout.matrix * run, layout, work, equations.normal, matrix)
    else:
        barrier()
        before = at(kept, 64 * run)
        small = at(kept, 64 * run + 32)
        for h in range(layout.size // 32):
            put(work.x, 32 * h, real(from_bits(at(out, layout.size * voxel + 32 * h))))
    barrier()
    sound = 1
    number = 0
    going = team_any(small != before)
    while (going == 1) & (sound == 1) & (number < most):
        change = small ^ before
        add_squares(1.0, small & change, layout.matrix * run, layout, work, equations.table, matrix)
        add_squares(-1.0, before & change, layout.matrix * run, layout, work, equations.table, matrix)
        sound = factorise(layout.matrix * run, layout.factor * run, layout, matrix, factor)
        if sound == 1:
            substitute_back(layout.factor * run, layout, factor, work.x)
            before = small
            small = small_amplitudes(layout.coefficients, threshold, work.x, equations.sampling, layout)
            going = team_any(small != before)
        number = number + 1
    end = where(sound == 0, SINGULAR, where(going == 1, UNFINISHED, CONVERGED))
    if end == UNFINISHED:
        put(kept, 64 * run, before)
        put(kept, 64 * run + 32, small)
    for h in range(layout.size // 32):
        put(out, layout.size * voxel + 32 * h, bits(at(work.x, 32 * h)))
    return end


@func
def fit_run(
    item: i32, first: i32, last: i32, solved: i32, most: i32, signals: Ints, equations: Equations, layout: Layout,
    work: Working, matrix: Reals, factor: Reals, kept: Ints, out: Ints, ends: Ints
):
    """Fit the voxels of a run, from ``first`` on and before ``last``. Signals are the bits of float32, in rows of ``volumes``.

    Voxels that were ``solved`` so often in launches before are fitted only if they are unfinished.
    """
    begin = first + layout.run * item
    for turn in range(minimum(layout.run, last - begin)):
        voxel = begin + turn
        end = UNFINISHED
        if solved > 0:
            end = ends[voxel]
        barrier()
        if end == UNFINISHED:
            end = fit_voxel(item, voxel, solved, most, signals, equations, layout, work, matrix, factor, kept, out)
            for _ in each(1):
                ends[voxel] = end
        barrier()
