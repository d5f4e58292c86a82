"""Runs that go on, and parts that are joined: what they are made of is damaged, mixed, swapped or replaced."""

from __future__ import annotations

import json
import os
import random
import shutil
import socket
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from .damage import damage
from .kills import few
from .material import track
from .room import Outcome, Room

PARTS, STOPPED = 3, 77
OTHERS = (["--max-angle", "20"], ["--step-size", "3"], ["--max-steps", "20"])  # options of another run
NAMES = ("b c", "-b", "[ab]", "*", "b\nc", "b'c", "ü", "b.tar", "%s", "{}")
ODD = (
    None, True, -1, 0, 1, 1.5, 1e308, float("nan"), 10**12, 10**400, "", "odd", "\0", "../..", [], [[[]]], {},
    {"a": {"b": [None]}}, 2**53, "1/1",
)


def resume(rng: random.Random, room: Room) -> list[str]:
    """Disturb the pieces of a run that was ended, and let it go on."""
    folder = _begun(rng, room)
    return _goes_on(room, lambda: _disturb(rng, room, folder))


def join(rng: random.Random, room: Room) -> list[str]:
    """Damage, mix, repeat or rename the parts of a run, and join them to an output that may be one of them."""
    parts = _parts(room)
    for _ in range(rng.randint(0, 1)):
        _disturb_parts(rng, room, parts)
    return _joined(room, parts, _output(rng, room, parts))


def records(rng: random.Random, room: Room) -> list[str]:
    """Write an odd value in a record, with or without the checksum that belongs to it."""
    if rng.random() < 0.5:
        parts = _parts(room)
        _alter(rng, room, rng.choice(parts).with_suffix(".json"))
        return _joined(room, parts, ["-o", "../out/a.trx"])
    folder = _begun(rng, room)
    return _goes_on(room, lambda: _alter(rng, room, rng.choice(sorted(folder.glob("*.json")))))


def _begun(rng: random.Random, room: Room, name: str = "a", more: tuple[str, ...] = ()) -> Path:
    """Track some pieces; return their folder."""
    count = rng.randint(2, 5)

    def stop() -> None:
        from tistreamlines.run import resume as going_on

        few()
        real, left = going_on._track_piece, [count]

        def tracked(*arguments: Any) -> Any:
            if not left[0]:
                os._exit(STOPPED)
            left[0] -= 1
            return real(*arguments)

        going_on._track_piece = tracked  # type: ignore[assignment]

    room.run([*track("det", f"../out/{name}.trx"), "--resume", "-q", *more], setup=stop)
    return room.out / f"{name}.trx.unfinished"


def _goes_on(room: Room, disturb: Callable[[], None]) -> list[str]:
    """Disturb, and give the same command again: the bytes of an undisturbed run, or a clear error."""
    precious = room.folder / "precious"
    precious.write_text("precious")
    disturb()
    outcome = room.track("det", "--resume", setup=few)
    outcome.changed[:] = [name for name in outcome.changed if ".unfinished/" not in name or "/." in name]
    faults = room.faults(outcome, "det")
    return faults + ([] if precious.read_text() == "precious" else ["another file was changed"])


def _disturb(rng: random.Random, room: Room, folder: Path) -> None:
    files = sorted(path for path in folder.iterdir() if path.is_file())
    first, two = rng.sample(files, 2)
    how = rng.choice(("damage", "remove", "swap", "foreign", "replace", "open", "add"))
    room.did.append(f"{how} {first.name}, {two.name}")
    if how == "damage" and first.stat().st_size:
        damage(rng, first)
    elif how == "remove":
        first.unlink()
    elif how == "swap":
        _swap(rng, first, two)
    elif how == "foreign":
        other = _begun(rng, room, "b", tuple(rng.choice(OTHERS)))
        for path in rng.sample(sorted(other.glob("*.*")), 2):
            shutil.copy(path, folder)
        shutil.rmtree(other)
    elif how == "replace":
        _replace(rng, room, first)
    elif how == "open":
        folder.chmod(0o777)
    else:
        for name in ("9999999999.trx", "0000000005 .trx", "x.json", "-1.trx"):
            shutil.copy(first, folder / name)


def _swap(rng: random.Random, first: Path, two: Path) -> None:
    """Exchange two files, and perhaps what lies beside them."""
    pairs = [(first, two)]
    if rng.random() < 0.5 and first.suffix == two.suffix == ".trx":
        pairs.append((first.with_suffix(".json"), two.with_suffix(".json")))
    for path, second in pairs:
        path.rename(path.with_name("kept"))
        second.rename(path)
        first.with_name("kept").rename(second)


def _replace(rng: random.Random, room: Room, path: Path) -> None:
    """Put something in the place of a file that is none."""
    path.unlink()
    kind = rng.choice(("pipe", "folder", "link", "dangling", "socket", "device"))
    room.did.append(f"a {kind} in its place")
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        back = Path.cwd()
        os.chdir(path.parent)  # the names of sockets are short
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
        os.chdir(back)
    else:
        path.symlink_to({"link": room.folder / "precious", "dangling": "nowhere", "device": "/dev/zero"}[kind])


def _parts(room: Room, name: str = "p", count: int = PARTS, more: tuple[str, ...] = ()) -> list[Path]:
    """Track the parts of a run."""
    paths = [room.out / f"{name}{number}.trx" for number in range(1, count + 1)]
    for number, path in enumerate(paths, 1):
        room.run([*track("det", f"../out/{path.name}"), "--part", f"{number}/{count}", "-q", *more])
    return paths


def _disturb_parts(rng: random.Random, room: Room, parts: list[Path]) -> None:
    how = rng.choice(("damage", "missing", "twice", "copy", "foreign", "split", "swap", "rename", "replace", "shuffle"))
    place = rng.randrange(PARTS)
    part = parts[place]
    room.did.append(f"{how} {part.name}")
    if how == "damage":
        room.did.append(damage(rng, part.with_suffix(rng.choice((".trx", ".json")))))
    elif how == "missing":
        del parts[place]
    elif how == "twice":
        parts.append(part)
    elif how in ("copy", "rename"):
        new = room.out / f"{rng.choice(NAMES)}.trx"
        for suffix in (".trx", ".json"):
            (shutil.copy if how == "copy" else shutil.move)(part.with_suffix(suffix), new.with_suffix(suffix))
        parts[place : place + (how == "rename")] = [new]
    elif how in ("foreign", "split"):
        more, count = (tuple(rng.choice(OTHERS)), PARTS) if how == "foreign" else ((), PARTS + 1)
        parts[place] = _parts(room, "q", count, more)[place]
    elif how == "swap":
        _swap(rng, *rng.sample(parts, 2))
    elif how == "replace":
        _replace(rng, room, part.with_suffix(rng.choice((".trx", ".json"))))
    else:
        rng.shuffle(parts)


def _output(rng: random.Random, room: Room, parts: list[Path]) -> list[str]:
    """Return the options of the output, whose names may be those of other files."""
    first, last = parts[0].name, parts[-1].stem
    names = ["a.trx"] * 6 + [first, f"{last}.tck", "foreign.trx", "folder.trx", "b.vtk", "a.trx/b.trx"]
    (room.out / "foreign.json").write_text("{}")
    (room.out / "folder.trx").mkdir()
    stats = [None] * 3 + [first, f"{last}.json", "a.trx", "a.json", "foreign.json", "folder.trx", "s.json"]
    chosen = rng.choice(stats)
    words = ["-o", f"../out/{rng.choice(names)}", *(["--json-stats", f"../out/{chosen}"] if chosen else [])]
    return words + rng.choice(([], ["--force"], ["-q"]))


def _joined(room: Room, parts: list[Path], options: list[str]) -> list[str]:
    """Join: the bytes of one run, or a clear error; the parts stay as they are."""
    before = {path: _hash(path) for part in parts for path in (part, part.with_suffix(".json"))}
    outcome: Outcome = room.run(["join", *options, "--", *(f"../out/{part.name}" for part in parts)])
    faults = room.faults(outcome, "det" if options[1].endswith("/a.trx") else None)
    return faults + [f"changed {path.name}" for path, was in before.items() if _hash(path) != was]


def _hash(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest() if path.is_file() and path.stat().st_size < 1 << 30 else ""


def _alter(rng: random.Random, room: Room, path: Path) -> None:
    from tistreamlines.io.sidecar import checksum

    content = json.loads(path.read_text())
    place, renewed = rng.choice([*_places(content)]), rng.random() < 0.5
    inner = content
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = rng.choice(ODD)
    if renewed:
        content["checksum"] = checksum(content)
    room.did.append(f"{path.name}: {'.'.join(map(str, place))} = {str(inner[place[-1]])[:30]}, {renewed=}")
    path.write_text(json.dumps(content))


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """All fields of a JSON value, and what they contain."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in inner:
        yield (*at, name)
        yield from _places(item, (*at, name))
