"""Little memory, few files and few threads, for every command: a result or one line, within seconds."""

from __future__ import annotations

import random
import resource
from functools import partial

from .material import LABELS, LINES, track
from .room import COMPILING, Room

COMMANDS = {
    "track": track("det", "../out/a.trx"),
    "map": ["map", LINES, "--connectome", LABELS, "../out/c.csv", "--ends", "../out/e.nii.gz"],
    "view": ["view", LINES, "-o", "../out/v.html"], "devices": ["devices"],
    "fixels": ["fixels", "mask.nii", "../out/f", "--sh-basis", "tournier07"],
}


def low(rng: random.Random, room: Room) -> list[str]:
    """Run a command with a limit that is far too low, or nearly high enough."""
    command, name = rng.choice(sorted(COMMANDS)), rng.choice(("AS", "AS", "NOFILE", "STACK", "DATA", "FSIZE"))
    value = {
        "AS": rng.randrange(200, 900) << 20, "NOFILE": rng.randint(5, 20), "DATA": rng.randrange(300, 2000) << 20,
        "STACK": rng.choice((1 << 17, 1 << 18, 1 << 20)), "FSIZE": int(10 ** rng.uniform(1, 6)),
    }[name]
    room.did.append(f"RLIMIT_{name} {value}, {command}")
    limit = partial(resource.setrlimit, getattr(resource, f"RLIMIT_{name}"), (value, value))
    outcome = room.run(COMMANDS[command], setup=limit, real=(), limit=COMPILING)
    faults = room.faults(outcome, codes=(0, 1, 2, 130), name="none")
    # OpenBLAS says in words of its own that it has no memory, in a line or several
    return [] if "OpenBLAS" in outcome.err and outcome.code in (1, 130) else faults
