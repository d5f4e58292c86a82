"""Seeds with given initial directions, in place of the peaks that the kernel ``start`` finds."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...aliases import Array
from ...devices.threads import in_threads
from ...errors import ParameterError
from ...option import flag
from ...space.sphere import closest_vertices
from ..tables.given import Prepared

BLOCK = 512  # directions that are compared with all vertices at once
UNIT = 1e-3  # how far a length may be from 1


def initial_codes(
    directions: Array, seeds: Array, prepared: Prepared, threads: int | None = None
) -> npt.NDArray[np.int32]:
    """Return the codes of given directions: of the vertices nearest to them, or their own where steps go anywhere.

    Parameters
    ----------
    directions : (n, 3)
        Unit vectors along the voxel axes.
    seeds : (n, 3) float32, voxel
        The seeds that the directions belong to.
    prepared : Prepared
        The tables of the method, whose sphere is used.
    threads : int, optional
        CPU threads; one per core by default.

    Returns
    -------
    (n,) int32
        Twice the vertex, plus one where the direction is nearer to the opposite of the vertex, or a code of
        :mod:`tistreamlines.kernels.getters.direction_codes`; -1 for a seed outside the image, which has no direction.

    Raises
    ------
    ParameterError
        If there is not one unit vector for each seed, or the method begins with the fibres of a voxel.
    """
    directions = np.asarray(directions, np.float64)
    if directions.shape != seeds.shape:
        raise ParameterError(f"directions have shape {directions.shape}: give {seeds.shape}, one for each seed")
    getter = prepared.getter
    if not getter.aimed and "sphere" not in vars(getter.method):
        raise ParameterError(
            "the direction getter begins with the fibres of a voxel: give seeds without directions, and leave out "
            f"{flag('surface_direction')}"
        )
    bad = np.flatnonzero(~(np.abs(np.linalg.norm(directions, axis=1) - 1) <= UNIT))
    if len(bad):
        raise ParameterError(f"direction {bad[0]} is {directions[bad[0]].tolist()}: give unit vectors")
    if getter.aimed:
        return np.where(inside(seeds, prepared), _encoded(directions, threads), -1).astype(np.int32)
    sphere, symmetric = vars(getter.method)["sphere"], bool(getter.symmetric)
    # float32, with which the kernels compute and which a cache of tables holds
    vertices = np.asarray(sphere.vertices, np.float32).astype(np.float64).reshape(3, -1)[:, : sphere.count].T

    def code_block(first: int) -> Array:
        block = directions[first : first + BLOCK]
        near = closest_vertices(block, vertices, symmetric)
        return 2 * near + ((block * vertices[near]).sum(axis=1) < 0)

    codes = np.concatenate([np.empty(0, np.int32), *in_threads(code_block, range(0, len(seeds), BLOCK), threads)])
    return np.where(inside(seeds, prepared), codes, -1).astype(np.int32)


def _encoded(directions: Array, threads: int | None) -> Array:
    """Return the codes of directions (n, 3), on the host."""
    from ...backends.numba.program import NumbaProgram
    from ...kernels.getters.direction_codes import encode_directions
    from ...linker.source import Source

    codes, given = np.empty(max(len(directions), 1), np.int32), np.ascontiguousarray(directions, np.float32).ravel()
    program = NumbaProgram(Source([encode_directions]), threads=threads)
    program.run(encode_directions.__name__, len(directions), {"directions": given, "codes": codes})
    return codes[: len(directions)]


def inside(seeds: Array, prepared: Prepared) -> npt.NDArray[np.bool_]:
    """Return which seeds (n, 3) float32 lie in the image, as the kernels decide it."""
    end = np.asarray(prepared.arrays["volume_shape"], np.float32) - np.float32(0.5)
    return np.all((seeds >= np.float32(-0.5)) & (seeds < end), axis=1)
