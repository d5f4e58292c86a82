"""DIPY's tracking functions, on any device: the names, arguments and defaults of ``dipy.tracking.tracker``.

The arguments of all functions are described at :func:`probabilistic_tracking`; those of :class:`.keywords.More` are the
only ones that DIPY does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
from dipy.tracking.stopping_criterion import StoppingCriterion

from ..aliases import Array, Unpack
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
    """
    return _track_threaded("prob", SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options), {})


@keywords.like_tracker
def deterministic_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.OfPeaks]
) -> Iterator[Streamline]:
    """Take the greatest value within the angle, as DIPY's ``deterministic_tracking``.

    The arguments are described at :func:`probabilistic_tracking`.
    """
    return _track_threaded("det", SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options), {})


@keywords.like_ptt
def ptt_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.PttTracking]
) -> Iterator[Streamline]:
    """Follow parallel transport tractography, as DIPY's ``ptt_tracking``.

    The arguments are described at :func:`probabilistic_tracking`. The length of a probe and the radius of its circle of
    lines are in mm. In probes, ``pmf_threshold`` is absolute.
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

    The arguments are described at :func:`probabilistic_tracking`. Bounds of length hold only if not ``return_all``, and
    ``voxel_size`` is not used, as in DIPY.
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    return _locally(_field("det", asked, {**PEAKS, "det_rule": "closest"}), asked)


@keywords.like_bootstrap
def bootstrap_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Bootstrap]
) -> Iterator[Streamline]:
    """Follow peaks of a residual bootstrap, as DIPY's ``bootstrap_tracking``, which is its ``LocalTracking``.

    The arguments are described at :func:`probabilistic_tracking`. ``data`` is the diffusion series (x, y, z, n) and
    ``model`` DIPY's ``OpdtModel`` or ``CsaOdfModel`` of order 4. Bounds of length hold only if not ``return_all``. As
    in DIPY, ``sh``, ``sf``, ``sphere``, ``voxel_size`` and ``pmf_threshold`` are not used.
    """
    asked = SimpleNamespace(seed_positions=seed_positions, sc=sc, affine=affine, **options)
    if asked.data is None or asked.model is None:
        raise ParameterError("data or model is missing: give the diffusion series and DIPY's OpdtModel or CsaOdfModel")
    return _locally(fields.of_model(asked.data, asked.model, None, 0, {**PEAKS, "max_angle": asked.max_angle}), asked)


@keywords.like_pft
def pft_tracking(
    seed_positions: Array, sc: StoppingCriterion, affine: Array, **options: Unpack[keywords.Pft]
) -> Iterator[Streamline]:
    """Track with a particle filter, as DIPY's ``pft_tracking``, which is its ``ParticleFilteringTracking``.

    The arguments are described at :func:`probabilistic_tracking`. The criterion must be an ``ActStoppingCriterion`` or
    a ``CmcStoppingCriterion``. Where a streamline ends invalidly, it goes back by ``pft_back_tracking_dist`` mm, and
    ``particle_count`` particles track on, to ``pft_front_tracking_dist`` mm beyond that point, at most
    ``pft_max_trial`` times on each side of the seed. ``min_wm_pve_before_stopping`` is the share of white matter that
    it must meet before it may end. ``max_cross`` is the greatest number of peaks of a seed that are followed.
    Streamlines go along the initial direction only if ``unidirectional``, in one sense at random if
    ``randomize_forward_direction``.
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

    The arguments are described at :func:`probabilistic_tracking`. ``pam`` is required; peaks of at most
    ``pmf_threshold`` are left out, and ``max_cross`` is the greatest number of peaks of a seed that are followed. As in
    DIPY, ``sh``, ``sf``, ``basis_type`` and ``legacy`` are not used. DIPY averages the closest peaks of the eight
    voxels around a point; here they are lobes of a function, whose closest peak is a vertex of the sphere.
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
