"""Measure the stages of a bootstrap step by leaving out one at a time.

    python benchmarks/stages.py ARCH [--seeds N] [--steps K] [--fast] [--peers FOLDER]

Each team stays near its seed and takes K steps of the method, so that every variant does the same number of steps. The
table lists nanoseconds per step of the whole device, and the time saved without each stage.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from archs import load

from tistreamlines.benchmarks.problem import seeds_in
from tistreamlines.kernels.getters.boot import (
    PASS,
    PASSES,
    SIGNAL_CHUNKS,
    Boot,
    BootScratch,
    begin_fit,
    draw_pass,
    end_fit,
    fit_pass,
    sample_odf,
)
from tistreamlines.kernels.interpolate import Volume, interpolate_row
from tistreamlines.kernels.orientation.peaks import closest_peak, collect_maxima, direction, keep_separated
from tistreamlines.linker.lang import (
    Constant,
    Ints,
    Reals,
    barrier,
    func,
    i32,
    lane,
    lanes,
    minimum,
    real,
    u32,
    vec3,
)
from tistreamlines.linker.parts import Part
from tistreamlines.linker.rng import philox

INTERPOLATES = Constant("1: the stage is run")
DRAWS = Constant("1: the stage is run")
FITS = Constant("1: the stage is run")
SAMPLES = Constant("1: the stage is run")
FINDS_MAXIMA = Constant("1: the stage is run")
CHOOSES = Constant("1: the stage is run")


@dataclass(frozen=True, kw_only=True, eq=False)
class Stages(Part):
    """Which stages of a step are run."""

    interpolates: int = 1
    draws: int = 1
    fits: int = 1
    samples: int = 1
    finds_maxima: int = 1
    chooses: int = 1


@func
def stages(
    item: i32,
    steps: i32,
    points: Reals,
    key: Ints,
    volume: Volume,
    method: Boot,
    scratch: BootScratch,
    codes: Ints,
):
    """Take steps of the bootstrap at a seed; constants omit stages."""
    code = 0
    for step in range(steps):
        barrier()
        # an omitted stage still runs once, so that later stages have real data
        if (step == 0) | (INTERPOLATES == 1):
            x = points[3 * item] + 0.5 * real(step & 7)
            interpolate_row(volume, vec3(x, points[3 * item + 1], points[3 * item + 2]), scratch.row)
        barrier()
        heading = direction(method.sphere, code & 511)
        if (step == 0) | (DRAWS == 1):
            w = philox(lanes(u32(item)), lanes(u32(step)), lanes(u32(0)), u32(lane()), u32(key[0]), u32(key[1]))
            for turn in range(PASSES):
                draw_pass(method, scratch, w[0] + u32(turn), turn * PASS, minimum(PASS, SIGNAL_CHUNKS - turn * PASS))
        if (step == 0) | (FITS == 1):
            begin_fit(scratch)
            for turn in range(PASSES):
                fit_pass(method, scratch, turn * PASS, minimum(PASS, SIGNAL_CHUNKS - turn * PASS))
            end_fit(method, scratch)
        if (step == 0) | (SAMPLES == 1):
            sample_odf(method, scratch, heading)
        if (step == 0) | (FINDS_MAXIMA == 1):
            collect_maxima(scratch.odf, method.sphere, method.rule, scratch.peaks, scratch.sums[0], scratch.sums[1])
        if (step == 0) | (CHOOSES == 1):
            count = keep_separated(scratch.odf, method.sphere, method.rule, scratch.peaks)
            code = code + closest_peak(method.sphere, method.rule, scratch.peaks, count, heading)
    codes[item] = code


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("arch")
    parser.add_argument("--seeds", type=int, default=50_000)
    parser.add_argument("--steps", type=int, default=64)
    parser.add_argument("--data", default="phantom")
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--peers", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "peers")
    options = parser.parse_args()
    from tistreamlines.backends import open_program
    from tistreamlines.devices import choose
    from tistreamlines.run.from_arrays import prepare_arrays
    from tistreamlines.tracking.tables.inputs import Signals

    signals, gtab, fa, white, _ = load(options.data, options.peers)
    seeds = np.clip(seeds_in(white, options.seeds).astype(np.float32), 0, np.array(fa.shape) - 6)
    prepared = prepare_arrays("boot", Signals(signals, gtab), fa, 0.1, seeds.astype(float))
    device = choose(options.arch)
    whole = None
    for left_out in ("", *(stage.name for stage in fields(Stages))):
        source = prepared.source([stages], parts=[Stages(**{left_out: 0} if left_out else {})])
        program = open_program(device, replace(source, shares={}), exact=not options.fast)
        values = prepared.scalars | {k: program.array(v) for k, v in prepared.arrays.items()}
        values |= {"points": program.array(seeds.ravel()), "key": program.array(np.array([1, 0]))}
        values |= {"codes": program.empty(len(seeds), "ints"), "steps": options.steps}
        best = float("inf")
        for _ in range(3):
            program.sync()
            begun = time.perf_counter()
            program.run("stages", len(seeds), values)
            program.sync()
            best = min(best, time.perf_counter() - begun)
        ns = best / len(seeds) / options.steps * 1e9
        whole = whole or ns
        row = {"arch": options.arch, "device": device.name, "exact": not options.fast}
        row |= {"left_out": left_out or "nothing", "ns_per_step": round(ns, 3)}
        row |= {"msteps_per_second": round(1e3 / ns, 1), "saved_percent": round(100 * (1 - ns / whole), 1)}
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
