"""Kernels of products that take the points of streamlines: for threads of the host, or for a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from ...aliases import Array
from ...backends import open_program
from ...backends.program import Program
from ...devices import Device
from ...errors import DeviceMemoryError
from ...kernels.products.density import count_end_points, count_points
from ...kernels.products.lengths import measure_points
from ...linker.lang import Func
from ...linker.parts import Part
from ...linker.records import INTS, Arguments
from ...linker.source import Source
from ...space.batch import Batch


@dataclass(frozen=True, kw_only=True, eq=False)
class Listing(Part):
    """What is noted of voxels that streamlines pass through, see ``kernels/products/density.py``."""

    lists: int = 0
    shares: int = 0


COUNTING = Listing()


@cache
def listing(shares: int) -> Listing:
    """Return what has the voxels of each streamline listed, with so many amounts of its segments."""
    return Listing(lists=1, shares=shares)


@cache
def program_of(*kernels: Func, part: Part | None = None, bits: int = 32, threads: int = 1) -> Program:
    """Return kernels of a product for the host; ``part`` fills their constants."""
    from ...backends.numba.program import NumbaProgram

    return NumbaProgram(Source(kernels, () if part is None else (part,)), bits=bits, threads=threads)


def program_on(device: Device) -> Program:
    """Return the kernels that count and measure points, for a device; threads of the host take turns with it."""
    return open_program(device, Source([count_points, count_end_points, measure_points], [COUNTING]))


def points_of(batch: Batch) -> Arguments:
    """Return what kernels take of the points of a batch."""
    return {"points": batch.points.ravel(), "offsets": batch.offsets.astype(np.int32)}


def launch(
    program: Program, kernel: Func, count: int, values: Arguments, filled: Mapping[str, int]
) -> Arguments:
    """Run a kernel on arrays of the host, which are copied to where the program runs.

    Parameters
    ----------
    program : has the kernel.
    kernel, count : what runs, for how many items.
    values : arguments by flat name: numbers, arrays of the host, and arrays of the program.
    filled : number of elements of the arrays of whole numbers that the kernel fills, by flat name.

    Returns
    -------
    dict
        The arguments that the kernel has taken; arrays are those of the program.
    """
    taken = {name for name, _ in program.signatures[kernel.__name__]}
    try:
        arguments = {
            name: program.array(value if len(value) else np.zeros(1, value.dtype)) if isinstance(value, np.ndarray)
            else value for name, value in values.items() if name in taken
        }
        arguments |= {name: program.empty(max(size, 1), INTS) for name, size in filled.items() if name in taken}
        program.run(kernel.__name__, count, arguments)
    except DeviceMemoryError as error:
        text = f"the device has no memory for the points of {count:,} streamlines: give --arch cpu"
        raise DeviceMemoryError(text) from error
    return arguments


def lengths_of(batch: Batch, program: Program | None = None) -> Array:
    """Return the length of each streamline of a batch, (n,) int32, in 2^-16 mm, measured on the host by default."""
    program = program or program_of(measure_points)
    arguments = launch(program, measure_points, len(batch), points_of(batch), {"lengths": len(batch)})
    return program.host(arguments["lengths"], len(batch))
