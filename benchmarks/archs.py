"""Time one arch on one data set, and hash its streamlines; prints one line of JSON per run.

    python benchmarks/archs.py ARCH NSEEDS [--data phantom|FOLDER] [--dg boot|prob|det|ptt] [--model opdt|csa]
        [--rows pmf|sh] [--max-angle DEGREES] [--fast] [--profile] [--chunks N,N] [--threads N] [--repeat K]
        [--peers FOLDER]

The phantom is that of the peers' script (in the folder --peers), so that both track the same data and seeds. prob, det
and ptt use the same PMF as that script, as samples on the sphere or as harmonics of order 8 fitted to them. FOLDER
contains dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tistreamlines.tracking.engine.engine import Engine


def peers_phantom(peers: Path):
    """Return the phantom of the peers' script, from its cache file or generated in the same way."""
    cached = Path(tempfile.gettempdir()) / "stanford_shape_phantom.npz"
    names = ("S", "bvals", "bvecs", "mask", "fa", "wm")
    if not cached.exists():
        sys.path.insert(0, str(peers.parent / "probes"))
        import stanford_shape_phantom as phantom

        head = phantom.make()
        fa = phantom.fa_map(*head[:4])
        np.savez(cached, **dict(zip(names, (*head[:4], fa, head[4].sum(-1) > 0.5), strict=True)))
    with np.load(cached) as stored:
        return [stored[name] for name in names]


def load(data: str, peers: Path):
    """Signals, gradient table, FA, seeding mask and space."""
    from dipy.core.gradients import gradient_table

    from tistreamlines.fit.tensor import tensor_fa
    from tistreamlines.io import nifti
    from tistreamlines.space.batch import Space

    if data == "phantom":
        signals, bvals, bvecs, _, fa, white = peers_phantom(peers)
        return signals, gradient_table(bvals, bvecs=bvecs), fa, white, Space(np.eye(4), signals.shape[:3])
    folder = Path(data)
    dwi = nifti.load_dwi(folder / "dwi.nii.gz", folder / "dwi.bval", folder / "dwi.bvec")
    mask = nifti.load_mask(folder / "mask.nii.gz", dwi.space)
    fa = tensor_fa(dwi.data, dwi.gtab, mask)
    return dwi.data, dwi.gtab, fa, mask & (fa > 0.25), dwi.space


def sharpened(signals, gtab, sphere, mask):
    """The PMF that the peers' script tracks: the sixth power of a CSA ODF of order 6, less its least sample."""
    from dipy.reconst.shm import CsaOdfModel, real_sh_descoteaux

    model = CsaOdfModel(gtab, sh_order_max=6, assume_normed=True)
    coefficients = model.fit(signals[mask].astype(float)).shm_coeff
    odf = coefficients @ real_sh_descoteaux(6, sphere.theta, sphere.phi, legacy=True)[0].T
    odf = np.clip(odf - odf.min(axis=1, keepdims=True), 0, None) ** 6
    values = np.zeros((*signals.shape[:3], len(sphere.vertices)), np.float32)
    values[mask] = odf / odf.sum(axis=1, keepdims=True)
    return values


def prepare(options, signals, gtab, fa, seeds, space):
    """Tables of the direction getter."""
    from tistreamlines.run.from_arrays import prepare_arrays
    from tistreamlines.tracking.tables.inputs import OrientationFunctions, Signals

    common = {"max_angle": options.max_angle, "relative_peak_threshold": 0.25, "min_separation_angle": 45.0}
    if options.dg == "boot":
        return prepare_arrays("boot", Signals(signals, gtab), fa, 0.1, seeds, model=options.model, **common)
    from dipy.data import default_sphere
    from dipy.reconst.shm import real_sh_descoteaux

    values = sharpened(signals, gtab, default_sphere, signals[..., gtab.b0s_mask].mean(-1) > 0)
    if options.dg == "ptt":  # as the peer scales them
        values /= np.maximum(values.max(axis=-1, keepdims=True), np.finfo(np.float32).tiny)
        sizes = tuple(map(float, space.voxel_sizes))
        common |= {"pmf_threshold": 0.05, "step_mm": 0.5 * min(sizes), "voxel_sizes": sizes}
    if options.rows == "sh":
        matrix = np.linalg.pinv(real_sh_descoteaux(8, default_sphere.theta, default_sphere.phi, legacy=True)[0])
        values = values @ matrix.T.astype(np.float32)
    return prepare_arrays(options.dg, OrientationFunctions(options.rows, values), fa, 0.1, seeds, **common)


def wait_for_kernels(engine: Engine) -> None:
    """Wait for each launch of an engine's kernels, and let its statistics tell for how long."""
    program, seconds = engine.growth.program, engine.statistics.seconds
    seconds["kernels"] = 0.0
    run = program.run

    def measured(name: str, count: int, values: Mapping[str, object]) -> None:
        program.sync()
        begun = time.perf_counter()
        run(name, count, values)
        program.sync()
        seconds["kernels"] += time.perf_counter() - begun

    program.run = measured


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("arch")
    parser.add_argument("nseeds", type=int)
    parser.add_argument("--data", default="phantom")
    parser.add_argument("--dg", default="boot")
    parser.add_argument("--model", default="opdt")
    parser.add_argument("--rows", default="pmf")
    parser.add_argument("--max-angle", type=float, default=60.0)
    parser.add_argument("--fast", action="store_true")
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--chunks", default="0", help="seeds per chunk, separated by commas; 0 for automatic")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--peers", type=Path, default=Path(__file__).resolve().parents[2] / "shared" / "peers")
    options = parser.parse_args()
    from tistreamlines.benchmarks.problem import seeds_in
    from tistreamlines.devices import choose
    from tistreamlines.tracking.engine.engine import Engine
    from tistreamlines.tracking.growth.settings import Settings

    signals, gtab, fa, white, space = load(options.data, options.peers)
    seeds = seeds_in(white, options.nseeds)
    prepared = prepare(options, signals, gtab, fa, seeds, space)
    settings = Settings(
        step_mm=0.5 * float(space.voxel_sizes.min()), exact=not options.fast, threads=options.threads
    )
    device = choose(options.arch)
    engine = Engine(prepared, space, device, settings)
    if options.profile:
        wait_for_kernels(engine)
    for chunk, run in itertools.product(map(int, options.chunks.split(",")), range(options.repeat)):
        engine.settings = dataclasses.replace(settings, chunk_size=chunk or None)
        engine.statistics.seconds.update(dict.fromkeys(("kernels", "start", "grow", "pack", "unpack"), 0.0))
        # batches are let go as they come, as by whoever writes them to a file; a second pass hashes them
        points = np.concatenate([batch.lengths for batch in engine.track(seeds)])
        seconds = dict(engine.statistics.seconds)
        digest = hashlib.sha256()
        for batch in engine.track(seeds):
            digest.update(batch.points)
        row = {
            "arch": options.arch, "device": device.name, "data": Path(options.data).name,
            "dg": options.dg, "model": options.model if options.dg == "boot" else options.rows,
            "max_angle": options.max_angle, "exact": settings.exact, "chunk": engine.chunk_size(),
            "seeds": options.nseeds, "run": run,
            "streamlines": len(points), "points": int(points.sum()), "mean_points": round(float(points.mean()), 3),
            "median_points": float(np.median(points)), "compile": round(seconds["compile"], 2),
            **{k: round(seconds[k], 4) for k in ("track", "kernels", "start", "grow", "pack", "unpack")},
            "mpoints_per_second": round(points.sum() / seconds["track"] / 1e6, 3), "sha256": digest.hexdigest(),
        }
        print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
