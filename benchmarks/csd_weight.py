"""Measure how much the weight of CSD's constraint that --csd-lambda auto chooses varies with changes of the same data.

    python benchmarks/csd_weight.py [FOLDER ...] [--fibercup FOLDER] [--response WAY] [--tries N] [--jobs N]
        [--seed N] [--out FILE]

FOLDER has dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz, or dwi.mif and mask.mif; the phantom of `tistreamlines
demo` is always there. Each series is tried --tries times, in turn with another order of its axes, a random box of 60 to
100 % of its mask along each axis, as many of its voxels drawn with replacement, and the residuals of a fit in other
volumes (of at most 24 voxels along each axis, with the weight that the series itself has, and as large as its noise).
The response is estimated anew each time. A row has the mean, the standard deviation and the range of log2 of the weight
of a series by kind of change, and of all; "of_itself" is the weight of the unchanged series, and "failed" counts those
that no response is found for.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import permutations, product
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from dipy.core.gradients import GradientTable, gradient_table
from records import write_record
from truth.fibercup import FiberCup

import tistreamlines as ts
from tistreamlines.devices.threads import single_blas
from tistreamlines.fit.csd import DIPYS_WEIGHT, System
from tistreamlines.fit.csd_weight import Trial
from tistreamlines.fit.model_fits import response_and_weight
from tistreamlines.fit.models import order_for
from tistreamlines.fit.shells import on_shell, shell_of_models
from tistreamlines.io import nifti
from tistreamlines.phantom.phantom import make_phantom, save_phantom

LEAST = 0.6  # of a side of the mask, in a box
BOX = 24  # voxels
Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Series:
    """A shell and its b0s: signals (x, y, z, n), their gradients, a mask (x, y, z), and --response."""

    data: Array
    gtab: GradientTable
    mask: npt.NDArray[np.bool_]
    response: str

    @classmethod
    def read(cls, folder: Path, response: str) -> Series:
        """Read the files of a folder."""
        path = folder / "dwi.mif"
        names = [path] if path.exists() else [folder / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")]
        dwi = nifti.load_dwi(*names)
        mask = nifti.load_mask(folder / ("mask.mif" if path.exists() else "mask.nii.gz"), dwi.space)
        return cls(*on_shell(dwi.data, dwi.gtab, shell_of_models), mask, response)

    def fit(self) -> tuple[Any, int, float]:
        """Return the response, the order and the weight by default."""
        order = order_for("csd", int(np.count_nonzero(~self.gtab.b0s_mask)))
        options = ts.Parameters(dg="det", sh_order=order, response=self.response)
        with single_blas():
            response, weight = response_and_weight(self.data, self.gtab, self.mask, options, 1)
        return response.response, order, weight

    def boxed(self, sides: list[tuple[int, int]]) -> Series:
        """Return the part from one voxel to another along each axis."""
        box = tuple(slice(first, last) for first, last in sides)
        return self.changed(self.data[box], self.mask[box])

    def changed(self, data: Array, mask: Array, gtab: GradientTable | None = None) -> Series:
        """Return one of other signals, mask and gradients."""
        return Series(np.ascontiguousarray(data), gtab or self.gtab, np.ascontiguousarray(mask), self.response)


def axes(series: Series, rng: np.random.Generator) -> Series:
    """Exchange and reverse the axes."""
    way = [*product(permutations(range(3)), product((1, -1), repeat=3))][rng.integers(48)]
    order, signs = list(way[0]), tuple(slice(None, None, sign) for sign in way[1])
    gtab = gradient_table(
        series.gtab.bvals, bvecs=series.gtab.bvecs[:, order] * way[1], b0_threshold=series.gtab.b0_threshold
    )
    return series.changed(series.data.transpose(*order, 3)[signs], series.mask.transpose(order)[signs], gtab)


def box(series: Series, rng: np.random.Generator) -> Series:
    """Take a random box of the mask."""
    places, sides = np.argwhere(series.mask), []
    for first, last in zip(places.min(axis=0), places.max(axis=0) + 1, strict=True):
        length = int(np.ceil((last - first) * rng.uniform(LEAST, 1)))
        start = first + int(rng.integers(last - first - length + 1))
        sides.append((start, start + length))
    return series.boxed(sides)


def voxels(series: Series, rng: np.random.Generator) -> Series:
    """Put signals of other voxels, drawn with replacement, in the place of all in the mask."""
    rows, data = series.data[series.mask], np.zeros_like(series.data)
    data[series.mask] = rows[rng.integers(len(rows), size=len(rows))]
    return series.changed(data, series.mask)


def residuals(series: Series, rng: np.random.Generator) -> Series:
    """Put the residuals of a voxel's fit in the place of those of its other volumes."""
    response, order, weight = series.fit()
    middle = np.argwhere(series.mask).mean(axis=0).astype(int)
    part = series.boxed([(max(at - BOX // 2, 0), at + BOX // 2) for at in middle])
    rows, weighted = part.data[part.mask], ~np.asarray(series.gtab.b0s_mask)
    system = System.of(series.gtab, response, order, DIPYS_WEIGHT)
    trial, halvings = Trial(rows, series.gtab, system, 1), -np.log2(weight)
    fit = trial.fit(halvings)
    fitted = fit.coefficients[:, 0, 0].astype(np.float64) @ fit.system.design.T
    apart = rows[:, weighted] - fitted
    # GCV over the mean square is (n / (n - tr H))^2; the variance of residuals is less than that of noise by its root
    smaller = np.exp(np.log((apart**2).mean(axis=1)).mean() - trial.cross_validation(halvings))
    rows[:, weighted] = np.maximum(fitted + rng.permuted(apart, axis=1) / smaller**0.25, 0)
    data = part.data.copy()
    data[part.mask] = rows
    return series.changed(data, part.mask)


CHANGES: tuple[Callable[[Series, np.random.Generator], Series], ...] = (axes, box, voxels, residuals)


@cache
def read(source: str, response: str) -> Series:
    """Read a series once in each process."""
    name, _, folder = source.partition("=")
    if name == "folder":
        return Series.read(Path(folder), response)
    with tempfile.TemporaryDirectory() as scratch:
        if name == "fibercup":
            FiberCup(Path(folder), 0).save(Path(scratch))
        else:
            save_phantom(make_phantom(), scratch)
        return Series.read(Path(scratch), response)


def weigh(seed: int, response: str, task: tuple[str, int]) -> tuple[str, str, float]:
    """Return the source, the kind of change, and the weight, NaN if none is found; number -1 changes nothing."""
    warnings.simplefilter("ignore")
    source, number = task
    series, change = read(source, response), CHANGES[number % len(CHANGES)]
    try:
        changed = change(series, np.random.default_rng([seed, number])) if number >= 0 else series
        return source, change.__name__ if number >= 0 else "", changed.fit()[2]
    except ts.InputError:
        return source, change.__name__, np.nan


def summary(weights: npt.ArrayLike) -> dict[str, float | int]:
    """Return what the weights of a row have in common."""
    logs = np.log2(np.asarray(weights))
    logs, count = logs[np.isfinite(logs)], len(logs)
    return {
        "count": count, "failed": count - len(logs), "mean": round(float(logs.mean()), 3),
        "deviation": round(float(logs.std()), 3), "range": round(float(np.ptp(logs)), 3),
    }


def main() -> None:
    """Choose weights, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--fibercup", type=Path, metavar="FOLDER")
    parser.add_argument("--response", default="auto")
    parser.add_argument("--tries", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    sources = [*(f"folder={folder}" for folder in options.folders), "demo"]
    if options.fibercup is not None:
        sources.append(f"fibercup={options.fibercup}")
    tasks = [(source, number) for source in sources for number in range(-1, options.tries)]
    with ProcessPoolExecutor(options.jobs, get_context("spawn")) as pool:
        weights = [*pool.map(partial(weigh, options.seed, options.response), tasks, chunksize=8)]
    rows = []
    for source in sources:
        of_source = [(kind, weight) for name, kind, weight in weights if name == source]
        row: dict[str, Any] = {"data": Path(source.rpartition("=")[2]).name, "of_itself": of_source[0][1]}
        row |= summary([weight for _, weight in of_source])
        row["by_change"] = {
            change.__name__: summary([weight for kind, weight in of_source if kind == change.__name__])
            for change in CHANGES
        }
        rows.append(row)
        sys.stdout.write(f"{json.dumps(row)}\n")
    if options.out is not None:
        write_record(options.out, rows=rows)


if __name__ == "__main__":
    main()
