"""A process that compiles for this one: what it makes is loaded here, and this one does without it where it fails."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from commands import python

from tistreamlines.backends import compile_process
from tistreamlines.backends.compile_process import CompileProcess
from tistreamlines.backends.numba import cache, compiler
from tistreamlines.backends.numba.cache import Function
from tistreamlines.helpers import helper

SCALED = """
from tistreamlines.backends.numba.compiler import compiled

@compiled
def scaled(x):
    x[0] = {factor} * x[0]
"""
# says whether this process has compiled by itself; the argument is a line to run before it does
ALONE = """
import sys
import numpy as np
from tistreamlines.backends import compile_process
from tistreamlines.backends.numba import cache
cache.usable_cores = lambda: 2
exec(sys.argv[2])
number = np.array([21.0])
cache.Function(sys.argv[1], "scaled")(number)
print(number[0], "numba" in sys.modules)
"""


@pytest.fixture
def cold(tmp_path, monkeypatch):
    """A cache of the test's own, also in processes that it starts."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def started(cold, monkeypatch):
    """The processes of that cache, with two cores."""
    monkeypatch.setattr(cache, "usable_cores", lambda: 2)
    monkeypatch.setattr(compile_process, "_processes", {})
    yield compile_process._processes
    for process in compile_process._processes.values():
        process.end()


@pytest.fixture
def here(monkeypatch):
    """The names of functions that this process compiles."""
    names, compile_entry = [], compiler.compile_entry

    def noted(text, name, kinds):
        names.append(name)
        return compile_entry(text, name, kinds)

    monkeypatch.setattr(compiler, "compile_entry", noted)
    return names


def scaled(factor):
    """Scale 21 by a function that is compiled for that."""
    number = np.array([21.0])
    Function(SCALED.format(factor=factor), "scaled")(number)
    return number[0]


def test_it_compiles_what_this_process_loads(started, here, tmp_path):
    assert scaled(3) == 63
    (process,) = started.values()
    assert scaled(4) == 84
    assert [process] == [*started.values()]
    assert not here
    assert len(list(tmp_path.rglob("*.bin"))) == 2
    assert not process._waiting


def test_without_numba_in_this_process(cold):
    done = python("-c", ALONE, SCALED.format(factor=3), "")
    assert done.stdout.split() == ["63.0", "False"], done.stderr


def no_more_processes(*_, **__):
    raise BlockingIOError(11, "no more processes")


HINDRANCES = {
    "one core": (cache, "usable_cores", lambda: 1),
    "no Python": (sys, "executable", ""),
    "no process": (compile_process.subprocess, "Popen", no_more_processes),
    **{
        name: (compile_process, "module_command", lambda *_, code=code: helper(code)) for name, code in (
            ("ended", "import sys; sys.exit(3)"),
            ("killed", "import os, sys; sys.stdin.buffer.read(9); os.abort()"),
            ("nonsense", "import sys; sys.stdin.buffer.read(100); print(0, flush=True)"),
        )
    },
}


@pytest.mark.parametrize("hindrance", HINDRANCES)
def test_this_process_compiles_where_the_other_one_does_not(started, here, monkeypatch, capfd, hindrance):
    with monkeypatch.context() as patch:
        patch.setattr(*HINDRANCES[hindrance])
        assert scaled(5) == 105
    assert here == ["scaled"]
    assert capfd.readouterr().err == ""


def test_what_this_process_has_compiled_is_found_by_the_next(cold):
    answers = [python("-c", ALONE, SCALED.format(factor=5), "cache.usable_cores = lambda: 1") for _ in range(2)]
    assert [done.stdout.split() for done in answers] == [["105.0", "True"], ["105.0", "False"]]
    assert [done.stderr for done in answers] == ["", ""]


def test_a_killed_process_is_replaced(started, here):
    scaled(3)
    (first,) = started.values()
    first._process.send_signal(signal.SIGKILL)
    first._thread.join(20)
    assert not first.works
    assert scaled(6) == 126
    (second,) = started.values()
    assert second is not first and second.works
    assert not here


def test_an_error_is_raised_here(started, here):
    text = "from tistreamlines.backends.numba.compiler import compiled\n@compiled\ndef wrong(x):\n    x.nothing = 1\n"
    with pytest.raises(Exception, match="nothing"):
        Function(text, "wrong")(np.ones(1))
    assert here == ["wrong"]
    assert scaled(7) == 147


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_it_ends_with_the_process_that_it_works_for(cold):
    """Also if that one is killed while it waits."""
    line = """
import os, signal
cache.Function(sys.argv[1], "scaled").prepare((("float64", "array", 1),))
(other,) = compile_process._processes.values()
print(other._process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    other = int(python("-c", ALONE, SCALED.format(factor=3), line).stdout)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and is_running(other):
        time.sleep(0.05)
    assert not is_running(other)


def is_running(number):
    """Whether there is a process that has not ended."""
    with suppress(OSError):
        return Path(f"/proc/{number}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    return False


def test_many_threads_ask_at_once(started, here):
    products = {}

    def ask(factor):
        products[factor] = scaled(factor)

    threads = [threading.Thread(target=ask, args=(factor,)) for factor in range(8, 12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert products == {factor: 21.0 * factor for factor in range(8, 12)}
    assert not here


def test_it_ends_when_it_has_nothing_to_do(started):
    process = compile_process.compile_process("numbers", idle=0.2)
    assert process.ask(time.sleep, 0.5).result() is None
    process._thread.join(20)
    assert not process.works
    assert process.end() == 0
    assert compile_process.compile_process("numbers") is not process


def test_it_is_asked_for_nothing_more_shortly_before_it_may_end(started):
    process = compile_process.compile_process("numbers", idle=2.0)
    assert compile_process.compile_process("numbers", idle=2.0) is process
    time.sleep(1.9)
    assert process._open
    assert compile_process.compile_process("numbers", idle=2.0) is not process


def test_results_and_errors_are_the_callers():
    process = CompileProcess()
    results = [process.ask(pow, 2, power) for power in range(50)]
    with pytest.raises(RuntimeError, match=r"^ZeroDivisionError: .* by zero$"):
        process.ask(divmod, 1, 0).result()
    assert [result.result() for result in results] == [2**power for power in range(50)]
    lasting = process.ask(time.sleep, 60)
    process.end()
    with pytest.raises(EOFError, match=r"^no message$"):
        lasting.result()
    with pytest.raises(EOFError):
        process.ask(pow, 2, 3).result()


def test_what_it_prints_last_tells_of_its_end():
    process = CompileProcess()
    answer = process.ask(os.system, "echo 'no memory' >&2; kill -9 $PPID")
    with pytest.raises(EOFError, match=r"^no memory$"):
        answer.result()
    assert process.end() == -signal.SIGKILL


def test_another_setting_of_numba_has_a_process_of_its_own(started, monkeypatch):
    scaled(3)
    monkeypatch.setenv("NUMBA_OPT", "1")
    scaled(3)
    assert len(started) == 2
