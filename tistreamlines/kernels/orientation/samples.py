"""Amplitudes of orientation functions whose samples on the sphere are stored: the rows hold them."""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Volume
from ..lanes import interpolated, nearest_vertex
from .peaks import VERTEX_CHUNKS


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
