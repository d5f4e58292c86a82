"""How far the axes of fibres in FODs of msmt are from the true ones, with few directions and at several orders.

    python benchmarks/few_directions.py [--bval 1000] [--snr 30] [--directions 6,12,20,30,64] [--out FILE]

The head of ``make_shells`` has b = 0 and one shell, so white matter and fluid are fitted, with the response of voxels
of a single fibre along their true axes. Where two fibres cross, the two highest peaks count, 25 degrees apart.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from dipy.core.gradients import gradient_table
from records import write_record

from tistreamlines.fit.amp_response import amp2response
from tistreamlines.fit.msmt import fit_msmt
from tistreamlines.phantom.phantom import Head
from tistreamlines.phantom.shells import S0, make_shells
from tistreamlines.space.harmonics import sampling_matrix, spiral

SHAPE = (22, 26, 20)
AXES = spiral(np.pi * (1 + np.sqrt(5)) * (np.arange(3000) + 0.5))
APART = np.abs(AXES @ AXES.T) < np.cos(np.radians(25))
FLUID = 3.0e-3  # mm2/s
ORDERS = (2, 4, 6, 8)


def peaks(fods: np.ndarray, order: int) -> np.ndarray:
    """Return the axes (m, 2, 3) of the two highest amplitudes that are apart."""
    amplitudes = fods @ sampling_matrix(AXES, order, "tournier07").T
    first = amplitudes.argmax(axis=1)
    second = np.where(APART[first], amplitudes, -np.inf).argmax(axis=1)
    return AXES[np.stack([first, second], axis=1)]


def angles(axes: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the degrees between axes (..., 3)."""
    return np.degrees(np.arccos(np.clip(np.abs((axes * others).sum(axis=-1)), 0, 1)))


def measure(head: Head, directions: int, bval: float, snr: float) -> list[dict]:
    """Return the mean angles of each order."""
    phantom = make_shells(SHAPE, 140 / SHAPE[0], {0.0: 2, bval: directions}, snr)
    gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
    shares, fibres = np.stack(head.fractions, axis=-1), np.stack(head.directions, axis=-2)
    single = phantom.mask & (shares.max(axis=-1) > 0.7) & ((shares > 0.05).sum(axis=-1) == 1)
    crossing = phantom.mask & ((shares > 0.3).sum(axis=-1) >= 2)
    truth = np.take_along_axis(fibres, np.argsort(-shares, axis=-1)[..., :2, None], axis=-2)
    wm = amp2response(phantom.data[single].astype(np.float64), truth[single][:, 0], gtab)
    csf = S0["csf"] * np.sqrt(4 * np.pi) * np.exp([[0], [-bval * FLUID]])
    rows = []
    for order in ORDERS:
        fit = fit_msmt(phantom.data, gtab, single | crossing, {"wm": wm, "csf": csf}, (order, 0))
        fods = fit.coefficients["wm"].astype(np.float64)
        at_single = angles(peaks(fods[single], order)[:, 0], truth[single][:, 0])
        both = angles(peaks(fods[crossing], order)[:, :, None], truth[crossing][:, None])
        at_crossing = np.minimum(both[:, 0, 0] + both[:, 1, 1], both[:, 0, 1] + both[:, 1, 0]) / 2
        rows.append({
            "directions": directions, "order": order, "single_degrees": round(float(at_single.mean()), 2),
            "crossing_degrees": round(float(at_crossing.mean()), 2),
        })
        print(rows[-1], flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bval", type=float, default=1000)
    parser.add_argument("--snr", type=float, default=30)
    parser.add_argument("--directions", type=lambda text: [*map(int, text.split(","))], default=[6, 12, 20, 30, 64])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    head = Head.of(SHAPE)
    rows = [row for count in options.directions for row in measure(head, count, options.bval, options.snr)]
    if options.out:
        write_record(options.out, bval=options.bval, snr=options.snr, rows=rows)


if __name__ == "__main__":
    main()
