"""Particle filtering: steps against DIPY's algorithm, laws, whole streamlines against DIPY's, and the options."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from dialects import ints, program, run
from filtering import Tracker, Walk, WalkMemory, at_half_voxels, choose_walk, move_walk, track
from linked import layout_along_vertices
from nights import at_night
from scipy import stats
from streamlines import joined, lines
from tube import TUBE, tracker, tube

import tistreamlines as ts
from tistreamlines.kernels import growth
from tistreamlines.kernels.recovery.particles import Particles, balance, draw_particle
from tistreamlines.kernels.stop_reasons import VALID, Stop
from tistreamlines.kernels.stopping import row_maps
from tistreamlines.linker.lang import Ints, barrier, func, i32, lane, put, real, take, u32
from tistreamlines.linker.parts import Arrays
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.parts import Layout, Row, Rule
from tistreamlines.tracking.recovery.recoveries import particle_filtering_of

SHAPE, CHUNKS, KEY, FIRST_SEED = (11, 10, 9), 1, np.array([7, 9], np.int32), 3
ROW = 32 * CHUNKS


def options(**named: Any) -> Parameters:
    return Parameters.given({"stopping": "act", "dg": "prob", "pft": True} | named)


# ------------------------------------------------------------------------------------- step by step against DIPY's code
def maps() -> np.ndarray:
    """Chances of dead ends, include and exclude (x, y, z, 3); all dialects interpolate the same at half voxels."""
    rng = np.random.default_rng(5)
    shares = rng.dirichlet([0.5, 0.25, 0.5], SHAPE)[..., [0, 1, 2]]
    shares[..., 0] = 0.3 * (rng.uniform(size=SHAPE) < 0.2)
    shares[..., 2][rng.uniform(size=SHAPE) < 0.1] = 0
    shares[3:5, ..., 2] = 1 - shares[3:5, ..., 1]  # no way through
    shares[7:9, 3:, :, 0] = 0.98  # particles die too
    return np.floor(shares * 64) / 64


def layout_of(**named: Any) -> Layout:
    """How halves lie in memory that a walk grows with particle filtering."""
    recovery = particle_filtering_of(options(**named), 0.5)
    rule = Rule(stopping=row_maps.Act(), classify=row_maps.classify_act, recovery=recovery)
    return layout_along_vertices(
        rule=rule, method=Walk(), scratch=WalkMemory, choose=choose_walk, move=move_walk,
        row=Row(row_chunks=CHUNKS, stop_channel=ROW - 2, stop_channels=2),
    )


def particle_memory(layout: Layout) -> Arrays:
    """Team memory of the particles."""
    return layout.rule.recovery.team_memory(layout.getter)


def starts(count: int) -> np.ndarray:
    """Seeds (count, 3) at half voxels."""
    return np.random.default_rng(6).integers(2, 2 * np.array(SHAPE) - 3, (count, 3)) / 2


def walks(dialect: str, count: int, max_steps: int, launches: tuple[int, ...], **named: Any) -> list[tuple[list, Stop]]:
    """Codes and stop reasons of the halves of ``count`` streamlines."""
    rows = np.zeros((*SHAPE, ROW), np.float32)
    rows[..., ROW - 3 :] = maps()
    seeds, layout = starts(count), layout_of(**named)
    values = {
        "rules_max_steps": max_steps, "rules_key": KEY, "rules_first_seed": FIRST_SEED, "seeds_points": seeds.ravel(),
        "halves_seed": np.arange(count, dtype=np.int32), "halves_branch": ints(count), "halves_initial": ints(count),
        "halves_first": ints(count) - 1,
        "halves_state": ints(4 * count), "halves_codes": ints(2 * count * max_steps), "volume_rows": rows.ravel(),
        "halves_point": np.concatenate([np.repeat(seeds, 2, axis=0), np.zeros((2 * count, 2))], axis=1).ravel(),
        "volume_index": CHUNKS * np.arange(rows[..., 0].size, dtype=np.int32),
        "volume_shape": np.array(SHAPE, np.int32),
    }
    memory = {"scratch_row": ("reals", ROW), **particle_memory(layout)}
    linked = program(dialect, [growth.advance], layout.parts, memory)
    held = {k: linked.array(v) if isinstance(v, np.ndarray) else v for k, v in values.items()}
    linked.run("advance", count, held | {"steps": 1, "stride": 2, "sides": 1})
    for steps in launches:
        linked.run("advance", 2 * count, held | {"steps": steps, "stride": 1, "sides": 1})
    codes = held["halves_codes"].reshape(-1, max_steps)
    return [(c[:n].tolist(), Stop(r)) for c, (n, r) in zip(codes, held["halves_state"].reshape(-1, 2), strict=True)]


@cache
def expected(count: int, max_steps: int, **named: Any) -> tuple[list[tuple[list, Stop]], int]:
    """The same from DIPY's algorithm, and how often particles were resampled."""
    chosen, halfway = options(**named), at_half_voxels(maps())
    halves, resampled = [], 0
    for number, seed in enumerate(starts(count)):
        heading = 0
        for side in range(2):
            half = Tracker(
                halfway, FIRST_SEED + number, side, tuple(map(int, KEY)), max_steps,
                int(np.ceil(chosen.pft_back / 0.5)), int(np.ceil(chosen.pft_front / 0.5)), chosen.pft_max_trial,
                chosen.pft_particles, chosen.pft_min_wm,
            )
            halves.append(track(half, tuple(seed), heading))
            resampled += half.resampled
            heading = 1 if not halves[-1][0] else halves[-1][0][0] ^ 1
    return halves, resampled


CASES = {
    "few": {"pft_particles": 4, "pft_max_trial": 3}, "dipy": {}, "many": {"pft_particles": 32, "pft_back": 3.7},
    "white": {"pft_min_wm": 0.9, "pft_front": 0.0},
}


@pytest.mark.parametrize(
    ("dialect", "case", "count", "launches"),
    [("python", "few", 12, (100,) * 9), ("numba64", "few", 120, (100,) * 9), ("numba64", "dipy", 120, (1,) * 300),
     ("numba64", "many", 60, (9,) * 90), ("numba64", "white", 120, (30,) * 90),
     ("numba32", "dipy", 120, (60,) * 60)],
)
def test_each_step_is_that_of_dipys_algorithm(dialect, case, count, launches):
    max_steps = 40
    theirs, resampled = expected(count, max_steps, **CASES[case])
    ours = walks(dialect, count, max_steps, launches, **CASES[case])
    # where a forward half takes back its only step, DIPY's backward half does not know of it
    compared = [h for h in range(2 * count) if h % 2 == 0 or theirs[h - 1][0]]
    assert len(compared) > 1.5 * count
    for h in compared:
        assert ours[h][0] == theirs[h][0], (h, ours[h], theirs[h])
        reason = Stop.INVALID_END if ours[h][1] == Stop.NO_DIRECTION else ours[h][1]
        assert reason == theirs[h][1], (h, ours[h], theirs[h])
    assert (resampled > 0) == (case != "few")  # N_eff, which is at least 1, is never below a tenth of 4
    if count > 100:
        assert {reason for _, reason in ours} >= {Stop.VALID_END, Stop.OUTSIDE_IMAGE, Stop.INVALID_END}


# ---------------------------------------------------------------------------------------------------------- particles
@func
def draw_all(item: i32, recovery: Particles, weights: Ints, key: Ints, out: Ints):
    """The particles that are drawn by whole-numbered weights."""
    for i in range(32):
        recovery.weight[i] = real(weights[i])
    barrier()
    put(out, 32 * item, draw_particle(recovery, u32(item), u32(1), u32(2), 0, key))


@func
def balance_all(item: i32, recovery: Particles, weights: Ints, key: Ints, out: Ints):
    """The weights after ``balance`` in millionths, and the particles' sources."""
    for i in range(32):
        recovery.weight[i] = real(weights[32 * item + i])
        recovery.status[i] = 0
    put(recovery.codes, 0, lane())
    balance(recovery, 1, u32(item), u32(1), u32(2), key)
    put(out, 64 * item, take(recovery.codes, lane()))
    for i in range(32):
        out[64 * item + 32 + i] = i32(1.0e6 * recovery.weight[i] + 0.5)
    barrier()


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_particles_are_drawn_as_often_as_their_weights_say(dialect):
    weights = np.pad([0, 5, 0, 1, 3, 0, 0, 2, 9], (0, 23)).astype(np.int32)
    layout, items = layout_of(pft_particles=9), 20 if dialect == "python" else 2000
    values = {"weights": weights, "key": KEY, "out": ints(32 * items)}
    numbers = run(dialect, draw_all, items, values, layout.parts, particle_memory(layout))["out"]
    counts = np.bincount(numbers, minlength=32)
    assert (counts[weights == 0] == 0).all()
    share = weights[weights > 0] / weights.sum()
    assert stats.chisquare(counts[weights > 0], share * 32 * items).pvalue > 1e-3


def test_particles_are_resampled_where_their_weights_are_uneven():
    """1 / sum w^2 < 15 / 10: here, if the greatest of two weights is above about 0.79."""
    layout, shares = layout_of(), np.arange(1000, 500, -5)
    weights = np.zeros((len(shares), 32), np.int32)
    weights[:, 4], weights[:, 11] = shares, 1000 - shares
    values = {"weights": weights.ravel(), "key": KEY, "out": ints(64 * len(shares))}
    results = run("numba32", balance_all, len(shares), values, layout.parts, particle_memory(layout))
    balanced = results["out"].reshape(-1, 2, 32)
    uneven = 1 / ((shares / 1000) ** 2 + (1 - shares / 1000) ** 2) < 1.5
    assert 10 < uneven.sum() < 90
    for codes, after, before, resampled in zip(balanced[:, 0], balanced[:, 1], weights, uneven, strict=True):
        if resampled:
            assert set(codes[:15]) <= {4, 11}
            assert (after == [66667] * 15 + [0] * 17).all()
        else:
            assert (codes == np.arange(32)).all()
            assert (after == 1000 * before).all()
    sources = balanced[uneven][:, 0, :15]
    assert stats.binomtest(int((sources == 4).sum()), sources.size, shares[uneven].mean() / 1000).pvalue > 1e-3


# -------------------------------------------------------------------------------------------------- whole streamlines
def seeds(count: int) -> np.ndarray:
    return np.random.default_rng(8).uniform([11, 5.5, 5.5], [14, 6.5, 6.5], (count, 3)).astype(np.float32)


def grown(engine: Engine, count: int):
    return joined(engine.track(seeds(count)))


def valid(batch) -> float:
    return float(np.isin(batch.stop_reasons, VALID).all(axis=1).mean())


@pytest.mark.parametrize(
    ("rule", "dg", "longest", "angle"),
    [("cmc", "prob", 0.5, 30.0), *at_night(("act", "ptt", 0.5 * np.hypot(1, 0.2), 20.0))],
)
def test_particles_get_through_a_tube_in_which_streamlines_end(rule, dg, longest, angle):
    """The steps that the host repeats are those that the particles took: none is too long, or turns too far."""
    plain, filtered = grown(tracker(rule, named={}, dg=dg), 200), grown(tracker(rule, dg=dg), 200)
    assert valid(plain) < 0.5
    assert valid(filtered) > valid(plain) + 0.3
    assert len(filtered) == len(plain)
    for line in lines(filtered):
        steps = np.diff(line, axis=0)
        lengths = np.linalg.norm(steps, axis=1)
        assert lengths.min(initial=1) > 0.5 - 1e-5
        assert lengths.max(initial=0) < longest + 1e-5
        turns = (steps[1:] * steps[:-1]).sum(axis=1) / (lengths[1:] * lengths[:-1])
        assert turns.min(initial=1) > np.cos(np.radians(angle + 0.1))


def test_no_particles_are_needed_where_all_ends_are_valid():
    """Then the streamlines are the same, but the point where each ends is kept."""
    shares = tube()[1] * [1, 0]
    plain, filtered = (grown(tracker(shares=shares, named=named), 40) for named in ({}, None))
    assert np.array_equal(plain.stop_reasons, filtered.stop_reasons)
    for line, longer, reasons in zip(lines(plain), lines(filtered), plain.stop_reasons, strict=True):
        kept = (reasons == Stop.VALID_END).astype(int)
        assert np.array_equal(line, longer[kept[0] : len(longer) - kept[1]])
    assert (plain.stop_reasons == Stop.VALID_END).mean() > 0.9


@pytest.mark.parametrize(("trials", "front"), [(20, 1.0), (3, 2.0), (2, 0.0)])
def test_in_nothing_but_fluid_each_trial_wins_the_steps_in_front(trials, front):
    """Each step ends invalidly, but particles go on: a trial wins a step and those in front; then comes one more."""
    shares = np.broadcast_to(np.float32([0, 0.6]), (*TUBE, 2)).copy()
    shares[0, 0, 0] = 0
    batch = grown(tracker(shares=shares, named={"pft": True, "pft_max_trial": trials, "pft_front": front}), 30)
    steps = trials * (1 + int(2 * front)) + 1
    inside = np.isin(batch.stop_reasons, [Stop.INVALID_END]).all(axis=1)
    assert set(batch.lengths[inside]) == {2 * steps + 1} if inside.any() else trials == 20
    assert batch.lengths.max() <= 2 * steps + 1
    assert set(np.unique(batch.stop_reasons)) <= {Stop.INVALID_END, Stop.OUTSIDE_IMAGE}


@pytest.mark.parametrize("rule", ["act", "cmc"])
def test_streamlines_are_dipys(rule):
    """Numbers, lengths and ends of ``ParticleFilteringTracking`` in the tube."""
    from dipy.data import default_sphere
    from dipy.direction import ProbabilisticDirectionGetter
    from dipy.tracking import stopping_criterion as dipys
    from dipy.tracking.local_tracking import ParticleFilteringTracking

    values, shares = tube()
    include, exclude = shares.astype(float).transpose(3, 0, 1, 2)
    criterion = dipys.ActStoppingCriterion(include, exclude)
    if rule == "cmc":
        criterion = dipys.CmcStoppingCriterion(include, exclude, step_size=0.5, average_voxel_size=1.0)
    getter = ProbabilisticDirectionGetter.from_pmf(
        values.astype(float), max_angle=30.0, sphere=default_sphere, pmf_threshold=0.0
    )
    count = 300
    every, kept = (
        list(ParticleFilteringTracking(getter, criterion, seeds(count), np.eye(4), 0.5, maxlen=120, random_seed=2,
                                       return_all=return_all, max_cross=1))
        for return_all in (True, False)
    )
    ours = grown(tracker(rule, named={"pft": True}), count)
    theirs = np.array([len(line) for line in every if len(line) > 1])
    assert len(ours) == pytest.approx(len(theirs), abs=0.02 * count)
    assert valid(ours) == pytest.approx(len(kept) / len(theirs), abs=0.08)
    assert stats.mannwhitneyu(ours.lengths, theirs).pvalue > 1e-3
    assert stats.ks_2samp(ours.lengths, theirs).pvalue > 1e-3


# ------------------------------------------------------------------------------------------------------------- options
def on_head(head, fractions, **others: Any) -> ts.TrackResult:
    named = {name: path for name, path in fractions.items() if name.startswith("pve")}
    return ts.track(*head.series, mask=head.mask, arch="cpu", nseeds=60, **named, **others)


@pytest.mark.parametrize(("dg", "model"), [("prob", "csa"), *at_night(("boot", "opdt"))])
def test_from_files(head, fractions, tmp_path, dg, model):
    chosen = {"dg": dg, "model": model, "stopping": "act", "cache_dir": tmp_path}
    plain = on_head(head, fractions, **chosen)
    first, again, other = (
        on_head(head, fractions, pft=True, **chosen | more) for more in ({}, {}, {"step_size": "0.75vox"})
    )
    ends = [result.stop_reasons for result in (plain, first, again, other)]
    assert ends[1] == ends[2] and str(first) == str(again) != str(other)
    assert ends[1].get("valid_end", 0) > ends[0].get("valid_end", 0)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"stopping": "threshold"}, "pft can be used with stopping act or cmc, not with stopping threshold"),
        ({"pft": None, "pft_back": 3.0}, "pft_back needs pft"),
        ({"pft_particles": 33}, "pft_particles is 33: give a number from 1 to 32"),
        ({"pft_back": 60.0}, "pft_back and pft_front are .* steps of 2.5 mm, but particles take at most 64"),
    ],
)
def test_options_that_do_not_fit_are_one_line(head, fractions, changes, words):
    changes = {"stopping": "act", "dg": "prob", "pft": True} | changes
    if changes["stopping"] == "threshold":
        fractions = {}
    if "pft_back" in changes and changes["pft"]:
        changes["pft_back"] = 200.0
    with pytest.raises(ts.ParameterError, match=words) as raised:
        on_head(head, fractions, **changes)
    assert "\n" not in str(raised.value)
