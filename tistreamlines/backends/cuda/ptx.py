"""What Taichi compiles for CUDA, made ready to be launched without its runtime.

Taichi's kernels take a structure with the address of their arguments, which lie in the device's memory, and read an argument
again each time that they use it, since another thread might have changed it. Here, the arguments themselves are given at the
launch: the device reads them as quickly as a number in an instruction, and they take no registers. Arrays are read and
written as what they are, memory of the device: Taichi leaves it open which of a device's memories an address is in.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from .registers import INSTRUCTION, held_by, target_of
from .rounding import marked

ARGUMENTS, RUNTIME, TEMPORARY = "arguments", "runtime", "temporary"  # what a register may hold the address of
FIELDS = {0: ARGUMENTS, 8: RUNTIME}  # of Taichi's structure, at these bytes
TEMPORARIES = 32872  # place in Taichi's runtime of the address where a kernel's tasks leave numbers for the next one
TASK = "_kernel_1_range_for"  # of a kernel, after the task that computes how many threads there are
BODY = "function_body"  # what a task calls for each of its threads if it is long: with the structure and the number of the thread
OTHER_MEMORY = re.compile(r"%SP|\.local|cvta\.(?!to\.global)|\bcall")
ADDRESS = re.compile(r"\[(?P<base>[%\w$]+)(?:\+(?P<place>\d+))?\]")
OPEN = re.compile(r"\b(ld|st|atom|red)\.(?!global|shared|param|const|local)")
THREAD = """\
	.reg .b32 %thread<2>;
	mov.u32 	%thread0, %tid.x;
	mov.u32 	%thread1, %ctaid.x;
	mad.lo.s32 	{target}, %thread1, {threads}, %thread0;"""


@dataclass(frozen=True, eq=False, repr=False)
class Entry:
    """What is launched of a kernel: its name, its text, and how many threads a block has."""

    name: str
    text: str
    threads: int


def completed(text: str, places: Mapping[int, int], size: int, zero: int | None) -> Entry:
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
        If the text differs from what versions of Taichi write that were tried.
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
    header = header.replace(f"{name}_param_0[32]", f"{ARGUMENTS}[{size + 4}]")
    shared = dict.fromkeys(line.replace(".extern ", "") for line in text.splitlines() if line.startswith(".extern .shared"))
    lines = _rewritten(body, parameter, threads, places, size)
    if zero is not None:
        lines = marked(lines, f"[{ARGUMENTS}+{zero}]")
    return Entry(name, "\n".join([*start.splitlines(), *shared, *_without_declarations(header), "{", *lines, ""]), threads)


def _without_declarations(header: str) -> list[str]:
    return header[header.index(".visible .entry") :].splitlines()


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
    if (at := ADDRESS.fullmatch(source)) is None:
        return None
    base, place = held.get(at["base"]), int(at["place"] or 0)
    if matched["name"] in ("ld.param.u64", "ld.u64") and base == "":
        return "" if at["base"] == f"{BODY}_param_0" else FIELDS.get(place)
    return TEMPORARY if (matched["name"], base, place) == ("ld.global.u64", RUNTIME, TEMPORARIES) else None


def _with_arguments(line: str, name: str, held: Mapping[str, str], places: Mapping[int, int], size: int) -> str:
    """Return an instruction that reads an argument itself, if it reads one, and says that other addresses are global."""
    at = ADDRESS.search(line)
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
