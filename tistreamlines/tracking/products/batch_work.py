"""Work on batches: kernels that take the points of streamlines, on the host or a device, and threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache
from typing import Generic, ParamSpec, TypeVar

import numpy as np

from ...aliases import Array
from ...backends import open_program
from ...backends.program import Program
from ...devices import Device, usable_cores
from ...devices.threads import thread_pool
from ...errors import DeviceMemoryError
from ...kernels.products.density import count_end_points, count_points
from ...kernels.products.lengths import measure_points
from ...linker.lang import Func
from ...linker.parts import Part, Source
from ...linker.records import INTS, Arguments
from ...space.batch import Batch

Result = TypeVar("Result")
Taken = ParamSpec("Taken")
MOST_THREADS = 4  # that help


@dataclass(frozen=True, kw_only=True)
class VoxelList(Part):
    """The notes of voxels that streamlines pass through, see ``kernels/products/density.py``."""

    lists: int = 0
    shares: int = 0


COUNTING = VoxelList()


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
    """Return the length of each whole streamline, (n,) int32, in 2^-16 mm, measured on the host by default."""
    if batch.whole is not None:
        return batch.whole.units
    program = program or program_of(measure_points)
    arguments = launch(program, measure_points, len(batch), points_of(batch), {"lengths": len(batch)})
    return program.host(arguments["lengths"], len(batch))


def thread_count(threads: int | None, most: int = MOST_THREADS) -> int:
    """Return how many threads work on batches: those of the run, None for all cores, but at most ``most``."""
    return max(1, min(threads or usable_cores(), most))


class Backlog(Generic[Result]):
    """Work that other threads do, in the order in which it came.

    Parameters
    ----------
    pool : name of the threads.
    threads : how many there are.
    most : how much work may wait before more is taken.
    done : receives each result, if it is given, in the same order, in the thread that hands the work on.
    """

    def __init__(
        self, pool: str, threads: int, most: int, done: Callable[[Result], object] | None = None
    ) -> None:
        self._pool, self._threads, self._most, self._done = pool, threads, most, done
        self._waiting: deque[Future[Result]] = deque()

    def submit(
        self, work: Callable[Taken, Result], *arguments: Taken.args, **options: Taken.kwargs
    ) -> None:
        """Have a thread do some work; wait if too much waits already."""
        self._wait(self._most)
        self._waiting.append(thread_pool(self._pool, self._threads).submit(work, *arguments, **options))

    def wait(self) -> None:
        """Wait until all work is done."""
        self._wait(0)

    def _wait(self, most: int) -> None:
        while len(self._waiting) > most:
            result = self._waiting.popleft().result()
            if self._done is not None:
                self._done(result)
