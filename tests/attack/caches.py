"""Caches whose files were changed by someone: other arrays, exchanged names, links, FIFOs, owners and modes."""

from __future__ import annotations

import os
import random
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .room import COMPILING, Room

STRANGER = 65534


def results(rng: random.Random, room: Room) -> list[str]:
    """Change what --cache-dir keeps."""
    run = rng.choice(("boot", "det"))
    _change(rng, room, sorted(room.copy("tables").iterdir()), [_edited, _edited, _edited])
    return room.faults(room.track(run, "--cache-dir", "../tables"), run)


def compiled(rng: random.Random, room: Room) -> list[str]:
    """Change compiled kernels, which are native code."""
    paths = [path for path in room.copy("cache").rglob("*") if path.suffix in (".bin", ".py")]
    _change(rng, room, sorted(paths), [])
    return room.faults(room.track("det", limit=COMPILING), "det")


def _change(rng: random.Random, room: Room, paths: list[Path], more: list[Callable[..., str]]) -> None:
    path = rng.choice(paths)
    how = rng.choice([_exchanged, _cut, _linked, _fifo, _folder, _given_away, _opened_up, _left_open, *more])
    room.did.append(f"{how(rng, path, paths)} {path.name.split('-')[0]}{path.suffix}")


def _edited(rng: random.Random, path: Path, _: list[Path]) -> str:
    """Write a container that is valid in itself, with the old seal and another array."""
    with zipfile.ZipFile(path) as file:
        seal = file.read("seal")
        kept = {name.removesuffix(".npy"): np.load(file.open(name)) for name in file.namelist() if name != "seal"}
    name = rng.choice([name for name in kept if kept[name].size])
    kind = rng.choice(("half", "more", "zero", "other", "none"))
    array = kept[name]
    flat = array.ravel()
    kept[name] = {
        "half": flat[: flat.size // 2], "more": np.append(flat, flat), "zero": 0 * array, "other": array[::-1] + 1,
        "none": flat[:0],
    }[kind].astype(array.dtype)
    with path.open("wb") as file:
        np.savez(file, **kept)
    with zipfile.ZipFile(path, "a") as file:
        file.writestr("seal", seal)
    return f"{name} changed ({kind}) in"


def _exchanged(rng: random.Random, path: Path, paths: list[Path]) -> str:
    other = rng.choice(paths)
    mine, theirs = path.read_bytes(), other.read_bytes()
    path.write_bytes(theirs)
    other.write_bytes(mine)
    return f"exchanged with {other.name.split('-')[0]}:"


def _cut(rng: random.Random, path: Path, _: list[Path]) -> str:
    os.truncate(path, rng.randrange(path.stat().st_size))
    return "cut"


def _linked(rng: random.Random, path: Path, paths: list[Path]) -> str:
    aside = path.with_suffix(".aside")
    path.rename(aside)
    path.symlink_to(rng.choice((aside, path, Path("/dev/zero"), path.parent / "nothing", rng.choice(paths))))
    return "a link in place of"


def _fifo(_: random.Random, path: Path, __: list[Path]) -> str:
    path.unlink()
    os.mkfifo(path)
    return "a FIFO in place of"


def _folder(_: random.Random, path: Path, __: list[Path]) -> str:
    path.unlink()
    path.mkdir()
    (path / "file").touch()
    return "a folder in place of"


def _given_away(rng: random.Random, path: Path, _: list[Path]) -> str:
    whose = rng.choice((path, path.parent))
    if os.geteuid() == 0:  # nobody else can
        os.chown(whose, STRANGER, STRANGER)
    return f"given away ({'folder' if whose != path else 'file'})"


def _opened_up(rng: random.Random, path: Path, paths: list[Path]) -> str:
    _exchanged(rng, path, paths)
    path.chmod(rng.choice((0o666, 0o664, 0o000, 0o444)))
    return "exchanged, with another mode:"


def _left_open(rng: random.Random, path: Path, _: list[Path]) -> str:
    path.parent.chmod(rng.choice((0o777, 0o775, 0o1777)))
    return "in a folder that others can write to:"
