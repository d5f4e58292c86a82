"""What options and headers tell of a run: the kernels that are compiled from it are those of the tables."""

from dataclasses import replace

import nibabel as nib
import numpy as np
import pytest
from linked import contents
from plans import described

import tistreamlines as ts
from tistreamlines.backends.numba import cache as caching
from tistreamlines.run.spec import parts_of
from tistreamlines.space.harmonics import count_of
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.parts import Layout
from tistreamlines.tracking.registry import STOPPING_RULES
from tistreamlines.tracking.selection.criteria import Criteria
from tistreamlines.workers import session

SHAPE, AFFINE = (6, 5, 4), np.diag([2.0, 2, 2.5, 1])
VOLUMES = {"sh": count_of(6), "odf": len(load_sphere("default")[0]), "pmf": len(load_sphere("default")[0]), "peaks": 9}


def linked(what):
    """What kernels are linked with, and the sizes of the arrays that they read most and of team memory."""
    source = Layout.of(what.getter, what.rule).source([])
    return contents(what) | {"tables": source.tables, "scratch": source.scratch}


def series_of(head):
    return dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))


@pytest.mark.parametrize("named", [
    {}, {"model": "opdt"}, {"boot_rule": "dipy", "sphere": "small"}, {"dg": "prob"}, {"dg": "prob", "sh_order": 4},
    {"dg": "prob", "model": "csa", "pmf_rows": "sampled", "max_angle": 60.0}, {"dg": "det"},
    {"dg": "det", "det_rule": "closest"}, {"dg": "ptt", "model": "opdt"}, {"dg": "ifod1"}, {"dg": "ifod2"},
    {"dg": "sd_stream"},
], ids=str)
def test_a_series(head, named):
    parameters = ts.Parameters.given({"mask": head.mask, **named})
    plan, parts, spec = described(series_of(head), parameters)
    assert linked(parts) == linked(plan.prepared)
    assert (spec.shape, spec.voxel_sizes) == (plan.space.shape, pytest.approx(plan.space.voxel_sizes))
    assert spec.step_mm == pytest.approx(parameters.step_mm(plan.space.voxel_sizes))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A file of each kind of orientations, and maps of stopping rules."""
    folder, rng = tmp_path_factory.mktemp("files"), np.random.default_rng(0)
    volumes = {name: (*SHAPE, count) for name, count in VOLUMES.items()}
    volumes |= dict.fromkeys(("pve_wm", "pve_gm", "pve_csf", "stop_map", "seed_mask"), SHAPE) | {"act": (*SHAPE, 5)}
    for name, shape in volumes.items():
        values = rng.uniform(0.5, 1, shape) / 5
        nib.save(nib.Nifti1Image(values.astype(np.float32), AFFINE), folder / f"{name}.nii")
    nib.save(nib.Nifti1Image(np.ones(SHAPE, np.uint8), AFFINE), folder / "seed_mask.nii")
    return {name: folder / f"{name}.nii" for name in volumes}


TISSUES = ("pve_wm", "pve_gm", "pve_csf")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("dg", "source", "maps", "named"), [
    ("prob", "sh", ("stop_map",), {}), ("prob", "odf", TISSUES, {}), ("det", "pmf", TISSUES, {"stopping": "cmc"}),
    ("prob", "peaks", ("act",), {}), ("ptt", "sh", ("act",), {"crop_at_gmwmi": True, "backtrack": True}),
    ("ptt", "pmf", TISSUES, {"pft": True}), ("prob", "sh", TISSUES, {"pft": True}),
    ("ifod2", "sh", ("act",), {"backtrack": True}), ("ifod1", "sh", (), {}), ("sd_stream", "sh", ("stop_map",), {}),
    ("fact", "peaks", TISSUES, {}), ("fact", "peaks", (), {"peaks_between": "linear"}),
], ids=str)
def test_orientations(files, dg, source, maps, named):
    chosen = {name: files[name] for name in (source, "seed_mask", *maps)}
    chosen |= {"dg": dg, **named} | ({"sh_basis": "tournier07"} if source == "sh" else {})
    plan, parts, spec = described({}, ts.Parameters.given(chosen))
    assert linked(parts) == linked(plan.prepared)
    assert spec.form.count == VOLUMES[source]


def test_a_description_can_be_compared_and_printed(head):
    plain, lower = (described(series_of(head), ts.Parameters.given({"mask": head.mask, "dg": "prob", **named}))[2]
                  for named in ({}, {"sh_order": 4}))
    again = described(series_of(head), ts.Parameters.given({"mask": head.mask, "dg": "prob", "rng_seed": 8}))[2]
    assert plain == again
    assert plain != lower
    assert {plain, again, lower} == {plain, lower}
    assert "order=4" in repr(lower)
    assert "step_mm=2.5" in repr(lower)


def test_a_rule_that_only_maps_tell_is_compiled_later(head, monkeypatch):
    _, _, spec = described(series_of(head), ts.Parameters.given({"mask": head.mask}))
    monkeypatch.setitem(STOPPING_RULES, "threshold", replace(STOPPING_RULES["threshold"], rule=None))
    assert parts_of(spec, Criteria()) is None
    assert len(ts.track(*head.series, mask=head.mask, nseeds=20, min_length=0, arch="cpu"))


@pytest.mark.parametrize("named", [{}, {"dg": "prob", "model": "csa"}, {"dg": "ptt", "model": "csa"}], ids=str)
def test_nothing_is_compiled_after_the_inputs_are_read(head, named, monkeypatch):
    """The kernels that were compiled from headers are those of the run, and so are the functions of the host."""
    engines, begun, ask = [], [], caching.Function._ask

    def noted(self, kinds, process):
        begun.append((self._name, kinds))
        return ask(self, kinds, process)

    class Seen(session.Engine):
        def __init__(self, *arguments, **others):
            before = list(begun)
            super().__init__(*arguments, **others)
            engines.append((before, list(begun)))

    caching.function.cache_clear()
    monkeypatch.setattr(caching.Function, "_ask", noted)
    monkeypatch.setattr(session, "Engine", Seen)
    ts.track(*head.series, mask=head.mask, nseeds=50, arch="cpu", **named)
    ((before, after),) = engines
    assert before == after
    assert {name for name, _ in after} >= {"run_start", "run_advance", "run_unpack", "run_place_seed"}
