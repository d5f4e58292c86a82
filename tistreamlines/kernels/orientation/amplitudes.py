"""Amplitudes of orientation functions; rows hold coefficients (of ``space.harmonics.monomials``) or samples."""

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Volume
from ..lanes import interpolated, nearest_vertex
from .peaks import VERTEX_CHUNKS

ADDRESS_MASK = 0x1FFFFFFF  # shows compilers for GPUs that no address overflows, so that they can fold constant offsets
HALF_ORDER = Constant("half the order of the spherical harmonics")


@func
def triangle(c: Reals, first: i32, x: real, x2: real, y: real) -> real:
    """Sum of the monomials ``x^p y^q`` with p + q odd, less than the order, by Horner's method.

    With one more factor y that is all monomials of even p + q, up to the order, but those without y.
    """
    value = c[first] * y + c[first + 1] * x
    for h in unrolled(HALF_ORDER - 1):
        even = lanes(c[first + (h + 1) * (h + 2)])
        odd = lanes(c[first + (h + 2) * (h + 2)])
        for i in unrolled(h + 1):
            even = even * x2 + c[first + (h + 1) * (h + 2) + 1 + i]
            odd = odd * x2 + c[first + (h + 2) * (h + 2) + 1 + i]
        value = (value * y + even) * y + odd * x
    return value


@func
def harmonic(c: Reals, first: i32, x: real, y: real, z: real) -> real:
    """The function whose coefficients begin at ``c[first]``, in the directions (x, y, z)."""
    begin = first & ADDRESS_MASK
    x2 = x * x
    ridge = lanes(c[begin + HALF_ORDER * (HALF_ORDER + 1)])
    for i in unrolled(HALF_ORDER):
        ridge = ridge * x2 + c[begin + HALF_ORDER * (HALF_ORDER + 1) + 1 + i]
    even = triangle(c, begin, x, x2, y) * y + ridge
    return even + triangle(c, begin + (HALF_ORDER + 1) * (HALF_ORDER + 1), x, x2, y) * z


@func
def amplitudes_of_harmonics(scratch: Scratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes in 32 directions, which are those of the sphere's vertices from number ``c`` on."""
    return harmonic(scratch.row, 0, x, y, z)


@func
def amplitudes_of_samples(scratch: Scratch, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes at 32 vertices of the sphere, from number ``c`` on."""
    return at(scratch.row, c)


@func
def amplitude_of_samples(method: Method, volume: Volume, p: vec3, d: vec3) -> real:
    """Amplitude at each lane's point in its direction: that of the nearest vertex, as in DIPY's PTT."""
    return interpolated(volume, p, nearest_vertex(method.sphere.vertices, method.cells, d))


@func
def sphere_of_samples(volume: Volume, p: vec3, row: Reals):
    """Amplitudes at all vertices of the sphere at one point."""
    here = vec3(lanes(p[0]), lanes(p[1]), lanes(p[2]))
    for chunk in range(VERTEX_CHUNKS):
        put(row, 32 * chunk, interpolated(volume, here, lane() + 32 * chunk))
