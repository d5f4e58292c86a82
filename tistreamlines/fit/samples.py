"""The frame of bedpostX's samples, which is FSL's (:mod:`tistreamlines.io.samples`), is checked against the data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .coherence import FLIPPED_X, TURNS, AxisField, coherence, field_of, lead, middle
from .frames import Placing, rounded

if TYPE_CHECKING:
    from ..io.samples import Samples


def place_samples(samples: Samples, name: str) -> Placing:
    """Return the frame of samples, and warn if the other sign of x fits them better.

    Parameters
    ----------
    samples : Samples
        Their directions are along the voxel axes already.
    name : str
        Name of the folder, for messages.
    """
    seen = samples_field(samples)
    scores = {"fsl": coherence(seen), FLIPPED_X: coherence(seen, TURNS[FLIPPED_X])}
    ahead = lead(scores[FLIPPED_X], scores["fsl"])
    text = f"{name}: fibre coherence is {ahead.share:.0%} higher with x flipped; check the bvecs that were fitted"
    return Placing("fsl", rounded(scores), "file", warnings=(text,) if ahead.clear else ())


def samples_field(samples: Samples) -> AxisField:
    """Return the first sample of the first fibre in each voxel as a field, with its volume fraction as weight."""
    mask = middle(samples.mask)
    first = samples.values[mask[samples.mask], 0, 0]
    return field_of(mask, first[:, :3], first[:, 3], samples.space.voxel_sizes)
