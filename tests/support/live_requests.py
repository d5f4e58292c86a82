"""A live server in a thread, and requests to it."""

from __future__ import annotations

import asyncio
import json
import struct
import threading
from dataclasses import dataclass

import numpy as np
from websockets.sync.client import ClientConnection, connect

import tistreamlines as ts
from tistreamlines.live.parcels import Parcels
from tistreamlines.live.server import LiveServer

PAGE = b"<p>page</p>"
SPHERE = [14.0, 16.0, 12.0, 5.0]


@dataclass
class Running:
    """A server in a thread."""

    server: LiveServer
    thread: threading.Thread

    @property
    def place(self) -> str:
        return self.server.address.removeprefix("http://")

    @property
    def port(self) -> int:
        return int(self.place.partition(":")[2].partition("/")[0])

    def connect(self, **how) -> ClientConnection:
        return connect(f"ws://{self.place}track", max_size=None, **how)


def started(live: ts.Live, parcels: Parcels | None = None, **options) -> Running:
    """Return a server that runs."""
    server, ready = LiveServer(live, PAGE, parcels, **options), threading.Event()
    thread = threading.Thread(target=lambda: asyncio.run(server.run(lambda _: ready.set())), daemon=True)
    thread.start()
    assert ready.wait(20)
    return Running(server, thread)


def asked(channel: ClientConnection, *, edges: bool | None = None, **options) -> dict:
    """Send a request; return the head of the answer, with its points and places."""
    more = {} if edges is None else {"edges": edges}
    channel.send(json.dumps({"id": 1, "options": {"seed_sphere": SPHERE, "nseeds": 40} | options} | more))
    return read(channel.recv(30))


def read(answer: bytes | str) -> dict:
    """Return the content of an answer."""
    if isinstance(answer, str):
        return json.loads(answer)
    (size,) = struct.unpack_from("<I", answer)
    head = json.loads(answer[4 : 4 + size])
    if "file" in head:
        return head | {"content": answer[4 + size :]}
    offsets = np.frombuffer(answer, "<u4", head["streamlines"] + 1, 4 + size)
    points = np.frombuffer(answer, "<f4", -1, 4 + size + offsets.nbytes).reshape(-1, 3)
    return head | {"offsets": offsets, "lines": points}
