"""A GPU: its memory and the host's, for arrays and copies between them, its kernels, and the lock of its users."""

from __future__ import annotations

import ctypes as c
import os
import threading
from collections import deque
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Generic, TypedDict, TypeVar

from ...devices import Device
from ...errors import DeviceError, DeviceMemoryError
from ..faults import refuse_fork, understood

Mark = TypeVar("Mark")  # says how far the device has to come until something is done
Arguments = Sequence[tuple[str, object]]  # in order: format characters of :mod:`struct`, and numbers or addresses
PIECE_BYTES = 1 << 23  # that are copied to the device at a time, while the host lays out the next ones
IDLE_BYTES = 1 << 30  # of buffers that nobody uses and that are kept, since freeing one waits for the device
MUCH = 4  # a buffer of the host is at most so many times as large as its copy


class Functions(dict[str, Callable[..., int]]):
    """Functions of a driver by name, from handles of its library that others do not use.

    Each takes addresses, handles and whole numbers: an argument has eight bytes, whatever it is.

    Parameters
    ----------
    quick : functions, or how their names begin, that return at once. They are called without releasing Python's lock:
        whoever releases it has to wait until the threads that lay points out give it back.
    long : those that return 64 bits, not a code.
    """

    def __init__(self, library: c.CDLL, quick: tuple[str, ...], long: Collection[str] = ()) -> None:
        super().__init__()
        self._usual, self._holding, self._quick, self._long = c.CDLL(library._name), c.PyDLL(library._name), quick, long

    def __missing__(self, name: str) -> Callable[..., int]:
        function = getattr(self._holding if name.startswith(self._quick) else self._usual, name)
        if name in self._long:
            function.restype = c.c_uint64

        def first_call(*arguments: object) -> int:
            function.argtypes = [c.c_void_p] * len(arguments)
            self[name] = function
            return function(*arguments)

        return first_call


@dataclass(eq=False, repr=False)
class Buffer(Generic[Mark]):
    """Memory of the device or of the host: handles of the driver, where kernels find it, and where the host does."""

    handle: int
    memory: int
    size: int
    address: int = 0
    mapped: int = 0
    used: Mark | None = None  # the mark of its last user


class Task(TypedDict):
    """A task of a kernel: its code, PTX or SPIR-V in base 64, and how many threads run it.

    ``threads`` are the threads of a group, ``groups`` the most of a launch (0 for CUDA), ``name`` that of the code's
    entry.
    """

    name: str
    code: str
    threads: int
    groups: int


class Compiled(TypedDict):
    """A kernel: its tasks, the place of each argument in bytes, and (for CUDA) the bytes of all arguments."""

    tasks: list[Task]
    places: list[int]
    bytes: int


# lets the device run a kernel with a queue for so many teams; the caller holds the device's lock
Launch = Callable[[Buffer, int, Arguments], None]


class Memory(Generic[Mark]):
    """A device and its memory. Threads call the methods one at a time, in a :meth:`turn`, all but :meth:`put`.

    A subclass says how memory is allocated and destroyed, copies, loads kernels, and makes marks.

    Parameters
    ----------
    device : which one.
    functions : of its driver.

    Attributes
    ----------
    kernels : what was compiled, by the hash of its text and by name.
    """

    def __init__(self, device: Device, functions: Functions) -> None:
        self.device, self.functions, self.process, self._lock = device, functions, os.getpid(), threading.RLock()
        self.kernels: dict[str, dict[str, Launch]] = {}
        self._spent: deque[Buffer] = deque()
        self._copies: list[Buffer] = []
        self.returned: deque[Buffer] = deque()  # buffers of copies that Python may add at any time, in any thread

    def _failure(self, code: int) -> str:
        """Return what a code of the driver says; '' if all is well."""
        raise NotImplementedError

    def call(self, name: str, *arguments: object) -> None:
        """Call a function of the driver that returns a code.

        Raises
        ------
        DeviceError
            If the device has no memory or is lost.
        RuntimeError
            With another error of the driver.
        """
        if failure := self._failure(self.functions[name](*arguments)):
            error = RuntimeError(f"{failure} of {name}")
            raise understood(error) or error

    def kernel(self, compiled: Compiled) -> Launch:
        """Hand the device a kernel that was compiled, and return what launches it; several threads may do so at once, and need no :meth:`turn`."""
        raise NotImplementedError

    def clear(self, buffer: Buffer[Mark]) -> None:
        """Let the device fill a buffer with zeros."""
        raise NotImplementedError

    def put(self, target: Buffer[Mark], address: int, size: int) -> None:
        """Let the device copy bytes of the host to the start of a buffer; their memory may then be used again.

        It takes a :meth:`turn` by itself, twice for each piece: other threads go on while the host copies.
        """
        for start in range(0, size, PIECE_BYTES):
            length = min(size - start, PIECE_BYTES)
            with self.turn():
                copy = self.copy_buffer(length)
            try:
                c.memmove(copy.mapped, address + start, length)
                with self.turn():
                    copy.used = self._send(copy, target, start, length)
            finally:
                self.returned.append(copy)

    def _send(self, source: Buffer[Mark], target: Buffer[Mark], start: int, size: int) -> Mark:
        """Let the device copy bytes of a buffer of the host to another one, from ``start`` on; return the mark of that."""
        raise NotImplementedError

    def fetch(self, source: Buffer[Mark], target: Buffer[Mark], size: int) -> Mark:
        """Let the device copy bytes from the start of a buffer, after all that was handed over; return the mark of that."""
        raise NotImplementedError

    def _allocated(self, size: int, host: bool) -> Buffer:
        raise NotImplementedError

    def _destroy(self, buffer: Buffer) -> None:
        raise NotImplementedError

    def is_done(self, mark: Mark | None) -> bool:
        """Whether the device has come as far as a mark; any device has if it is None."""
        raise NotImplementedError

    def wait(self, mark: Mark | None) -> None:
        """Wait until the device has come as far as a mark."""
        raise NotImplementedError

    def sync(self) -> None:
        """Wait until all is done that was handed to the device."""
        raise NotImplementedError

    @contextmanager
    def turn(self) -> Generator[None, None, None]:
        """Hold the device's lock."""
        refuse_fork(self.process, self.device.arch)
        with self._lock:
            yield

    def buffer(self, size: int, host: bool = False) -> Buffer:
        """Allocate memory of the device, or of the host where copies begin and end."""
        size = max(16, size + -size % 4)
        self._free()
        try:
            return self._allocated(size, host)
        except DeviceMemoryError:  # the memory of the last kernels, and idle buffers, may be enough
            self._take_returned()
            self._spent.extend(self._copies)
            self._copies.clear()
            self.sync()
            self._free()
            return self._allocated(size, host)

    def forget(self, buffer: Buffer) -> None:
        """Free a buffer now, or, if it is in use or another thread is at work, when memory is allocated the next time.

        Python may call this at any time, in any thread.
        """
        self._spent.append(buffer)
        if self.process == os.getpid() and self._lock.acquire(blocking=False):
            try:
                with suppress(DeviceError, RuntimeError), self.turn():  # a device that is lost frees nothing
                    self._free()
            finally:
                self._lock.release()

    def _free(self) -> None:
        waiting = []
        with suppress(IndexError):  # whatever is freed here may let Python free others, also here
            while buffer := self._spent.popleft():
                if self.is_done(buffer.used):
                    self._destroy(buffer)
                else:
                    waiting.append(buffer)
        self._spent.extend(waiting)

    def copy_buffer(self, size: int) -> Buffer:
        """Return a buffer of the host for a copy; callers append it to :attr:`returned` when they are done with it."""
        self._take_returned()
        most = max(MUCH * size, PIECE_BYTES)  # a greater one would be missing where it is needed
        fitting = [buffer for buffer in self._copies if size <= buffer.size <= most and self.is_done(buffer.used)]
        if fitting:
            best = min(fitting, key=lambda buffer: buffer.size)
            self._copies.remove(best)
            return best
        return self.buffer(size + size // 4, host=True)

    def _take_returned(self) -> None:
        """Keep the buffers that were returned, and free those that have lain idle longest."""
        while self.returned:
            self._copies.append(self.returned.popleft())
        while sum(idle.size for idle in self._copies) > IDLE_BYTES:
            self.forget(self._copies.pop(0))
