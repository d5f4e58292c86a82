"""The kernels' interface for stopping rules and filters, with toy rules of one kernel file each."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from dialects import DIALECTS, ints, program, reals, run
from linked import Linked, layout_along_vertices

from tistreamlines.kernels import growth
from tistreamlines.kernels.getters.shared import read_row, read_stop
from tistreamlines.kernels.halves import Position, Run
from tistreamlines.kernels.interpolate import STOP_CHANNEL, Volume, interpolate_row
from tistreamlines.kernels.lanes import interpolate_stop
from tistreamlines.kernels.selection.regions import EXCLUDE, Demands
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import Constant, Ints, Reals, Record, func, i32, real, stage, u32, vec3
from tistreamlines.linker.parts import Part
from tistreamlines.linker.records import spread
from tistreamlines.linker.rng import STOPPING, STREAM, philox, uniform
from tistreamlines.tracking.parts import Row, Rule, Selection
from tistreamlines.tracking.selection.regions import BitsOfPoints

GROWING = int(Stop.GROWING)
END = Constant("the reason with which the toy rule ends a streamline")
REDRAWN = Constant("remainder by 3 of the numbers of the steps that take a second attempt")
SIDE, CHUNKS, HALVES, STEPS = 40, 2, 64, 60
FIRST = 32 * CHUNKS - 2  # two channels at the end of a row
KEY = np.array([7, -9], np.int32)


class Toy(Record):
    """A rule of two maps."""

    scale: real


@func
def classify_toy(stopping: Toy, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Go on where the first map exceeds the second times a random number."""
    w = philox(c0, c1, c2, u32(STOPPING << STREAM), u32(key[0]), u32(key[1]))
    reason = END
    if row[STOP_CHANNEL] > stopping.scale * row[STOP_CHANNEL + 1] * uniform(w[0]):
        reason = GROWING
    return reason


class Straight(Record):
    """A method that steps along x."""

    step: real


class Memory(Record):
    """Team memory of it."""

    row: Reals


@func
def choose_straight(position: Position, run: Run) -> i32:
    """Step 5, but every third one only at a second attempt."""
    choice = 5
    if (i32(position.c1) % 3 == REDRAWN) & (position.attempt == 0):
        choice = -2
    return choice


@stage
def move_straight(position: Position, run: Run) -> vec3:
    """The point one step along x."""
    return vec3(position.p[0] + run.method.step, position.p[1], position.p[2])


class Wall(Demands):
    """A plane that no streamline may reach."""

    x: real


@func
def at_wall(filter: Wall, p: vec3, word: i32) -> i32:
    """Exclude what comes to the wall."""
    bits = 0
    if p[0] >= filter.x:
        bits = EXCLUDE
    return bits


RULE = Rule(stopping=Toy(scale=0.5), classify=classify_toy)
METHOD = {
    "method": Straight(step=0.5), "scratch": Memory(row=32 * CHUNKS), "choose": choose_straight, "move": move_straight,
    "row": Row(row_chunks=CHUNKS, stop_channel=FIRST, stop_channels=2),
}
WALL = BitsOfPoints(
    filter=Wall(x=5.0, counted=EXCLUDE, ordered=0, first=0, wanted=0, limited=0, stops=0, ends=0), bits_at=at_wall
)
NO_WALL = Selection()
SCRATCH = {"scratch_row": ("reals", 32 * CHUNKS)}


def maps() -> np.ndarray:
    """Two maps along x, of numbers that float32 interpolates half-way without rounding."""
    return np.random.default_rng(4).integers(1, 64, (SIDE, 2)) * np.array([1 / 64, 1 / 32])


def parts_for(reason: Stop, read: Any = read_row, selection: Selection = NO_WALL, redrawn: int = 0) -> list[Part]:
    """What the walk is linked with."""
    layout = layout_along_vertices(selection, RULE, read=read, **METHOD)
    return [*layout.parts, Linked(end=int(reason), redrawn=redrawn)]


def arguments(max_steps: int = STEPS) -> dict[str, Any]:
    """Halves that all begin at x = 2, of as many seeds and branches."""
    rows = np.zeros((SIDE, 32 * CHUNKS), np.float32)
    rows[:, FIRST:] = maps()
    streamlines = np.arange(HALVES // 2, dtype=np.int32)
    return {
        "stride": 1, "sides": 1, "steps": max_steps, "rules_max_steps": max_steps, "rules_key": KEY,
        "rules_first_seed": 3,
        "halves_seed": streamlines % 5, "halves_branch": streamlines // 5,
        "halves_initial": ints(HALVES // 2), "halves_first": ints(HALVES // 2) - 1,
        "halves_state": ints(2 * HALVES), "halves_codes": ints(HALVES * max_steps),
        "halves_point": np.tile([2.0, 0.0, 0.0], HALVES).astype(np.float32), "volume_rows": rows.ravel(),
        "volume_index": (CHUNKS * np.arange(SIDE)).astype(np.int32), "volume_shape": np.array([SIDE, 1, 1], np.int32),
        "halves_visited": ints(3 * HALVES),
        **spread("stopping", RULE.stopping), **spread("method", METHOD["method"]), **spread("filter", WALL.filter),
    }


@func
def shares(item: i32, counters: Ints, key: Ints, out: Reals):
    """Uniform numbers of the stopping rules' stream."""
    c2 = u32(counters[3 * item + 2])
    w = philox(u32(counters[3 * item]), u32(counters[3 * item + 1]), c2, u32(2 << 28), u32(key[0]), u32(key[1]))
    out[item] = uniform(w[0])


def expected(reason: Stop, max_steps: int = STEPS) -> tuple[np.ndarray, np.ndarray]:
    """Steps taken and stop reason of each half, by numpy from the rule's definition."""
    at = np.arange(2.5, SIDE - 0.5, 0.5)[:max_steps]  # the points of steps 1, 2, ...
    a, b = (np.interp(at, np.arange(SIDE), channel) for channel in maps().T)
    seed, branch = np.arange(HALVES // 2) % 5 + 3, np.arange(HALVES // 2) // 5
    counters = [(seed[h >> 1], k + 1, 2 * branch[h >> 1] + h % 2) for h in range(HALVES) for k in range(len(at))]
    values = {"counters": np.array(counters), "key": KEY, "out": reals(len(counters))}
    drawn = run("python", shares, len(counters), values)["out"].reshape(HALVES, -1)
    goes_on = a > 0.5 * b * drawn
    ended = ~goes_on.all(axis=1)
    steps = np.where(ended, goes_on.argmin(axis=1) + Stop(reason).keeps_last_point, len(at))
    last = Stop.MAX_LENGTH if len(at) == max_steps else Stop.OUTSIDE_IMAGE
    return steps, np.where(ended, reason, last)


def states(
    dialect: str, parts: list[Part], launches: tuple[int, ...] = (STEPS,), max_steps: int = STEPS
) -> np.ndarray:
    """Steps and stop reasons of the halves after launches of so many steps each."""
    linked = program(dialect, [growth.advance], parts, SCRATCH)
    values = {k: linked.array(v) if isinstance(v, np.ndarray) else v for k, v in arguments(max_steps).items()}
    for steps in launches:
        linked.run("advance", HALVES, values | {"steps": steps})
    assert (values["halves_point"].reshape(-1, 3)[:, 0] == 2 + 0.5 * values["halves_state"][::2]).all()
    return values["halves_state"].reshape(-1, 2)


@pytest.mark.parametrize(("reason", "read"), [(Stop.END_POINT, read_row), (Stop.NO_DIRECTION, read_stop)])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_rule_reads_channels_draws_and_keeps_its_end_point_or_not(dialect, reason, read):
    halves = states(dialect, parts_for(reason, read))
    steps, reasons = expected(reason)
    assert np.array_equal(halves[:, 0], steps)
    assert np.array_equal(halves[:, 1], reasons)
    assert len(np.unique(steps)) > 5
    assert (reasons == reason).any()


@pytest.mark.parametrize("redrawn", [0, 1])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_rule_ends_a_streamline_at_its_seed(dialect, redrawn, monkeypatch):
    """Nor if the first step takes a second attempt."""
    low = maps()
    low[2, 0] = 0
    monkeypatch.setattr(sys.modules[__name__], "maps", lambda: low)
    halves = states(dialect, parts_for(Stop.END_POINT, redrawn=redrawn))
    steps, reasons = expected(Stop.END_POINT)
    assert np.array_equal(halves, np.stack([steps, reasons], axis=1))
    assert (steps > 0).any()


def test_no_draw_depends_on_how_launches_are_cut():
    parts = parts_for(Stop.END_POINT)
    assert np.array_equal(states("numba32", parts, (1, 2, 4, STEPS)), states("numba32", parts))


def test_an_end_point_that_is_the_last_step_has_the_rules_reason():
    steps, _ = expected(Stop.NO_DIRECTION)
    most = int(np.median(steps))
    halves = states("numba32", parts_for(Stop.NO_DIRECTION), (most,), most)
    ended, reasons = expected(Stop.NO_DIRECTION, most)
    assert np.array_equal(halves, np.stack([ended, reasons], axis=1))
    assert set(reasons[ended == most]) == {Stop.NO_DIRECTION, Stop.MAX_LENGTH}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_filter_can_end_streamlines_early(dialect):
    """Exactly the streamlines with a point at the wall are rejected, and the others are as without it."""
    halves = states(dialect, parts_for(Stop.END_POINT, selection=WALL))
    steps, reasons = expected(Stop.END_POINT)
    beyond = (2 + 0.5 * steps >= 5.0).reshape(-1, 2).any(axis=1).repeat(2)
    rejected = (halves[:, 1] == Stop.REJECTED).reshape(-1, 2).any(axis=1).repeat(2)
    assert 0 < beyond.sum() < HALVES
    assert np.array_equal(halves[~beyond], np.stack([steps, reasons], axis=1)[~beyond])
    assert np.array_equal(rejected, beyond)


@func
def both(item: i32, volume: Volume, row: Reals, out: Reals):
    """A rule's channels, read alone and with the row."""
    p = vec3(2.5 + real(item), 0.0, 0.0)
    interpolate_stop(volume, p, row)
    for i in range(2):
        out[4 * item + i] = row[STOP_CHANNEL + i]
    interpolate_row(volume, p, row)
    for i in range(2):
        out[4 * item + 2 + i] = row[STOP_CHANNEL + i]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_channels_read_alone_are_those_of_the_row(dialect):
    values = arguments() | {"out": reals(40)}
    memory = {"row": ("reals", 32 * CHUNKS)}
    channels = run(dialect, both, 10, values, parts_for(Stop.END_POINT), memory)["out"].reshape(-1, 2, 2)
    assert np.array_equal(channels[:, 0], channels[:, 1])
    assert channels.min() > 0
