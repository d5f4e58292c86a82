"""Trilinear interpolation of the voxels' rows."""

from ..linker.lang import *

ROW_CHUNKS = Constant("length of a voxel's row, in units of 32 reals")
STOP_CHANNEL = Constant("first channel of the row's end, which the stopping rule reads")
STOP_CHANNELS = Constant("number of these channels")
INTERLEAVED = Constant("rows that lie interleaved, number by number: 8, those of a cube of 2 x 2 x 2 voxels, or 1")
CHUNK_MASK = 0x1FFFFFF
NUMBER_MASK = 0x3FFFFFFF


class Volume(Record):
    """Voxels that tracking can read.

    ``index`` gives the first chunk (32 reals) in ``rows`` of each voxel's row; row 0 is all zeros.  There are at most 2**25
    chunks; the mask shows compilers that no address overflows, so that they can fold constant offsets.  Where rows lie
    interleaved, ``index`` gives the first number itself, and the next one of a row comes INTERLEAVED numbers later.
    """

    index: Ints
    rows: Reals
    shape: Ints


@func
def coordinate(matrix: Reals, first: i32, p: vec3) -> real:
    """One coordinate of a point in another space: a row of a 3 x 4 matrix, which begins at ``first``, tells it."""
    return matrix[first] * p[0] + matrix[first + 1] * p[1] + matrix[first + 2] * p[2] + matrix[first + 3]


@func
def inside(shape: Ints, p: vec3) -> i32:
    """1 where the voxel of a grid nearest to ``p`` (voxel coordinates, centre = integer) exists, else 0."""
    result = 0
    if (p[0] >= -0.5) & (p[1] >= -0.5) & (p[2] >= -0.5):
        if (p[0] < real(shape[0]) - 0.5) & (p[1] < real(shape[1]) - 0.5) & (p[2] < real(shape[2]) - 0.5):
            result = 1
    return result


@func
def row_start(volume: Volume, x: i32, y: i32, z: i32) -> i32:
    """First element in ``rows`` of a voxel's row; a voxel beyond the border is replaced by the nearest one."""
    i = minimum(maximum(x, 0), volume.shape[0] - 1)
    j = minimum(maximum(y, 0), volume.shape[1] - 1)
    k = minimum(maximum(z, 0), volume.shape[2] - 1)
    return (volume.index[(i * volume.shape[1] + j) * volume.shape[2] + k] & CHUNK_MASK) * 32


class Corners(Record):
    """Local variables: the weights of the eight voxels around a point, and the first elements of their rows."""

    w000: real
    w001: real
    w010: real
    w011: real
    w100: real
    w101: real
    w110: real
    w111: real
    r000: i32
    r001: i32
    r010: i32
    r011: i32
    r100: i32
    r101: i32
    r110: i32
    r111: i32


@stage
def find_corners(corners: Corners, volume: Volume, p: vec3):
    """Find the voxels around a point inside the image.  Beyond the outermost voxel centres the values are constant."""
    fx = floor(p[0])
    fy = floor(p[1])
    fz = floor(p[2])
    x = i32(fx)
    y = i32(fy)
    z = i32(fz)
    x1 = p[0] - fx
    y1 = p[1] - fy
    z1 = p[2] - fz
    x0 = 1.0 - x1
    y0 = 1.0 - y1
    z0 = 1.0 - z1
    w00 = x0 * y0
    w01 = x0 * y1
    w10 = x1 * y0
    w11 = x1 * y1
    corners.w000 = w00 * z0
    corners.w001 = w00 * z1
    corners.w010 = w01 * z0
    corners.w011 = w01 * z1
    corners.w100 = w10 * z0
    corners.w101 = w10 * z1
    corners.w110 = w11 * z0
    corners.w111 = w11 * z1
    corners.r000 = row_start(volume, x, y, z)
    corners.r001 = row_start(volume, x, y, z + 1)
    corners.r010 = row_start(volume, x, y + 1, z)
    corners.r011 = row_start(volume, x, y + 1, z + 1)
    corners.r100 = row_start(volume, x + 1, y, z)
    corners.r101 = row_start(volume, x + 1, y, z + 1)
    corners.r110 = row_start(volume, x + 1, y + 1, z)
    corners.r111 = row_start(volume, x + 1, y + 1, z + 1)


@func
def prefetch_row(volume: Volume, p: vec3):
    """Ask caches for the rows that :func:`interpolate_row` reads at a point near the image."""
    x = i32(floor(p[0]))
    y = i32(floor(p[1]))
    z = i32(floor(p[2]))
    for corner in unrolled(8):
        start = row_start(volume, x + (corner >> 2), y + ((corner >> 1) & 1), z + (corner & 1))
        for chunk in unrolled(ROW_CHUNKS):
            prefetch(volume.rows, start + chunk * 32)


@stage
def chunk_of(corners: Corners, volume: Volume, c: i32) -> real:
    """Interpolate 32 channels, from number ``c`` on.  The terms are added in DIPY's order (``trilinear_interpolate4d``)."""
    a = corners.w000 * at(volume.rows, corners.r000 + c)
    a = a + corners.w001 * at(volume.rows, corners.r001 + c)
    a = a + corners.w010 * at(volume.rows, corners.r010 + c)
    a = a + corners.w011 * at(volume.rows, corners.r011 + c)
    a = a + corners.w100 * at(volume.rows, corners.r100 + c)
    a = a + corners.w101 * at(volume.rows, corners.r101 + c)
    a = a + corners.w110 * at(volume.rows, corners.r110 + c)
    return a + corners.w111 * at(volume.rows, corners.r111 + c)


@func
def interpolate_row(volume: Volume, p: vec3, out: Reals):
    """Interpolate every channel at a point inside the image."""
    corners = Corners()
    find_corners(corners, volume, p)
    for chunk in unrolled(ROW_CHUNKS):
        value = chunk_of(corners, volume, chunk * 32)
        put(out, chunk * 32, value)
