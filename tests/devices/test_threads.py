"""Tasks in threads: their order, errors, tasks within tasks, and threads that stay."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from tistreamlines.cli.limits import BLAS_VARIABLES
from tistreamlines.devices.threads import ahead, in_threads


def test_results_keep_the_order_of_items():
    assert in_threads(lambda pause: time.sleep(pause) or pause, (0.02, 0.0, 0.01), 3) == [0.02, 0.0, 0.01]


def test_tasks_within_tasks_end_though_all_threads_are_taken():
    assert in_threads(lambda base: sum(in_threads(lambda k: base + k, range(3), 2)), range(4), 2) == [3, 6, 9, 12]


def test_after_an_error_nothing_runs_any_more():
    begun, ended = [], []

    def task(number: int) -> None:
        begun.append(number)
        if number == 0:
            raise ValueError("zero")
        time.sleep(0.05)
        ended.append(number)

    with pytest.raises(ValueError, match="zero"):
        in_threads(task, range(50), 2)
    assert len(begun) < 50 and sorted(ended) == sorted(begun)[1:]


def test_the_threads_stay():
    in_threads(abs, range(8), 3)
    known = set(threading.enumerate())
    in_threads(abs, range(8), 3)
    assert set(threading.enumerate()) <= known


def test_one_task_is_ahead():
    begun = []
    results = ahead(lambda number: begun.append(number) or number, range(4))
    assert next(results) == 0
    time.sleep(0.05)
    assert begun == [0, 1]
    assert [*results] == [1, 2, 3]
    assert [*ahead(abs, ())] == []


def test_several_tasks_are_ahead_in_order():
    begun = []
    results = ahead(lambda number: begun.append(number) or number, range(6), 3)
    assert next(results) == 0
    time.sleep(0.05)
    assert sorted(begun) == [0, 1, 2, 3]
    assert [*results] == [1, 2, 3, 4, 5]


def test_items_that_raise_leave_nothing_running():
    ended = []

    def items():
        yield 1
        yield 2
        raise ValueError("third")

    with pytest.raises(ValueError, match="third"):
        in_threads(lambda number: time.sleep(0.02) or ended.append(number), items(), 2)
    assert sorted(ended) == [1, 2] or len(ended) < 2
    before = list(ended)
    time.sleep(0.05)
    assert ended == before


def test_calls_of_several_threads_have_their_own_results():
    outcomes = {}

    def call(base: int) -> None:
        outcomes[base] = in_threads(lambda k: time.sleep(0.001) or base + k, range(20), 2)

    threads = [threading.Thread(target=call, args=(base,)) for base in (0, 100, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes == {base: [*range(base, base + 20)] for base in (0, 100, 200)}


def test_a_task_that_is_ahead_has_ended_when_its_reader_stops():
    ended = []
    results = ahead(lambda number: time.sleep(0.02) or ended.append(number), range(4))
    next(results)
    results.close()
    before = list(ended)
    time.sleep(0.05)
    assert ended == before


@pytest.mark.parametrize(("first", "limits"), [("", 0), ("import numpy", 1)])
def test_blas_is_single_by_the_environment_or_by_a_limit(first, limits):
    """A user's script may have loaded NumPy before; then the environment has no effect."""
    code = f"""
{first}
from tistreamlines.cli.limits import keep_blas_single
keep_blas_single()
import numpy
from threadpoolctl import threadpool_info
from tistreamlines.devices.threads import _limit, single_blas
with single_blas():
    print(_limit._count, max(library["num_threads"] for library in threadpool_info()))
"""
    unset = {name: value for name, value in os.environ.items() if name not in BLAS_VARIABLES}
    out = subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.PIPE, text=True, env=unset).stdout
    assert out.split() == [str(limits), "1"]
