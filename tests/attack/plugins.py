"""Packages with entry points that are damaged, and modules that raise whatever Python can raise."""

from __future__ import annotations

import os
import random

from .material import LINES, PATHS, ROOT, track
from .room import COMPILING, Room

POINTS = (
    b"[tistreamlines]\nodd = odd\n", b"[tistreamlines]\nodd = odd:none\n", b"[tistreamlines]\nodd\n", b"odd = odd\n",
    b"[tistreamlines]\nodd = \xff\xfe\n", b"[tistreamlines\nodd = odd\n", b"", b"\0" * 50,
    b"[tistreamlines]\nodd = !\n",
    b"[tistreamlines]\n = odd\n", b"[tistreamlines]\nodd = odd [x]\n", b"[other]\nodd = odd\n", b"\x1f\x8b\x08",
)
METADATA = (b"Metadata-Version: 2.1\nName: odd\nVersion: 1\n", b"", b"\xff" * 20, b"Version: 1\n", b"Name:\n")
ERRORS = (
    "ValueError('no')", "SystemExit(0)", "SystemExit('end')", "BaseException('a\\nb')", "GeneratorExit",
    "RecursionError",
    "MemoryError", "ImportError('x')", "OSError(28, 'full')", "AssertionError", "KeyError(3)",
    "UnicodeError('\\udcff')",
)
PLACES = ("import", "__init__", "add", "write")


def raising(rng: random.Random, room: Room) -> list[str]:
    """Install a package whose product raises, or whose metadata are damaged; what does not ask for it works."""
    error, place = rng.choice(ERRORS), rng.choice(PLACES)
    points, metadata = (rng.choice((values[0], rng.choice(values))) for values in (POINTS, METADATA))
    folder = room.folder / "packages"
    info = folder / "odd-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_bytes(metadata)
    (info / "entry_points.txt").write_bytes(points)
    (folder / "odd.py").write_text(_product(error, place))
    asked = points == POINTS[0] and place != "import" and rng.random() < 0.7
    room.did.append(f"{points!r}, {metadata!r}, {error} in {place}")
    program = [*track("det", "../out/a.trx"), *(["--lengths", "../out/l.csv"] if asked else [])]
    if not asked and rng.random() < 0.5:
        program = ["map", LINES, "--ends", "../out/e.nii.gz", "--density-grid", "stop.nii.gz"]
    env = {"PYTHONPATH": os.pathsep.join([str(folder), PATHS])}
    outcome = room.run(program, env=env, limit=COMPILING, real=())
    return room.faults(outcome, "det" if program[0] == "track" and not asked else None, codes=(1, 2) if asked else (0,))


def _product(error: str, place: str) -> str:
    """Return the example of a product, which raises somewhere."""
    text = (ROOT / "examples" / "own_product.py").read_text().split("def main(")[0]
    if place == "import":
        return f"{text}\nraise {error}\n"
    at = text.index("\n", text.index(f"    def {place}(")) + 1
    return f"{text[:at]}        raise {error}\n{text[at:]}"
