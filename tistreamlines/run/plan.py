"""From the inputs to the tables that the engine needs; tables of an earlier run are read from the cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache as cached
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..fit.fits import Fits
from ..fit.models import BASIS
from ..io import nifti, orientations, pipes
from ..io.cache import Cache
from ..io.tractogram import Space
from ..methods.given import Given, OrientationFunctions, Prepared, Signals, StopTables
from ..methods.packing import pack_prepared, unpack_prepared
from ..methods.registry import METHODS, STOPPING_RULES
from ..sphere.harmonics import BASES
from ..sphere.sphere import load_sphere
from .inputs import Inputs, Series, check_step, hashing, needs_series, read
from .log import Log
from .option_groups import SEED_FA
from .parameters import INPUTS, Parameters
from .seeds import RandomSeeds, Seeds, seeds_in_file

__all__ = ["Plan", "make_plan", "needs_series"]
Voxels = npt.NDArray[np.int32]
# options that change neither the stop map nor the tables; inputs are identified by the hash of their content
_LATER = (
    "nseeds", "seed_seed", "step_size", "max_steps", "min_length", "max_length", "rng_seed", "force", "json_stats",
    "arch", "exact", "threads", "chunk_size", "memory_limit", "cache_dir",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables, the grid and the seeds of a run.

    Attributes
    ----------
    prepared : tables of the method and the stopping rule.
    space : grid of the diffusion series, or of the orientations if there is no series.
    seeds : the seeds.
    hashes : sha256 of each input, by the name of its argument or option.
    frames : axes of the directions of each input, by the same names (``fit.frames.Placing``).
    """

    prepared: Prepared
    space: Space
    seeds: Seeds
    hashes: dict[str, str]
    frames: dict[str, Any]


def make_plan(
    series: Series, parameters: Parameters, log: Log, ahead: Callable[[Series], object] = lambda _: None
) -> Plan:
    """Read the inputs and prepare the tables, or read the tables from the cache.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``; empty if :func:`needs_series` finds no need of them.
    parameters : all options.
    log : receives the stages ``load``, ``fit`` and ``prepare``, notes and warnings.
    ahead : called with the series before the inputs are read, unless the tables come from the cache.
    """
    given = {name: getattr(parameters, name) for name in INPUTS if getattr(parameters, name) is not None}
    cache = Cache(parameters.cache_dir, log.watcher.note) if parameters.cache_dir is not None else None
    with log.stage("load"):
        series = {name: path if name == "dwi" else pipes.drained(path) for name, path in series.items()}
        hashes = hashing({**series, **given})
        causes = {**hashes(), **_causes(parameters)} if cache else {}
        kept = cache.load("tables", causes, _unpacked) if cache else None
    if kept is None:
        ahead(series)
        with log.stage("load"):
            inputs = read(series, parameters, log)
        prepared, voxels = _prepare(inputs, parameters, hashes(), cache, log)
        space, frames = inputs.space, inputs.frames
        if cache:
            with log.stage("prepare"):
                arrays, values = pack_prepared(prepared, space)
                told = {"frames": frames, "notes": log.notes, "warnings": log.warnings}
                cache.store("tables", causes, {**arrays, "region": voxels}, values | {"told": told})
    else:
        prepared, space, voxels, told = kept
        check_step(parameters, space)
        frames = told["frames"]
        log.tell(told["notes"], told["warnings"])
    return Plan(prepared, space, _seeds(parameters, space, voxels), hashes(), frames)


def _unpacked(
    arrays: Mapping[str, npt.NDArray[Any]], values: Mapping[str, Any]
) -> tuple[Prepared, Space, Voxels, dict[str, Any]]:
    """Return tables, space, voxels of random seeds, and frames, notes and warnings, from an entry of the cache."""
    told = {name: values["told"][name] for name in ("frames", "notes", "warnings")}
    return *unpack_prepared(arrays, values), arrays["region"], told


def _causes(parameters: Parameters) -> dict[str, Any]:
    """Return the options that the tables depend on, besides the inputs."""
    causes = {name: value for name, value in parameters.as_dict().items() if name not in (*_LATER, *INPUTS)}
    if METHODS[parameters.dg].step_in_tables:
        causes["step_size"] = parameters.step_size
    return causes


def _seeds(parameters: Parameters, space: Space, voxels: Voxels) -> Seeds:
    given: Any = parameters.seeds  # Parameters has made an array path-like
    if given is not None:
        return seeds_in_file(nifti.load_seeds(given), space, str(given))
    return RandomSeeds(voxels, parameters.nseeds, parameters.seed_seed, parameters.threads)


def _prepare(
    inputs: Inputs, parameters: Parameters, hashes: Mapping[str, str], cache: Cache | None, log: Log
) -> tuple[Prepared, Voxels]:
    """Fit what the method, the stopping rule and the seeds need; return tables and voxels of random seeds."""
    known = {name: hashes.get(name) for name in ("dwi", "bvals", "bvecs", "mask")}
    known["frame"] = inputs.frames.get("bvecs", {}).get("frame", "")
    fits = None
    if inputs.dwi is not None:
        fits = Fits(inputs.dwi, inputs.mask, parameters.threads, known, cache, log.note, log.watcher.fitted)
    with log.stage("prepare"):
        anisotropy = _fitted_once(fits)
        stop = STOPPING_RULES[parameters.stopping].prepare(inputs.maps, anisotropy, parameters)
        voxels = _seed_voxels(inputs, fits, anisotropy, parameters)
        reach = _seeds(parameters, inputs.space, voxels).reach()
    coefficients = None
    if METHODS[parameters.dg].follows == "functions" and inputs.oriented is None:
        assert fits is not None and parameters.model is not None
        with log.stage("fit"):
            coefficients = fits.coefficients(parameters.model, parameters)
    with log.stage("prepare"):
        prepared = tables_of(inputs, coefficients, stop, reach, parameters)
    return prepared, voxels


def _fitted_once(fits: Fits | None) -> Callable[[], npt.NDArray[np.float32]]:
    """Return a function that fits FA on its first call."""
    @cached
    def anisotropy() -> npt.NDArray[np.float32]:
        assert fits is not None
        return fits.anisotropy()

    return anisotropy


def _seed_voxels(
    inputs: Inputs, fits: Fits | None, anisotropy: Callable[[], npt.NDArray[np.float32]], parameters: Parameters
) -> Voxels:
    """Return the voxels (m, 3) of random seeds; none if seeds are given."""
    if parameters.seeds is not None:
        return np.empty((0, 3), np.int32)
    region = inputs.seed_mask
    if region is None:
        assert fits is not None
        above = anisotropy() > SEED_FA
        region = fits.mask & above
    voxels = np.argwhere(region).astype(np.int32)
    if not len(voxels):
        name = "" if inputs.dwi is None else f"{inputs.dwi.path}: "
        raise InputError(f"{name}no voxel of the mask has FA > {SEED_FA}; give --seed-mask or --seeds")
    return voxels


def tables_of(
    inputs: Inputs, coefficients: npt.NDArray[np.float32] | None, stop: StopTables, reach: npt.NDArray[np.float64],
    parameters: Parameters,
) -> Prepared:  # fmt: skip
    """Make the tables of the method.

    Parameters
    ----------
    inputs : what was read.
    coefficients : (x, y, z, n) of the model, if the method follows one that was fitted.
    stop : tables of the stopping rule.
    reach : (m, 3) voxel coordinates around which seeds read, see ``Seeds.reach``.
    parameters : all options.
    """
    sides = tuple(float(side) for side in inputs.space.voxel_sizes)
    follows = _followed(inputs, coefficients, parameters)
    given = Given(follows, stop, reach, parameters.sphere, parameters.step_mm(sides), sides)
    return METHODS[parameters.dg].prepare(given, parameters)


def _followed(
    inputs: Inputs, coefficients: npt.NDArray[np.float32] | None, parameters: Parameters
) -> Signals | OrientationFunctions:
    """Return what the method follows: the signals, a model fitted to them, or given orientations."""
    read = inputs.oriented
    if METHODS[parameters.dg].follows == "signals":
        assert inputs.dwi is not None
        return Signals(inputs.dwi.data, inputs.dwi.gtab)
    if read is None:
        assert coefficients is not None
        return OrientationFunctions("sh", coefficients, BASIS)
    if read.kind == "peaks":
        vertices, _ = load_sphere(parameters.sphere)
        values = orientations.peaks_to_pmf(read.values.reshape(*read.space.shape, -1, 3), vertices)
        return OrientationFunctions("pmf", values)
    if read.basis is not None:
        return OrientationFunctions("sh", read.values, read.basis, not BASES[read.basis].full)
    return OrientationFunctions("pmf", read.values, symmetric=not parameters.asymmetric)
