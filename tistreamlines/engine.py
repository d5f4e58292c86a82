"""The engine: seeds go in, batches of finished streamlines come out, chunk by chunk.

A chunk's seeds get their initial directions, a prefix sum gives each direction its streamline, both halves of every
streamline grow in launches of bounded length, and only the accepted ones come back, as a few bits a step.  The host
turns them into points while the device grows the next chunk.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from .backends import open_program
from .backends.devices import Device
from .kernels import propagate
from .models import Prepared
from .outcome import Stop
from .tractogram import Batch, Space
from .unpacking import Grown, Unpacker

Array = npt.NDArray[Any]
# well under the two seconds after which desktop systems reset a GPU; a CPU finds its caches cold after each launch
LAUNCH_SECONDS = {"cpu": 2.0, "cuda": 0.4, "vulkan": 0.4, "metal": 0.4}
FIRST_STEPS = 16
PART_WORDS = 2**22  # brought back at once: 16 MB, whose points the host lays out while the next part is on its way
BATCH_POINTS = 2**20  # 12 MB, laid out by one thread: malloc asks the system for more than 32 MB anew each time
MOST_SEEDS = 100_000  # a chunk: with more, the host would wait long for points to lay out
STAGES = ("compile", "track", "kernels", "start", "grow", "pack", "unpack")


@dataclass(frozen=True)
class Settings:
    """How streamlines are grown.

    Parameters
    ----------
    step_mm : step length in mm.
    max_steps : greatest number of steps of a half-streamline.
    min_mm, max_mm : lengths outside are dropped; so are streamlines of a single point.
    rng_seed : key of the random numbers.
    exact : the same bits on every device; else whatever the compiler makes of it.
    threads : CPU threads, None for all.
    chunk_size : seeds a chunk, None to fit the device.
    memory_limit : bytes of device memory to use at most, None for what is free.
    profile : time the kernels themselves too (GPUs; costs a wait after each launch).
    """

    step_mm: float
    max_steps: int = 500
    min_mm: float = 0.0
    max_mm: float = float("inf")
    rng_seed: int = 0
    exact: bool = True
    threads: int | None = None
    chunk_size: int | None = None
    memory_limit: int | None = None
    profile: bool = False


@dataclass
class Tally:
    """What a run did: seconds by stage, how halves ended, bytes that came back from the device."""

    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STAGES, 0.0))
    stop_reasons: Array = field(default_factory=lambda: np.zeros(len(Stop), np.int64))
    seeds: int = 0
    streamlines: int = 0
    points: int = 0
    copied_bytes: int = 0


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
        self.prepared, self.space, self.device, self.settings = prepared, space, device, settings
        from .backends import prefix

        self._host = prefix
        self.tally = Tally()
        begun = time.perf_counter()
        roots = [propagate.start, propagate.enlist, propagate.advance, propagate.pack]
        self.program = open_program(device, roots, prepared, settings)
        self.unpacker = Unpacker(prepared, space)
        key = settings.rng_seed & 0xFFFFFFFFFFFFFFFF
        steps = settings.step_mm / space.voxel_sizes
        self.rules = {f"rules_step_{a}": float(s) for a, s in zip("xyz", steps, strict=True)} | {
            "rules_max_steps": settings.max_steps, "rules_key": np.array([key], np.uint64).view(np.int32),
        }  # fmt: skip
        arrays = prepared.arrays | {"rules_key": self.rules["rules_key"]}
        self.values = prepared.scalars | self.rules | {k: self.program.array(v) for k, v in arrays.items()}
        self.together = 32 // prepared.fill["CODE_BITS"]  # codes to a word
        self._buffers: dict[str, tuple[int, Any]] = {}
        self._spare: list[Array] = []
        # beside a GPU a core is left to the wait for it
        workers = settings.threads or max(1, (os.cpu_count() or 1) - (device.arch != "cpu"))
        self._pool = ThreadPoolExecutor(workers, "points")
        wait([self._pool.submit(time.sleep, 0.01) for _ in range(workers)])  # some systems start threads slowly
        self._rate = 0.0
        self.chunk_size()  # asks for the device's memory before the clock of a run starts
        self._warm_up()
        self.tally = Tally()
        self.tally.seconds["compile"] = time.perf_counter() - begun
        self.program.kernel_seconds()

    def _warm_up(self) -> None:
        """Compile every kernel: grow from a seed in the middle of the stored voxels, and bring a made-up step back."""
        index = np.flatnonzero(self.prepared.arrays["volume_index"])
        middle = index[len(index) // 2] if len(index) else 0
        seed = np.array(np.unravel_index(middle, self.space.shape), np.float32)[None]
        for _ in self._batches(seed, 1, 0):
            pass
        state, none = np.array([[[1, 0], [1, 0]]], np.int32), np.zeros(1, np.int32)
        self.program.upload(self.values["halves_state"], state.ravel())
        self.program.upload(self.values["halves_codes"], np.zeros(2, np.int32))
        self.unpacker.batch(self._pack(0, seed, np.zeros((3, 1), np.int32), state, none), self.rules)
        self._rate = 0.0

    # -- memory

    def chunk_size(self) -> int:
        """Seeds a chunk: what the caller asked for, else what the device's memory holds."""
        if self.settings.chunk_size:
            return self.settings.chunk_size
        if self.device.arch == "cpu":
            return 4096
        free = self.settings.memory_limit or self._free
        spare = max(free // 2 - sum(a.nbytes for a in self.prepared.arrays.values()), 2**26)
        # four directions a seed are more than most tissue has; a chunk that has more gets larger buffers
        per_seed = 4 * (self.prepared.fill["MAX_DIRECTIONS"] + 4) + 4 * 2 * (4 * self.settings.max_steps + 24)
        return int(np.clip(spare // per_seed, 256, MOST_SEEDS))

    @cached_property
    def _free(self) -> int:
        """Bytes free on the device when first asked: NVIDIA's driver takes 13 ms to say."""
        from .backends.devices import free_memory

        return free_memory(self.device) or 2**30

    def _buffer(self, name: str, size: int, kind: str) -> Any:
        held, array = self._buffers.get(name, (0, None))
        if array is None or held < size:
            self._buffers.pop(name, None)
            held = max(size, int(1.25 * held), 1)
            array = self.program.empty(held, kind)
            self._buffers[name] = (held, array)
        return array

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
        begun = time.perf_counter()
        for batch in self._batches(np.asarray(seeds, np.float32), self.chunk_size(), first_seed):
            self.tally.seconds["track"] = time.perf_counter() - begun
            yield batch
        self.tally.seconds["track"] = time.perf_counter() - begun
        self.tally.seconds["kernels"] = self.program.kernel_seconds()

    @contextmanager
    def _stage(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        yield
        self.tally.seconds[name] += time.perf_counter() - begun

    def _batches(self, seeds: Array, chunk: int, first_seed: int) -> Iterator[Batch]:
        waiting: deque[tuple[Future[Batch], Array | None]] = deque()
        try:
            for first in range(0, len(seeds), chunk):
                part = seeds[first : first + chunk]
                with self._stage("start"):
                    counts, slot = self._launch(part, first_seed + first)
                while waiting:
                    yield self._batch(*waiting.popleft())
                for grown in self._collect(part, first_seed + first, counts, slot):
                    some = grown.parts(BATCH_POINTS)
                    for one in some:
                        future = self._pool.submit(self.unpacker.batch, one, self.rules)
                        waiting.append((future, grown.words if one is some[-1] else None))
            while waiting:
                yield self._batch(*waiting.popleft())
        finally:
            for future, _ in waiting:
                future.cancel()

    def _launch(self, seeds: Array, first_seed: int) -> tuple[Array, Array]:
        """Start a chunk; return each seed's number of streamlines, and of its first one the number on the device.

        There streamlines of seeds close by follow each other, since they read the same voxels.  The device may still be
        at work on return.
        """
        n = len(seeds)
        values = self.values
        values["rules_first_seed"] = first_seed & 0xFFFFFFFF
        values["seeds_points"] = self.program.upload(self._buffer("points", 3 * n, "reals"), seeds.ravel())
        values["seeds_counts"] = self._buffer("counts", n, "ints")
        values["seeds_peaks"] = self._buffer("peaks", n * self.prepared.fill["MAX_DIRECTIONS"], "ints")
        self.program.run("start", n, values)
        near = self._host.near_together(seeds)
        counts = self._fetch(values["seeds_counts"], n)
        count, slot = int(counts.sum()), np.empty(n, np.int32)
        slot[near] = self._host.exclusive_sum(counts[near])
        values["slot"] = self.program.upload(self._buffer("slot", n, "ints"), slot)
        carried = 3 + self.prepared.fill["CARRIED"]
        sizes = {"seed": 1, "branch": 1, "initial": 1, "point": 2 * carried, "state": 4}
        sizes["codes"] = 2 * self.settings.max_steps
        for name, size in sizes.items():
            values[f"halves_{name}"] = self._buffer(name, max(count, 1) * size, "reals" if name == "point" else "ints")
        self.program.run("enlist", n, values)
        # the backward halves need to know whether the first step stands
        first = 1 + self.prepared.fill["DROPS_DEAD_END"]
        self.program.run("advance", count, values | {"stride": 2, "steps": first})
        self._advance(count, 2 * count)
        return counts, slot

    def _advance(self, count: int, growing: int) -> None:
        """Launch as many more steps as fit LAUNCH_SECONDS; halves that have taken their last stand still."""
        steps = int(self._rate * LAUNCH_SECONDS[self.device.arch] / max(growing, 1))
        steps = min(max(steps, FIRST_STEPS), self.settings.max_steps)
        self._launched = time.perf_counter()
        self.program.run("advance", 2 * count, self.values | {"stride": 1, "steps": steps})

    def _settle(self, count: int, before: int) -> Array:
        """Wait for the launch; measure the rate; return (count, 2, 2): steps and stop reason of the halves by now."""
        state = self._fetch(self.values["halves_state"], 4 * count).reshape(-1, 2, 2)
        seconds = time.perf_counter() - self._launched
        taken = int(state[..., 0].sum()) - before
        if taken > 1000:
            self._rate = taken / max(seconds, 1e-6)
        return state

    def _collect(self, seeds: Array, first_seed: int, counts: Array, slot: Array) -> Iterator[Grown]:
        """Finish a chunk's growth and bring the accepted streamlines back, a part at a time."""
        seed = np.repeat(np.arange(len(seeds), dtype=np.int32), counts)
        branch = np.arange(len(seed), dtype=np.int32) - self._host.exclusive_sum(counts).astype(np.int32)[seed]
        number = slot[seed] + branch
        with self._stage("grow"):
            state = self._settle(len(seed), 0)
            while growing := int(np.count_nonzero(state[..., 1] == Stop.GROWING)):
                self._advance(len(seed), growing)
                state = self._settle(len(seed), int(state[..., 0].sum()))
        state = np.take(state, number, axis=0)
        steps = state[:, 0, 0] + state[:, 1, 0]
        mm = steps * self.settings.step_mm
        kept = np.flatnonzero((steps > 0) & (mm >= self.settings.min_mm) & (mm <= self.settings.max_mm))
        initial = np.zeros(len(seed), np.int32)
        if self.prepared.fill["CARRIED"]:
            initial = self._fetch(self.values["halves_initial"], len(seed))[number]
        starts = np.stack([seed, branch, initial])
        part = np.cumsum(steps[kept] // self.together + 2) // PART_WORDS
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
        slot = self._host.exclusive_sum(words).astype(np.int32)
        total = int(words.sum())
        # memory that the last parts were in: fresh memory costs as much as the copy
        packed = self._spare.pop() if self._spare else np.empty(PART_WORDS + 2 * self.settings.max_steps, np.int32)
        if total:
            program, n = self.program, len(halves)
            values = self.values | {
                "accepted": program.upload(self._buffer("accepted", n, "ints"), halves),
                "slot": program.upload(self._buffer("words_slot", n, "ints"), slot),
            }
            program.gather("pack", n, values, packed[:total])
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
