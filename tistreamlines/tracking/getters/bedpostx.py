"""Tracking through samples of fibres: makes the tables of the kernels from bedpostX's samples."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ...errors import ParameterError
from ...kernels.getters import bedpostx
from ...kernels.getters.shared import read_stop
from ...linker.lang import Func, Stage
from ...option import FILES, MODEL, OneOrMore, PathLike, option
from ...space.sphere import round_up
from ..parts import Getter, Row
from ..tables.inputs import Scheme
from ..tables.rows import Rows, front
from .shared import AngleOptions, CarriesHeading

MOST_BITS = 30  # of a step's code
PHILOX_OPERATIONS = 100  # operations for four random words


@dataclass(frozen=True, repr=False, eq=False)
class BedpostxOptions(AngleOptions):
    """Options of tracking through samples of fibres, a part of :class:`tistreamlines.Parameters`."""

    bedpostx: OneOrMore[PathLike] | None = option(
        None, FILES, "Samples of fibres: the folder of bedpostX, or its files merged_th1samples, merged_ph1samples, "
        "merged_f1samples and so on. Without other options, seeds are placed in the folder's nodif_brain_mask, and "
        "streamlines end outside it.", unit="FOLDER", absent="a model is fitted", common=True,
    )
    min_f: float = option(
        0.01, MODEL, "Fibres count where their volume fraction is above this.", unit="share", low=0, high=1,
    )
    use_f: bool = option(
        False, MODEL, "End a streamline at each step with a probability of one minus the volume fraction of the fibre "
        "that is followed.",
    )
    random_fibre: bool = option(
        False, MODEL, "Start along any fibre of a sample, with equal probabilities, instead of along the first one.",
    )
    modified_euler: bool = option(
        False, MODEL, "Draw a second direction one step ahead, and step along the mean of both.",
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class BedpostxGetter(CarriesHeading, Getter):
    """Tracking through samples of fibres; see the constants of ``kernels/getters/bedpostx.py``."""

    begin: Func = bedpostx.begin_by_sample
    read: Func = read_stop
    set_out: Stage = bedpostx.set_out_from_seed
    choose: Func = bedpostx.choose_fibre
    move: Stage = bedpostx.move_along_fibre
    fibres: int
    drawn: int
    first: int
    bits: int
    use_f: int
    modified_euler: int

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step.

        The maps of the stopping rule are read in eight voxels, with 16 operations each, and the fibres of one sample,
        with six operations each. Four random words are drawn.
        """
        maps, fibres = self.row.stop_channels, self.fibres
        return 32 * maps + 16 * fibres, 16 * maps + 6 * fibres + PHILOX_OPERATIONS


def describe(scheme: Scheme, options: BedpostxOptions) -> tuple[BedpostxGetter, Rows]:
    """Return the getter and its rows: x, y, z and the volume fraction of each sample's fibres in turn.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are samples.
    options : BedpostxOptions
        Options of the method.

    Returns
    -------
    getter, rows : BedpostxGetter, Rows
        The getter, and how its rows are made.

    Raises
    ------
    ParameterError
        If there are more samples than codes of steps.
    """
    count, fibres, maps = scheme.form.count, scheme.form.fibres, scheme.maps
    bits = bedpostx.PLACE + max((count * fibres - 1).bit_length(), 1)
    code = 2 * bits + 1 if options.modified_euler else bits
    if code > MOST_BITS:
        raise ParameterError(
            f"{count} samples of {fibres} fibres are too many for the codes of steps: give fewer, or leave out "
            "--modified-euler"
        )
    step = scheme.step_mm / np.asarray(scheme.voxel_sizes, float)
    reach = np.ceil(step).astype(int) * options.modified_euler

    getter = BedpostxGetter(
        method=bedpostx.Bedpostx(least=options.min_f, cos_angle=math.cos(math.radians(options.max_angle))),
        row=Row.of(round_up(4 * count * fibres + maps), maps), fibres=fibres, drawn=count,
        first=fibres if options.random_fibre else 1, bits=bits, use_f=int(options.use_f),
        modified_euler=int(options.modified_euler), code_bits=code,
    )
    return getter, Rows(front(), lambda _: reach)
