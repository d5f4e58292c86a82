"""Attacks on the server of ``tistreamlines view --live``: each is made on an address, and returns what went wrong.

The tests make each of them, and ``python -m tests.attack --only live-server`` many of them on one program.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from urllib.parse import urlsplit

Attack = Callable[[str], list[str]]
PATIENCE = 30.0  # seconds
FOREIGN_PATHS = (
    "/", "/favicon.ico", "/..{path}", "{path}page.html", "{path}../", "{path}?a", "//", "{path}%00", "/track", "{bare}",
)
METHODS = ("POST", "PUT", "OPTIONS", "HEAD\0", "CONNECT")
HOSTS = ("evil.example", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:{port}", "[::1]:{port}")
ORIGINS = ("http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "file://")
WITHOUT_TOKEN = ("/track", "/x/track", "/{token}/track/", "/{token}/Track", "/{token}/")
FRAMES = {
    "reserved bits": b"\xff\xff\xff\xff", "no mask": b"\x81\x05hello", "another operation": b"\x8f\x80aaaa",
    "nothing": b"", "a huge length": b"\x81\xff" + b"\x7f" * 8,
}
BAD = {
    "no JSON": "{", "a number": "3", "a list": "[]", "null": "null", "deep": "[" * 20_000, "another field": '{"a": 1}',
    "an id": '{"id": {}}', "a long id": json.dumps({"id": "x" * 41}), "options": '{"options": []}',
    "a file": '{"options": {"mask": "/etc/passwd"}}', "an output": '{"options": {"density": "/tmp/x.nii"}}',
    "a file for a region": '{"options": {"include": ["/etc/passwd"]}}',
    "a label of a file": '{"options": {"exclude": "/etc/passwd:1"}}',
    "a file of seeds": '{"options": {"seed_mask": "/etc/passwd"}}',
    "text for a sphere": '{"options": {"seed_sphere": "1,2,3,4"}}',
    "three numbers": '{"options": {"exclude": [1, 2, 3]}}',
    "NaN": '{"options": {"seed_sphere": [NaN, 1, 2, 3]}}',
    "Infinity": '{"options": {"seed_sphere": [1, 1, 1, Infinity]}}',
    "a huge number": '{"options": {"seed_sphere": [1%s, 0, 0, 1]}}' % ("0" * 400),
    "no place": '{"options": {"nseeds": 5}}', "null for a place": '{"options": {"seed_sphere": null}}',
    "null for seeds": '{"options": {"seed_sphere": [14, 16, 12, 5], "nseeds": null}}',
    "truth": '{"options": {"seed_sphere": [true, 1, 2, 3]}}',
    "far away": '{"options": {"seed_sphere": [900, 0, 0, 1]}}',
    "many spheres": json.dumps({"options": {"include": [[1, 1, 1, 1]] * 51}}),
    "many seeds": '{"options": {"nseeds": 100001}}', "half a seed": '{"options": {"nseeds": 1.5}}',
    "a list of angles": '{"options": {"max_angle": [1]}}', "an angle": '{"options": {"max_angle": 900}}',
    "a getter": '{"options": {"dg": "none"}}', "a long word": json.dumps({"options": {"dg": "x" * 50}}),
    "a step": '{"options": {"step_size": -1}}', "null for a mask": '{"options": {"mask": null}}',
    "a format": '{"options": {"seed_sphere": [14, 16, 12, 5]}, "save": "../../x"}',
    "a kind of format": '{"options": {"seed_sphere": [14, 16, 12, 5]}, "save": [1]}', "bytes": b"\xff\xfe\x00",
}


def path_of(address: str) -> str:
    """Return the path of the page, with the token."""
    return urlsplit(address).path


def port_of(address: str) -> int:
    """Return the port of an address."""
    return int(urlsplit(address).port or 0)


def channel_to(address: str, path: str | None = None, **how):
    """Open a WebSocket of a server."""
    from websockets.sync.client import connect

    return connect(f"ws://127.0.0.1:{port_of(address)}{path or path_of(address) + 'track'}", max_size=None, **how)


def http(address: str, text: str) -> bytes:
    """Send a request in plain text; return what comes back."""
    with socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as client:
        client.sendall(text.encode())
        content = b""
        try:
            while part := client.recv(1 << 16):
                content += part
        except ConnectionResetError:
            pass
        return content


def get(address: str, path: str, method: str = "GET", **headers: str) -> bytes:
    """Ask for a path."""
    named = {"Host": f"127.0.0.1:{port_of(address)}", "Connection": "close"} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return http(address, f"{method} {path} HTTP/1.1\r\n{lines}\r\n")


def foreign_path(path: str, address: str) -> list[str]:
    """Ask for another path than that of the page."""
    answer = get(address, path.format(path=path_of(address), bare=path_of(address).rstrip("/")))
    return [] if answer.split(b" ")[1:2] == [b"404"] else [f"{path} has an answer: {answer[:40]!r}"]


def other_method(method: str, address: str) -> list[str]:
    """Ask for the page by another method."""
    answer = get(address, path_of(address), method)
    return [f"{method} has an answer: {answer[:40]!r}"] if b" 200 " in answer.partition(b"\r\n")[0] else []


def foreign_host(host: str, address: str) -> list[str]:
    """Name another host, as the name of a foreign page that points to this computer does."""
    answer = get(address, path_of(address), Host=host.format(port=port_of(address)))
    return [] if b" 403 " in answer.partition(b"\r\n")[0] else [f"{host} has an answer: {answer[:40]!r}"]


def _refused(address: str, code: str, path: str | None = None, **how) -> list[str]:
    from websockets.exceptions import InvalidHandshake

    try:
        with channel_to(address, path, **how):
            return [f"{path or how} has a channel"]
    except InvalidHandshake as error:  # the page, at its own path, is longer than an answer that opens a channel
        return [] if code in str(error) else [f"{path or how}: {error}"]


def foreign_origin(origin: str, address: str) -> list[str]:
    """Ask as the page of others does."""
    return _refused(address, "403", origin=origin.format(port=port_of(address)))


def without_token(path: str, address: str) -> list[str]:
    """Ask without the token, or at another place."""
    return _refused(address, "", path.format(token=path_of(address).strip("/")))


def bad_request(message: str | bytes, address: str) -> list[str]:
    """Send a request that is none: the answer is an error of one line, which tells nothing of other files."""
    with channel_to(address) as channel:
        channel.send(message)
        answer = channel.recv(PATIENCE)
    if not isinstance(answer, str):
        return ["a bad request has streamlines"]
    text = json.loads(answer)["error"]
    wrong = not text or "\n" in text or "Traceback" in text or "root:" in text
    return [f"a bad request has the answer {text[:80]!r}"] if wrong else []


def too_long(address: str) -> list[str]:
    """Send a message that is too long, which ends the connection."""
    from websockets.exceptions import ConnectionClosed

    with channel_to(address) as channel:
        try:
            channel.send("x" * (1 << 17))
            channel.recv(PATIENCE)
        except ConnectionClosed:
            return []
    return ["a message that is too long has an answer"]


def broken_frames(frames: bytes, address: str) -> list[str]:
    """Send bytes that are no frames."""
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE) as client:
        client.sendall(
            f"GET {path_of(address)}track HTTP/1.1\r\nHost: 127.0.0.1:{port_of(address)}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\n{key}\r\n".encode()
        )
        if b" 101 " not in client.recv(4096):
            return ["no channel"]
        client.sendall(frames)
    return []


def silent_clients(address: str) -> list[str]:
    """Open many connections that say nothing; another client has its answer meanwhile."""
    with ExitStack() as idle:
        for _ in range(100):
            idle.enter_context(socket.create_connection(("127.0.0.1", port_of(address)), timeout=PATIENCE))
        return bad_request("{", address)


def flood(address: str) -> list[str]:
    """Send far more requests than are answered, and leave before the answers come."""
    request = json.dumps({"options": {"seed_sphere": [14, 16, 12, 5], "nseeds": 500}, "save": "trx"})
    for _ in range(3):
        with channel_to(address) as channel:
            for _ in range(200):
                channel.send(request)
    return []


ATTACKS: dict[str, Attack] = {
    **{f"path {path}": partial(foreign_path, path) for path in FOREIGN_PATHS},
    **{f"method {method}": partial(other_method, method) for method in METHODS},
    **{f"host {host}": partial(foreign_host, host) for host in HOSTS},
    **{f"origin {origin}": partial(foreign_origin, origin) for origin in ORIGINS},
    **{f"without token {path}": partial(without_token, path) for path in WITHOUT_TOKEN},
    **{f"request: {name}": partial(bad_request, message) for name, message in BAD.items()},
    **{f"frames: {name}": partial(broken_frames, frames) for name, frames in FRAMES.items()},
    "a long message": too_long, "silent clients": silent_clients, "a flood": flood,
}
