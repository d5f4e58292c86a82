"""How a series of a phantom is measured: its shells, noise and voxels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tistreamlines.phantom.phantom import spread_directions

Array = npt.NDArray[np.float64]
B0S = 6


@dataclass(frozen=True)
class Scan:
    """How a series is measured.

    Attributes
    ----------
    bval : s/mm2, of the outermost shell.
    snr : signal of white matter without diffusion weighting over the standard deviation of the noise.
    directions : number of volumes of the outermost shell; six volumes are without diffusion weighting.
    voxel_mm : side of a voxel.
    inner : b-value and number of volumes of each further shell.
    fluid : whether a part of what surrounds white matter is CSF, and the mask wide, as in a head.
    """

    bval: float = 3000.0
    snr: float = 20.0
    directions: int = 64
    voxel_mm: float = 2.0
    inner: tuple[tuple[float, int], ...] = ()
    fluid: bool = False

    @classmethod
    def read(cls, text: str) -> Scan:
        """Read B:SNR:DIRECTIONS:MM, as 3000:20:64:2, or 1000+3000:20:32+64:2 of two shells; :csf adds fluid."""
        bvals, snr, directions, voxel_mm, *tissues = text.split(":")
        if tissues not in ([], ["csf"]):
            raise ValueError(f"{text}: the fifth field is {':'.join(tissues)}, not csf")
        pairs = zip(bvals.split("+"), directions.split("+"), strict=True)
        *inner, (bval, count) = sorted((float(bval), int(count)) for bval, count in pairs)
        return cls(bval, float(snr), count, float(voxel_mm), tuple(inner), bool(tissues))

    @property
    def about(self) -> dict[str, Any]:
        """What a row of scores says of it; b-values and directions of several shells are joined by +."""
        outermost: dict[str, Any] = {"bval": self.bval, "snr": self.snr, "directions": self.directions}
        outermost["voxel_mm"] = self.voxel_mm
        if self.fluid:
            outermost["tissues"] = "white, grey, csf"
        if not self.inner:
            return outermost
        bvals, directions = zip(*self.inner, (self.bval, self.directions), strict=True)
        return outermost | {
            "bval": "+".join(f"{bval:g}" for bval in bvals), "directions": "+".join(map(str, directions))
        }

    def gradients(self, seed: int) -> tuple[Array, Array]:
        """Return b-values (n,) and unit gradients (n, 3), 0 for the volumes without diffusion weighting, RAS."""
        bvals, directions = [np.zeros(B0S)], [np.zeros((B0S, 3))]
        # the outermost shell has the seed itself, so that it is the same with and without others
        shells = [(bval, count, seed + 1 + k) for k, (bval, count) in enumerate(self.inner)]
        for bval, count, drawn in (*shells, (self.bval, self.directions, seed)):
            bvals.append(np.full(count, bval))
            directions.append(spread_directions(count, drawn))
        return np.concatenate(bvals), np.concatenate(directions)


@dataclass(frozen=True)
class Half:
    """Scans of three or more shells, b = 0 counted, of all geometries: to choose defaults with, or to report.

    Attributes
    ----------
    scans : as :meth:`Scan.read` reads them.
    seed : of the turns and jitters of the bundles, of the gradients and of the noise.
    """

    scans: tuple[str, ...]
    seed: int


# written down before any of them was tracked; no default may follow from those that report
HALVES = {
    "choice": Half(("1000+2000:20:50+50:2.5:csf", "700+2000:15:20+40:2.5:csf", "1000+2000+3000:20:30+30+60:2:csf"), 3),
    "report": Half(
        ("1000+2000:15:50+50:2:csf", "700+2800:20:24+60:2.5:csf", "500+1000+2000+3000:15:6+15+15+60:2.5:csf"), 29
    ),
}
