"""DIPY's stopping criteria, which also keep their maps, and the tables that are made of them.

DIPY's objects do not give their maps away. Those of its binary, ACT and CMC criteria can still be read exactly, at the
centre of each voxel. A ``ThresholdStoppingCriterion`` only tells on which side of the threshold its map is, so it has
to be made with the class of this module. These classes are used like DIPY's, and by DIPY's functions too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import dipy.tracking.stopping_criterion as dipys
import numpy as np
import numpy.typing as npt
from dipy.tracking.stopping_criterion import StoppingCriterion, StreamlineStatus

from ..aliases import Array
from ..cuslines.arrays import volume
from ..errors import InputError, ParameterError
from ..tracking.recovery.recoveries import ParticleOptions
from ..tracking.stopping import anatomy, threshold
from ..tracking.tables.inputs import StopTables

WANTED = "an array (x, y, z)"
HALF, SURE = 0.5, 0.45  # share of white matter at which an exponent shows best, and how far from it it still shows
DRAWS, ERRORS = 20_000, 5.0  # of a criterion that draws random numbers, and standard errors that are tolerated


class ThresholdStoppingCriterion(dipys.ThresholdStoppingCriterion):
    """DIPY's ``ThresholdStoppingCriterion``: streamlines continue where the interpolated map is above a threshold.

    Parameters
    ----------
    metric_map : ndarray, (x, y, z)
        Map on the grid of the data, e.g. FA.
    threshold : float
        Threshold, in the unit of the map.

    Examples
    --------
    >>> import numpy as np
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion
    >>> criterion = ThresholdStoppingCriterion(np.full((20, 5, 5), 0.4), 0.2)
    >>> criterion.check_point(np.array([10.0, 2, 2])).name  # in voxel coordinates, as in DIPY
    'TRACKPOINT'
    """

    def __init__(self, metric_map: Array, threshold: float) -> None:
        self.metric_map, self.threshold = metric_map, float(threshold)


class BinaryStoppingCriterion(dipys.BinaryStoppingCriterion):
    """DIPY's ``BinaryStoppingCriterion``: streamlines continue where the nearest voxel of a mask is above 0.

    Parameters
    ----------
    mask : ndarray, (x, y, z)
        Mask on the grid of the data.

    Examples
    --------
    >>> import numpy as np
    >>> from tistreamlines.dipy import BinaryStoppingCriterion
    >>> mask = np.zeros((20, 5, 5), bool)
    >>> mask[2:18] = True
    >>> BinaryStoppingCriterion(mask).check_point(np.array([1.0, 2, 2])).name
    'ENDPOINT'
    """

    def __init__(self, mask: Array) -> None:
        self.mask = mask


class ActStoppingCriterion(dipys.ActStoppingCriterion):
    """DIPY's ``ActStoppingCriterion``, of anatomically constrained tractography [1]_.

    ``from_pve`` makes it of fractions of white matter, grey matter and cerebrospinal fluid, as in DIPY.

    Parameters
    ----------
    include_map : ndarray, (x, y, z)
        Share of each voxel where streamlines may end, 0 to 1: grey matter, and the background.
    exclude_map : ndarray, (x, y, z)
        Share of each voxel where streamlines must not end, 0 to 1: cerebrospinal fluid.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. Anatomically-constrained tractography: improved diffusion MRI
        streamlines tractography through effective use of anatomical information. NeuroImage 62, 2012.
        doi:10.1016/j.neuroimage.2012.06.005

    Examples
    --------
    >>> import numpy as np
    >>> from tistreamlines.dipy import ActStoppingCriterion
    >>> grey, fluid = np.zeros((20, 5, 5)), np.zeros((20, 5, 5))
    >>> grey[[0, -1]] = 1
    >>> ActStoppingCriterion(grey, fluid).check_point(np.array([0.0, 2, 2])).name
    'ENDPOINT'
    """

    def __init__(self, include_map: Array, exclude_map: Array) -> None:
        self.include_map, self.exclude_map = include_map, exclude_map


class CmcStoppingCriterion(dipys.CmcStoppingCriterion):
    """DIPY's ``CmcStoppingCriterion``, the continuous map criterion [1]_: streamlines end at random.

    ``from_pve`` makes it of fractions of white matter, grey matter and cerebrospinal fluid, as in DIPY.

    Parameters
    ----------
    include_map, exclude_map : ndarray, (x, y, z)
        As for :class:`ActStoppingCriterion`.
    step_size : float
        Step size, mm.
    average_voxel_size : float
        Mean side of a voxel, mm.

    References
    ----------
    .. [1] Girard G, Whittingstall K, Deriche R, Descoteaux M. Towards quantitative connectivity analysis: reducing
        tractography biases. NeuroImage 98, 2014. doi:10.1016/j.neuroimage.2014.04.074

    Examples
    --------
    >>> import numpy as np
    >>> from tistreamlines.dipy import CmcStoppingCriterion
    >>> grey, fluid = np.zeros((20, 5, 5)), np.zeros((20, 5, 5))
    >>> criterion = CmcStoppingCriterion(grey, fluid, step_size=0.5, average_voxel_size=2.0)
    >>> criterion.check_point(np.array([10.0, 2, 2])).name  # white matter alone
    'TRACKPOINT'
    """

    def __init__(self, include_map: Array, exclude_map: Array, step_size: float, average_voxel_size: float) -> None:
        self.include_map, self.exclude_map = include_map, exclude_map
        self.step_size, self.average_voxel_size = float(step_size), float(average_voxel_size)


@dataclass(frozen=True, repr=False, eq=False)
class CriterionOptions(anatomy.AnatomyOptions):
    """The options of a run that the rules of tissues read; maps are those of DIPY's criteria.

    Parameters
    ----------
    stopping : str
        Name of the rule.
    step_size : float
        Step size, mm.
    """

    include_map: str = "include_map"
    exclude_map: str = "exclude_map"
    stopping: str = "act"
    step_size: float = 1.0

    def step_mm(self, _: object) -> float:
        """Return the step size, mm."""
        return self.step_size


def tables_of(
    sc: StoppingCriterion, shape: tuple[int, ...], step_size: float = 1.0, particles: ParticleOptions | None = None,
    sides: tuple[float, ...] = (),
) -> StopTables:
    """Return the tables of a criterion.

    Parameters
    ----------
    sc : StoppingCriterion
        A criterion of this module, or a binary, ACT or CMC criterion of DIPY.
    shape : tuple of int
        Number of voxels of the data along each axis.
    step_size : float
        Step size, mm.
    particles : ParticleOptions, optional
        Options of particle filtering.
    sides : tuple of float
        Sides of a voxel, mm, for a CMC criterion of DIPY.

    Returns
    -------
    StopTables
        The tables.

    Raises
    ------
    ParameterError
        If the maps of the criterion cannot be known, or if it does not go with particle filtering.
    InputError
        If they are not on the grid of the data, or have no place where streamlines could continue.
    """
    if particles is not None and not isinstance(sc, dipys.ActStoppingCriterion | dipys.CmcStoppingCriterion):
        raise ParameterError(f"sc is of the kind {type(sc).__name__}: particle filtering needs an Act or Cmc criterion")
    if isinstance(sc, ThresholdStoppingCriterion):
        return threshold.of_map(_map(sc, "metric_map", shape), sc.threshold)
    if isinstance(sc, dipys.BinaryStoppingCriterion):
        mask = _map(sc, "mask", shape) if isinstance(sc, BinaryStoppingCriterion) else _read_mask(sc, shape)
        options = threshold.BinaryOptions(stop_mask="the mask of the BinaryStoppingCriterion")
        return threshold.prepare_binary({"stop_mask": mask}, _no_fa, options, ())
    if isinstance(sc, ActStoppingCriterion | CmcStoppingCriterion):
        maps = {name: _map(sc, name, shape) for name in anatomy.INCLUDED}
    elif isinstance(sc, dipys.ActStoppingCriterion | dipys.CmcStoppingCriterion):
        maps = _read_tissues(sc, shape)
    else:
        raise _unknown(sc)
    options = CriterionOptions(step_size=step_size, **vars(particles or ParticleOptions()))
    if isinstance(sc, dipys.ActStoppingCriterion):
        return anatomy.prepare_act(maps, _no_fa, options, ())
    options = replace(options, stopping="cmc")
    if not isinstance(sc, CmcStoppingCriterion):
        _check_exponent(sc, maps, step_size / float(np.mean(sides)))
    elif particles is not None and sc.step_size != step_size:
        raise ParameterError(f"sc has step_size {sc.step_size:g}, but step_size is {step_size:g}: give one size")
    else:
        options, sides = replace(options, step_size=sc.step_size), (sc.average_voxel_size,)
    return anatomy.prepare_cmc(maps, _no_fa, options, sides)


def _no_fa() -> Array:
    raise AssertionError("a rule with maps of its own needs no FA")


def _map(sc: StoppingCriterion, name: str, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Return a map that a criterion of this module has kept."""
    values = volume(name, getattr(sc, name), 3, WANTED)
    if values.shape != tuple(shape):
        raise InputError(f"{name} of sc has {values.shape} voxels, but the data have {tuple(shape)}: give one grid")
    return values


def _read_mask(sc: dipys.BinaryStoppingCriterion, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """Ask a criterion about the centre of each voxel, which tells its mask."""
    _check_grid(sc, shape)
    inside = [sc.check_point(voxel) == StreamlineStatus.TRACKPOINT for voxel in _centres(shape)]
    return np.reshape(inside, shape).astype(np.float32)


def _read_tissues(sc: dipys.AnatomicalStoppingCriterion, shape: tuple[int, ...]) -> dict[str, npt.NDArray[np.float32]]:
    """Ask a criterion for its maps at the centre of each voxel, where interpolation returns their values."""
    _check_grid(sc, shape)
    share_at = dict(zip(anatomy.INCLUDED, (sc.get_include, sc.get_exclude), strict=True))
    centres = _centres(shape)
    return {
        name: volume(name, np.reshape([share(centre) for centre in centres], shape), 3, WANTED)
        for name, share in share_at.items()
    }


def _check_exponent(sc: dipys.CmcStoppingCriterion, maps: Mapping[str, Array], exponent: float) -> None:
    """Check by draws that a criterion was made with the sizes of a step and of a voxel with which it is used.

    DIPY goes on at a point with the probability (share of white matter) ** (step size / voxel size), and keeps the two
    sizes to itself.
    """
    white = 1 - np.sum([maps[name] for name in anatomy.INCLUDED], axis=0)
    voxel = np.unravel_index(np.argmin(np.abs(white - HALF)), white.shape)
    if not abs(white[voxel] - HALF) < SURE:
        return  # where voxels are of one tissue, the exponent changes little
    point = np.array(voxel, np.float64)
    goes_on = np.mean([sc.check_point(point) == StreamlineStatus.TRACKPOINT for _ in range(DRAWS)])
    expected = float(white[voxel]) ** exponent
    if abs(goes_on - expected) > ERRORS * np.sqrt(expected * (1 - expected) / DRAWS):
        drawn = np.log(max(goes_on, 1 / DRAWS)) / np.log(white[voxel])
        raise ParameterError(
            f"sc was made with a step_size of about {drawn:.2g} times its average_voxel_size, but is used with "
            f"{exponent:.2g}: make it with step_size and average_voxel_size of the tracking"
        )


def _centres(shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Return the centres of all voxels, (n, 3), voxel."""
    return np.indices(shape, np.float64).reshape(3, -1).T.copy()


def _check_grid(sc: StoppingCriterion, shape: tuple[int, ...]) -> None:
    """Check that the last voxel of the data is in a criterion's maps, and the one beyond it along each axis is not."""
    last = np.array(shape, np.float64) - 1
    beyond = [sc.check_point(last + axis) == StreamlineStatus.OUTSIDEIMAGE for axis in np.eye(3)]
    if sc.check_point(last) == StreamlineStatus.OUTSIDEIMAGE or not all(beyond):
        raise InputError(f"the maps of sc do not have the {tuple(shape)} voxels of the data: give one grid")


def _unknown(sc: StoppingCriterion) -> ParameterError:
    """Return the error of a criterion whose maps cannot be known."""
    kind = type(sc).__name__
    if isinstance(sc, dipys.ThresholdStoppingCriterion):
        return ParameterError(
            f"sc is DIPY's {kind}, whose map cannot be read: make it with "
            "tistreamlines.dipy.ThresholdStoppingCriterion, which takes the same arguments"
        )
    known = "ThresholdStoppingCriterion, BinaryStoppingCriterion, ActStoppingCriterion or CmcStoppingCriterion"
    return ParameterError(f"sc is of the kind {kind}: give an instance of tistreamlines.dipy's {known}")
