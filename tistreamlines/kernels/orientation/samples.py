"""Amplitudes of orientation functions whose samples on the sphere are stored: the rows hold them."""

from __future__ import annotations

from ...linker.lang import *


@func
def amplitudes_of_samples(row: Reals, c: i32, x: real, y: real, z: real) -> real:
    """Amplitudes at 32 vertices of the sphere, from number ``c`` on."""
    return at(row, c)
