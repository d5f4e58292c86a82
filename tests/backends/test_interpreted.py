"""The arch for whoever debugs kernels: Python runs them as they are written, with the bits of every device."""

import inspect
import pdb
import sys
import traceback

import debug_kernels
import numpy as np
import pytest
from debug_kernels import beyond, doubled
from nights import at_night
from registry_runs import track_options
from small_world import write_world

import tistreamlines as ts
from tistreamlines.backends import open_program
from tistreamlines.backends.numba.program import NumbaProgram
from tistreamlines.devices import ARCHS, choose, list_devices
from tistreamlines.errors import ParameterError
from tistreamlines.linker.parts import Source
from tistreamlines.tracking.registry import METHODS


@pytest.fixture(scope="module")
def first_runs(tmp_path_factory):
    """Options of the first run that each getter of the package has, by the getter."""
    rows = track_options(write_world(tmp_path_factory.mktemp("world")), tmp_path_factory.mktemp("out"))
    return {row["dg"]: row for row in reversed(rows.values()) if "density" not in row}


BY_DAY = ("boot", "det", "ifod1")


@pytest.mark.parametrize("dg", [*BY_DAY, *at_night(*(dg for dg in METHODS if dg not in BY_DAY))])
def test_getters_give_the_cpus_bits(first_runs, dg):
    """A step takes Python about a millisecond."""
    options = {name: value for name, value in first_runs[dg].items() if name not in ("include", "seed_round")}
    options |= {"nseeds": 3, "min_length": 0, "max_steps": 5, "keep": "all"}
    compiled, interpreted = (ts.track(**options, arch=arch) for arch in ("cpu", "python"))
    assert (interpreted.arch, interpreted.n_streamlines) == ("python", compiled.n_streamlines)
    batches = [ts.Batch.concatenate(result.batches) for result in (compiled, interpreted)]
    assert len(batches[0].points) > 5
    for name in ("points", "offsets"):
        ours, theirs = (np.ascontiguousarray(getattr(batch, name)) for batch in batches)
        np.testing.assert_array_equal(ours.view(np.uint8), theirs.view(np.uint8))


@pytest.mark.parametrize("options", [{"arch": "cpu"}, {"arch": "python"}], ids=str)
def test_other_programs_leave_what_debugs_out(options, monkeypatch, capsys):
    stops = []
    monkeypatch.setattr(sys, "breakpointhook", lambda: stops.append(inspect.currentframe().f_back))
    program = open_program(choose(options["arch"]), Source([doubled]))
    a, out = program.array(np.float32([1.5, 2])), program.empty(2, "reals")
    program.run("doubled", 2, {"a": a, "out": out})
    assert out.tolist() == [3, 4]
    interpreted = options["arch"] == "python"
    assert (len(stops), capsys.readouterr().out) == ((1, "a is 1.5\n") if interpreted else (0, ""))
    assert isinstance(program, NumbaProgram) != interpreted
    if interpreted:
        assert stops[0].f_locals["a"] is a


def test_a_debugger_shows_the_kernel_and_where_it_is_written(monkeypatch, capsys):
    """Commands of pdb that are typed into a kernel that has stopped."""
    debugger = pdb.Pdb(nosigint=True, readrc=False)
    debugger.cmdqueue = ["list", "p float(a[0])", "continue"]
    monkeypatch.setattr(sys, "breakpointhook", lambda: debugger.set_trace(inspect.currentframe().f_back))
    program = open_program(choose("python"), Source([doubled]))
    program.run("doubled", 1, {"a": np.float32([1.5]), "out": np.zeros(1, np.float32)})
    shown = capsys.readouterr().out
    line = inspect.getsourcelines(debug_kernels)[0].index("    out[item] = 2.0 * a[item]\n") + 1
    assert f"out[item] = (real(2.0) * a[item])  # debug_kernels:{line}" in shown
    assert "\n1.5\n" in shown


def test_a_traceback_names_the_line_of_the_kernel():
    program = open_program(choose("python"), Source([beyond]))
    with pytest.raises(IndexError) as caught:
        program.run("beyond", 1, {"a": np.zeros(3, np.float32), "out": np.zeros(3, np.float32)})
    line = inspect.getsourcelines(debug_kernels)[0].index("    out[item] = a[item + 1000]\n") + 1
    assert f"out[item] = a[(item + 1000)]  # debug_kernels:{line}" in "".join(traceback.format_exception(caught.value))


def test_it_is_for_those_who_know_it(run):
    """Neither lists, help nor messages name it."""
    assert "python" not in ARCHS
    assert "python" not in [device.arch for device in list_devices()]
    assert "python" not in run("track", "--help-all").out.partition("--arch ")[2].partition("--compiler")[0].lower()
    with pytest.raises(ParameterError, match=r"give one of auto, metal, cuda, amdgpu, vulkan, cpu$"):
        ts.Parameters(arch="pythonic")
