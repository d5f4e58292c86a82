"""Fibre coherence: a score of whether fibre directions are in the right frame.

Directions in a wrong frame (an axis flipped, or two axes exchanged) are as smooth from voxel to voxel as correct ones,
but a path that follows them soon leaves the fibre. Short paths are therefore started in many voxels, with the
directions as given and with every flip and permutation of the axes; in the correct frame, paths stay on fibres the
longest. See Schilling et al., A fiber coherence index for quality control of B-table orientation in diffusion MRI
scans, Magn Reson Imaging 58, 2019, doi:10.1016/j.mri.2019.01.018, and MRtrix3's ``dwigradcheck``, which compares whole
streamlines.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from ..aliases import Array, GradientTable
from ..devices import usable_cores
from ..devices.threads import thread_pool
from ..io.samples import Samples
from ..space.batch import Space
from ..space.encoding import TENSOR, select_volumes, tensor_design
from ..space.harmonics import basis_of, order_of, sampling_matrix
from ..space.sphere import load_sphere

STEPS = 4  # of a path, each as long as the smallest voxel size
EDGE = STEPS + 1  # voxels beyond the image that a path may reach
PLACES = 4000  # maximum number of voxels in which paths start
LEAST_PLACES = 300  # with fewer starting voxels no frame is chosen
STRAIGHT = 0.7  # |cosine| between steps below which a path ends
MARGIN = 0.02  # smallest relative lead in the score that is significant
ERRORS = 4.0  # smallest lead in standard errors that is significant
SURE = 0.5  # paths start where the weight is at least this fraction of the 95th percentile
VOXELS = 60_000  # maximum number of voxels to examine
DIRECTIONS, SHELL_WIDTH = 12, 100  # number of lowest b-values that set the shell, and its width in s/mm2
XYZ = "xyz"
BLOCK = 1 << 14  # voxels whose functions are sampled at a time
TASKS = 8  # of threads


def _turns() -> dict[str, Array]:
    """Return the 24 distinct transformations of the axes by name: 6 permutations, each with one flip or none.

    Fibre axes have no sign, so flipping two axes equals flipping the third, and flipping all three changes nothing.
    """
    turns = {}
    for order, flipped in itertools.product(itertools.permutations(range(3)), (None, 0, 1, 2)):
        matrix = np.eye(3)[list(order)]
        words = [] if order == (0, 1, 2) else [f"axes in the order {','.join(XYZ[i] for i in order)}"]
        if flipped is not None:
            matrix[flipped] *= -1
            words.append(f"{XYZ[flipped]} {'then ' if words else ''}flipped")
        turns[" and ".join(words) or "as given"] = matrix
    return turns


TURNS = _turns()
FLIPPED_X = "x flipped"


@dataclass(frozen=True, eq=False)
class AxisField:
    """One fibre axis per voxel.

    Parameters
    ----------
    grid : (x + 2 EDGE, y + 2 EDGE, z + 2 EDGE, 4) float32
        Unit vectors, whose sign does not matter, and evidence for a fibre, such as FA; 0 if there is none, and in an
        edge that no path leaves.
    places : (n, 3)
        Voxels with a clear fibre, evenly spaced and at most PLACES of them.
    sides : (3,) float64
        Voxel sizes, mm.
    """

    grid: Array
    places: Array
    sides: Array

    @property
    def axes(self) -> Array:
        """Unit vectors, (x, y, z, 3)."""
        return _without_edge(self.grid)[..., :3]

    @property
    def weight(self) -> Array:
        """Evidence for a fibre, (x, y, z)."""
        return _without_edge(self.grid)[..., 3]


@dataclass(frozen=True)
class Lead:
    """How much one score exceeds another, as a fraction of the lower one and in standard errors."""

    share: float
    errors: float

    @property
    def clear(self) -> bool:
        """Whether the lead is significant."""
        return self.share >= MARGIN and self.errors >= ERRORS


def coherence(field: AxisField, turn: Array | None = None) -> Array:
    """Score how well paths along the axes stay on fibres.

    Parameters
    ----------
    field : Field
        Fibre axes on the voxel grid.
    turn : (..., 3, 3), optional
        Transformation that is applied to every axis, or several.

    Returns
    -------
    scores : (..., n) float32
        For each starting voxel the mean over the steps, in both directions, of weight times squared cosine between an
        axis and the previous one; steps after the end of a path count 0.
    """
    places, turn = field.places, np.eye(3) if turn is None else turn
    _, wide, deep, _ = field.grid.shape
    rows, strides = field.grid.reshape(-1, 4), np.array([wide * deep, deep, 1], np.int32)
    edge = EDGE * strides.sum()
    step = (np.swapaxes(turn, -1, -2) * (field.sides.min() / field.sides)).astype(np.float32)
    scores = np.zeros((*turn.shape[:-2], len(places)), np.float32)
    for sign in (1, -1):
        points = places.astype(np.float32)
        heading = sign * rows[places @ strides + edge, :3]
        walking = np.ones(scores.shape, bool)
        for _ in range(STEPS):
            points = points + heading @ step
            there = rows.take(np.rint(points).astype(np.int32) @ strides + edge, axis=0, mode="clip")
            axes, weight = there[..., :3], there[..., 3]
            cosine = np.einsum("...j,...j->...", axes, heading)
            scores += np.where(walking, weight * cosine * cosine, 0)
            walking &= (weight > 0) & (np.abs(cosine) > STRAIGHT)
            heading = np.copysign(np.float32(1), cosine)[..., None] * axes
    return scores / (2 * STEPS)


def scores_of_turns(field: AxisField) -> Array:
    """Return the scores (24, n) of :func:`coherence` for each of TURNS; threads share the work."""
    turns, scores = np.stack([*TURNS.values()]), np.empty((len(TURNS), len(field.places)), np.float32)

    def score(first: int) -> None:
        scores[first::TASKS] = coherence(field, turns[first::TASKS])

    list(thread_pool("turns", usable_cores()).map(score, range(TASKS)))
    return scores


def lead(scores: Array, others: Array) -> Lead:
    """Compare two sets of scores (n,), paired if they have the same length."""
    if min(len(scores), len(others)) < LEAST_PLACES:
        return Lead(0.0, 0.0)
    low = float(others.mean())
    gap = float(scores.mean()) - low
    if len(scores) == len(others):
        error = float((scores - others).std()) / len(scores) ** 0.5
    else:
        error = float(np.hypot(scores.std() / len(scores) ** 0.5, others.std() / len(others) ** 0.5))
    return Lead(gap / max(low, 1e-9), gap / max(error, 1e-9))


def tensor_field(data: Array, gtab: GradientTable, mask: Array, sides: Array) -> AxisField:
    """Principal axes and FA of a least-squares tensor fit (Basser et al. 1994), only to determine the frame.

    Parameters
    ----------
    data : (x, y, z, n)
        Signals.
    gtab : dipy.core.gradients.GradientTable
        Gradients; only the lowest shell is fitted.
    mask : (x, y, z) bool
        Voxels to examine; of many voxels only those in the middle slices are.
    sides : (3,)
        Voxel sizes, mm.

    Returns
    -------
    Field
    """
    weighted = np.sort(gtab.bvals[~gtab.b0s_mask])
    used = gtab.bvals <= weighted[min(DIRECTIONS, len(weighted)) - 1] + SHELL_WIDTH
    fit = np.linalg.pinv(tensor_design(select_volumes(gtab, used)))[:6].astype(np.float32)
    mask = middle(mask)
    voxels = np.nonzero(mask)
    tasks = thread_pool("tensors", usable_cores())

    def fit_tensors(part: Array) -> tuple[Array, Array]:
        signals = data[tuple(axis[part] for axis in voxels)]
        logs = np.log(np.maximum(signals if used.all() else signals[:, used], 1e-3))
        tensors = np.einsum("nj,ij->ni", logs, fit)[:, TENSOR]  # which no BLAS shares among threads
        size = np.maximum(np.einsum("nij,nij->n", tensors, tensors), 1e-30)
        return tensors, np.sqrt(np.maximum(1.5 - 0.5 * np.trace(tensors, axis1=1, axis2=2) ** 2 / size, 0))

    parts = tasks.map(fit_tensors, np.array_split(np.arange(len(voxels[0])), TASKS))
    tensors, fa = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    fa = np.where(fa < 1, fa, 0)
    clear, axes = _clear(fa), np.zeros((len(fa), 3), np.float32)
    vectors = tasks.map(lambda part: np.linalg.eigh(part)[1][:, :, 2], np.array_split(tensors[clear], TASKS))
    axes[clear] = np.concatenate([*vectors])  # nobody reads the others
    return field_of(mask, axes, fa, sides)


def maxima_field(values: Array, basis: str, space: Space) -> tuple[AxisField, float]:
    """Return the direction of the maximum in each voxel, and the negative part of the functions.

    Parameters
    ----------
    values : (x, y, z, n)
        Coefficients.
    basis : str
        One of harmonics.BASES.
    space : Space
        Grid of the first three axes.

    Returns
    -------
    seen : Field
        Its weights are the norms of the coefficients above degree 0.
    negative : float
        Negative part over positive part, the median over voxels with a large weight.
    """
    vertices, _ = load_sphere("full" if basis_of(basis).full else "default")
    matrix = sampling_matrix(vertices, order_of(values.shape[3], basis_of(basis).full), basis).T.astype(np.float32)
    mask = middle(np.asarray(values.any(axis=3)))
    inside = values[mask]
    weight = np.linalg.norm(inside[:, 1:], axis=1)
    axes, negative = np.zeros((len(inside), 3), np.float32), np.zeros(len(inside), np.float32)
    for first in range(0, len(inside), BLOCK):
        block = slice(first, first + BLOCK)
        samples = inside[block] @ matrix
        axes[block] = vertices[samples.argmax(axis=1)]
        negative[block] = -np.minimum(samples, 0).sum(axis=1) / np.maximum(np.maximum(samples, 0).sum(axis=1), 1e-30)
    seen = field_of(mask, axes, weight, space.voxel_sizes)
    sure = seen.weight[mask] > 0
    return seen, float(np.median(negative[sure])) if sure.any() else 0.0


def peaks_field(values: Array, space: Space) -> AxisField:
    """Return the longest peak of each voxel as a field; ``values`` are (x, y, z, 3 k)."""
    mask = middle(np.asarray(values.any(axis=3)))
    peaks = values[mask].reshape(int(mask.sum()), -1, 3)
    lengths = np.linalg.norm(peaks, axis=2)
    longest = lengths.argmax(axis=1)
    rows = np.arange(len(peaks))
    weight = lengths[rows, longest]
    return field_of(mask, peaks[rows, longest] / np.maximum(weight, 1e-30)[:, None], weight, space.voxel_sizes)


def samples_field(samples: Samples) -> AxisField:
    """Return the first sample of the first fibre in each voxel as a field, with its volume fraction as weight."""
    mask = middle(samples.mask)
    first = samples.values[mask[samples.mask], 0, 0]
    return field_of(mask, first[:, :3], first[:, 3], samples.space.voxel_sizes)


def middle(mask: Array) -> Array:
    """Return the mask (x, y, z), restricted to middle slices with about VOXELS of its voxels if it has more."""
    counts = mask.sum(axis=(0, 1))
    below = np.cumsum(counts)
    if below[-1] <= VOXELS:
        return mask
    near = np.abs(below - counts / 2 - below[-1] / 2) <= VOXELS / 2
    return mask & near


def field_of(mask: Array, axes: Array, weight: Array, sides: Array) -> AxisField:
    """Return a field from the axes (m, 3) and weights (m,) of the mask's voxels; small weights become 0."""
    grid = np.zeros((*(size + 2 * EDGE for size in mask.shape), 4), np.float32)
    voxels, weight = np.nonzero(mask), np.where(_clear(weight), weight, 0)
    _without_edge(grid)[voxels] = np.column_stack([axes, weight])
    known = weight[weight > 0]
    clear = np.flatnonzero(weight >= SURE * np.percentile(known, 95)) if len(known) else np.zeros(0, int)
    places = np.stack(voxels, axis=1)[clear[:: -(-len(clear) // PLACES) or 1]]
    return AxisField(grid, places, np.asarray(sides, np.float64))


def _without_edge(grid: Array) -> Array:
    return grid[EDGE:-EDGE, EDGE:-EDGE, EDGE:-EDGE]


def _clear(weight: Array) -> Array:
    """Return which weights (m,) are not small."""
    return weight >= SURE * np.percentile(weight, 95) if len(weight) else np.zeros(0, bool)
