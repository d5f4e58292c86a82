"""A page on this computer alone: a server for one file, under a name that nobody can guess."""

from __future__ import annotations

import socket
import sys
import time
from contextlib import suppress
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe

SECONDS = 10.0  # in which a client has to ask for the page
Request = socket.socket | tuple[bytes, socket.socket]  # as socketserver has it: the latter only with UDP
MOST_WAITING = 32  # clients that have not asked yet, each of which has a thread


class PageServer(ThreadingHTTPServer):
    """Serves a page to this computer, on a free port, and nothing else.

    Clients that do not ask for anything are left, the oldest ones first if there are many.

    Parameters
    ----------
    page : bytes
        HTML in UTF-8.

    Attributes
    ----------
    address : str
        Where the page is; it contains a random token, and any other path is not found.
    """

    daemon_threads = True
    request_queue_size = 4 * MOST_WAITING  # with five, the default, clients of a burst try again after seconds

    def __init__(self, page: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page, self.path = page, f"/{token_urlsafe(16)}/"
        self.address = f"http://127.0.0.1:{self.server_port}{self.path}"
        self.waiting: dict[Request, float] = {}  # since when, by the client's socket; the oldest first

    def process_request(self, request: Request, client_address: object) -> None:
        """Answer a client in a separate thread."""
        for other in [*self.waiting][: max(0, len(self.waiting) + 1 - MOST_WAITING)]:
            self._leave(other)
        self.waiting[request] = time.monotonic()
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Leave clients without a request; called twice a second."""
        late = time.monotonic() - SECONDS
        for request, since in [*self.waiting.items()]:
            if since < late:
                self._leave(request)

    def close_request(self, request: Request) -> None:
        """Forget a client."""
        self.waiting.pop(request, None)
        super().close_request(request)

    def handle_error(self, request: Request, client_address: object) -> None:
        """Print nothing of clients that leave, or that are left, before they have the page."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def _leave(self, request: Request) -> None:
        """End the connection to a client, whose thread then finds nothing more to read."""
        assert isinstance(request, socket.socket)
        self.waiting.pop(request, None)
        with suppress(OSError):
            request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer  # type: ignore[assignment]

    def do_GET(self) -> None:
        self.server.waiting.pop(self.connection, None)
        # what was sent, since http.server takes several slashes at the beginning for one
        if self.requestline.split()[1] != self.server.path:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(self.server.page)),
            "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, format: str, *_: object) -> None:
        """Print nothing: requests are the user's own."""
