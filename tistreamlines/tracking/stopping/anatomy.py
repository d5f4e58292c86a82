"""The stopping rules that follow tissue fractions: DIPY's ``ActStoppingCriterion`` and ``CmcStoppingCriterion``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError, ParameterError
from ...kernels.recovery.backtracking import rejects_invalid
from ...kernels.stopping import row_maps
from ...linker.lang import Func, Record
from ...option import SEEDS, ImageLike, flag, option
from ..parts import Recovery, Rule
from ..recovery.recoveries import Backtracking, BacktrackOptions, ParticleOptions, particle_filtering_of
from ..tables.inputs import MapImage, StopTables

INCLUDED = ("include_map", "exclude_map")
TISSUES = ("pve_wm", "pve_gm", "pve_csf")
MAPS = dict.fromkeys((*INCLUDED, *TISSUES), 0) | {"pve": len(TISSUES)}  # options, and volumes of a 4-D image
OF_FIT = "fitted"  # instead of an image of fractions: the tissues of the model that is fitted
TOLERANCE = 1e-3  # of fractions and their sums


@dataclass(frozen=True, repr=False, eq=False)
class TissueOptions:
    """Options of tissue fractions, also of five tissues."""

    pve_wm: ImageLike | None = option(
        None, SEEDS, "Share of white matter in each voxel. A voxel without any tissue is background, where streamlines "
        "may end.", unit="FILE", absent="none", requires=TISSUES[1:], common=True,
    )
    pve_gm: ImageLike | None = option(
        None, SEEDS, "Share of grey matter in each voxel.", unit="FILE", absent="none",
        requires=(TISSUES[0], TISSUES[2]), common=True,
    )
    pve_csf: ImageLike | None = option(
        None, SEEDS, "Share of cerebrospinal fluid.", unit="FILE", absent="none", requires=TISSUES[:2],
        common=True,
    )


@dataclass(frozen=True, repr=False, eq=False)
class FractionOptions(TissueOptions):
    """Options of the maps of both rules."""

    include_map: ImageLike | None = option(
        None, SEEDS, "Share of each voxel where streamlines may end: grey matter, and the background.", unit="FILE",
        absent="made of the tissue fractions", requires=("exclude_map",), excludes=(*TISSUES, "pve"),
    )
    exclude_map: ImageLike | None = option(
        None, SEEDS, "Share of each voxel where streamlines must not end: cerebrospinal fluid.", unit="FILE",
        absent="made of the tissue fractions", requires=("include_map",), excludes=(*TISSUES, "pve"),
    )
    pve: ImageLike | None = option(
        None, SEEDS, "Tissue fractions in one 4-D image of three volumes: white matter, grey matter, cerebrospinal "
        "fluid. The files of FSL's FAST have the opposite order. With fitted, these are the tissues that --model msmt "
        "fits in the same run.", unit="FILE", absent="none", excludes=TISSUES, words=(OF_FIT,),
    )


@dataclass(frozen=True, repr=False, eq=False)
class AnatomyOptions(BacktrackOptions, ParticleOptions, FractionOptions):
    """Options of both rules, a part of :class:`tistreamlines.Parameters`."""


def act_of(options: Any, sides: tuple[float, ...]) -> Rule:
    """Return the rule of ACT, from its options and the step size, and the sides of a voxel, mm."""
    return _rule(row_maps.Act(), row_maps.classify_act, options, sides)


def cmc_of(options: Any, sides: tuple[float, ...]) -> Rule:
    """Return the rule of CMC, as :func:`act_of` does that of ACT."""
    exponent = options.step_mm(sides) / float(np.mean(sides))
    return _rule(row_maps.Cmc(exponent=exponent), row_maps.classify_cmc, options, sides)


def _rule(record: Record, classify: Func, options: Any, sides: tuple[float, ...]) -> Rule:
    recovery = Backtracking(rejects=rejects_invalid) if options.backtrack else Recovery()
    if options.pft:
        recovery = particle_filtering_of(options, options.step_mm(sides))
    return Rule(stopping=record, classify=classify, recovery=recovery)


def prepare_act(
    maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: Any, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of ACT.

    Parameters
    ----------
    maps : mapping
        ``include_map`` and ``exclude_map``, or ``pve_wm``, ``pve_gm`` and ``pve_csf``, each an ndarray (x, y, z); or
        ``pve``, (x, y, z, 3).
    anisotropy : unused
        See :class:`tistreamlines.tracking.registry.StoppingRule`.
    options : AnatomyOptions
        Options of the rule, and the step size.
    sides : tuple of float
        Sides of a voxel, mm.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If maps are missing.
    InputError
        If the maps are no fractions, or if streamlines can go on nowhere.
    """
    both = _include_exclude(maps, options)
    # a point where the interpolated map is at most this has a voxel beside it where the map is
    alive = both[..., 0] <= row_maps.MOST
    if options.pft and options.pft_min_wm > 0:  # a half goes on to meet white matter
        alive |= both.sum(axis=-1) < 1
    return _tables(act_of(options, sides), both, alive, options)


def prepare_cmc(
    maps: Mapping[str, Array], anisotropy: Callable[[], Array], options: Any, sides: tuple[float, ...]
) -> StopTables:
    """Make the tables of CMC.

    Parameters
    ----------
    maps, anisotropy, options, sides : as for :func:`prepare_act`
        See there.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If maps are missing.
    InputError
        If the maps are no fractions, or if streamlines can go on nowhere.
    """
    both = _include_exclude(maps, options)
    alive = both.sum(axis=-1) < 1
    if options.pft:  # a particle goes on from an invalid end as long as it has weight
        alive |= both[..., 1] > 0
    return _tables(cmc_of(options, sides), both, alive, options)


def doubt(maps: Mapping[str, Array], anisotropy: Callable[[], Array] | None, options: object) -> str:
    """Say so if two maps seem to be exchanged, judged by how the tissues lie and, with a series, by FA.

    Parameters
    ----------
    maps : mapping
        As for :func:`prepare_act`.
    anisotropy : callable or None
        Fits FA, (x, y, z), which is 0 where nothing is fitted; None without a series.
    options : AnatomyOptions
        Unused.

    Returns
    -------
    str
        A warning, or nothing.
    """
    from . import tissues

    path = str(getattr(options, "pve", None))
    if "pve" in maps:
        maps, _ = _volumes(maps["pve"], path)
    cause = "the tissue fractions may be exchanged: FSL's FAST numbers fluid 0, grey matter 1 and white matter 2"
    if path == OF_FIT:
        cause = "the responses may be those of other tissues: the report of tistreamlines fod shows them"
    if all(name in maps for name in TISSUES):
        known = None if anisotropy is None else _least_anisotropic(maps, anisotropy())
        doubt = known or tissues.describe_exchange(*(maps[name] for name in TISSUES))
        return doubt and f"{doubt}, so {cause}"
    if all(name in maps for name in INCLUDED) and not tissues.exclude_in_place(*(maps[name] for name in INCLUDED)):
        return (
            f"{flag(INCLUDED[1])} lies like grey matter or background and {flag(INCLUDED[0])} like cerebrospinal "
            "fluid, so they may be exchanged"
        )
    return ""


def tissues_of(maps: Mapping[str, Array]) -> MapImage | None:
    """Return the fractions of white matter, grey matter and fluid, (x, y, z, 3), if they are known."""
    if "pve" in maps:
        return MapImage(maps["pve"], np.eye(4))
    known = [maps[name] for name in TISSUES if name in maps]
    return MapImage(np.stack(known, axis=-1), np.eye(4)) if len(known) == len(TISSUES) else None


def _least_anisotropic(maps: Mapping[str, Array], values: Array) -> str:
    """Say in which other tissue FA, (x, y, z), is greater than in white matter, or nothing."""
    from .tissues import NAMES

    means = [np.average(values, weights=maps[name] * (values > 0) + 1e-9) for name in TISSUES]
    greatest = int(np.argmax(means))
    if greatest == 0:
        return ""
    return (
        f"FA is greater in {NAMES[greatest]} ({means[greatest]:.2f} on average) than in white matter "
        f"({means[0]:.2f})"
    )


def _include_exclude(maps: Mapping[str, Array], options: Any) -> npt.NDArray[np.float32]:
    """Return the maps of DIPY's ``from_pve``, (x, y, z, 2): grey matter and background, cerebrospinal fluid."""
    paths = {name: str(getattr(options, name, None)) for name in maps}
    if "pve" in maps:
        maps, paths = _volumes(maps["pve"], paths["pve"])
    names = [name for name in (*INCLUDED, *TISSUES) if name in maps]
    if tuple(names) not in (INCLUDED, TISSUES):
        raise ParameterError(
            f"--stopping {options.stopping} needs {' and '.join(map(flag, INCLUDED))}, "
            f"or {', '.join(map(flag, TISSUES))}, or --pve"
        )
    total = np.stack([maps[name] for name in names]).sum(axis=0, dtype=np.float64)
    for name in names:
        _check(maps[name], -TOLERANCE, f"{paths[name]}: has")
    files = ", ".join(dict.fromkeys(paths[name] for name in names))
    _check(total, -np.inf, f"{files}: have a sum of")
    include, exclude = maps[names[-2]].copy(), maps[names[-1]]
    if names[0] in TISSUES:
        include[total == 0] = 1
    return np.clip(np.stack([include, exclude], axis=-1), 0, 1).astype(np.float32)


def _volumes(fractions: Array, path: str) -> tuple[dict[str, Array], dict[str, str]]:
    """Return the volumes of a 4-D image of tissue fractions as separate maps, and what messages call them."""
    maps: dict[str, Array] = dict(zip(TISSUES, np.moveaxis(fractions, -1, 0), strict=True))
    if path != OF_FIT and maps["pve_wm"].sum() < maps["pve_csf"].sum():
        raise InputError(
            f"{path}: has less white matter (first volume) than cerebrospinal fluid (third volume): order the volumes, "
            f"or give three files with {', '.join(map(flag, TISSUES))}"
        )
    return maps, {name: path for name in maps}


def _check(values: Array, low: float, whose: str) -> None:
    """Raise if a value is below ``low`` or above 1."""
    wrong = (values < low) | (values > 1 + TOLERANCE)
    if wrong.any():
        voxel = tuple(map(int, np.argwhere(wrong)[0]))
        raise InputError(
            f"{whose} {values[voxel]:.4g} at voxel {voxel}: give shares of a voxel, from 0 to 1 and together at most 1"
        )


def _tables(rule: Rule, maps: Array, alive: Array, options: Any) -> StopTables:
    if not alive.any():
        raise InputError(
            f"--stopping {options.stopping}: streamlines would end in every voxel, since the maps leave no white matter"
        )
    return StopTables(rule, maps, alive, zeros_end=False)  # where both maps are 0, there is white matter
