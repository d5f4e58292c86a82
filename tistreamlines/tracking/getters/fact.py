"""FACT: makes the tables of the kernels from peaks, which it follows as MRtrix3's tckgen does."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...aliases import Array
from ...errors import InputError
from ...kernels.getters import fact, sd_stream
from ...kernels.getters.direction_codes import HALF
from ...kernels.getters.reads import read_stop
from ...kernels.getters.vertex_steps import Vertex
from ...linker.lang import Func, Record, Stage
from ...linker.parts import host
from ...option import MODEL, option
from ...space.sphere import padded
from ..parts import Getter, Row
from ..tables.given import Given, OrientationFunctions, Prepared
from ..tables.rows import build_volume
from .fod import CutoffOptions
from .shared import heading_scratch

PEAK_OPERATIONS = 20  # operations that compare a peak


@dataclass(frozen=True)
class FactOptions(CutoffOptions):
    """Options of FACT, a part of :class:`tistreamlines.Parameters`, with tckgen's defaults."""

    peaks_between: str = option(
        "nearest", MODEL, "Follow the peaks of the nearest voxel (nearest), as tckgen does, or blend those of the "
        "eight voxels around a point that are most collinear with the last step (linear).",
        choices=("nearest", "linear"),
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FactGetter(Getter):
    """FACT; see the constants of ``kernels/getters/fact.py``."""

    state: type[Record] = Vertex
    begin: Func = fact.begin_at_fixel
    read: Func = read_stop
    set_out: Stage = sd_stream.set_out_to_peak
    choose: Func = fact.choose_fixel
    move: Stage = sd_stream.move_to_peak
    code_bits: int = 2 * HALF
    peaks: int
    blends: int
    aimed: bool = host(default=True)

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step."""
        voxels, maps = (8 if self.blends else 1), self.row.stop_channels
        return 12 * voxels * self.peaks + 32 * maps, voxels * self.peaks * PEAK_OPERATIONS + 16 * maps


def prepare(given: Given, options: FactOptions) -> Prepared:
    """Make the tables of FACT.

    Parameters
    ----------
    given : Given
        Inputs, with peaks.
    options : FactOptions
        Options of the method.

    Returns
    -------
    Prepared
        The tables.

    Raises
    ------
    InputError
        If the peaks have another grid than the maps of the stopping rule.
    """
    function, maps = given.follows, given.channels
    assert isinstance(function, OrientationFunctions)
    peaks = function.values.reshape(*function.values.shape[:3], -1)
    if peaks.shape[:3] != maps.shape[:3]:
        raise InputError(f"peaks are {peaks.shape}, the stop map is {maps.shape[:3]}: give both on one grid")
    # where several maps are interpolated alone, the first 32 numbers of the row are needed for that
    width = padded(max(peaks.shape[3], 32 * (given.stop.count > 1)) + given.stop.count)

    def fill_rows(values: Array, rows: Array) -> None:
        rows[:, : values.shape[1]] = values

    # a voxel without a row has no peak, which ends streamlines, so each that has one needs its row
    volume = build_volume(peaks, np.logical_or.reduce(peaks, axis=-1), width, fill_rows, maps)
    row = Row.of(width, given.stop.count)
    method = fact.Fact(
        threshold=options.least(given.stop.rule), cos_squared=math.cos(math.radians(options.max_angle)) ** 2
    )
    getter = FactGetter(
        method=method, scratch=heading_scratch(row), row=row, peaks=peaks.shape[3] // 3,
        blends=int(options.peaks_between == "linear"),
    )
    return Prepared(getter, given.stop.rule, volume)
