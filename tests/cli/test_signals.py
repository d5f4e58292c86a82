"""Ctrl-C, termination and hang-up at moments that are hard to meet by chance: what is left, and the exit code.

Each case is a process of its own, in which one step is replaced: it says that it has begun, and waits. The last tracks.
"""

import json
import signal
import subprocess
import sys
import time
from functools import partial

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such signals")

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
BEGIN = """
import ctypes, os, sys, threading, time

def begun():
    print("begun", flush=True)

def stuck():
    # like compiled code at work: no signal wakes it
    lock, mutex = ctypes.CDLL(None).pthread_mutex_lock, ctypes.create_string_buffer(64)
    ctypes.CDLL(None).pthread_mutex_init(mutex, None)
    lock(mutex)
    threading.Timer(0.1, begun).start()
    lock(mutex)
"""
# The command with another function in place of the tracking, which is told of the output and of the display.
TRACKING = """
from types import SimpleNamespace as Some
from tistreamlines.cli import interrupts, track

def command(run):
    track.run = lambda dwi, bvals, bvecs, output, watcher, **_: run(output, watcher)
    from tistreamlines.__main__ import main
    main()
"""
# The command with one made-up batch in place of the tracking.
WRITING = TRACKING + """
import numpy as np
from pathlib import Path
from tistreamlines.space.batch import Batch, Space
from tistreamlines.io.writer import SINKS, WriterThread
from tistreamlines.io.writer import SINKS
from tistreamlines.run.log import Log
from tistreamlines.run.products import Products
from tistreamlines.run.saving import Receiver
from tistreamlines.run.record import record
from tistreamlines.run.run import Run
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.growth.statistics import Statistics
from tistreamlines.tracking.products.points.content import Content

def write(output, watcher):
    zeros = np.zeros((1, 3)), np.zeros(1), np.zeros(1), np.ones((1, 2))
    chosen = Parameters()
    receiver = Receiver(chosen, Space(np.eye(4), (4, 4, 4)), 1.0, Products({}), Content(chosen, 1), Statistics())
    whole = record(chosen, 1.0, {}, {}, {"streamlines": 1, "dropped": {}}) | {"made": "up"}
    run = Some(
        parameters=chosen, receiver=receiver, log=Log(watcher), _weigh=lambda: None,
        batches=lambda: (one for one in [Batch(np.zeros((5, 3)), [0, 5], *zeros)]),
        record=lambda _: whole, result=lambda path, *_: Some(record=whole), _reported=lambda result, _: result,
    )
    Run.save(run, Path(output))

track.summary = lambda *_: "done"
"""


@pytest.fixture
def interrupted(tmp_path):
    """Run code as the command ``track -o OUTPUT``, send signals where it has begun; return exit code and stderr."""

    def call(code, *numbers, output="a.trx", ignored=(), go=False):
        def heed():
            for number in CODES:
                signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

        command = [sys.executable, "-c", BEGIN + code, "track", "-o", tmp_path / output]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, preexec_fn=heed) as process:
            try:
                assert process.stdout.readline() == "begun\n", process.communicate()[1]
                for number in numbers:
                    process.send_signal(number)
                _, err = process.communicate("go\n" if go else None, timeout=60)
            finally:
                process.kill()
        assert "Traceback" not in err
        return process.returncode, err

    return call


def test_while_the_first_modules_are_imported(interrupted):
    code = """
class Slow:
    def find_spec(self, name, *_):
        if name == "numpy":
            begun()
            time.sleep(600)

sys.meta_path.insert(0, Slow())
from tistreamlines.__main__ import main
main()
"""
    assert interrupted(code, signal.SIGINT) == (130, "Interrupted\n")


@pytest.mark.parametrize("number", CODES)
def test_while_a_library_is_at_work(interrupted, number):
    assert interrupted(TRACKING + "command(lambda *_: stuck())", number) == (CODES[number], "Interrupted\n")


def test_dropped_by_a_compiler(interrupted):
    code = """
def compile(output, watcher):
    called = ctypes.CFUNCTYPE(None)(lambda: (begun(), sys.stdin.readline()))
    called()
    watcher.stage("track")
    time.sleep(600)

interrupts.PATIENCE = 600
command(compile)
"""
    assert interrupted(TRACKING + code, signal.SIGTERM, go=True) == (143, "Interrupted\n")


@pytest.mark.parametrize(
    ("output", "number"), [("a.trx", signal.SIGINT), ("a.trk", signal.SIGTERM), ("a.tck", signal.SIGHUP)]
)
def test_while_the_file_is_finished(interrupted, tmp_path, output, number):
    code = f"""
sink = SINKS[{output[1:]!r}]
whole = sink.finish
sink.finish = lambda self: (whole(self), stuck())
command(write)
"""
    assert interrupted(WRITING + code, number, output=output) == (CODES[number], "Interrupted\n")
    assert not list(tmp_path.iterdir())


def test_a_second_one_during_the_clean_up(interrupted, tmp_path):
    code = """
SINKS[".trx"].finish = lambda self: stuck()
interrupts.PATIENCE = 600
command(write)
"""
    code, err = interrupted(WRITING + code, signal.SIGINT, signal.SIGTERM)
    assert code in (130, 143)  # signals that come together come in any order
    assert err == "Interrupted\n"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("which", [1, 2])
def test_too_late(interrupted, tmp_path, which):
    """From the tractogram's name to the sidecar's all is done, and the exit code says so."""
    code = f"""
replace, calls = os.replace, []

def slow(*paths):
    calls.append(paths)
    if len(calls) == {which}:
        begun()
        sys.stdin.readline()
    replace(*paths)

os.replace = slow
interrupts.PATIENCE = 0.01
command(write)
"""
    assert interrupted(WRITING + code, signal.SIGTERM, go=True) == (0, "")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.json", "a.trx"]
    assert json.loads((tmp_path / "a.json").read_text())["made"] == "up"


def test_while_python_ends(interrupted):
    code = """
class Last:
    def __del__(self, begun=begun, read=sys.stdin.readline):
        begun()
        read()

last = Last()
command(lambda *_: sys.exit())  # with a number the process would end at once
"""
    assert interrupted(TRACKING + code, signal.SIGTERM, go=True) == (0, "")


def test_what_the_parent_has_had_ignored_stays_ignored(interrupted):
    code = "command(lambda *_: (begun(), sys.stdin.readline(), os._exit(0)))"
    assert interrupted(TRACKING + code, signal.SIGHUP, ignored=[signal.SIGHUP], go=True) == (0, "")


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.nightly)])
def test_while_it_tracks(head, tmp_path, number):
    """With one signal by day, since a whole run takes long to start."""
    command = [sys.executable, "-m", "tistreamlines", "track", *head.series, "--mask", head.mask, "--arch", "cpu"]
    command += ["-o", tmp_path / "a.trx", "--nseeds", "50000000", "--chunk-size", "500"]
    # jobs in the background of a script are started with Ctrl-C ignored, and what is ignored stays so
    heed = partial(signal.signal, number, signal.SIG_DFL)
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed)
    try:
        deadline = time.monotonic() + 120
        while not any(path.stat().st_size > 100_000 for path in tmp_path.glob(".*.part/*.trx")):
            assert time.monotonic() < deadline
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == CODES[number]
    assert "Traceback" not in err
    assert not list(tmp_path.iterdir())
