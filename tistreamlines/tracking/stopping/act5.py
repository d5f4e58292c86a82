"""Anatomically constrained tractography on five tissues: makes the tables of the kernels from a 5TT image."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...io.images import Tell
from ...kernels.stopping import act5, five_tissues
from ...linker.lang import Func, Record, Stage
from ...linker.parts import host
from ...option import OUTPUT, SEEDS, ImageLike, PathLike, flag, option
from ...space.batch import Space
from ..parts import Recovery, Rule
from ..recovery.recoveries import Backtracking, BacktrackOptions
from ..tables.inputs import MapImage, StopTables
from .anatomy import TISSUES as FRACTIONS
from .anatomy import TissueOptions
from .segmentation import ACT, NAME, SGM, tissue_files

MAPS = {**dict.fromkeys((*FRACTIONS, SGM), 0), ACT: 5}  # options, and volumes
GIVEN = (ACT, FRACTIONS[0])  # options, one of which the rule needs
MOST_LOOKED_AT = 1_000_000  # voxels
MARGIN = 0.01  # of shares, far above what rounding changes
UNREAD = MapImage(np.empty((0, 0, 0, 5), np.float32), np.eye(4))  # tissues before they are read
CUTS: dict[str, int] = dict(zip(("entry", "exit", "minimum", "random", "roulette"), act5.CUTS, strict=True))


@dataclass(frozen=True, repr=False, eq=False)
class Act5Options(BacktrackOptions, TissueOptions):
    """The options of the rule, a part of :class:`tistreamlines.Parameters`."""

    act: ImageLike | None = option(
        None, SEEDS, "Five tissues (5TT), or labels or a subject's folder of FreeSurfer, for MRtrix3's ACT.",
        unit="FILE", absent="none", excludes=FRACTIONS, common=True,
    )
    sgm: ImageLike | None = option(
        None, SEEDS, "Subcortical grey matter, which --pve-gm does not tell from the cortex: a mask, shares from 0 to "
        "1, or labels of FreeSurfer.", unit="FILE", absent="none", requires=FRACTIONS,
    )
    sgm_amyg_hipp: bool = option(
        False, SEEDS, "Take the amygdalae and hippocampi of labels in --act or --sgm as subcortical grey matter, not "
        "as cortex.", off="no-sgm-amyg-hipp", needs_one=(ACT, SGM),
    )
    save_5tt: PathLike | None = option(
        None, OUTPUT, "Write the five tissues of the run, .nii or .nii.gz. They are those of tistreamlines 5tt --crop.",
        unit="FILE", absent="not written", needs_one=GIVEN, affects="run",
    )
    crop_at_gmwmi: bool = option(
        False, SEEDS, "Move ends in cortical grey matter back to its interface with white matter.",
        off="no-crop-at-gmwmi", needs_one=GIVEN,
    )
    sgm_truncation: str | None = option(
        None, SEEDS, "Where a streamline ends that has passed through subcortical grey matter: before it enters, where "
        "it leaves, at the least amplitude of the FOD, at any point, or at a point drawn by its amplitude.",
        choices=tuple(CUTS), absent="minimum", needs_one=GIVEN,
    )


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class FiveTissues(Rule):
    """The rule of five tissues, which remembers what a half has passed through."""

    classify: Func = act5.classify
    memory: type[Record] = act5.ActMemory
    load_memory: Stage = act5.load_act
    remember: Stage = act5.note_tissue
    conclude: Stage = act5.judge_end
    store_memory: Stage = act5.store_act
    fluid_at: Func = five_tissues.fluid_at
    shuns_fluid: int = 1
    for_rule: int = act5.NUMBERS
    maps: int = five_tissues.VALUES
    takes_back: bool = host(default=True)
    in_turn: bool = host(default=True)


def rule_of(options: Act5Options, sides: tuple[float, ...], tissues: MapImage = UNREAD) -> Rule:
    """Return the rule, from the options, the sides of a voxel of the tracked image, mm, and the tissues."""
    x, y, z = map(float, sides)
    crops, image = options.crop_at_gmwmi, with_sum(tissues)
    return FiveTissues(
        stopping=five_tissues.Act5(side_x=x, side_y=y, side_z=z, plain=plain_white(image.values), **image.fields()),
        cut=CUTS[options.sgm_truncation or "minimum"], crops=int(crops),
        crop=act5.crop_at_interface if crops else None, note_point=act5.keep_point_before if crops else None,
        recovery=Backtracking(rejects=act5.rejects_end) if options.backtrack else Recovery(),
    )


def read(options: Act5Options, warn: Tell) -> tuple[Path, Array, Space] | None:
    """Return what messages call the five tissues that options name, (x, y, z, 5) float32, and their grid."""
    if (files := tissue_files(options)) is None:
        return None
    return Path(str(files)), *files.read(warn)


def prepare(
    maps: Mapping[str, MapImage], anisotropy: Callable[[], Array], options: Act5Options, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of the rule.

    Parameters
    ----------
    maps : mapping
        ``act``, an :class:`tistreamlines.tracking.tables.inputs.MapImage` of five volumes.
    anisotropy : unused
        See :class:`tistreamlines.tracking.registry.StoppingRule`.
    options : Act5Options
        Options of the rule.
    sides : tuple of float, (3,)
        Sides of a voxel of the tracked image, mm.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If there is no image.
    InputError
        If the image has no white matter.
    """
    if "act" not in maps:
        raise ParameterError(f"--stopping {NAME} needs --act, or tissue fractions with {flag(FRACTIONS[0])}")
    if not maps["act"].values[..., five_tissues.WHITES].any():
        source = tissue_files(options)
        if source is not None and len(source.files) > 1:  # tissue fractions
            raise InputError(f"{source}: leave no white matter: give each file with its own option")
        raise InputError(f"{source}: has no white matter (its third volume): give the five tissues in the order of "
                         "MRtrix3's 5TT images")
    return StopTables(rule_of(options, sides, maps["act"]))


def tissues_of(maps: Mapping[str, MapImage]) -> MapImage | None:
    """Return the fractions of white matter, grey matter and fluid, (x, y, z, 3), if they are known."""
    if "act" not in maps:
        return None
    values = maps["act"].values
    grey = values[..., 0] + values[..., 1]
    return MapImage(np.stack([values[..., five_tissues.WHITES], grey, values[..., 3]], axis=-1), maps["act"].to_grid)


def doubt(maps: Mapping[str, MapImage], anisotropy: Callable[[], Array] | None, options: Act5Options) -> str:
    """Say so if volumes seem to be exchanged, judged by how the tissues lie.

    Parameters
    ----------
    maps, anisotropy, options : as for :func:`prepare`
        See there.

    Returns
    -------
    str
        A warning, or nothing.
    """
    from .tissues import describe_exchange

    if (tissues := tissues_of(maps)) is None:
        return ""
    every = max(1, round((np.prod(tissues.values.shape[:3]) / MOST_LOOKED_AT) ** (1 / 3)))
    doubt = describe_exchange(*np.moveaxis(tissues.values[::every, ::every, ::every], -1, 0))
    return doubt and f"{tissue_files(options)}: {doubt}, so its volumes may be exchanged: give MRtrix3's order"


def with_sum(tissues: MapImage) -> MapImage:
    """Return the five tissues and their sum, which kernels look up as well."""
    values = tissues.values
    return MapImage(np.concatenate([values, values.sum(axis=-1, keepdims=True)], axis=-1), tissues.to_grid)


def plain_white(values: Array) -> npt.NDArray[np.int32]:
    """Return 1 for the voxels, (x * y * z,), around which every interpolated point lies in white matter, else 0.

    There, more than half of each of 27 voxels is white matter, and less than half anything else.

    Parameters
    ----------
    values : (x, y, z, 6)
        The five tissues and their sum.
    """
    plain = (values[..., five_tissues.WHITES] >= 0.5 + MARGIN) & (values[..., five_tissues.TISSUES] <= 1 + MARGIN / 2)
    for tissue in range(five_tissues.TISSUES):
        plain &= values[..., tissue] >= 0
    for axis in range(3):
        planes = np.moveaxis(plain, axis, 0)
        before = planes.copy()
        planes[:1] = planes[-1:] = False
        planes[1:-1] &= before[:-2] & before[2:]
    return plain.astype(np.int32).ravel()
