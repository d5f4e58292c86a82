"""From the files to all that the engine needs: tables, space and seeds."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, ParameterError
from ..fit import frames
from ..fit.fits import BASIS, Fits, Telling
from ..fit.frames import Placing
from ..io import images, nifti, orientations, pipes, sidecar
from ..io.cache import Cache, pack_prepared, unpack_prepared
from ..io.orientations import Orientations
from ..io.tractogram import Space
from ..methods import boot as models
from ..methods import pmf as models_pmf
from ..methods import ptt as models_ptt
from ..methods.boot import Prepared
from ..methods.registry import ORIENTED, SOURCES, listed
from ..options.option import flag
from ..sphere.sphere import load_sphere
from .clock import Clock
from .parameters import INPUTS, SEED_FA, Parameters
from .seeds import RandomSeeds, Seeds, seeds_in_file

PathLike = str | os.PathLike[str]
Map = npt.NDArray[np.float32]
# What changes neither the stop map nor the tables; files count by their bytes, not by their names.
_LATER = (
    "nseeds", "seed_seed", "step_size", "max_steps", "min_length", "max_length", "rng_seed", "force", "json_stats",
    "arch", "exact", "threads", "chunk_size", "memory_limit", "cache_dir",
)  # fmt: skip
_PMF = (
    "sphere", "asymmetric", "pmf_threshold", "max_angle", "relative_peak_threshold", "min_separation_angle",
    "max_directions",
)  # fmt: skip
_PTT = (
    "step_mm", "voxel_sizes", "probe_length", "probe_radius", "probe_quality", "probe_count", "data_support_exponent",
    "probe_rule",
)  # fmt: skip
# who makes the tables of the getters that follow orientations, and of which options; step_mm and voxel_sizes are too
_PREPARE: dict[str, tuple[Callable[..., Prepared], tuple[str, ...]]] = {
    "prob": (models_pmf.prepare_prob, _PMF),
    "det": (models_pmf.prepare_det, (*_PMF, "det_rule")),
    "ptt": (models_ptt.prepare_ptt, (*_PMF, *_PTT)),
}


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be tracked, where, and from which seeds.

    Attributes
    ----------
    prepared : tables of the method and the stopping rule.
    space : grid of the series, or of the orientations where there is none.
    seeds : where streamlines begin.
    hashes : sha256 of each input file, by the name of its argument or parameter.
    frames : how the directions of each input are taken, by the same names (``fit.frames.Placing``).
    warnings : what the user was warned of.
    """

    prepared: Prepared
    space: Space
    seeds: Seeds
    hashes: dict[str, str]
    frames: dict[str, Any]
    warnings: list[str]


def make_plan(series: Mapping[str, PathLike], parameters: Parameters, clock: Clock) -> Plan:
    """Read the inputs and prepare the tables, or find them in the cache.

    Parameters
    ----------
    series : paths of ``dwi``, ``bvals`` and ``bvecs``; empty where :func:`needs_series` is not.
    parameters : all options.
    clock : is told of the stages ``load``, ``fit`` and ``prepare``.
    """
    given = {name: getattr(parameters, name) for name in INPUTS if getattr(parameters, name) is not None}
    cache = Cache(parameters.cache_dir, clock.tell) if parameters.cache_dir is not None else None
    with clock.stage("load"):
        series = {name: path if name == "dwi" else pipes.drained(path) for name, path in series.items()}
        hashes = {name: _hash(path) for name, path in {**series, **given}.items()}
        causes = {**hashes, **_causes(parameters)}
        kept = cache.load("tables", causes, _unpacked) if cache else None
    if kept is None:
        prepared, space, region, placed = _tables(series, hashes, parameters, cache, clock)
        if cache:
            with clock.stage("prepare"):
                arrays, values = pack_prepared(prepared, space)
                told = {"frames": placed, "notes": clock.notes, "warnings": clock.warnings}
                cache.store("tables", causes, {**arrays, "region": region}, values | {"told": told})
    else:
        prepared, space, region, told = kept
        _check_step(parameters, space)
        placed = told["frames"]
        for tell, texts in ((clock.note, "notes"), (clock.warn, "warnings")):
            for text in told[texts]:
                tell(text)
    return Plan(prepared, space, _seeds(parameters, space, region), hashes, placed, clock.warnings)


def _unpacked(
    arrays: dict[str, npt.NDArray[Any]], values: dict[str, Any]
) -> tuple[Prepared, Space, npt.NDArray[np.int32], dict[str, Any]]:
    """Tables, space, the voxels of random seeds, and what the user was told, from the cache."""
    told = {name: values["told"][name] for name in ("frames", "notes", "warnings")}
    return *unpack_prepared(arrays, values), arrays["region"], told


def _causes(parameters: Parameters) -> dict[str, Any]:
    """Options that the tables depend on, besides the files."""
    causes = {name: value for name, value in parameters.as_dict().items() if name not in (*_LATER, *INPUTS)}
    if "step_mm" in _PREPARE.get(parameters.dg, (None, ()))[1]:
        causes["step_size"] = parameters.step_size
    return causes


def _hash(path: PathLike) -> str:
    if isinstance(path, pipes.Drained):
        return hashlib.sha256(path.content).hexdigest()
    path = Path(path)
    # the two files of an Analyze-style pair hold one image
    pair = [path.with_suffix(suffix) for suffix in (".hdr", ".img")] if path.suffix in (".hdr", ".img") else [path]
    return "+".join(sidecar.sha256(images.existing(part)) for part in pair)


def _seeds(parameters: Parameters, space: Space, region: npt.NDArray[np.int32]) -> Seeds:
    if parameters.seeds is not None:
        return seeds_in_file(nifti.load_seeds(parameters.seeds), space, str(parameters.seeds))
    return RandomSeeds(region, parameters.nseeds, parameters.seed_seed, parameters.threads)


def needs_series(parameters: Parameters) -> str:
    """Say what a series is needed for, if for anything: a model, FA to stop at, or FA to place seeds by."""
    if parameters.source == "model":
        other = f", or orientations from a file with {listed(map(flag, SOURCES))}" if parameters.dg in ORIENTED else ""
        return f"--dg {parameters.dg} needs DWI, BVALS and BVECS: give them{other}"
    file = flag(parameters.source)
    if parameters.stop_map is None:
        return f"{file} without DWI, BVALS and BVECS leaves no FA to stop at: give --stop-map"
    if parameters.seed_mask is None and parameters.seeds is None:
        return f"{file} without DWI, BVALS and BVECS leaves no FA to place seeds by: give --seed-mask or --seeds"
    return ""


@dataclass
class _Inputs:
    """What was read: a series or orientations or both, and maps on their grid."""

    dwi: nifti.Dwi | None
    oriented: Orientations | None
    space: Space
    mask: npt.NDArray[np.bool_] | None = None
    region: npt.NDArray[np.bool_] | None = None
    stop_map: Map | None = None
    placed: dict[str, Placing] = field(default_factory=dict)


def _read(series: Mapping[str, PathLike], parameters: Parameters, clock: Clock) -> _Inputs:
    """Read all inputs; their directions are along the voxel axes then."""
    dwi = nifti.load_dwi(series["dwi"], series["bvals"], series["bvecs"]) if series else None
    oriented = _orientations(parameters, dwi.space if dwi else None, clock)
    grid = dwi or oriented
    if grid is None:
        raise ParameterError(needs_series(parameters))
    space = grid.space
    mask = None if parameters.mask is None else nifti.load_mask(parameters.mask, space, clock.note)
    region = None
    if parameters.seed_mask is not None:
        region = nifti.load_mask(parameters.seed_mask, space, clock.note, clock.warn)
    stop_map = None if parameters.stop_map is None else nifti.load_map(parameters.stop_map, space, clock.note)
    placed = {}
    if dwi is not None:
        dwi, placed["bvecs"] = frames.place_gradients(dwi, mask, parameters.bvecs_frame, str(series["bvecs"]))
    if oriented is not None and oriented.kind in ("sh", "peaks"):
        asked = parameters.peaks_frame if oriented.kind == "peaks" else parameters.sh_frame or "voxel"
        path = getattr(parameters, oriented.kind)
        oriented, placed[oriented.kind] = frames.place_orientations(oriented, asked, str(path))
    for placing in placed.values():
        for tell, texts in ((clock.note, placing.notes), (clock.warn, placing.warnings)):
            for text in texts:
                tell(text)
    return _Inputs(dwi, oriented, space, mask, region, stop_map, placed)


def _orientations(parameters: Parameters, space: Space | None, clock: Clock) -> Orientations | None:
    """Read the file of orientations, if one is given."""
    source = parameters.source
    if source == "model":
        return None
    path = getattr(parameters, source)
    if source == "sh" and parameters.sh_basis is not None:
        return orientations.load_sh(path, parameters.sh_basis, space)
    if source == "peaks":
        return orientations.load_peaks(path, space, clock.note)
    load = orientations.load_pmf if source == "pmf" else orientations.load_odf
    return load(path, parameters.sphere, space)


def _tables(
    series: Mapping[str, PathLike], hashes: Mapping[str, str], parameters: Parameters, cache: Cache | None, clock: Clock
) -> tuple[Prepared, Space, npt.NDArray[np.int32], dict[str, Any]]:
    """Tables, space, the voxels (m, 3) of random seeds, and how directions were taken, from the files."""
    with clock.stage("load"):
        read = _read(series, parameters, clock)
        _check_step(parameters, read.space)
    telling = Telling(clock.note, clock.progress)
    taken = {name: placing.as_dict() for name, placing in read.placed.items()}
    known = {**hashes, "frame": taken.get("bvecs", {}).get("frame", "")}
    fits = None if read.dwi is None else Fits(read.dwi, read.mask, parameters, known, cache, telling)
    with clock.stage("prepare"):
        stop_map, voxels = _stop_and_region(read, fits, parameters)
        reach = _seeds(parameters, read.space, voxels).reach()
    if parameters.dg == "boot":
        assert read.dwi is not None
        with clock.stage("prepare"):
            return _prepare_boot(read.dwi, stop_map, reach, parameters), read.space, voxels, taken
    with clock.stage("fit" if read.oriented is None else "prepare"):
        kind, values = _values(read.oriented, fits, parameters)
    with clock.stage("prepare"):
        prepare, names = _PREPARE[parameters.dg]
        chosen = _oriented_options(names, parameters, read.space)
        prepared = prepare(kind, values, stop_map, parameters.threshold, reach, **chosen)
    return prepared, read.space, voxels, taken


def _check_step(parameters: Parameters, space: Space) -> None:
    """Refuse steps too small for numbers of 32 bits to tell two points apart, or longer than the image."""
    step, sides = parameters.step_mm(space.voxel_sizes), np.asarray(space.voxel_sizes)
    least = float(np.spacing(np.float32(max(space.shape)))) * sides.max()
    most = float(np.linalg.norm(sides * space.shape))
    if not least <= step <= most:
        fault = "too small for" if step < least else "longer than"
        size = f"--step-size {parameters.step_size} is {step:.3g} mm"
        raise ParameterError(f"{size}, {fault} this image: give {least:.2g} to {most:.4g} mm")


def _stop_and_region(
    read: _Inputs, fits: Fits | None, parameters: Parameters
) -> tuple[Map, npt.NDArray[np.int32]]:
    """Stop map, and the voxels (m, 3) of random seeds."""
    stop_map, region, random = read.stop_map, read.region, parameters.seeds is None
    if stop_map is None or (random and region is None):
        assert fits is not None
        fa = fits.anisotropy()
        stop_map = fa if stop_map is None else stop_map
        region = fits.mask & (fa > SEED_FA) if region is None else region
    _check_stop_map(stop_map, parameters)
    if not random:
        return stop_map, np.empty((0, 3), np.int32)
    assert region is not None
    voxels = np.argwhere(region).astype(np.int32)
    if not len(voxels):
        name = "" if read.dwi is None else f"{read.dwi.path}: "
        raise InputError(f"{name}no voxel of the mask has FA > {SEED_FA}; give --seed-mask or --seeds")
    return stop_map, voxels


def _values(read: Orientations | None, fits: Fits | None, parameters: Parameters) -> tuple[models_pmf.Source, Map]:
    """Harmonics or samples that a getter follows: of the model, or of the file."""
    if read is None:
        assert fits is not None
        return "sh", fits.harmonics()
    if read.kind == "peaks":
        vertices, _ = load_sphere(parameters.sphere)
        return "pmf", orientations.peaks_to_pmf(read.values.reshape(*read.space.shape, -1, 3), vertices)
    return ("sh" if read.kind == "sh" else "pmf"), read.values


def _oriented_options(names: tuple[str, ...], parameters: Parameters, space: Space) -> dict[str, Any]:
    sides = tuple(float(side) for side in space.voxel_sizes)
    known = {
        "step_mm": parameters.step_mm(sides), "voxel_sizes": sides, "basis": parameters.sh_basis or BASIS,
        "sampled": parameters.pmf_rows == "sampled",
    }  # fmt: skip
    return {name: known[name] if name in known else getattr(parameters, name) for name in (*names, "basis", "sampled")}


def _prepare_boot(dwi: nifti.Dwi, stop_map: Map, reach: npt.NDArray[np.float64], parameters: Parameters) -> Prepared:
    names = (
        "model", "sphere", "sh_order", "sm_lambda", "min_signal", "relative_peak_threshold", "min_separation_angle",
        "max_angle", "angular_weight", "boot_rule", "negative_odf",
    )  # fmt: skip
    chosen: dict[str, Any] = {name: getattr(parameters, name) for name in names}
    return models.prepare_boot(dwi.data, dwi.gtab, stop_map, parameters.threshold, reach, **chosen)


def _check_stop_map(stop_map: Map, parameters: Parameters) -> None:
    if not (stop_map > parameters.threshold).any():
        name = "the FA map" if parameters.stop_map is None else str(parameters.stop_map)
        option = flag("fa_threshold" if parameters.stop_threshold is None else "stop_threshold")
        raise InputError(
            f"{name}: its largest value {stop_map.max():.4g} is not above {option} {parameters.threshold:g}; lower it"
        )
