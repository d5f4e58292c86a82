"""Reading of the inputs: diffusion series, orientations, and masks and maps on their grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..aliases import Json
from ..devices.threads import reader, thread_pool
from ..errors import InputError, ParameterError
from ..fit import frames, shells
from ..fit.models import ALL, MODELS, begin_compiling, import_model
from ..io import ahead, images, nifti, placement
from ..io.images import AnyPath
from ..option import flag
from ..options.definitions import is_word
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.registry import METHODS, STOPPING_RULES, StoppingRule
from ..tracking.seeding.files import load_weights
from ..tracking.sources import FITTED, SOURCES
from ..tracking.tables.inputs import MapImage
from .log import Log
from .needs import STOP_MASK, follows_signals, needs_series, stops_at_mask
from .series import Series

Mask = npt.NDArray[np.bool_]
Map = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Inputs:
    """The inputs of a run; directions are along the voxel axes.

    Parameters
    ----------
    space : grid of the series, or of the orientations where there is no series.
    dwi, oriented : the series, and what is followed instead of a model; at least one of them is not None.
    mask : (x, y, z), if it was given.
    maps : maps of the stopping rule, (x, y, z) or on another grid, by the name of their option.
    frames : for each input with directions, the axes they are taken along and why.
    b_values : of the shells that FA and models are fitted to, if there is a series.
    seeded : (x, y, z), the mask or the map of seeds, if one was given.
    seed_space : its grid.
    """

    space: Space
    dwi: nifti.Dwi | None
    oriented: Any
    mask: Mask | None
    maps: dict[str, Map | MapImage]
    frames: Json
    b_values: Json
    seeded: Mask | Map | None = None
    seed_space: Space | None = None


@dataclass(frozen=True, eq=False)
class Headers:
    """The inputs whose headers say what the kernels depend on; each is opened once, and its values are read later.

    Parameters
    ----------
    dwi, followed : the series, and what is followed instead of a model, if they are given.
    """

    dwi: nifti.OpenDwi | None
    followed: Any


def open_headers(series: Series, parameters: Parameters, log: Log) -> Headers:
    """Open the series, and what is followed instead of a model.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``, or of ``dwi`` alone if the format has gradients; empty
        if :func:`needs_series` finds no need of them.
    parameters : all options.
    log : receives choices made for the user.
    """
    if not series and parameters.source == FITTED:
        raise ParameterError(needs_series(parameters))
    bvals, bvecs = series.get("bvals"), series.get("bvecs")
    dwi = nifti.open_dwi(series["dwi"], bvals, bvecs, note=log.note) if series else None
    source = SOURCES.get(parameters.source)
    return Headers(dwi, None if source is None else source.open(getattr(parameters, parameters.source)))


def read(
    headers: Headers, series: Series, parameters: Parameters, log: Log, *, places_apart: bool = False
) -> Inputs:
    """Read all inputs.

    Parameters
    ----------
    headers, series, parameters : what :func:`open_headers` has returned and received.
    log : receives choices made for the user and possible mistakes.
    places_apart : whether the caller reads the mask or the map of seeds, with :func:`read_places`.

    Raises
    ------
    InputError
        If an input is missing or damaged, or does not match the others.
    """
    if headers.dwi is not None:  # beside the reading of values, when the gradients are read by the same thread
        reader("gradients").submit(import_model, parameters.model)
        fitted = parameters.model if FITTED in METHODS[parameters.dg].follows else None
        if parameters.cache_dir is None:  # else the fits may be there, and to link kernels takes 0.1 s
            thread_pool("kernels of fits", 1).submit(begin_compiling, fitted)
    files, rule, doubts, mask = parameters.inputs(), STOPPING_RULES[parameters.stopping], [], None
    read_image, image_of_rule = partial(_image_of_rule, rule, parameters, doubts.append), None
    if rule.read is not None and headers.dwi is not None:
        image_of_rule = reader("maps").submit(read_image, headers.dwi.space)
    if headers.dwi is not None and "mask" in files and not follows_signals(parameters):
        mask = nifti.load_mask(files["mask"], headers.dwi.space, log.note, place=log.warn)
    dwi, b_values = (None, {}) if headers.dwi is None else _series(headers.dwi, mask, parameters, log)
    ahead.forget_content()
    source, oriented = SOURCES.get(parameters.source), None
    if source is not None:
        oriented = source.read(headers.followed, parameters, dwi.space if dwi else None, log.note)
    grid = dwi or oriented
    assert grid is not None
    space = grid.space
    if mask is None and "mask" in files:
        mask = nifti.load_mask(files["mask"], space, log.note, place=log.warn)
    if dwi is not None and dwi.missing is not None:
        mask = _without_missing(dwi, mask, log)
    seeded, seed_space = (None, space) if places_apart else read_places(parameters, space, log)
    maps: dict[str, Map | MapImage] = {**own_maps(oriented, mask, parameters, space.shape)}
    if rule.read is not None:
        image = read_image(space) if image_of_rule is None else image_of_rule.result()
        log.tell([], doubts)
        if image is not None:
            maps |= dict.fromkeys(rule.map_images, image)
    else:
        for name in rule.maps:
            path = getattr(parameters, name)
            if path is not None and not is_word(name, path):
                maps[name] = _map(name, path, space, rule, log)
    placed = {}
    if dwi is not None:
        name = "dwi" if dwi.has_gradients else "bvecs"
        dwi, placed[name] = frames.place_gradients(dwi, mask, parameters.bvecs_frame, str(series[name]))
    if source is not None and source.place is not None:
        name = parameters.source
        file = getattr(parameters, name)
        oriented, placed[name] = source.place(oriented, parameters, str(file[0] if isinstance(file, tuple) else file))
    for placing in placed.values():
        log.tell(placing.notes, placing.warnings)
    axes = {name: placing.as_dict() for name, placing in placed.items()}
    return Inputs(space, dwi, oriented, mask, maps, axes, b_values, seeded, seed_space)


def read_places(parameters: Parameters, space: Space, log: Log) -> tuple[Mask | Map | None, Space]:
    """Return the mask or the map of seeds, if one was given, and its grid; ``space`` is that of the image."""
    files, seeded, seed_space = parameters.inputs(), None, space
    for name, load in (("seed_mask", partial(nifti.load_mask, warn=log.warn)), ("seed_image", load_weights)):
        if name in files:
            opened = images.open_image(files[name])
            seed_space = placement.grid_of_seeds(opened, space)
            seeded = load(opened, seed_space, note=log.note)
    return seeded, seed_space


def _series(
    opened: nifti.OpenDwi, inside: Mask | None, parameters: Parameters, log: Log
) -> tuple[nifti.Dwi, Json]:
    """Read the diffusion series, and say which of several shells are fitted; return their b-values as well."""
    dwi = opened.read(inside)
    if parameters.shells is not None:
        dwi = shells.only_shells(dwi, parameters.shells)
    for doubt in shells.doubts(dwi.gtab):
        log.warn(f"{dwi.path}: {doubt}")
    known = shells.b_values_record(dwi.gtab)
    if len(known["b"]) > 1:
        fitted = f"models are fitted to b = {known['models']:.0f}"
        if parameters.model is not None and MODELS[parameters.model].all_shells:
            fitted = f"{parameters.model} is fitted to all"
        elif parameters.csd_shells == ALL:
            known["models"] = [round(shells.b_value(dwi.gtab, shell), 1) for shell in shells.shells_of_csd(dwi.gtab)]
            fitted = f"csd is fitted to b = {', '.join(f'{bval:.0f}' for bval in known['models'])}"
        log.note(
            f"{dwi.path}: shells of b = {', '.join(f'{b:.0f}' for b in known['b'])}: {fitted}, FA to "
            f"b = {known['fa']:.0f}; {flag('shells')} leaves shells out"
        )
    return dwi, known


def _without_missing(dwi: nifti.Dwi, mask: Mask | None, log: Log) -> Mask | None:
    """Leave the voxels with NaN in a series out of the mask, and say how many there are."""
    assert dwi.missing is not None
    inside = dwi.missing if mask is None else dwi.missing & mask
    outside = int(dwi.missing.sum() - inside.sum())
    if mask is None or outside:
        log.note(f"{dwi.path}: {outside or inside.sum()} of {inside.size} voxels have NaN and count as without signal")
    if mask is None or not inside.any():
        return mask
    if not (mask & ~inside).any():
        raise InputError(f"{dwi.path}: all {inside.sum()} voxels of the mask have NaN; check how the file was made")
    first = tuple(int(i) for i in np.argwhere(inside)[0])
    log.warn(
        f"{dwi.path}: {inside.sum()} of {mask.sum()} voxels of the mask have NaN, the first is {first}; they are left "
        "out of the mask"
    )
    return mask & ~inside


def own_mask(oriented: object, parameters: Parameters) -> Mask | None:
    """Return the voxels that have directions, if what is followed says it."""
    source = SOURCES.get(parameters.source)
    return None if source is None or source.mask is None else source.mask(oriented)


def own_maps(
    oriented: object, mask: Mask | None, parameters: Parameters, shape: tuple[int, int, int]
) -> dict[str, Map]:
    """Return the maps of the stopping rule that the user's maps replace.

    They are the mask of the input that streamlines follow, if it has one; else --mask; else the whole image of this
    shape if streamlines end by themselves.
    """
    inside = mask if stops_at_mask(parameters) else own_mask(oriented, parameters)
    if inside is None and METHODS[parameters.dg].ends_at_cutoff:
        inside = np.ones(shape, np.bool_)
    named = STOPPING_RULES[parameters.stopping].maps.keys() & {STOP_MASK}
    return {} if inside is None else {name: inside.astype(np.float32) for name in named}


def _map(name: str, path: AnyPath, space: Space, rule: StoppingRule, log: Log) -> Map | MapImage:
    """Read a map of a stopping rule; that of a rule with a mask is 0 or 1."""
    count = rule.maps[name]
    if name == STOP_MASK:
        return nifti.load_mask(path, space, log.note, place=log.warn).astype(np.float32)
    if name in rule.map_images:
        opened = images.open_image(path)
        grid = images.grid_of(*opened)
        return _elsewhere(opened.path, nifti.load_map(opened, grid, log.note, count), grid, space)
    return nifti.load_map(path, space, log.note, count, place=log.warn)


def _image_of_rule(
    rule: StoppingRule, parameters: Parameters, warn: Callable[[str], object], space: Space
) -> MapImage | None:
    """Read the image that a stopping rule makes of several files, for a run on a grid."""
    assert rule.read is not None
    known = rule.read(parameters, warn)
    return None if known is None else _elsewhere(*known, space)


def _elsewhere(path: Path, values: Map, grid: Space, space: Space) -> MapImage:
    """Return a map on another grid than the tracked image, in which it must lie."""
    nifti.check_overlap(path, values, grid, space)
    return MapImage(values, np.linalg.solve(grid.affine, space.affine))
