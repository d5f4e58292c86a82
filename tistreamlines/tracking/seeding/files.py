"""Seeds at given points, perhaps with directions, and their files; maps by whose values seeds are drawn."""

from __future__ import annotations

import re
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...errors import InputError
from ...io.images import AnyPath, Tell, existing_path, reading, silent
from ...io.in_memory import InMemory
from ...io.nifti import load_map
from ...option import FARTHEST
from ...space.batch import Space
from .directed import along_voxel_axes
from .seeds import NumberedSeeds

OUTSIDE = 0.1  # fraction of the seeds that may lie outside the image
SPACES = {"voxel": "voxel coordinates", "rasmm": "RASmm"}


def load_seeds(path: AnyPath) -> npt.NDArray[np.float64]:
    """Read seed points, perhaps with directions.

    Parameters
    ----------
    path : str or Path
        NumPy file (.npy), or text with three or six numbers per line, separated by spaces, tabs or commas.

    Returns
    -------
    seeds : (n, 3) or (n, 6) float64, RASmm
        Points x y z, or points and directions dx dy dz of any length above 0.

    Raises
    ------
    InputError
        If the file is missing or damaged, or if a seed is not finite or too far away, or has no direction.
    """
    source, path = path, Path(path) if isinstance(path, InMemory) else existing_path(path)
    with reading(path):
        seeds = _numbers(source, path)
    if seeds.size == 0:
        raise InputError(f"{path}: 0 seeds; give at least one line of x y z in RASmm")
    if seeds.ndim != 2 or seeds.shape[1] not in (3, 6) or seeds.dtype.kind not in "fiu":
        raise InputError(
            f"{path}: {seeds.dtype} array of shape {seeds.shape}; give x y z in RASmm, shape (n, 3), or x y z dx dy dz "
            "with the direction of each seed, shape (n, 6)"
        )
    seeds = seeds.astype(np.float64)
    far = np.flatnonzero(~(np.abs(seeds[:, :3]) <= FARTHEST).all(axis=1))
    if len(far):
        raise InputError(
            f"{path}: seed {far[0]} is {seeds[far[0]].tolist()}; remove the {len(far)} seeds that are not "
            f"finite or more than {FARTHEST:g} mm away"
        )
    if seeds.shape[1] == 6:
        _check_directions(path, seeds[:, 3:])
    return seeds


def _numbers(source: AnyPath, path: Path) -> Array:
    if isinstance(source, InMemory):
        return np.asarray(source.values)
    if path.suffix.lower() == ".npy":
        with path.open("rb") as file:
            return np.lib.format.read_array(file, allow_pickle=False)
    text = path.read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    first = next((number for number, line in enumerate(lines) if line), 0)
    _check_line(path, first, lines[first] if lines else "")
    try:
        return np.loadtxt(StringIO(re.sub(r"[\t,]", " ", text)), ndmin=2)
    except ValueError:
        for number, line in enumerate(lines):
            _check_line(path, number, line)
        raise


def _check_line(path: Path, number: int, line: str) -> None:
    """Raise an InputError if a line is a header, or has decimal commas or semicolons."""
    place, numbers = f"{path}: line {number + 1}, {line[:60]!r},", re.split(r"[;\s]+|,\s+", line)
    whole = all(re.fullmatch(r"[-+]?\d+(,\d+)?([eE][-+]?\d+)?", word) for word in numbers)
    if whole and len(numbers) in (3, 6) and any("," in word for word in numbers):
        raise InputError(f"{place} has decimal commas; write decimal points")
    if ";" in line:
        raise InputError(f"{place} has semicolons; separate the numbers by spaces, tabs or commas")
    for word in re.split(r"[\s,]+", line.strip(" ,")) if line else ():
        try:
            float(word)
        except ValueError:
            way = "begin it with # if it is a header" if number == 0 else "remove it or begin it with #"
            raise InputError(f"{place} is not of numbers; {way}") from None


def _check_directions(path: Path, directions: npt.NDArray[np.float64]) -> None:
    """Check that every direction is finite and has a length."""
    sizes = np.abs(directions).max(axis=1)
    bad = np.flatnonzero(~((sizes > 0) & np.isfinite(sizes)))
    if len(bad):
        raise InputError(
            f"{path}: seed {bad[0]} has the direction {directions[bad[0]].tolist()}; give {len(bad)} of the seeds a "
            "finite direction dx dy dz that is not 0 0 0, or remove them"
        )


def load_weights(path: AnyPath, space: Space, note: Tell = silent) -> npt.NDArray[np.float32]:
    """Read a map to whose values the number of seeds in a voxel is proportional.

    Parameters
    ----------
    path : str or Path
        File of the map; NaN counts as 0.
    space : Space
        Grid on which it must lie.
    note : callable
        Receives a message if values are replaced.

    Returns
    -------
    (x, y, z) float32

    Raises
    ------
    InputError
        If the file is missing or damaged or on another grid, or if a value is negative or none is above 0.
    """
    weights = load_map(path, space, note)
    if weights.min() < 0:
        raise InputError(f"{path}: the lowest value is {weights.min():g}; give a map without values below 0")
    if not weights.any():
        raise InputError(f"{path}: all values are 0, so no voxel can have seeds; give a map with values above 0")
    return weights


@dataclass(frozen=True, eq=False)
class PointSeeds(NumberedSeeds):
    """Seeds at given points, the same number at each.

    Seed k is at point k modulo the number of points, so each round visits all.

    Parameters
    ----------
    voxel_points : (n, 3) float64, voxel
    along : (n, 3) float64, optional
        The one initial direction of each seed, a unit vector along the voxel axes.
    each : seeds at a point.
    """

    voxel_points: npt.NDArray[np.float64]
    along: npt.NDArray[np.float64] | None = None
    each: int = 1

    @property
    def count(self) -> int:  # type: ignore[override]
        """Number of seeds."""
        return self.each * len(self.voxel_points)

    def directions(self, first: int, count: int) -> npt.NDArray[np.float64] | None:
        """Return the directions from number ``first`` on, if there are any."""
        return self.sample(np.arange(first, first + self.within(first, count)))[1]

    def sample(self, numbers: npt.NDArray[np.int64]) -> tuple[Array, npt.NDArray[np.float64] | None]:
        """Return the seeds of these numbers, and their directions."""
        numbers = numbers % max(len(self.voxel_points), 1)
        return self.voxel_points[numbers], None if self.along is None else self.along[numbers]

    def reach(self) -> npt.NDArray[np.float64]:
        """Return all points."""
        return self.voxel_points


def check_inside(points: Array, space: Space, coordinates: Literal["voxel", "rasmm"], name: str) -> None:
    """Check that at least nine of ten seeds lie in the image, and suggest other coordinates if not.

    Parameters
    ----------
    points : (n, 3), voxel coordinates or RASmm, as ``coordinates`` says.
    space : grid of the image.
    coordinates : 'voxel' or 'rasmm'.
    name : argument or file, for the message.

    Raises
    ------
    InputError
        If more than a tenth of the seeds lies outside.
    """
    inside = {"voxel": count_inside(points, space), "rasmm": count_inside(space.to_voxel(points), space)}
    count, other = len(points), "rasmm" if coordinates == "voxel" else "voxel"
    most = (1 - OUTSIDE) * count
    if inside[coordinates] >= most:
        return
    if inside[other] >= most:
        turn = "np.linalg.inv(affine)" if coordinates == "voxel" else "affine"
        advice = (
            f"as {SPACES[other]} {inside[other]} lie inside: turn them into {SPACES[coordinates]} with "
            f"nibabel.affines.apply_affine({turn}, seeds)"
        )
    else:
        advice = f"as {SPACES[other]} {count - inside[other]} do: give seeds of this image in {SPACES[coordinates]}"
    outside = count - inside[coordinates]
    raise InputError(f"{name}: as {SPACES[coordinates]} {outside} of {count} seeds lie outside the image, {advice}")


def count_inside(points: Array, space: Space) -> int:
    """Count the points (n, 3), voxel, in the image."""
    return int(((points >= -0.5) & (points < np.array(space.shape) - 0.5)).all(axis=1).sum())


def seeds_in_file(rows: npt.NDArray[np.float64], space: Space, name: str) -> PointSeeds:
    """Return seeds at points in RASmm, of which at least nine in ten must lie in the image.

    Parameters
    ----------
    rows : (n, 3) or (n, 6) float64
        Points x y z, or points and directions dx dy dz of any length above 0, along the axes of RASmm.
    space, name : grid of the image, and argument or file, for messages.
    """
    points = rows[:, :3]
    check_inside(points, space, "rasmm", name)
    along = along_voxel_axes(rows[:, 3:], space) if rows.shape[1] == 6 else None
    return PointSeeds(space.to_voxel(points), along)
