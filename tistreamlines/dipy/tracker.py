"""DIPY's tracking functions, on any device: the names, arguments and defaults of ``dipy.tracking.tracker``.

The arguments of all functions are described at :func:`probabilistic_tracking`; those of :class:`.more.More` are the
only ones that DIPY does not have.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..aliases import Array
from ..errors import ParameterError
from ..io.in_memory import unmasked
from . import fields, volumes
from .direction_getters import PEAKS
from .fields import Field
from .growing import Lengths, Running, Streamlines, points_of
from .local_tracking import local_streamlines, spread
from .more import More, with_more
from .peaks import Peaks, coefficients_of

if TYPE_CHECKING:
    from dipy.core.sphere import Sphere
    from typing_extensions import Unpack

PROBE = ("probe_length", "probe_radius", "probe_quality", "probe_count", "data_support_exponent")
ANY_PEAK = {"relative_peak_threshold": 0.05, "min_separation_angle": 0.0}  # with which lengths are nearest to EuDX's
UNIT = (0.99, 1.01)  # lengths that DIPY takes for those of unit vectors


@with_more
def probabilistic_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None,
    pam: Any = None, sf: Array | None = None, min_len: float = 2, max_len: float = 500, step_size: float = 0.2,
    voxel_size: Array | None = None, max_angle: float = 20, pmf_threshold: float = 0.1, sphere: Sphere | None = None,
    basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed: int = 0,
    seed_buffer_fraction: float = 1.0, return_all: bool = True, save_seeds: bool = False, **more: Unpack[More],
) -> Iterator[Any]:
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
    return _tracked("prob", SimpleNamespace(**locals()))


@with_more
def deterministic_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None,
    pam: Any = None, sf: Array | None = None, min_len: float = 2, max_len: float = 500, step_size: float = 0.2,
    voxel_size: Array | None = None, max_angle: float = 20, pmf_threshold: float = 0.1, sphere: Sphere | None = None,
    basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed: int = 0,
    seed_buffer_fraction: float = 1.0, return_all: bool = True, save_seeds: bool = False, **more: Unpack[More],
) -> Iterator[Any]:
    """Take the greatest value within the angle, as DIPY's ``deterministic_tracking``.

    The arguments are described at :func:`probabilistic_tracking`.
    """
    return _tracked("det", SimpleNamespace(**locals()))


@with_more
def ptt_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None,
    pam: Any = None, sf: Array | None = None, min_len: float = 2, max_len: float = 500, step_size: float = 0.5,
    voxel_size: Array | None = None, max_angle: float = 10, pmf_threshold: float = 0.1, probe_length: float = 1.5,
    probe_radius: float = 0, probe_quality: int = 7, probe_count: int = 1, data_support_exponent: float = 1, sphere:
    Sphere | None = None, basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed: int =
    0, seed_buffer_fraction: float = 1.0, return_all: bool = True, save_seeds: bool = False, **more: Unpack[More],
) -> Iterator[Any]:
    """Follow parallel transport tractography, as DIPY's ``ptt_tracking``.

    The arguments are described at :func:`probabilistic_tracking`. The length of a probe and the radius of its circle of
    lines are in mm. In probes, ``pmf_threshold`` is absolute.
    """
    asked = SimpleNamespace(**locals())
    return _tracked("ptt", asked, probe_rule="tracker", **{name: getattr(asked, name) for name in PROBE})


@with_more
def closestpeak_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None, sf:
    Array | None = None, min_len: float = 2, max_len: float = 500, step_size: float = 0.5, voxel_size: Array | None =
    None, max_angle: float = 60, pmf_threshold: float = 0.1, sphere: Sphere | None = None, basis_type: str | None =
    None, legacy: bool = True, nbr_threads: int = 0, random_seed: int = 0, seed_buffer_fraction: float = 1.0,
    return_all: bool = True, save_seeds: bool = False, **more: Unpack[More],
) -> Iterator[Any]:
    """Take the closest peak, as DIPY's ``closestpeak_tracking``, which is its ``LocalTracking``.

    The arguments are described at :func:`probabilistic_tracking`. Bounds of length hold only if not ``return_all``, and
    ``voxel_size`` is not used, as in DIPY.
    """
    asked = SimpleNamespace(**locals())
    options = PEAKS | {"max_angle": max_angle, "pmf_threshold": pmf_threshold, "det_rule": "closest"}
    return _locally(fields.of_functions("det", sh, sf, sphere, basis_type, legacy, options), asked)


@with_more
def bootstrap_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, data: Array | None = None,
    model: Any = None, sh: Array | None = None, sf: Array | None = None, min_len: float = 2, max_len: float = 500,
    step_size: float = 0.5, voxel_size: Array | None = None, max_angle: float = 60, pmf_threshold: float = 0.1, sphere:
    Sphere | None = None, basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed: int =
    0, seed_buffer_fraction: float = 1.0, return_all: bool = True, save_seeds: bool = False, **more: Unpack[More],
) -> Iterator[Any]:
    """Follow peaks of a residual bootstrap, as DIPY's ``bootstrap_tracking``, which is its ``LocalTracking``.

    The arguments are described at :func:`probabilistic_tracking`. ``data`` is the diffusion series (x, y, z, n) and
    ``model`` DIPY's ``OpdtModel`` or ``CsaOdfModel`` of order 4. Bounds of length hold only if not ``return_all``. As
    in DIPY, ``sh``, ``sf``, ``sphere``, ``voxel_size`` and ``pmf_threshold`` are not used.
    """
    if data is None or model is None:
        raise ParameterError("data or model is missing: give the diffusion series and DIPY's OpdtModel or CsaOdfModel")
    asked = SimpleNamespace(**locals())
    return _locally(fields.of_model(data, model, None, 0, PEAKS | {"max_angle": max_angle}), asked)


@with_more
def pft_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None, sf:
    Array | None = None, pam: Any = None, max_cross: int | None = None, min_len: float = 2, max_len: float = 500,
    step_size: float = 0.2, voxel_size: Array | None = None, max_angle: float = 20, pmf_threshold: float = 0.1, sphere:
    Sphere | None = None, basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed: int =
    0, seed_buffer_fraction: float = 1.0, return_all: bool = True, pft_back_tracking_dist: float = 2,
    pft_front_tracking_dist: float = 1, pft_max_trial: int = 20, particle_count: int = 15, save_seeds: bool = False,
    min_wm_pve_before_stopping: float = 0, unidirectional: bool = False, randomize_forward_direction: bool = False,
    **more: Unpack[More],
) -> Iterator[Any]:
    """Track with a particle filter, as DIPY's ``pft_tracking``, which is its ``ParticleFilteringTracking``.

    The arguments are described at :func:`probabilistic_tracking`. The criterion must be an ``ActStoppingCriterion`` or
    a ``CmcStoppingCriterion``. Where a streamline ends invalidly, it goes back by ``pft_back_tracking_dist`` mm, and
    ``particle_count`` particles track on, to ``pft_front_tracking_dist`` mm beyond that point, at most
    ``pft_max_trial`` times on each side of the seed. ``min_wm_pve_before_stopping`` is the share of white matter that
    it must meet before it may end. ``max_cross`` is the greatest number of peaks of a seed that are followed.
    Streamlines go along the initial direction only if ``unidirectional``, in one sense at random if
    ``randomize_forward_direction``.
    """
    if pam is not None:
        _check_alone(SimpleNamespace(pam=pam, sh=sh, sf=sf))
        sh = coefficients_of(pam)
    asked = SimpleNamespace(**locals())
    particles = {
        "pft_back": pft_back_tracking_dist, "pft_front": pft_front_tracking_dist, "pft_particles": particle_count,
        "pft_max_trial": pft_max_trial, "pft_min_wm": min_wm_pve_before_stopping,
    }
    options = PEAKS | {"max_angle": max_angle, "pmf_threshold": pmf_threshold}
    field = fields.of_functions("prob", sh, sf, sphere, basis_type, legacy, options)
    return _locally(
        field, asked, max_cross=max_cross, one_way=unidirectional, either_sense=randomize_forward_direction,
        particles=particles,
    )


@with_more
def eudx_tracking(
    seed_positions: Array, sc: Any, affine: Array, *, seed_directions: Array | None = None, sh: Array | None = None, sf:
    Array | None = None, pam: Any = None, max_cross: int | None = None, min_len: float = 2, max_len: float = 500,
    step_size: float = 0.5, voxel_size: Array | None = None, max_angle: float = 60, pmf_threshold: float = 0.0239,
    sphere: Sphere | None = None, basis_type: str | None = None, legacy: bool = True, nbr_threads: int = 0, random_seed:
    int = 0, seed_buffer_fraction: float = 1.0, return_all: bool = True, save_seeds: bool = False,
    **more: Unpack[More],
) -> Iterator[Any]:
    """Follow the closest peaks, nearly as DIPY's ``eudx_tracking``.

    The arguments are described at :func:`probabilistic_tracking`. ``pam`` is required; peaks of at most
    ``pmf_threshold`` are left out, and ``max_cross`` is the greatest number of peaks of a seed that are followed. As in
    DIPY, ``sh``, ``sf``, ``basis_type`` and ``legacy`` are not used. DIPY averages the closest peaks of the eight
    voxels around a point; here they are lobes of a function, whose closest peak is a vertex of the sphere.
    """
    if pam is None:
        raise ParameterError("pam is missing: give DIPY's PeaksAndMetrics, of which EuDX follows the peaks")
    asked = SimpleNamespace(**locals())
    peaks = Peaks.of(pam, sphere)
    options = ANY_PEAK | {"max_angle": max_angle, "pmf_threshold": 0.0, "max_directions": 1}
    return _grown(fields.of_lobes(peaks.above(pmf_threshold), options), asked, peaks, max_cross)


def _tracked(dg: str, asked: SimpleNamespace, **options: Any) -> Iterator[Any]:
    """Track as DIPY's ``generic_tracking``: along the highest peak of a seed, or along its direction."""
    options |= {"max_angle": asked.max_angle, "pmf_threshold": asked.pmf_threshold, "max_directions": 1}
    if asked.pam is None:
        field = fields.of_functions(dg, asked.sh, asked.sf, asked.sphere, asked.basis_type, asked.legacy, options)
        return _grown(field, asked)
    _check_alone(asked)
    peaks = Peaks.of(asked.pam, asked.sphere)
    return _grown(fields.of_peaks(dg, peaks, options), asked, peaks)


def _grown(field: Field, asked: SimpleNamespace, peaks: Peaks | None = None, max_cross: int | None = None) -> Any:
    """Track what a getter follows; with ``peaks``, seeds without a direction start along those of their voxel."""
    space = volumes.grid(asked.affine, field.shape, regular=False)
    seeds, directions = volumes.seeds_of("seed_positions", asked.seed_positions, space), asked.seed_directions
    if directions is not None:
        seeds, directions = _with_unit_vectors(seeds, directions)
    elif peaks is not None:
        seeds, directions = spread(seeds, peaks.at(space.to_voxel(seeds)), max_cross)
    lengths = Lengths.of_tracker(*points_of(asked.step_size, asked.min_len, asked.max_len), asked.return_all)
    return iter(Streamlines(
        field, asked.sc, seeds, space, asked.step_size, lengths, _running(asked), voxel_size=asked.voxel_size,
        directions=directions, return_all=asked.return_all, save_seeds=asked.save_seeds,
    ))


def _check_alone(asked: SimpleNamespace) -> None:
    """Raise a ParameterError if another source is given beside ``pam``."""
    for name in ("sh", "sf"):
        if getattr(asked, name) is not None:
            raise ParameterError(f"{name} and pam given: give one of sh, sf and pam")


def _locally(field: Field, asked: SimpleNamespace, **options: Any) -> Iterator[Any]:
    """Track as DIPY's functions that use its ``LocalTracking``, whose bounds of length are numbers of points."""
    lengths = Lengths.of_local(*points_of(asked.step_size, asked.min_len, asked.max_len), asked.return_all)
    return iter(local_streamlines(
        field, asked.sc, asked.seed_positions, asked.affine, asked.step_size, _running(asked), name="seed_positions",
        lengths=lengths, initial_directions=asked.seed_directions, return_all=asked.return_all,
        save_seeds=asked.save_seeds, **options,
    ))


def _running(asked: SimpleNamespace) -> Running:
    return Running(asked.more, asked.nbr_threads, asked.random_seed, asked.seed_buffer_fraction)


def _with_unit_vectors(seeds: Array, directions: Any) -> tuple[Array, Array]:
    """Return the seeds (m, 3) whose direction is a unit vector, and these (m, 3); DIPY tracks no others."""
    vectors = np.asarray(unmasked("seed_directions", directions), np.float64)
    if vectors.shape != seeds.shape:
        raise ParameterError(f"seed_directions has the shape {vectors.shape}: give a unit vector a seed, {seeds.shape}")
    norms = np.linalg.norm(vectors, axis=1)
    unit = (norms >= UNIT[0]) & (norms <= UNIT[1])
    return seeds[unit], vectors[unit] / norms[unit, None]
