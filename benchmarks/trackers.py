"""The same tracking by DIPY and by tistreamlines: same seeds, same initial directions, same stop map, same options."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

STOP, BLOCKS = 0.1, 50
COMMON = {"relative_peak_threshold": 0.25, "min_separation_angle": 45.0}
FIT = {"smooth": 0.006, "min_signal": 1.0}
# greatest number of steps each way: DIPY's threaded trackers drop what has more points in all
MAX_STEPS = {"boot": 500, "prob": 1000, "det": 1000, "ptt": 500}
ANGLE = {"boot": 60.0, "prob": 20.0, "det": 60.0, "ptt": 10.0}
PROBE = {"pmf_threshold": 0.1, "probe_length": 1.5, "probe_quality": 7}
CSD_ORDER = 8


@dataclass
class Case:
    """What both packages track: a series, its FA, its mask, and seeds in voxel coordinates.

    Parameters
    ----------
    dg : boot, prob, det or ptt; model : opdt or csa for boot, csd for the others.
    threads : of tistreamlines and of DIPY's threaded trackers; its LocalTracking has one.
    """

    dwi: Any
    fa: np.ndarray
    mask: np.ndarray
    seeds: np.ndarray
    dg: str
    model: str
    threads: int | None

    @property
    def step_mm(self) -> float:
        """Half the smallest side of a voxel."""
        return float(self.dwi.space.voxel_sizes.min()) / 2

    @cached_property
    def csd(self) -> np.ndarray:
        """Coefficients of CSD, by this package (equal to DIPY's to 1e-7)."""
        from tistreamlines import csd

        data, gtab = csd.lowest_shell(self.dwi.data, self.dwi.gtab)
        response, _ = csd.csd_response(data, gtab, self.mask)
        return csd.fit_csd(data, gtab, self.mask, response, CSD_ORDER)

    @cached_property
    def starts(self) -> tuple[np.ndarray, np.ndarray]:
        """Number of each initial direction's seed, and the direction: DIPY's peaks of the PMF at the seeds."""
        from dipy.data import default_sphere
        from dipy.direction import ProbabilisticDirectionGetter

        getter = ProbabilisticDirectionGetter.from_shcoeff(
            self.csd.astype(float), max_angle=ANGLE[self.dg], sphere=default_sphere, **COMMON
        )
        found = [getter.initial_direction(np.ascontiguousarray(seed)) for seed in self.seeds]
        return np.repeat(np.arange(len(found)), [len(d) for d in found]), np.concatenate(found)


@dataclass
class Lines:
    """Streamlines of a run, RASmm, in the order of their seeds; each one's seed and number there; seconds spent."""

    points: list[np.ndarray]
    seed: np.ndarray
    branch: np.ndarray
    seconds: float

    def by_start(self) -> dict[tuple[int, int], np.ndarray]:
        """Streamlines of more than one point by seed and number of the direction."""
        starts = zip(self.seed.tolist(), self.branch.tolist(), strict=True)
        return {start: line for start, line in zip(starts, self.points, strict=True) if len(line) > 1}


def load(folder: Path, count: int, seeds_from: Path | None, dg: str, model: str, threads: int | None) -> Case:
    """Read the series, fit FA, place seeds (rounded to float32, so that both packages get the same ones)."""
    from tistreamlines import io, models

    dwi = io.load_dwi(folder / "dwi.nii.gz", folder / "dwi.bval", folder / "dwi.bvec")
    mask = io.load_mask(folder / "mask.nii.gz", dwi.space)
    fa = models.tensor_fa(dwi.data, dwi.gtab, mask)
    if seeds_from is None:
        rng = np.random.default_rng(0)
        voxels = np.argwhere(mask & (fa > 0.25))
        seeds = voxels[rng.integers(len(voxels), size=count)] + rng.uniform(-0.5, 0.5, (count, 3))
    else:
        seeds = dwi.space.to_voxel(np.load(seeds_from)[:count])
    return Case(dwi, fa, mask, seeds.astype(np.float32).astype(float), dg, model, threads)


def branches(seed: np.ndarray) -> np.ndarray:
    """Number of each streamline among those of its seed, of seeds in order."""
    return np.arange(len(seed)) - np.searchsorted(seed, seed)


def numbered(pairs: list[tuple[np.ndarray, np.ndarray]], places: np.ndarray, seconds: float) -> Lines:
    """Give each streamline, which comes with its seed's place, the next seed that lies there."""
    number, numbers = 0, np.zeros(len(pairs), int)
    for i, (_, place) in enumerate(pairs):
        while np.abs(places[number] - place).max() > 1e-5:
            number += 1
        numbers[i] = number
    return Lines([line for line, _ in pairs], numbers, branches(numbers), seconds)


def dipy_boot(case: Case, random_seed: int) -> Lines:
    """Track with DIPY's BootDirectionGetter and LocalTracking."""
    from dipy.data import default_sphere
    from dipy.direction import BootDirectionGetter
    from dipy.reconst.shm import CsaOdfModel, OpdtModel

    model = {"opdt": OpdtModel, "csa": CsaOdfModel}[case.model](case.dwi.gtab, sh_order_max=4, **FIT)
    getter = BootDirectionGetter.from_data(
        case.dwi.data.astype(float), model, sphere=default_sphere, sh_order=4, max_angle=ANGLE["boot"], **COMMON
    )
    return dipy_local(case, getter, random_seed)


def dipy_ptt(case: Case, random_seed: int) -> Lines:
    """Track with DIPY's PTTDirectionGetter and LocalTracking: ``ptt_tracking`` shifts its points by a step."""
    from dipy.data import default_sphere
    from dipy.direction import PTTDirectionGetter

    getter = PTTDirectionGetter.from_shcoeff(
        case.csd.astype(float), max_angle=ANGLE["ptt"], sphere=default_sphere, **PROBE, **COMMON
    )
    return dipy_local(case, getter, random_seed)


def dipy_local(case: Case, getter: Any, random_seed: int) -> Lines:
    """Track with LocalTracking, in mm."""
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    criterion = ThresholdStoppingCriterion(case.fa.astype(float), STOP)
    places = case.dwi.space.to_ras(case.seeds)
    grown = LocalTracking(
        getter, criterion, places, case.dwi.space.affine, case.step_mm, maxlen=MAX_STEPS[case.dg],
        random_seed=random_seed, save_seeds=True,
    )  # fmt: skip
    begun = time.perf_counter()
    pairs = list(grown)
    return numbered(pairs, places, time.perf_counter() - begun)


def dipy_threaded(case: Case, random_seed: int) -> Lines:
    """Track with DIPY's probabilistic_tracking or deterministic_tracking."""
    from dipy.data import default_sphere
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion
    from dipy.tracking.tracker import deterministic_tracking, probabilistic_tracking

    number, directions = case.starts
    places = case.dwi.space.to_ras(case.seeds)
    run = {"prob": probabilistic_tracking, "det": deterministic_tracking}[case.dg]
    begun = time.perf_counter()
    pairs = list(
        run(
            places[number], ThresholdStoppingCriterion(case.fa.astype(float), STOP), case.dwi.space.affine,
            seed_directions=directions, sh=case.csd.astype(float), sphere=default_sphere, step_size=case.step_mm,
            voxel_size=case.dwi.space.voxel_sizes, max_angle=ANGLE[case.dg], min_len=0,
            max_len=(MAX_STEPS[case.dg] + 1.5) * case.step_mm, random_seed=random_seed, save_seeds=True,
            nbr_threads=case.threads or 0,
        )
    )  # fmt: skip
    lines = numbered(pairs, places, time.perf_counter() - begun)
    # streamlines of more points than DIPY has room for are left out: then nobody knows which of the seed's these are
    whole = np.bincount(lines.seed, minlength=len(places)) == np.bincount(number, minlength=len(places))
    lines.branch = np.where(whole[lines.seed], lines.branch, -1 - lines.branch)
    return lines


def ours(case: Case, rng_seed: int) -> Lines:
    """Track with tistreamlines, arch cpu."""
    from tistreamlines.backends.devices import choose
    from tistreamlines.engine import Engine, Settings
    from tistreamlines.models import prepare_boot
    from tistreamlines.models_pmf import prepare_det, prepare_prob
    from tistreamlines.models_ptt import prepare_ptt

    options = COMMON | {"max_angle": ANGLE[case.dg], "sphere": "default"}
    if case.dg == "boot":
        prepared = prepare_boot(
            case.dwi.data, case.dwi.gtab, case.fa, STOP, case.seeds, model=case.model, sm_lambda=FIT["smooth"],
            min_signal=FIT["min_signal"], sh_order=4, **options,
        )  # fmt: skip
    else:
        make = {"prob": prepare_prob, "det": prepare_det, "ptt": prepare_ptt}[case.dg]
        if case.dg == "ptt":
            options |= PROBE | {"step_mm": case.step_mm, "voxel_sizes": tuple(case.dwi.space.voxel_sizes)}
        prepared = make("sh", case.csd, case.fa, STOP, case.seeds, **options)
    settings = Settings(case.step_mm, max_steps=MAX_STEPS[case.dg], rng_seed=rng_seed, threads=case.threads)
    made = Engine(prepared, case.dwi.space, choose("cpu"), settings)
    batches = list(made.track(case.seeds))
    lines = [line for batch in batches for line in np.split(batch.points, batch.offsets[1:-1])]
    seed = np.concatenate([batch.seed_number for batch in batches]).astype(int)
    branch = np.concatenate([batch.direction_number for batch in batches]).astype(int)
    return Lines(lines, seed, branch, made.tally.seconds["track"])


def dipys(case: Case, random_seed: int) -> Lines:
    """Track with DIPY."""
    return {"boot": dipy_boot, "ptt": dipy_ptt}.get(case.dg, dipy_threaded)(case, random_seed)
