"""Draw samples of fibres from a diffusion series, write them as bedpostX names its files, and print a table of checks.

    python benchmarks/ball_and_sticks.py OUT [--series FOLDER] [--fibres 2] [--samples 50] [--burn 300] [--every 8]

FOLDER has dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz; without it, a phantom is fitted, whose fibres are known and
whose voxels --shape counts. The model is the ball and sticks of Behrens et al. (2003, 2007) with one diffusivity. The
noise is Gaussian; its deviation (prior 1 / sigma) and the signal without weighting (flat prior) are integrated out. The
other parameters are drawn in turn by Metropolis steps, whose widths adapt during the burn-in. Directions are uniform on
the sphere; volume fractions are flat for the first fibre and 1 / f for the others, which shrinks fibres that the data
do not support. Samples are relative to the axes of FSL. Angles are in degrees, medians over voxels; fibre 1 is the one
with the largest mean f.
"""

# ruff: noqa: NPY002 - in compiled code these functions use a generator of Numba's own, one in each thread

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import nibabel as nib
import numpy as np
from dipy.core.geometry import cart2sphere
from dipy.reconst.dti import TensorModel
from numba import njit, prange

from tistreamlines.fit.frames import place_gradients
from tistreamlines.io.nifti import Dwi, load_dwi, load_mask
from tistreamlines.phantom.anatomy import anatomy, tube
from tistreamlines.phantom.phantom import Phantom, make_phantom, save_phantom
from tistreamlines.space.batch import Space

LEAST = 1e-3  # volume fraction below which the prior 1 / f ends
ADAPT = 20  # sweeps between two changes of the widths
IMPOSSIBLE = -1e30  # a log of the posterior; with fastmath it has to be finite
FOUND = 20.0  # degrees within which a fibre is found


# ------------------------------------------------------------------------------------------------------------ the model
@njit(fastmath=True)
def _decay(b, gradients, diffusivity, v, out):
    """Signal of a stick along v."""
    for i in range(len(b)):
        cosine = gradients[i, 0] * v[0] + gradients[i, 1] * v[1] + gradients[i, 2] * v[2]
        out[i] = math.exp(-b[i] * diffusivity * cosine * cosine)


@njit(fastmath=True)
def _ball(b, diffusivity, out):
    """Isotropic signal."""
    for i in range(len(b)):
        out[i] = math.exp(-b[i] * diffusivity)


@njit(fastmath=True)
def _log_posterior(y, square, ball, sticks, f):
    """Log of the posterior for signals y, up to a constant; ``square`` is the sum of their squares."""
    n, fibres = len(y), len(f)
    free = 1.0 - f.sum()
    if free < 0.0 or f.min() < LEAST:
        return IMPOSSIBLE
    cross, power = 0.0, 0.0
    for i in range(n):
        model = free * ball[i]
        for k in range(fibres):
            model += f[k] * sticks[k, i]
        cross += y[i] * model
        power += model * model
    value = -0.5 * (n - 1) * math.log(max(square - cross * cross / power, 1e-9 * square)) - 0.5 * math.log(power)
    for k in range(1, fibres):
        value -= math.log(f[k])
    return value


@njit
def _turned(v, width, out):
    """A direction near v; the density of the step depends on the angle alone, so it is symmetric."""
    norm = 0.0
    for axis in range(3):
        out[axis] = v[axis] + width * np.random.normal()
        norm += out[axis] * out[axis]
    out /= math.sqrt(norm)


@njit
def _chain(y, b, gradients, v, f, diffusivity, burn, every, out):
    """Run the chain of a voxel from directions v (fibres, 3), fractions f and a diffusivity; fill ``out``."""
    n, fibres, samples = len(y), len(f), len(out)
    square = (y * y).sum()
    ball, sticks, other_ball, others = np.empty(n), np.empty((fibres, n)), np.empty(n), np.empty((fibres, n))
    _ball(b, diffusivity, ball)
    for k in range(fibres):
        _decay(b, gradients, diffusivity, v[k], sticks[k])
    current = _log_posterior(y, square, ball, sticks, f)
    widths, taken = np.full(1 + 2 * fibres, 0.1), np.zeros(1 + 2 * fibres)
    near, kept = np.empty(3), np.empty(n)
    for sweep in range(burn + samples * every):
        tried = diffusivity * math.exp(widths[0] * np.random.normal())
        _ball(b, tried, other_ball)
        for k in range(fibres):
            _decay(b, gradients, tried, v[k], others[k])
        value = _log_posterior(y, square, other_ball, others, f)
        if math.log(np.random.random()) < value - current:
            current, diffusivity = value, tried
            ball, other_ball = other_ball, ball
            sticks, others = others, sticks
            taken[0] += 1
        for k in range(fibres):
            before = f[k]
            f[k] = before + widths[1 + k] * np.random.normal()
            value = _log_posterior(y, square, ball, sticks, f)
            if math.log(np.random.random()) < value - current:
                current = value
                taken[1 + k] += 1
            else:
                f[k] = before
            _turned(v[k], widths[1 + fibres + k], near)
            kept[:] = sticks[k]
            _decay(b, gradients, diffusivity, near, sticks[k])
            value = _log_posterior(y, square, ball, sticks, f)
            if math.log(np.random.random()) < value - current:
                current = value
                v[k] = near
                taken[1 + fibres + k] += 1
            else:
                sticks[k] = kept
        if sweep < burn and sweep % ADAPT == ADAPT - 1:
            widths *= np.exp(taken / ADAPT - 0.3)
            widths[:] = np.minimum(widths, 1.0)
            taken[:] = 0
        if sweep >= burn and (sweep - burn) % every == every - 1:
            out[(sweep - burn) // every, :, :3] = v
            out[(sweep - burn) // every, :, 3] = f


@njit(parallel=True)
def _chains(data, b, gradients, v, f, diffusivity, burn, every, out):
    for voxel in prange(len(data)):
        np.random.seed(voxel)
        y = data[voxel].astype(np.float64)
        _chain(y, b, gradients, v[voxel], f.copy(), diffusivity[voxel], burn, every, out[voxel])


def draw(dwi: Dwi, mask: np.ndarray, options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Return samples (voxels, samples, fibres, 4), unit vector along the voxel axes and f, and DTI's (voxels, 3, 3)."""
    data = dwi.data[mask]
    fit = TensorModel(dwi.gtab, fit_method="OLS").fit(data)
    v = np.ascontiguousarray(np.swapaxes(fit.evecs, 1, 2)[:, : options.fibres])
    f = np.array([0.4, 0.2, 0.1][: options.fibres])
    out = np.empty((len(data), options.samples, options.fibres, 4), np.float32)
    per_b = np.clip(1e3 * fit.md, 0.1, 3)  # um^2/ms, as 1 / b
    _chains(
        data, dwi.gtab.bvals / 1e3, np.ascontiguousarray(dwi.gtab.bvecs), v.copy(), f, per_b,
        options.burn, options.every, out,
    )
    order = np.argsort(-out[..., 3].mean(axis=1), axis=1)
    return np.take_along_axis(out, order[:, None, :, None], axis=2), np.swapaxes(fit.evecs, 1, 2)


def write(folder: Path, samples: np.ndarray, mask: np.ndarray, space: Space) -> None:
    """Write samples (voxels, samples, fibres, 4) of the voxels of a mask."""
    folder.mkdir(parents=True, exist_ok=True)
    x, y, z = np.moveaxis(samples[..., :3], -1, 0)
    _, polar, azimuth = cart2sphere(-x if space.fsl_flips_x else x, y, z)
    nib.save(nib.Nifti1Image(mask.astype(np.uint8), space.affine), folder / "nodif_brain_mask.nii.gz")
    for role, values in (("th", polar), ("ph", azimuth), ("f", samples[..., 3])):
        for fibre in range(samples.shape[2]):
            volume = np.zeros((*mask.shape, samples.shape[1]), np.float32)
            volume[mask] = values[..., fibre]
            nib.save(nib.Nifti1Image(volume, space.affine), folder / f"merged_{role}{fibre + 1}samples.nii.gz")


# ----------------------------------------------------------------------------------------------------------- the checks
def dyads(samples: np.ndarray) -> np.ndarray:
    """Return the principal axis of the samples of each fibre, (voxels, fibres, 3)."""
    v = samples[..., :3]
    return np.linalg.eigh(np.einsum("nski,nskj->nkij", v, v))[1][..., -1]


def degrees(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the angle between two axes (..., 3)."""
    return np.degrees(np.arccos(np.clip(np.abs(np.sum(a * b, axis=-1)), 0, 1)))


def against_truth(samples: np.ndarray, phantom: Phantom) -> list[tuple[str, float]]:
    """Compare with the phantom's fibres: one that fills 70 % of a voxel, or two of 30 % at 40 degrees or more."""
    axes, mean = dyads(samples), samples[..., 3].mean(axis=1)
    tubes = [tube(rows, sheet, phantom.mask.shape) for rows, sheet in anatomy().values()]
    shares = np.stack([bundle.membership[phantom.mask] for bundle in phantom.bundles], axis=1)
    directions = np.stack([t.direction[phantom.mask] for t in tubes], axis=1)
    order = np.argsort(-shares, axis=1)[:, :2]
    share = np.take_along_axis(shares, order, axis=1)
    true = np.take_along_axis(directions, order[..., None], axis=1)
    single = share[:, 0] > 0.7
    crossing = (share[:, 1] > 0.3) & (degrees(true[:, 0], true[:, 1]) > 40)
    apart = degrees(true[crossing][:, :, None], axes[crossing][:, None, :2]).min(axis=2)
    empty = shares.sum(axis=1) < 0.01
    return [
        ("single fibres: voxels", int(single.sum())),
        ("single fibres: error of fibre 1", float(np.median(degrees(axes[single][:, 0], true[single][:, 0])))),
        ("single fibres: f of fibre 1", float(np.median(mean[single][:, 0]))),
        ("single fibres: f of fibre 2", float(np.median(mean[single][:, 1]))),
        ("crossings: voxels", int(crossing.sum())),
        ("crossings: error of the larger", float(np.median(apart[:, 0]))),
        ("crossings: error of the smaller", float(np.median(apart[:, 1]))),
        (f"crossings: both within {FOUND:g}, %", 100 * float((apart < FOUND).all(axis=1).mean())),
        ("crossings: f of fibre 1", float(np.median(mean[crossing][:, 0]))),
        ("crossings: f of fibre 2", float(np.median(mean[crossing][:, 1]))),
        ("grey matter: f of fibre 1", float(np.median(mean[empty][:, 0]))),
    ]


def against_tensor(samples: np.ndarray, axes: np.ndarray, mask: np.ndarray, space: Space) -> list[tuple[str, float]]:
    """Compare with DTI near the midline where fibre 1 runs from left to right, which is mostly the corpus callosum."""
    places = space.to_ras(np.argwhere(mask))[:, 0]
    across = np.abs((axes[:, 0] @ space.axes.T)[:, 0]) > 0.9
    sure = samples[:, :, 0, 3].mean(axis=1) > 0.5
    callosum = (np.abs(places - np.median(places)) < 8) & across & sure
    apart = degrees(dyads(samples[callosum])[:, 0], axes[callosum][:, 0])
    return [("callosum: voxels", int(callosum.sum())), ("callosum: fibre 1 from DTI", float(np.median(apart)))]


def main() -> None:
    """Fit, write and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--series", type=Path)
    for name, value in (("fibres", 2), ("samples", 50), ("burn", 300), ("every", 8)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--shape", type=int, nargs=3, default=(60, 72, 56))
    options = parser.parse_args()
    phantom = None
    if options.series is None:
        phantom = make_phantom(tuple(options.shape), 150 / options.shape[0])
        save_phantom(phantom, options.out / "series")
        options.series = options.out / "series"
    dwi = load_dwi(*(options.series / f"dwi.{suffix}" for suffix in ("nii.gz", "bval", "bvec")))
    mask = load_mask(options.series / "mask.nii.gz", dwi.space)
    dwi, _ = place_gradients(dwi, mask, "auto", "dwi.bvec")
    begun = time.perf_counter()
    samples, axes = draw(dwi, mask, options)
    rows = [("voxels", int(mask.sum())), ("seconds", round(time.perf_counter() - begun))]
    write(options.out, samples, mask, dwi.space)
    rows += against_truth(samples, phantom) if phantom else against_tensor(samples, axes, mask, dwi.space)
    print("\n".join(f"{name:40}{value:10.4g}" for name, value in rows))


if __name__ == "__main__":
    main()
