"""The kernel of fractional anisotropy: weighted least squares for 32 voxels, by a team with a lane for each.

A tensor is fitted to the logarithms of signals by least squares, and again with the squared signals of that fit as
weights. The second fit is that of the first one's residuals, which loses fewer digits. Each lane reads and writes its
column of team memory alone, so lanes never wait for each other.

Coefficients are the tensor (xx, yy, zz, yz, xz, xy), scaled, and the logarithm of the unweighted signal, whose column of
the design is 1. Weights are relative to this signal. Reals have 64 bits, since equations are solved up to a condition
number near 1 / DETERMINED.
"""

from ..linker.lang import *
from ..linker.wide_maths import inverse, inverse_root, log_of_bits, wide_exp

CHUNK = Constant("volumes that are weighed at a time")
KEEPS = Constant("whether team memory keeps the logarithms of all volumes; if not, they are computed twice")
SUMS = 56  # of the normal equations, 7 rows of 8: those from the diagonal on, and the right-hand side
LEAST_SIGNAL = 0x38D1B717  # the bits of 1e-4, DIPY's
NOT_FINITE = 0x7F800000  # bits of infinity, which those of NaN exceed
LEAST_EIGENVALUE = 1.0e-6  # in units of 1 / the greatest b-value, DIPY's
# equations are solved if their determinant over the product of their diagonal, and the least element of their diagonal
# over the greatest, are above these
DETERMINED, ALIKE = 1.0e-8, 1.0e-6
LEAST_PIVOT = 1.0e-15  # over the greatest element of the diagonal; with a smaller one, equations are not determined
LOWEST, FAINTEST, HIGHEST = -80.0, -30.0, 40.0  # twice the logarithm of a predicted signal over the unweighted one
ROTATIONS = 12  # of Jacobi's method: with 9, eigenvalues can be wrong in the 10th digit; an argument, lest compilers unroll it
BIG, TINY = 1.0e30, 1.0e-30
UNDETERMINED = -1.0  # FA of voxels that are left to the host


class Model(Record):
    """Tables with a column of all volumes for each of 7 coefficients, or for each sum.

    ``first`` gives the coefficients of the unweighted fit from logarithms, ``design`` logarithms from coefficients, and
    ``products`` are those of two columns of the design. ``scales`` turns coefficients into a tensor in units of 1 / the
    greatest b-value.
    """

    first: Reals
    design: Reals
    products: Reals
    scales: Reals


class Working(Record):
    """Team memory, in rows of 32: logarithms, which become weighted residuals; weights; sums; and 7 coefficients."""

    logs: Reals
    weights: Reals
    sums: Reals
    fit: Reals

    @staticmethod
    def sizes(part, kept):
        return {"logs": 32 * kept, "weights": 32 * part.chunk, "sums": 32 * SUMS, "fit": 32 * 7}


@func
def read_logs(first: i32, count: i32, row: i32, volumes: i32, voxel: i32, signals: Ints, logs: Reals) -> i32:
    """Logarithms of some volumes of each lane's voxel; return the greatest bits of their absolute values."""
    greatest = lanes(0)
    for i in range(count):
        word = take(signals, volumes * voxel + (first + i))
        greatest = maximum(greatest, word & 0x7FFFFFFF)
        put(logs, 32 * (row + i), log_of_bits(maximum(word, LEAST_SIGNAL)))
    return greatest


@func
def add_up(start: i32, count: i32, table: Reals, row: i32, values: Reals, out: i32, sums: Reals):
    """Add the products of a table's column from ``start`` on and some rows of values to a sum."""
    total = at(sums, 32 * out)
    for i in range(count):
        total = total + table[start + i] * at(values, 32 * (row + i))
    put(sums, 32 * out, total)


@func
def weigh(first: i32, count: i32, row: i32, volumes: i32, model: Model, work: Working) -> real:
    """Weights of some volumes, and their weighted residuals; return the greatest logarithm of a weight."""
    greatest = lanes(0.0 - BIG)
    for i in range(count):
        change = lanes(0.0)
        for k in unrolled(6):
            change = change + model.design[volumes * k + first + i] * at(work.fit, 32 * k)
        twice = 2.0 * change
        greatest = maximum(greatest, twice)
        weight = wide_exp(minimum(maximum(twice, LOWEST), HIGHEST))
        put(work.weights, 32 * i, weight)
        put(work.logs, 32 * (row + i), weight * ((at(work.logs, 32 * (row + i)) - at(work.fit, 32 * 6)) - change))
    return greatest


@func
def solve(sums: Reals) -> i32:
    """Replace the right-hand side by the solution (Gauss); return 1 in lanes that determine it, else 0."""
    least = lanes(BIG)
    greatest = lanes(0.0)
    product = lanes(1.0)
    for i in range(7):
        diagonal = at(sums, 32 * 9 * i)
        least = minimum(least, diagonal)
        greatest = maximum(greatest, diagonal)
        product = product * diagonal
    determinant = lanes(1.0)
    for i in range(7):
        pivot = maximum(at(sums, 32 * 9 * i), LEAST_PIVOT * greatest)
        determinant = determinant * pivot
        scale = inverse(pivot)
        put(sums, 32 * 9 * i, scale)
        for j in range(6 - i):
            row = i + 1 + j
            factor = scale * at(sums, 32 * (8 * i + row))
            for c in range(8 - row):
                place = 32 * (9 * row + c)
                put(sums, place, at(sums, place) - factor * at(sums, 32 * (8 * i + row + c)))
    for k in range(7):
        i = 6 - k
        total = at(sums, 32 * (8 * i + 7))
        for j in range(k):
            total = total - at(sums, 32 * (9 * i + 1 + j)) * at(sums, 32 * (8 * (i + 1 + j) + 7))
        put(sums, 32 * (8 * i + 7), total * at(sums, 32 * 9 * i))
    return where((determinant > DETERMINED * product) & (least > ALIKE * greatest), 1, 0)


@func
def rotate(axis: i32, tensor: Reals):
    """Turn the tensor about an axis so that it no longer couples the two others."""
    p = (axis + 1) % 3
    q = (axis + 2) % 3
    b = at(tensor, 32 * (3 + axis))
    h = 0.5 * (at(tensor, 32 * q) - at(tensor, 32 * p))
    square = h * h + b * b
    steep = absolute(h) + square * inverse_root(maximum(square, TINY)) + TINY
    tangent = where(h < 0.0, 0.0 - b, b) * inverse(steep)
    cosine = inverse_root(1.0 + tangent * tangent)
    sine = tangent * cosine
    c = at(tensor, 32 * (3 + q))
    d = at(tensor, 32 * (3 + p))
    put(tensor, 32 * p, at(tensor, 32 * p) - tangent * b)
    put(tensor, 32 * q, at(tensor, 32 * q) + tangent * b)
    put(tensor, 32 * (3 + axis), lanes(0.0))
    put(tensor, 32 * (3 + q), cosine * c - sine * d)
    put(tensor, 32 * (3 + p), sine * c + cosine * d)


@func
def fractional_anisotropy(rotations: i32, tensor: Reals) -> real:
    """FA of a tensor, which becomes diagonal (Jacobi); smaller eigenvalues count as the least one."""
    for turn in range(rotations):
        rotate(turn % 3, tensor)
    a = maximum(at(tensor, 0), LEAST_EIGENVALUE)
    b = maximum(at(tensor, 32), LEAST_EIGENVALUE)
    c = maximum(at(tensor, 64), LEAST_EIGENVALUE)
    differences = (a - b) * (a - b) + (b - c) * (b - c) + (c - a) * (c - a)
    square = 0.5 * differences * inverse(a * a + b * b + c * c)
    return square * inverse_root(maximum(square, TINY))


@func
def fit_team(item: i32, voxels: i32, volumes: i32, rotations: i32, signals: Ints, model: Model, work: Working, out: Ints):
    """FA of 32 voxels, each the sum of two float32, whose bits lie in two rows of ``out``; UNDETERMINED if it has none.

    Signals are the bits of float32, in rows of ``volumes``.
    """
    voxel = minimum(32 * item + lane(), voxels - 1)
    for k in range(7):
        put(work.fit, 32 * k, lanes(0.0))
    for k in range(SUMS):
        put(work.sums, 32 * k, lanes(0.0))
    brightest = lanes(0)
    for turn in range((volumes + CHUNK - 1) // CHUNK):
        first = CHUNK * turn
        count = minimum(CHUNK, volumes - first)
        row = 0
        if KEEPS == 1:
            row = first
        brightest = maximum(brightest, read_logs(first, count, row, volumes, voxel, signals, work.logs))
        for k in range(7):
            add_up(volumes * k + first, count, model.first, row, work.logs, k, work.fit)
    greatest = lanes(0.0 - BIG)
    for turn in range((volumes + CHUNK - 1) // CHUNK):
        first = CHUNK * turn
        count = minimum(CHUNK, volumes - first)
        row = 0
        if KEEPS == 1:
            row = first
        else:
            read_logs(first, count, row, volumes, voxel, signals, work.logs)
        greatest = maximum(greatest, weigh(first, count, row, volumes, model, work))
        for i in range(7):
            for j in range(7 - i):
                element = 9 * i + j
                add_up(volumes * element + first, count, model.products, 0, work.weights, element, work.sums)
            add_up(volumes * i + first, count, model.design, row, work.logs, 8 * i + 7, work.sums)
    determined = solve(work.sums)
    for k in range(6):
        put(work.fit, 32 * k, model.scales[k] * (at(work.fit, 32 * k) + at(work.sums, 32 * (8 * k + 7))))
    fa = fractional_anisotropy(rotations, work.fit)
    regular = (determined == 1) & (brightest < NOT_FINITE)
    regular = regular & (greatest > FAINTEST)
    fa = where(regular & (greatest < HIGHEST), fa, UNDETERMINED)
    high = bits(fa)
    put(out, 64 * item, high)
    put(out, 64 * item + 32, bits(fa - real(from_bits(high))))
