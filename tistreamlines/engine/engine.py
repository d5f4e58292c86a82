"""The engine: seeds go in, batches of finished streamlines come out, chunk by chunk.

A chunk's seeds get their initial directions, a prefix sum gives each direction its streamline, both halves of every
streamline grow in launches of bounded length, and only the accepted ones come back, as a few bits a step.  The host
turns them into points while the device grows the next chunk.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..backends import open_program
from ..backends.devices import Device, free_memory, usable_cores
from ..backends.threads import thread_pool
from ..errors import ParameterError
from ..io.tractogram import Batch, Space
from ..kernels import propagate
from ..kernels.stop_reasons import Stop
from ..methods.given import Prepared
from .linking import source_of
from .ordering import exclusive_sum, near_together
from .pace import Pace
from .room import CPU_SEEDS, MOST_SEEDS, Buffers, Room, memory_for, room_for
from .settings import Settings
from .tally import Tally
from .unpacking import Grown, Unpacker

Array = npt.NDArray[Any]
# well under the two seconds after which desktop systems reset a GPU; a CPU finds its caches cold after each launch, and
# a software device is idle for a good part of it
LAUNCH_SECONDS = {"cpu": 2.0, "cuda": 0.4, "vulkan": 0.4, "metal": 0.4}
IDLE = 3  # launches that tell what one takes in any case
TRIALS, TRIAL_SECONDS = (8, 64, 512), 0.06  # seeds that tell a GPU's pace: more of them while they take no longer
BATCH_POINTS = 2**20  # 12 MB, laid out by one thread: malloc asks the system for more than 32 MB anew each time


class Engine:
    """Grows streamlines on one device.

    Parameters
    ----------
    prepared : tables of the method and the stopping rule.
    space : the image's space.
    device : where to run (see :func:`tistreamlines.backends.devices.choose`).
    settings : how streamlines are grown.
    """

    def __init__(self, prepared: Prepared, space: Space, device: Device, settings: Settings) -> None:
        if prepared.fill["CARRIED"]:
            settings = replace(settings, exact=True)
        self.prepared, self.space, self.device, self.settings = prepared, space, device, settings
        self.tally = Tally()
        begun = time.perf_counter()
        roots = [propagate.start, propagate.enlist, propagate.advance, propagate.pack]
        self.program = open_program(
            device, source_of(roots, prepared), exact=settings.exact, threads=settings.threads, profile=settings.profile
        )
        self.unpacker = Unpacker(prepared, space)
        key = np.array([settings.rng_seed & 0xFFFFFFFFFFFFFFFF], np.uint64).view(np.int32)
        steps = settings.step_mm / space.voxel_sizes
        self.rules = {f"rules_step_{a}": float(s) for a, s in zip("xyz", steps, strict=True)} | {
            "rules_max_steps": settings.max_steps, "rules_key": key,
        }  # fmt: skip
        arrays = prepared.arrays | {"rules_key": key}
        self.room = self._fit(4 * sum(array.size for array in arrays.values()))
        with memory_for("the tables"):
            self.values = prepared.scalars | self.rules | {k: self.program.array(v) for k, v in arrays.items()}
        self.together = 32 // prepared.fill["CODE_BITS"]  # codes to a word
        self._buffers = Buffers(self.program, self.room, self.values)
        self._spare: list[Array] = []
        self._pace, self._density = self._new_pace(), 1.0  # streamlines of a seed, one at least
        # beside a GPU a core is left to the wait for it
        self._workers = settings.threads or max(1, usable_cores() - (device.arch != "cpu"))
        # some systems start threads slowly
        wait([self._pool.submit(time.sleep, 0.01) for _ in range(self._workers)])
        self._warm_up()
        self.tally = Tally()
        self.tally.seconds["compile"] = time.perf_counter() - begun
        self.program.kernel_seconds()

    @property
    def _pool(self) -> ThreadPoolExecutor:
        """Threads that lay points out."""
        return thread_pool("points", self._workers)

    def _warm_up(self) -> None:
        """Compile every kernel: grow from a seed in the middle of the stored voxels, and bring a made-up step back.

        Then learn a GPU's pace, since even the first launch of a run must not be long: from idle launches, and from
        more seeds where they are soon grown.  A software device begins with few seeds, like a CPU.
        """
        seed = self._try(1)
        state, none = np.array([[[1, 0], [1, 0]]], np.int32), np.zeros(1, np.int32)
        self.program.upload(self.values["halves_state"], state.ravel())
        self.program.upload(self.values["halves_codes"], np.zeros(2, np.int32))
        self.unpacker.batch(self._pack(0, seed, np.zeros((3, 1), np.int32), state, none), self.rules)
        self._pace = self._new_pace()  # forgets the compilation
        if self.device.arch == "cpu":
            return
        for _ in range(1 if self.device.software else IDLE):
            with self._pace.idle():
                self.program.run("advance", 2, self.values | {"stride": 1, "steps": 1})
                self._fetch(self.values["halves_state"], 4)
        for count in () if self.device.software else TRIALS:
            begun = time.perf_counter()
            self._try(count)
            if time.perf_counter() - begun > TRIAL_SECONDS:
                break

    def _new_pace(self) -> Pace:
        return Pace(LAUNCH_SECONDS["cpu" if self.device.software else self.device.arch])

    def _try(self, count: int) -> Array:
        """Grow from seeds spread over the stored voxels; return these."""
        index = np.flatnonzero(self.prepared.arrays["volume_index"])
        some = index[np.arange(1, count + 1) * len(index) // (count + 1)] if len(index) else np.zeros(count, int)
        seeds = np.stack(np.unravel_index(some, self.space.shape), axis=1).astype(np.float32)
        for _ in self._batches(seeds, 0):
            pass
        return seeds

    # -- memory

    def chunk_size(self) -> int:
        """Seeds a chunk: what the caller asked for, or what the device's memory holds, if that is less."""
        return self.room.seeds

    def _fit(self, tables: int) -> Room:
        """Ask the device for its memory before it holds the tables, and before the clock of a run starts."""
        chosen, free = self.settings, None
        cpu = self.device.arch == "cpu"
        if not cpu and chosen.memory_limit is None:
            free = free_memory(self.device) or 2**30
        return room_for(
            self.prepared.fill | self.prepared.scalars, chosen.max_steps, tables, asked=chosen.chunk_size,
            limit=chosen.memory_limit, free=free,
            most_seeds=CPU_SEEDS if cpu or self.device.software else MOST_SEEDS,
        )  # fmt: skip

    def _most_streamlines(self) -> int:
        """Streamlines that may grow together: as memory has it, and so many that a launch can take a step with each.

        A CPU is not reset, however long it is at work.
        """
        halves = None if self.device.arch == "cpu" else self._pace.halves()
        return self.room.streamlines if halves is None else max(1, min(self.room.streamlines, halves // 2))

    # -- the pipeline

    def track(self, seeds: Array, first_seed: int = 0) -> Iterator[Batch]:
        """Grow streamlines from seeds.

        Parameters
        ----------
        seeds : (n, 3) voxel coordinates, centre of voxel = integer.
        first_seed : number of the first seed, which the random numbers are counted by.

        Yields
        ------
        Batch
            Accepted streamlines of a chunk, in the order of their seeds and directions.
        """
        if not 0 <= first_seed <= first_seed + len(seeds) <= 2**32:
            raise ParameterError(
                f"seeds have numbers from {first_seed} to {first_seed + len(seeds) - 1}, but draws are counted by them "
                "from 0 to 2**32 - 1: give fewer seeds, or another number to the first"
            )
        begun = time.perf_counter()
        for batch in self._batches(np.asarray(seeds, np.float32), first_seed):
            self.tally.seconds["track"] = time.perf_counter() - begun
            yield batch
        self.tally.seconds["track"] = time.perf_counter() - begun
        self.tally.seconds["kernels"] = self.program.kernel_seconds()

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.tally.seconds[name] += time.perf_counter() - begun

    def _batches(self, seeds: Array, first_seed: int) -> Iterator[Batch]:
        waiting: deque[tuple[Future[Batch], Array | None]] = deque()
        first = 0
        try:
            while first < len(seeds):
                # by the last chunk's streamlines, so that all seeds that are begun have room
                ready = int(0.9 * self._most_streamlines() / self._density)
                part = seeds[first : first + max(1, min(self.room.seeds, ready))]
                with self._stage("start"):
                    counts, slot = self._launch(part, first_seed + first)
                part = part[: len(counts)]
                while waiting:
                    with self._pace.away():
                        yield self._batch(*waiting.popleft())
                for grown in self._collect(part, first_seed + first, counts, slot):
                    some = grown.parts(BATCH_POINTS)
                    for one in some:
                        future = self._pool.submit(self.unpacker.batch, one, self.rules)
                        waiting.append((future, grown.words if one is some[-1] else None))
                first += len(part)
            while waiting:
                yield self._batch(*waiting.popleft())
        finally:
            for future, _ in waiting:
                future.cancel()

    def _launch(self, seeds: Array, first_seed: int) -> tuple[Array, Array]:
        """Start a chunk; return each seed's number of streamlines, and of its first one the number on the device.

        Seeds whose streamlines have no room are left out, the last ones.  On the device streamlines of seeds close by
        follow each other, since they read the same voxels.  It may still be at work on return.
        """
        n = len(seeds)
        values = self.values
        values["rules_first_seed"] = first_seed
        for name in ("seeds_points", "seeds_counts", "seeds_peaks", "slot"):
            self._buffers.hold(name, n)
        self.program.upload(values["seeds_points"], seeds.ravel())
        self.program.run("start", n, values)
        near = near_together(seeds)
        counts = self._fetch(values["seeds_counts"], n)
        count, most = int(counts.sum()), self._most_streamlines()
        self._density = max(count / n, 1.0)
        if count > most:
            n = max(1, int(np.searchsorted(np.cumsum(counts), most, "right")))
            counts, near = counts[:n], near[near < n]
            count = int(counts.sum())
        slot = np.empty(n, np.int32)
        slot[near] = exclusive_sum(counts[near])
        self.program.upload(values["slot"], slot)
        for name in ("seed", "branch", "initial", "point", "state", "codes"):
            self._buffers.hold(f"halves_{name}", count)
        self.program.run("enlist", n, values)
        # the backward halves need to know whether the first step stands
        first = 1 + self.prepared.fill["DROPS_DEAD_END"]
        steps = min(self._pace.steps(2 * count), self.settings.max_steps)
        self._pace.begin(2 * count, first + steps, anew=True)
        self.program.run("advance", count, values | {"stride": 2, "steps": first})
        self.program.run("advance", 2 * count, values | {"stride": 1, "steps": steps})
        return counts, slot

    def _settle(self, count: int) -> tuple[Array, int]:
        """Wait for the launch; return (count, 2, 2), steps and stop reason of the halves by now, and how many grow."""
        state = self._fetch(self.values["halves_state"], 4 * count).reshape(-1, 2, 2)
        self._pace.end(int(state[..., 0].sum()), int(state[..., 0].max(initial=0)))
        return state, int(np.count_nonzero(state[..., 1] == Stop.GROWING))

    def _collect(self, seeds: Array, first_seed: int, counts: Array, slot: Array) -> Iterator[Grown]:
        """Finish a chunk's growth and bring the accepted streamlines back, a part at a time."""
        seed = np.repeat(np.arange(len(seeds), dtype=np.int32), counts)
        branch = np.arange(len(seed), dtype=np.int32) - exclusive_sum(counts).astype(np.int32)[seed]
        number = slot[seed] + branch
        with self._stage("grow"):
            state, growing = self._settle(len(seed))
            while growing:
                steps = min(self._pace.steps(growing), self.settings.max_steps)
                self._pace.begin(growing, steps)
                # halves that have taken their last step stand still
                self.program.run("advance", 2 * len(seed), self.values | {"stride": 1, "steps": steps})
                state, growing = self._settle(len(seed))
        state = np.take(state, number, axis=0)
        steps = state[:, 0, 0] + state[:, 1, 0]
        fewest, most = self.settings.bounds
        kept = np.flatnonzero((steps >= fewest) & (steps <= most))
        initial = np.zeros(len(seed), np.int32)
        if self.prepared.fill["CARRIED"]:
            initial = self._fetch(self.values["halves_initial"], len(seed))[number]
        starts = np.stack([seed, branch, initial])
        part = np.cumsum(steps[kept] // self.together + 2) // self.room.words
        for some in np.split(kept, np.flatnonzero(np.diff(part)) + 1):
            with self._stage("pack"):
                grown = self._pack(first_seed, seeds, starts[:, some], state[some], number[some])
            yield grown
        self.tally.stop_reasons += np.bincount(state[..., 1].ravel(), minlength=len(Stop))
        self.tally.seeds += len(seeds)

    def _pack(self, first_seed: int, seeds: Array, starts: Array, state: Array, streamlines: Array) -> Grown:
        """Bring streamlines back, by number; ``starts`` has seed, number there and initial direction of each."""
        lengths = np.ascontiguousarray(state[..., 0])
        halves = (2 * streamlines[:, None] + np.arange(2, dtype=np.int32)).ravel()
        words = -(-lengths.ravel() // self.together)
        slot = exclusive_sum(words).astype(np.int32)
        total = int(words.sum())
        # memory that the last parts were in: fresh memory costs as much as the copy
        packed = self._spare.pop() if self._spare else np.empty(self.room.elements["packed"], np.int32)
        if total:
            program, n = self.program, len(halves)
            values = self.values | {
                "accepted": program.upload(self._buffers.hold("accepted", n // 2), halves),
                "slot": program.upload(self._buffers.hold("words_slot", n // 2), slot),
            }
            program.gather("pack", n, values, packed[:total], len(packed))
            self.tally.copied_bytes += 4 * total
        seed, branch, initial = starts
        return Grown(first_seed, seeds, seed, branch, initial, lengths, state[..., 1], packed, slot)

    def _fetch(self, array: Any, count: int) -> Array:
        """Wait for the device; return the first ``count`` numbers of an int32 array."""
        self.tally.copied_bytes += 4 * count
        return self.program.host(array, count)

    def _batch(self, future: Future[Batch], spent: Array | None) -> Batch:
        """Wait for a batch; ``spent`` is the memory that no other needs after it."""
        with self._stage("unpack"):
            batch = future.result()
        if spent is not None:
            self._spare.append(spent)
        self.tally.streamlines += len(batch)
        self.tally.points += len(batch.points)
        return batch
