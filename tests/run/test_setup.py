"""On which device a run fits models."""

from dataclasses import replace

import pytest

from tistreamlines.backends.driven.program import drives
from tistreamlines.devices import choose
from tistreamlines.options.parameters import Parameters
from tistreamlines.run import setup


@pytest.mark.skipif(not drives("cuda"), reason="a fork of Taichi runs CUDA")
@pytest.mark.parametrize(("changed", "options", "arch"), [
    ({}, {}, "cuda"), ({"float64": False}, {}, "cpu"), ({"arch": "vulkan"}, {}, "cpu"),
    ({}, {"resume": True}, "cpu"), ({}, {"devices": "1"}, "cpu"), ({}, {"devices": "0"}, "cuda"),
])
def test_the_gpu_of_this_process_fits(monkeypatch, changed, options, arch):
    gpu = replace(choose("cpu"), **{"arch": "cuda", **changed})
    monkeypatch.setattr(setup, "choose", lambda _: gpu)
    monkeypatch.setattr(setup, "choose_several", lambda _, devices: [replace(gpu, index=gpu.index + int(devices))])
    assert setup.arch_of_fits(Parameters.given({"dg": "prob", "arch": "cuda", **options})) == arch


@pytest.mark.skipif(not drives("cuda"), reason="a fork of Taichi runs CUDA")
@pytest.mark.parametrize(
    ("changed", "arch"), [({}, "cuda"), ({"name": "another GPU"}, "cpu"), ({"float64": False}, "cpu")]
)
def test_cuda_fits_on_the_gpu_that_vulkan_tracks_on(monkeypatch, changed, arch):
    gpu = replace(choose("cpu"), arch="vulkan")
    monkeypatch.setattr(setup, "choose", lambda _: gpu)
    monkeypatch.setattr(setup, "numbered_devices", lambda _: [replace(gpu, **{"arch": "cuda", **changed})])
    assert setup.arch_of_fits(Parameters.given({"dg": "prob", "arch": "vulkan"})) == arch


def test_the_cpu_fits_where_it_tracks():
    assert setup.arch_of_fits(Parameters.given({"dg": "prob", "arch": "cpu"})) == "cpu"
