"""Cohorts: tables and templates that are odd or damaged, and cohorts that are ended and go on."""

from __future__ import annotations

import os
import random
import shutil
import signal
import time
from pathlib import Path

from .damage import damage
from .material import track
from .room import COMPILING, FAILED, WRONG_USE, Outcome, Room, spoken

TABLE, SUBJECTS, SOME_FAILED = "cohort.tsv", 3, 3
CELLS = (
    "", "n/a", " ", "-o", "--", "{id}", "{{", "a b", "é", "\u202e", "%s", "[red]", "$HOME", "..", "/", ".", "x" * 300,
    "../out", "nul\0", '"', "'", "\t", "\n", "\r", "\ufeff", "\x1b[31m", "=1+1", "-x",
)
WORDS = (
    "{id}", "{none}", "{", "}", "{}", "{{id}}", "{id", "{id}{id}", "{id.x}", "{id[0]}", "{id:>9}", "--dry-run",
    "--help", "--citations", "--resume", "--force", "-q", "--jobs", "--", "--part", "1/2", "--bids-out", "-o",
    "--max-angle", "{other}", "--json-stats", "a.json", "--density", "{id}.nii.gz",
)
SUFFIXES = (".tsv", ".tsv", ".tsv", ".csv", ".TSV", ".txt", "")


def tables(rng: random.Random, room: Room) -> list[str]:
    """Give a table with odd cells or damage, and odd words in the template; commands are printed, or begin."""
    name = "cohort" + rng.choice(SUFFIXES)
    rows = [["id", "other"], *([f"s{number}", rng.choice(CELLS)] for number in range(rng.randint(0, 3)))]
    for _ in range(rng.randint(0, 2)):
        row = rng.choice(rows)
        row[rng.randrange(len(row))] = rng.choice(CELLS)
    if rng.random() < 0.2:
        rng.choice(rows).append(rng.choice(CELLS))
    separator = rng.choice(("\t", "\t", ","))
    text = "\n".join(separator.join(row) for row in rows) + rng.choice(("", "\n", "\r\n\n"))
    path = room.inputs / name
    path.write_bytes(text.encode(rng.choice(("utf-8", "utf-8", "utf-8-sig", "utf-16", "latin-1")), "replace"))
    if rng.random() < 0.2:
        damage(rng, path)
    template = _template("{id}")
    for _ in range(rng.randint(0, 2)):
        template.insert(rng.randint(0, len(template)), rng.choice(WORDS))
    program = ["batch", name, "--dry-run", "--", *template]
    if any("\0" in word for word in program):
        return []
    outcome = room.run(program, limit=COMPILING)
    if "--help" in template or "--citations" in template:
        return [] if outcome.code in (0, WRONG_USE, FAILED) else [f"exit code {outcome.code}"]
    return room.faults(outcome)


def kills(rng: random.Random, room: Room) -> list[str]:
    """End a cohort at random moments, and give the command again until all subjects have the bytes of a run alone."""
    names = _write(room)
    broken = [rng.choice(names)] if rng.random() < 0.5 else []
    for name in broken:
        _break(rng, room, room.inputs / name / "seeds.npy")
    resumes, seconds = rng.choice(([], ["--resume"])), rng.uniform(0.2, 8)
    program = ["batch", TABLE, "--jobs", str(rng.randint(1, 3)), "--", *_template("{id}"), *resumes]
    room.copy("cache")
    faults: list[str] = []
    for _ in range(rng.randint(0, 2)):
        number = rng.choice((signal.SIGINT, signal.SIGTERM, signal.SIGKILL))
        room.did.append(f"{number.name} after {seconds:.2f} s")
        started = room.start(program, limit=COMPILING)
        time.sleep(seconds)
        os.kill(started.process, number)
        outcome = room.finish(started)
        if outcome.code not in (0, SOME_FAILED, -number, 128 + number):
            faults.append(f"exit code {outcome.code}")
        faults += _settle(room)
    outcome = room.run(program, limit=COMPILING)
    faults += _said(outcome, broken)
    for name in names:
        if name not in broken and room.digest(f"{name}/a.trx") != room.clean["det"]["sha256"]:
            faults.append(f"{name} has another result")
    left = {path.name for name in names for path in (room.out / name).glob("*")} - {"a.trx", "a.json", "a.trx.log"}
    return faults + [f"left {name}" for name in sorted(left)]


def _template(folder: str) -> list[str]:
    """The command of a subject, whose files lie in a folder."""
    words = track("det", f"../out/{folder}/a.trx")
    return [f"{folder}/{word}" if word.endswith((".nii.gz", ".npy")) else word for word in words]


def _write(room: Room) -> list[str]:
    """Write the subjects and their table; return their names."""
    names = [f"s{number}" for number in range(SUBJECTS)]
    for name in names:
        (room.inputs / name).mkdir()
        for file in ("peaks.nii.gz", "stop.nii.gz", "seeds.npy"):
            shutil.copy(room.inputs / file, room.inputs / name)
    (room.inputs / TABLE).write_text("id\n" + "".join(f"{name}\n" for name in names))
    return names


def _break(rng: random.Random, room: Room, path: Path) -> None:
    """Take a file away, or put something else there."""
    path.unlink()
    kind = rng.choice(("nothing", "folder", "pipe"))
    room.did.append(f"{kind} instead of {path.parent.name}/{path.name}")
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)


def _settle(room: Room) -> list[str]:
    """Wait for the processes of a cohort that was ended; return what goes on."""
    last = time.monotonic() + 20
    while running := _running(room):
        if time.monotonic() > last:
            return [f"{len(running)} processes go on"]
        time.sleep(0.05)
    return []


def _running(room: Room) -> list[str]:
    """Processes whose current folder is the room's."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            folder, state = (path / "cwd").readlink(), (path / "stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            continue
        if folder == room.inputs.resolve() and state != "Z":
            found.append(path.name)
    return found


def _said(outcome: Outcome, broken: list[str]) -> list[str]:
    """What is wrong with the end of a cohort: each subject that fails has one line, and the others have none."""
    wanted = SOME_FAILED if broken else 0
    faults = [] if outcome.code == wanted else [f"exit code {outcome.code}, not {wanted}"]
    errors = [line for line in outcome.err.splitlines() if line.startswith("Error: ")]
    if [line.split()[1] for line in errors] != [f"{name}:" for name in broken]:
        faults.append(f"says {errors}")
    return faults + spoken(Outcome(0, outcome.out, "", []))
