"""The same tracking with DIPY and tistreamlines: equal seeds, initial directions, stop map and options."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from tistreamlines.benchmarks.cases import METHODS, TimedMethod
from tistreamlines.benchmarks.problem import Problem, fitted_csd, seeds_in
from tistreamlines.benchmarks.targets import dipy_getter, initial_directions, local_lines, tables_for, threaded_lines

BLOCKS = 50


class Case(Problem):
    """A problem whose series was read from files; its fits are computed when first needed."""

    @cached_property
    def csd(self) -> np.ndarray:
        """Coefficients of CSD from tistreamlines (equal to DIPY's to 1e-7)."""
        return fitted_csd(self, self.mask, self.method.order)

    @cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Seed index (n,) and direction (n, 3) of DIPY's peaks at the seeds."""
        return initial_directions(self, dipy_getter(self))


@dataclass
class Lines:
    """Streamlines of a run, RASmm, in the order of their seeds, with seed and direction indices; and seconds."""

    points: list[np.ndarray]
    seed: np.ndarray
    branch: np.ndarray
    seconds: float

    def by_start(self) -> dict[tuple[int, int], np.ndarray]:
        """Streamlines of more than one point by seed and number of the direction."""
        starts = zip(self.seed.tolist(), self.branch.tolist(), strict=True)
        return {start: line for start, line in zip(starts, self.points, strict=True) if len(line) > 1}


def method_of(dg: str, model: str) -> TimedMethod:
    """The way of tracking that the benchmark knows by this getter and model."""
    return next(method for method in METHODS.values() if (method.dg, method.model) == (dg, model))


def load(folder: Path, count: int, seeds_from: Path | None, dg: str, model: str, threads: int | None) -> Case:
    """Read the series, fit FA, place seeds (rounded to float32, so that both packages get the same ones)."""
    from tistreamlines.fit.tensor import tensor_fa
    from tistreamlines.io import nifti

    dwi = nifti.load_dwi(folder / "dwi.nii.gz", folder / "dwi.bval", folder / "dwi.bvec")
    case = Case(folder, method_of(dg, model), count, threads)
    case.data, case.gtab, case.space = dwi.data, dwi.gtab, dwi.space
    case.mask = nifti.load_mask(folder / "mask.nii.gz", dwi.space)
    case.fa = tensor_fa(dwi.data, dwi.gtab, case.mask)
    seeds = seeds_in(case.white, count) if seeds_from is None else dwi.space.to_voxel(np.load(seeds_from)[:count])
    case.seeds = seeds.astype(np.float32).astype(float)
    return case


def branches(seed: np.ndarray) -> np.ndarray:
    """Number of each streamline among those of its seed, of seeds in order."""
    return np.arange(len(seed)) - np.searchsorted(seed, seed)


def numbered(case: Case, lines: Iterable) -> Lines:
    """Track with DIPY: each streamline comes with its seed's place, and gets the next seed that lies there."""
    begun = time.perf_counter()
    pairs = list(lines)
    seconds, places = time.perf_counter() - begun, case.space.to_ras(case.seeds)
    number, numbers = 0, np.zeros(len(pairs), int)
    for i, (_, place) in enumerate(pairs):
        while np.abs(places[number] - place).max() > 1e-5:
            number += 1
        numbers[i] = number
    return Lines([line for line, _ in pairs], numbers, branches(numbers), seconds)


def dipy_threaded(case: Case, random_seed: int) -> Lines:
    """Track with DIPY's probabilistic_tracking or deterministic_tracking."""
    number = case.starts[0]
    lines = numbered(case, threaded_lines(case, *case.starts, random_seed, save_seeds=True))
    # streamlines of more points than DIPY has room for are left out: then nobody knows which of the seed's these are
    whole = np.bincount(lines.seed, minlength=len(case.seeds)) == np.bincount(number, minlength=len(case.seeds))
    lines.branch = np.where(whole[lines.seed], lines.branch, -1 - lines.branch)
    return lines


def ours(case: Case, rng_seed: int) -> Lines:
    """Track with tistreamlines, arch cpu."""
    from tistreamlines.devices import choose
    from tistreamlines.tracking.engine.engine import Engine
    from tistreamlines.tracking.growth.settings import Settings

    settings = Settings(case.step_mm, max_steps=case.method.max_steps, rng_seed=rng_seed, threads=case.threads)
    engine = Engine(tables_for(case), case.space, choose("cpu"), settings)
    batches = list(engine.track(case.seeds))
    lines = [line for batch in batches for line in np.split(batch.points, batch.offsets[1:-1])]
    seed = np.concatenate([batch.seed_number for batch in batches]).astype(int)
    branch = np.concatenate([batch.direction_number for batch in batches]).astype(int)
    return Lines(lines, seed, branch, engine.statistics.seconds["track"])


def dipys(case: Case, random_seed: int) -> Lines:
    """Track with DIPY: ptt with LocalTracking, since ``ptt_tracking`` shifts its points by a step."""
    if case.method.dg in ("prob", "det"):
        return dipy_threaded(case, random_seed)
    return numbered(case, local_lines(case, dipy_getter(case), random_seed, save_seeds=True))
