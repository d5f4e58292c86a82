"""Modules of SPIR-V, whose instructions may be replaced.

SPIR-V is a list of words: five of a header, then instructions, each of which begins with its length and its number. The
numbers are those of the specification (registry.khronos.org).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

HEADER, BOUND = 5, 3  # length in words, and the place of the word that is greater than the number of any result
CAPABILITY, IMPORTED, DECORATE, FUNCTION = 17, 11, 71, 54
TYPE_BOOL, TYPE_INT, TYPE_REAL, CONSTANT = 20, 21, 22, 43
ANNOTATIONS = (71, 72, 73, 74)  # decorations, which come before all types
CONSTANT_WORDS = 4  # of the instruction of a constant that has 32 bits

Instruction = list[int]


def instruction(number: int, *words: int) -> Instruction:
    """Return an instruction of a number and the words that follow it."""
    return [len(words) + 1 << 16 | number, *words]


def number_of(entry: Instruction) -> int:
    """Return the number of an instruction."""
    return entry[0] & 0xFFFF


class Module:
    """A module.

    Parameters
    ----------
    code : its words.

    Attributes
    ----------
    listed : its instructions, in order.
    """

    def __init__(self, code: bytes) -> None:
        words = np.frombuffer(code, "<u4").tolist()
        self._header, self.listed = words[:HEADER], list(_instructions(words))

    def code(self) -> bytes:
        """Return the module's words."""
        return np.array(self._header + [word for entry in self.listed for word in entry], "<u4").tobytes()

    def all(self, *numbers: int) -> list[Instruction]:
        """Return the instructions of some numbers, in order."""
        return [entry for entry in self.listed if number_of(entry) in numbers]

    def results(self, *numbers: int) -> dict[int, Instruction]:
        """Return the instructions of some numbers by the number of their result, which follows its type."""
        return {entry[2]: entry for entry in self.all(*numbers)}

    def new(self) -> int:
        """Return the number of a new result."""
        self._header[BOUND] += 1
        return self._header[BOUND] - 1

    def type(self, *words: int) -> int:
        """Return the number of a type by its instruction's number and what follows its own number there.

        Raises
        ------
        LookupError
            If the module has no such type.
        """
        for entry in self.listed:
            if (number_of(entry), *entry[2:]) == words:
                return entry[1]
        raise LookupError(f"SPIR-V without a type {words}")

    def constants(self) -> dict[int, int]:
        """Return the values of all constants of 32 bits by their numbers; several may have the same value."""
        return {entry[2]: entry[3] for entry in self.all(CONSTANT) if len(entry) == CONSTANT_WORDS}

    def constant(self, type_: int, value: int) -> int:
        """Return the number of a new constant."""
        place = next(place for place, entry in enumerate(self.listed) if number_of(entry) == FUNCTION)
        self.listed.insert(place, instruction(CONSTANT, type_, number := self.new(), value))
        return number

    def decorate(self, *decorations: tuple[int, ...]) -> None:
        """Add decorations: each the number of what is decorated, and the words that follow."""
        place = next(place for place, entry in enumerate(self.listed) if number_of(entry) in ANNOTATIONS)
        self.listed[place:place] = [instruction(DECORATE, *words) for words in decorations]

    def require(self, capability: int) -> None:
        """Ask for a capability."""
        if instruction(CAPABILITY, capability) not in self.listed:
            self.listed.insert(0, instruction(CAPABILITY, capability))

    def replace(self, change: Callable[[Instruction], list[Instruction] | None]) -> None:
        """Replace each instruction by those that ``change`` returns for it, if it returns any."""
        self.listed = [new for entry in self.listed for new in change(entry) or [entry]]


def _instructions(words: list[int]) -> Iterator[Instruction]:
    start = HEADER
    while start < len(words):
        length = words[start] >> 16
        yield words[start : start + length]
        start += length
