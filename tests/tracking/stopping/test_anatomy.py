"""The stopping rules of anatomy: binary, ACT and CMC, point by point, along streamlines, and from files."""

from __future__ import annotations

from typing import Any

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, ints, run
from dipy.tracking import stopping_criterion as dipys
from dipy.tracking.stopping_criterion import StreamlineStatus
from linked import Linked
from scipy import stats

import tistreamlines as ts
from tistreamlines.errors import InputError
from tistreamlines.kernels.growth import classify
from tistreamlines.kernels.halves import Stopping
from tistreamlines.kernels.interpolate import Volume, interpolate_row
from tistreamlines.kernels.stop_reasons import VALID, Stop
from tistreamlines.kernels.stopping import row_maps
from tistreamlines.linker.lang import Ints, Reals, Record, barrier, func, i32, u32, vec3
from tistreamlines.linker.parts import Part
from tistreamlines.options.parameters import Parameters
from tistreamlines.phantom.phantom import save_phantom
from tistreamlines.tracking.parts import Row
from tistreamlines.tracking.registry import STOPPING_RULES

SHAPE, STEP, WIDTH = (7, 6, 5), 0.5, 32
KEY = np.array([3, 5], np.int32)
STATUSES = {
    StreamlineStatus.TRACKPOINT: Stop.GROWING, StreamlineStatus.ENDPOINT: Stop.VALID_END,
    StreamlineStatus.INVALIDPOINT: Stop.INVALID_END,
}
RECORDS: dict[str, tuple[Any, Any]] = {
    "binary": (row_maps.Binary, row_maps.classify_binary), "act": (row_maps.Act, row_maps.classify_act),
    "cmc": (row_maps.Cmc, row_maps.classify_cmc),
}


class Memory(Record):
    """Team memory of the test."""

    row: Reals


@func
def asked(
    item: i32, volume: Volume, stopping: Stopping, scratch: Memory, points: Reals, turns: i32, key: Ints, out: Ints
):
    """The rule's answer at a point, for seed ``item // turns`` and step ``item % turns``."""
    p = vec3(points[3 * item], points[3 * item + 1], points[3 * item + 2])
    interpolate_row(volume, p, scratch.row)
    barrier()
    c0 = u32(item // turns)
    out[item] = classify(stopping, volume, p, scratch.row, c0, u32(item % turns), u32(0), key)


def question(rule: str, channels: np.ndarray, points: np.ndarray, turns: int = 1) -> tuple[list[Part], dict, dict]:
    """Parts, team memory and arguments with which the rule is asked about points, on maps (x, y, z, k)."""
    rows, count = np.zeros((channels[..., 0].size, WIDTH), np.float32), channels.shape[-1]
    rows[:, WIDTH - count :] = channels.reshape(-1, count)
    record, function = RECORDS[rule]
    parts = [
        Linked(stopping=record, classify=function), Row(row_chunks=1, stop_channel=WIDTH - count, stop_channels=count)
    ]
    values = {
        "volume_index": np.arange(len(rows), dtype=np.int32), "volume_rows": rows.ravel(),
        "volume_shape": np.array(channels.shape[:3], np.int32), "stopping_exponent": STEP,
        "points": np.asarray(points, np.float32).ravel(), "turns": turns, "key": KEY, "out": ints(len(points)),
    }
    return parts, {"scratch_row": ("reals", WIDTH)}, values


def answers(dialect: str, rule: str, channels: np.ndarray, points: np.ndarray, turns: int = 1) -> np.ndarray:
    """The rule's answers at points (n, 3)."""
    parts, memory, values = question(rule, channels, points, turns)
    return run(dialect, asked, len(points), values, parts, memory)["out"]


def tissues() -> np.ndarray:
    """Shares of grey matter and fluid in a small image, some 0 and some 1."""
    rng = np.random.default_rng(1)
    shares = rng.dirichlet([0.4, 0.4, 0.4], SHAPE)[..., :2]
    return np.round(shares * 64) / 64  # sums of two stay below 1, and halves of all are exact


def points(count: int) -> np.ndarray:
    """Points that float32 holds, also beyond the outermost centres."""
    return np.random.default_rng(2).uniform(-0.49, np.array(SHAPE) - 0.51, (count, 3)).astype(np.float32)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_act_is_dipys(dialect):
    maps, at = tissues(), points(300 if dialect == "python" else 3000)
    criterion = dipys.ActStoppingCriterion(maps[..., 0], maps[..., 1])
    expected = [STATUSES[criterion.check_point(point.astype(float))] for point in at]
    assert np.array_equal(answers(dialect, "act", maps, at), expected)
    assert {*expected} == {Stop.GROWING, Stop.VALID_END, Stop.INVALID_END}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_binary_is_dipys(dialect):
    mask, at = tissues()[..., 0] > 0.3, points(300 if dialect == "python" else 3000)
    criterion = dipys.BinaryStoppingCriterion(mask)
    expected = [STATUSES[criterion.check_point(point.astype(float))] for point in at]
    assert np.array_equal(answers(dialect, "binary", mask[..., None], at), expected)
    assert {*expected} == {Stop.GROWING, Stop.VALID_END}


@pytest.mark.parametrize(("include", "exclude"), [(0.2, 0.1), (0.05, 0.6), (0.7, 0.0), (0.0, 0.4)])
def test_cmc_stops_as_often_as_it_should(include, exclude):
    """On constant maps the number of steps has a geometric distribution, and ends are shared as the tissues are."""
    seeds, turns = 4000, 60
    maps = np.broadcast_to(np.float32([include, exclude]), (*SHAPE, 2))
    at = np.broadcast_to(np.float32([3, 3, 2]), (seeds * turns, 3))
    reasons = answers("numba32", "cmc", maps, at, turns).reshape(seeds, turns)
    ended = reasons != Stop.GROWING
    first = np.where(ended.any(axis=1), ended.argmax(axis=1), turns)
    goes_on = (1 - include - exclude) ** STEP
    last = 1 + int(np.log(20 / seeds / (1 - goes_on)) / np.log(goes_on))  # at least 20 are expected in each class
    shares = np.append((1 - goes_on) * goes_on ** np.arange(last), goes_on**last)
    counts = np.bincount(np.minimum(first, last), minlength=last + 1)
    assert stats.chisquare(counts, shares * seeds).pvalue > 1e-3
    ends = reasons[ended]
    assert {*ends} <= {Stop.VALID_END, Stop.INVALID_END}
    valid = int((ends == Stop.VALID_END).sum())
    assert stats.binomtest(valid, len(ends), include / (include + exclude)).pvalue > 1e-3


def test_cmc_goes_on_in_white_matter_and_never_where_there_is_none():
    maps = np.zeros((*SHAPE, 2), np.float32)
    at = points(500)
    assert (answers("numba32", "cmc", maps, at) == Stop.GROWING).all()
    maps[:] = np.random.default_rng(0).uniform(0, 1, (*SHAPE, 1))
    maps[..., 1] = 1 - maps[..., 0]  # sums of interpolated shares are rounded
    assert (answers("numba32", "cmc", maps, at) != Stop.GROWING).all()


# -------------------------------------------------------------------------------------------------------- from files


def tracked(head, fractions, rule, **options):
    """A result with the options of a rule."""
    named = {name: path for name, path in fractions.items() if name in STOPPING_RULES[rule].maps}
    options = {"dg": "det", "model": "csa", "nseeds": 400, "arch": "cpu", "cache_dir": head.cache} | options
    return ts.track(*head.series, mask=head.mask, stopping=rule, **named, **options)


@pytest.mark.parametrize("rule", ["binary", "act", "cmc"])
def test_valid_ends_are_what_is_kept(head, fractions, rule):
    whole, kept = (tracked(head, fractions, rule, keep=keep) for keep in ("all", "valid-ends"))
    assert whole.stop_reasons == kept.stop_reasons
    assert whole.stop_reasons["valid_end"] > 100
    assert (whole.stop_reasons["invalid_end"] > 100) == (rule != "binary")
    valid = [line for batch in whole.batches for line, ends in zip(batch, batch.stop_reasons, strict=True)
             if np.isin(ends, VALID).all()]
    assert 0 < len(valid) <= whole.n_streamlines - 50 * (rule != "binary")
    for ours, expected in zip([line for batch in kept.batches for line in batch], valid, strict=True):
        assert np.array_equal(ours, expected)


def test_streamlines_end_beside_the_tissue_that_ends_them(head, fractions):
    """Each point is in white matter, and the next one in the direction of the last step is not."""
    result = tracked(head, fractions, "act", min_length=10)
    maps = [nib.load(fractions[name]).get_fdata() for name in ("pve_gm", "pve_csf")]
    criterion = dipys.ActStoppingCriterion(*maps)
    inverse, wrong, ends = np.linalg.inv(head.phantom.affine), 0, 0
    for batch in result.batches:
        for line, reasons in zip(batch, batch.stop_reasons, strict=True):
            voxels = nib.affines.apply_affine(inverse, line.astype(float))
            for reason, last, before in zip(reasons, voxels[[0, -1]], voxels[[1, -2]], strict=True):
                if reason in (Stop.VALID_END, Stop.INVALID_END):
                    ends += 1
                    wrong += STATUSES.get(criterion.check_point(2 * last - before)) != reason
    assert ends > 200
    assert wrong < 0.25 * ends  # where the streamline bends at its end


def test_fractions_in_one_image_are_those_of_three(head, tmp_path):
    save_phantom(head.phantom, tmp_path)
    three = {f"pve_{name}": str(tmp_path / f"pve_{name}.nii.gz") for name in ("wm", "gm", "csf")}
    images = [nib.load(path) for path in three.values()]
    for name, order in (("pve", (0, 1, 2)), ("fast", (2, 1, 0))):
        volumes = np.stack([images[place].get_fdata(dtype=np.float32) for place in order], axis=-1)
        nib.save(nib.Nifti1Image(volumes, images[0].affine), tmp_path / f"{name}.nii.gz")
    runs = (tracked(head, files, "act") for files in (three, {"pve": str(tmp_path / "pve.nii.gz")}))
    assert np.array_equal(*(ts.Batch.concatenate(run.batches).points for run in runs))
    with pytest.raises(InputError, match="less white matter"):
        tracked(head, {"pve": str(tmp_path / "fast.nii.gz")}, "act")
    with pytest.raises(InputError, match="give an image of 3 volumes"):
        tracked(head, {"pve": three["pve_wm"]}, "act")


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_exchanged_fractions_are_warned_of(head, fractions, order):
    """FSL's FAST has the files in the order of the last one."""
    names = ["pve_wm", "pve_gm", "pve_csf"]
    files = {name: fractions[names[place]] for name, place in zip(names, order, strict=True)}
    warned = [text for text in tracked(head, files, "act").warnings if "fractions may be exchanged" in text]
    assert len(warned) == (order[0] != 0)
    if warned:
        tissue = {1: "grey matter", 2: "cerebrospinal fluid"}[order.index(0)]
        assert warned[0].startswith(f"FA is greater in {tissue} (0.")


def test_maps_of_include_and_exclude_are_those_of_the_fractions(head, fractions, tmp_path):
    white, grey, fluid = (nib.load(fractions[f"pve_{name}"]) for name in ("wm", "gm", "csf"))
    background = (white.get_fdata() + grey.get_fdata() + fluid.get_fdata()) == 0
    include = np.where(background, 1, grey.get_fdata()).astype(np.float32)
    nib.save(nib.Nifti1Image(include, white.affine), tmp_path / "include.nii.gz")
    maps = {"include_map": str(tmp_path / "include.nii.gz"), "exclude_map": fractions["pve_csf"]}
    for rule in ("act", "cmc"):
        first, second = tracked(head, fractions, rule), tracked(head, maps, rule)
        assert [batch.points.tobytes() for batch in first.batches] == [b.points.tobytes() for b in second.batches]


def test_the_chance_of_cmc_depends_on_the_step(head, fractions, tmp_path):
    """Also if tables of another step are in the cache."""
    steps = ("0.5vox", "0.25vox", "0.5vox")
    ends = [tracked(head, fractions, "cmc", step_size=step, cache_dir=tmp_path) for step in steps]
    assert ends[0].stop_reasons == ends[2].stop_reasons != ends[1].stop_reasons
    exponents = [
        STOPPING_RULES["cmc"].prepare(
            {"include_map": np.full(SHAPE, 0.2), "exclude_map": np.zeros(SHAPE)}, lambda: None,
            Parameters.given({"stopping": "cmc", "step_size": step}), (2.0, 2.0, 3.5),
        ).rule.stopping.exponent
        for step in ("0.5vox", "0.5mm")
    ]
    assert exponents == [pytest.approx(1 / 2.5), pytest.approx(0.5 / 2.5)]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"pve_gm": 0.4}, "have a sum of 1.4 at voxel"),
        ({"pve_gm": -0.2}, r"pve_gm.nii.gz: has -0.2 at voxel \(0, 0, 0\): give shares"),
        ({"pve_wm": 0.0, "pve_gm": 1.0, "pve_csf": 0.0}, "streamlines would end in every voxel"),
    ],
)
def test_maps_that_are_no_fractions_are_one_line(head, tmp_path, changes, words):
    fractions, shape = {}, head.phantom.mask.shape
    for name, value in ({"pve_wm": 1.0, "pve_gm": 0.0, "pve_csf": 0.0} | changes).items():
        fractions[name] = str(tmp_path / f"{name}.nii.gz")
        nib.save(nib.Nifti1Image(np.full(shape, value, np.float32), head.phantom.affine), fractions[name])
    with pytest.raises(ts.InputError, match=words) as raised:
        tracked(head, fractions, "act")
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("rule", "names", "words"),
    [
        ("act", (), "act needs include_map and exclude_map, or pve_wm, pve_gm, pve_csf, or pve"),
        ("cmc", ("pve_wm", "pve_gm"), "pve_wm needs pve_csf"),
        ("threshold", ("stop_mask",), "stop_mask can be used with stopping binary, not with stopping threshold"),
    ],
)
def test_missing_and_idle_maps_are_one_line(head, fractions, rule, names, words):
    with pytest.raises(ts.ParameterError, match=words):
        ts.track(*head.series, mask=head.mask, stopping=rule, arch="cpu", **{name: fractions[name] for name in names})


def test_streamlines_end_outside_the_mask_where_the_rule_has_no_other(head):
    options = {"stopping": "binary", "arch": "cpu", "nseeds": 50}
    result = ts.track(*head.series, mask=head.mask, **options)
    expected = ts.track(*head.series, mask=head.mask, stop_mask=head.mask, **options)
    assert result.n_streamlines > 10
    assert all(np.array_equal(*lines) for lines in zip(result, expected, strict=True))
    with pytest.raises(ts.ParameterError, match="binary needs stop_mask, or mask for it"):
        ts.track(*head.series, **options)


def test_an_empty_mask_is_one_line(head, tmp_path):
    nib.save(nib.Nifti1Image(np.zeros(head.phantom.mask.shape, np.float32), head.phantom.affine), tmp_path / "none.nii")
    with pytest.raises(ts.InputError, match=r"none.nii: has no voxels of at least 0.5"):
        tracked(head, {"stop_mask": str(tmp_path / "none.nii")}, "binary")
