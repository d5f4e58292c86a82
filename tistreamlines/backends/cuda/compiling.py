"""Kernels that Taichi compiles for CUDA, made ready to be launched without its runtime.

Taichi's kernels take a structure with the address of their arguments, which lie in the device's memory, and read an argument
again each time that they use it, since another thread might have changed it. Here, the arguments themselves are given at the
launch: the device reads them as quickly as a number in an instruction, and they take no registers. Arrays are read and
written as what they are, memory of the device: Taichi leaves it open which of a device's memories an address is in.

Guards keep LLVM from making one operation of a sum and a product. A product is less an argument that is always 0, and
the first term of a sum is times a 1 that is made of it (see ``backends/taichi/linking.py``). LLVM makes one operation
of each, which rounds once. PTX has a mark for this (``.rn``), with which neither number is needed, so each guard
becomes a marked product or sum. The bits are the same.

Rows begin at multiples of 16 bytes, so four numbers of a row that a thread reads one by one are read at once. iFOD2 with
five tissues and backtracking grows 1.06 times as fast on an H200.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..driven.memory import Compiled, Task

if TYPE_CHECKING:
    from ..taichi.runtime import Runtime

WORD, ADDRESS = 4, 8  # bytes of a number, and of an address
ARGUMENTS, RUNTIME, TEMPORARY = "arguments", "runtime", "temporary"  # what a register may hold the address of
FIELDS = {0: ARGUMENTS, 8: RUNTIME}  # of Taichi's structure, at these bytes
TEMPORARIES = 32872  # place in Taichi's runtime of the address where a kernel's tasks leave numbers for the next one
TASK = "_kernel_1_range_for"  # of a kernel, after the task that computes how many threads there are
BODY = "function_body"  # what a task calls for each of its threads if it is long: with the structure and the number of the thread
OTHER_MEMORY = re.compile(r"%SP|\.local|cvta\.(?!to\.global)|\bcall")
PLACE = re.compile(r"\[(?P<base>[%\w$]+)(?:\+(?P<place>\d+))?\]")
OPEN = re.compile(r"\b(ld|st|atom|red)\.(?!global|shared|param|const|local)")
THREAD = """\
	.reg .b32 %thread<2>;
	mov.u32 	%thread0, %tid.x;
	mov.u32 	%thread1, %ctaid.x;
	mad.lo.s32 	{target}, %thread1, {threads}, %thread0;"""
INSTRUCTION = re.compile(r"^\t(?P<guard>@!?%p\d+ )?(?P<name>[a-z][\w.]*)\s+(?P<operands>.*);")
ONE = "1065353216"  # the bits of 1.0
# what an instruction makes of the argument that is always 0, by its name and its operands
OF_ZERO: dict[tuple[str, ...], str] = {("neg.ftz.f32", "0"): "-0", ("add.s32", "0", ONE): "1"}
LOAD = re.compile(r"^\tld\.global\.f32 \t(?P<target>%f\d+), \[(?P<base>%rd\d+)(?:\+(?P<place>\d+))?\];")
# what ends a stretch of instructions in which a number in memory stays as it is
BOUNDARY = re.compile(r"^\$|.*inline asm|^\t(?:@\S+ )?(?:bra|call|st|atom|red|bar|barrier|membar|fence|ret|cp|sust)\b")
ARRAY, FOURS, BYTES, ROW = "array", "fours", "bytes", "row"  # an address; multiples of 4, and of 16; an array's address and these
UNMARKED = re.compile(r"^(\t(?:@!?%p\d+ )?(?:add|sub|mul))\.ftz\.f32")


def compile_kernel(runtime: Runtime, text: str, exact: bool, name: str) -> Compiled:
    """Compile a kernel of a module. The code is PTX.

    Taichi compiles a kernel when it launches it, so it is launched without items, and writes the PTX to the current folder
    if it is asked to print it.
    """
    with runtime.kernel(text, exact, name) as (kernel, arguments):
        kernel(*arguments.values())
    places, size = [], 0
    for value in arguments.values():
        if isinstance(value, (int, float)):
            places.append((size, WORD))
            size += WORD
        else:  # an array's length, which is not read, comes before its address
            size += -size % ADDRESS
            places.append((size + ADDRESS, ADDRESS))
            size += 2 * ADDRESS
    size += -size % ADDRESS
    zero = places[list(arguments).index("_zero")][0] if exact else None
    task = completed(_written(Path.cwd(), name), dict(places), size, zero)
    return Compiled(tasks=[task], places=[place for place, _ in places], bytes=size + WORD)


def _written(place: Path, name: str) -> str:
    """Return the PTX that Taichi has written for a kernel, without the number that it has added to the name."""
    for path in place.glob("*.ptx"):
        text = path.read_text().rstrip("\0")
        if re.search(rf"\.entry {name}_c\d+_", text):
            return re.sub(rf"\b{name}_c\d+_\d+_", f"{name}_", text)
    raise RuntimeError(f"Taichi has not written the code of {name}")


def completed(text: str, places: Mapping[int, int], size: int, zero: int | None) -> Task:
    """Return a kernel whose only parameter is a structure of arguments.

    Parameters
    ----------
    text : PTX that Taichi has written.
    places : of each argument, its first byte in the structure and its bytes.
    size : bytes before the number of threads, which is added to the arguments.
    zero : place of the argument that is always 0, if arithmetic may not be reordered.

    Raises
    ------
    RuntimeError
        If the text differs from that of the tried versions of Taichi.
    """
    start, *parts = re.split(rf"(?=^(?:\t// \.globl|\.func {BODY}\())", text, flags=re.MULTILINE)
    (task,) = [part for part in parts if f"{TASK}(" in part]
    header, _, body = task.partition("\n{\n")
    name, threads = re.search(r"\.entry (\w+)\(", header)[1], int(re.search(r"\.maxntid (\d+)", header)[1])  # type: ignore[index]
    parameter = f"{name}_param_0"
    for part in parts:
        if part.startswith(f".func {BODY}"):
            body, parameter = part.partition("\n{\n")[2], f"{BODY}_param_0"
    if OTHER_MEMORY.search(body):
        raise RuntimeError("Taichi has compiled a kernel that is not known: it calls functions, or has memory of its own")
    header = header[header.index(".visible .entry") :].replace(f"{name}_param_0[32]", f"{ARGUMENTS}[{size + 4}]")
    shared = dict.fromkeys(line.replace(".extern ", "") for line in text.splitlines() if line.startswith(".extern .shared"))
    lines = _rewritten(body, parameter, threads, places, size)
    if zero is not None:
        lines = marked(lines, f"[{ARGUMENTS}+{zero}]")
    lines = with_wide_loads(lines)
    code = "\n".join([*start.splitlines(), *shared, *header.splitlines(), "{", *lines, ""])
    return Task(name=name, code=code, threads=threads, groups=0)


def _rewritten(body: str, parameter: str, threads: int, places: Mapping[int, int], size: int) -> list[str]:
    lines, out = body.splitlines(), []
    held = held_by(lines, _kind, {parameter: ""})
    for line in lines:
        matched = INSTRUCTION.match(line)
        if matched is None:
            out.append(line)
        elif f"[{BODY}_param_2]" in line:
            out.append(THREAD.format(target=target_of(matched), threads=threads))
        elif target_of(matched) not in held:
            out.append(_with_arguments(line, matched["name"], held, places, size))
    return out


def _kind(matched: re.Match[str], held: Mapping[str, str]) -> str | None:
    """Return what an instruction's target holds the address of, '' for the parameter; None if that is not known."""
    source = matched["operands"].partition(", ")[2]
    if matched["name"] in ("mov.b64", "mov.u64", "cvta.to.global.u64"):
        return held.get(source)
    if (at := PLACE.fullmatch(source)) is None:
        return None
    base, place = held.get(at["base"]), int(at["place"] or 0)
    if matched["name"] in ("ld.param.u64", "ld.u64") and base == "":
        return "" if at["base"] == f"{BODY}_param_0" else FIELDS.get(place)
    return TEMPORARY if (matched["name"], base, place) == ("ld.global.u64", RUNTIME, TEMPORARIES) else None


def _with_arguments(line: str, name: str, held: Mapping[str, str], places: Mapping[int, int], size: int) -> str:
    """Return an instruction that reads an argument itself, if it reads one, and says that other addresses are global."""
    at = PLACE.search(line)
    if at is None or at["base"] not in held:
        if any(register in held for register in re.findall(r"%rd\d+", line)):
            raise RuntimeError(f"Taichi uses the address of arguments in a way that is not known: {line.strip()}")
        return OPEN.sub(r"\1.global.", line)
    place, kind = int(at["place"] or 0), name.rpartition(".")[2]
    if (held[at["base"]], name, place) == (TEMPORARY, "ld.u32", 0):
        place = size
    elif held[at["base"]] != ARGUMENTS or not name.startswith("ld.") or places.get(place) != int(kind[1:]) // 8:
        raise RuntimeError(f"Taichi reads its arguments in a way that is not known: {line.strip()}")
    return line.replace(name, f"ld.param.{kind}", 1).replace(at[0], f"[{ARGUMENTS}+{place}]", 1)


def marked(lines: Sequence[str], zero: str) -> list[str]:
    """Return instructions with marks instead of guards.

    Parameters
    ----------
    zero : how they read the argument that is always 0.
    """
    def kind(matched: re.Match[str], held: Mapping[str, str]) -> str | None:
        """Return what an instruction's target holds of that argument: '0', '-0' or '1'."""
        name, (first, *others) = matched["name"], matched["operands"].split(", ")[1:] or [""]
        if name.startswith("ld.param.") and first == zero:
            return "0"
        if name in ("mov.b32", "mov.u32", "mov.f32"):
            return held.get(first)
        return OF_ZERO.get((name, held.get(first, ""), *others))

    held = held_by(lines, kind, {})
    return [UNMARKED.sub(r"\1.rn.ftz.f32", _without_guard(line, held)) for line in lines]


def _without_guard(line: str, held: Mapping[str, str]) -> str:
    matched = INSTRUCTION.match(line)
    if matched is None or matched["guard"] or matched["name"] != "fma.rn.ftz.f32":
        return line
    target, first, second, third = matched["operands"].split(", ")
    if held.get(third) == "-0":
        return f"\tmul.rn.ftz.f32 \t{target}, {first}, {second};"
    if held.get(second) == "1":
        return f"\tadd.rn.ftz.f32 \t{target}, {first}, {third};"
    return line if held.get(first) != "1" else f"\tadd.rn.ftz.f32 \t{target}, {second}, {third};"


def with_wide_loads(lines: Sequence[str]) -> list[str]:
    """Return instructions that read four numbers at once where they read all four of 16 bytes of a row."""
    held, out, joined, stretch = held_by(lines, _alignment, {}), list(lines), set[int](), 0
    instructions = filter(None, map(INSTRUCTION.match, lines))
    settings = Counter(register for matched in instructions for register in re.findall(r"%\w+", _targets(matched)))
    loads: dict[tuple[int, str, int], dict[int, tuple[int, str]]] = {}
    for number, line in enumerate(lines):
        stretch += bool(BOUNDARY.match(line))
        if (matched := LOAD.match(line)) and held.get(base := matched["base"]) == ROW:
            if settings[base] == settings[matched["target"]] == 1:
                four, place = divmod(int(matched["place"] or 0), 4 * WORD)
                loads.setdefault((stretch, base, four), {})[place] = number, matched["target"]
    for (_, base, four), numbers in loads.items():
        if len(numbers) == 4:
            targets = ", ".join(target for _, (_, target) in sorted(numbers.items()))
            first, *others = sorted(number for number, _ in numbers.values())
            if any(_mentions(lines[first + 1 : number], target) for number, target in numbers.values()):
                continue
            out[first] = f"\tld.global.v4.f32 \t{{{targets}}}, [{base}+{4 * WORD * four}];"
            joined.update(others)
    return [line for number, line in enumerate(out) if number not in joined]


def _targets(matched: re.Match[str]) -> str:
    """Return the register that an instruction sets, or those of the vector."""
    operands = matched["operands"]
    return operands.partition("}")[0] if operands.startswith("{") else target_of(matched)


def _mentions(lines: Iterable[str], register: str) -> bool:
    """Whether instructions read a register, which would have the number of an earlier turn of a loop."""
    return any(re.search(rf"{register}\b", line) for line in lines)


def _alignment(matched: re.Match[str], held: Mapping[str, str]) -> str | None:
    """Return what an instruction's target is: an array's address, a multiple of 4 or of 16, or the address of a row."""
    name, (first, *others) = matched["name"], matched["operands"].split(", ")[1:] or [""]
    number = int(others[0]) if others and others[0].isdigit() else None
    kinds = {held.get(first), held.get(others[0]) if others else None}
    if name == "ld.param.u64":
        return ARRAY
    if number is not None and ((name == "and.b32" and number % 4 == 0) or (name == "shl.b32" and number >= 2)):
        return FOURS
    if name in ("mul.wide.u32", "mul.wide.s32") and number == WORD and held.get(first) == FOURS:
        return BYTES
    return ROW if name == "add.s64" and kinds == {ARRAY, BYTES} else None


def target_of(matched: re.Match[str]) -> str:
    """Return what an instruction names first: the register that it sets, if it sets one."""
    return matched["operands"].split(",")[0]


def held_by(
    lines: Iterable[str], kind_of: Callable[[re.Match[str], Mapping[str, str]], str | None], known: Mapping[str, str]
) -> dict[str, str]:
    """Return what registers hold, and what is ``known`` before: those that hold the same wherever they are set.

    Parameters
    ----------
    lines : of a kernel.
    kind_of : returns the content of an instruction's target from the contents of others, or None if it is unknown.
    known : what other names stand for.
    """
    setting: dict[str, list[re.Match[str]]] = {}
    for line in lines:
        if matched := INSTRUCTION.match(line):
            setting.setdefault(target_of(matched), []).append(matched)
    held, more = dict(known), True
    while more:  # a register may be read above the line that sets it
        more = False
        for target in [target for target in setting if target not in held]:
            kind, *others = {kind_of(matched, held) for matched in setting[target]}
            if kind is not None and not others:
                held[target], more = kind, True
    return held
