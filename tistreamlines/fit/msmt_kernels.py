"""The kernel of deconvolution with several tissues: a projection on a cone for each voxel, by a team of 32 lanes.

``y`` is the point of the cone nearest to the unconstrained solution. It is that plus the sum of the normals of the
*active* half-spaces times their multipliers, which are not negative (Lawson and Hanson 1974). The kernel factorises
no matrix. It keeps the *dual basis* of the active normals, the vectors p_i of their span with p_i b_j = 1 if i = j, else 0,
and an orthonormal basis of the *free space*, which is perpendicular to all active normals. The products of the dual basis and a
normal are its shares of the active ones. A half-space that enters turns a vector of the free space into one of the dual basis, and one
that leaves turns it back: both change the others by multiples of one vector, so lanes never wait for each other.
Without the basis of the free space, a normal's part there is what is left of it after two subtractions of its shares, for accuracy:
fits took 1.25 times as long.

Where both lie in memory is in :mod:`.basis_kernels`.

Reals have 64 bits. Neighbouring normals are so alike that the condition number of the products of active ones is 10^6 and more,
and the unconstrained solution is a thousand times as large as y in the highest degrees. With 32 bits, the coefficients of b = 1000
are wrong by a third of their size, and also if only y and the multipliers have 64 bits, the active set is not found.

A team fits RUN voxels of the mask one after the other, and begins with the active set of the voxel before. Results do not
depend on threads. A voxel outside the mask changes the others by rounding errors at most.

References
----------
Lawson, Hanson. Solving Least Squares Problems. Prentice-Hall, 1974.
Goldfarb, Idnani. A numerically stable dual method for solving strictly convex quadratic programs. Mathematical
Programming 27, 1983.
"""

from ..linker.lang import *
from ..linker.wide_maths import inverse, inverse_root, rough_inverse
from .basis_kernels import (
    PACKED,
    ROWS,
    SIZE,
    UNKNOWNS,
    combine_free,
    free_place,
    place,
    shares,
    shift_dual,
    shift_free,
)

DUAL = Constant("elements of the dual basis, or of that matrix")
FREE = Constant("elements of the basis of the free space, or of that matrix")
STATE = Constant("elements that a run keeps between launches")
ACTIVE = Constant("elements of both bases among them, which come before the active half-spaces")
PLANES = Constant("half-spaces, rounded up to whole windows")
WINDOWS = Constant("windows of half-spaces")
VOLUMES = Constant("volumes that are fitted")
SIGNALS = Constant("VOLUMES, rounded up to a multiple of 32")
CHUNKS = 2  # chunks of 32 half-spaces in a window, in which the next ones to enter are sought; fits are 1.15 times as fast as with all
RUN = 16  # voxels of a team
SHARE = 0.3  # of the greatest violation in a window, below which a half-space does not enter
TOLERANCE = 1.0e-14  # of the unconstrained solution, up to which a half-space is not violated
DEPENDENT = 1.0e-14  # squared distance of a normal from the span of the active ones, below which it does not enter
PATIENCE, MOST = 750, 900  # windows, after which the tolerance rises, and after which a voxel has failed
FAILED, FITTED = 0, 1
BIG, TINY = 1.0e30, 1.0e-30


class Cone(Record):
    """Tables of all voxels.

    ``projection`` has a row of SIZE for each signal, ``normals`` one for each half-space, and ``coefficients`` one for each
    element of y. ``columns`` has the normals as ROWS rows of PLANES. ``near`` has PLANES // 32 words for each,
    with a bit for each half-space that is left out of the window after that one has entered.
    """

    projection: Reals
    normals: Reals
    columns: Reals
    near: Ints
    coefficients: Reals


class Working(Record):
    """Team memory: both bases, vectors of SIZE, the distances from those of a window, and the active ones.

    A normal has the shares ``u``, and in the free space the part ``v`` with these ``coordinates``.
    """

    dual: Reals
    free: Reals
    start: Reals
    y: Reals
    v: Reals
    u: Reals
    w: Reals
    coordinates: Reals
    column: Reals
    multipliers: Reals
    distances: Reals
    active: Ints

    @staticmethod
    def sizes(part):
        vectors = ("start", "y", "v", "u", "w", "coordinates", "column", "multipliers", "active")
        bases = {"dual": part.dual, "free": part.free, "distances": 32 * CHUNKS}
        return bases | dict.fromkeys(vectors, part.size)


@func
def sum_of(x: real) -> real:
    """Sum of the lanes' values, known to all."""
    x = x + raised(x, 16)
    x = x + raised(x, 8)
    x = x + raised(x, 4)
    x = x + raised(x, 2)
    x = x + raised(x, 1)
    return team_value(x, 31)


@func
def product_of(a: Reals, b: Reals) -> real:
    """Product of two vectors of SIZE."""
    total = lanes(0.0)
    for h in range(SIZE // 32):
        total = total + at(a, 32 * h) * at(b, 32 * h)
    return sum_of(total)


@func
def clear(work: Working):
    """Make no half-space active: all of space is free."""
    for i in each(DUAL):
        work.dual[i] = 0.0
    for i in each(FREE):
        work.free[i] = 0.0
    for i in each(SIZE):
        work.y[i] = 0.0
        work.u[i] = 0.0
        work.v[i] = 0.0
        work.w[i] = 0.0
        work.column[i] = 0.0
        work.active[i] = 0
    barrier()
    for i in each(UNKNOWNS):
        work.free[free_place(i, i)] = 1.0
    barrier()


@func
def subtract_normals(count: i32, factors: Reals, active: Ints, normals: Reals, vector: Reals):
    """Subtract the active normals, times factors, from a vector."""
    for h in range(SIZE // 32):
        total = at(vector, 32 * h)
        for block in range((count + 3) // 4):  # factors are 0 beyond the active ones
            for part in unrolled(4):
                i = 4 * block + part
                total = total - at(normals, SIZE * active[i] + 32 * h) * factors[i]
        put(vector, 32 * h, total)
    barrier()


@func
def settle(count: i32, cone: Cone, work: Working):
    """Move y to the intersection of the planes of the active half-spaces."""
    shares(count, work.y, work.dual, work.u)
    subtract_normals(count, work.u, work.active, cone.normals, work.y)
    for h in range((count + 31) // 32):
        put(work.multipliers, 32 * h, at(work.multipliers, 32 * h) - at(work.u, 32 * h))
    barrier()


@func
def move(step: real, vector: Reals, y: Reals):
    """Add ``step`` times a vector to y."""
    for h in range(SIZE // 32):
        put(y, 32 * h, at(y, 32 * h) + step * at(vector, 32 * h))
    barrier()


@func
def leave(which: i32, count: i32, work: Working):
    """Take a half-space out of the active set, so that its vector becomes one of the free space, also in the part ``v``."""
    for d in each(UNKNOWNS):
        work.column[d] = work.dual[place(d, which)]
    barrier()
    shares(count, work.column, work.dual, work.w)
    last = count - 1
    row = UNKNOWNS - count
    root = inverse_root(work.w[which])
    scale = root * root
    step = scale * work.multipliers[which]
    share = scale * work.u[which]
    coordinate = root * work.u[which]
    barrier()
    move(0.0 - step, work.column, work.y)
    move(share, work.column, work.v)
    for h in range((count + 31) // 32):
        part = at(work.w, 32 * h)
        put(work.multipliers, 32 * h, at(work.multipliers, 32 * h) - step * part)
        put(work.u, 32 * h, at(work.u, 32 * h) - share * part)
    shift_dual(count, work.column, scale, work.w, work.dual)
    for d in each(UNKNOWNS):
        work.dual[place(d, which)] = work.dual[place(d, last)]
        work.free[free_place(row, d)] = root * work.column[d]
    for h in each(1):
        work.coordinates[row] = coordinate
        work.multipliers[which] = work.multipliers[last]
        work.u[which] = work.u[last]
        work.active[which] = work.active[last]
    barrier()


@func
def coordinate(row: i32, work: Working) -> real:
    """Product of a vector of the free space and ``v``."""
    total = lanes(0.0)
    for h in range(SIZE // 32):
        total = total + at(work.free, free_place(row, 32 * h)) * at(work.v, 32 * h)
    return sum_of(total)


@func
def split(count: i32, work: Working):
    """Split the normal ``v`` into shares of the active ones and its part in the free space, which becomes ``v``."""
    shares(count, work.v, work.dual, work.u)
    rows = UNKNOWNS - count
    for block in range((rows + 3) // 4):
        row = 4 * block
        first = coordinate(row, work)
        second = coordinate(row + 1, work)
        third = coordinate(row + 2, work)
        fourth = coordinate(row + 3, work)
        for i in each(1):
            work.coordinates[row] = first
            work.coordinates[row + 1] = where(row + 1 < rows, second, 0.0)
            work.coordinates[row + 2] = where(row + 2 < rows, third, 0.0)
            work.coordinates[row + 3] = where(row + 3 < rows, fourth, 0.0)
    barrier()
    combine_free(rows, work.coordinates, work.free, work.v)


@func
def first_to_leave(count: i32, work: Working) -> i32:
    """The active half-space whose multiplier is the first to come to 0 on the way along ``-u``, or -1."""
    least = lanes(BIG)
    chunks = lanes(0.0)
    for h in unrolled(SIZE // 32):
        slope = at(work.u, 32 * h)
        falls = (slope > 0.0) & (lane() + 32 * h < count)
        length = maximum(at(work.multipliers, 32 * h), 0.0) * rough_inverse(where(falls, maximum(slope, TINY), 1.0))
        sooner = falls & (length < least)
        least = where(sooner, length, least)
        chunks = where(sooner, real(h), chunks)
    length = team_min(least)
    first = minimum(team_first(least == length), 31)
    return where(length < BIG, 32 * i32(team_value(chunks, first)) + first, -1)


@func
def enter(plane: i32, count: i32, tolerance: real, cone: Cone, work: Working) -> i32:
    """Make a half-space active that y violates, others inactive whose multipliers come to 0; return how many are active then.

    The number is that before if y does not violate it, and -1 if its normal depends on active ones that cannot leave.
    """
    held = count
    for h in range(SIZE // 32):
        put(work.v, 32 * h, at(cone.normals, SIZE * plane + 32 * h))
    barrier()
    distance = product_of(work.v, work.y)
    multiplier = 0.0
    going = where(distance < 0.0 - tolerance, 1, 0)
    if going == 1:
        split(held, work)
    while going == 1:
        square = product_of(work.v, work.v)
        root = inverse_root(maximum(square, DEPENDENT))
        whole = BIG
        if (square > DEPENDENT) & (held < UNKNOWNS):
            whole = (0.0 - distance) * root * root
        which = first_to_leave(held, work)
        length = BIG
        if which >= 0:
            length = maximum(work.multipliers[which], 0.0) * inverse(maximum(work.u[which], TINY))
        barrier()
        step = minimum(length, whole)
        going = 0
        if step < BIG:
            multiplier = multiplier + step
            distance = distance + step * square
            for h in range((held + 31) // 32):
                put(work.multipliers, 32 * h, at(work.multipliers, 32 * h) - step * at(work.u, 32 * h))
            move(step, work.v, work.y)
            if whole <= length:
                append(plane, held, multiplier, root, work)
                held = held + 1
            else:
                for h in each(1):
                    work.multipliers[which] = 0.0
                barrier()
                leave(which, held, work)
                held = held - 1
                going = 1
        else:
            held = -1
    return held


@func
def append(plane: i32, count: i32, multiplier: real, root: real, work: Working):
    """Append a half-space to the active ones; its part ``v`` in the free space times ``root`` has the length 1.

    A reflection turns the basis of the free space so that its last vector is along that part.
    """
    last = UNKNOWNS - count - 1
    scale = root * root
    along = root * work.coordinates[last]
    turn = where(along < 0.0, -1.0, 1.0)
    factor = root * inverse(1.0 + absolute(along))
    shift_dual(count, work.v, scale, work.u, work.dual)
    for d in each(UNKNOWNS):
        work.column[d] = factor * (root * work.v[d] + turn * work.free[free_place(last, d)])
        work.dual[place(d, count)] = scale * work.v[d]
    for h in each(1):
        work.multipliers[count] = multiplier
        work.active[count] = plane
    for h in range(SIZE // 32):
        put(work.coordinates, 32 * h, where(lane() + 32 * h < last, at(work.coordinates, 32 * h), 0.0))
    barrier()
    shift_free(last, work.column, work.coordinates, work.free)


@func
def least_multiplier(count: i32, multipliers: Reals) -> i32:
    """The active half-space whose multiplier is the most negative, or -1."""
    low = lanes(0.0)
    chunks = lanes(0.0)
    for h in range((count + 31) // 32):
        value = at(multipliers, 32 * h)
        below = (value < low) & (lane() + 32 * h < count)
        low = where(below, value, low)
        chunks = where(below, real(h), chunks)
    least = team_min(low)
    first = minimum(team_first(low == least), 31)
    return where(least < 0.0, 32 * i32(team_value(chunks, first)) + first, -1)


@func
def measure(window: i32, count: i32, cone: Cone, work: Working):
    """Compute the distances of y from the half-spaces of a window, negative if y violates one; 0 for the active ones."""
    first = lanes(0.0)
    second = lanes(0.0)
    for block in range(ROWS // 16):
        for part in unrolled(16):
            d = 16 * block + part
            start = PLANES * d + 32 * CHUNKS * window
            first = first + at(cone.columns, start) * work.y[d]
            second = second + at(cone.columns, start + 32) * work.y[d]
    put(work.distances, 0, first)
    put(work.distances, 32, second)
    barrier()
    for i in each(count):
        index = work.active[i] - 32 * CHUNKS * window
        if (index >= 0) & (index < 32 * CHUNKS):
            work.distances[index] = 0.0
    barrier()


@func
def least_distance(distances: Reals) -> vec3:
    """The least distance in the window, and the number of its half-space there."""
    low = lanes(BIG)
    chunks = lanes(0.0)
    for h in unrolled(CHUNKS):
        value = at(distances, 32 * h)
        below = value < low
        low = where(below, value, low)
        chunks = where(below, real(h), chunks)
    least = team_min(low)
    first = minimum(team_first(low == least), 31)
    return vec3(least, 32.0 * team_value(chunks, first) + real(first), 0.0)


@func
def leave_out_near(plane: i32, window: i32, near: Ints, distances: Reals):
    """Set the distances of half-spaces to 0 whose normals are like that of one that has entered."""
    for h in unrolled(CHUNKS):
        marks = (near[PLANES // 32 * plane + CHUNKS * window + h] >> lane()) & 1
        put(distances, 32 * h, where(marks == 1, 0.0, at(distances, 32 * h)))
    barrier()


@func
def has_signal(voxel: i32, signals: Ints) -> i32:
    """Whether all signals of a voxel are finite and one is not 0."""
    greatest = lanes(0.0)
    for h in range(SIGNALS // 32):
        size = absolute(real(from_bits(at(signals, VOLUMES * voxel + 32 * h))))
        size = where(lane() + 32 * h < VOLUMES, size, 0.0)
        greatest = maximum(greatest, where(size < BIG, size, BIG))
    most = team_max(greatest)
    return where((most > 0.0) & (most < BIG), 1, 0)


@func
def begin(voxel: i32, count: i32, signals: Ints, cone: Cone, work: Working) -> i32:
    """Compute the unconstrained solution; keep those active half-spaces whose multipliers are positive; return their number."""
    for h in range(SIZE // 32):
        total = lanes(0.0)
        for block in range(SIGNALS // 8):
            for part in unrolled(8):
                k = 8 * block + part
                signal = real(from_bits(signals[VOLUMES * voxel + minimum(k, VOLUMES - 1)]))
                total = total + at(cone.projection, SIZE * k + 32 * h) * signal  # 0 beyond the volumes
        put(work.start, 32 * h, total)
        put(work.y, 32 * h, total)
        put(work.multipliers, 32 * h, lanes(0.0))
    barrier()
    for _ in range(2):
        settle(count, cone, work)
    kept = count
    which = least_multiplier(kept, work.multipliers)
    while which >= 0:
        leave(which, kept, work)
        kept = kept - 1
        which = least_multiplier(kept, work.multipliers)
    return kept


@func
def finish(voxel: i32, end: i32, signals: Ints, cone: Cone, work: Working, out: Ints, errors: Ints, ends: Ints):
    """Store the coefficients of a voxel, and the squared error of its fit."""
    for h in range(SIZE // 32):
        total = lanes(0.0)
        for block in range(ROWS // 16):
            for part in unrolled(16):
                d = 16 * block + part
                total = total + at(cone.coefficients, SIZE * d + 32 * h) * work.y[d]
        put(out, SIZE * voxel + 32 * h, bits(total))
    square = lanes(0.0)
    for h in range(SIGNALS // 32):
        signal = real(from_bits(at(signals, VOLUMES * voxel + 32 * h)))
        square = square + where(lane() + 32 * h < VOLUMES, signal * signal, 0.0)
    for h in range(SIZE // 32):
        start = at(work.start, 32 * h)
        apart = start - at(work.y, 32 * h)
        square = square + (apart * apart - start * start)
    error = bits(sum_of(square))
    for h in each(1):
        errors[voxel] = error
        ends[voxel] = end
    barrier()


@func
def fit_voxel(voxel: i32, count: i32, signals: Ints, cone: Cone, work: Working) -> i32:
    """Find y; ``count`` half-spaces are active before. Return how many are active after, or -1 if it has failed."""
    held = begin(voxel, count, signals, cone, work)
    greatest = lanes(0.0)
    for h in range(SIZE // 32):
        greatest = maximum(greatest, absolute(at(work.start, 32 * h)))
    tolerance = TOLERANCE * team_max(greatest)
    window = 0
    quiet = 0  # windows without violated half-spaces
    settled = 0
    rounds = 0
    while quiet < WINDOWS:
        measure(window, held, cone, work)
        least = least_distance(work.distances)
        limit = minimum(SHARE * least[0], 0.0 - tolerance)
        quiet = where(least[0] < limit, 0, quiet + 1)
        while (least[0] < limit) & (held >= 0):
            settled = 0
            plane = 32 * CHUNKS * window + i32(least[1])
            held = enter(plane, held, tolerance, cone, work)
            leave_out_near(plane, window, cone.near, work.distances)
            least = least_distance(work.distances)
        if (quiet == WINDOWS) & (settled == 0):
            settle(held, cone, work)
            settled = 1
            quiet = 0
        window = where(window == WINDOWS - 1, 0, window + 1)
        rounds = rounds + 1
        if rounds > PATIENCE:  # rounding lets half-spaces enter and leave
            tolerance = 2.0 * tolerance
        if rounds > MOST:
            held = -1
        if held < 0:
            quiet = WINDOWS
    return held


@func
def keep(run: i32, count: i32, work: Working, state: Reals):
    """Keep the active half-spaces of a run and both bases for the next launch."""
    start = STATE * run
    for i in each(DUAL):
        state[start + i] = work.dual[i]
    if PACKED == 0:
        for i in each(FREE):
            state[start + DUAL + i] = work.free[i]
    for i in each(UNKNOWNS):
        state[start + ACTIVE + i] = real(work.active[i])
    for i in each(1):
        state[start + ACTIVE + UNKNOWNS] = real(count)


@func
def take_up(run: i32, work: Working, state: Reals) -> i32:
    """Take up what the launch before has kept; return how many half-spaces are active."""
    start = STATE * run
    for i in each(DUAL):
        work.dual[i] = state[start + i]
    if PACKED == 0:
        for i in each(FREE):
            work.free[i] = state[start + DUAL + i]
    for i in each(UNKNOWNS):
        work.active[i] = i32(state[start + ACTIVE + i])
    barrier()
    return i32(state[start + ACTIVE + UNKNOWNS])


@func
def fit_run(
    item: i32, voxels: i32, first: i32, last: i32, signals: Ints, cone: Cone, work: Working, state: Reals, out: Ints, errors: Ints,
    ends: Ints
):
    """Fit the voxels of a run from the one with the number ``first`` on, to that before ``last`` or to the last of all.

    A voxel that fails is tried again without the active set of the voxel before. Signals are the bits of float32, in rows of VOLUMES.
    """
    clear(work)
    count = 0
    if first > 0:
        count = take_up(item, work, state)
    for turn in range(minimum(last, voxels - RUN * item) - first):
        voxel = RUN * item + first + turn
        end = FAILED
        attempts = where(has_signal(voxel, signals) == 1, 0, 2)
        while attempts < 2:
            count = fit_voxel(voxel, count, signals, cone, work)
            end = where(count < 0, FAILED, FITTED)
            attempts = attempts + 1
            if count < 0:
                clear(work)
                count = 0
            else:
                attempts = 2
        finish(voxel, end, signals, cone, work, out, errors, ends)
    if last < RUN:
        keep(item, count, work, state)
