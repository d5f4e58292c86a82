"""A page on this computer alone: a server for one file, under a name that nobody can guess."""

from __future__ import annotations

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from secrets import token_urlsafe
from typing import Any


class PageServer(ThreadingHTTPServer):
    """Serves a page to this computer, on a free port, and nothing else.

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

    def __init__(self, page: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.page, self.path = page, f"/{token_urlsafe(16)}/"
        self.address = f"http://127.0.0.1:{self.server_port}{self.path}"


class _Handler(BaseHTTPRequestHandler):
    server: PageServer  # type: ignore[assignment]

    def do_GET(self) -> None:
        if self.path != self.server.path:
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.send_response(HTTPStatus.OK)
        for name, value in {
            "Content-Type": "text/html; charset=utf-8", "Content-Length": str(len(self.server.page)),
            "Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff",
        }.items():  # fmt: skip
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.page)

    def log_message(self, *_: Any) -> None:
        """Print nothing: requests are the user's own."""
