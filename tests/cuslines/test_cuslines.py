"""The package that takes cuslines' place: its names, and its counts beside cuslines' own, alone and called by pyAFQ."""

from __future__ import annotations

import importlib
import sys
from math import radians

import nibabel as nib
import numpy as np
import pytest
from lobes import CENTRE, HALF, IMAGE, SHAPE, WHOLE, field, lobe

import tistreamlines as ts
import tistreamlines.cuslines
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.devices import choose

NAMES = {
    "cuda_python": ("GPU", ""), "metal": ("MetalGPU", "Metal"), "webgpu": ("WebGPU", "WebGPU"), "numba": ("CPU", "CPU"),
}
GETTERS = ("BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter")
WITHIN = 0.02


@pytest.fixture
def in_its_place(monkeypatch):
    """``sys.modules["cuslines"]`` is ours, and afterwards what it was."""
    for name in [name for name in sys.modules if name.split(".")[0] == "cuslines"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "cuslines", tistreamlines.cuslines)
    yield
    for name in [name for name in sys.modules if name.startswith("cuslines.")]:
        del sys.modules[name]


class TestNames:
    @pytest.mark.parametrize("module", NAMES)
    def test_modules(self, in_its_place, module):
        loaded = importlib.import_module(f"cuslines.{module}")
        tracker, getter = NAMES[module]
        assert set(loaded.__all__) == {f"{tracker}Tracker", *(f"{getter}{name}" for name in GETTERS)}
        assert all(getattr(loaded, f"{getter}{name}") is getattr(drop_in, name) for name in GETTERS)
        assert issubclass(getattr(loaded, f"{tracker}Tracker"), drop_in.Tracker)

    def test_the_top(self, in_its_place):
        cuslines = importlib.import_module("cuslines")
        assert set(cuslines.__all__) == {"BACKEND", "Tracker", *GETTERS}
        archs = {"cuda": ["cuda"], "metal": ["metal"], "webgpu": ["amdgpu", "vulkan"], None: ["cpu"]}
        assert choose("auto").arch in archs[cuslines.BACKEND]
        with pytest.raises(AttributeError, match="Trackr"):
            cuslines.Trackr  # noqa: B018

    @pytest.mark.parametrize("name", ["Tracker", *GETTERS])
    def test_they_are_those_of_cuslines_alone(self, name):
        """``tistreamlines.Tracker`` would be taken for a tracker of our own."""
        assert not hasattr(ts, name)

    def test_each_runs_on_its_arch(self):
        ball = HALF.vertices, HALF.edges
        arguments = (drop_in.ProbDirectionGetter(), field(HALF.vertices), np.ones(SHAPE), 0.5, *ball)
        for module, arch in (("cuda_python", "cuda"), ("metal", "metal"), ("webgpu", "vulkan"), ("numba", "cpu")):
            tracker = getattr(importlib.import_module(f"tistreamlines.cuslines.{module}"), f"{NAMES[module][0]}Tracker")
            try:
                assert tracker(*arguments).device.arch == arch
            except ts.DeviceError as error:
                assert f"arch '{arch}'" in str(error)
            with pytest.raises(ts.ParameterError, match=f"runs on {arch}"):
                tracker(*arguments, arch="opencl")


def theirs(name="cuslines.numba"):
    """The module of cuslines itself."""
    pytest.importorskip("cuslines", reason="cuslines is not installed: pip install cuslines==2.2.3")
    module = importlib.import_module(name)
    assert not issubclass(module.CPUTracker, drop_in.Tracker)
    return module


def crossing(vertices):
    """Fibres that lead along +x, and below and above the middle plane along both senses of a slanted axis too."""
    slanted = lobe(vertices, [0.6, 0.8, 0], 0.1) + lobe(vertices, [-0.6, -0.8, 0], 0.1)
    share = np.where(np.arange(SHAPE[2]) == 4, 0.3, 0.9).astype(np.float32)
    return np.array(field(vertices) + share[:, None] * slanted)


def spread(vertices):
    """Wide lobes that fan out along +x."""
    way = np.stack(np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij"), axis=-1) - [-6.0, 4.0, 4.0]
    way = way / np.linalg.norm(way, axis=-1, keepdims=True)
    return np.exp((way @ vertices.T - 1) / 0.1).astype(np.float32) + np.float32(0.04)


@pytest.mark.parametrize("sphere", [WHOLE, HALF], ids=["whole", "half"])
@pytest.mark.parametrize("values", [field, crossing, spread])
def test_as_many_streamlines_as_cuslines(values, sphere):
    """cuslines has to be told that a half sphere is one; ours sees it."""
    module, ours = theirs(), importlib.import_module("tistreamlines.cuslines.numba")
    seeds = CENTRE + np.random.default_rng(0).uniform(-3, 3, (4000, 3))
    counts, points = [], []
    for source, flag in ((module, sphere is HALF), (ours, False)):
        tracker = source.CPUTracker(
            source.CPUProbDirectionGetter(), np.array(values(sphere.vertices)), np.ones(SHAPE), 0.5, sphere.vertices,
            sphere.edges, sphere_symm=flag, max_angle=radians(30), step_size=0.5, min_pts=8, rng_seed=3,
        )
        held = tracker.generate_sft(seeds, IMAGE)
        assert held.space.value == "vox"
        counts.append(len(held))
        points.append(np.mean([len(line) for line in held.streamlines]))
    assert counts[0] > 1000
    assert counts[1] == pytest.approx(counts[0], rel=WITHIN)
    assert points[1] == pytest.approx(points[0], rel=WITHIN)


@pytest.fixture
def pyafq():
    """Call pyAFQ's own function for tracking on the fields above, as harmonics of a full basis."""
    pytest.importorskip("AFQ", reason="pyAFQ is not installed: pip install '.[bench]'")
    from AFQ.tractography.tractography import track
    from dipy.reconst.shm import sf_to_sh

    values = spread(WHOLE.vertices) - np.float32(0.04)
    sh = sf_to_sh(values, WHOLE, sh_order_max=8, basis_type="descoteaux07", full_basis=True, legacy=True)
    white = np.ones(SHAPE)
    tissues = nib.Nifti1Image(np.stack([0 * white, 1 - white, white], axis=-1), IMAGE.affine)

    def call(sphere=WHOLE, **options):
        image = nib.Nifti1Image(np.asarray(sh, np.float32), IMAGE.affine)
        named = {"seed_mask": white, "n_seeds": 3000, "rng_seed": 5, "odf_model": "CSD_AODF", "n_threads": 2}
        return track(image, tissues, sphere=sphere, **{**named, "step_size": 1.0, "minlen": 12, **options})

    return call


class TestPyafq:
    @pytest.mark.parametrize("trx", [True, False])
    def test_its_default_gives_cuslines_counts(self, pyafq, in_its_place, monkeypatch, trx):
        ours = pyafq(trx=trx)
        if not trx:
            assert ours.space.value == "vox"
            return
        for name in [name for name in sys.modules if name.split(".")[0] == "cuslines"]:
            monkeypatch.delitem(sys.modules, name)
        theirs()
        other = pyafq(trx=trx)
        assert len(other.streamlines) > 1000
        assert len(ours.streamlines) == pytest.approx(len(other.streamlines), rel=WITHIN)
        lengths = [np.asarray(tractogram.streamlines._lengths, float) for tractogram in (ours, other)]
        # draws differ, cuslines' from run to run: three standard errors of the difference of the means
        error = np.sqrt(sum(values.var() / len(values) for values in lengths))
        assert abs(lengths[0].mean() - lengths[1].mean()) < 3 * error
        assert ours.streamlines._data.dtype == other.streamlines._data.dtype == np.float16
        points = [np.asarray(tractogram.streamlines._data, float) for tractogram in (ours, other)]
        spans = [np.percentile(values, (5, 50, 95), axis=0) for values in points]
        assert np.abs(spans[0] - spans[1]).max() < 1.0  # mm

    def test_ptt(self, pyafq, in_its_place):
        """cuslines has none without a GPU: what is asked is that each turn is within its curvature."""
        held = pyafq(directions="ptt", trx=False, n_seeds=100)
        assert len(held) > 20
        for line in held.streamlines:
            steps = np.diff(np.asarray(line, float), axis=0)
            steps /= np.linalg.norm(steps, axis=1, keepdims=True)
            turns = np.arccos(np.clip((steps[1:] * steps[:-1]).sum(axis=1), -1, 1))
            assert turns.max(initial=0) <= 8 * np.sin(radians(15)) * 1.0 / 2.5 + 1e-3
