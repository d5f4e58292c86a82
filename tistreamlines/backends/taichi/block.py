"""How teams lie in blocks, and the kernels that hand them their items, as text for Taichi."""

from __future__ import annotations

from dataclasses import dataclass

from ...linker.records import INTS, REALS
from ...linker.source import Source
from ..devices import Device
from .team import BARRIERS

SHARED_BYTES = 48 * 1024  # what a block may have on every GPU that is not Apple's
MOST_TEAMS = {"warp": 8, "subgroup": 16}  # CUDA keeps several blocks on a multiprocessor, NVIDIA's Vulkan only one
TYPES = {REALS: "REALS", INTS: "INTS", "real": "ti.f32", "int": "ti.i32", "word": "ti.u32"}


@dataclass(frozen=True)
class Block:
    """How teams lie in a block: their number, and the tables that they share in its memory."""

    kind: str
    teams: int
    tables: tuple[str, ...]
    queued: bool

    @property
    def barrier(self) -> str:
        return BARRIERS[self.kind]


def lay_out(device: Device, source: Source, kind: str) -> Block:
    """Choose the teams of a block: where a barrier of one team will do, several, that share the tables read most.

    NVIDIA's Vulkan driver gives a multiprocessor one such block, so a block has as many teams as its memory holds, a
    third of it left to tables, which the driver would read past the first cache.  On CUDA eight teams are best (4:
    40 % slower, 12 and 16: 10 %).  Mesa's software Vulkan loses threads at an atomic operation in a loop, so there
    nothing is queued.
    """
    if kind == "block":
        return Block(kind, 1, (), not device.software)
    team = sum(4 * size for name, (_, size) in source.scratch.items() if name not in source.shares) + 4
    teams = max(1, min(MOST_TEAMS[kind], 2 * SHARED_BYTES // 3 // team))
    room = SHARED_BYTES - 4 - teams * team
    tables: tuple[str, ...] = ()
    for name, (_, size) in source.tables.items():
        if 4 * size <= room:
            tables, room = (*tables, name), room - 4 * size
    return Block(kind, teams, tables, True)


def _memory_lines(used: list[str], source: Source, block: Block) -> list[str]:
    """Declare the team memory, a slice of the block's for each team."""
    lines, guests = [], []
    for name in used:
        kind, size = source.scratch[name]
        home, start = source.shares.get(name, ("", 0))
        if home in used:
            guests.append(f"{name} = Slice(_all_{home}, _team * {source.scratch[home][1]} + {start})")
        else:
            lines += [
                f"_all_{name} = SharedArray(({size * block.teams},), ti.{'i32' if kind == INTS else 'f32'})",
                f"{name} = Slice(_all_{name}, _team * {size})",
            ]
    return lines + guests


def _table_lines(used: list[str], source: Source, threads: int) -> list[str]:
    """Copy tables to the block's memory, under their own names."""
    lines = []
    for name in used:
        kind, size = source.tables[name]
        lines += [
            f"_shared_{name} = SharedArray(({size},), ti.{'i32' if kind == INTS else 'f32'})",
            f"for _turn in range({-(-size // threads)}):",
            f"    _at = _turn * {threads} + _thread % {threads}",
            f"    if _at < {size}:",
            f"        _shared_{name}[_at] = {name}[_at]",
        ]
    return [*lines, "ti.simt.block.sync()"] if lines else []


def entry_text(name: str, signature: list[tuple[str, str]], source: Source, block: Block) -> str:
    """A kernel over items: each team draws a number from a queue until none is left.

    Streamlines differ a hundredfold in length; with a fixed share each, the GPU would wait for the unluckiest team.
    """
    names = [n for n, _ in signature]
    outer = [f"{n}: {TYPES[k]}" for n, k in signature if n != "item" and n not in source.scratch]
    used = [n for n in names if n in source.scratch]
    tables = [n for n in names if n in block.tables]
    threads = 32 * block.teams
    inner = ", ".join(["_zero", "_lane", "_pool", *(f"_shared_{n}" if n in tables else n for n in names)])
    draw = [
        "if _lane == 0:",
        "    _ticket[_team] = ti.atomic_add(_queue[0], 1)",
        block.barrier,
        "item = _ticket[_team]",
        block.barrier,
    ]
    body = [
        "_lane = _thread & 31",
        f"_team = (_thread >> 5) % {block.teams}",
        f"_pool = SharedArray(({32 if block.kind == 'block' else 1},), ti.f32)",
        f"_ticket = SharedArray(({block.teams},), ti.i32)",
        *_memory_lines(used, source, block),
        *_table_lines(tables, source, threads),
        "item = _thread >> 5",
        *(draw if block.queued else []),
        "while item < count:",
        f"    {name}({inner})",
        f"    {block.barrier}",
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
