"""A run among those of a cohort: it sends messages to the process that has started it, and tracks when its turn comes.

The messages are lines of JSON on standard output; other text for standard output goes to standard error. The process
that reads the messages answers with a byte on standard input once no other run tracks. It ends this process by closing
standard input.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time

from ..helpers import answers
from .progress import Display

SECONDS = 0.2  # between two messages about progress


class TurnDisplay(Display):
    """Shows notes and warnings, and sends the progress to the process that has started this one."""

    def __init__(self, *, quiet: bool, verbose: int) -> None:
        super().__init__(quiet=quiet, verbose=verbose)
        self._messages, self._turn, self._sent = answers(), threading.Event(), 0.0
        threading.Thread(target=self._listen, name="turn", daemon=True).start()

    def stage(self, name: str) -> None:
        """Send the stage that begins."""
        super().stage(name)
        self._send(stage=name)

    def fitted(self, share: float) -> None:
        """Send the share of voxels that are fitted."""
        super().fitted(share)
        self._send_progress(share=share)

    def progress(self, seeds: int, of: int, streamlines: int) -> None:
        """Send the finished seeds, or the selected streamlines."""
        super().progress(seeds, of, streamlines)
        self._send_progress(share=seeds / max(of, 1), streamlines=streamlines)

    def await_device(self) -> None:
        """Wait until no other run tracks."""
        self._send(stage="wait")
        self._turn.wait()

    def _send_progress(self, **content: object) -> None:
        if (now := time.perf_counter()) - self._sent > SECONDS:
            self._sent = now
            self._send(**content)

    def _send(self, **content: object) -> None:
        try:
            os.write(self._messages.fileno(), (json.dumps(content) + "\n").encode())
        except OSError:  # nobody reads them, and standard input tells so, too
            return

    def _listen(self) -> None:
        while os.read(0, 1):
            self._turn.set()
        os.kill(os.getpid(), signal.SIGTERM)
