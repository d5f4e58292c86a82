"""Chunks of streamlines, and how they grow on a device.

Between two chunks the host orders and filters the streamlines of the last one, and a GPU would wait for it. So the host
launches the first steps of the next chunk before that, and the other steps after the kernel ``pack``. A launch takes as
many steps as :mod:`.pace` allows, because desktop systems reset a GPU whose kernel runs too long. On a CPU, one launch
takes all steps.

The first step of a forward half comes before its backward half, which starts in the opposite direction, as in DIPY.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property, partial
from typing import TypeVar

import numpy as np

from ...aliases import Array
from ...backends import open_program
from ...backends.program import Program, on_device
from ...devices import Device
from ...devices.threads import thread_pool
from ...errors import ParameterError
from ...kernels import growth, halves, streamlines
from ...kernels.interpolate import Volume
from ...kernels.stop_reasons import LAST_EARLY, Stop
from ...linker.records import Arguments, spread
from ...linker.transfer import Transfer
from ..parts import Getter, Layout, ProductKernels, Rule, Selection
from ..tables.inputs import KernelTables
from ..tables.rows import CUBE, interleave
from .chunk import Chunk, DirectedSeeds, GrowingChunk, split, tally_halves, z_order
from .memory import WORD, ChunkMemory, memory_for
from .pace import Pace
from .settings import Settings
from .statistics import Statistics

# well under the two seconds after which desktop systems reset a GPU, and what a GPU may take that the CPU emulates
GPU_SECONDS, SOFTWARE_SECONDS = 0.4, 2.0
RETURNS = 8  # of the greatest number of steps: what a half may take in a launch that goes back, which counts as a step
IDLE = 3  # launches that measure what any launch takes
TRIALS, TRIAL_SECONDS = (8, 64, 512), 0.06  # seeds that measure a GPU's pace: more of them while they take no longer
# GPU: what the first steps of a chunk take, during which the host is at work on the last one
FIRST_SECONDS = 0.015
HELPERS = 2  # threads that order, list and count for the main one, so that no chunk waits for the work on another
ROOTS = (streamlines.start, streamlines.enlist, growth.advance)
# CPU: directions of further seeds are found while streamlines grow
QUEUES = {"start": "seeds", "enlist": "seeds", "advance": "halves", "judge": "halves"}
Result = TypeVar("Result")


def lay_out_halves(
    prepared: KernelTables, device: Device, settings: Settings, selection: Selection
) -> tuple[Layout, Volume]:
    """Return how halves grow and lie in memory on a device, and the rows that they read there."""
    getter, rule, volume = prepared.getter, prepared.rule, prepared.volume
    layout = layout_on(device, getter, rule, settings, selection)
    if layout.interleaved > 1:
        if (cubes := interleave(volume, 32 * getter.row.row_chunks)) is not None:
            return layout, cubes
        layout = replace(layout, interleaved=1)
    return layout, volume


def layout_on(device: Device, getter: Getter, rule: Rule, settings: Settings, selection: Selection) -> Layout:
    """Return how halves grow and lie in memory on a device, where rows are not too scattered to lie interleaved."""
    if not device.on_host:
        getter = replace(getter, look_ahead=None)  # a GPU grows other halves while it waits for memory
    return Layout.of(
        getter, rule, selection, paged=int(device.on_host), gathers=int(not device.on_host),
        interleaved=CUBE if getter.read_by_lanes and not (rule.reads_voxels or device.on_host) else 1,
        directed=int(settings.directed and getter.aimed),
        one_way=settings.one_way * (1 + settings.either_sense), truncates=int(settings.truncate),
    )


def open_kernels(device: Device, layout: Layout, settings: Settings, products: ProductKernels) -> Program:
    """Link the kernels that grow streamlines, and those of products, and make them callable."""
    roots = [*ROOTS, *([streamlines.judge] if layout.load.has_bits else []), *products.roots]
    return open_program(
        device, layout.source(roots, products.parts), exact=settings.exact, threads=settings.threads,
        queued=QUEUES,
    )


class Growth:
    """Grows chunks of streamlines on one device.

    Parameters
    ----------
    prepared : tables of the method and the stopping rule.
    voxel_sizes : (3,) mm.
    device, settings : where and how to grow.
    selection : what is demanded of streamlines while they grow.
    products : what products need.

    Attributes
    ----------
    program : the kernels.
    layout : how halves lie in memory, and the parts that grow them.
    memory : the arrays of chunks.
    rules : :class:`...kernels.halves.Rules` by flat name, on the host.
    """

    def __init__(
        self, prepared: KernelTables, voxel_sizes: Array, device: Device, settings: Settings, selection: Selection,
        products: ProductKernels,
    ) -> None:
        self.prepared, self.device, self.settings, self.statistics = prepared, device, settings, Statistics()
        self.layout, volume = lay_out_halves(prepared, device, settings, selection)
        self._has_bits = self.layout.load.has_bits
        self._most_steps = settings.max_steps * (RETURNS if self.layout.load.recovers else 1)
        self._returned = self.layout.returned()
        # a thread of a CPU can as well grow one half after the other
        self.in_turn = bool(settings.one_way or self.layout.in_turn or device.on_host or products.in_turn)
        self.sides = 1 if settings.one_way else 2
        self.program = open_kernels(device, self.layout, settings, products)
        x, y, z = map(float, settings.step_mm / voxel_sizes)
        key = np.array([settings.rng_seed & 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.int32)
        rules = halves.Rules(
            step_x=x, step_y=y, step_z=z, max_steps=settings.max_steps, most=settings.bounds[1], key=key, first_seed=0
        )
        self.rules = spread("rules", rules)
        values = prepared.values | spread("volume", volume) | self.rules | spread("filter", selection.filter)
        tables = WORD * sum(array.size for array in values.values() if isinstance(array, np.ndarray)) + products.bytes
        self.memory = ChunkMemory(self.program, device, settings, self.layout, tables)
        with memory_for("the tables"):
            self._tables = on_device(self.program, values)
        self._ended: Arguments = {}  # what of the kernels' arguments belongs to the chunk that has ended last
        self.forget_pace()

    @property
    def values(self) -> Arguments:
        """The kernels' arguments by flat name, with those of the chunk that has ended last, until the next launch."""
        return self._tables | self._ended

    def forget_pace(self) -> None:
        """Forget how fast the device has been."""
        self.pace = Pace(GPU_SECONDS if self.device.on_gpu else SOFTWARE_SECONDS)

    def _most_streamlines(self) -> int:
        """Streamlines that may grow together: what fits the memory, and what can take a step in one launch.

        No system resets a CPU, however long a launch takes.
        """
        most, halves = self.memory.capacity.streamlines, None if self.device.on_host else self.pace.halves()
        return most if halves is None else max(1, min(most, halves // 2))

    def ready(self, ahead: int = 0) -> int:
        """Return how many seeds to begin together, if so many are left; see :meth:`.memory.ChunkMemory.ready`."""
        return self.memory.ready(self._most_streamlines(), ahead)

    def halve(self, seeds: int) -> int:
        """Give the memory of a chunk of so many seeds back; return how many the next ones may have, 0 if no fewer."""
        self._ended = {}
        return self.memory.halve(seeds)

    def start(self, seeds: Array, first_seed: int, codes: Array | None = None) -> Transfer[DirectedSeeds]:
        """Find the initial directions of seeds; those that were started before them may still be launched.

        Unless the program ``copies_beside`` kernels, the directions are waited for here.

        Parameters
        ----------
        seeds : (n, 3) float32, voxel coordinates.
        first_seed : number of the first one in the run.
        codes : (n,) int32, the code of the one initial direction of each seed, or -1; without them, peaks are found.

        Returns
        -------
        DirectedSeeds
            Without the last of the seeds where their streamlines have no room.
        """
        n = len(seeds)
        arguments = self.memory.for_seeds(n) | {"rules_first_seed": first_seed}
        order = self.beside(z_order, seeds)
        self.program.upload(arguments["seeds_points"], seeds.ravel(), beside=True)
        if codes is not None:
            self._direct(codes, arguments)
        if codes is None or self.layout.getter.aimed:
            self.program.run("start", n, self._tables | arguments)
        self.statistics.copied_bytes += WORD * n
        coming = self.program.later(arguments["seeds_counts"], n)

        def wait() -> DirectedSeeds:
            counts = coming.wait()
            most, total = self._most_streamlines(), int(counts.sum())
            self.memory.density = max(total / n, 1.0)
            if total <= most:
                return DirectedSeeds((seeds, first_seed, codes), counts, arguments, order)
            kept = max(1, int(np.searchsorted(np.cumsum(counts), most, "right")))
            block = split((seeds, first_seed, codes), kept)[0]
            return DirectedSeeds(block, counts[:kept], arguments, partial(z_order, block[0]))

        return Transfer(wait, coming.is_there)

    def _direct(self, codes: Array, arguments: Arguments) -> None:
        """Give each seed the direction of its code (n,), or none where that is -1."""
        if self.layout.getter.aimed and not self.layout.directed:
            raise ParameterError("the kernels are linked for seeds without directions: give seeds without directions")
        peaks = np.zeros((len(codes), self.prepared.getter.most_directions), np.int32)
        peaks[:, 0] = codes
        self.program.upload(arguments["seeds_peaks"], peaks.ravel(), beside=True)
        self.program.upload(arguments["seeds_counts"], (codes >= 0).astype(np.int32), beside=True)

    def launch(self, started: DirectedSeeds) -> GrowingChunk:
        """Give each initial direction its streamline and launch the first steps, behind those of the last chunk.

        These keep the device busy while the host is at work on the last chunk. A CPU takes all steps together.
        """
        self._ended = {}
        count = int(started.counts.sum())
        arguments = started.arguments | self.memory.for_halves(count)
        self.program.upload(arguments["slot"], started.slot, beside=True)
        self.program.run("enlist", len(started.counts), self._tables | arguments)
        self.pace.queue()
        # the backward halves need to know whether the first step stands
        steps = 0 if self.in_turn else 1 + self.layout.getter.drops_dead_end
        if steps:
            self._advance(arguments, count, steps, sides=1)
        few = self._steps(self.sides * count, FIRST_SECONDS)
        self._advance(arguments, count, few)
        steps += few
        return GrowingChunk(started.block, count, self.beside(started.chunk), arguments, steps)

    def go_on(self, launched: GrowingChunk) -> None:
        """Launch further steps; the device may still be at work."""
        count = launched.count
        times = 0 if self.device.on_host else self.pace.ahead() if self.device.on_gpu else 1
        steps, times = self._begin(self.sides * count, launched.steps, anew=True, times=times)
        for _ in range(times):
            self._advance(launched.arguments, count, steps)

    def ending(self, launched: GrowingChunk) -> Transfer[Chunk]:
        """Return what waits for a chunk's streamlines to end, and returns them with steps and stop reasons.

        Before that, the next chunk may be launched. Unless the program ``copies_beside`` kernels, the streamlines are
        waited for here.
        """
        coming = self._copy_state(launched)

        def wait() -> Chunk:
            with self.statistics.stage("grow"):
                ended = self._wait_for(launched, coming)
            self._ended = launched.arguments
            chunk = launched.listed()
            self.memory.points = max(self.pace.taken / max(len(chunk.seeds), 1), 1.0)
            if self._has_bits:
                # how far the other half of a rejected one has come by then depends on the device
                ended["state"][np.flatnonzero(ended["verdict"] <= LAST_EARLY)] = 0, Stop.REJECTED
            in_order = {name: np.take(values, chunk.number, axis=0) for name, values in ended.items()}
            return replace(chunk, state=in_order.pop("state"), besides=in_order)

        return Transfer(wait, coming["state"].is_there)

    def finish(self, started: DirectedSeeds) -> Chunk:
        """Grow the streamlines of seeds, and return them when all have ended."""
        launched = self.launch(started)
        self.go_on(launched)
        return self.ending(launched).wait()

    def _copy_state(self, launched: GrowingChunk) -> dict[str, Transfer[Array]]:
        """Let what the host needs of a chunk's streamlines be copied when the steps launched so far have been taken."""
        count = launched.count
        if self._has_bits:
            self.program.run("judge", count, self._tables | launched.arguments)
        sizes = {name: count * math.prod(shape) for name, (_, shape) in self._returned.items()}
        self.statistics.copied_bytes += WORD * sum(sizes.values())
        arrays = {name: launched.arguments[self._returned[name][0]] for name in sizes}
        return {name: self.program.later(arrays[name], size) for name, size in sizes.items()}

    def _wait_for(self, launched: GrowingChunk, coming: dict[str, Transfer[Array]]) -> dict[str, Array]:
        """Wait until all streamlines of a chunk have ended; return what has come of them, by name."""
        count = launched.count
        while True:
            state = coming.pop("state").wait().reshape(-1, 2, 2)
            steps, most, ends = tally_halves(state)
            self.pace.end(steps, most)
            if not (growing := int(ends[: self.sides, Stop.GROWING].sum())):
                others = {name: array.wait().reshape(-1, *self._returned[name][1]) for name, array in coming.items()}
                return others | {"state": state}
            self._advance(launched.arguments, count, self._begin(growing)[0])
            coming = self._copy_state(launched)

    def _advance(self, arguments: Arguments, count: int, steps: int, sides: int | None = None) -> None:
        """Launch the halves of streamlines, together or in turn; if ``sides`` is 1, the forward halves."""
        in_turn = self.in_turn or sides == 1
        stride, sides = (2, sides or self.sides) if in_turn else (1, 1)
        # halves that have ended stand still
        values = self._tables | arguments | {"stride": stride, "sides": sides, "steps": steps}
        self.program.run("advance", 2 * count // stride, values)

    def _begin(self, growing: int, first: int = 0, *, anew: bool = False, times: int = 1) -> tuple[int, int]:
        """Note the start of at most so many launches, after those with ``first`` steps.

        Return how many steps each may take, and how many of them no half can outlast.
        """
        steps = self._steps(growing)
        times = min(times, -(-self._most_steps // steps))
        self.pace.begin(growing, first + times * steps, anew=anew)
        return steps, times

    def _steps(self, growing: int, seconds: float | None = None) -> int:
        """Return how many steps so many halves may take in a launch, or in so many seconds.

        On a CPU, these are all: no system resets it, and its caches are cold after each launch.
        """
        most = self._most_steps
        return most if self.device.on_host else min(self.pace.steps(growing, seconds), most)

    def beside(self, function: Callable[..., Result], *arguments: object) -> Callable[[], Result]:
        """Call a function in another thread, while the device works; return what waits for its result."""
        return thread_pool("beside", HELPERS).submit(function, *arguments).result

    def fetch(self, array: object, count: int) -> Array:
        """Wait for the device; return the first ``count`` elements of an int32 array."""
        self.statistics.copied_bytes += 4 * count
        return self.program.host(array, count)

    def bytes_for(self, seeds: int, grown: int) -> int:
        """Return the bytes of tables and arrays for so many seeds, ``grown`` of which have grown here so far."""
        ready = self.ready()
        return self.memory.bytes_for(min(seeds, ready) / min(seeds, grown, ready), -(-seeds // ready))

    def accept(self, accepted: Chunk) -> None:
        """List the accepted ones of the streamlines that have ended last in ``values["accepted"]``."""
        numbers = self.memory.accepted.hold("accepted", len(accepted.number))
        self._ended = self._ended | {"accepted": self.program.upload(numbers, accepted.number, beside=True)}

    def made_up(self, steps: int) -> Chunk:
        """Return an accepted streamline with so many steps in each half, for which products compile their kernels."""
        state, none = np.array([steps, Stop.MAX_LENGTH] * 2, np.int32), np.zeros(1, np.int32)
        self.program.upload(self._ended["halves_state"], state)
        besides = {name: np.zeros((1, *shape), np.int32) for name, (_, shape) in self._returned.items()}
        chunk = Chunk(0, np.zeros((1, 3), np.float32), none, none, none, state.reshape(1, 2, 2), besides)
        self.accept(chunk)
        return chunk

    def compile(self) -> None:
        """Compile the kernels by growing from one seed."""
        self._grow(1)
        self.forget_pace()  # the launches included the compilation

    def measure_pace(self) -> None:
        """Measure a GPU's pace, since even the first launch of a run must not be long.

        Idle launches are timed, then more seeds while they are soon grown.  A software device begins with few seeds, as
        a CPU does.
        """
        if self.device.on_host:
            return
        for _ in range(1 if self.device.software else IDLE):
            with self.pace.idle():
                self._advance(self._ended, 1, 1)
                self.fetch(self.values["halves_state"], 4)
        for count in () if self.device.software else TRIALS:
            begun = time.perf_counter()
            self._grow(count)
            if time.perf_counter() - begun > TRIAL_SECONDS:
                break

    @cached_property
    def _stored(self) -> Array:
        """Numbers of the voxels that have rows. NumPy finds them five times as fast in an array of booleans."""
        return np.flatnonzero(self.prepared.arrays["volume_index"] != 0)

    def _grow(self, count: int) -> None:
        """Grow from so many seeds, spread over the stored voxels, in one direction if they need directions."""
        index, shape = self._stored, self.prepared.arrays["volume_shape"]
        voxels = index[np.arange(1, count + 1) * len(index) // (count + 1)] if len(index) else np.zeros(count, int)
        seeds = np.stack(np.unravel_index(voxels, shape), axis=1).astype(np.float32)
        while len(seeds):
            chunk = seeds[: self.ready()]
            codes = np.zeros(len(chunk), np.int32) if self.layout.directed else None
            seeds = seeds[len(self.finish(self.start(chunk, 0, codes).wait()).seeds) :]
        self.memory.forget()  # those of a run begin elsewhere
