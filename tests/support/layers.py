"""A stopping rule with all that a rule may have: maps on a grid of their own, a memory, a verdict, a say about seeds.

The first map says how deep a point lies, the second one what it costs.  Seeds outside the tissue are refused.  A
streamline ends where it leaves the tissue, which is no valid end, or where it leaves a deep layer; then it is cut back
to the point of least cost there, as five-tissue ACT does in subcortical grey matter.
"""

from __future__ import annotations

from dataclasses import dataclass

import tistreamlines as ts
from tistreamlines.kernels.halves import CARRIED, POINT, Halves, Rules, Scratch, Walk
from tistreamlines.kernels.interpolate import Volume
from tistreamlines.kernels.lanes import MapVolume, map_at, point_in_map
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import Ints, Reals, Record, func, i32, real, stage, u32, vec3
from tistreamlines.option import SEEDS, option
from tistreamlines.tracking.parts import Rule
from tistreamlines.tracking.registry import StoppingRule
from tistreamlines.tracking.tables.inputs import StopTables

GROWING, VALID_END, INVALID_END = int(Stop.GROWING), int(Stop.VALID_END), int(Stop.INVALID_END)
TISSUE, DEEP = 0.25, 0.625  # least depth of either


class Layers(MapVolume):
    """The two maps."""

    deep: real


class Passed(Record):
    """Whether the half is in a deep layer, its least cost there, and the number of the step to that point."""

    within: i32
    least: real
    step: i32


@func
def classify(stopping: Layers, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """End outside the tissue."""
    reason = GROWING
    if map_at(stopping, point_in_map(stopping, p), 0) < TISSUE:
        reason = INVALID_END
    return reason


@stage
def load_layers(memory: Passed, half: i32, halves: Halves):
    """What the half has passed."""
    place = POINT * half + 3 + CARRIED
    memory.within = i32(halves.point[place])
    memory.least = halves.point[place + 1]
    memory.step = i32(halves.point[place + 2])


@stage
def store_layers(memory: Passed, half: i32, halves: Halves):
    """Keep it."""
    place = POINT * half + 3 + CARRIED
    halves.point[place] = real(memory.within)
    halves.point[place + 1] = memory.least
    halves.point[place + 2] = real(memory.step)


@stage
def note_layers(walk: Walk, memory: Passed, volume: Volume, stopping: Layers, scratch: Scratch, rules: Rules):
    """Refuse a seed, or note a step and end the half where it leaves a deep layer."""
    if walk.moves == 0:
        if (walk.taken == 0) & (walk.reason != GROWING):
            walk.status = INVALID_END
    elif walk.reason == GROWING:
        q = point_in_map(stopping, walk.ahead)
        if map_at(stopping, q, 0) >= stopping.deep:
            cost = map_at(stopping, q, 1)
            if (memory.within == 0) | (cost < memory.least):
                memory.least = cost
                memory.step = walk.taken + 1
            memory.within = 1
        elif memory.within == 1:
            walk.reason = VALID_END


@stage
def cut_layers(walk: Walk, memory: Passed, stopping: Layers, rules: Rules):
    """Cut the half back to the point of least cost."""
    if walk.status == VALID_END:
        walk.taken = memory.step


@dataclass(frozen=True)
class LayersOptions:
    """Its option."""

    layers: str | None = option(None, SEEDS, "Depth and cost, two volumes on any grid.", unit="FILE", absent="none")


def prepare(maps, anisotropy, options, sides):
    """Make the tables: no map is on the tracked grid, and streamlines can go on anywhere."""
    image = maps["layers"]
    return StopTables(Rule(
        stopping=Layers(deep=DEEP, **image.fields()), classify=classify, maps=image.count, memory=Passed, for_rule=3,
        load_memory=load_layers, remember=note_layers, conclude=cut_layers, store_memory=store_layers,
        takes_back=True,
    ))


ts.register("layers", StoppingRule(
    title="ends them where they leave a layer", prepare=prepare, options=LayersOptions, maps={"layers": 2},
    map_images=("layers",),
), "tistreamlines.kernels.lanes")
