"""Chunks of streamlines, and how they grow on a device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...backends import open_program
from ...devices import Device, free_memory, usable_cores
from ...errors import ParameterError
from ...kernels import growth, halves, streamlines
from ...kernels.stop_reasons import Stop
from ...kernels.verdicts import LAST_EARLY, Verdict
from ...linker.lang import Func
from ...linker.records import spread
from ..tables.given import Prepared
from ..tables.rows import CUBE, interleaved
from .chunk import Chunk, tallied
from .linking import filled, source_of
from .memory import (
    CHUNK_POINTS,
    CPU_BYTES,
    CPU_MOST_SEEDS,
    CPU_SEEDS,
    FEWEST_SEEDS,
    MOST_RECOVERED,
    MOST_SEEDS,
    SOFTWARE_SEEDS,
    USUAL_SEEDS,
    Buffers,
    Capacity,
    capacity_for,
    memory_for,
)  # fmt: skip
from .pace import Pace
from .settings import Settings
from .started import Started, split
from .statistics import Statistics

Array = npt.NDArray[Any]
# GPU: well under the two seconds after which desktop systems reset it.  CPU: caches are cold after each launch.
HOST_SECONDS, GPU_SECONDS = 2.0, 0.4
RETURNS = 8  # of the greatest number of steps: what a half may take in a launch that goes back, which counts as a step
IDLE = 3  # launches that measure what any launch takes
TRIALS, TRIAL_SECONDS = (8, 64, 512), 0.06  # seeds that measure a GPU's pace: more of them while they take no longer
SEEDS = ("seeds_points", "seeds_counts", "seeds_peaks", "slot")  # what a chunk has on the device before it grows
ROOTS = (streamlines.start, streamlines.enlist, growth.advance)


class Growth:
    """Grows chunks of streamlines on one device.

    Parameters
    ----------
    prepared : tables of the method and the stopping rule.
    voxel_sizes : (3,) mm.
    device, settings : where and how to grow.
    selection : constants and holes with which the selection looks at points as the streamlines grow.
    demands : fields of its record by flat name.
    roots : kernels that products run besides.
    held : bytes that products need besides the buffers of a chunk.

    Attributes
    ----------
    program, values : the kernels, and their arguments on the device by flat name.
    rules : :class:`...kernels.halves.Rules` by flat name, on the host.
    table_bytes : memory of the tables, and of what products hold.
    """

    def __init__(
        self, prepared: Prepared, voxel_sizes: Array, device: Device, settings: Settings, selection: dict[str, Any],
        demands: dict[str, Any], roots: Sequence[Func], held: int = 0,
    ) -> None:  # fmt: skip
        self.prepared, self.device, self.settings, self.statistics = prepared, device, settings, Statistics()
        own = {"IN_TURN": int(settings.truncate or prepared.fill.get("IN_TURN", 0)), "GATHERS": int(not device.on_host)}
        own["DIRECTED"] = int(settings.directed and prepared.fill.get("AIMED", 0))
        own |= settings.fill | selection
        volume = prepared.volume
        if prepared.fill.get("READ_BY_LANES") and not device.on_host:
            cubes = interleaved(volume, 32 * prepared.fill["ROW_CHUNKS"])
            volume, own["INTERLEAVED"] = (volume, 1) if cubes is None else (cubes, CUBE)
        fill = filled(prepared.fill, own)
        self._aimed, self._directed = fill["AIMED"], fill["DIRECTED"]
        self.has_bits = fill["HAS_BITS"]
        self._goes_back = bool(fill["FOR_RECOVERY"])
        self._most_steps = settings.max_steps * (RETURNS if self._goes_back else 1)
        self.takes_back = fill["TAKES_BACK"]
        noted = {"first": self.takes_back, "visited": self.has_bits, "more": fill["MORE"]}
        noted |= dict.fromkeys(("before", "cropped"), fill["CROPS"])
        self.noted = tuple(name for name, needed in noted.items() if needed)
        self.in_turn, self.sides = bool(settings.one_way or fill["IN_TURN"]), 1 if settings.one_way else 2
        roots = [*ROOTS, *([streamlines.judge] if self.has_bits else []), *roots]
        self.program = open_program(
            device, source_of(roots, prepared, **own), exact=settings.exact, threads=settings.threads,
            profile=settings.profile,
        )  # fmt: skip
        x, y, z = (settings.step_mm / voxel_sizes).tolist()
        key = np.array([settings.rng_seed & 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.int32)
        rules = halves.Rules(
            step_x=x, step_y=y, step_z=z, max_steps=settings.max_steps, most=settings.bounds[1], key=key, first_seed=0
        )
        self.rules = spread("rules", rules)
        values = prepared.values | spread("volume", volume) | self.rules | demands
        arrays = {name: value for name, value in values.items() if isinstance(value, np.ndarray)}
        self.table_bytes = 4 * sum(array.size for array in arrays.values()) + held
        self.capacity = self._fit(self.table_bytes, fill)
        with memory_for("the tables"):
            self.values = values | {name: self.program.array(array) for name, array in arrays.items()}
        self.buffers = Buffers(self.program, self.capacity, self.values)
        self._seeds = [Buffers(self.program, self.capacity, {}) for _ in range(2)]  # some grow, others start
        self._density = 1.0  # streamlines a seed, at least one
        self._points = float("inf")  # of the streamlines of a seed
        self.forget_pace()

    def forget_pace(self) -> None:
        """Forget how fast the device has been."""
        self.pace = Pace(GPU_SECONDS if self.device.on_gpu else HOST_SECONDS)

    def _fit(self, tables: int, fill: dict[str, Any]) -> Capacity:
        """Ask the device for its free memory before it holds the tables, and before the clock of a run starts."""
        chosen, free = self.settings, None
        most = MOST_RECOVERED if fill["FOR_RECOVERY"] else MOST_SEEDS
        if self.device.on_host:
            most, free = min(CPU_SEEDS * (chosen.threads or usable_cores()), CPU_MOST_SEEDS), tables + 2 * CPU_BYTES
        else:
            most = SOFTWARE_SEEDS if self.device.software else most
            if chosen.memory_limit is None:
                free = free_memory(self.device) or 2**30
        return capacity_for(
            self.prepared.scalars | fill, chosen.max_steps, tables, asked=chosen.chunk_size,
            limit=chosen.memory_limit, free=free, most_seeds=most,
        )  # fmt: skip

    def _most_streamlines(self) -> int:
        """Streamlines that may grow together: what fits the memory, and what can take a step in one launch.

        No system resets a CPU, however long a launch takes.
        """
        halves = None if self.device.on_host else self.pace.halves()
        return self.capacity.streamlines if halves is None else max(1, min(self.capacity.streamlines, halves // 2))

    def ready(self, ahead: int = 0) -> int:
        """Return how many seeds to begin together, if each has as many streamlines and points as in the last chunk.

        If it is known how many are ``ahead``, large chunks take half of them, so that the last chunk, whose points the
        host lays out while the device has nothing to do, is small.
        """
        seeds = min(self.capacity.seeds, int(0.9 * self._most_streamlines() / self._density))
        if self.settings.chunk_size is None and not self._goes_back:
            many = CHUNK_POINTS / self._points
            seeds = min(seeds, max(USUAL_SEEDS, int(min(many, ahead / 2) if ahead else many)))
        return max(1, seeds)

    def halve(self, seeds: int) -> int:
        """Give the memory of a chunk of so many seeds back; return how many the next ones may have, 0 if no fewer."""
        for one in (self.buffers, *self._seeds):
            one.release()
        for name in SEEDS:
            self.values.pop(name, None)
        if seeds <= FEWEST_SEEDS:
            return 0
        self.capacity = replace(self.capacity, seeds=max(seeds // 2, FEWEST_SEEDS))
        return self.capacity.seeds

    def begin(self, seeds: Array, first_seed: int, codes: Array | None = None) -> Chunk:
        """Start seeds, see :meth:`start`, and launch their streamlines."""
        return self.launch(self.start(seeds, first_seed, codes))

    def start(self, seeds: Array, first_seed: int, codes: Array | None = None) -> Started:
        """Find the initial directions of seeds; those that were started before them may still be launched.

        Parameters
        ----------
        seeds : (n, 3) float32, voxel coordinates.
        first_seed : number of the first one in the run.
        codes : (n,) int32, the code of the one initial direction of each seed, or -1; without them, peaks are found.

        Returns
        -------
        Started
            Without the last of the seeds where their streamlines have no room.
        """
        n, buffers = len(seeds), self._seeds[0]
        self._seeds.reverse()
        own = {name: buffers.hold(name, n) for name in SEEDS}
        own["rules_first_seed"] = first_seed
        self.program.upload(own["seeds_points"], seeds.ravel())
        if codes is not None:
            self._direct(codes, own)
        if codes is None or self._aimed:
            self.program.run("start", n, self.values | own)
        counts = self.fetch(own["seeds_counts"], n)
        most, total = self._most_streamlines(), int(counts.sum())
        self._density = max(total / n, 1.0)
        if total > most:
            n = max(1, int(np.searchsorted(np.cumsum(counts), most, "right")))
        return Started(split((seeds, first_seed, codes), n)[0], counts[:n], own)

    def _direct(self, codes: Array, own: dict[str, Any]) -> None:
        """Give each seed the direction of its code (n,), or none where that is -1."""
        if self._aimed and not self._directed:
            raise ParameterError("the kernels are linked for seeds without directions: give seeds without directions")
        peaks = np.zeros((len(codes), self.prepared.seeds_most), np.int32)
        peaks[:, 0] = codes
        self.program.upload(own["seeds_peaks"], peaks.ravel())
        self.program.upload(own["seeds_counts"], (codes >= 0).astype(np.int32))

    def launch(self, started: Started) -> Chunk:
        """Give each initial direction its streamline and launch the first steps; the device may still be at work."""
        count = int(started.counts.sum())
        self.values |= started.values
        self.program.upload(self.values["slot"], started.slot)
        for name in ("seed", "branch", "initial", "point", "state", "codes", *self.noted):
            self.buffers.hold(f"halves_{name}", count)
        if self.has_bits:
            self.buffers.hold("verdict", count)
        self.program.run("enlist", len(started.counts), self.values)
        # the backward halves need to know whether the first step stands
        first = 0 if self.in_turn else 1 + self.prepared.fill["DROPS_DEAD_END"]
        times = self.pace.ahead() if self.device.on_gpu else 1
        steps, times = self._begin(self.sides * count, first, anew=True, times=times)
        if first:
            self._advance(count, first, sides=1)
        for _ in range(times):
            self._advance(count, steps)
        return started.chunk

    def _advance(self, count: int, steps: int, sides: int | None = None) -> None:
        """Launch the halves of streamlines, together or in turn; if ``sides`` is 1, the forward halves."""
        in_turn = self.in_turn or sides == 1
        stride, sides = (2, sides or self.sides) if in_turn else (1, 1)
        # halves that have ended stand still
        self.program.run(
            "advance", 2 * count // stride, self.values | {"stride": stride, "sides": sides, "steps": steps}
        )

    def _begin(self, growing: int, first: int = 0, *, anew: bool = False, times: int = 1) -> tuple[int, int]:
        """Note the start of at most so many launches, after one with ``first`` steps.

        Return how many steps each may take, and how many of them no half can outlast.
        """
        steps = min(self.pace.steps(growing), self._most_steps)
        times = min(times, -(-self._most_steps // steps))
        self.pace.begin(growing, first + times * steps, anew=anew)
        return steps, times

    def _settle(self, count: int) -> tuple[Array, int]:
        """Wait for the launch; return steps and stop reasons of the halves, (count, 2, 2), and how many still grow."""
        state = self.fetch(self.values["halves_state"], 4 * count).reshape(-1, 2, 2)
        steps, most, ends = tallied(state)
        self.pace.end(steps, most)
        return state, int(ends[: self.sides, Stop.GROWING].sum())

    def finish(self, chunk: Chunk) -> Chunk:
        """Grow a chunk until all its streamlines have ended; return it with steps and stop reasons."""
        count = len(chunk.seed)
        with self.statistics.stage("grow"):
            state, growing = self._settle(count)
            while growing:
                self._advance(count, self._begin(growing)[0])
                state, growing = self._settle(count)
        self._points = max(self.pace.taken / max(len(chunk.seeds), 1), 1.0)
        verdict = np.zeros((count, 0), np.int32)
        if self.has_bits:
            self.program.run("judge", count, self.values)
            verdict = self.fetch(self.values["verdict"], count)
            # how far the other half of a rejected one has come by then depends on the device
            state[np.flatnonzero(verdict <= LAST_EARLY)] = 0, Stop.REJECTED
            verdict = np.take(verdict, chunk.number)
        return replace(chunk, state=np.take(state, chunk.number, axis=0), verdict=verdict)

    def count(self, chunk: Chunk, verdicts: Array) -> None:
        """Add the seeds of a finished chunk, the ends of its streamlines and the verdicts on them to the statistics."""
        ends = tallied(chunk.state)[2].sum(axis=0)
        judged = [np.count_nonzero(verdicts == number) for number in range(len(Verdict))]  # bincount would convert them
        self.statistics.counts += np.concatenate([[len(chunk.seeds)], ends, judged])

    def fetch(self, array: Any, count: int) -> Array:
        """Wait for the device; return the first ``count`` elements of an int32 array."""
        self.statistics.copied_bytes += 4 * count
        return self.program.host(array, count)

    def bytes_for(self, seeds: int, grown: int) -> int:
        """Return the bytes of tables and buffers for so many seeds, ``grown`` of which have grown here so far."""
        times = min(seeds, self.ready()) / min(seeds, grown, self.ready())
        return self.table_bytes + sum(one.bytes_for(times) for one in (self.buffers, *self._seeds))

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
                self._advance(1, 1)
                self.fetch(self.values["halves_state"], 4)
        for count in () if self.device.software else TRIALS:
            begun = time.perf_counter()
            self._grow(count)
            if time.perf_counter() - begun > TRIAL_SECONDS:
                break

    def _grow(self, count: int) -> None:
        """Grow from so many seeds, spread over the stored voxels, in one direction if they need directions."""
        index, shape = np.flatnonzero(self.prepared.arrays["volume_index"]), self.prepared.arrays["volume_shape"]
        some = index[np.arange(1, count + 1) * len(index) // (count + 1)] if len(index) else np.zeros(count, int)
        seeds = np.stack(np.unravel_index(some, shape), axis=1).astype(np.float32)
        while len(seeds):
            some = seeds[: self.ready()]
            codes = np.zeros(len(some), np.int32) if self._directed else None
            seeds = seeds[len(self.finish(self.begin(some, 0, codes)).seeds) :]
        self._points = float("inf")  # those of a run begin elsewhere
