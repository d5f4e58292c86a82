"""The text of Taichi's modules for GPUs: how Taichi spells the kernel language, and how items are distributed to teams.

A team is a warp or a subgroup if these have 32 threads, else a block of 32 threads that exchange values in shared
memory. Reals are guarded against fusing and reordering with an argument that is always 0, which compilers cannot know.
A bitwise or combines it with them. On some archs, products are guarded by subtracting it as a real number, and sums by
multiplying their first term by a 1 that follows from it.

An exclusive or is not a safe guard: two of them cancel where a compiler brings them together, as in ``x * 1.0``; the
trial found this on CUDA. There, the compiler joins a product and its difference from 0 to one operation, which rounds
once and costs nothing more. NVIDIA's Vulkan driver reorders such a difference, so Vulkan keeps the bitwise or.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from ...devices import Device
from ...linker.dialect import Dialect
from ...linker.link import link_once
from ...linker.parts import Load, Source
from ...linker.records import INTS, REALS
from .team import BARRIERS, HALVES, HEADER, TEAM_SPELL, WIDE_KIND, operations, team_kind

SHARED_BYTES = 48 * 1024  # available to a block on every GPU but Apple's
MOST_TEAMS = {"warp": 8, "subgroup": 20}  # a multiprocessor runs several blocks with CUDA, but only one with NVIDIA's Vulkan
TEAMS_OF_REGIONS = 4  # with CUDA, if halves carry nothing
TEAMS_MASK = (1 << 26) - 1  # shows compilers that numbers of teams are not negative, and places in team memory do not overflow
TEAMS_OF_LONG = 16  # with Vulkan, of kernels with a recovery, and of those whose halves carry numbers
SHARES = {"warp": 2 / 3, "subgroup": 4 / 5}  # of the shared memory for teams; tables have the rest
TYPES = {REALS: "REALS", INTS: "INTS", "real": "ti.f32", "int": "ti.i32", "word": "ti.u32"}
NIL, ONE = "_nil = ti.bit_cast(_zero, ti.f32)", f"_one = ti.bit_cast(_zero + {0x3F800000}, ti.f32)"
# Archs whose compilers make one operation of a product and a zero that is subtracted from it, and of a sum and a one by
# which its first term is multiplied. That rounds once, and thus as the product or the sum does. Others may change the
# order of additions.
FUSES = ("cuda",)
OF_TEAMS = ("collect", "raised", "team_any", "team_first", "team_last", "team_max", "team_min", "team_value")  # words that ``team.py`` defines


def _u32(text: str) -> str:
    return f"ti.u32({text})" if text.isdigit() else f"ti.cast({text}, ti.u32)"


def _logic(left: str, symbol: str, right: str) -> str:
    # Taichi would make a bitwise operation on bools, which SPIR-V lacks
    return f"((ti.cast({left}, ti.i32) {symbol} ti.cast({right}, ti.i32)) != 0)"


def _each(target: str, count: str) -> list[str]:
    return [
        f"for _turn_{target} in range(({count} + 31) // 32):",
        f"    {target} = _turn_{target} * 32 + _lane",
        f"    if {target} < {count}:",
    ]


SPELL = {
    "real": "ti.cast({}, ti.f32)", "i32": "ti.cast({}, ti.i32)", "floor": "ti.floor({})", "bits": "ti.bit_cast({}, ti.i32)",
    "from_bits": "ti.bit_cast({}, ti.f32)", "absolute": "ti.abs({})", "minimum": "ti.min({}, {})",
    "maximum": "ti.max({}, {})", "where": "ti.select({}, {}, {})", "lane": "_lane", "lanes": "{}", "at": "{}[{} + _lane]",
    "prefetch": "pass", "put": "{}[{} + _lane] = {}", "add": "ti.atomic_add({}[{}], {})", "take": "{}[{}]",
    "spread": "{0}[{1} + {3}]", "vec3": "ti.Vector([{}, {}, {}], dt=ti.f32)",
    "words": "ti.Vector([{}, {}, {}, {}], dt=ti.u32)",
}
WIDE = {  # what is spelled otherwise for reals of 64 bits
    "real": "ti.cast({}, ti.f64)", "bits": "ti.bit_cast(ti.cast({}, ti.f32), ti.i32)",
    "vec3": "ti.Vector([{}, {}, {}], dt=ti.f64)",
}
WIDE_GUARD = "ti.bit_cast(ti.bit_cast(ti.cast(x, ti.f64), ti.i64) | ti.cast(zero, ti.i64), ti.f64)"
HIGH_WORD = "ti.cast((ti.cast({}, ti.u64) * ti.cast({}, ti.u64)) >> ti.u64(32), ti.u32)"


def _spell(kind: str, int64: bool) -> dict[str, Callable[..., str]]:
    texts = SPELL | {"umulhi": HIGH_WORD if int64 else "_high_word({}, {})", "barrier": BARRIERS[kind]} | TEAM_SPELL[kind]
    of_teams = {name: lambda *texts, name=name: f"_{name}({', '.join(texts)}, _pool, _lane)" for name in OF_TEAMS}
    return of_teams | {name: text.format for name, text in texts.items()} | {"u32": _u32}


def _guarded(left: str, symbol: str, right: str) -> str:
    """Guard a product or a sum against fusing and reordering."""
    return f"_guard({left} {symbol} {right}, _zero)"


def _fused(left: str, symbol: str, right: str) -> str:
    """The same where both guards cost nothing."""
    return f"({left} * {right} - _nil)" if symbol == "*" else f"({left} * _one {symbol} {right})"


def widened(text: str) -> str:
    """Return a text with the arrays and guards of reals of 64 bits."""
    text = text.replace("ndarray(dtype=ti.f32", "ndarray(dtype=ti.f64")
    text = text.replace("ti.bit_cast(ti.bit_cast(x, ti.i32) | zero, ti.f32)", WIDE_GUARD)
    text = text.replace(NIL, "_nil = ti.bit_cast(ti.cast(_zero, ti.i64), ti.f64)")
    text = text.replace(ONE, f"_one = ti.bit_cast(ti.cast(_zero, ti.i64) + ti.i64({0x3FF << 52}), ti.f64)")
    return re.sub(r"(SharedArray\(\(\d+,\), ti\.)f32", r"\1f64", text)


def dialect(
    arch: str, exact: bool, kind: str | None = None, int64: bool = True, guarded: bool = True, bits: int = 32
) -> Dialect:
    """Return Taichi's spelling for an arch.

    ``kind`` says what a team is (see :func:`team_kind`), None for the form that works everywhere; ``int64``: whether
    the device has 64-bit integers; ``guarded``: whether the text itself has to keep compilers from reordering; ``bits``:
    of a real, 32, or 64 if a team is a block or has the kind ``WIDE_KIND``.
    """
    kind = kind or team_kind(arch, None)
    if bits == 64:
        narrow = dialect(arch, exact, kind, int64, guarded)
        spell = narrow.spell | {name: text.format for name, text in WIDE.items()}
        return replace(
            narrow, name=f"{narrow.name}64", header=widened(narrow.header), spell=spell, literal="ti.f64({!r})".format,
            guard=_guarded if narrow.guard and kind == "block" else narrow.guard,
        )
    return Dialect(
        name=f"{arch}{'' if exact else 'fast'}{'' if guarded else 'marked'}",
        header=HEADER + ("" if int64 else HALVES) + operations(kind),
        decorator="@ti.func",
        spell=_spell(kind, int64),
        literal=repr,
        logic=_logic,
        hidden=("_zero", "_nil", "_one", "_lane", "_pool: ti.template()"),
        guard=(_fused if arch in FUSES else _guarded) if exact and guarded else None,
        each=_each,
        unroll=lambda n: f"ti.static(range({n}))",
        # lavapipe loses values of threads around such a loop in a long kernel, such as that of ifod1 with backtracking
        roll=lambda n: f"range({n})" if kind == "block" else f"range({n} + _zero)",
        parameter=lambda name, kind: f"{name}: ti.template()" if kind in (REALS, INTS) else name,
    )


def linked_for(
    device: Device, source: Source, exact: bool, kind: str | None, queued: bool, guarded: bool = True, bits: int = 32,
) -> tuple[str, dict[str, list[tuple[str, str]]], Block]:
    """Return the text of a module of Taichi's, the signatures of its kernels, and its blocks.

    Parameters are those of :class:`.program.GpuProgram` and :func:`dialect`.
    """
    kind = kind or team_kind(device.arch, device.subgroup)
    linked = link_once(source.roots, dialect(device.arch, exact, kind, device.int64, guarded, bits), source.filling)
    block = lay_out(device, source, kind, queued) if bits == 32 else Block(kind, 1, queued and not device.software)
    # the longest first, whose compilation a driver can then begin first
    names = sorted((root.__name__ for root in source.roots), key=lambda name: -len(linked.text_for(name)))
    signatures = {name: linked.signatures[name] for name in names}
    entries = [entry_text(name, signature, source, block) for name, signature in signatures.items()]
    return "\n\n".join([linked.text, *(map(widened, entries) if bits == 64 else entries)]), signatures, block


@dataclass(frozen=True)
class Block:
    """Number of teams in a block, and whether they take items from a queue."""

    kind: str
    teams: int
    queued: bool

    def tables(self, source: Source, names: Sequence[str]) -> list[str]:
        """Return the tables among a kernel's arguments that fit the block's shared memory beside its teams' arrays."""
        if self.kind in ("block", WIDE_KIND):
            return []
        room, chosen = SHARED_BYTES - 4 - self.teams * team_bytes(source, names), []
        for name in (name for name in source.tables if name in names):
            size = 4 * source.tables[name][1]
            if size <= room:
                chosen.append(name)
                room -= size
        return chosen


def team_bytes(source: Source, names: Collection[str]) -> int:
    """Return the bytes of a team's arrays among ``names``, and of its ticket."""
    arrays = [name for name in source.scratch if name in names]
    return 4 + sum(4 * source.scratch[name][1] for name in arrays if source.shares.get(name, ("",))[0] not in arrays)


def lay_out(device: Device, source: Source, kind: str, queued: bool = True) -> Block:
    """Choose the number of teams in a block: several, which share tables, if a team has a barrier of its own, else one.

    With NVIDIA's Vulkan driver a multiprocessor runs only one such block.  So a block has as many teams as fit its
    shared memory, a fifth of which is left to tables.  Its threads then have at most 96 registers: boot is 10 % faster
    than with 16 teams.  Kernels whose halves carry numbers need more of them, and ptt with 18 teams is a third slower
    than with 16. With CUDA eight teams are fastest (4: 40 % slower, 12 and 16: 10 %). But their threads have at most
    128 registers, so that kernels with regions, which need more, stall a third of the time that they work. With four
    teams prob is 11 % faster, det 3 %, boot as fast, but ptt, whose halves carry more, a third slower (5 to 7 teams:
    none is faster than with 4 or with 8). With a recovery, eight are as fast as any (4: up to 30 % slower, 16: 10 %).
    Mesa's software Vulkan loses threads at an atomic operation in a loop, so there is no queue.
    """
    if kind == "block":
        return Block(kind, 1, queued and not device.software)
    room = int(SHARES[kind] * SHARED_BYTES) // team_bytes(source, source.scratch)
    return Block(kind, max(1, min(_most_teams(kind, source.load or Load()), room)), queued)


def _most_teams(kind: str, load: Load) -> int:
    if kind == "subgroup" and (load.recovers or load.carries):
        return TEAMS_OF_LONG
    if kind == "warp" and load.has_bits and not (load.carries or load.recovers):
        return TEAMS_OF_REGIONS
    return MOST_TEAMS[kind]


def _shared(kind: str, size: int) -> str:
    return f"SharedArray(({size},), ti.{'i32' if kind == INTS else 'f32'})"


def _memory_lines(used: list[str], source: Source, block: Block) -> list[str]:
    """Lines that declare the team memory, a slice of the block's for each team."""
    lines, guests = [], []
    for name in used:
        kind, size = source.scratch[name]
        home, start = source.shares.get(name, ("", 0))
        if home in used:
            guests.append(f"{name} = Slice(_all_{home}, _team * {source.scratch[home][1]} + {start})")
        else:
            lines += [
                f"_all_{name} = {_shared(kind, size * block.teams)}",
                f"{name} = Slice(_all_{name}, _team * {size})",
            ]
    return lines + guests


def _table_lines(used: list[str], source: Source, threads: int) -> list[str]:
    """Lines that copy tables to the block's shared memory."""
    lines = []
    for name in used:
        kind, size = source.tables[name]
        lines += [
            f"_shared_{name} = {_shared(kind, size)}",
            f"for _turn in range({-(-size // threads)}):",
            f"    _at = _turn * {threads} + _thread % {threads}",
            f"    if _at < {size}:",
            f"        _shared_{name}[_at] = {name}[_at]",
        ]
    return [*lines, "ti.simt.block.sync()"] if lines else []


def entry_text(name: str, signature: list[tuple[str, str]], source: Source, block: Block) -> str:
    """Text of a kernel over items: each team takes the next number from a queue until none is left.

    Streamlines differ a hundredfold in length: with fixed shares, the GPU would wait for the slowest team.
    """
    names = [n for n, _ in signature]
    outer = [f"{n}: {TYPES[k]}" for n, k in signature if n != "item" and n not in source.scratch]
    used = [n for n in names if n in source.scratch]
    tables = block.tables(source, names)
    threads, barrier = 32 * block.teams, BARRIERS[block.kind]
    inner = ", ".join(["_zero", "_nil", "_one", "_lane", "_pool", *(f"_shared_{n}" if n in tables else n for n in names)])
    draw = [
        "if _lane == 0:",
        "    _ticket[_team] = ti.atomic_add(_queue[0], 1)",
        barrier,
        "item = _ticket[_team]",
        barrier,
    ]
    body = [
        "_lane = _thread & 31",
        NIL,
        ONE,
        f"_team = ((_thread >> 5) & {TEAMS_MASK}) % {block.teams}",
        f"_pool = SharedArray(({32 if block.kind == 'block' else 1},), ti.f32)",
        f"_ticket = SharedArray(({block.teams},), ti.i32)",
        *_memory_lines(used, source, block),
        *_table_lines(tables, source, threads),
        "item = _thread >> 5",
        *(draw if block.queued else []),
        "while item < count:",
        f"    {name}({inner})",
        f"    {barrier}",
        *(["    " + line for line in draw] if block.queued else ["    item = item + teams"]),
    ]
    lines = [
        "@ti.kernel",
        f"def run_{name}(count: ti.i32, teams: ti.i32, _zero: ti.i32, _queue: INTS, {', '.join(outer)}):",
        f"    ti.loop_config(block_dim={threads})",
        "    for _thread in range(teams * 32):",
        *["        " + line for line in body],
    ]
    return "\n".join(lines) + "\n"
