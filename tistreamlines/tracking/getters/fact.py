"""FACT: makes the tables of the kernels from peaks, which it follows as MRtrix3's tckgen does."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...aliases import Array
from ...kernels.getters import fact
from ...kernels.getters.shared import read_stop
from ...linker.lang import Func
from ...option import MODEL, option
from ...space.sphere import padded
from ..parts import Getter, Row
from ..tables.given import Scheme
from ..tables.rows import Rows
from .fod import CutoffOptions
from .sd_stream import FollowsPeaks

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
class FactGetter(FollowsPeaks, Getter):
    """FACT; see the constants of ``kernels/getters/fact.py``."""

    begin: Func = fact.begin_at_fixel
    read: Func = read_stop
    choose: Func = fact.choose_fixel
    peaks: int
    blends: int

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step."""
        voxels, maps = (8 if self.blends else 1), self.row.stop_channels
        return 12 * voxels * self.peaks + 32 * maps, voxels * self.peaks * PEAK_OPERATIONS + 16 * maps


def describe(scheme: Scheme, options: FactOptions) -> tuple[FactGetter, Rows]:
    """Return the getter and its rows.

    Parameters
    ----------
    scheme : Scheme
        What is known of the inputs, which are peaks.
    options : FactOptions
        Options of the method.
    """
    count, maps = scheme.form.count, scheme.maps
    # where several maps are interpolated alone, the first 32 numbers of the row are needed for that
    width = padded(max(count, 32 * (maps > 1)) + maps)

    def fill_rows(values: Array, rows: Array) -> None:
        rows[:, : values.shape[1]] = values

    method = fact.Fact(
        threshold=options.least(scheme.rule), cos_squared=math.cos(math.radians(options.max_angle)) ** 2
    )
    getter = FactGetter(
        method=method, row=Row.of(width, maps), peaks=count // 3, blends=int(options.peaks_between == "linear"),
    )
    # a voxel without a row has no peak, which ends streamlines, so each that has one needs its row
    return getter, Rows(fill_rows, all_values=True)
