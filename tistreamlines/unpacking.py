"""From codes to points: what the host does with a chunk that a device has grown."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from .kernels import seeding
from .models import Prepared
from .tractogram import Batch, Space

Array = npt.NDArray[Any]
AFFINE = ("xx", "xy", "xz", "x", "yx", "yy", "yz", "y", "zx", "zy", "zz", "z")


@dataclass
class Grown:
    """A chunk back on the host: its accepted streamlines as codes.

    Parameters
    ----------
    first_seed : number of the chunk's first seed.
    seeds : (n, 3) float32, voxel coordinates.
    seed, branch : (m,) number of each streamline's seed in the chunk, and among its seed's directions.
    lengths, status : (m, 2) steps and stop reasons, forward and backward.
    words, slot : codes, several to a word, and where each half's begin.
    """

    first_seed: int
    seeds: Array
    seed: Array
    branch: Array
    lengths: Array
    status: Array
    words: Array
    slot: Array

    def parts(self, points: int) -> list[Grown]:
        """Cut into parts of about so many points, which share the words."""
        ends = np.flatnonzero(np.diff(np.cumsum(self.lengths.sum(axis=1) + 1) // points)) + 1
        cuts = [0, *ends.tolist(), len(self.seed)]
        return [
            replace(
                self, seed=self.seed[a:b], branch=self.branch[a:b], lengths=self.lengths[a:b], status=self.status[a:b],
                slot=self.slot[2 * a : 2 * b],
            )
            for a, b in pairwise(cuts)
        ]  # fmt: skip


class Unpacker:
    """Lays points out by the kernels' own step, on the CPU whatever the device.

    Parameters
    ----------
    prepared : the method's tables, for the sphere.
    space : the image's space.
    """

    def __init__(self, prepared: Prepared, space: Space) -> None:
        from .backends._numba import Program

        self.space = space
        self.program = Program([seeding.unpack], prepared.fill, {}, serial=True)
        affine = zip(AFFINE, space.affine[:3].ravel(), strict=True)
        self.values: dict[str, Any] = {f"affine_{name}": float(value) for name, value in affine} | {
            "sphere_vertices": np.ascontiguousarray(prepared.arrays["method_sphere_vertices"], np.float32),
            "sphere_neighbours": np.ascontiguousarray(prepared.arrays["method_sphere_neighbours"], np.int32),
            "sphere_count": prepared.scalars["method_sphere_count"],
        }

    def batch(self, grown: Grown, rules: dict[str, Any]) -> Batch:
        """Points in RASmm, and what is known of each streamline; safe to call from several threads.

        Parameters
        ----------
        grown : the chunk.
        rules : the kernels' Rules, by flat name.
        """
        offsets = np.concatenate([[0], np.cumsum(grown.lengths.sum(axis=1) + 1)]).astype(np.int64)
        origin = grown.seeds[grown.seed]
        out = np.empty(3 * int(offsets[-1]), np.float32)
        if len(origin):
            values = self.values | rules | {
                "rules_first_seed": 0, "words": grown.words, "slot": grown.slot.astype(np.int32),
                "lengths": np.ascontiguousarray(grown.lengths.ravel(), np.int32), "seeds": origin.ravel(),
                "offset": offsets[:-1].astype(np.int32), "out": out,
            }  # fmt: skip
            self.program.run("unpack", len(origin), values)
        return Batch(
            out.reshape(-1, 3), offsets, self.space.to_ras(origin).astype(np.float32),
            (grown.first_seed + grown.seed).astype(np.uint32), grown.branch.astype(np.uint8),
            grown.status[:, ::-1].astype(np.uint8),
        )  # fmt: skip
