"""A process that compiles for this one, with Taichi or with Numba, and the cache of its compiled code.

Both keep Python's lock while they are imported and compile: in one process, the imports of DIPY and the fits would wait for
them. Taichi is global to a process besides. So such a process is started for the first code that is not in the cache, and
compiles all of a run, one thing after the other.
"""

from __future__ import annotations

import atexit
import gc
import itertools
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import IO, TypeVar
from weakref import WeakValueDictionary

from ..devices.threads import thread_pool
from ..errors import TrackingError
from ..helpers import answers, may_start, module_command, tell_event, tells_events
from ..linker.store import folder, read_sealed, write_sealed

Result = TypeVar("Result")
LATE = 0.9  # of the time without requests after which a process may end: it receives no more requests then
OBJECTS = 200_000  # made between two searches for cycles: compilers make millions, and hardly any cycles
_processes: dict[Hashable, CompileProcess] = {}
_starting = threading.Lock()
_asked: WeakValueDictionary[Hashable, Future[bytes]] = WeakValueDictionary()


def compile_process(
    *key: Hashable, environment: Mapping[str, str] | None = None, idle: float = 300.0
) -> CompileProcess | None:
    """Return the process that compiles for a key, which is started if there is none.

    Parameters
    ----------
    key : what its environment settles: the compiler, a device, settings.
    environment, idle : see :class:`CompileProcess`.

    Returns
    -------
    CompileProcess or None
        None if no process can be started. Then :func:`compiled` compiles in this process.
    """
    key = (os.getpid(), folder(), *key)
    if not may_start():
        return None
    with _starting:
        if key not in _processes or not _processes[key].works:
            try:
                _processes[key] = CompileProcess(environment, idle)
            except OSError:  # there is no Python, or the system allows no further process
                return None
        return _processes[key]


def compiled(
    name: str, process: Callable[[], CompileProcess | None], function: Callable[..., bytes], *arguments: object
) -> Future[bytes]:
    """Return compiled code as a file of the cache keeps it, or as a function makes it.

    Parameters
    ----------
    name : of the file.
    process : returns the process that calls the function; a thread of this process does if it returns None.
    function, arguments : see :meth:`CompileProcess.ask`.
    """
    place = folder()
    path, key = None if place is None else place / name, (os.getpid(), place, name)
    if (future := _asked.get(key)) is not None and not (future.done() and future.exception()):
        return future
    if path is not None and (kept := read_sealed(path)) is not None:
        future = Future[bytes]()
        future.set_result(kept)
        tell_event(f"{name}: from the cache")
        return future

    def keep(content: bytes) -> bytes:
        if path is not None:
            write_sealed(path, content)
        return content

    if helper := process():
        future = helper.ask(function, *arguments, keep=keep)
    else:
        # a separate pool: the threads of others wait for the code that this one compiles
        future = thread_pool("compiler", 1).submit(lambda: keep(function(*arguments)))
    _asked[key] = future
    return future


class CompileProcess:
    """The process and its requests.

    Parameters
    ----------
    environment : of the process, None for that of this one.
    idle : seconds without requests after which it ends.
    """

    def __init__(self, environment: Mapping[str, str] | None = None, idle: float = 300.0) -> None:
        pipe = subprocess.PIPE
        command = module_command(__name__, str(idle))
        self._process = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, stderr=pipe)
        tell_event(f"starts process {self._process.pid}, which compiles")
        self._lock, self._numbers = threading.Lock(), itertools.count()
        self._waiting: dict[int, tuple[Future, Callable, int]] = {}
        self._idle, self._last, self._open = idle, time.monotonic(), True
        self._owner, self._thread = os.getpid(), threading.Thread(target=self._listen, name="compiler", daemon=True)
        self._thread.start()
        atexit.register(self.end)

    @property
    def works(self) -> bool:
        """Whether it takes further requests."""
        return self._open and time.monotonic() < self._last + LATE * self._idle

    @property
    def waiting(self) -> int:
        """Bytes of the requests that it has not answered."""
        return sum(size for *_, size in list(self._waiting.values()))

    def ask(
        self, function: Callable[..., Result], *arguments: object, keep: Callable[[Result], Result] = lambda result: result
    ) -> Future[Result]:
        """Let the process call a function of this package, after all earlier requests.

        Parameters
        ----------
        function, arguments : can be pickled.
        keep : called with the result before anybody else has it; returns it.

        Returns
        -------
        Future
            The result. Its error is RuntimeError with the last line of an error there, or EOFError with the last line that
            the process has printed before it ended.
        """
        future: Future[Result] = Future()
        assert self._process.stdin is not None
        with self._lock:
            number, self._last = next(self._numbers), time.monotonic()
            request = pickle.dumps((number, function, arguments))
            self._waiting[number] = future, keep, len(request)
            with suppress(OSError, ValueError):  # it ends, and then its futures have the error
                self._process.stdin.write(request)
                self._process.stdin.flush()
            if not self._open:
                future.set_exception(EOFError("it has ended"))
        return future

    def _listen(self) -> None:
        """Receive results, until the process ends."""
        assert self._process.stdout is not None and self._process.stderr is not None
        printed = deque[bytes](maxlen=1)
        reading = threading.Thread(target=_pass_on, args=(self._process.stderr, printed), daemon=True)
        reading.start()
        with suppress(BrokenPipeError), self._process:  # closes the pipes and waits
            with suppress(EOFError, OSError, pickle.UnpicklingError):
                while True:
                    self._take(*pickle.load(self._process.stdout))
            reading.join()
        tell_event(f"process {self._process.pid}, which compiled, has ended")
        with self._lock:
            self._open = False
        last = printed.pop().decode(errors="replace").strip() if printed else "no message"
        for future, *_ in self._waiting.values():
            future.set_exception(EOFError(last))

    def _take(self, number: int, error: str, result: object) -> None:
        with self._lock:
            future, keep, _ = self._waiting.pop(number)
        if error:
            future.set_exception(RuntimeError(error))
        else:
            future.set_result(keep(result))

    def end(self) -> int:
        """End the process, but not in a fork; return its exit code, which it may have had before."""
        if self._owner == os.getpid():
            self._process.kill()
            self._thread.join()
        return self._process.returncode


def _pass_on(stream: IO[bytes], printed: deque[bytes]) -> None:
    """Keep the last line that the process has printed, and print what it tells of events."""
    for line in stream:
        if tells_events():
            os.write(2, line)
        printed.append(line)


def main(idle: str) -> None:
    """Serve the process that has started this one, until that ends or has sent no request for so many seconds."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the other process
    gc.set_threshold(OBJECTS)
    output = answers()
    requests: SimpleQueue[tuple[int, Callable[..., object], tuple[object, ...]]] = SimpleQueue()
    threading.Thread(target=_receive, args=(requests,), daemon=True).start()
    with suppress(Empty):
        while True:
            number, function, arguments = requests.get(timeout=float(idle))
            error, result = "", None
            try:
                result = function(*arguments)
            except TrackingError as fault:
                error = str(fault)
            except Exception as fault:
                error = "".join(traceback.format_exception_only(fault)).strip().splitlines()[-1]
            pickle.dump((number, error, result), output)
            output.flush()
    os._exit(0)


def _receive(requests: SimpleQueue[tuple[int, Callable[..., object], tuple[object, ...]]]) -> None:
    """Take requests, and end the process when none can come any more, even while it compiles."""
    with suppress(Exception):
        while True:
            requests.put(pickle.load(sys.stdin.buffer))
    os._exit(0)
