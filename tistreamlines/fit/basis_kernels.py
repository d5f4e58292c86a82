"""Both bases of :mod:`.msmt_kernels`, the dual basis of the active normals and the basis of the free space.

On a CPU, vectors of the free space lie in rows of ROWS. Those of the dual basis are columns, in chunks of 32. If 16 columns or
fewer are left, two elements of each share a vector of lanes, see ``place``. On a GPU (PACKED), both bases share one matrix, a row of
STRIDE a vector, since they always have UNKNOWNS vectors together: the smaller memory of a team lets eight teams share a
multiprocessor, not five. STRIDE is odd, so that 32 elements of a column lie in different banks of the memory. The order of
operations is the same.
"""

from ..linker.lang import *

UNKNOWNS = Constant("coefficients of all tissues")
SIZE = Constant("UNKNOWNS, rounded up to a multiple of 32")
ROWS = Constant("UNKNOWNS, rounded up to a multiple of 16")
WIDE = Constant("chunks of 32 columns of the dual basis")
HALF = Constant("whether 16 columns or fewer follow these")
PACKED = Constant("whether both bases lie in one matrix")
STRIDE = Constant("elements between vectors of that matrix")


@func
def place(row: i32, column: i32) -> i32:
    """Where an element of the dual basis lies."""
    wide = 32 * (ROWS * (column // 32) + row) + column % 32
    spread = where(column < 32 * WIDE, wide, 32 * ROWS * WIDE + 16 * row + column - 32 * WIDE)
    return where(PACKED == 1, STRIDE * (ROWS - UNKNOWNS + column) + row, spread)


@func
def free_place(row: i32, start: i32) -> i32:
    """Where an element of a vector of the free space lies; in the matrix, the last of these follows the dual basis."""
    return where(PACKED == 1, STRIDE * (ROWS - 1 - row), ROWS * row) + start


@func
def shares(count: i32, vector: Reals, dual: Reals, out: Reals):
    """Products of the vectors of the dual basis and a vector: its share of each active normal; 0 beyond the active ones."""
    if PACKED == 1:
        shares_of_rows(count, vector, dual, out)
    else:
        shares_of_columns(count, vector, dual, out)


@func
def shares_of_rows(count: i32, vector: Reals, dual: Reals, out: Reals):
    """Do what :func:`shares` does in the matrix; the last chunk and what follows it at once, so that neither waits."""
    full = minimum((count + 31) // 32, WIDE)
    if HALF == 1:
        if count > 32 * WIDE:
            full = WIDE - 1
            total = lanes(0.0)
            rest = lanes(0.0)
            for block in range(ROWS // 16):
                for part in unrolled(8):
                    row = 16 * block + 2 * part
                    first = vector[row]
                    second = vector[row + 1]
                    total = total + take(dual, place(row, 32 * WIDE - 32) + STRIDE * lane()) * first
                    total = total + take(dual, place(row + 1, 32 * WIDE - 32) + STRIDE * lane()) * second
                    pair = take(dual, place(row, 32 * WIDE) + STRIDE * (lane() & 15) + (lane() >> 4))
                    rest = rest + pair * where(lane() >= 16, second, first)
            put(out, 32 * WIDE - 16, where(lane() + 32 * WIDE - 16 < count, rest + raised(rest, 16), 0.0))
            barrier()
            put(out, 32 * WIDE - 32, total)
    for h in range(full):
        total = lanes(0.0)
        for block in range(ROWS // 8):
            for part in unrolled(8):
                row = 8 * block + part
                total = total + take(dual, place(row, 32 * h) + STRIDE * lane()) * vector[row]
        put(out, 32 * h, where(lane() + 32 * h < count, total, 0.0))
    barrier()


@func
def shares_of_columns(count: i32, vector: Reals, dual: Reals, out: Reals):
    """Do what :func:`shares` does if the vectors of the dual basis are columns."""
    if HALF == 1:
        if count > 32 * WIDE:
            total = lanes(0.0)
            odd = lane() >= 16
            for block in range(ROWS // 16):
                for part in unrolled(8):
                    row = 16 * block + 2 * part
                    total = total + at(dual, 32 * ROWS * WIDE + 16 * row) * where(odd, vector[row + 1], vector[row])
            put(out, 32 * WIDE - 16, where(lane() + 32 * WIDE - 16 < count, total + raised(total, 16), 0.0))
        barrier()
    for h in range(minimum((count + 31) // 32, WIDE)):
        total = lanes(0.0)
        for block in range(ROWS // 8):
            for part in unrolled(8):
                row = 8 * block + part
                total = total + at(dual, 32 * (ROWS * h + row)) * vector[row]
        put(out, 32 * h, where(lane() + 32 * h < count, total, 0.0))
    barrier()


@func
def shift_dual(count: i32, vector: Reals, scale: real, factors: Reals, dual: Reals):
    """Subtract a vector times ``scale``, times the factor of each, from the vectors of the dual basis; factors may change."""
    if PACKED == 1:
        for h in range((count + 31) // 32):
            put(factors, 32 * h, where(lane() + 32 * h < count, scale * at(factors, 32 * h), 0.0))
        barrier()
        subtract_from_rows(ROWS - UNKNOWNS, 1, count, vector, factors, dual)
    else:
        shift_columns(count, vector, scale, factors, dual)


@func
def shift_columns(count: i32, vector: Reals, scale: real, factors: Reals, dual: Reals):
    """Do what :func:`shift_dual` does if its vectors are columns."""
    for h in range(minimum((count + 31) // 32, WIDE)):
        factor = scale * at(factors, 32 * h)
        for block in range(ROWS // 8):
            for part in unrolled(8):
                row = 8 * block + part
                start = 32 * (ROWS * h + row)
                put(dual, start, at(dual, start) - factor * vector[row])
    if HALF == 1:
        if count > 32 * WIDE:
            odd = lane() >= 16
            factor = scale * where(odd, at(factors, 32 * WIDE - 16), at(factors, 32 * WIDE))
            for block in range(ROWS // 16):
                for part in unrolled(8):
                    row = 16 * block + 2 * part
                    start = 32 * ROWS * WIDE + 16 * row
                    put(dual, start, at(dual, start) - factor * where(odd, vector[row + 1], vector[row]))
    barrier()


@func
def shift_free(count: i32, vector: Reals, factors: Reals, free: Reals):
    """Subtract a vector times the factor of each from the vectors of the free space; factors from ``count`` on are 0."""
    if PACKED == 1:
        subtract_from_rows(ROWS - 1, -1, count, vector, factors, free)
    else:
        for number in range(SIZE // 32):  # from the end on: the last lanes write the row after it as it is
            h = SIZE // 32 - 1 - number
            for block in range((count + 3) // 4):
                for part in unrolled(4):
                    start = ROWS * (4 * block + part) + 32 * h
                    put(free, start, at(free, start) - factors[4 * block + part] * at(vector, 32 * h))
            barrier()


@func
def subtract_from_rows(first: i32, way: i32, count: i32, vector: Reals, factors: Reals, matrix: Reals):
    """Subtract a vector times the factor of each from rows of the matrix; factors from ``count`` on are 0.

    If 16 elements or fewer follow the whole chunks, those of two rows share a vector of lanes.
    """
    for h in range(WIDE):
        piece = at(vector, 32 * h)
        for block in range((count + 7) // 8):
            for part in unrolled(8):
                start = STRIDE * (first + way * (8 * block + part)) + 32 * h
                put(matrix, start, at(matrix, start) - factors[8 * block + part] * piece)
    if HALF == 1:
        for element in each(32):
            column = 32 * WIDE + (element & 15)
            piece = vector[column]
            for block in range((count + 15) // 16):
                for part in unrolled(8):
                    row = 16 * block + 2 * part + (element >> 4)
                    start = STRIDE * (first + way * row) + column
                    matrix[start] = matrix[start] - factors[row] * piece
    barrier()


@func
def combine_free(rows: i32, coordinates: Reals, free: Reals, out: Reals):
    """Sum of the first vectors of the free space times their coordinates, which are 0 beyond, up to a multiple of 4."""
    for pair in range(SIZE // 64):
        first = lanes(0.0)
        second = lanes(0.0)
        for block in range((rows + 3) // 4):
            for part in unrolled(4):
                row = 4 * block + part
                first = first + at(free, free_place(row, 64 * pair)) * coordinates[row]
                second = second + at(free, free_place(row, 64 * pair + 32)) * coordinates[row]
        put(out, 64 * pair, where(lane() + 64 * pair < UNKNOWNS, first, 0.0))
        put(out, 64 * pair + 32, where(lane() + 64 * pair + 32 < UNKNOWNS, second, 0.0))
    if SIZE % 64 == 32:
        last = lanes(0.0)
        for block in range((rows + 3) // 4):
            for part in unrolled(4):
                row = 4 * block + part
                last = last + at(free, free_place(row, SIZE - 32)) * coordinates[row]
        put(out, SIZE - 32, where(lane() + SIZE - 32 < UNKNOWNS, last, 0.0))
    barrier()
