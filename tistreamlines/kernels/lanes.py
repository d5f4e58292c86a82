"""Functions of lane values: vectors, the vertex nearest to a direction, interpolation at a point of each lane."""

import math

from ..linker.lang import *
from ..linker.maths import floored, quarter_turn, reciprocal_root
from ..linker.rng import uniform
from .interpolate import CHUNK_MASK, INTERLEAVED, NUMBER_MASK, STOP_CHANNEL, STOP_CHANNELS, Volume, coordinate, inside
from .orientation.peaks import SYMMETRIC, VERTEX_CHUNKS, dot

CELLS = Constant("cells along an edge of each of the three maps of half the sphere")
CELL_WORDS = Constant("words that list the vertices that may be nearest to a direction in a cell, at least 2")
CELL_BITS = Constant("bits of a vertex's number in such a word, 30 // CELL_BITS to a word")
# of a map: if one coordinate of a unit vector is the greatest, the others are at most sqrt(1/2)
HALF_WIDTH = 0.7072
CELLS_A_UNIT = 0.5 / HALF_WIDTH  # times CELLS


class Cells(Record):
    """For each cell of the cube map, the vertices that may be nearest to a direction in it, by rising number.

    ``first`` has a word for each cell, whose bit 30 says that its list goes on; ``further`` has the other words of all lists.
    """

    first: Ints
    further: Ints

    @staticmethod
    def sizes(part):
        count = 3 * part.cell_sizes.cells**2
        return {"first": count, "further": count * (part.cell_sizes.cell_words - 1)}


@func
def normalised(v: vec3) -> vec3:
    """The unit vector along ``v``."""
    scale = reciprocal_root(dot(v, v))
    return vec3(scale * v[0], scale * v[1], scale * v[2])


@func
def length_of(v: vec3) -> real:
    """Length of a vector, to within 3 units in the last place."""
    square = dot(v, v)
    return square * reciprocal_root(square)


@func
def either(first: i32, a: vec3, b: vec3) -> vec3:
    """Each lane's ``a`` where ``first`` is above 0, else its ``b``."""
    return vec3(where(first > 0, a[0], b[0]), where(first > 0, a[1], b[1]), where(first > 0, a[2], b[2]))


@func
def everywhere(v: vec3) -> vec3:
    """The same vector in every lane."""
    return vec3(lanes(v[0]), lanes(v[1]), lanes(v[2]))


@func
def cross(a: vec3, b: vec3) -> vec3:
    """Vector product."""
    return vec3(a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


@func
def azimuth(word: u32) -> vec3:
    """Cosine and sine of a random angle."""
    turns = 4.0 * uniform(word)
    quarter = floored(turns)
    a = quarter_turn((turns - quarter) - 0.5)
    odd = (quarter == 1.0) | (quarter == 3.0)
    x = where(odd, a[1], a[0])
    y = where(odd, a[0], a[1])
    x = where(quarter >= 2.0, 0.0 - x, x)
    y = where((quarter == 1.0) | (quarter == 2.0), 0.0 - y, y)
    return vec3(x, y, 0.0)


@func
def cell_of(d: vec3) -> i32:
    """Cell of each lane's direction: maps of the x, y and z hemispheres, seen along these axes, one after the other."""
    x = absolute(d[0])
    y = absolute(d[1])
    z = absolute(d[2])
    along_x = (x >= y) & (x >= z)
    along_y = y >= z
    face = where(along_x, 0, where(along_y, 1, 2))
    major = where(along_x, d[0], where(along_y, d[1], d[2]))
    u = where(along_x, d[1], d[0])
    v = where(face == 2, d[1], d[2])
    size = lanes(CELLS_A_UNIT * real(CELLS))
    scale = where(major < 0.0, 0.0 - size, size)
    i = i32(u * scale + 0.5 * real(CELLS))
    j = i32(v * scale + 0.5 * real(CELLS))
    i = minimum(maximum(i, 0), CELLS - 1)
    j = minimum(maximum(j, 0), CELLS - 1)
    return (face * CELLS + i) * CELLS + j


@func
def nearest_vertex(vertices: Reals, cells: Cells, d: vec3) -> i32:
    """Vertex nearest to each lane's direction, the lowest number among equals (DIPY's ``find_closest``).

    On a hemisphere, the vertex nearest to the direction or to its opposite.
    """
    cell = cell_of(d)
    word = take(cells.first, cell)
    best = lanes(-1.0)
    nearest = lanes(0)
    words = where(team_any(word >> 30 != 0) == 1, CELL_WORDS, 1)
    turn = 0
    while turn < words:
        for k in unrolled(30 // CELL_BITS):
            i = (word >> (k * CELL_BITS)) & ((1 << CELL_BITS) - 1)
            x = take(vertices, i)
            y = take(vertices, i + 32 * VERTEX_CHUNKS)
            z = take(vertices, i + 64 * VERTEX_CHUNKS)
            cosine = dot(vec3(x, y, z), d)
            if SYMMETRIC:
                cosine = absolute(cosine)
            nearest = where(cosine > best, i, nearest)
            best = maximum(cosine, best)
        turn = turn + 1
        if turn < words:
            word = take(cells.further, cell + (turn - 1) * (3 * CELLS * CELLS))
    return nearest


@func
def first_number(indices: i32) -> i32:
    """First elements in ``rows`` of the rows of each lane's voxel; see :class:`.interpolate.Volume`."""
    if INTERLEAVED == 1:
        start = (indices & CHUNK_MASK) * 32
    else:
        start = indices & NUMBER_MASK
    return start


@func
def row_of(volume: Volume, line: i32, z: i32) -> i32:
    """First element in ``rows`` of the row of each lane's voxel; ``line`` is the number of the image's line along z."""
    return first_number(take(volume.index, line * volume.shape[2] + z))


@func
def corner_voxel(shape: Ints, p: vec3, i: i32, j: i32, k: i32) -> i32:
    """Number of one of the eight voxels around a point; i, j, k are 1 for the farther one along an axis.

    A voxel beyond the border is replaced by the nearest one.
    """
    x = minimum(maximum(i32(floored(p[0])) + i, 0), shape[0] - 1)
    y = minimum(maximum(i32(floored(p[1])) + j, 0), shape[1] - 1)
    z = minimum(maximum(i32(floored(p[2])) + k, 0), shape[2] - 1)
    return (x * shape[1] + y) * shape[2] + z


@func
def corner_weight(p: vec3, i: i32, j: i32, k: i32) -> real:
    """Weight of one of the eight voxels around a point in trilinear interpolation."""
    x = p[0] - floored(p[0])
    y = p[1] - floored(p[1])
    z = p[2] - floored(p[2])
    weight = where(i == 1, x, 1.0 - x) * where(j == 1, y, 1.0 - y)
    return weight * where(k == 1, z, 1.0 - z)


@func
def corner_row(volume: Volume, p: vec3, i: i32, j: i32, k: i32) -> i32:
    """First element in ``rows`` of the row of one of the eight voxels around each lane's point."""
    return first_number(take(volume.index, corner_voxel(volume.shape, p, i, j, k)))


@func
def interpolated(volume: Volume, p: vec3, channel: i32) -> real:
    """Interpolate each lane's channel at its own point; 0 outside the image (DIPY's ``trilinear_interpolate4d``)."""
    place = INTERLEAVED * channel
    fx = floored(p[0])
    fy = floored(p[1])
    fz = floored(p[2])
    x1 = p[0] - fx
    y1 = p[1] - fy
    z1 = p[2] - fz
    x0 = 1.0 - x1
    y0 = 1.0 - y1
    z0 = 1.0 - z1
    lowest = i32(fx)
    left = minimum(maximum(lowest, 0), volume.shape[0] - 1) * volume.shape[1]
    right = minimum(maximum(lowest + 1, 0), volume.shape[0] - 1) * volume.shape[1]
    lowest = i32(fy)
    front = minimum(maximum(lowest, 0), volume.shape[1] - 1)
    back = minimum(maximum(lowest + 1, 0), volume.shape[1] - 1)
    lowest = i32(fz)
    low = minimum(maximum(lowest, 0), volume.shape[2] - 1)
    high = minimum(maximum(lowest + 1, 0), volume.shape[2] - 1)
    w00 = x0 * y0
    w01 = x0 * y1
    w10 = x1 * y0
    w11 = x1 * y1
    a = (w00 * z0) * take(volume.rows, row_of(volume, left + front, low) + place)
    a = a + (w00 * z1) * take(volume.rows, row_of(volume, left + front, high) + place)
    a = a + (w01 * z0) * take(volume.rows, row_of(volume, left + back, low) + place)
    a = a + (w01 * z1) * take(volume.rows, row_of(volume, left + back, high) + place)
    a = a + (w10 * z0) * take(volume.rows, row_of(volume, right + front, low) + place)
    a = a + (w10 * z1) * take(volume.rows, row_of(volume, right + front, high) + place)
    a = a + (w11 * z0) * take(volume.rows, row_of(volume, right + back, low) + place)
    a = a + (w11 * z1) * take(volume.rows, row_of(volume, right + back, high) + place)
    above = (p[0] >= -0.5) & (p[1] >= -0.5) & (p[2] >= -0.5)
    below = (p[0] < real(volume.shape[0]) - 0.5) & (p[1] < real(volume.shape[1]) - 0.5)
    below = below & (p[2] < real(volume.shape[2]) - 0.5)
    return where(above & below, a, 0.0)


@func
def interpolate_stop(volume: Volume, p: vec3, row: Reals):
    """Interpolate only the channels of the stopping rule; the order of additions is that of ``interpolate_row``.

    Each lane reads one corner.  The first 32 numbers of the row are overwritten, so several channels need a longer row.
    """
    x = lanes(p[0] - floored(p[0]))
    y = lanes(p[1] - floored(p[1]))
    z = lanes(p[2] - floored(p[2]))
    i = (lane() >> 2) & 1
    j = (lane() >> 1) & 1
    k = lane() & 1
    weight = (where(i == 1, x, 1.0 - x) * where(j == 1, y, 1.0 - y)) * where(k == 1, z, 1.0 - z)
    begin = corner_row(volume, p, i, j, k) + INTERLEAVED * STOP_CHANNEL
    for channel in unrolled(STOP_CHANNELS):
        put(row, 0, weight * take(volume.rows, begin + INTERLEAVED * channel))
        barrier()
        total = row[0]
        for corner in range(7):
            total = total + row[corner + 1]
        barrier()
        row[STOP_CHANNEL + channel] = total


# Maps of a stopping rule that lie on another grid, such as a segmentation finer than the series.
MAPS = Constant("number of the rule's maps on another grid")


class MapVolume(Record):
    """Maps on another grid; the record of a rule extends it.

    ``maps`` has the ``MAPS`` values of each voxel, ``sides`` the numbers of voxels, and ``to_grid`` the rows of a 3 x 4 matrix
    from voxel coordinates of the tracked image to those of the grid.
    """

    maps: Reals
    sides: Ints
    to_grid: Reals

    def elements(self, rule):
        if len(self.sides) != 3 or min(self.sides) < 1:
            raise ValueError(f"a grid of {self.sides} voxels")
        return {"maps": rule.maps * math.prod(map(int, self.sides)), "sides": 3, "to_grid": 12}


@func
def point_in_map(volume: MapVolume, p: vec3) -> vec3:
    """A point of the tracked image in voxel coordinates of the grid."""
    return vec3(coordinate(volume.to_grid, 0, p), coordinate(volume.to_grid, 4, p), coordinate(volume.to_grid, 8, p))


@func
def map_around(volume: MapVolume, q: vec3, number: i32) -> real:
    """Each lane's map, or that at each lane's point, interpolated trilinearly between the eight voxels around the point."""
    value = lanes(0.0)
    for corner in rolled(8):
        i = (corner >> 2) & 1
        j = (corner >> 1) & 1
        k = corner & 1
        place = corner_voxel(volume.sides, q, i, j, k) * MAPS + number
        value = value + corner_weight(q, i, j, k) * take(volume.maps, place)
    return value


@func
def map_at(volume: MapVolume, q: vec3, number: i32) -> real:
    """One of the maps, interpolated trilinearly at a point of the grid; 0 outside it.

    Beyond the outermost voxel centres the values are constant for half a voxel, as in the tracked image.
    """
    value = 0.0
    if inside(volume.sides, q) == 1:
        for corner in range(8):
            i = (corner >> 2) & 1
            j = (corner >> 1) & 1
            k = corner & 1
            place = corner_voxel(volume.sides, q, i, j, k) * MAPS + number
            value = value + corner_weight(q, i, j, k) * volume.maps[place]
    return value
