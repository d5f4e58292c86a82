"""Compare the tractograms of a real series by default with those of DIPY's defaults.

    python benchmarks/defaults.py DATA [--dg boot,prob,det,ptt] [--nseeds 20000] [--set OPTION=VALUE ...] [--out FILE]

DATA is a folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. --set gives options to all runs. The coherence is
that of the model's greatest directions where FA is high, with which axes are checked too
(tistreamlines/fit/coherence.py): how well short paths along them stay on fibres, over the FA where they start.
"repeated" is the correlation of the density of streamlines with that of a run with another --seed-seed, in the voxels
that either visits.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

import tistreamlines as ts
from tistreamlines.benchmarks.streamlines import Array, RunStreamlines, correlation, density
from tistreamlines.fit.coherence import coherence, field_of, maxima_field
from tistreamlines.fit.fits import Fits
from tistreamlines.fit.frames import place_gradients
from tistreamlines.fit.models import BASIS, order_for
from tistreamlines.fit.shells import shell_of_models
from tistreamlines.io import nifti

NAMES = {"bval": "dwi.bval", "bvec": "dwi.bvec", "dwi": "dwi.nii.gz", "mask": "mask.nii.gz"}


def fibre_coherence(data: Path, parameters: ts.Parameters) -> float:
    """Return the mean score of the model's greatest directions."""
    dwi = nifti.load_dwi(*(data / NAMES[name] for name in ("dwi", "bval", "bvec")))
    mask = nifti.load_mask(data / NAMES["mask"], dwi.space)
    dwi, _ = place_gradients(dwi, mask, parameters.bvecs_frame, NAMES["bvec"])
    assert parameters.model is not None
    order = parameters.sh_order or order_for(parameters.model, int(shell_of_models(dwi.gtab).sum()))
    values = {name: getattr(parameters, name) for name in ("dg", "like", "model", "sm_lambda", "csd_lambda")}
    fits, chosen = Fits(dwi, mask), ts.Parameters.given(values | {"sh_order": order})
    seen, _ = maxima_field(fits.coefficients(parameters.model, chosen), BASIS, dwi.space)
    known = np.asarray(seen.axes.any(axis=3))
    field = field_of(known, seen.axes[known], fits.anisotropy()[known], dwi.space.voxel_sizes)
    return float(coherence(field).mean() / field.weight[tuple(field.places.T)].mean())


def visits(result: ts.TrackResult) -> Array:
    """Return the number of streamlines that visit each voxel (x, y, z)."""
    whole = ts.Batch.concatenate(result.batches)
    return density(RunStreamlines(whole.points, whole.offsets, 0.0), result.space)


def rows(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Track with each getter, by default and with DIPY's defaults."""
    series = [options.data / NAMES[name] for name in ("dwi", "bval", "bvec")]
    more = dict(pair.split("=", 1) for pair in options.set)
    for dg in options.dg.split(","):
        for like in (None, "dipy"):
            common = {"dg": dg, "like": like, "mask": options.data / NAMES["mask"], "arch": "cpu"}
            common |= {"nseeds": options.nseeds}
            begun = time.perf_counter()
            first, again = (ts.track(*series, **common, **more, seed_seed=number) for number in (0, 1))
            seconds = time.perf_counter() - begun
            a, b = map(visits, (first, again))
            reasons = first.stop_reasons
            yield {
                "dg": dg, "like": like, "streamlines": first.n_streamlines, "dropped": first.dropped,
                "mean_mm": round(first.mean_mm, 1), "median_mm": round(first.median_mm, 1),
                "no_direction": round(reasons["no_direction"] / max(sum(reasons.values()), 1), 3),
                "repeated": round(correlation(a, b, (a > 0) | (b > 0)), 4),
                "coherence": round(fibre_coherence(options.data, first.parameters), 4),
                "seconds": round(seconds, 1),
            }


def main() -> None:
    """Track, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--dg", default="boot,prob,det,ptt")
    parser.add_argument("--nseeds", type=int, default=20_000)
    parser.add_argument("--set", nargs="+", default=[], metavar="OPTION=VALUE")
    parser.add_argument("--out", type=Path)
    options, table = parser.parse_args(), []
    for row in rows(options):
        table.append(row)
        sys.stdout.write(f"{json.dumps(row)}\n")
    if options.out is not None:
        write_record(options.out, rows=table)


if __name__ == "__main__":
    main()
