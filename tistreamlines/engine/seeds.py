"""Seeds: given points, or random points that depend only on the number of the seed and on the RNG seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from ..errors import InputError
from ..io.tractogram import Space

OUTSIDE = 0.1  # fraction of the seeds that may lie outside the image
SPACES = {"voxel": "voxel coordinates", "rasmm": "RASmm"}
# offsets in a voxel: the voxels around these eight points are all that interpolation at any seed in the voxel can read
_CORNERS = np.array(list(np.ndindex(2, 2, 2)), np.float64) * 0.5 - 0.25


class Seeds(Protocol):
    """Numbered seeds; a seed does not depend on how many are requested at a time."""

    @property
    def count(self) -> int:
        """Number of seeds."""
        ...

    def points(self, first: int, count: int) -> npt.NDArray[Any]:
        """Return (count, 3) voxel coordinates (centre of a voxel = integer) of the seeds from number ``first`` on."""
        ...

    def reach(self) -> npt.NDArray[np.float64]:
        """Return (m, 3) voxel coordinates whose interpolation reads every voxel that any seed's does."""
        ...


@dataclass(frozen=True, eq=False)
class GivenSeeds:
    """Seeds at given points.

    Parameters
    ----------
    voxel_points : (n, 3) float64, voxel
    """

    voxel_points: npt.NDArray[np.float64]

    @property
    def count(self) -> int:
        """Number of seeds."""
        return len(self.voxel_points)

    def points(self, first: int, count: int) -> npt.NDArray[np.float64]:
        """Return seeds from number ``first`` on."""
        return self.voxel_points[first : first + count]

    def reach(self) -> npt.NDArray[np.float64]:
        """Return all seeds."""
        return self.voxel_points


@dataclass(frozen=True, eq=False)
class RandomSeeds:
    """Seeds drawn uniformly from voxels, with the same random number generator as tracking.

    Parameters
    ----------
    voxels : (m, 3) int32
        Each seed lies anywhere in one of these.
    count : number of seeds.
    key : RNG seed, 64 bits.
    threads : CPU threads; None for all cores.
    """

    voxels: npt.NDArray[np.int32]
    count: int
    key: int
    threads: int | None = None

    def points(self, first: int, count: int) -> npt.NDArray[np.float32]:
        """Return the seeds from number ``first`` on, computed by the kernel ``place_seed``."""
        from ..backends.numba.program import NumbaProgram
        from ..kernels.seeds import place_seed
        from ..linker.source import Source

        count = max(min(count, self.count - first), 0)
        out = np.empty(3 * max(count, 1), np.float32)
        values = {
            "rules_step_x": 0.0, "rules_step_y": 0.0, "rules_step_z": 0.0, "rules_max_steps": 0,
            "rules_key": np.array([self.key], np.uint64).view(np.int32), "rules_first_seed": first,
            "voxels": np.ascontiguousarray(self.voxels.ravel(), np.int32), "voxel_count": len(self.voxels), "out": out,
        }  # fmt: skip
        NumbaProgram(Source([place_seed]), threads=self.threads).run("place_seed", count, values)
        return out[: 3 * count].reshape(-1, 3)

    def reach(self) -> npt.NDArray[np.float64]:
        """Return eight points in each voxel."""
        return (self.voxels[:, None] + _CORNERS).reshape(-1, 3)


def check_inside(points: npt.NDArray[Any], space: Space, given: Literal["voxel", "rasmm"], name: str) -> None:
    """Check that at least nine of ten seeds lie in the image, and suggest other coordinates if not.

    Parameters
    ----------
    points : (n, 3), in the coordinates of ``given``.
    space : grid of the image.
    given : 'voxel' or 'rasmm'.
    name : argument or file, for the message.

    Raises
    ------
    InputError
        If more than a tenth of the seeds lies outside.
    """
    inside = {"voxel": _inside(points, space), "rasmm": _inside(space.to_voxel(points), space)}
    count, other = len(points), "rasmm" if given == "voxel" else "voxel"
    most = (1 - OUTSIDE) * count
    if inside[given] >= most:
        return
    if inside[other] >= most:
        turn = "np.linalg.inv(affine)" if given == "voxel" else "affine"
        advice = (
            f"as {SPACES[other]} {inside[other]} lie inside: turn them into {SPACES[given]} with "
            f"nibabel.affines.apply_affine({turn}, seeds)"
        )
    else:
        advice = f"as {SPACES[other]} {count - inside[other]} do: give seeds of this image in {SPACES[given]}"
    outside = count - inside[given]
    raise InputError(f"{name}: as {SPACES[given]} {outside} of {count} seeds lie outside the image, {advice}")


def _inside(points: npt.NDArray[Any], space: Space) -> int:
    """Count the points (n, 3), voxel, in the image."""
    return int(((points >= -0.5) & (points < np.array(space.shape) - 0.5)).all(axis=1).sum())


def seeds_in_file(points: npt.NDArray[np.float64], space: Space, name: str) -> GivenSeeds:
    """Return seeds at points (n, 3) in RASmm, of which at least nine in ten must lie in the image."""
    check_inside(points, space, "rasmm", name)
    return GivenSeeds(space.to_voxel(points))
