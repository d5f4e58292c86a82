"""The shells of a series: which volumes have about the same b-value, and which of them are fitted.

b-values of a shell differ, since imaging gradients add to those of diffusion, and since their gradients' lengths are
rounded. They are clustered as in MRtrix3, by density (DBSCAN).

References
----------
Ester, Kriegel, Sander, Xu. A density-based algorithm for discovering clusters in large spatial databases with noise.
Proceedings of KDD-96, 1996.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Json
from ..errors import InputError, ParameterError
from ..io.nifti import Dwi
from ..option import flag
from ..space.encoding import B0_THRESHOLD, select_volumes

Volumes = npt.NDArray[np.bool_]
# s/mm2, below which two b-values are neighbours, and neighbours that a b-value needs, itself included; MRtrix3's
NEIGHBOUR, LINKAGE = 80.0, 3
ASKED = 50  # s/mm2 that a b-value of --shells may be from the mean of its shell
WIDE = 0.25  # of the mean b-value of a shell, beyond which a note names the range of its b-values
HIGHEST = 3500.0  # s/mm2, up to which a model takes the highest shell
ENOUGH = 28  # directions that a shell needs to be preferred: they determine harmonics of order 6
NEAR, FEWEST = 1000.0, 6  # s/mm2 for which the diffusion tensor holds well, and the directions that it needs


def shells(gtab: GradientTable) -> list[Volumes]:
    """Return the volumes (n,) of each shell, from the lowest b-value on; a few stray ones may be in none.

    A b-value with LINKAGE neighbours or more is in one shell with all of them. If none has so many, all are in shells.
    """
    weighted = ~np.asarray(gtab.b0s_mask)
    bvals: Array = np.round(np.asarray(gtab.bvals, np.float64), 6)  # DIPY's have rounding errors
    if not weighted.any():
        return []
    return clusters(bvals, weighted)


def clusters(bvals: Array, weighted: Volumes) -> list[Volumes]:
    """Return the volumes (n,) of each shell among the ``weighted`` ones."""
    known = np.sort(bvals[weighted])
    linked = np.searchsorted(known, known + NEIGHBOUR) - np.searchsorted(known, known - NEIGHBOUR, side="right")
    core = known[linked >= LINKAGE] if (linked >= LINKAGE).any() else known
    cluster = np.cumsum(np.diff(core, prepend=core[:1]) >= NEIGHBOUR)
    after = np.clip(np.searchsorted(core, bvals), 1, max(len(core) - 1, 1))
    nearest = np.where(bvals - core[after - 1] <= core[after % len(core)] - bvals, after - 1, after % len(core))
    inside = weighted & (np.abs(bvals - core[nearest]) < NEIGHBOUR)
    return [inside & (cluster[nearest] == number) for number in range(cluster[-1] + 1)]


def b_value(gtab: GradientTable, volumes: Volumes) -> float:
    """Return the mean b-value of some volumes, s/mm2."""
    return float(gtab.bvals[volumes].mean())


def shell_of_models(gtab: GradientTable) -> Volumes:
    """Return the volumes (n,) of the shell that orientation models are fitted to.

    It is the one of the highest b-value up to HIGHEST among those with ENOUGH directions, since these separate crossing
    fibres best (``docs/truth.md``). If there is none, it is the one with the most directions.
    """
    able = [shell for shell in shells(gtab) if shell.sum() >= ENOUGH] or [max(shells(gtab), key=np.sum)]
    low = [shell for shell in able if b_value(gtab, shell) <= HIGHEST]
    return low[-1] if low else able[0]


def shells_of_csd(gtab: GradientTable) -> list[Volumes]:
    """Return the volumes (n,) of each shell to which csd is fitted, from the lowest b-value to that of models.

    An inner shell of few directions is left out.
    """
    outermost = shell_of_models(gtab)
    highest = b_value(gtab, outermost)
    inner = [shell for shell in shells(gtab) if shell.sum() >= FEWEST and b_value(gtab, shell) < highest]
    return [*inner, outermost]


def volumes_of_csd(gtab: GradientTable) -> Volumes:
    """Return the volumes (n,) of all shells to which csd is fitted."""
    return np.logical_or.reduce(shells_of_csd(gtab))


def shell_of_tensor(gtab: GradientTable) -> Volumes:
    """Return the volumes (n,) of the shell for FA: the nearest to NEAR among those with FEWEST directions or more."""
    able = [shell for shell in shells(gtab) if shell.sum() >= FEWEST]
    nearest = min(able, key=lambda shell: abs(b_value(gtab, shell) - NEAR), default=None)
    return np.logical_or.reduce(shells(gtab)) if nearest is None else nearest


def on_shell(
    data: Array, gtab: GradientTable, choose: Callable[[GradientTable], Volumes]
) -> tuple[Array, GradientTable]:
    """Select the b0s and one shell.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals.
    gtab : dipy.core.gradients.GradientTable
        Gradients of the n volumes, in any order.
    choose : callable
        Returns the volumes of the shell, e.g. :func:`shell_of_models`.

    Returns
    -------
    data : (x, y, z, m)
        The selected volumes in their order; the same array if all are selected.
    gtab : dipy.core.gradients.GradientTable
        Gradients of these volumes, with the same b0 threshold.

    Raises
    ------
    InputError
        If all volumes are b0s.
    """
    gtab, keep = gradients_on_shell(gtab, choose)
    return data if keep.all() else data[..., keep], gtab


def gradients_on_shell(
    gtab: GradientTable, choose: Callable[[GradientTable], Volumes]
) -> tuple[GradientTable, Volumes]:
    """Return the gradients of the b0s and one shell, and the volumes (n,) that these are; see :func:`on_shell`."""
    if np.asarray(gtab.b0s_mask).all():
        raise InputError("all volumes are b0s: give a diffusion-weighted series")
    return _select(gtab, choose(gtab) | np.asarray(gtab.b0s_mask))


def _select(gtab: GradientTable, keep: Volumes) -> tuple[GradientTable, Volumes]:
    return (gtab if keep.all() else select_volumes(gtab, keep)), keep


def only_shells(dwi: Dwi, wanted: str | float | Sequence[float]) -> Dwi:
    """Leave out the volumes of other shells.

    Parameters
    ----------
    dwi : Dwi
        The series.
    wanted : str, float or sequence of float
        b-values of shells, s/mm2.

    Raises
    ------
    InputError
        If no volume has such a b-value.
    """
    gtab, keep = gradients_only(dwi.gtab, wanted, dwi.path)
    return replace(dwi, data=dwi.data if keep.all() else dwi.data[..., keep], gtab=gtab)


def gradients_only(
    gtab: GradientTable, wanted: str | float | Sequence[float], path: Path
) -> tuple[GradientTable, Volumes]:
    """Return the gradients of the b0s and some shells, and the volumes (n,) that these are; see :func:`only_shells`."""
    keep, known = np.asarray(gtab.b0s_mask).copy(), shells(gtab)
    for bval in map(float, b_values_of(wanted).split(",")):
        near = [shell for shell in known if _is_asked(gtab, shell, bval)]
        if not near:
            names = ", ".join(f"{b_value(gtab, shell):.0f} ({shell.sum()} volumes)" for shell in known)
            raise InputError(
                f"{path}: {flag('shells')} has {bval:g}, but the shells are {names}: give one or more of these"
            )
        keep |= np.logical_or.reduce(near)
    return _select(gtab, keep)


def _is_asked(gtab: GradientTable, volumes: Volumes, bval: float) -> bool:
    """Return whether a b-value is among those of a shell, or near their mean."""
    bvals = gtab.bvals[volumes]
    return bool(bvals.min() <= bval <= bvals.max() or abs(bvals.mean() - bval) <= ASKED)


def stray_volumes(gtab: GradientTable, known: Sequence[Volumes]) -> list[str]:
    """Return a sentence about the volumes that are in none of the shells, b = 0 included; none if there are no such."""
    stray = np.flatnonzero(~np.logical_or.reduce(known))
    if not len(stray):
        return []
    first = int(stray[0])
    return [
        f"{len(stray)} {'volumes are' if len(stray) > 1 else 'volume is'} in no shell and not fitted (first: volume "
        f"{first} of b = {gtab.bvals[first]:g}, with fewer than {LINKAGE} b-values within {NEIGHBOUR:g})"
    ]


def doubts(gtab: GradientTable) -> list[str]:
    """Return sentences about volumes that are in no shell, and about shells whose b-values differ much."""
    known = shells(gtab)
    sentences = stray_volumes(gtab, [np.asarray(gtab.b0s_mask), *known])
    for bvals in (gtab.bvals[volumes] for volumes in known):
        if np.ptp(bvals) > WIDE * bvals.mean():
            sentences.append(
                f"{len(bvals)} volumes of b = {bvals.min():g} to {bvals.max():g} follow each other so closely that "
                "they count as one shell; fits to them are not those of one b-value"
            )
    return sentences


def b_values_of(value: str | float | Sequence[float]) -> str:
    """Return b-values as text such as '1000,3000'.

    Raises
    ------
    ParameterError
        If a value is no number, or none is that of a shell: b0s are used in any case.
    """
    parts = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    try:
        numbers = [float(part) for part in parts]
    except (TypeError, ValueError):
        numbers = []
    weighted = sorted({number for number in numbers if number > B0_THRESHOLD})
    if not weighted or not all(0 <= number < np.inf for number in numbers):
        raise ParameterError(
            f"{flag('shells')} is {value!r}: give b-values of shells in s/mm2, e.g. 1000,3000; b0s are always used"
        )
    return ",".join(f"{number:g}" for number in weighted)


def b_values_record(gtab: GradientTable) -> Json:
    """Return the b-values of all shells, and of those that models and FA are fitted to, for the record."""
    return {
        "b": [round(b_value(gtab, shell), 1) for shell in shells(gtab)],
        "models": round(b_value(gtab, shell_of_models(gtab)), 1), "fa": round(b_value(gtab, shell_of_tensor(gtab)), 1),
    }
