"""Threads that compile or read beside others leave them their compiler and their warnings."""

import _ctypes
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numba
import numpy as np
import pytest
from commands import python
from present import PRESENT

from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.backends.numba.quick import quick_compiler
from tistreamlines.io.images import reading
from tistreamlines.linker.lang import Reals, func, i32, real
from tistreamlines.linker.parts import Source

# writes to a file the threads that a run starts, and where the C library's list of variables is then, and at last
PLACES = """
import ctypes, os, sys, threading
arch, mask, places, *series = sys.argv[1:]
lines = os.open(places, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
library = ctypes.CDLL(None)
place = lambda: ctypes.c_void_p.in_dll(library, "environ").value
start = threading.Thread.start
def say(name):
    os.write(lines, f"{name}\\t{place()}\\n".encode())  # in one piece, since several threads write
def start_and_say(thread):
    say(thread.name)
    start(thread)
threading.Thread.start = start_and_say
import tistreamlines as ts
from tistreamlines.backends import driven
driven.drives = lambda _: False  # so that Taichi runs in this process, as its forks do
ts.track(*series, mask=mask, dg="det", nseeds=10, arch=arch)
say("end")
"""


@func
def halved(item: i32, a: Reals, out: Reals):
    """Half a number."""
    out[item] = 0.5 * a[item] + 0.0 * real(item)


def test_others_compile_when_kernels_are_done():
    function = numba.njit(lambda x: x + 1)
    with quick_compiler():
        thread = threading.Thread(target=function, args=(1,))
        thread.start()
        thread.join(0.5)
        assert thread.is_alive()
    thread.join(60)
    assert function.signatures


def test_compiling_leaves_the_warnings_of_other_threads_alone(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # nothing is compiled there
    program, out = NumbaProgram(Source([halved]), threads=1), np.zeros(40, np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(warnings, "catch_warnings", None)
        program.run("halved", 40, {"a": np.arange(40, dtype=np.float32), "out": out})
    np.testing.assert_array_equal(out, np.arange(40) / 2)


def test_threads_that_read_in_turn_leave_the_filters_as_they_were():
    before, first, second = list(warnings.filters), reading(Path("a")), reading(Path("b"))
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert warnings.filters[0][0] == "ignore"
    second.__exit__(None, None, None)
    assert warnings.filters == before


LOADING = """
import _ctypes, sys, threading, time
from tistreamlines.devices.threads import in_threads

end = time.monotonic() + 2

def load():
    while time.monotonic() < end:  # with Python's lock, as an import does
        _ctypes.dlclose(_ctypes.dlopen(sys.argv[1], 2))

threading.Thread(target=load).start()
while time.monotonic() < end:
    assert [*in_threads(abs, (-1, -2), 2)] == [1, 2]
"""


@pytest.mark.skipif(sys.platform != "linux", reason="loads a library of Linux's C library")
def test_a_fit_goes_on_while_another_thread_imports():
    # threadpoolctl before 3.7 waits for Python's lock with that of the loader of libraries held
    library = "libBrokenLocale.so.1"  # which nothing uses, so that it is loaded and unloaded each time
    try:
        _ctypes.dlclose(_ctypes.dlopen(library, 2))
    except OSError as error:
        pytest.skip(f"the C library is another one: {error}")
    subprocess.run([sys.executable, "-c", LOADING, library], check=True, timeout=60)


@pytest.mark.skipif(sys.platform != "linux", reason="looks at the C library's list")
@pytest.mark.parametrize("arch", [arch for arch in ("vulkan", "cuda") if arch in PRESENT])
def test_the_list_of_environment_variables_stays_where_threads_read_it(head, tmp_path, arch):
    """A thread that reads the list, as Vulkan's loader does, would end the process if another one had it moved."""
    places = tmp_path / "places.tsv"
    done = python("-c", PLACES, arch, head.mask, places, *head.series, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    named = [line.split("\t") for line in places.read_text().splitlines()]
    assert {"compile_0", "functions_0"} <= {name for name, _ in named}
    assert len({place for _, place in named}) == 1, named
