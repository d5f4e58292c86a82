"""From the files to all that the engine needs: tables, space and seeds."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from . import io, models
from .cache import Cache, pack_prepared, unpack_prepared
from .errors import InputError
from .models import Prepared
from .parameters import SEED_FA, Parameters, flag
from .seeds import RandomSeeds, Seeds, seeds_in_file
from .tractogram import Space

PathLike = str | Path
Mask = npt.NDArray[np.bool_]
Map = npt.NDArray[np.float32]
# What changes neither the stop map nor the tables; files count by their bytes, not by their names.
_LATER = (
    "nseeds", "seed_seed", "step_size", "max_steps", "min_length", "max_length", "rng_seed", "force", "json_stats",
    "arch", "exact", "threads", "chunk_size", "memory_limit", "cache_dir",
)  # fmt: skip
_FILES = ("mask", "seed_mask", "seeds", "stop_map")


@dataclass
class Clock:
    """Seconds by stage; ``report`` is told of each stage as it begins, ``note`` of choices made for the user."""

    report: Callable[[str], None] = lambda _: None
    note: Callable[[str], None] = lambda _: None
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(("load", "prepare", "compile"), 0.0))

    @contextmanager
    def stage(self, name: str) -> Generator[None, None, None]:
        """Time a block as part of a stage."""
        self.report(name)
        begun = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - begun


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be tracked, where, and from which seeds.

    Attributes
    ----------
    prepared : tables of the method and the stopping rule.
    space : grid of the series.
    seeds : where streamlines begin.
    hashes : sha256 of each input file, by the name of its argument or parameter.
    """

    prepared: Prepared
    space: Space
    seeds: Seeds
    hashes: dict[str, str]


def make_plan(series: Mapping[str, PathLike], parameters: Parameters, clock: Clock) -> Plan:
    """Read the inputs and prepare the tables, or find them in the cache.

    Parameters
    ----------
    series : paths of ``dwi``, ``bvals`` and ``bvecs``.
    parameters : all options.
    clock : is told of the stages ``load`` and ``prepare``.
    """
    given = {name: getattr(parameters, name) for name in _FILES if getattr(parameters, name) is not None}
    cache = Cache(parameters.cache_dir) if parameters.cache_dir is not None else None
    with clock.stage("load"):
        hashes = {name: _hash(path) for name, path in {**series, **given}.items()}
        causes = {**hashes, **{k: v for k, v in parameters.as_dict().items() if k not in (*_LATER, *_FILES)}}
        kept = cache.load("tables", causes) if cache else None
    if kept is None:
        prepared, space, region = _tables(series, hashes, parameters, cache, clock)
        if cache:
            with clock.stage("prepare"):
                arrays, values = pack_prepared(prepared, space)
                cache.store("tables", causes, {**arrays, "region": region}, values)
    else:
        region = kept[0]["region"]
        prepared, space = unpack_prepared(*kept)
    return Plan(prepared, space, _seeds(parameters, space, region), hashes)


def _hash(path: PathLike) -> str:
    path = Path(path)
    # the two files of an Analyze-style pair hold one image
    pair = [path.with_suffix(suffix) for suffix in (".hdr", ".img")] if path.suffix in (".hdr", ".img") else [path]
    return "+".join(io.sha256(part) for part in pair)


def _seeds(parameters: Parameters, space: Space, region: npt.NDArray[np.int32]) -> Seeds:
    if parameters.seeds is not None:
        return seeds_in_file(io.load_seeds(parameters.seeds), space, str(parameters.seeds))
    return RandomSeeds(region, parameters.nseeds, parameters.seed_seed, parameters.threads)


def _tables(
    series: Mapping[str, PathLike], hashes: Mapping[str, str], parameters: Parameters, cache: Cache | None, clock: Clock
) -> tuple[Prepared, Space, npt.NDArray[np.int32]]:
    """Tables, space and the voxels (m, 3) of random seeds, from the files."""
    with clock.stage("load"):
        dwi = io.load_dwi(series["dwi"], series["bvals"], series["bvecs"])
        space = dwi.space
        mask = None if parameters.mask is None else io.load_mask(parameters.mask, space)
        region = None if parameters.seed_mask is None else io.load_mask(parameters.seed_mask, space)
        stop_map = None if parameters.stop_map is None else io.load_map(parameters.stop_map, space)
    with clock.stage("prepare"):
        random = parameters.seeds is None
        if stop_map is None or (random and region is None):
            fa, mask = _anisotropy(dwi, mask, hashes, cache, clock)
            stop_map = fa if stop_map is None else stop_map
            region = mask & (fa > SEED_FA) if region is None else region
        _check_stop_map(stop_map, parameters)
        voxels = np.empty((0, 3), np.int32)
        if random:
            assert region is not None
            voxels = np.argwhere(region).astype(np.int32)
            if not len(voxels):
                raise InputError(f"{dwi.path}: no voxel of the mask has FA > {SEED_FA}; give --seed-mask or --seeds")
        seeds = _seeds(parameters, space, voxels)
        return _prepare(dwi, stop_map, seeds.reach(), parameters), space, voxels


def _prepare(dwi: io.Dwi, stop_map: Map, reach: npt.NDArray[np.float64], parameters: Parameters) -> Prepared:
    names = (
        "model", "sphere", "sh_order", "sm_lambda", "min_signal", "relative_peak_threshold", "min_separation_angle",
        "max_angle", "angular_weight", "boot_rule", "negative_odf",
    )  # fmt: skip
    chosen: dict[str, Any] = {name: getattr(parameters, name) for name in names}
    return models.prepare_boot(dwi.data, dwi.gtab, stop_map, parameters.threshold, reach, **chosen)


def _anisotropy(
    dwi: io.Dwi, mask: Mask | None, hashes: Mapping[str, str], cache: Cache | None, clock: Clock
) -> tuple[Map, Mask]:
    """FA in the mask, and the mask; both from the cache if they are there."""
    causes = {name: hashes.get(name) for name in ("dwi", "bvals", "bvecs", "mask")}
    kept = cache.load("fa", causes) if cache else None
    if kept is not None:
        return kept[0]["fa"], kept[0]["mask"]
    if mask is None:
        mask = brain(dwi)
        clock.note(f"no --mask: median_otsu of the mean b0 takes {mask.sum()} voxels, {mask.mean():.0%} of the image")
    fa = models.tensor_fa(dwi.data, dwi.gtab, mask)
    if cache:
        cache.store("fa", causes, {"fa": fa, "mask": mask}, {})
    return fa, mask


def brain(dwi: io.Dwi) -> Mask:
    """Mask (x, y, z) of a series for which none was given: DIPY's median_otsu of its mean b0."""
    from dipy.segment.mask import median_otsu

    b0 = dwi.data[..., dwi.gtab.b0s_mask].mean(axis=-1)
    mask = np.asarray(median_otsu(b0, median_radius=2, numpass=1)[1], bool)
    if not mask.any():
        raise InputError(f"{dwi.path}: no brain found in its mean b0; give --mask")
    return mask


def _check_stop_map(stop_map: Map, parameters: Parameters) -> None:
    if not (stop_map > parameters.threshold).any():
        name = "the FA map" if parameters.stop_map is None else str(parameters.stop_map)
        option = flag("fa_threshold" if parameters.stop_threshold is None else "stop_threshold")
        raise InputError(
            f"{name}: its largest value {stop_map.max():.4g} is not above {option} {parameters.threshold:g}; lower it"
        )
