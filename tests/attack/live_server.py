"""Strangers and broken clients of a page of live tracking, one after the other."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from .material import ROOT
from .room import Room, Started

sys.path.insert(0, str(ROOT / "tests" / "support"))
from live_attacks import ATTACKS, channel_to

NEEDED = ("ipyniivue", "websockets")
PAGE = [
    "view", "--live", "--dg", "det", "--peaks", "peaks.nii.gz", "--peaks-frame", "voxel", "--stop-map", "stop.nii.gz",
    "--arch", "cpu", "--threads", "1", "--min-length", "0", "--no-browser", "--stay", "-q",
]
AT_ONCE, LIMIT = 15, 120.0  # attacks of a try, and its seconds
BALL = json.dumps({"id": 1, "options": {"seed_sphere": [0, 0, 0, 30], "nseeds": 50}})


def strangers(rng: random.Random, room: Room) -> list[str]:
    """Let many attack a page; its own client has the same streamlines as before, and Ctrl-C ends it."""
    if any(find_spec(name) is None for name in NEEDED):
        return []
    started = room.start(PAGE, limit=LIMIT)
    try:
        address = _address(room, started)
        before, faults = _streamlines(address), []
        for name in rng.sample(sorted(ATTACKS), AT_ONCE):
            room.did.append(name)
            faults += [f"{name}: {fault}" for fault in ATTACKS[name](address)]
        if _streamlines(address) != before:
            faults.append("its own client has other streamlines")
    finally:
        os.kill(started.process, signal.SIGINT)
        outcome = room.finish(started)
    return faults + room.faults(outcome, codes=(130,))


def _address(room: Room, started: Started) -> str:
    """Return the address that the program prints."""
    printed: Path = started.files[0]
    while time.monotonic() < started.deadline:
        if (text := printed.read_text()).endswith("\n"):
            return text.strip()
        time.sleep(0.02)
    raise TimeoutError("no address")


def _streamlines(address: str) -> bytes:
    """Return the answer to a request, without its head, which has times."""
    with channel_to(address) as channel:
        channel.send(BALL)
        answer = channel.recv(30)
    if isinstance(answer, str):
        raise ValueError(answer)
    return answer[4 + int.from_bytes(answer[:4], "little") :]
