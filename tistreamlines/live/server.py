"""Live tracking for pages and other programs of this computer: a page, and a WebSocket that answers requests.

A request is JSON. An answer is binary: the length of its head in bytes, uint32; the head, JSON, filled up with spaces
to a multiple of four; the places of streamlines among the points, (n + 1,) uint32; and the points, (m, 3) float32,
RASmm. All numbers are little-endian. An error is JSON. Of the requests of a client that wait, only the last one is
answered. docs/live.md describes the protocol for other programs.
"""

from __future__ import annotations

import asyncio
import json
import struct
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from secrets import token_urlsafe
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from ..aliases import Json
from ..errors import ParameterError, TrackingError
from ..io.writer import SINKS
from ..run.result import TrackResult
from ..space.batch import Batch
from .parcels import Parcels
from .tracker import Live

try:
    from websockets.asyncio.server import Server, ServerConnection, serve
    from websockets.datastructures import Headers
    from websockets.exceptions import ConnectionClosed
    from websockets.http11 import Request, Response
except ImportError as error:
    raise ImportError("live tracking needs websockets: pip install 'tistreamlines[view]'") from error

# options of a request: numbers, words and names of regions, none of which names a file
PER_REQUEST = (
    "seed_sphere", "seed_mask", "nseeds", "seed_seed", "rng_seed", "dg", "max_angle", "step_size", "cutoff", "power",
    "samples", "pmf_threshold", "min_length", "max_length", "stopping", "stop_threshold", "fa_threshold", "one_way",
    "backtrack", "crop_at_gmwmi", "include", "exclude", "include_ordered",
)
LEFT_OUT = ("act", "pft", "backtrack", "crop_at_gmwmi")  # options of all requests that null takes away
REGIONS = ("include", "exclude", "include_ordered")  # spheres, and regions of the parcellation by name
MOST_SEEDS, MOST_PLACES, MOST_BYTES = 100_000, 50, 1 << 16  # of a request
MOST_WAITING, NSEEDS = 4, 1000  # requests of a client; seeds of one that does not say how many
GRACE = 3.0  # seconds in which a page can come back, when it is loaded again
PLACE = "track"  # of the WebSocket, behind the path of the page


class LiveServer:
    """Serves a page and its streamlines to this computer, on a free port, and nothing else.

    Parameters
    ----------
    live : Live
        Tracks.
    page : bytes
        HTML in UTF-8.
    parcels : Parcels, optional
        Regions that requests may name, and of which answers have the edges if a request asks for them.
    keep : bool
        Go on when the last page is closed.
    port : int
        Where; 0 for a free one.

    Attributes
    ----------
    address : str
        Where the page is, once it is served; it contains a random token, and any other path is not found.
    """

    def __init__(
        self, live: Live, page: bytes, parcels: Parcels | None = None, *, keep: bool = False, port: int = 0
    ) -> None:
        self._live, self._page, self._parcels, self._keep, self._port = live, page, parcels, keep, port
        self._path = f"/{token_urlsafe(16)}/"
        self._clients, self._left = 0, asyncio.Event()
        self._pool = ThreadPoolExecutor(1, "live")  # one request after the other
        self.address = ""

    async def run(self, ready: Callable[[str], object]) -> None:
        """Serve until the last page is closed, or until this is cancelled; ``ready`` receives the address."""
        async with serve(
            self._answer, "127.0.0.1", self._port, process_request=self._respond, max_size=MOST_BYTES, max_queue=4,
            compression=None, server_header=None, open_timeout=10, ping_interval=20, ping_timeout=60,
        ) as server:
            self._port = _port_of(server)
            self.address = f"http://127.0.0.1:{self._port}{self._path}"
            ready(self.address)
            try:
                await self._last_page()
            finally:
                self._pool.shutdown(wait=False, cancel_futures=True)

    async def _last_page(self) -> None:
        """Wait until the last page is closed, and none comes back."""
        while True:
            await self._left.wait()
            self._left.clear()
            await asyncio.sleep(GRACE)
            if not self._clients and not self._keep:
                return

    def _respond(self, connection: ServerConnection, request: Request) -> Response | None:
        """Answer a request for a page; return None to one that opens a WebSocket."""
        hosts = {f"{name}:{self._port}" for name in ("127.0.0.1", "localhost")}
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in hosts:
            return _plain(HTTPStatus.FORBIDDEN)
        if request.path == self._path + PLACE:
            if origin is not None and origin not in {f"http://{host}" for host in hosts}:
                return _plain(HTTPStatus.FORBIDDEN)
            return None
        if request.path != self._path:
            return _plain(HTTPStatus.NOT_FOUND)
        if getattr(request, "method", "GET") != "GET":  # earlier versions refuse others
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED)
        kind = {"Content-Type": "text/html; charset=utf-8", "Referrer-Policy": "no-referrer"}
        return _plain(HTTPStatus.OK, self._page, kind)

    async def _answer(self, connection: ServerConnection) -> None:
        """Answer the requests of a client until it leaves."""
        self._clients += 1
        waiting, there = list[Json](), asyncio.Event()
        answering = asyncio.create_task(self._answer_each(connection, waiting, there))
        try:
            async for message in connection:
                try:
                    request = parsed(message)
                except ParameterError as error:
                    await connection.send(json.dumps({"id": None, "error": str(error)}))
                    continue
                if "save" not in request:  # it overtakes others that make no file
                    waiting[:] = [earlier for earlier in waiting if "save" in earlier]
                if len(waiting) < MOST_WAITING:
                    waiting.append(request)
                    there.set()
                else:
                    text = f"{MOST_WAITING} requests wait: send another one when they are answered"
                    await connection.send(json.dumps({"id": request.get("id"), "error": text}))
        except ConnectionClosed:  # without a farewell
            pass
        finally:
            self._clients -= 1
            if not self._clients:
                self._left.set()
            answering.cancel()
            with suppress(asyncio.CancelledError, ConnectionClosed):
                await answering

    async def _answer_each(self, connection: ServerConnection, waiting: list[Json], there: asyncio.Event) -> None:
        """Answer the requests that wait, one after the other."""
        while await there.wait():
            there.clear()
            while waiting:
                request = waiting.pop(0)
                answer = await asyncio.get_running_loop().run_in_executor(self._pool, self._answer_to, request)
                await connection.send(answer)

    def _answer_to(self, request: Json) -> str | bytes:
        """Return the answer to a request, or what is wrong with it."""
        number = request.get("id")
        try:
            result = self._live.track(**options_of(request.get("options", {}), self._parcels))
            if "save" in request:
                return file_of(result, request["save"], number)
            return answer_of(result, self._live.command(result, "streamlines.trx"), request, self._parcels)
        except TrackingError as error:
            return json.dumps({"id": number, "error": str(error)})
        except Exception as error:  # of a library, or of the system: later requests are answered as ever
            reason = " ".join(str(error).split())[:200]
            return json.dumps({"id": number, "error": f"{type(error).__name__}: {reason}"})


def parsed(message: str | bytes) -> Json:
    """Return a request; raise ParameterError if it is none."""
    try:
        request = json.loads(message)
    except (ValueError, RecursionError):
        raise ParameterError("a request is an object in JSON") from None
    if not isinstance(request, dict) or not request.keys() <= {"id", "options", "edges", "save"}:
        raise ParameterError("a request is an object in JSON with id, options and perhaps edges or save")
    if not isinstance(request.get("edges", False), bool):
        raise ParameterError("edges of a request is true or false")
    number = request.get("id")
    if not (number is None or isinstance(number, int | str)) or len(str(number)) > 40:
        raise ParameterError("the id of a request is a number or a short text")
    return request


def options_of(named: object, parcels: Parcels | None = None) -> dict[str, Any]:
    """Return the options of a request for :class:`Live`; raise ParameterError if one is not for requests."""
    if not isinstance(named, dict):
        raise ParameterError("options of a request are an object in JSON")
    chosen: dict[str, Any] = {}
    for name, value in named.items():
        if name not in (*PER_REQUEST, *LEFT_OUT) or (value is not None and name not in PER_REQUEST):
            raise ParameterError(f"{str(name)[:40]!r} is no option of a request: it has {', '.join(PER_REQUEST)}")
        if value is None:
            chosen[name] = None
        elif name == "seed_mask":
            chosen[name] = _region(name, value, parcels)
        elif name in REGIONS or name == "seed_sphere":
            chosen[name] = _places(name, value, parcels)
        else:
            chosen[name] = _plain_value(name, value)
    if all(chosen.get(name) is None for name in ("seed_sphere", "seed_mask")):
        raise ParameterError("a request has a seed_sphere, a list of x, y, z and a radius in mm, or a seed_mask")
    if type(nseeds := chosen.setdefault("nseeds", NSEEDS)) is not int or nseeds > MOST_SEEDS:
        raise ParameterError(f"nseeds of a request is a whole number of at most {MOST_SEEDS:,}")
    return chosen


def _plain_value(name: str, value: object) -> object:
    """Return a number, a word or a flag."""
    if isinstance(value, bool | int | float) or (isinstance(value, str) and len(value) < 40):
        return value
    raise ParameterError(f"{name} of a request is a number or a word")


def _places(name: str, value: object, parcels: Parcels | None) -> list[str]:
    """Return spheres and regions as the command line has them; no other text, which might name a file."""
    rows = value if isinstance(value, list) and value and isinstance(value[0], list | str) else [value]
    if len(rows) > MOST_PLACES:
        raise ParameterError(f"{name} of a request has at most {MOST_PLACES} spheres and regions")
    return [
        _region(name, row, parcels) if isinstance(row, str) and name in REGIONS else _sphere(name, row) for row in rows
    ]


def _region(name: str, value: object, parcels: Parcels | None) -> str:
    """Return the region that a name means."""
    if parcels is None:
        raise ParameterError(f"{name} of a request has names only where view --live was given a --parcellation")
    return parcels.region(value)


def _sphere(name: str, value: object) -> str:
    """Return a sphere as the command line has it."""
    if not isinstance(value, list) or len(value) != 4 or not all(type(number) in (int, float) for number in value):
        raise ParameterError(f"{name} of a request has spheres: lists of x, y, z and a radius in mm")
    try:
        return ",".join(f"{float(number):.10g}" for number in value)
    except OverflowError:
        raise ParameterError(f"{name} of a request lies beyond all images") from None


def answer_of(result: TrackResult, command: str, request: Json, parcels: Parcels | None = None) -> bytes:
    """Return the binary answer to a request."""
    batch = Batch.concatenate(list(result.batches))
    head = {
        "id": request.get("id"), "command": command, "streamlines": result.n_streamlines, "seeds": result.seeds,
        "points": result.points, "mean_mm": _number(result.mean_mm), "median_mm": _number(result.median_mm),
        "dropped": _above_0(result.dropped), "stop_reasons": _above_0(result.stop_reasons),
        "seconds": round(result.seconds["total"], 4), "warnings": list(result.warnings),
        "options": {name: getattr(result.parameters, name, None) for name in PER_REQUEST},
        "edges": parcels.edges(batch) if parcels is not None and request.get("edges") else None,
        "regions": parcels.names if parcels is not None and parcels.readings > 1 else None,  # which the page has not
    }
    offsets, points = np.asarray(batch.offsets, "<u4"), np.ascontiguousarray(batch.points, "<f4")
    return _framed(head) + offsets.tobytes() + points.tobytes()


def file_of(result: TrackResult, kind: object, number: object) -> bytes:
    """Return the answer that has the tractogram which the command writes."""
    if not isinstance(kind, str) or f".{kind}" not in SINKS:
        raise ParameterError(f"save of a request is {', '.join(suffix[1:] for suffix in SINKS)}")
    with TemporaryDirectory(prefix="tistreamlines-") as folder:
        result.save(path := Path(folder) / f"streamlines.{kind}")
        return _framed({"id": number, "file": path.name}) + path.read_bytes()


def _framed(head: Mapping[str, object]) -> bytes:
    content = json.dumps(head, default=str).encode()
    content += b" " * (-len(content) % 4)
    return struct.pack("<I", len(content)) + content


def _number(value: float) -> float | None:
    """Return a number that JSON has."""
    return round(float(value), 3) if np.isfinite(value) else None


def _above_0(counts: Mapping[str, int]) -> dict[str, int]:
    return {name: int(count) for name, count in counts.items() if count}


def _plain(status: HTTPStatus, body: bytes = b"", headers: Mapping[str, str] | None = None) -> Response:
    """Return a response that is not kept by caches."""
    usual = {"Content-Length": str(len(body)), "Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
    return Response(status, status.phrase, Headers(usual | dict(headers or {}) | {"Connection": "close"}), body)


def _port_of(server: Server) -> int:
    return next(iter(server.sockets)).getsockname()[1]
