"""Parallel transport tractography: makes the tables of the kernels from orientation functions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from ...aliases import Array
from ...errors import ParameterError
from ...kernels.getters import ptt
from ...kernels.getters.shared import read_stop
from ...kernels.orientation.amplitudes import amplitude_of_samples, sphere_of_samples
from ...linker.lang import Func, Record, Stage
from ...linker.parts import host
from ...option import MODEL, option
from ...space.sphere import CellSizes, cell_table, compact_order, round_up, without_opposite
from ..tables.inputs import Scheme
from ..tables.rows import Rows
from .pmf import PmfGetter, PmfOptions, pmf_tables
from .shared import try_bits

MOST_POWER = 100  # two to this power still fits a float32
CARRIED = 10  # numbers kept from step to step: a frame, and the PMF at the end of the last probe
OFTEN_READ = ("method_sphere_vertices", "method_cells_first")
ARC_OPERATIONS = 86  # operations for the arc and the frame of a segment of a probe
NEAREST_OPERATIONS = 18  # operations for the vertex nearest to a direction
WEIGHT_OPERATIONS = 18  # operations for the eight weights of a trilinear interpolation


@dataclass(frozen=True, repr=False, eq=False)
class PttOptions(PmfOptions):
    """Options of parallel transport, a part of :class:`tistreamlines.Parameters`, with DIPY's defaults."""

    probe_length: float = option(
        1.5, MODEL, "Length of a probe, the arc along which the data support of a candidate is computed.", unit="mm",
        low=0, above=True,
    )
    probe_radius: float = option(
        0.0, MODEL, "Radius of the circle of parallel lines of a probe, if --probe-count is above 1.", unit="mm",
        low=0,
    )
    probe_quality: int = option(
        7, MODEL, "Number of points of a probe at which the orientation function is read.", unit="points", low=2,
        high=1000,
    )
    probe_count: int = option(1, MODEL, "Number of parallel lines in a probe.", unit="lines", low=1, high=1000)
    data_support_exponent: float = option(
        1.0, MODEL, "Candidates are drawn with a probability proportional to their data support to this power.",
        unit="power", low=0, high=MOST_POWER, above=True,
    )
    probe_rule: str = option(
        "dipy", MODEL, "Rule of the probes. dipy follows the PTTDirectionGetter of DIPY 1.12: probes are too long by a "
        "factor of the voxel size (mm) squared; the bound of the rejection sampling has the exponent twice, and any "
        "candidate passes where none has data support. tracker follows DIPY's ptt_tracking, which ends "
        "streamlines there. paper follows the publication.", choices=("dipy", "tracker", "paper"),
    )


class Probe:
    """Lengths and curvatures of steps and probes.

    Parameters
    ----------
    options : PttOptions
        Options of the method.
    step_mm : float
        Step size, mm.
    voxel_sizes : tuple of float, (3,)
        Sides of a voxel, mm.
    max_curvature : float or None
        Greatest curvature, 1/mm. None is the value that follows from ``max_angle``, as in DIPY's
        ``min_radius_curvature_from_angle``.
    exact_arcs : bool
        Whether arcs are exact. DIPY's arcs are of second order: the more they bend, the more their lengths and angles
        are off.

    Attributes
    ----------
    curvature : greatest curvature, 1/mm.
    segment : length of a segment of a probe, mm.
    scale : factors (3,) that convert a displacement of a probe from mm to voxels; DIPY multiplies by the voxel size.
    stretch : greatest length of a step, in step sizes: DIPY's arcs of second order lead farther the more they bend.
    """

    def __init__(
        self, options: PttOptions, step_mm: float = 0.5, voxel_sizes: tuple[float, ...] = (1.0, 1.0, 1.0),
        max_curvature: float | None = None, exact_arcs: bool = False,
    ) -> None:
        self.options, self.step_mm, self.voxel_sizes, self.exact_arcs = options, step_mm, voxel_sizes, exact_arcs
        step, sizes = step_mm / float(np.mean(voxel_sizes)), np.asarray(voxel_sizes, float)
        if max_curvature is None:
            max_curvature = 2 * math.sin(math.radians(options.max_angle) / 2) / step
        self.curvature = max_curvature
        self.segment = options.probe_length / (options.probe_quality - 1)
        self.scale = 1 / sizes if options.probe_rule == "paper" else sizes
        self.stretch = math.hypot(1, self.curvature * step_mm / 2)

    def reach(self, shape: tuple[int, ...]) -> Array:
        """Return how far a probe can go along each axis from the point of a streamline, voxels, (3,) int."""
        bend, segments = self.curvature * self.segment, self.options.probe_quality - 1
        length, binormal = segments * self.segment, 1.0
        if not self.exact_arcs:
            length = 0.0
            # DIPY's propagator is of second order, and a probe's binormal is not normalised after each segment
            for _ in range(segments):
                length += self.segment * (1 + bend / 2 * math.sqrt(2) * binormal)
                binormal = bend + (1 + bend * bend / 2) * binormal
        radius = self.options.probe_radius * binormal * math.sqrt(2) if self.options.probe_count > 1 else 0.0
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.ceil(length * self.scale + radius / np.asarray(self.voxel_sizes))
        # nothing is read outside the image, so a length that overflows is cut to its shape; fmin ignores NaN
        return np.fmin(away, shape).astype(int)

    def scalars(self) -> dict[str, float]:
        """Return the numbers of the kernels' record. The factor keeps rounded curvatures within the greatest one."""
        power = self.options.data_support_exponent
        scalars = {
            "max_curvature": self.curvature * (1 - 2.0**-21), "step": self.step_mm, "segment": self.segment,
            "share": 1 / (self.options.probe_quality * self.options.probe_count), "power": power, "slack": 2.0**power,
        }
        for axis, size, scale in zip("xyz", self.voxel_sizes, self.scale, strict=True):
            scalars |= {axis: 1 / float(size), f"probe_{axis}": float(scale)}
        return scalars


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class PttGetter(PmfGetter):
    """Parallel transport; see the constants of ``kernels/getters/probes.py``."""

    scratch: type[Record] = ptt.PttScratch
    state: type[Record] = ptt.Frame
    begin: Func = ptt.begin_by_lanes
    read: Func = read_stop
    set_out: Stage = ptt.set_out_by_frame
    load_state: Stage = ptt.load_frame
    store_state: Stage = ptt.store_frame
    choose: Func = ptt.choose_try
    move: Stage = ptt.move_by_try
    move_as_chosen: Stage = ptt.move_as_tried
    drops_dead_end: int = 1
    drop_dead_end: Stage = ptt.drop_last_point
    postpone: Stage = ptt.put_off
    fall_due: Stage = ptt.end_in_time
    note_step_again: Func = ptt.support_of
    amplitude: Func = amplitude_of_samples
    whole_sphere: Func = sphere_of_samples
    carried: int = CARRIED
    cell_sizes: CellSizes
    segments: int
    parts: int
    probes: int
    exact_arcs: int
    powered: int
    paper: int
    strict: int
    laid_out_abreast: bool = host(default=True)
    read_by_lanes: bool = host(default=True)
    often_read: tuple[str, ...] = host(default=OFTEN_READ)

    def count_step(self) -> tuple[int, int]:
        """Return a lower bound of the bytes read and the operations done for a step.

        Each lane computes the arc of a probe, and reads the values along it or, where two lanes share it, along half of
        it. Each line of a segment that is read takes eight reads, 16 operations to interpolate and 18 for the weights.
        """
        segments, lines = self.segments, self.probes
        reads = 32 * (segments if self.parts == 1 else segments - segments // 2)
        each = NEAREST_OPERATIONS + lines * (16 + WEIGHT_OPERATIONS)
        return 32 * reads * lines, 32 * segments * ARC_OPERATIONS + reads * each


def describe(
    scheme: Scheme, options: PttOptions, max_curvature: float | None = None, exact_arcs: bool = False
) -> tuple[PmfGetter, Rows]:
    """Return the getter of parallel transport tractography and its rows.

    Parameters
    ----------
    scheme : Scheme
        The headers of the inputs, which are orientation functions, in the scale of ``pmf_threshold``.
    options : PttOptions
        Options of the method.
    max_curvature, exact_arcs : float or None, bool
        See :class:`Probe`.

    Returns
    -------
    getter, rows : PttGetter, Rows
        The getter, and how its rows are made.

    Raises
    ------
    InputError
        If the values do not fit the sphere or the basis.
    ParameterError
        If an asymmetric function is given on a sphere without opposite pairs.
    """
    probe = Probe(options, scheme.step_mm, scheme.voxel_sizes, max_curvature, exact_arcs)
    function, (vertices, edges) = scheme.form, scheme.vertices_and_edges
    order = compact_order(np.asarray(vertices, float))  # so that neighbours are close in memory
    vertices = np.asarray(vertices, float)[order]
    if not function.symmetric and (alone := without_opposite(vertices)):
        raise ParameterError(
            f"{alone} of the sphere's {len(vertices)} vertices have no opposite vertex: for an asymmetric "
            "function, give ptt a whole sphere of opposite pairs, e.g. DIPY's repulsion724"
        )
    cells, cell_sizes = cell_table(vertices, function.symmetric)
    segments = options.probe_quality - 1
    least = 0.0 if options.pmf_rows == "sampled" else -np.inf
    tables = pmf_tables(replace(scheme, sphere=(vertices, np.argsort(order)[edges])), options, least)
    getter, rows = tables.described(
        PttGetter, cell_sizes=cell_sizes, segments=segments,
        # most steps need few candidates: two lanes evaluate one where a team's memory holds the values along a probe
        parts=2 if 2 <= segments <= 2 * (round_up(len(vertices)) // 32) else 1,
        probes=options.probe_count, exact_arcs=int(exact_arcs), powered=int(options.data_support_exponent != 1),
        paper=int(options.probe_rule == "paper"), strict=int(options.probe_rule != "dipy"),
        code_bits=try_bits(scheme.rule, ptt.NUMBER_BITS),
        method=ptt.Ptt(**vars(tables.method), cells=cells, ring=_ring(options), **probe.scalars()),
    )

    def fill_rows(values: Array, written: Array) -> None:
        rows.fill(values[:, order] if function.kind == "pmf" else values, written)

    return getter, Rows(fill_rows, probe.reach, probe.stretch)


def _ring(options: PttOptions) -> Array:
    """Return the offsets of a probe's lines from its axis: cosine and sine times the radius, mm, (2 * probe_count,)."""
    turns = 2 * np.pi * np.arange(options.probe_count) / options.probe_count
    return (options.probe_radius * np.stack([np.cos(turns), np.sin(turns)], axis=1)).ravel()
