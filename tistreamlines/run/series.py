"""The arguments of a call in Python: the series with its gradients, and where arrays lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import GradientTable
from ..errors import ParameterError
from ..io.images import AnyPath, is_folder, open_image, reader_of
from ..io.in_memory import InMemory, source_of, unmask
from ..options.definitions import input_names, names_in_memory
from ..options.parameters import Parameters
from ..tracking.sources import SOURCES

Series = Mapping[str, AnyPath]  # paths or arrays of ``dwi``, ``bvals`` and ``bvecs``, or nothing


def series_of(files: Mapping[str, object], gtab: GradientTable | None) -> tuple[Series, list[str]]:
    """Collect the diffusion series and its gradients, or nothing, and say which files beside it are taken."""
    bvals, bvecs = files["bvals"], files["bvecs"]
    if gtab is not None:
        if bvals is not None or bvecs is not None:
            raise ParameterError("gtab takes the place of bvals and bvecs: leave these out")
        if not (hasattr(gtab, "bvals") and hasattr(gtab, "bvecs")):
            raise ParameterError(f"gtab is a {type(gtab).__name__}: give a GradientTable of DIPY")
        bvals, bvecs = (InMemory("gtab", unmask("gtab", values)) for values in (gtab.bvals, gtab.bvecs))
    elif hasattr(bvals, "bvecs"):
        raise ParameterError(f"bvals is a {type(bvals).__name__}: give it as gtab")
    sources = {**files, "bvals": bvals, "bvecs": bvecs}
    series = {name: source_of(name, value, lists=name != "dwi") for name, value in sources.items() if value is not None}
    if set(series) == {"dwi"} and not isinstance(series["dwi"], InMemory):
        if reader_of(Path(series["dwi"])).gradients:
            return series, []
        from ..io.gradients import gradients_beside

        series["bvals"], series["bvecs"] = beside = gradients_beside(series["dwi"])
        return series, [f"{series['dwi']}: its gradients are {beside[0].name} and {beside[1].name} beside it"]
    if series and len(series) < len(sources):
        raise ParameterError("dwi, bvals and bvecs belong together: give all three (or dwi and gtab), or none")
    return series, []


def locate(series: Series, parameters: Parameters, affine: npt.ArrayLike | None) -> tuple[Series, Parameters]:
    """Give every array of voxels its affine: the argument, or that of the first image."""
    placed = set(names_in_memory()) - {"seeds"}
    options = {  # a folder has no affine, but for those of SOURCES
        name: source for name, source in parameters.inputs().items()
        if (option := name.split()[0]) in placed and (option in SOURCES or not is_folder(source))
    }
    first = {name: source for name, source in options.items() if name.split()[0] in SOURCES}
    images = {**{name: source for name, source in series.items() if name == "dwi"}, **first, **options}
    arrays = {name: v for name, v in images.items() if isinstance(v, InMemory) and v.affine is None}
    if not arrays:
        if affine is not None:
            raise ParameterError("affine is for arrays, and no input is one: leave it out")
        return series, parameters
    if affine is None:
        known = (name for name in images if name not in arrays)
        affine = next((_affine_of(name, images[name], parameters) for name in known), None)
    if affine is None:
        raise ParameterError(f"arrays ({', '.join(arrays)}) need affine: give it, (4, 4), from voxels to RASmm")
    values = unmask("affine", affine)
    try:
        matrix = np.array(values, np.float64)
    except (TypeError, ValueError):
        matrix = np.empty(0)
    if matrix.shape != (4, 4):
        raise ParameterError(f"affine is a {type(values).__name__} of shape {np.shape(values)}: give a (4, 4) array")
    located = {name: replace(value, affine=matrix) for name, value in arrays.items()}
    named = [name for name in input_names() if getattr(parameters, name) is not None]
    others = {name: _relocated(parameters, name, located) for name in named}
    return {name: located.get(name, value) for name, value in series.items()}, Parameters.given(others, parameters)


def _relocated(parameters: Parameters, name: str, located: Mapping[str, InMemory]) -> object:
    """Return the value of an option with its arrays located."""
    value = getattr(parameters, name)
    if not isinstance(value, tuple):
        return located.get(name, value)
    several = ((f"{name} {i}", item) for i, item in enumerate(value, 1))
    return [(located.get(key, item[0]), *item[1:]) if isinstance(item, tuple) else located.get(key, item)
            for key, item in several]


def _affine_of(name: str, value: str | PathLike[str], parameters: Parameters) -> npt.NDArray[np.float64] | None:
    """Return the affine of an input: of an image, or of its opened source."""
    if isinstance(value, InMemory):
        return value.affine
    option = name.split()[0]
    if option in SOURCES:
        return SOURCES[option].open(getattr(parameters, option)).image.affine
    return open_image(value)[1].affine
