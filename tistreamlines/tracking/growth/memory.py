"""How large a chunk may be, limited by the device's memory and by 32-bit indices, and the arrays that hold it."""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, replace

from ...backends.faults import no_memory
from ...backends.program import Program
from ...devices import Device, free_memory, usable_cores
from ...errors import DeviceMemoryError, ParameterError
from ...linker.parts import Arrays
from ...linker.records import INTS, Arguments
from ...space.sphere import round_up
from ..parts import Layout
from .settings import Settings

# Of an array: 2 GiB less a word.  Lavapipe allocates no more at once, byte offsets of Vulkan and Metal end at 4 GiB,
# and kernels and Taichi index elements with signed 32-bit integers.
MOST_ELEMENTS = 2**29 - 1
# Of a chunk: of the first one, and at most. A later one has more than the first if their streamlines have no more than
# CHUNK_POINTS points, since the longest streamlines of each chunk are waited for.
USUAL_SEEDS, MOST_SEEDS, CHUNK_POINTS = 100_000, 400_000, 2**24
LAST_SEEDS, LAST_POINTS = 40_000, 2**23  # of the last chunks, whose points are laid out when nothing is left to grow
SOFTWARE_SEEDS = 4096  # the same of a GPU that is emulated by the CPU
# The same for each thread of a CPU, and at most. Many seeds lie close together, so that their streamlines share caches;
# and where 16 threads had 4096 seeds together, they waited for each other and for Python half of the time.
CPU_SEEDS, CPU_MOST_SEEDS = 8192, 2**16
CPU_BYTES = 2**30  # that buffers may take on a CPU without a limit of memory; most of their pages are never touched
FEWEST_SEEDS = 64  # of a chunk that is tried again after the device ran out of memory
PART_WORDS = 2**22  # copied back at once: 16 MB, whose points the host lays out during the next copy
PARTS_AHEAD = 4  # of these that may wait on the device, which works on the next chunk
DIRECTIONS = 4  # of a seed that are expected of the first chunk at most; if there are more, fewer seeds share a launch
# How many chunks have arrays of their own for seeds, and for halves. A device takes the first steps of the next chunk
# while the host is at work on the last one. When the seeds of the chunk after these two are copied to the device,
# kernels of products may still read those of the last one.
SEED_SETS, HALF_SETS = 3, 2
UNASKED = 2**26  # bytes that buffers may always take if no limit is set
WORD = 4  # bytes of an element, a real or a whole number
ACCEPTED: Arrays = {"accepted": (INTS, 1), "words_slot": (INTS, 2)}  # elements for each accepted streamline


@dataclass(frozen=True)
class Capacity:
    """Maximum sizes of a chunk.

    Parameters
    ----------
    seeds : number of seeds to start together.
    streamlines : number of streamlines to grow together.
    words : words of codes to copy back at once, plus at most one streamline.
    codes_a_word : number of codes in a word.
    each : kind and elements of a buffer for each seed or streamline, by its name.
    elements : the same for a whole buffer; ``packed`` is the array of the words.
    """

    seeds: int
    streamlines: int
    words: int
    codes_a_word: int
    each: Arrays
    elements: Arrays


def total(arrays: Arrays) -> int:
    """Elements of all arrays together."""
    return sum(count for _, count in arrays.values())


def _largest(arrays: Arrays) -> int:
    return max(count for _, count in arrays.values())


def capacity_for(
    layout: Layout, max_steps: int, tables: int, *, asked: int | None = None, limit: int | None = None,
    free: int | None = None, most_seeds: int = MOST_SEEDS, packs: bool = True,
) -> Capacity:
    """Fit a chunk to a device.

    Arrays that Taichi copies to or from the device are counted twice, since it needs memory for both copies.

    Parameters
    ----------
    layout : how halves lie in memory.
    max_steps : maximum number of steps of a half-streamline.
    tables : bytes that the tables take.
    asked : the user's maximum number of seeds in a chunk.
    limit : bytes that tables and buffers may take together.
    free : free bytes of the device before the tables; without a limit, buffers take half of the memory that the tables
    leave.
    most_seeds : maximum number of seeds in a chunk, unless the user wants more.
    packs : whether codes are packed to be copied back, a part at a time.

    Raises
    ------
    ParameterError
        If the limit is too small for the tables and a chunk of one seed.
    """
    seed, streamline, accepted = layout.of_seed(), layout.of_streamline(max_steps), ACCEPTED
    a_seed = WORD * (SEED_SETS * total(seed) + 3)
    a_streamline = WORD * (HALF_SETS * total(streamline) + total(accepted) + 4)
    streamline = {**streamline, **accepted}
    codes, together = layout.codes_a_word, layout.together
    most, longest = round_up(layout.getter.most_directions, together), 2 * -(-max_steps // codes)
    a_word = (PARTS_AHEAD + 1) * WORD * packs
    least = a_seed + most * a_streamline + a_word * (longest + 1)
    left = 2**62
    if limit is not None:
        left = limit - tables
        if left < least:
            raise ParameterError(
                f"--memory-limit is {limit / 1e9:.4g} GB, but the tables take {tables / 1e9:.4g} and the smallest "
                f"chunk {least / 1e9:.4g}: give {(tables + least) / 1e9 + 0.0005:.3f} or more, or use a tighter mask, "
                "a higher stop threshold or a lower --max-steps"
            )
    elif free is not None:
        left = max((free - tables) // 2, UNASKED, least)
    words = min(PART_WORDS, max((left - least) // (16 * PARTS_AHEAD), 1))
    left -= a_word * (words + longest)
    seeds = asked or min(left // (a_seed + a_streamline), most_seeds)  # if each has a streamline
    seeds = min(seeds, (left - most * a_streamline) // a_seed, MOST_ELEMENTS // _largest(seed))
    streamlines = min((left - max(seeds, 1) * a_seed) // a_streamline, MOST_ELEMENTS // _largest(streamline))
    streamlines = max(streamlines // together * together, most)
    seeds = max(min(seeds, streamlines), 1)
    elements = {name: (kind, size * seeds) for name, (kind, size) in seed.items()}
    elements |= {name: (kind, size * streamlines) for name, (kind, size) in streamline.items()}
    elements["packed"] = (INTS, words + longest)
    return Capacity(seeds, streamlines, words, codes, {**seed, **streamline}, elements)


class Buffers:
    """A chunk's arrays on a device, allocated when they are first needed and enlarged up to their maximum sizes.

    Parameters
    ----------
    program : allocates the arrays.
    capacity : their maximum sizes.
    waits : whether to wait for users of an array before a larger one takes its place, as on a CPU.
    """

    def __init__(self, program: Program, capacity: Capacity, waits: bool = False) -> None:
        self._program, self._capacity, self._waits = program, capacity, waits
        self._held: dict[str, tuple[object, int]] = {}

    def hold(self, name: str, count: int) -> object:
        """Return an array with room for ``count`` seeds or streamlines; it grows by a quarter or more."""
        kind, most = self._capacity.elements[name]
        size, held = max(count, 1) * self._capacity.each[name][1], self._held[name][1] if name in self._held else 0
        if held < size:
            if self._waits and held:
                self._program.host(self._held[name][0], 0)  # which waits for its users
            self._held.pop(name, None)  # frees its memory before the new allocation
            held = min(max(size, int(1.25 * held)), most)
            with memory_for(f"{WORD * held / 1e9:.3g} GB of seeds or streamlines"):
                self._held[name] = self._program.empty(held, kind), held
        return self._held[name][0]

    def hold_all(self, names: Iterable[str], count: int) -> Arguments:
        """Return arrays by name."""
        return {name: self.hold(name, count) for name in names}

    def release(self) -> None:
        """Give the memory of all arrays back."""
        self._held.clear()

    def bytes_for(self, times: float) -> int:
        """Return the bytes of the arrays, if chunks were so many times as large as the largest one so far."""
        sizes = ((held, self._capacity.elements[name][1]) for name, (_, held) in self._held.items())
        return WORD * sum(min(int(times * held), most) for held, most in sizes)


@contextmanager
def memory_for(what: str) -> Generator[None, None, None]:
    """Turn a failed allocation into an error that says what needed memory, and what may help."""
    try:
        yield
    except (DeviceMemoryError, RuntimeError, MemoryError) as error:
        raise no_memory(what, error.__cause__ or error) from error


class ChunkMemory:
    """The arrays of chunks on a device.

    Parameters
    ----------
    program : allocates the arrays.
    device, settings : where and how streamlines are grown.
    layout : how halves lie in memory.
    tables : bytes of the tables and of products; the device reports its memory before it holds these.

    Attributes
    ----------
    capacity : the greatest sizes of a chunk.
    accepted : arrays of the accepted streamlines.
    density, points : of a seed in the last chunk: its streamlines, at least one, and their points; see :meth:`forget`.
    """

    def __init__(self, program: Program, device: Device, settings: Settings, layout: Layout, tables: int) -> None:
        self.tables, self._together = tables, layout.together
        self._large = settings.chunk_size is None and not layout.load.recovers
        self.capacity = _fit(device, settings, layout, tables)
        self.forget()
        kinds = (layout.of_seed(), layout.of_streamline(settings.max_steps), ACCEPTED)
        self._names = [[name for name, (_, size) in arrays.items() if size] for arrays in kinds]
        sets = (1, SEED_SETS, HALF_SETS)
        (self.accepted,), self._seeds, self._halves = (
            [Buffers(program, self.capacity, device.on_host) for _ in range(count)] for count in sets
        )

    def forget(self) -> None:
        """Expect of the next chunk's seeds what can be expected of any."""
        self.density, self.points = float(DIRECTIONS), float("inf")

    def for_seeds(self, count: int) -> Arguments:
        """Return arrays for the next chunk's seeds, by flat name."""
        return _next(self._seeds).hold_all(self._names[0], count)

    def for_halves(self, count: int) -> Arguments:
        """Return arrays for the halves of the next chunk's streamlines, by flat name."""
        return _next(self._halves).hold_all(self._names[1], round_up(count, self._together))

    def ready(self, streamlines: int, ahead: int = 0) -> int:
        """Return how many seeds to begin together, if each has as many streamlines and points as in the last chunk.

        If it is known how many are ``ahead``, a chunk takes at most half of them, so that the last ones, whose points
        the host lays out while the device has nothing to do, are small.

        Parameters
        ----------
        streamlines : how many may grow together.
        ahead : how many seeds are left; 0 if that is not known.
        """
        seeds = min(self.capacity.seeds, int(0.9 * streamlines / self.density))
        if self._large:
            seeds = min(seeds, max(USUAL_SEEDS, int(CHUNK_POINTS / self.points)))
            least = max(LAST_SEEDS, int(LAST_POINTS / self.points))
            if ahead > 1.5 * least:
                seeds = min(seeds, max(ahead // 2, least))
        return max(1, seeds)

    def halve(self, seeds: int) -> int:
        """Give the memory of a chunk of so many seeds back; return how many the next ones may have, 0 if no fewer."""
        for buffers in (self.accepted, *self._seeds, *self._halves):
            buffers.release()
        if seeds <= FEWEST_SEEDS:
            return 0
        self.capacity = replace(self.capacity, seeds=max(seeds // 2, FEWEST_SEEDS))
        return self.capacity.seeds

    def bytes_for(self, times: float, chunks: int) -> int:
        """Return the bytes of tables and arrays for so many chunks, ``times`` as large as the largest one so far."""
        kinds = ([self.accepted], self._seeds, self._halves)
        return self.tables + sum(min(len(sets), chunks) * max(held.bytes_for(times) for held in sets) for sets in kinds)


def _next(sets: list[Buffers]) -> Buffers:
    """Return the set of arrays that was taken before all others."""
    sets.append(sets.pop(0))
    return sets[-1]


def _fit(device: Device, settings: Settings, layout: Layout, tables: int) -> Capacity:
    """Ask the device for its free memory before it holds the tables, and before the clock of a run starts."""
    free = None
    if device.on_host:
        most = min(CPU_SEEDS * (settings.threads or usable_cores()), CPU_MOST_SEEDS)
        free = tables + 2 * CPU_BYTES
    else:
        most = SOFTWARE_SEEDS if device.software else MOST_SEEDS
        if settings.memory_limit is None:
            free = free_memory(device) or 2**30
    return capacity_for(
        layout, settings.max_steps, tables, asked=settings.chunk_size, limit=settings.memory_limit, free=free,
        most_seeds=most, packs=not device.on_host,
    )
