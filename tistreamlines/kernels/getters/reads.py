"""What getters read of the voxels' rows at a point, before the stopping rule is asked."""

from __future__ import annotations

from ...linker.lang import *
from ..halves import Method, Scratch
from ..interpolate import Volume, interpolate_row
from ..lanes import interpolate_stop


@func
def read_row(volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch):
    """Interpolate all channels of the row."""
    interpolate_row(volume, p, scratch.row)


@func
def read_stop(volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch):
    """Interpolate the channels of the stopping rule alone."""
    interpolate_stop(volume, p, scratch.row)
