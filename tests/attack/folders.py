"""Folders of outputs by owner and mode, as several users, with what others have left or planted there."""

from __future__ import annotations

import os
import random
import stat
from collections.abc import Callable
from functools import partial
from pathlib import Path

import tistreamlines.run.resume  # noqa: F401  (other users may not read the folder of Python's own modules)

from .room import COMPILING, FAILED, Room

ROOT, ANNA, BERT, NOBODY = 0, 54_321, 54_322, 65_534
GROUP = 54_333  # of Anna and Bert
OWNERS = (ROOT, ANNA, BERT, NOBODY)
MODES = (0o2775, 0o777, 0o1777, 0o3775, 0o755, 0o700, 0o2750, 0o555)
UMASKS = (0o002, 0o022, 0o077, 0o000)
DRAFT = ".a.trx.0123abcd.part"
OUTPUTS = ("a.trx", "a.json")


def owners(rng: random.Random, room: Room) -> list[str]:
    """Track into a folder of some user as another one."""
    if os.geteuid() != ROOT:
        room.did.append("nothing, since only root can become other users")
        return []
    user, owner, mode, umask = rng.choice((ROOT, ANNA, BERT)), rng.choice(OWNERS), rng.choice(MODES), rng.choice(UMASKS)
    for folder in (room.folder.parent, room.folder, room.inputs):
        folder.chmod(0o755)
    (room.folder / "tmp").chmod(0o1777)
    planted, stays = rng.choice(PLANTED)(rng, room, user, mode) if rng.random() < 0.7 else ("", False)
    os.chown(room.out, owner, GROUP)
    room.out.chmod(mode)
    more = rng.choice(([], ["--force"], ["--resume"], ["--resume", "--force"]))
    room.did.append(f"user {user}, folder of {owner} with mode {mode:o}, umask {umask:o}; {planted or 'nothing'} there")
    outcome = room.track("det", *more, setup=partial(become, user, umask), limit=COMPILING)
    if outcome.code:
        outcome.changed[:] = [name for name in outcome.changed if not name.startswith("out/a.trx.unfinished")]
    codes = (FAILED,) if not may_write(user, owner, mode) else (0, FAILED) if stays else (0,)
    faults = room.faults(outcome, None if outcome.code else "det", codes=codes)
    return faults + (_left(room, user, owner, mode, umask) if not outcome.code else []) + _lost(room)


def become(user: int, umask: int) -> None:
    """Go on as another user."""
    os.setgroups([GROUP])
    os.setgid(user)
    os.setuid(user)
    os.umask(umask)


def may_write(user: int, owner: int, mode: int) -> bool:
    """Whether the system lets a user write to a folder of the group."""
    shift = 6 if user == owner else 3
    return user == ROOT or (mode >> shift) & 3 == 3


def _left(room: Room, user: int, owner: int, mode: int, umask: int) -> list[str]:
    """What is wrong with the files of a run that went well."""
    faults = []
    for name in OUTPUTS:
        is_now = (room.out / name).stat()
        if is_now.st_uid != user or is_now.st_mode & 0o777 != 0o666 & ~umask:
            faults.append(f"{name} of {is_now.st_uid} with mode {is_now.st_mode:o}")
        if mode & stat.S_ISGID and is_now.st_gid != GROUP:
            faults.append(f"{name} of group {is_now.st_gid}")
    hidden = {path.name for path in room.out.iterdir() if path.name.startswith(".")}
    return faults + [f"left {name}" for name in hidden - ({DRAFT} if user != ROOT else set())]


def _lost(room: Room) -> list[str]:
    precious = room.folder / "tmp" / "precious"
    if precious.exists() and precious.read_text() != "precious":
        return ["a file was lost that a link led to"]
    return []


def _lock(rng: random.Random, room: Room, user: int, mode: int) -> tuple[str, bool]:
    """Leave the lock of a run that was killed."""
    path, whose, bits = room.out / ".a.json.lock", rng.choice(OWNERS), rng.choice((0o666, 0o664, 0o644, 0o600, 0))
    path.touch()
    os.chown(path, whose, GROUP)
    path.chmod(bits)
    opened = user == ROOT or bits & (0o400 if user == whose else 0o040)
    return f"a lock of {whose} with mode {bits:o}", not opened or (whose != user and bool(mode & stat.S_ISVTX))


def _odd_lock(rng: random.Random, room: Room, user: int, mode: int) -> tuple[str, bool]:
    """Plant what is no file in the place of a lock."""
    path, precious = room.out / ".a.json.lock", room.folder / "tmp" / "precious"
    precious.write_text("precious")
    precious.chmod(0o666)
    kinds: dict[str, Callable[[Path], object]] = {
        "pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(precious),
        "loose link": lambda path: path.symlink_to("nothing"),
    }
    kind = rng.choice(sorted(kinds))
    kinds[kind](path)
    os.chown(path, rng.choice(OWNERS), GROUP, follow_symlinks=False)
    return f"a {kind} as lock", True


def _output(rng: random.Random, room: Room, user: int, mode: int) -> tuple[str, bool]:
    """Leave an output of another run."""
    path, whose = room.out / "a.trx", rng.choice(OWNERS)
    path.write_text("not a tractogram")
    os.chown(path, whose, GROUP)
    return f"an output of {whose}", True


def _pieces(rng: random.Random, room: Room, user: int, mode: int) -> tuple[str, bool]:
    """Leave the folder of a run that can go on."""
    path, whose, bits = room.out / "a.trx.unfinished", rng.choice(OWNERS), rng.choice((0o700, 0o755, 0o777, 0o2770))
    path.mkdir()
    os.chown(path, whose, GROUP)
    path.chmod(bits | (mode & stat.S_ISGID))  # which folders inherit
    return f"pieces of {whose} with mode {bits:o}", True


def _draft(rng: random.Random, room: Room, user: int, mode: int) -> tuple[str, bool]:
    """Leave a folder in which a run that was killed has written."""
    path, whose = room.out / DRAFT, rng.choice(OWNERS)
    path.mkdir(mode=0o700)
    (path / "half").touch()
    for place in (path, path / "half"):
        os.chown(place, whose, GROUP)
    return f"a draft of {whose}", False


PLANTED = (_lock, _odd_lock, _output, _pieces, _draft)
