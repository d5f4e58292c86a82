"""The server of ``tistreamlines view --live``: what it answers and to whom; it outlives whatever a client sends."""

from __future__ import annotations

import json
import random
import shlex
import socket
import time
from collections.abc import Iterator

import pytest
from nights import at_night
from small_runs import write_inputs

import tistreamlines as ts

websockets = pytest.importorskip("websockets", reason="needs websockets")
from live_requests import PAGE, SPHERE, Running, asked, read, started  # noqa: E402
from websockets.exceptions import ConnectionClosed, InvalidStatus  # noqa: E402
from websockets.sync.client import connect  # noqa: E402

from tistreamlines.live import server as live_server  # noqa: E402


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    named = write_inputs(tmp_path_factory.mktemp("in"))
    del named["seeds"]
    return named | {"min_length": 0}


@pytest.fixture(scope="module")
def running(options) -> Iterator[Running]:
    yield started(ts.Live(**options), keep=True)


def http(running: Running, text: str) -> bytes:
    """Send a request in plain text; return what comes back."""
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        client.sendall(text.encode())
        content = b""
        try:
            while part := client.recv(1 << 16):
                content += part
        except ConnectionResetError:
            pass
        return content


def get(running: Running, path: str, **headers: str) -> bytes:
    named = {"Host": f"127.0.0.1:{running.port}", "Connection": "close"} | headers
    lines = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return http(running, f"GET {path} HTTP/1.1\r\n{lines}\r\n")


# ------------------------------------------------------------------------------------------------------------- answers
def test_an_answer_has_the_streamlines_of_track(running, options):
    with running.connect() as channel:
        answer = asked(channel)
    result = ts.track(seed_sphere="14,16,12,5", nseeds=40, **options)
    batch = ts.Batch.concatenate(list(result.batches))
    assert answer["lines"].tobytes() == batch.points.tobytes()
    assert answer["offsets"].tolist() == batch.offsets.tolist()
    assert (answer["streamlines"], answer["seeds"], answer["id"]) == (len(batch), 40, 1)
    assert sum(answer["stop_reasons"].values()) == 2 * len(batch)


def state(rng: random.Random) -> dict:
    """Options as the page sends them."""
    def sphere(radius):
        return [*(round(rng.uniform(2, 26), 1) for _ in range(3)), radius]

    chosen = {
        "seed_sphere": sphere(rng.choice((3.0, 6.5))), "nseeds": rng.randrange(1, 60),
        "max_angle": rng.randrange(5, 90), "step_size": rng.choice((0.35, 0.5, 1.1)),
        "min_length": rng.choice((0, 3, 7.5)), "max_length": rng.choice((20, 250)),
    }
    if rng.random() < 0.4:
        chosen["include"] = [sphere(8.0)]
    if rng.random() < 0.4:
        chosen["exclude"] = [sphere(2.0), sphere(1.5)]
    return {name: value for name, value in chosen.items() if name in ("seed_sphere", "nseeds") or rng.random() < 0.7}


@pytest.mark.filterwarnings("ignore:no streamline was accepted")
@pytest.mark.parametrize("states", [3, *at_night(50)])
def test_the_command_writes_the_bytes_of_the_page(running, run, tmp_path, states, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rng, counts = random.Random(states), []
    with running.connect() as channel:
        for number in range(states):
            options = state(rng)
            answer = asked(channel, **options)
            kind = rng.choice(("trx", "tck", "trk"))
            channel.send(json.dumps({"id": number, "options": options, "save": kind}))
            saved = read(channel.recv(30))
            words = shlex.split(answer["command"])
            assert words[:2] == ["tistreamlines", "track"]
            words = [word.replace("streamlines.trx", f"{number}.{kind}") for word in words[1:]]
            assert run(*words, "--force", "-q").code == 0
            assert (tmp_path / f"{number}.{kind}").read_bytes() == saved["content"]
            assert saved["file"] == f"streamlines.{kind}"
            counts.append(answer["streamlines"])
    assert sum(count > 0 for count in counts) > states / 3


def test_the_last_request_overtakes_others(running):
    with running.connect() as channel:
        for number in range(60):
            options = {"seed_sphere": SPHERE, "nseeds": 2000}
            channel.send(json.dumps({"id": number, "options": options} | ({"save": "tck"} if number == 30 else {})))
        ids = []
        while not ids or ids[-1] != 59:
            ids.append(read(channel.recv(60))["id"])
    assert len(ids) < 60 and 30 in ids and ids == sorted(ids)


def test_it_ends_with_the_last_page(options, monkeypatch):
    monkeypatch.setattr(live_server, "GRACE", 0.3)
    running = started(ts.Live(**options))
    time.sleep(0.6)
    assert running.thread.is_alive(), "a page has to come first"
    with running.connect(), running.connect():
        pass
    with running.connect():  # it was loaded again
        time.sleep(0.6)
        assert running.thread.is_alive()
    running.thread.join(10)
    assert not running.thread.is_alive()


# ---------------------------------------------------------------------------------------------------------- strangers
def test_the_page_and_nothing_else(running):
    path = "/" + running.place.partition("/")[2]
    head, _, content = get(running, path).partition(b"\r\n\r\n")
    assert b" 200 " in head and content == PAGE
    assert b"no-store" in head and b"nosniff" in head
    for other in ("/", "/favicon.ico", f"/..{path}", path[:-1], f"{path}page.html", f"{path}../", f"{path}?a", "//"):
        assert b" 404 " in get(running, other).partition(b"\r\n")[0], other
    for method in ("POST", "PUT", "OPTIONS"):
        answer = http(running, f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\n\r\n")
        assert b"page</p>" not in answer


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1", "127.0.0.1:80", "localhost.evil.example:{port}", "[::1]:{port}"]
)
def test_a_host_of_others_is_refused(running, host):
    path = "/" + running.place.partition("/")[2]
    assert b" 403 " in get(running, path, Host=host.format(port=running.port)).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "https://127.0.0.1:{port}", "http://127.0.0.1:1", "file://"]
)
def test_pages_of_others_cannot_ask(running, origin):
    with pytest.raises(InvalidStatus, match="403"):
        running.connect(origin=origin.format(port=running.port))


def test_a_page_of_its_own_can(running):
    for name in ("127.0.0.1", "localhost"):
        with running.connect(origin=f"http://{name}:{running.port}") as channel:
            assert asked(channel)["streamlines"] > 0


@pytest.mark.parametrize("path", ["/track", "/x/track", "/{token}/track/", "/{token}/Track", "/{token}/"])
def test_without_the_token_nobody_can(running, path):
    token = running.place.split("/")[1]
    with pytest.raises(InvalidStatus):
        connect(f"ws://127.0.0.1:{running.port}{path.format(token=token)}")


# ------------------------------------------------------------------------------------------------------- bad requests
BAD = {
    "no JSON": "{", "a number": "3", "a list": "[]", "null": "null", "deep": "[" * 20_000, "another field": '{"a": 1}',
    "an id": '{"id": {}}', "a long id": json.dumps({"id": "x" * 41}), "options": '{"options": []}',
    "a file": '{"options": {"mask": "/etc/passwd"}}', "an output": '{"options": {"density": "/tmp/x.nii"}}',
    "a file for a region": '{"options": {"include": ["/etc/passwd"]}}',
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


@pytest.mark.parametrize("name", BAD)
def test_a_bad_request_is_one_line(running, name):
    with running.connect() as channel:
        channel.send(BAD[name])
        answer = channel.recv(30)
        assert isinstance(answer, str)
        text = json.loads(answer)["error"]
        assert text and "\n" not in text and "Traceback" not in text and "passwd" not in text
        assert asked(channel)["streamlines"] > 0, "the next one is answered"


def test_a_request_that_is_too_long_ends_the_connection_alone(running):
    with running.connect() as channel:
        channel.send("x" * (1 << 17))
        with pytest.raises(ConnectionClosed):
            channel.recv(20)
    with running.connect() as channel:
        assert asked(channel)["streamlines"] > 0


@pytest.mark.parametrize(
    "frames", [b"\xff\xff\xff\xff", b"\x81\x05hello", b"\x8f\x80aaaa", b"", b"\x81\xff" + b"\x7f" * 8]
)
def test_broken_frames(running, frames):
    path = "/" + running.place.partition("/")[2]
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", running.port), timeout=20) as client:
        client.sendall(
            f"GET {path}track HTTP/1.1\r\nHost: 127.0.0.1:{running.port}\r\nUpgrade: websocket\r\n"
            f"Connection: Upgrade\r\n{key}\r\n".encode()
        )
        assert b" 101 " in client.recv(4096)
        client.sendall(frames)
    with running.connect() as channel:
        assert asked(channel)["streamlines"] > 0


def test_many_clients_that_say_nothing(running):
    idle = [socket.create_connection(("127.0.0.1", running.port), timeout=20) for _ in range(100)]
    with running.connect() as channel:
        assert asked(channel)["streamlines"] > 0
    for client in idle:
        client.close()


@pytest.mark.nightly
def test_memory_stays_flat(running):
    def resident() -> float:
        pages = int(open("/proc/self/statm", encoding="ascii").read().split()[1])  # noqa: PTH123, SIM115
        return pages * 4096 / 1e6

    with running.connect() as channel:
        for number in range(60):
            asked(channel, nseeds=200, max_angle=20 + number % 40)
        before = resident()
        for number in range(1000):
            asked(channel, nseeds=200, max_angle=20 + number % 40)
        assert resident() - before < 60
