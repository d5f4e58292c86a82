"""DIPY's tracking functions, on any device: the names, arguments and defaults of ``dipy.tracking.tracker``.

The arguments of all functions are described at :func:`probabilistic_tracking`; those of :class:`.keywords.More` are the
only ones that DIPY does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Unpack

import numpy as np
from dipy.tracking.stopping_criterion import StoppingCriterion

from ..aliases import Array
from ..cuslines import arrays
from ..errors import ParameterError
from ..io.in_memory import unmask
from ..options.objects import Options
from ..tracking.recovery.recoveries import ParticleOptions
from . import fields, keywords
from .direction_getters import PEAKS
from .fields import Field, Peaks
from .growing import Lengths, LocalGrowth, Streamline, Streamlines, points_of
from .local_tracking import local_streamlines, spread

# lengths are nearest to EuDX's with these
ANY_PEAK: Options = {"relative_peak_threshold": 0.05, "min_separation_angle": 0.0}
UNIT = (0.99, 1.01)  # lengths that DIPY takes for those of unit vectors


@keywords.like_tracker
def probabilistic_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.OfPeaks]
) -> Iterator[Streamline]:
    """Draw each direction by its probability, as DIPY's ``probabilistic_tracking``.

    Parameters
    ----------
    seed_positions : ndarray, (n, 3)
        Seeds in the space of the affine.
    sc : StoppingCriterion
        A criterion of :mod:`tistreamlines.dipy`, or a ``BinaryStoppingCriterion``, ``ActStoppingCriterion`` or
        ``CmcStoppingCriterion`` of DIPY.
    affine : ndarray, (4, 4)
        From voxel coordinates to the space of seeds and streamlines.
    seed_directions : ndarray, (n, 3), or None
        Initial direction of each seed, a unit vector along the voxel axes. None is the highest peak at the seed.
        Functions that are DIPY's ``LocalTracking`` take (n, k, 3) of any length instead, and with None each peak.
    sh : ndarray, (x, y, z, n), or None
        Spherical harmonic coefficients along the voxel axes.
    pam : PeaksAndMetrics or None
        Peaks, instead of ``sh``: functions are 0 except at them. Seeds start along each peak of the nearest voxel.
    sf : ndarray, (x, y, z, n), or None
        Values at the vertices of ``sphere``, instead of ``sh``.
    min_len, max_len : float
        Least and greatest length, mm. They are divided by ``step_size`` and compared with the number of points, as in
        DIPY.
    step_size : float
        Step size, mm.
    voxel_size : ndarray, (3,), or None
        Sides of a voxel, mm; None is those of the affine.
    max_angle : float
        Greatest angle between two steps, degrees.
    pmf_threshold : float
        Directions with a value below this share of the greatest value are never taken.
    sphere : Sphere or None
        Sphere or hemisphere whose vertices are the directions; None is DIPY's ``default_sphere``.
    basis_type, legacy : str or None, bool
        Basis of the coefficients, as in DIPY; None is descoteaux07.
    nbr_threads : int
        CPU threads; 0 is one per core.
    random_seed : int
        RNG seed; 0 draws another one in each call.
    seed_buffer_fraction : float
        Greatest share of the seeds that are tracked at a time, which does not change the result.
    return_all : bool
        Whether streamlines are returned that do not have two valid ends.
    save_seeds : bool
        Whether to yield pairs of streamline and seed.
    **more
        ``arch``, 'auto', 'metal', 'cuda', 'amdgpu', 'vulkan' or 'cpu'; ``devices``, 'all' or numbers of GPUs as
        '0,1'; and regions of interest, ``include``, ``include_ordered``, ``exclude``, ``limit_mask``, ``ends_in`` and
        ``stop_when_included``, see :class:`tistreamlines.Parameters`. Arrays (x, y, z) of regions are on the grid of
        the data, spheres in the space of the affine.

    Returns
    -------
    iterator
        Streamlines, (m, 3) float64 in the space of the affine, or pairs of a streamline and its seed, (3,). They are
        tracked while they are taken.

    Raises
    ------
    ParameterError
        If an argument is out of bounds or not supported.
    InputError
        If an array has the wrong shape or values, or is on another grid.
    DeviceError
        If the device cannot be used.
    TypeError
        If a keyword is not one of DIPY's or of those above.

    See Also
    --------
    tistreamlines.track : Track files, with all options.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, probabilistic_tracking
    >>> sf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(probabilistic_tracking(
    ...     seeds, criterion, np.eye(4), sf=sf, sphere=default_sphere, arch="cpu"
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    return _track_threaded("prob", SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options), {})


@keywords.like_tracker
def deterministic_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.OfPeaks]
) -> Iterator[Streamline]:
    """Take the greatest value within the angle, as DIPY's ``deterministic_tracking``.

    Parameters
    ----------
    seed_positions, sc, affine, **options : as for :func:`probabilistic_tracking`
        Seeds, criterion and grid, and the same keywords.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, deterministic_tracking
    >>> sf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(deterministic_tracking(
    ...     seeds, criterion, np.eye(4), sf=sf, sphere=default_sphere, arch="cpu"
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    return _track_threaded("det", SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options), {})


@keywords.like_ptt
def ptt_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.PttTracking]
) -> Iterator[Streamline]:
    """Follow parallel transport tractography [1]_, as DIPY's ``ptt_tracking``.

    Parameters
    ----------
    seed_positions, sc, affine, **options : as for :func:`probabilistic_tracking`
        Seeds, criterion and grid, and the same keywords. In probes, ``pmf_threshold`` is absolute.
    probe_length : float
        Length of a probe, mm.
    probe_radius : float
        Radius of the circle of parallel lines that make up a probe if there are several, mm.
    probe_quality : int
        Number of points along a line of a probe.
    probe_count : int
        Number of parallel lines of a probe.
    data_support_exponent : float
        Candidates are drawn with a probability proportional to their data support to this power.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    References
    ----------
    .. [1] Aydogan DB, Shi Y. Parallel transport tractography. IEEE Trans Med Imaging 40, 2021.
        doi:10.1109/TMI.2020.3034038

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, ptt_tracking
    >>> sf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(ptt_tracking(
    ...     seeds, criterion, np.eye(4), sf=sf, sphere=default_sphere, arch="cpu"
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    probes: Options = {"probe_rule": "tracker"}
    for name in keywords.PROBE_NAMES:
        probes[name] = getattr(asked, name)
    return _track_threaded("ptt", asked, probes)


@keywords.like_closestpeak
def closestpeak_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Tracking]
) -> Iterator[Streamline]:
    """Take the closest peak, as DIPY's ``closestpeak_tracking``, which is its ``LocalTracking``.

    Parameters
    ----------
    seed_positions, sc, affine, **options : as for :func:`probabilistic_tracking`
        Seeds, criterion and grid, and the same keywords without ``pam``. Bounds of length hold only if not
        ``return_all``, and ``voxel_size`` is not used, as in DIPY.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, closestpeak_tracking
    >>> sf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(closestpeak_tracking(
    ...     seeds, criterion, np.eye(4), sf=sf, sphere=default_sphere, arch="cpu"
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    return _locally(_field("det", asked, {**PEAKS, "det_rule": "closest"}), asked)


@keywords.like_bootstrap
def bootstrap_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Bootstrap]
) -> Iterator[Streamline]:
    """Follow peaks of a residual bootstrap [1]_, as DIPY's ``bootstrap_tracking``, which is its ``LocalTracking``.

    Parameters
    ----------
    seed_positions, sc, affine, **options : as for :func:`probabilistic_tracking`
        Seeds, criterion and grid, and the same keywords without ``pam``. Bounds of length hold only if not
        ``return_all``. As in DIPY, ``sh``, ``sf``, ``sphere``, ``voxel_size`` and ``pmf_threshold`` are not used.
    data : ndarray, (x, y, z, n)
        Diffusion series with b0s and one shell.
    model : OpdtModel or CsaOdfModel
        Model of DIPY, of order 4, made with the gradient table of the series.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    References
    ----------
    .. [1] Berman JI, Chung S, Mukherjee P, Hess CP, Han ET, Henry RG. Probabilistic streamline q-ball tractography
        using the residual bootstrap. NeuroImage 39, 2008. doi:10.1016/j.neuroimage.2007.08.021

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.core.gradients import gradient_table
    >>> from dipy.data import default_sphere
    >>> from dipy.reconst.shm import CsaOdfModel
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, bootstrap_tracking
    >>> bvecs = np.concatenate([np.zeros((1, 3)), default_sphere.vertices[:60]])
    >>> gtab = gradient_table(np.repeat([0.0, 1000.0], [1, 60]), bvecs=bvecs)
    >>> signal = 100 * np.exp(-gtab.bvals * (3e-4 + 1.4e-3 * bvecs[:, 0] ** 2))  # of a fibre along x
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(bootstrap_tracking(
    ...     seeds, criterion, np.eye(4), data=np.tile(signal, (20, 5, 5, 1)), model=CsaOdfModel(gtab, 4), arch="cpu"
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    if asked.data is None or asked.model is None:
        raise ParameterError("data or model is missing: give the diffusion series and DIPY's OpdtModel or CsaOdfModel")
    return _locally(fields.of_model(asked.data, asked.model, None, 0, {**PEAKS, "max_angle": asked.max_angle}), asked)


@keywords.like_pft
def pft_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Pft]
) -> Iterator[Streamline]:
    """Track with a particle filter [1]_, as DIPY's ``pft_tracking``, which is its ``ParticleFilteringTracking``.

    Parameters
    ----------
    seed_positions, affine, **options : as for :func:`probabilistic_tracking`
        Seeds and grid, and the same keywords.
    sc : ActStoppingCriterion or CmcStoppingCriterion
        Criterion of tissues, of this package or of DIPY.
    max_cross : int or None
        Greatest number of peaks of a seed that are followed. None is all.
    pft_back_tracking_dist : float
        How far a streamline that ends invalidly goes back before particles are sent out, mm.
    pft_front_tracking_dist : float
        How far particles go beyond the point where the streamline ended, mm.
    pft_max_trial : int
        How often particles are sent out on each side of a seed, at most.
    particle_count : int
        Number of particles.
    min_wm_pve_before_stopping : float
        Share of white matter, 0 to 1, that a streamline must meet before it may end.
    unidirectional : bool
        Whether streamlines grow only along the initial direction.
    randomize_forward_direction : bool
        Whether the initial direction is turned round at random, if ``unidirectional``.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    References
    ----------
    .. [1] Girard G, Whittingstall K, Deriche R, Descoteaux M. Towards quantitative connectivity analysis: reducing
        tractography biases. NeuroImage 98, 2014. doi:10.1016/j.neuroimage.2014.04.074

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from tistreamlines.dipy import ActStoppingCriterion, pft_tracking
    >>> sf = np.tile(default_sphere.vertices[:, 0] ** 20, (20, 5, 5, 1))  # fibres along x
    >>> grey = np.zeros((20, 5, 5))
    >>> grey[[0, -1]] = 1  # at both ends
    >>> streamlines = list(pft_tracking(
    ...     np.array([[10, 2, 2]]), ActStoppingCriterion(grey, np.zeros_like(grey)), np.eye(4), sf=sf,
    ...     sphere=default_sphere, arch="cpu",
    ... ))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    if asked.pam is not None:
        _check_alone(asked)
        asked.sh = fields.coefficients_of(asked.pam)
    particles = ParticleOptions(
        True, asked.pft_back_tracking_dist, asked.pft_front_tracking_dist, asked.particle_count, asked.pft_max_trial,
        asked.min_wm_pve_before_stopping,
    )
    return _locally(_field("prob", asked, PEAKS), asked, particles)


@keywords.like_eudx
def eudx_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Eudx]
) -> Iterator[Streamline]:
    """Follow the closest peaks, nearly as DIPY's ``eudx_tracking``.

    DIPY averages the closest peaks of the eight voxels around a point; here they are lobes of a function, whose closest
    peak is a vertex of the sphere.

    Parameters
    ----------
    seed_positions, sc, affine, **options : as for :func:`probabilistic_tracking`
        Seeds, criterion and grid, and the same keywords. ``pam`` is required, and its peaks of at most
        ``pmf_threshold`` are left out. As in DIPY, ``sh``, ``sf``, ``basis_type`` and ``legacy`` are not used.
    max_cross : int or None
        Greatest number of peaks of a seed that are followed. None is all.

    Returns
    -------
    iterator
        As for :func:`probabilistic_tracking`.

    Raises
    ------
    ParameterError, InputError, DeviceError
        As for :func:`probabilistic_tracking`.

    Examples
    --------
    >>> import numpy as np
    >>> from dipy.data import default_sphere
    >>> from dipy.direction.peaks import PeaksAndMetrics
    >>> from tistreamlines.dipy import ThresholdStoppingCriterion, eudx_tracking
    >>> nearest = int(np.argmax(default_sphere.vertices[:, 0]))  # the vertex that is nearest to x
    >>> pam = PeaksAndMetrics()
    >>> pam.sphere = default_sphere
    >>> pam.peak_dirs = np.tile(default_sphere.vertices[nearest], (20, 5, 5, 1, 1))
    >>> pam.peak_values = np.ones((20, 5, 5, 1))
    >>> pam.peak_indices = np.full((20, 5, 5, 1), nearest)
    >>> criterion, seeds = ThresholdStoppingCriterion(np.ones((20, 5, 5)), 0.2), np.array([[10, 2, 2]])
    >>> streamlines = list(eudx_tracking(seeds, criterion, np.eye(4), pam=pam, arch="cpu"))
    >>> len(streamlines), streamlines[0].shape[1]
    (1, 3)
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    if asked.pam is None:
        raise ParameterError("pam is missing: give DIPY's PeaksAndMetrics, of which EuDX follows the peaks")
    peaks = Peaks.of(asked.pam, asked.sphere)
    followed: Options = {**ANY_PEAK, "max_angle": asked.max_angle, "pmf_threshold": 0.0, "max_directions": 1}
    return _track_field(fields.of_lobes(peaks.above(asked.pmf_threshold), followed), asked, peaks, asked.max_cross)


def _field(dg: str, asked: SimpleNamespace, options: Options) -> Field:
    """Return what a getter follows, from coefficients or from samples on a sphere."""
    options = {"max_angle": asked.max_angle, "pmf_threshold": asked.pmf_threshold, **options}
    return fields.of_functions(dg, asked.sh, asked.sf, asked.sphere, asked.basis_type, asked.legacy, options)


def _track_threaded(dg: str, asked: SimpleNamespace, options: Options) -> Iterator[Streamline]:
    """Track as DIPY's ``generic_tracking``: along the highest peak of a seed, or along its direction."""
    options = {**options, "max_angle": asked.max_angle, "pmf_threshold": asked.pmf_threshold, "max_directions": 1}
    if asked.pam is None:
        return _track_field(_field(dg, asked, options), asked)
    _check_alone(asked)
    peaks = Peaks.of(asked.pam, asked.sphere)
    return _track_field(fields.of_peaks(dg, peaks, options), asked, peaks)


def _track_field(
    field: Field, asked: SimpleNamespace, peaks: Peaks | None = None, max_cross: int | None = None
) -> Iterator[Streamline]:
    """Track what a getter follows; with ``peaks``, seeds without a direction start along those of their voxel."""
    space = arrays.grid(asked.affine, field.shape, regular=False)
    seeds = arrays.check_seeds("seed_positions", asked.seed_positions, space, "rasmm")
    directions = asked.seed_directions
    if directions is not None:
        seeds, directions = _with_unit_vectors(seeds, directions)
    elif peaks is not None:
        seeds, directions = spread(seeds, peaks.at(space.to_voxel(seeds)), max_cross)
    lengths = Lengths.of_tracker(*points_of(asked.step_size, asked.min_len, asked.max_len), asked.return_all)
    return iter(Streamlines(field, asked.sc, seeds, space, LocalGrowth.of(asked, lengths), directions))


def _check_alone(asked: SimpleNamespace) -> None:
    """Raise a ParameterError if another source is given beside ``pam``."""
    for name in ("sh", "sf"):
        if getattr(asked, name) is not None:
            raise ParameterError(f"{name} and pam given: give one of sh, sf and pam")


def _locally(field: Field, asked: SimpleNamespace, particles: ParticleOptions | None = None) -> Iterator[Streamline]:
    """Track as DIPY's functions that use its ``LocalTracking``, whose bounds of length are numbers of points."""
    lengths = Lengths.of_local(*points_of(asked.step_size, asked.min_len, asked.max_len), asked.return_all)
    growth = replace(LocalGrowth.of(asked, lengths, particles), voxel_size=None)
    return iter(local_streamlines(
        field, asked.sc, asked.seed_positions, asked.affine, growth, initial_directions=asked.seed_directions,
        max_cross=getattr(asked, "max_cross", None), name="seed_positions",
    ))


def _with_unit_vectors(seeds: Array, directions: Array) -> tuple[Array, Array]:
    """Return the seeds (m, 3) whose direction is a unit vector, and these (m, 3); DIPY tracks no others."""
    vectors = np.asarray(unmask("seed_directions", directions), np.float64)
    if vectors.shape != seeds.shape:
        raise ParameterError(f"seed_directions has the shape {vectors.shape}: give a unit vector a seed, {seeds.shape}")
    norms = np.linalg.norm(vectors, axis=1)
    unit = (norms >= UNIT[0]) & (norms <= UNIT[1])
    return seeds[unit], vectors[unit] / norms[unit, None]
