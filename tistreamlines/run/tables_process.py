"""Tables made in a process of their own, beside the one that starts a GPU and compiles for it.

Taichi keeps Python's lock while it compiles, and the imports of DIPY and of Taichi need it for a second each. In one
process they would wait for each other. Only files are inputs here, since arrays would have to be copied.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from .. import plugins
from ..devices import ON_HOST, usable_cores
from ..errors import TrackingError
from ..helpers import answers, helper, may_start, tell_event
from ..io.cache import Cache
from ..io.in_memory import InMemory
from ..options.parameters import Parameters
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.tables.packing import pack_prepared, unpack_prepared
from ..tracking.weights.options import are_followed
from .inputs import Series
from .log import Log, Watcher
from .tables import Shapes, Tables, make_tables

FEWEST_CORES = 4
WORKER = """
import gc
import signal
gc.set_threshold(200_000)  # imports make as many objects, and hardly any cycles
signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with its parent
from tistreamlines.run.tables_process import main
main(*sys.argv[1:])
"""


@contextmanager
def process_for(series: Series, parameters: Parameters) -> Generator[Process | None, None, None]:
    """Start a process that can make the tables of a run; None where it saves nothing.

    Also where an input is no file, or where what streamlines follow, which is large, is needed here.
    """
    rows = METHODS[parameters.dg], STOPPING_RULES[parameters.stopping]
    homes = [row.prepare.__module__ for row in rows]
    known = all(plugins.own(home) or (plugins.known(home) and plugins.importable(home)) for home in homes)
    inputs = [*series.values(), *parameters.inputs().values()]
    files = not any(isinstance(source, InMemory) for source in inputs) and not are_followed(parameters)
    starts = may_start() and known and files and sys.executable
    if parameters.arch in ON_HOST or usable_cores() < FEWEST_CORES or not starts:
        yield None
        return
    process = Process(helper(WORKER, *(["dipy.core.gradients"] if series else [])))
    try:
        if parameters.cache_dir is None:  # else the cache may have the tables
            process.start()
        yield process
    finally:
        process.end()


class Process:
    """A process that makes tables.

    Parameters
    ----------
    command : its program and arguments.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> subprocess.Popen[bytes]:
        """Start the process if it was not started."""
        if self._process is None:
            self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            tell_event(f"starts process {self._process.pid}, which reads and fits")
        return self._process

    def end(self) -> None:
        """End the process if it was started."""
        if self._process is not None:
            self._process.kill()
            with suppress(BrokenPipeError):
                self._process.communicate()
            tell_event(f"process {self._process.pid}, which read and fitted, has ended")

    def make_tables(
        self, series: Series, parameters: Parameters, hashes: Mapping[str, str], cache: Cache | None, log: Log,
        precompile: Callable[[Shapes], object],
    ) -> Tables:
        """Do what :func:`tistreamlines.run.tables.make_tables` does in the process, and raise its errors here."""
        del cache  # the process opens it by its path
        process = self.start()
        assert process.stdin is not None and process.stdout is not None
        shapes: SimpleQueue[Sequence[Any]] = SimpleQueue()
        precompile(lambda: unpack_prepared(*shapes.get()))
        try:
            pickle.dump((dict(series), parameters, dict(hashes)), process.stdin)
            process.stdin.flush()
            return _received(process.stdout, log, shapes)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise TrackingError(
                "the process that reads and fits has ended: if memory is scarce, use a smaller mask; else report this"
            ) from error
        finally:
            shapes.put(())  # nothing to unpack: the thread that compiles ends


def _received(stream: IO[bytes], log: Log, shapes: SimpleQueue[Sequence[Any]]) -> Tables:
    """Pass the process's messages on until the tables come."""
    while True:
        kind, *content = pickle.load(stream)
        if kind == "shapes":
            shapes.put(content)
        elif kind == "error":
            raise content[0]
        elif kind == "tables":
            layout, values, seeds = content
            tables = Tables.unpacked({name: _read(stream, *form) for name, form in layout.items()}, values)
            return replace(tables, seeds=seeds)
        else:
            owner, method = kind.split(".")
            getattr(log if owner == "log" else log.watcher, method)(*content)


def _read(stream: IO[bytes], dtype: np.dtype[Any], shape: tuple[int, ...]) -> np.ndarray:
    """Read an array of a known type and shape."""
    array = np.empty(shape, dtype)
    left = array.reshape(-1).view(np.uint8).data
    while len(left):
        count = stream.readinto(left)  # type: ignore[attr-defined]
        if not count:
            raise EOFError
        left = left[count:]
    return array


class _SentWatcher(Watcher):
    """A watcher that sends what it receives."""

    def __init__(self, send: Callable[..., None]) -> None:
        self.send = send
        self.stage, self.fitted = partial(send, "log.begin"), partial(send, "watcher.fitted")
        self.note, self.warn = partial(send, "watcher.note"), partial(send, "watcher.warn")


class _SentLog(Log):
    """A log whose notes and warnings are recorded in the other process."""

    def __init__(self, watcher: _SentWatcher) -> None:
        super().__init__(watcher)
        self.note, self.warn = partial(watcher.send, "log.note"), partial(watcher.send, "log.warn")


def main(*modules: str) -> None:
    """Make tables for the process that started this one, and import modules until their inputs are known."""
    stream = answers()
    for module in modules:
        threading.Thread(target=importlib.import_module, args=(module,)).start()
    series, parameters, hashes = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sending = threading.Lock()

    def send(*message: object) -> None:
        with sending:
            pickle.dump(message, stream, protocol=pickle.HIGHEST_PROTOCOL)
            stream.flush()

    log = _SentLog(_SentWatcher(send))
    try:
        # the other process tells of a cache that cannot be used
        cache = None if parameters.cache_dir is None else Cache(parameters.cache_dir, shared=parameters.shared_cache)
        tables = make_tables(series, parameters, hashes, cache, log, partial(_send_shapes, send))
        arrays, values = tables.packed()
    except (TrackingError, MemoryError) as error:
        send("error", error)
    except Exception as error:  # perhaps of a type that cannot be sent
        send("error", RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        layout = {name: (array.dtype, array.shape) for name, array in arrays.items()}
        send("tables", layout, values, tables.seeds)
        for array in arrays.values():
            stream.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        stream.flush()


def _send_shapes(send: Callable[..., None], shapes: Shapes) -> None:
    """Send the shapes of the tables as soon as they are known, while the inputs are read."""

    def work() -> None:
        with suppress(Exception):  # the error occurs again when the inputs are read
            send("shapes", *pack_prepared(*shapes()))

    threading.Thread(target=work, daemon=True).start()


def _end_with_parent() -> None:
    """End the process when its standard input is closed, which the other process does at its end."""
    os.read(0, 1)  # not by sys.stdin, whose lock would be held when Python ends
    os._exit(1)
