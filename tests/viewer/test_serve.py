"""The server of ``tistreamlines view``: which path it answers, and what clients do that leave, wait or drip."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator

import pytest

from tistreamlines.viewer import serve
from tistreamlines.viewer.serve import PageServer

PAGE = b"<p>page</p>" * 1_000_000


@pytest.fixture
def server() -> Iterator[PageServer]:
    with PageServer(PAGE) as server:
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        yield server
        server.shutdown()


def connected(server: PageServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.server_port), timeout=20)


def answer(server: PageServer, request: bytes) -> bytes:
    with connected(server) as client:
        client.sendall(request)
        content = b""
        while part := client.recv(1 << 20):
            content += part
    return content


def asking(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def threads() -> int:
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def until(condition, seconds: float = 10.0) -> bool:
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return bool(condition())


def test_the_page(server):
    head, _, content = answer(server, asking(server.path)).partition(b"\r\n\r\n")
    assert b" 200 " in head
    assert content == PAGE


@pytest.mark.parametrize("change", ["/{}", "///{}", "{}?a", "{}#a", "{}.", "{}/../", "/", "", "/%2e{}", "http://a{}"])
def test_no_other_path_is_answered(server, change):
    content = answer(server, asking(change.format(server.path)))
    assert b"page</p>" not in content
    assert b" 404 " in content.splitlines()[0] or not change


@pytest.mark.parametrize("method", ["POST", "HEAD", "PUT", "get", "OPTIONS"])
def test_no_other_method_is_answered(server, method):
    content = answer(server, asking(server.path).replace(b"GET", method.encode()))
    assert b" 501 " in content.splitlines()[0]
    assert b"page</p>" not in content


@pytest.mark.parametrize("moment", ["at once", "while it asks", "while it reads"])
def test_clients_that_leave_are_not_told_of(server, monkeypatch, capfd, moment):
    monkeypatch.setattr(serve, "SECONDS", 2.0)  # a host may lose a reset: then the client is one that waits
    for _ in range(10):
        client = connected(server)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # it resets the connection
        if moment != "at once":
            client.sendall(asking(server.path)[: None if moment == "while it reads" else 20])
        if moment == "while it reads":
            client.recv(100)
        client.close()
    assert until(lambda: not threads())
    assert capfd.readouterr() == ("", "")
    assert b"page</p>" in answer(server, asking(server.path))


def test_idle_clients_have_few_threads_and_are_left(server, monkeypatch, capfd):
    """Also those that send a letter now and then."""
    clients = [connected(server) for _ in range(3 * serve.MOST_WAITING)]
    assert until(lambda: len(server.waiting) == serve.MOST_WAITING)
    assert until(lambda: threads() <= serve.MOST_WAITING)
    assert b"page</p>" in answer(server, asking(server.path))
    monkeypatch.setattr(serve, "SECONDS", 0.5)
    left = []
    for client in clients[-3:]:
        client.settimeout(0.1)
        end = time.monotonic() + 10
        while time.monotonic() < end:
            try:
                client.sendall(b"G")
                if not client.recv(100):
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        left.append(time.monotonic() < end)
    assert all(left)
    assert until(lambda: not threads())
    assert not server.waiting
    assert capfd.readouterr() == ("", "")
    for client in clients:
        client.close()


def test_a_slow_reader_gets_the_whole_page(server, monkeypatch):
    """As through a forwarded port."""
    monkeypatch.setattr(serve, "SECONDS", 0.3)
    with connected(server) as client:
        client.sendall(asking(server.path))
        time.sleep(1.5)
        content = b""
        while part := client.recv(1 << 20):
            content += part
    assert content.endswith(PAGE)
