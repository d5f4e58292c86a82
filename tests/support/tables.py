"""Tables of the methods from arrays, and the log of a run that is told of notes, for tests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tistreamlines.options.parameters import Parameters
from tistreamlines.run.from_arrays import prepare_arrays
from tistreamlines.run.log import Log, Watcher
from tistreamlines.space.harmonics import basis_of
from tistreamlines.tracking.getters import ptt
from tistreamlines.tracking.stopping import threshold
from tistreamlines.tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals
from tistreamlines.tracking.tables.rows import tables_of

ARRAYS = ("sphere", "step_mm", "voxel_sizes")  # of what is given; others are options


def noting(note: Callable[[str], object]) -> Log:
    """A log whose notes are handed on."""
    watcher = Watcher()
    watcher.note = note
    return Log(watcher)


def prepare_boot(
    data: np.ndarray, gtab: Any, stop_map: np.ndarray, value: float, seeds: np.ndarray, **options: Any
) -> KernelTables:
    return _prepare("boot", Signals(data, gtab), stop_map, value, seeds, options)


def prepare_prob(source: str, values: np.ndarray, *others: Any, **options: Any) -> KernelTables:
    return _follow("prob", source, values, others, options)


def prepare_det(source: str, values: np.ndarray, *others: Any, **options: Any) -> KernelTables:
    return _follow("det", source, values, others, options)


def prepare_ptt(source: str, values: np.ndarray, *others: Any, **options: Any) -> KernelTables:
    return _follow("ptt", source, values, others, options)


def probe(**options: Any) -> ptt.Probe:
    """Lengths and curvatures of ptt, from the options of :func:`prepare_ptt`."""
    names = ("step_mm", "voxel_sizes", "max_curvature", "exact_arcs")
    arrays = {name: options.pop(name) for name in names if name in options}
    return ptt.Probe(Parameters(dg="ptt", **options), **arrays)


def _follow(dg: str, source: Any, values: np.ndarray, others: tuple[Any, ...], options: dict[str, Any]) -> KernelTables:
    basis = options.pop("basis", "descoteaux07_legacy")
    symmetric = not options.pop("asymmetric", source == "sh" and basis_of(basis).full)
    if options.pop("sampled", False):
        options["pmf_rows"] = "sampled"
    return _prepare(dg, OrientationFunctions(source, values, basis, symmetric), *others, options)


def _prepare(
    dg: str, follows: Any, stop_map: np.ndarray, value: float, seeds: np.ndarray, options: dict[str, Any]
) -> KernelTables:
    if "exact_arcs" not in options:
        return prepare_arrays(dg, follows, stop_map, value, seeds, **options)
    exact, arrays = options.pop("exact_arcs"), {name: options.pop(name) for name in ARRAYS if name in options}
    inputs = GetterInputs(follows, threshold.of_map(stop_map, value), seeds, **arrays)
    return tables_of(inputs, *ptt.describe(inputs.scheme, Parameters(dg=dg, **options), exact_arcs=exact))
