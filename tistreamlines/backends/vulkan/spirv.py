"""Changes to Taichi's SPIR-V: marks of operations of reals, indices of arrays, and shuffles for teams.

SPIR-V is a list of words: five of a header, then instructions, each of which begins with its length and its number. The
numbers are those of the specification (registry.khronos.org). Instructions that this file does not know stay as they
are. Shuffles replace Taichi's reductions of reals; as with CUDA, they need all 32 threads of a team.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

HEADER, BOUND = 5, 3  # length in words, and the place of the word that is greater than the number of any result
CAPABILITY, IMPORTED, DECORATE, FUNCTION = 17, 11, 71, 54
TYPE_INT, CONSTANT = 21, 43
ANNOTATIONS = (71, 72, 73, 74)  # decorations, which come before all types
CONSTANT_WORDS = 4  # of the instruction of a constant that has 32 bits
REAL_OPERATIONS = (127, 129, 131, 133, 136)  # negation, sum, difference, product and quotient
NAMES = (5, 6)  # for debuggers; those of values depend on earlier kernels of Taichi
NO_CONTRACTION, ARRAY_STRIDE = 42, 6
TO_POINTER, TO_LONG, SUM, SHIFT = 120, 114, 128, 196
ELEMENT, EXTENDED = 67, 12
EXTREMES = {355: 37, 358: 40}  # the least and the greatest of a subgroup's reals, and of two reals
BROADCAST, SHUFFLED, SHUFFLE_XOR = 337, 345, 346
SUBGROUP_OPERATIONS, REDUCE = range(349, 365), 0  # scans have the same numbers as reductions
ARITHMETIC, SHUFFLE = 63, 65  # capabilities

Instruction = list[int]


def completed(code: bytes, exact: bool) -> bytes:
    """Return a module that computes the same in fewer instructions of the device.

    If ``exact``, compilers keep every operation of reals as it stands. Like GLSL's ``precise``: NoContraction forbids to
    fuse an operation with another, and to reorder it.
    """
    module = Module(code)
    module.listed = [entry for entry in module.listed if number_of(entry) not in NAMES]
    if exact:
        module.decorate(*((entry[2], NO_CONTRACTION) for entry in module.all(*REAL_OPERATIONS)))
    index(module)
    shuffle(module)
    if any(number_of(entry) in SUBGROUP_OPERATIONS for entry in module.listed):
        module.require(ARITHMETIC)
    return module.code()


def index(module: Module) -> None:
    """Find what a kernel reads and writes by its index, which devices do at once, instead of a sum of bytes."""
    sums, longs, shifts = (module.results(number) for number in (SUM, TO_LONG, SHIFT))
    constants, indexed = module.constants(), set()

    def change(entry: Instruction) -> list[Instruction] | None:
        if number_of(entry) != TO_POINTER:
            return None
        _, type_, pointer, address = entry
        try:
            first, offset = sums[address][3:]
            number, by = shifts[longs[offset][3]][3:]
        except KeyError:
            return None
        if constants.get(by) != 2:
            return None
        indexed.add(type_)
        start = module.new()
        return [instruction(TO_POINTER, type_, start, first), instruction(ELEMENT, type_, pointer, start, number)]

    module.replace(change)
    module.decorate(*((type_, ARRAY_STRIDE, 4) for type_ in sorted(indexed)))


def shuffle(module: Module) -> None:
    """Find the least or the greatest of a subgroup's reals in five steps, as with CUDA; make broadcasts shuffles.

    A broadcast needs the same lane's number in all lanes, where ``raised`` has different ones.
    """
    if not module.all(*EXTREMES, BROADCAST):
        return
    (library,) = (entry[1] for entry in module.all(IMPORTED))
    (word,) = (entry[1] for entry in module.all(TYPE_INT) if entry[2:] == [32, 0])
    steps = [module.constant(word, step) for step in (16, 8, 4, 2, 1)]

    def change(entry: Instruction) -> list[Instruction] | None:
        if number_of(entry) == BROADCAST:
            return [instruction(SHUFFLED, *entry[1:])]
        if number_of(entry) not in EXTREMES or entry[4] != REDUCE:
            return None
        _, type_, result, scope, _, value = entry
        replaced = []
        for step in steps:
            other, extreme = module.new(), result if step == steps[-1] else module.new()
            replaced.append(instruction(SHUFFLE_XOR, type_, other, scope, value, step))
            replaced.append(instruction(EXTENDED, type_, extreme, library, EXTREMES[number_of(entry)], value, other))
            value = extreme
        return replaced

    module.replace(change)
    module.require(SHUFFLE)


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

    def constants(self) -> dict[int, int]:
        """Return the values of all constants of 32 bits by their numbers; several may have the same value."""
        return {entry[2]: entry[3] for entry in self.all(CONSTANT) if len(entry) == CONSTANT_WORDS}

    def constant(self, type_: int, value: int) -> int:
        """Return the number of a new constant."""
        place = next(place for place, entry in enumerate(self.listed) if number_of(entry) == FUNCTION)
        self.listed.insert(place, instruction(CONSTANT, type_, number := self.new(), value))
        return number

    def decorate(self, *decorations: tuple[int, ...]) -> None:
        """Add decorations: each the number of its target, and the words that follow."""
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
