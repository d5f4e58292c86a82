"""One Taichi in a process: runs that share it, runs that cannot, and other code's Taichi.

Each test is a function of its own process, which prints what came of it.
"""

from __future__ import annotations

import gc
import json
import threading
from itertools import zip_longest
from typing import Any

import pytest
from commands import importing, python
from taichi_runs import TAICHI_ALONE, Doubler, digest, run, said

from tistreamlines.devices import ARCHS, Device, choose
from tistreamlines.errors import DeviceError

GPUS = [arch for arch in ARCHS if arch != "cpu"]


def compiled() -> int:
    """Kernels that Taichi has compiled since it started, by the tables that its kernels keep."""
    import taichi as ti

    return ti.lang.impl.get_runtime().get_num_compiled_functions()


# --------------------------------------------------------------------------------- what runs in a process of its own
def within_taichi() -> None:
    """Have Taichi run what it compiles for Vulkan, too, as its forks do."""
    from tistreamlines.backends.taichi import trial

    trial.drives = lambda _: False


def side_by_side(arch: str) -> dict[str, Any]:
    """Two runs by turns, then two in threads."""
    within_taichi()
    first, second = run(arch, 0), run(arch, 1)
    pairs, kernels = list(zip_longest(first, second)), compiled()
    turns = [digest([batch for batch in side if batch is not None]) for side in zip(*pairs, strict=True)]
    threads: dict[int, str] = {}
    workers = [threading.Thread(target=lambda s=s: threads.update({s: digest(list(run(arch, s)))})) for s in (0, 1)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return {"turns": turns, "threads": [threads.get(seed) for seed in (0, 1)], "kernels": [kernels, compiled()]}


def in_the_way(arch: str) -> dict[str, Any]:
    """Others that start or end Taichi, before us, beside us and after us."""
    import taichi as ti

    answers: dict[str, Any] = {}
    ti.init(arch=ti.x64, log_level=ti.ERROR)
    theirs = ti.field(ti.i32, shape=3)
    theirs.fill(7)
    answers["beside theirs"], answers["theirs"] = said(lambda: Doubler(arch)()), theirs.to_numpy().tolist()
    ti.reset()
    double = Doubler(arch)
    answers["after theirs"] = double()
    answers["another way"] = said(lambda: Doubler(arch, another=True)())
    answers["still"] = double()
    del double
    answers["then"] = said(lambda: Doubler(arch, another=True)())
    double = Doubler(arch, another=True)
    ti.init(arch=ti.x64, log_level=ti.ERROR)
    answers["taken"] = said(double)
    answers["not ours"] = said(lambda: Doubler(arch)())
    ti.reset()
    answers["given back"] = said(lambda: Doubler(arch)())
    answers["gone for good"] = said(double)
    return answers


def from_another_thread(arch: str) -> dict[str, Any]:
    """Taichi started anew by a thread that is not in the context of the device that it leaves."""
    others = [other for other in GPUS if other != arch and isinstance(said(lambda o=other: choose(o)), Device)]
    ways = [(other, False) for other in others] or [(arch, True)]
    answers: dict[str, Any] = {"first": Doubler(arch)()}
    for way in ways:
        gc.collect()
        worker = threading.Thread(target=lambda way=way: answers.update({f"{way}": said(lambda: Doubler(*way)())}))
        worker.start()
        worker.join()
        gc.collect()
        answers[f"back from {way}"] = said(lambda: Doubler(arch)())
    return answers


def memory(arch: str) -> dict[str, Any]:
    """Arrays that are let go while kernels that use them may be waiting."""
    from tistreamlines.backends.taichi import runtime as _taichi_runtime
    from tistreamlines.backends.taichi import trial as _taichi_trial

    freed: list[Any] = []
    within_taichi()
    runtime = _taichi_runtime.start(choose(arch))
    _taichi_trial.judged(choose(arch), afresh=True)  # compiles what Taichi copies and fills arrays with
    gc.collect()
    gc.disable()  # memory comes back without it
    state = runtime._state  # Taichi itself tells nobody what it still holds
    state.prog = Counting(state.prog, freed)
    double = Doubler(arch)
    double.program.run("doubled", 5, double.values)
    del double
    counts = {"freed": len(freed), "waiting": len(runtime._spent)}
    double = Doubler(arch)
    with runtime.turn(exact=True):
        del double  # as when Python collects it just then
        counts |= {"freed in turn": len(freed), "waiting in turn": len(runtime._spent)}
    Doubler(arch)
    return counts | {"freed later": len(freed), "waiting later": len(runtime._spent)}


class Counting:
    """Taichi's program, which notes what is freed."""

    def __init__(self, program: Any, freed: list[Any]) -> None:
        self._program, self._freed = program, freed

    def __getattr__(self, name: str) -> Any:
        return getattr(self._program, name)

    def delete_ndarray(self, handle: Any) -> None:
        self._freed.append(handle)
        self._program.delete_ndarray(handle)


def outcome(call: str, arch: str) -> dict[str, Any]:
    """Call one of these functions in a process of its own, or skip and say why."""
    try:
        choose(arch)
    except DeviceError as error:
        pytest.skip(str(error))
    code = f"import json; print(); print(json.dumps(test_one_taichi.{call}(sys.argv[1])))"
    done = python("-c", importing(__file__) + code, arch, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    assert call == "in_the_way" or "[Taichi]" not in done.stdout  # ours prints nothing
    return json.loads(done.stdout.splitlines()[-1])


def left_in_another_thread(arch: str) -> dict[str, Any]:
    """Start Taichi in a thread alone, as a run does that fails while its kernels are compiled."""
    from tistreamlines.backends import warm_up

    thread = threading.Thread(target=warm_up, args=(choose(arch),))
    thread.start()
    thread.join()
    return {}


# ------------------------------------------------------------------------------------------------------------- tests
@pytest.mark.parametrize("arch", GPUS)
def test_python_ends_in_another_thread(arch):
    """With CUDA, the process was aborted where the thread that ends it never entered its context."""
    assert outcome("left_in_another_thread", arch) == {}


@pytest.mark.nightly
@TAICHI_ALONE
@pytest.mark.parametrize("arch", GPUS)
def test_runs_share_taichi_and_what_it_has_compiled(arch):
    answers = outcome("side_by_side", arch)
    expected = [digest(list(run("cpu", seed))) for seed in (0, 1)]
    assert expected[0] != expected[1]
    assert answers["turns"] == expected
    assert answers["threads"] == expected
    first, last = answers["kernels"]
    assert first == last > 3  # what the first run has compiled does for all


@TAICHI_ALONE
@pytest.mark.parametrize("arch", GPUS)
def test_taichi_is_not_taken_from_others_nor_by_them(arch):
    answers, doubles = outcome("in_the_way", arch), [0, 2, 4, 6, 8]
    assert "started by other code" in answers["beside theirs"]
    assert answers["theirs"] == [7, 7, 7]
    assert answers["after theirs"] == answers["still"] == answers["then"] == answers["given back"] == doubles
    assert f"a run on {arch}" in answers["another way"] and "end that run first" in answers["another way"]
    for name in ("taken", "gone for good"):
        assert "has called ti.init or ti.reset" in answers[name], name
    assert "started by other code" in answers["not ours"]


@pytest.mark.parametrize("arch", GPUS)
def test_another_thread_may_take_another_device(arch):
    """With CUDA, "invalid context" where the thread that leaves it never entered it."""
    answers = outcome("from_another_thread", arch)
    assert len(answers) >= 3
    assert all(values == [0, 2, 4, 6, 8] for values in answers.values()), answers


@TAICHI_ALONE
@pytest.mark.parametrize("arch", GPUS)
def test_arrays_that_are_let_go_are_freed(arch):
    """Whoever has the turn is not disturbed: what is let go meanwhile is freed with the next array."""
    assert outcome("memory", arch) == {
        "freed": 3, "waiting": 0, "freed in turn": 3, "waiting in turn": 3, "freed later": 9, "waiting later": 0
    }
