"""Runs on data that stay in memory: their streamlines are those of ``track``, whatever was tracked before."""

from __future__ import annotations

import gc
import shutil
import tracemalloc

import nibabel as nib
import numpy as np
import pytest

import tistreamlines as ts
from tistreamlines.live.tracker import Silent
from tistreamlines.run import memory, plan
from tistreamlines.tracking.engine.engine import Engine

pytestmark = pytest.mark.filterwarnings("ignore:no streamline was accepted")
CENTRES = ("4,-6,2,9", "-14,0,8,7", "0,20,-10,12", "60,60,60,5")  # the last ones are off the fibres, and at the edge


@pytest.fixture(scope="module")
def options(head):
    return {"mask": head.mask, "arch": "cpu", "min_length": 0, "nseeds": 60}


def same(result, other) -> bool:
    first, second = (ts.Batch.concatenate(list(each.batches)) for each in (result, other))
    names = ("points", "offsets", "seeds", "seed_number", "direction_number", "stop_reasons")
    return all(getattr(first, name).tobytes() == getattr(second, name).tobytes() for name in names)


@pytest.mark.parametrize("dg", ["prob", "det", "boot"])
def test_streamlines_are_those_of_track(head, options, dg):
    live = ts.Live(*head.series, dg=dg, **options)
    counts = []
    for centre in CENTRES:
        result = live.track(seed_sphere=centre)
        assert same(result, ts.track(*head.series, dg=dg, seed_sphere=centre, **options))
        counts.append(result.n_streamlines)
    assert min(counts[:2]) > 20
    changed = {"max_angle": 15.0, "step_size": 1.5, "include": [[0, 0, 0, 30]], "exclude": [[30, 0, 0, 20]]}
    result = live.track(seed_sphere=CENTRES[0], **changed)
    assert same(result, ts.track(*head.series, dg=dg, seed_sphere=CENTRES[0], **options | changed))
    assert sum(result.dropped.values()) > 0


def test_the_series_is_fitted_once(head, options, monkeypatch):
    live, reads = ts.Live(*head.series, dg="prob", **options), []
    read = plan.read
    monkeypatch.setattr(plan, "read", lambda *arguments, **how: reads.append(1) or read(*arguments, **how))
    for centre in CENTRES[:3]:
        live.track(seed_sphere=centre, max_angle=25)
    live.track(seeds=np.array([[4.0, -6, 2]]), max_angle=25)
    live.track(seed_sphere=CENTRES[0], fa_threshold=0.3)
    live.track(seed_sphere=CENTRES[0], max_angle=40)
    assert len(reads) == 1, "tables are made anew of what was read"


def test_memory_stays_below_a_limit_while_a_slider_moves(head, options, monkeypatch):
    """Bytes of arrays, wherever they are; the values that were used last are there without a fit or new tables."""
    live, made, traced = ts.Live(*head.series, dg="prob", **options), [], []
    live.track(seed_sphere=CENTRES[0], max_angle=20)
    first, prepare = live._memory.bytes, plan.Preparation
    live.track(seed_sphere=CENTRES[0], max_angle=21)
    tables = live._memory.bytes - first
    monkeypatch.setattr(memory, "MOST_BYTES", first + 3 * tables + tables // 2)
    monkeypatch.setattr(plan, "Preparation", lambda *arguments: made.append(1) or prepare(*arguments))
    tracemalloc.start()
    try:
        for angle in range(22, 42):
            live.track(seed_sphere=CENTRES[0], max_angle=angle)
            gc.collect()
            traced.append(tracemalloc.get_traced_memory()[0])
            assert live._memory.bytes <= memory.MOST_BYTES
    finally:
        tracemalloc.stop()
    assert tables > 1e6 and len(made) == 20
    middle = np.median(traced[3:7]), np.median(traced[12:])  # other threads may hold something for a moment
    assert middle[1] - middle[0] < tables < middle[0] - traced[0], traced
    made.clear()
    for angle in (41, 40, 39):
        live.track(seed_sphere=CENTRES[0], max_angle=angle)
    assert not made
    result = live.track(seed_sphere=CENTRES[0], max_angle=22)
    assert len(made) == 1
    assert same(result, ts.track(*head.series, dg="prob", seed_sphere=CENTRES[0], max_angle=22, **options))


def test_the_last_result_of_each_kind_stays(monkeypatch):
    """Though it is larger than the limit: a fit that every value of a slider needs."""
    known = memory.Memory()
    monkeypatch.setattr(memory, "MOST_BYTES", 1000)
    known.store("odf", {"shells": 1}, {"a": np.zeros(2000, np.uint8)}, {})
    for angle in range(5):
        known.store("tables", {"angle": angle}, {"a": np.full(700, angle, np.uint8)}, {})
        assert known.load("tables", {"angle": angle}, lambda arrays, _: arrays["a"][0]) == angle
    assert known.bytes == 2700
    assert known.load("odf", {"shells": 1}, lambda arrays, _: len(arrays["a"])) == 2000
    assert known.load("tables", {"angle": 3}, lambda arrays, _: arrays) is None


def test_the_engine_stays_open(head, options, monkeypatch):
    live, opened = ts.Live(*head.series, dg="prob", **options), []
    begin = Engine.__init__
    monkeypatch.setattr(Engine, "__init__", lambda *arguments: opened.append(1) or begin(*arguments))
    ball = {"include": [[4, -6, 2, 12]]}
    for chosen, count in (
        ({}, 1), ({"nseeds": 30}, 1), ({"seed_seed": 3}, 1), (ball, 2), (ball | {"nseeds": 40}, 2),
        (ball | {"rng_seed": 1}, 3), ({"max_angle": 30}, 4), ({}, 5),
    ):
        for centre in CENTRES[:2]:
            chosen = {"seed_sphere": centre} | chosen
            result, other = live.track(**chosen), ts.track(*head.series, dg="prob", **options | chosen)
            opened.pop()  # that of track
            assert same(result, other) and len(opened) == count
            names = ("seeds", "points", "stop_reasons", "dropped", "mean_mm")
            assert [getattr(result, name) for name in names] == [getattr(other, name) for name in names]


def test_an_interruption_leaves_no_engine(head, options):
    class Stop(Silent):
        def progress(self, *_):
            raise KeyboardInterrupt

    live = ts.Live(*head.series, dg="prob", watcher=Silent(), **options)
    before = live.track(seed_sphere=CENTRES[0])
    live.watcher = Stop()
    with pytest.raises(KeyboardInterrupt):
        live.track(seed_sphere=CENTRES[0])
    live.watcher = Silent()
    assert same(live.track(seed_sphere=CENTRES[0]), before)


def test_a_file_that_changes_is_read_again(head, options, tmp_path):
    mask = tmp_path / "mask.nii.gz"
    shutil.copy(head.mask, mask)
    live = ts.Live(*head.series, dg="det", **options | {"mask": mask})
    before = live.track(seed_sphere=CENTRES[0])
    image = nib.load(mask)
    values = np.asarray(image.dataobj).copy()
    values[: values.shape[0] // 2] = 0
    nib.save(nib.Nifti1Image(values, image.affine), mask)
    assert not same(live.track(seed_sphere=CENTRES[0]), before)


def test_places_of_seeds_take_the_place_of_others(head, options):
    live = ts.Live(*head.series, dg="det", seed_mask=head.mask, **options)
    assert same(live.track(seed_sphere=CENTRES[0]), ts.track(*head.series, dg="det", seed_sphere=CENTRES[0], **options))
    assert same(live.track(), ts.track(*head.series, dg="det", seed_mask=head.mask, **options))
    assert live.options(nseeds=None, dg="prob") == {
        "dg": "prob", "seed_mask": head.mask, **{name: value for name, value in options.items() if name != "nseeds"},
    }


@pytest.mark.parametrize("more", [{"seeds_per_voxel": 2}, {"seed_dynamic": "tracked", "seed_round": 20}])
def test_options_of_other_places_are_left_out(head, options, more):
    common = {name: value for name, value in options.items() if name != "nseeds"} | {"dg": "prob", "sh_order": 4}
    live = ts.Live(*head.series, **common, **more)
    result = live.track(seed_sphere=CENTRES[0], nseeds=20)
    assert same(result, ts.track(*head.series, seed_sphere=CENTRES[0], nseeds=20, **common))


def test_what_was_said_of_the_inputs_is_said_again(head, options, tmp_path):
    bvecs = np.loadtxt(head.series[2]) * [[-1], [1], [1]]
    np.savetxt(tmp_path / "turned.bvec", bvecs)
    series, silent = (*head.series[:2], tmp_path / "turned.bvec"), Silent()
    live = ts.Live(*series, dg="det", watcher=silent, **options)
    live.track(seed_sphere=CENTRES[0])
    for chosen in ({"max_angle": 25}, {"max_angle": 25, "seed_sphere": CENTRES[1]}):
        chosen = {"seed_sphere": CENTRES[0]} | chosen
        result, other = live.track(**chosen), ts.track(*series, dg="det", watcher=silent, **options | chosen)
        assert sorted(result.notes + result.warnings) == sorted(other.notes + other.warnings)
        assert result.notes or result.warnings


def test_what_is_said_of_places_of_seeds_is_said_once(head, options, tmp_path):
    """A mask of several values, which is a map of labels perhaps, and then places without one."""
    mask = nib.load(head.mask)
    values = np.asarray(mask.dataobj).astype(np.int16)
    values[: mask.shape[0] // 2] *= 3
    for name in "ab":
        nib.save(nib.Nifti1Image(values, mask.affine), tmp_path / f"{name}.nii.gz")
    silent = Silent()
    live = ts.Live(*head.series, dg="det", watcher=silent, **options)
    said, masks = [], [{"seed_mask": tmp_path / f"{name}.nii.gz"} for name in "ab"]
    for chosen in (masks[0], {"seed_sphere": CENTRES[0]}, masks[1]):
        result, other = live.track(**chosen), ts.track(*head.series, dg="det", watcher=silent, **options | chosen)
        assert sorted(result.notes + result.warnings) == sorted(other.notes + other.warnings)
        said.append(len(result.notes + result.warnings))
    assert said[0] == said[2] > said[1]


@pytest.mark.parametrize("first", ["ifod1", "prob"])
def test_a_mask_bounds_the_streamlines_of_some_getters(head, options, tmp_path, first):
    """Whichever of them were tracked before."""
    mask = nib.load(head.mask)
    values = np.asarray(mask.dataobj).astype(np.uint8)
    values[: mask.shape[0] // 2] = 0
    nib.save(nib.Nifti1Image(values, mask.affine), tmp_path / "half.nii.gz")
    fod = tmp_path / "fod.nii.gz"
    nib.save(nib.Nifti1Image(np.ones((*mask.shape, 6), np.float32) * [0.3, 0, 0, 0.3, 0, 0], mask.affine), fod)
    chosen = {**options, "sh": str(fod), "sh_basis": "tournier07", "mask": str(tmp_path / "half.nii.gz"),
              "stopping": "threshold", "seed_sphere": CENTRES[0]}
    live = ts.Live(*head.series, **chosen)
    for dg in (first, "ifod1" if first == "prob" else "prob"):
        assert same(live.track(dg=dg), ts.track(*head.series, **chosen, dg=dg))


def test_the_command_has_all_digits(head, options):
    live = ts.Live(*head.series, dg="det", **options)
    result = live.track(seed_sphere="1.23456789,2,3,9.87654321", max_angle=31.4159265358979, step_size=0.123456789)
    words = live.command(result, "a b.trx")
    for text in ("1.23456789,2,3,9.87654321", "31.4159265358979", "0.123456789", "'a b.trx'"):
        assert text in words


def test_errors_leave_it_as_it_was(head, options, tmp_path):
    live = ts.Live(*head.series, dg="det", **options)
    with pytest.raises(ts.ParameterError, match="lies outside the image"):
        live.track(seed_sphere="900,900,900,1")
    for files in ({"density": tmp_path / "d.nii.gz"}, {"report": tmp_path / "r.html"}, {"bids_out": tmp_path / "b"}):
        with pytest.raises(ts.ParameterError, match="Live write nothing"):
            live.track(seed_sphere=CENTRES[0], **files)
    assert not [*tmp_path.iterdir()]
    assert same(live.track(seed_sphere=CENTRES[0]), ts.track(*head.series, dg="det", seed_sphere=CENTRES[0], **options))
