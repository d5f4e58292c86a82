"""From orientation functions to the tables of parallel transport tractography."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ParameterError
from ..kernels import lanes as probe
from ..kernels.methods import ptt
from ..kernels.stopping import threshold as stopping
from ..run.parameters import MOST_POWER
from ..sphere.nearest_vertex import cell_table, compact_order, without_opposite
from ..sphere.sphere import load_sphere
from .boot import Prepared
from .pmf import PmfOptions, Source, prepare_pmf

Array = npt.NDArray[Any]
CARRIED = 10  # a frame, and the PMF at the end of the last probe
TABLES = ("method_sphere_vertices",)  # those read most
__all__ = ["PttOptions", "prepare_ptt"]


@dataclass(frozen=True)
class PttOptions(PmfOptions):
    """Options of ptt; angles in degrees, lengths in mm, defaults those of DIPY's ``ptt_tracking``.

    Parameters
    ----------
    step_mm : step length.
    voxel_sizes : (3,) mm.
    pmf_threshold : for the initial directions, samples below this share of the greatest count as 0; for probes, what is
        not above this itself does, as in DIPY.
    max_angle : sets the greatest curvature: a bend by this over a step, lengths in voxels as in DIPY.
    max_curvature : greatest curvature, 1/mm, whatever the angle; None for the one that the angle sets.
    exact_arcs : arcs are exact; DIPY's, of second order, turn and lead farther the more they bend.
    probe_length : of the arc by which a candidate is judged.
    probe_radius : of the circle of lines that make a probe, if they are more than one.
    probe_quality : points of a line, 2 or more.
    probe_count : lines.
    data_support_exponent : power of the data support.
    probe_rule : 'dipy' or 'paper'.  DIPY moves probes by mm times voxel size, not by mm over voxel size; raises the
        bound of the rejection sampling to the exponent twice; and accepts any candidate where none has support.
    """

    step_mm: float = 0.5
    voxel_sizes: tuple[float, float, float] = (1.0, 1.0, 1.0)
    max_angle: float = 10.0
    max_curvature: float | None = None
    exact_arcs: bool = False
    probe_length: float = 1.5
    probe_radius: float = 0.0
    probe_quality: int = 7
    probe_count: int = 1
    data_support_exponent: float = 1.0
    probe_rule: str = "dipy"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, least in (("probe_quality", 2), ("probe_count", 1), ("probe_radius", 0)):
            if getattr(self, name) < least:
                raise ParameterError(f"{name} is {getattr(self, name):g}: give {least} or more")
        for name, most in (("step_mm", math.inf), ("probe_length", math.inf), ("data_support_exponent", MOST_POWER)):
            if not 0 < getattr(self, name) <= most:
                end = "" if most == math.inf else f" and at most {most}"
                raise ParameterError(f"{name} is {getattr(self, name):g}: give more than 0{end}")
        if not 0 < self.max_angle <= 90:
            raise ParameterError(f"max_angle is {self.max_angle:g}: ptt takes more than 0 and at most 90 degrees")
        if self.max_curvature is not None and not 0 < self.max_curvature < math.inf:
            raise ParameterError(f"max_curvature is {self.max_curvature:g}: give more than 0, or none")
        if self.probe_rule not in ("dipy", "paper"):
            raise ParameterError(f"probe_rule is {self.probe_rule!r}: give one of dipy, paper")

    @property
    def curvature(self) -> float:
        """Greatest curvature of a step, 1/mm; of an angle as in DIPY's ``min_radius_curvature_from_angle``."""
        if self.max_curvature is not None:
            return self.max_curvature
        step = self.step_mm / float(np.mean(self.voxel_sizes))
        return 2 * math.sin(math.radians(self.max_angle) / 2) / step

    @property
    def segment(self) -> float:
        """Length of a probe's segments, mm."""
        return self.probe_length / (self.probe_quality - 1)

    @property
    def probe_scale(self) -> Array:
        """What a probe's displacement in mm is multiplied by to give voxels, (3,)."""
        sizes = np.asarray(self.voxel_sizes, float)
        return sizes if self.probe_rule == "dipy" else 1 / sizes

    def reach(self, shape: tuple[int, ...]) -> Array:
        """Voxels of an image of this shape along each axis that a probe can lead away from a live point, (3,) int."""
        bend = self.curvature * self.segment
        length, binormal = (self.probe_quality - 1) * self.segment, 1.0
        if not self.exact_arcs:
            length = 0.0
            # the propagator is one of second order, and a probe's binormal is never normalised again
            for _ in range(self.probe_quality - 1):
                length += self.segment * (1 + bend / 2 * math.sqrt(2) * binormal)
                binormal = bend + (1 + bend * bend / 2) * binormal
        radius = self.probe_radius * binormal * math.sqrt(2) if self.probe_count > 1 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.ceil(length * self.probe_scale + radius / np.asarray(self.voxel_sizes))
        # a great bend leads beyond all numbers, but there is nothing to read beyond the image; fmin passes over a NaN
        return np.fmin(away, shape).astype(int)


def prepare_ptt(
    source: Source, values: Array, stop_map: Array, threshold: float, seeds: Array, **options: Any
) -> Prepared:
    """Tables of parallel transport tractography; arguments as for :func:`tistreamlines.methods.pmf.prepare_prob`.

    Parameters
    ----------
    source, values, stop_map, threshold, seeds : as there.  The scale of the values matters to ``pmf_threshold``.
    options : those of :class:`PttOptions`.

    Raises
    ------
    InputError
        Where the values do not fit the sphere, the basis or the stop map.
    ParameterError
        Where an option has a value that it cannot have.
    """
    chosen = PttOptions(**options)
    vertices, edges = load_sphere(chosen.sphere)
    order = compact_order(np.asarray(vertices, float))
    vertices, edges = np.asarray(vertices, float)[order], np.argsort(order)[edges]
    if source == "pmf" and values.shape[-1] == len(order):
        values = values[..., order]
    cells, own = cell_table(vertices, not chosen.asymmetric)
    own |= {
        "SEGMENTS": chosen.probe_quality - 1, "PROBES": chosen.probe_count, "OPEN_CONE": 0,
        "POWERED": int(chosen.data_support_exponent != 1), "PAPER": int(chosen.probe_rule == "paper"),
        "EXACT_ARCS": int(chosen.exact_arcs),
    }  # fmt: skip
    ordered = replace(chosen, sphere=(vertices, edges))
    reach = chosen.reach(stop_map.shape)
    made = prepare_pmf(source, values, stop_map, threshold, seeds, ordered, own | _holes(), reach)
    if not made.fill["SYMMETRIC"] and (alone := without_opposite(vertices)):
        raise ParameterError(
            f"{alone} of the sphere's {len(vertices)} vertices have no opposite among them: for an asymmetric "
            "function, give ptt a whole sphere of opposite pairs, as DIPY's repulsion724"
        )
    turns = 2 * np.pi * np.arange(chosen.probe_count) / chosen.probe_count
    ring = chosen.probe_radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)
    return replace(
        made,
        fill=made.fill | {"CODE_BITS": 8},
        arrays=made.arrays | {"method_cells": cells, "method_ring": ring.ravel()},
        scalars=made.scalars | _scalars(chosen),
        scratch=made.scratch | {"scratch_carried": ("reals", CARRIED)},
        tables=TABLES,
    )


def _scalars(chosen: PttOptions) -> dict[str, float]:
    """Lengths and curvatures; a candidate's curvature, rounded, is not to exceed its bound."""
    power = chosen.data_support_exponent
    scalars = {
        "max_curvature": chosen.curvature * (1 - 2.0**-21), "step": chosen.step_mm, "segment": chosen.segment,
        "share": 1 / (chosen.probe_quality * chosen.probe_count), "power": power, "slack": 2.0**power,
    }  # fmt: skip
    for axis, size, scale in zip("xyz", chosen.voxel_sizes, chosen.probe_scale, strict=True):
        scalars |= {axis: 1 / float(size), f"probe_{axis}": float(scale)}
    return {f"method_{name}": value for name, value in scalars.items()}


def _holes() -> dict[str, Any]:
    """The method and the stopping rule that the engine's kernels are linked with."""
    return {
        "Method": ptt.Ptt, "Scratch": ptt.PttScratch, "Stopping": stopping.Threshold, "classify": stopping.classify,
        "begin": ptt.begin_by_lanes, "read": probe.read_stop, "depart": ptt.depart_along, "choose": ptt.choose_try,
        "moved": ptt.moved_by_try, "CARRIED": CARRIED, "DROPS_DEAD_END": 1, "ABREAST": 0,
    }  # fmt: skip
