"""Compare the stopping rules with DIPY's criteria: streamlines, points, valid streamlines and density.

    python benchmarks/anatomy.py DATA [--rules binary,act,cmc] [--dgs prob,det] [--pft] [--nseeds N] [--arch NAME]
        [--hard] [--draws N] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. If it has no tissue fractions (pve_wm.nii.gz and
so on, as the demo writes them), they are made of FA and the mean b0: cerebrospinal fluid is bright, white matter has a
high FA, the rest of the mask is grey matter. DIPY runs twice, with two RNG seeds, which shows how far runs differ by
chance. With --pft both filter particles, which needs the rules act or cmc and the getters prob or boot. The seconds of
this package are the median of three runs. With --hard, each voxel has only the tissue of which it has most. With
--draws, both run with so many RNG seeds, and their mean counts of points and of valid streamlines are compared: z is
their difference in standard errors.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from problems import problems_of
from records import write_record

from tistreamlines.benchmarks import targets as peer
from tistreamlines.benchmarks.cases import COMMON, METHODS
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.devices import choose
from tistreamlines.fit.models import BASIS
from tistreamlines.kernels.stop_reasons import VALID
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.engine.engine import Engine
from tistreamlines.tracking.growth.settings import Settings
from tistreamlines.tracking.registry import METHODS as GETTERS
from tistreamlines.tracking.registry import STOPPING_RULES
from tistreamlines.tracking.selection.filters import ValidEnds
from tistreamlines.tracking.tables.inputs import GetterInputs, OrientationFunctions, Signals

BRIGHT = (1.3, 2.3)  # b0 over its median where fluid begins, and where there is nothing else
WHITE = (0.1, 0.25)  # FA where white matter begins, and where there is nothing else
TURNS = 3


def tissues(problem: Problem, folder: Path) -> dict[str, np.ndarray]:
    """Return tissue fractions, made up if the folder has none, and a mask of white matter, each (x, y, z) float32."""
    paths = {name: folder / f"{name}.nii.gz" for name in ("pve_wm", "pve_gm", "pve_csf")}
    if all(path.exists() for path in paths.values()):
        maps = {name: nib.load(path).get_fdata(dtype=np.float32) for name, path in paths.items()}
        return maps | {"stop_mask": (maps["pve_wm"] > 0.5).astype(np.float32)}
    b0 = problem.data[..., problem.gtab.b0s_mask].mean(axis=-1)
    fluid = np.clip((b0 / np.median(b0[problem.mask]) - BRIGHT[0]) / (BRIGHT[1] - BRIGHT[0]), 0, 1)
    white = np.clip((problem.fa - WHITE[0]) / (WHITE[1] - WHITE[0]), 0, 1) * (1 - fluid)
    maps = {"pve_wm": white, "pve_gm": 1 - white - fluid, "pve_csf": fluid, "stop_mask": problem.fa > WHITE[1] / 2}
    return {name: (values * problem.mask).astype(np.float32) for name, values in maps.items()}


def criterion(rule: str, maps: dict[str, np.ndarray], problem: Problem) -> Any:
    """Return DIPY's criterion."""
    from dipy.tracking import stopping_criterion as dipys

    if rule == "binary":
        return dipys.BinaryStoppingCriterion(maps["stop_mask"] > 0)
    fractions = [maps[name].astype(float) for name in ("pve_wm", "pve_gm", "pve_csf")]
    if rule == "act":
        return dipys.ActStoppingCriterion.from_pve(*fractions)
    side = float(problem.space.voxel_sizes.mean())
    return dipys.CmcStoppingCriterion.from_pve(*fractions, step_size=problem.step_mm, average_voxel_size=side)


def ours(problem: Problem, rule: str, maps: dict[str, np.ndarray], arch: str, pft: bool) -> dict[str, Any]:
    """Track with this package."""
    engine, filtering = engines(problem, rule, maps, arch, pft)
    seconds = []
    for _ in range(TURNS):
        begun = time.perf_counter()
        batches = list(engine.track(problem.seeds))
        seconds.append(time.perf_counter() - begun)
    valid = valid_of(batches)
    assert valid == sum(len(batch.lengths) for batch in filtering.track(problem.seeds))
    lines = [line for batch in batches for line in np.split(batch.points, batch.offsets[1:-1])]
    return measured(lines, valid, problem) | {"seconds": float(np.median(seconds))}


def valid_of(batches: list[Any]) -> int:
    """Return the number of streamlines with two valid ends."""
    ends = np.concatenate([batch.stop_reasons for batch in batches])
    return int(np.isin(ends, VALID).all(axis=1).sum())


def engines(
    problem: Problem, rule: str, maps: dict[str, np.ndarray], arch: str, pft: bool, rng_seed: int = 0
) -> tuple[Engine, Engine]:
    """Return an engine for all streamlines, and one that keeps those with two valid ends."""
    method, sides = problem.method, tuple(map(float, problem.space.voxel_sizes))
    row = STOPPING_RULES[rule]
    pft_options = {"dg": method.dg, "pft": True} if pft else {}
    named = Parameters.given({"stopping": rule, "step_size": f"{problem.step_mm}mm"} | pft_options)
    stop = row.prepare({name: maps[name] for name in row.maps if name in maps}, lambda: problem.fa, named, sides)
    signals = "signals" in GETTERS[method.dg].follows
    follows = Signals(problem.data, problem.gtab) if signals else OrientationFunctions("sh", problem.csd, BASIS)
    content = GetterInputs(follows, stop, problem.seeds, method.sphere, problem.step_mm, sides)
    options = COMMON | {"dg": method.dg, "model": method.model, "max_angle": method.max_angle} | dict(method.options)
    prepared = GETTERS[method.dg].prepare(content, Parameters.given(options))
    settings = Settings(problem.step_mm, max_steps=method.max_steps, rng_seed=rng_seed)
    device = choose(arch)
    return Engine(prepared, problem.space, device, settings), Engine(
        prepared, problem.space, device, settings, (ValidEnds(),)
    )


def dipys(problem: Problem, sc: Any, number: np.ndarray, directions: np.ndarray, turn: int) -> dict[str, Any]:
    """Track with DIPY's threaded tracker; its streamlines of a single point are left out, as this package does."""
    begun = time.perf_counter()
    lines = list(peer.threaded_lines(problem, number, directions, turn, criterion=sc))
    seconds = time.perf_counter() - begun
    kept = peer.threaded_lines(problem, number, directions, turn, criterion=sc, return_all=False)
    valid = sum(len(line) > 1 for line in kept)
    return measured([line for line in lines if len(line) > 1], valid, problem) | {"seconds": seconds}


def filtered(problem: Problem, sc: Any, turn: int) -> dict[str, Any]:
    """Track with DIPY's particle filtering, which is not threaded."""
    from dipy.tracking.local_tracking import ParticleFilteringTracking

    def lines_of(return_all: bool) -> Any:
        return ParticleFilteringTracking(
            peer.dipy_getter(problem), sc, problem.space.to_ras(problem.seeds), problem.space.affine,
            problem.step_mm, maxlen=problem.method.max_steps, random_seed=turn, return_all=return_all,
        )

    begun = time.perf_counter()
    lines = list(lines_of(True))
    seconds = time.perf_counter() - begun
    valid = sum(len(line) > 1 for line in lines_of(False))
    return measured([line for line in lines if len(line) > 1], valid, problem) | {"seconds": seconds}


def measured(lines: list[np.ndarray], valid: int, problem: Problem) -> dict[str, Any]:
    """Return counts, lengths and the density of streamlines."""
    points = problem.space.to_voxel(np.concatenate(lines))
    density = np.zeros(problem.mask.shape)
    np.add.at(density, tuple(np.clip(np.rint(points).astype(int).T, 0, np.array(density.shape)[:, None] - 1)), 1)
    return {"streamlines": len(lines), "mean_points": len(points) / len(lines), "valid": valid, "density": density}


def compared(problem: Problem, rule: str, maps: dict[str, np.ndarray], arch: str, pft: bool) -> dict[str, Any]:
    """Return the figures of this package and of two runs of DIPY, and how their densities correlate."""
    sc = criterion(rule, maps, problem)
    runs = [ours(problem, rule, maps, arch, pft)]
    if pft:
        runs += [filtered(problem, sc, turn) for turn in (1, 2)]
    else:
        number, directions = peer.initial_directions(problem, peer.dipy_getter(problem))
        runs += [dipys(problem, sc, number, directions, turn) for turn in (1, 2)]
    densities = [run.pop("density").ravel() for run in runs]
    matrix = np.corrcoef(densities)
    correlations = {"this and DIPY": round(matrix[0, 1], 4), "DIPY and DIPY": round(matrix[1, 2], 4)}
    named = dict(zip(("this", "dipy", "dipy again"), runs, strict=True))
    rounded = {name: {key: round(value, 4) for key, value in run.items()} for name, run in named.items()}
    known = {"rule": rule, "dg": problem.method.dg, "pft": pft, "arch": arch}
    return known | rounded | {"density_correlation": correlations}


def drawn(problem: Problem, rule: str, maps: dict[str, np.ndarray], arch: str, draws: int) -> dict[str, Any]:
    """Compare mean counts of points and of valid streamlines over several RNG seeds."""
    sc = criterion(rule, maps, problem)
    number, directions = peer.initial_directions(problem, peer.dipy_getter(problem))
    counts: dict[str, list[tuple[int, int]]] = {"this": [], "dipy": []}
    for turn in range(1, draws + 1):
        batches = list(engines(problem, rule, maps, arch, False, turn)[0].track(problem.seeds))
        counts["this"].append((sum(int(batch.offsets[-1]) for batch in batches), valid_of(batches)))
        theirs = dipys(problem, sc, number, directions, turn)
        counts["dipy"].append((round(theirs["mean_points"] * theirs["streamlines"]), theirs["valid"]))
    values = {name: np.array(rows, float) for name, rows in counts.items()}
    means = {name: rows.mean(axis=0) for name, rows in values.items()}
    errors = np.sqrt(sum(rows.var(axis=0, ddof=1) / draws for rows in values.values()))
    ratios, z = means["this"] / means["dipy"], (means["this"] - means["dipy"]) / errors
    compared = {
        name: {"counts": {who: [int(row[i]) for row in rows] for who, rows in counts.items()},
               "ratio": round(float(ratios[i]), 5), "z": round(float(z[i]), 2)}
        for i, name in enumerate(("points", "valid"))
    }
    return {"rule": rule, "dg": problem.method.dg, "arch": arch, "draws": draws} | compared


def hardened(maps: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Give each voxel of the brain only the tissue of which it has most."""
    names = ("pve_wm", "pve_gm", "pve_csf")
    shares = np.stack([maps[name] for name in names])
    brain = shares.sum(axis=0) > 0.5
    return maps | {name: (brain & (shares.argmax(axis=0) == i)).astype(np.float32) for i, name in enumerate(names)}


def main() -> None:
    """Compare, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--rules", default="binary,act,cmc")
    parser.add_argument("--dgs", default="prob,det")
    parser.add_argument("--pft", action="store_true")
    parser.add_argument("--nseeds", type=int, default=20_000)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--hard", action="store_true")
    parser.add_argument("--draws", type=int)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    results = []
    with problems_of(options.data) as problem_of:
        for dg in options.dgs.split(","):
            problem = problem_of(METHODS[dg], options.nseeds)
            maps = tissues(problem, options.data)
            maps = hardened(maps) if options.hard else maps
            for rule in options.rules.split(","):
                if options.draws is None:
                    results.append(compared(problem, rule, maps, options.arch, options.pft))
                else:
                    results.append(drawn(problem, rule, maps, options.arch, options.draws))
                sys.stdout.write(f"{json.dumps(results[-1])}\n")
                sys.stdout.flush()
    if options.out is not None:
        write_record(options.out, nseeds=options.nseeds, runs=results)


if __name__ == "__main__":
    main()
