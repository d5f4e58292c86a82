"""Tables made in a process of their own, beside the one that starts a GPU and compiles for it.

Taichi keeps Python's lock while it compiles, and the imports of DIPY and of Taichi need it for a second each. In one
process they would wait for each other. Only files are inputs here, since arrays would have to be copied.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import IO, Any

import numpy as np

from ..devices import Device, usable_cores
from ..errors import TrackingError
from ..io.in_memory import InMemory
from ..methods.packing import pack_prepared, unpack_prepared
from ..methods.registry import METHODS, STOPPING_RULES
from .inputs import Series
from .log import Log, Watcher
from .parameters import INPUTS, Parameters
from .tables import Shapes, Tables, make_tables

FEWEST_CORES = 4
PACKAGES = str(Path(__file__).parents[2])
# the package's folder comes last, where it cannot hide modules of the standard library
WORKER = """
import sys
sys.path = [*filter(None, sys.path), sys.argv[1]]
from tistreamlines.run.apart import main
main()
"""


def pays(series: Series, parameters: Parameters, device: Device) -> bool:
    """Return whether a process of its own is possible, and saves time: on a GPU, beside a few cores."""
    rows = METHODS[parameters.dg], STOPPING_RULES[parameters.stopping]
    known = all(row.prepare.__module__.startswith(f"{__name__.split('.')[0]}.") for row in rows)
    inputs = [*series.values(), *(getattr(parameters, name) for name in INPUTS)]
    on_gpu = device.arch != "cpu" and not device.software and usable_cores() >= FEWEST_CORES
    return on_gpu and known and bool(sys.executable) and not any(isinstance(one, InMemory) for one in inputs)


def make_tables_apart(
    series: Series, parameters: Parameters, hashes: Mapping[str, str], log: Log, ahead: Callable[[Shapes], object]
) -> Tables:
    """Do what :func:`tistreamlines.run.tables.make_tables` does in a process of its own, and raise its errors here."""
    shapes: SimpleQueue[Any] = SimpleQueue()
    ahead(lambda: unpack_prepared(*shapes.get()))
    with _worker() as (given, made):
        try:
            pickle.dump((dict(series), parameters, dict(hashes)), given)
            given.flush()
            return _received(made, log, shapes)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError) as error:
            raise TrackingError(
                "the process that reads and fits has ended: if memory is scarce, use a smaller mask; else report this"
            ) from error
        finally:
            shapes.put(())  # nothing to unpack: the thread that compiles ends


@contextmanager
def _worker() -> Generator[tuple[IO[bytes], IO[bytes]], None, None]:
    """Start the process; hand out its standard input and output, and end it with the block."""
    command = [sys.executable, "-c", WORKER, PACKAGES]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process.stdin, process.stdout
        finally:
            process.kill()
            with suppress(BrokenPipeError):
                process.stdin.close()


def _received(made: IO[bytes], log: Log, shapes: SimpleQueue[Any]) -> Tables:
    """Pass the process's messages on until the tables come."""
    while True:
        kind, *content = pickle.load(made)
        if kind == "shapes":
            shapes.put(content)
        elif kind == "error":
            raise content[0]
        elif kind == "tables":
            layout, values, seconds = content
            log.seconds |= {name: log.seconds.get(name, 0.0) + more for name, more in seconds.items()}
            return Tables.unpacked({name: _read(made, *form) for name, form in layout.items()}, values)
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
        self.stage, self.fitted = partial(send, "watcher.stage"), partial(send, "watcher.fitted")
        self.note, self.warn = partial(send, "watcher.note"), partial(send, "watcher.warn")


class _SentLog(Log):
    """A log whose notes and warnings are recorded in the other process."""

    def __init__(self, watcher: _SentWatcher) -> None:
        super().__init__(watcher)
        self.note, self.warn = partial(watcher.send, "log.note"), partial(watcher.send, "log.warn")


def main() -> None:
    """Make tables for the process that started this one, in which standard output is a pipe."""
    made = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print
    series, parameters, hashes = pickle.load(sys.stdin.buffer)
    threading.Thread(target=_end_with_parent, daemon=True).start()

    def send(*message: Any) -> None:
        pickle.dump(message, made, protocol=pickle.HIGHEST_PROTOCOL)
        made.flush()

    log = _SentLog(_SentWatcher(send))
    try:
        tables = make_tables(series, parameters, hashes, log, lambda shapes: _send_shapes(shapes, send))
        arrays, values = tables.packed()
    except (TrackingError, MemoryError) as error:
        send("error", error)
    except Exception as error:  # perhaps of a type that cannot be sent
        send("error", RuntimeError(f"{type(error).__name__}: {error}"))
    else:
        send("tables", {name: (array.dtype, array.shape) for name, array in arrays.items()}, values, log.seconds)
        for array in arrays.values():
            made.write(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
        made.flush()


def _send_shapes(shapes: Shapes, send: Callable[..., None]) -> None:
    with suppress(Exception):  # the error occurs again when the inputs are read
        send("shapes", *pack_prepared(*shapes()))


def _end_with_parent() -> None:
    """End the process when its standard input is closed, which the other process does at its end."""
    sys.stdin.buffer.read()
    os._exit(1)
