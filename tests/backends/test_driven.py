"""GPUs without Taichi's runtime: copies, memory, and the cache of what Taichi has compiled."""

import gc
import json
import os
from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest
from commands import importing, python
from driven_kernels import codes, tripled
from present import PRESENT

from tistreamlines.backends.cuda.gpu import Gpu
from tistreamlines.backends.driven import ahead, memory
from tistreamlines.backends.driven.memory import IDLE_BYTES, Buffer
from tistreamlines.backends.driven.program import GPUS, DrivenProgram, drives, opened
from tistreamlines.backends.taichi import program as taichi_program
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError, DeviceMemoryError, LostDeviceError
from tistreamlines.linker.parts import Source


@pytest.fixture(scope="module", params=GPUS)
def device(request):
    if request.param not in PRESENT or not drives(request.param):
        pytest.skip(f"no {request.param} device, or a fork of Taichi runs it")
    return choose(request.param)


@pytest.fixture(scope="module")
def program(device):
    return DrivenProgram(device, Source([tripled]), exact=True)


@pytest.mark.parametrize("count", [1, 16_384, 16_385, 300_000])
def test_copies_of_all_sizes(program, count):
    values = np.arange(count, dtype=np.int32) - 7
    array = program.array(values)
    np.testing.assert_array_equal(program.host(array, count), values)
    np.testing.assert_array_equal(program.host(array, count // 2), values[: count // 2])
    program.upload(array, values[:1] + 50)
    assert program.host(array, 1) == [43]


def test_new_arrays_are_zeros(program):
    """Also in memory that held something else."""
    for _ in range(5):
        array = program.array(np.full(50_000, 7, np.int32))
        program.sync()
        del array
        assert not program.host(program.empty(50_000, "ints"), 50_000).any()


def test_what_is_copied_later_is_what_was_there(program):
    """Also if other kernels and copies follow, which need not wait for it."""
    array, out, other = program.array(np.arange(1000, dtype=np.int32)), *(program.empty(1000, "ints") for _ in range(2))
    values = {"a": array, "out": out, "factor": 1.5}
    program.run("tripled", 1000, values)
    first = program.later(out, 1000)
    program.run("tripled", 1000, values | {"factor": 100.0, "out": other})
    gathered = np.empty(1000, np.int32)
    finish = program.gather("tripled", 1000, values | {"factor": 7.0}, gathered, 1000)
    program.upload(array, np.zeros(1000, np.int32), beside=True)
    program.run("tripled", 1000, values | {"out": other})
    np.testing.assert_array_equal(program.host(other, 1000), 1)
    np.testing.assert_array_equal(first.wait(), 3 * np.arange(1000) + 1)
    finish()
    np.testing.assert_array_equal(gathered, 3 * np.arange(1000) + 7)
    assert len(program.later(out, 0).wait()) == 0


def kept(gpu):
    """The memory that is there for copies."""
    return {id(buffer) for buffer in (*gpu._copies, *gpu.returned)}


def test_copies_use_the_same_memory_again(device, program):
    gpu, array = opened(device), program.empty(100_000, "ints")
    program.host(array, 100_000)
    held = kept(gpu)
    for _ in range(5):
        program.host(array, 100_000)
    assert kept(gpu) == held


def test_what_was_copied_stays_while_somebody_holds_it(program):
    array = program.array(np.arange(50_000, dtype=np.int32))
    held = program.later(array, 50_000).wait()[7:]
    program.upload(array, np.zeros(50_000, np.int32))
    for _ in range(5):
        assert not program.host(array, 50_000).any()
    np.testing.assert_array_equal(held, np.arange(7, 50_000))


def test_codes_come_to_where_they_are_laid_out(device, program):
    """And nowhere else; memory that nobody holds any more is freed."""
    gpu, values = opened(device), {"a": program.array(np.arange(9000, dtype=np.int32)), "factor": 0.0}
    out = program.words(10_000)
    before = kept(gpu)
    program.gather("tripled", 9000, values, out[:9000], 10_000)()
    assert kept(gpu) == before
    np.testing.assert_array_equal(out[:9000], 3 * np.arange(9000))
    count = len(program._words)
    del out
    assert len(program._words) == count - 1


@pytest.fixture
def destroyed(device, monkeypatch):
    """The memory that is freed, in order."""
    gpu, freed = opened(device), []
    destroy = gpu._destroy
    monkeypatch.setattr(gpu, "_destroy", lambda buffer: (freed.append(id(buffer)), destroy(buffer)))
    return freed


def test_memory_of_a_copy_that_nobody_asks_for_is_used_again(device, program, monkeypatch):
    """As soon as it has come."""
    gpu, array = opened(device), program.empty(100_000, "ints")
    held, gpu._copies[:] = gpu._copies[:], []
    gpu.returned.clear()
    later = program.later(array, 100_000)
    del later
    gc.collect()
    (copy,) = gpu.returned
    with monkeypatch.context() as patch, gpu.turn():
        patch.setattr(gpu, "is_done", lambda _: False)
        other = gpu.copy_buffer(400_000)
        assert other is not copy
    program.sync()
    with gpu.turn():
        assert gpu.copy_buffer(400_000) is copy
        gpu.returned.extend((copy, other))
    gpu._copies += held


def test_arrays_that_are_let_go_are_freed_when_nothing_uses_them(device, program, destroyed):
    """Now if the device is done with them, as after a run."""
    out = program.empty(1000, "ints")
    program.run("tripled", 1000, {"a": out, "out": out, "factor": 0.0})
    program.sync()
    buffer = id(out.buffer)
    del out
    gc.collect()
    assert destroyed[-1] == buffer


def test_an_array_of_a_lost_device_is_let_go_in_silence(device, program, monkeypatch, capsys):
    def lost(_):
        raise LostDeviceError("the device was lost")

    array = program.empty(10, "ints")
    with monkeypatch.context() as patch:
        patch.setattr(opened(device), "_destroy", lost)
        patch.setattr(opened(device), "is_done", lambda _: True)
        del array
        gc.collect()
    assert capsys.readouterr().err == ""


def test_kernels_that_the_driver_refuses_are_one_line(device, monkeypatch):
    def refused(*_):
        raise RuntimeError("CUDA error CUDA_ERROR_INVALID_PTX of cuModuleLoadData")

    opened(device).kernels.clear()
    monkeypatch.setattr(opened(device), "kernel", refused)
    with pytest.raises(DeviceError, match=rf"^{device.arch}: .* does not take the kernels: CUDA error \w+ of \w+$"):
        DrivenProgram(device, Source([tripled]), exact=True)


def test_idle_memory_of_copies_is_given_back(device, program, monkeypatch):
    monkeypatch.setattr(memory, "IDLE_BYTES", 1000)
    for count in (100_000, 1):
        program.host(program.empty(count, "ints"), count)
    assert sum(buffer.size for buffer in opened(device)._copies) <= 1000


def test_too_large_an_array_is_an_error_of_memory(program):
    with pytest.raises(DeviceMemoryError, match=r"the device has no memory for a chunk of seeds \((Vulkan|CUDA) error"):
        program.empty(2**45, "ints")
    assert program.host(program.array(np.ones(2, np.int32)), 2).sum() == 2


def in_a_fork(arch: str) -> str:
    """Say what comes of a device in a fork of the process that has opened it."""
    program, device = DrivenProgram(choose(arch), Source([tripled]), exact=True), choose(arch)
    read, write = os.pipe()
    if os.fork() == 0:
        for call in (lambda: program.empty(3, "ints"), lambda: opened(device)):
            try:
                call()
            except DeviceError as error:
                os.write(write, f"{error}\n".encode())
        os._exit(0)
    os.wait()
    return os.read(read, 1000).decode()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_is_told(device):
    done = python("-c", importing(__file__) + f"print(test_driven.in_a_fork({device.arch!r}))", timeout=100)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("this process was forked from one that uses a GPU") == 2


def test_damaged_kernels_are_compiled_again(device, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    process, calls = ahead._process, []
    monkeypatch.setattr(ahead, "_process", lambda device: (calls.append(1), process(device))[1])

    def count() -> int:
        opened(device).kernels.clear()
        codes(device, True)
        return len(calls)

    assert [count(), count()] == [1, 1]
    (path,) = (tmp_path / "tistreamlines" / "kernels").glob(f"{device.arch}-*.json")
    content = path.read_bytes()
    path.write_bytes(content[:32] + content[32:].replace(b"threads", b"threats", 1))
    assert [count(), count()] == [2, 2]
    path.write_bytes(content[:200])
    assert count() == 3
    assert path.read_bytes() == content


def test_what_cannot_be_compiled_is_one_line(device, monkeypatch):
    text = "import taichi as ti\nraise ValueError('no such kernel')\n"
    monkeypatch.setattr(taichi_program, "linked_for", lambda *_: (text, {"none": []}, None))
    message = rf"^{device.arch}: kernels cannot be compiled for .*: \w+Error: .*$"
    with pytest.raises(DeviceError, match=message) as error:
        DrivenProgram(device, Source([tripled]), exact=True)
    assert "no such kernel" in str(error.value)
    assert "\n" not in str(error.value)


def test_taichi_is_not_imported_where_all_is_compiled(device):
    code = f"test_driven.codes(test_driven.choose({device.arch!r}), True)\nprint()\n"
    code += "import json; print(json.dumps([name for name in ('taichi', 'numba') if name in sys.modules]))"
    for _ in range(2):
        done = python("-c", importing(__file__) + code, timeout=100)
        assert done.returncode == 0, done.stderr[-3000:]
    assert "taichi" not in json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("total", "most"), [(None, IDLE_BYTES), (8 << 30, IDLE_BYTES), (128 << 30, 4 << 30)])
def test_memory_is_freed_only_while_a_gpu_idles_unless_it_is_much(total, most):
    freed, busy = [], {1: 0, 2: 600}
    gpu = Gpu.__new__(Gpu)
    vars(gpu).update(stream=1, _back=2, functions={"cuStreamQuery": busy.get}, is_done=lambda mark: True,
                     _destroy=freed.append, _spent=deque([Buffer(0, 0, 1 << 20)]),
                     device=SimpleNamespace(memory_bytes=total))
    gpu._free()
    assert not freed
    busy[2] = 0
    gpu._free()
    assert len(freed) == 1
    busy[1] = 600
    gpu._spent.extend(Buffer(0, 0, most // 2) for _ in range(2))
    gpu._free()
    assert len(freed) == 1
    gpu._spent.append(Buffer(0, 0, 16))
    gpu._free()
    assert len(freed) == 4
