"""Whether fibre directions fit the grid that they are given on: those of neighbours along a fibre continue each other.

Directions in a wrong frame (an axis flipped, two axes exchanged) are as smooth from voxel to voxel as right ones, but
whoever follows them soon leaves the fibre.  So short walks are taken from many voxels, with the directions as given and
with each way of turning the axes, and the walks that stay on fibres for longer tell the frame.  The idea is that of
Schilling et al. (A fiber coherence index for quality control of B-table orientation in diffusion MRI scans, Magn Reson
Imaging 58, 2019, doi:10.1016/j.mri.2019.01.018) and of MRtrix3's ``dwigradcheck``, which compares whole streamlines.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
STEPS = 4  # of a walk, each as long as the smallest side of a voxel
PLACES = 4000  # voxels from which walks set out, at most
LEAST_PLACES = 300  # with fewer nothing is decided
STRAIGHT = 0.7  # |cosine| between steps below which a walk ends
MARGIN = 0.02  # of the score: a lead that is smaller decides nothing
ERRORS = 4.0  # so many standard errors a lead must be
SURE = 0.5  # walks set out where the weight is at least this share of that of a clear fibre
VOXELS = 60_000  # looked at, at most
DIRECTIONS, SHELL_WIDTH = 12, 100  # of the lowest b-values, so many; s/mm2
XYZ = "xyz"


def _turns() -> dict[str, Array]:
    """The ways of turning axes, by what was done to them: 6 orders, times no sign or one changed.

    Axes of fibres have no sign, so two signs changed are the third one changed, and three are none.
    """
    found = {}
    for order in itertools.permutations(range(3)):
        for flipped in (None, 0, 1, 2):
            matrix = np.eye(3)[list(order)]
            words = [] if order == (0, 1, 2) else [f"axes in the order {','.join(XYZ[i] for i in order)}"]
            if flipped is not None:
                matrix[flipped] *= -1
                words.append(f"{XYZ[flipped]} {'then ' if words else ''}flipped")
            found[" and ".join(words) or "as given"] = matrix
    return found


TURNS = _turns()
AS_GIVEN, FLIPPED_X = "as given", "x flipped"


@dataclass(frozen=True, eq=False)
class Field:
    """One fibre axis a voxel.

    Parameters
    ----------
    axes : (x, y, z, 3) float32
        Unit vectors, their sign of no account.
    weight : (x, y, z) float32
        How much of a fibre there is, such as FA; 0 where there is none.
    sides : (3,)
        Of a voxel, mm.
    """

    axes: Array
    weight: Array
    sides: Array

    def places(self) -> Array:
        """Voxels (n, 3) with much of a fibre, at most PLACES of them, spread evenly."""
        known = self.weight[self.weight > 0]
        found = np.argwhere(self.weight >= SURE * np.percentile(known, 95)) if len(known) else np.empty((0, 3), int)
        return found[:: -(-len(found) // PLACES) or 1]


@dataclass(frozen=True)
class Lead:
    """By how much one score is above another: as a share of the lower, and in standard errors."""

    share: float
    errors: float

    @property
    def clear(self) -> bool:
        """Whether it decides."""
        return self.share >= MARGIN and self.errors >= ERRORS


def coherence(field: Field, turn: Array | None = None) -> Array:
    """Follow the axes from each of the field's places: what of fibres there is along the walks.

    Parameters
    ----------
    field : the axes, of which only the voxels' own grid is known to be right.
    turn : (3, 3), by which every axis is turned; None for none.

    Returns
    -------
    scores : (n,) float32
        Mean over the steps both ways of weight times squared cosine between an axis and the one before; a step after
        the end of a walk counts 0.
    """
    places, turn = field.places(), np.eye(3) if turn is None else turn
    shape = np.array(field.weight.shape)
    step = (turn.T * (field.sides.min() / field.sides)).astype(np.float32)
    scores = np.zeros(len(places), np.float32)
    for sign in (1, -1):
        points = places.astype(np.float32)
        heading = sign * field.axes[tuple(places.T)]
        walking = np.ones(len(places), bool)
        for _ in range(STEPS):
            points = points + heading @ step
            voxels = np.rint(points).astype(np.int64)
            walking &= ((voxels >= 0) & (voxels < shape)).all(axis=1)
            voxels = tuple(np.clip(voxels, 0, shape - 1).T)
            axes, weight = field.axes[voxels], field.weight[voxels]
            cosine = np.einsum("ij,ij->i", axes, heading)
            scores += np.where(walking, weight * cosine * cosine, 0)
            walking &= (weight > 0) & (np.abs(cosine) > STRAIGHT)
            heading = np.where((cosine < 0)[:, None], -axes, axes)
    return scores / (2 * STEPS)


def lead(scores: Array, others: Array) -> Lead:
    """Compare two sets of scores (n,) of the same places, or of other places where the numbers differ."""
    if min(len(scores), len(others)) < LEAST_PLACES:
        return Lead(0.0, 0.0)
    low = float(others.mean())
    gap = float(scores.mean()) - low
    if len(scores) == len(others):
        error = float((scores - others).std()) / len(scores) ** 0.5
    else:
        error = float(np.hypot(scores.std() / len(scores) ** 0.5, others.std() / len(others) ** 0.5))
    return Lead(gap / max(low, 1e-9), gap / max(error, 1e-9))


def tensor_field(data: Array, gtab: Any, mask: Array, sides: Array) -> Field:
    """First axes and FA of a least-squares tensor fit (Basser et al. 1994), for a look at the frame, not for tracking.

    Parameters
    ----------
    data : (x, y, z, n) signals.
    gtab : DIPY's gradient table; of the shells the lowest is fitted.
    mask : (x, y, z), the voxels to look at; of many only those of the middle slices.
    sides : (3,) of a voxel, mm.
    """
    weighted = np.sort(gtab.bvals[~gtab.b0s_mask])
    used = gtab.bvals <= weighted[min(DIRECTIONS, len(weighted)) - 1] + SHELL_WIDTH
    b, (x, y, z) = gtab.bvals[used], gtab.bvecs[used].T
    columns = np.stack([x * x, y * y, z * z, x * y, x * z, y * z], axis=1) * -b[:, None]
    fit = np.linalg.pinv(np.column_stack([columns, np.ones(len(b))]))[:6].astype(np.float32)
    mask = middle(mask)
    found = np.log(np.maximum(data[mask][:, used], 1e-3)) @ fit.T
    tensors = found[:, [0, 3, 4, 3, 1, 5, 4, 5, 2]].reshape(-1, 3, 3)
    tensors *= np.where(np.eye(3), 1, 0.5).astype(np.float32)  # x y stands in the sum twice
    size = np.maximum(np.einsum("nij,nij->n", tensors, tensors), 1e-30)
    fa = np.sqrt(np.maximum(1.5 - 0.5 * np.trace(tensors, axis1=1, axis2=2) ** 2 / size, 0))
    return field_of(mask, np.linalg.eigh(tensors)[1][:, :, 2], np.where(fa < 1, fa, 0), sides)


def middle(mask: Array) -> Array:
    """The mask (x, y, z), or as many of its middle slices as hold about VOXELS of its voxels."""
    counts = mask.sum(axis=(0, 1))
    below = np.cumsum(counts)
    if below[-1] <= VOXELS:
        return mask
    near = np.abs(below - counts / 2 - below[-1] / 2) <= VOXELS / 2
    return mask & near


def field_of(mask: Array, axes: Array, weight: Array, sides: Array) -> Field:
    """Field of the mask's voxels, from an axis (m, 3) and a weight (m,) of each; small weights count as 0."""
    whole_axes, whole_weight = np.zeros((*mask.shape, 3), np.float32), np.zeros(mask.shape, np.float32)
    sure = weight >= SURE * np.percentile(weight, 95) if len(weight) else np.zeros(0, bool)
    whole_axes[mask], whole_weight[mask] = axes, np.where(sure, weight, 0)
    return Field(whole_axes, whole_weight, np.asarray(sides, np.float64))
