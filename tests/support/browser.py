"""A browser without a window, driven through Chromium's DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import re
import shutil
import subprocess
import time
import urllib.request
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless=new", "--no-sandbox", "--no-first-run", "--disable-dev-shm-usage",
    "--enable-unsafe-swiftshader", "--remote-debugging-port=0", "--disable-background-networking",
)
PATIENCE = 60.0  # seconds for what a page does


class Page:
    """A page in a browser of its own.

    Parameters
    ----------
    folder : of the browser's profile.
    width, height : in pixels.

    Attributes
    ----------
    problems : errors and warnings of the console.
    """

    def __init__(self, folder: Path, width: int = 1200, height: int = 800) -> None:
        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={folder}", f"--window-size={width},{height}", "about:blank"]
        self._browser = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self._browser.stderr is not None
        place = next(match[1] for line in self._browser.stderr if (match := re.search(r"ws://([^/]+)/", line)))
        self._numbers, self.problems = itertools.count(1), list[str]()
        with urllib.request.urlopen(f"http://{place}/json/list") as pages:
            address = next(page for page in json.load(pages) if page["type"] == "page")["webSocketDebuggerUrl"]
        self._held = ExitStack()
        self._channel = self._held.enter_context(connect(address, max_size=None))
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Page:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.close()
        self._browser.kill()
        self._browser.wait()

    @property
    def pid(self) -> int:
        """Number of the browser's process."""
        return self._browser.pid

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol; return its result."""
        number = next(self._numbers)
        self._channel.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self._channel.recv(PATIENCE))
            if message.get("id") == number:
                assert "error" not in message, message
                return message["result"]
            self._heed(message)

    def _heed(self, message: dict[str, Any]) -> None:
        """Keep what the console says."""
        what = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            self.problems.append(str(what["exceptionDetails"].get("exception", what["exceptionDetails"])))
        elif message.get("method") == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
            self.problems.append(str([argument.get("value") for argument in what["args"]]))
        elif message.get("method") == "Log.entryAdded" and what["entry"]["level"] == "error":
            self.problems.append(what["entry"]["text"])

    def resize(self, width: int, height: int) -> None:
        """Give the page another size."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, scheme: str) -> None:
        """Prefer ``light`` or ``dark``."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])

    def open(self, address: str) -> None:
        """Load a page."""
        self.call("Page.navigate", url=address)

    def value(self, expression: str) -> Any:
        """Return the value of an expression; promises are awaited."""
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def until(self, expression: str, seconds: float = PATIENCE) -> Any:
        """Wait until an expression is true; return its value."""
        end = time.monotonic() + seconds
        while not (value := self.value(expression)):
            assert time.monotonic() < end, f"{expression}: {self.problems}"
            time.sleep(0.01)
        return value

    def press(self, x: float, y: float, *, to: tuple[float, float] | None = None, modifiers: int = 0) -> None:
        """Click at a place of the page in pixels, or drag from there; modifiers are 1 for Alt and 8 for Shift."""
        common = {"button": "left", "buttons": 1, "clickCount": 1, "modifiers": modifiers}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, modifiers=modifiers)
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=x, y=y, **common)
        if to is not None:
            for step in (0.25, 0.5, 0.75, 1.0):
                place = {"x": x + step * (to[0] - x), "y": y + step * (to[1] - y)}
                self.call("Input.dispatchMouseEvent", type="mouseMoved", **place, **common)
            x, y = to
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **common | {"buttons": 0})

    def picture(self, path: Path) -> None:
        """Save a screenshot."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))
