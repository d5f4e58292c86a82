"""The server of ``tistreamlines view --live``: what it answers and to whom; it outlives whatever a client sends."""

from __future__ import annotations

import json
import random
import shlex
import time
from collections.abc import Iterator

import pytest
from nights import at_night
from small_runs import write_inputs

import tistreamlines as ts

websockets = pytest.importorskip("websockets", reason="needs websockets")
from live_attacks import ATTACKS, get, path_of  # noqa: E402
from live_requests import PAGE, SPHERE, Running, asked, read, started  # noqa: E402

from tistreamlines.live import server as live_server  # noqa: E402


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    named = write_inputs(tmp_path_factory.mktemp("in"))
    del named["seeds"]
    return named | {"min_length": 0}


@pytest.fixture(scope="module")
def running(options) -> Iterator[Running]:
    yield started(ts.Live(**options), keep=True)


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
def test_the_page(running):
    head, _, content = get(running.server.address, path_of(running.server.address)).partition(b"\r\n\r\n")
    assert b" 200 " in head and content == PAGE
    assert b"no-store" in head and b"nosniff" in head


def test_a_page_of_its_own_can(running):
    for name in ("127.0.0.1", "localhost"):
        with running.connect(origin=f"http://{name}:{running.port}") as channel:
            assert asked(channel)["streamlines"] > 0


@pytest.mark.parametrize("name", ATTACKS)
def test_attacks(running, name):
    assert ATTACKS[name](running.server.address) == []
    with running.connect() as channel:
        assert asked(channel)["streamlines"] > 0, "the next request is answered"


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
