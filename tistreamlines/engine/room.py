"""What a chunk may hold, by a device's memory and by the numbers of 32 bits, and the arrays that hold it."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ..backends.program import Program
from ..errors import DeviceError, ParameterError
from ..kernels.propagate import Halves, Seeds
from ..linker.records import INTS, memory

# Of an array: 2 GiB less a word.  Lavapipe gives no more at once; byte offsets of Vulkan and Metal end at 4 GiB; and
# kernels and Taichi's shapes count elements in 32 bits, one of them the sign.
MOST_ELEMENTS = 2**29 - 1
MOST_SEEDS = 100_000  # a chunk: with more, the host would wait long for points to lay out
CPU_SEEDS = 4096  # a chunk of a CPU, or of a device that is one in disguise
PART_WORDS = 2**22  # brought back at once: 16 MB, whose points the host lays out while the next part is on its way
DIRECTIONS = 4  # of a seed, more than most tissue has; where there are more, fewer seeds share a launch
UNASKED = 2**26  # bytes that buffers may always have where nobody has set a limit
WORD = 4  # bytes of an element, a real or a whole number
Arrays = dict[str, tuple[str, int]]  # kind and number of elements, by flat name


@dataclass(frozen=True)
class Room:
    """Greatest sizes of a chunk.

    Parameters
    ----------
    seeds : to begin together.
    streamlines : to grow together.
    words : of codes to bring back at once, but for a streamline more.
    codes_a_word : codes in a word.
    each : kind and elements of a buffer for each seed or streamline, by its name.
    elements : the same for a whole buffer; ``packed`` is the array of the words.
    """

    seeds: int
    streamlines: int
    words: int
    codes_a_word: int
    each: Arrays
    elements: Arrays


def sizes(fill: Mapping[str, Any], max_steps: int) -> tuple[Arrays, Arrays]:
    """Kind and elements that a chunk's buffers have for each seed, and for each streamline, by name."""
    most = fill["seeds_most"]
    halves = Halves(seed=1, branch=1, initial=1, point=2 * (3 + fill["CARRIED"]), state=4, codes=2 * max_steps)
    seed = memory("seeds", Seeds(points=3, counts=1, peaks=most, most=most)) | {"slot": (INTS, 1)}
    return seed, memory("halves", halves) | {"accepted": (INTS, 2), "words_slot": (INTS, 2)}


def total(arrays: Arrays) -> int:
    """Elements of all arrays together."""
    return sum(count for _, count in arrays.values())


def _largest(arrays: Arrays) -> int:
    return max(count for _, count in arrays.values())


def room_for(
    fill: Mapping[str, Any], max_steps: int, tables: int, *, asked: int | None = None, limit: int | None = None,
    free: int | None = None, most_seeds: int = MOST_SEEDS,
) -> Room:  # fmt: skip
    """Fit a chunk to a device.

    What Taichi copies on its way to or from the device takes memory twice, and counts so.

    Parameters
    ----------
    fill : the method's constants and scalars.
    max_steps : greatest number of steps of a half-streamline.
    tables : bytes that are taken already.
    asked : seeds of a chunk that the user asked for; there will not be more.
    limit : bytes that tables and buffers may have together.
    free : bytes that the device has free before the tables, of which half the rest is taken where no limit is set.
    most_seeds : of a chunk, unless more are asked for.

    Raises
    ------
    ParameterError
        Where the limit holds not even a chunk of one seed.
    """
    seed, streamline = sizes(fill, max_steps)
    a_seed, a_streamline = WORD * (total(seed) + 3), WORD * (total(streamline) + 4)
    codes = 32 // fill["CODE_BITS"]
    most, longest = fill["seeds_most"], 2 * -(-max_steps // codes)
    least = a_seed + most * a_streamline + 2 * WORD * (longest + 1)
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
    words = min(PART_WORDS, max((left - least) // 32, 1))
    left -= 2 * WORD * (words + longest)
    seeds = asked or min(left // (a_seed + DIRECTIONS * a_streamline), most_seeds)
    seeds = min(seeds, (left - most * a_streamline) // a_seed, MOST_ELEMENTS // _largest(seed))
    streamlines = min((left - max(seeds, 1) * a_seed) // a_streamline, MOST_ELEMENTS // _largest(streamline))
    streamlines = max(streamlines, most)
    seeds = max(min(seeds, streamlines), 1)
    elements = {name: (kind, size * seeds) for name, (kind, size) in seed.items()}
    elements |= {name: (kind, size * streamlines) for name, (kind, size) in streamline.items()}
    return Room(seeds, streamlines, words, codes, seed | streamline, elements | {"packed": (INTS, words + longest)})


class Buffers:
    """A chunk's arrays on a device: made when they are needed, larger when need be, and never beyond their bounds.

    Parameters
    ----------
    program : makes arrays.
    room : their bounds.
    values : the kernels' arguments by name, which the arrays are kept among.
    """

    def __init__(self, program: Program, room: Room, values: dict[str, Any]) -> None:
        self._program, self._room, self._values = program, room, values
        self._held: dict[str, int] = {}

    def hold(self, name: str, count: int) -> Any:
        """The array of that name, with room for so many seeds or streamlines; it grows by a quarter at least."""
        kind, most = self._room.elements[name]
        size, held = max(count, 1) * self._room.each[name][1], self._held.get(name, 0)
        if held < size:
            self._values.pop(name, None)  # its memory is free before it is needed again
            self._held.pop(name, None)
            held = min(max(size, int(1.25 * held)), most)
            with memory_for(f"{WORD * held / 1e9:.3g} GB of seeds or streamlines"):
                self._values[name] = self._program.empty(held, kind)
            self._held[name] = held
        return self._values[name]


@contextmanager
def memory_for(what: str) -> Generator[None, None, None]:
    """Say what a device had no memory for, and what may help."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        reason = (str(error).splitlines() or ["no reason given"])[0]
        raise DeviceError(
            f"the device has no memory for {what} ({reason}): give a lower --memory-limit or --chunk-size, a tighter "
            "mask or a higher stop threshold"
        ) from error
