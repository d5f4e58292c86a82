"""Files of the names of modules in the current folder, and Python's own options and variables."""

from __future__ import annotations

import os
import random
import sys
from functools import partial

from .material import track
from .room import COMPILING, Room

OTHERS = ("cupy", "dipy", "nibabel", "numba", "numpy", "pandas", "scipy", "sitecustomize", "taichi", "tistreamlines")
FLAGS = ([], [], ["-O"], ["-OO"], ["-W", "error"], ["-W", "error", "-O"], ["-B"], ["-s"], ["-X", "dev", "-W", "ignore"])
VARIABLES = (
    {}, {}, {"PYTHONOPTIMIZE": "2"}, {"PYTHONWARNINGS": "error"}, {"PYTHONSAFEPATH": "1"},
    {"PYTHONSTARTUP": "signal.py"},
)
PROGRAMS = (track("det", "../out/a.trx"), ["devices"], ["track", "--citations"], ["devices", "--json"])
COMMAND = "from tistreamlines.__main__ import main\nmain()\n"
PLANTED = "open({trace!r}, 'a').write('{name} ')\nraise SystemExit('of the current folder')\n"


def planted(rng: random.Random, room: Room) -> list[str]:
    """Plant modules where the command runs; none may be imported, whatever Python is told."""
    trace, command = room.folder / "trace", room.folder / "command.py"
    command.write_text(COMMAND)
    names = sorted({*sys.stdlib_module_names, *OTHERS})
    for name in names if rng.random() < 0.5 else rng.sample(names, 30):
        (room.inputs / f"{name}.py").write_text(PLANTED.format(trace=str(trace), name=name))
    room.copy("cache")
    flags, env, program = rng.choice(FLAGS), rng.choice(VARIABLES), rng.choice(PROGRAMS)
    room.did.append(f"{' '.join(flags)} {env} {' '.join(program)}")
    start = partial(os.execv, sys.executable, [sys.executable, *flags, str(command), *program])
    outcome = room.run(start, env=env, limit=COMPILING)
    faults = room.faults(outcome, "det" if program[0] == "track" and "-o" in program else None)
    return [*faults, f"imported {trace.read_text()}"] if trace.exists() else faults
