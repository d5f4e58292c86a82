"""The inputs of direction getters: one row for each kind of input that replaces a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..errors import listed
from ..fit.frames import Placement, place_orientations, place_samples
from ..io.images import OpenImage, open_image
from ..io.orientations import Orientations, load_odf, load_peaks, load_pmf, load_sh
from ..io.samples import Samples, listed_files, load_samples, sample_files
from ..space.batch import Space
from ..space.harmonics import BASES
from .tables.inputs import Form, OrientationFunctions, Signals

Tell = Callable[[str], object]
Input = TypeVar("Input")  # what was opened
Directions = TypeVar("Directions")  # what was read
Options = TypeVar("Options")
Kind = Literal["sh", "pmf", "odf", "peaks"]
FILE = "an orientation file"
SIGNALS, FITTED = "signals", "model"  # what a diffusion series gives: itself, or the model that is fitted to it
OF_A_SERIES = {SIGNALS: "a series with b0s", FITTED: "a series"}


class FileOptions(Protocol):
    """Options of files of orientations."""

    sh_basis: str
    sh_frame: str | None
    sphere: str
    asymmetric: bool
    peak_width: float
    peaks_frame: str


@dataclass(frozen=True)
class OrientationSource(Generic[Input, Directions, Options]):
    """An input that a direction getter can follow, named by an option of its own.

    Attributes
    ----------
    title : str
        A description for tables.
    read : callable
        Reads it, from the opened file, all options, the grid of the series if there is one, and a function that
        receives notes. Its result has ``space``, its grid.
    follows : callable
        Makes ``Given.follows`` of the values and the options.
    form : callable
        Returns the form of that before it is read, from the opened file and the options.
    place : callable
        Turns what was read to the voxel axes, from it, the options and its name; returns it, and how the axes were
        chosen. None if directions are along the voxel axes.
    open : callable
        Opens it, from the value of its option, and reads only headers. An image unless another one is given.
    files : callable
        Returns the files that belong to it, of which hashes are taken, from the value of the option. None for an image.
    mask : callable
        Returns the voxels that have directions, (x, y, z) bool, if the values say so. Without other options, seeds are
        placed there, and ``stop_mask`` is these. None if it does not say it.
    """

    title: str
    read: Callable[[Input, Options, Space | None, Tell], Directions]
    follows: Callable[[Directions, Options], Signals | OrientationFunctions | Samples]
    form: Callable[[Input, Options], Form]
    place: Callable[[Directions, Options, str], tuple[Directions, Placement]] | None = None
    open: Callable[[Any], Input | OpenImage] = open_image
    files: Callable[[Any], Sequence[Path]] | None = None
    mask: Callable[[Directions], npt.NDArray[np.bool_]] | None = None


def _form(kind: Kind, count: int, options: FileOptions) -> Form:
    """Return the form of a file of orientations with so many numbers in each voxel."""
    if kind == "sh":
        return Form("sh", count, options.sh_basis, not BASES[options.sh_basis].full)
    if kind == "peaks":
        return Form("peaks", count, peak_width=options.peak_width)
    return Form("pmf", count, symmetric=not options.asymmetric)


def _follows(read: Orientations, options: FileOptions) -> OrientationFunctions:
    form = _form(read.kind, 0, options)
    kind = "pmf" if read.kind == "odf" else read.kind
    return OrientationFunctions(kind, read.values, form.basis, form.symmetric, form.peak_width)


def _file(
    kind: Kind, load: Callable[[OpenImage, FileOptions, Space | None, Tell], Orientations],
    place: Callable[[Orientations, FileOptions, str], tuple[Orientations, Placement]] | None = None,
) -> OrientationSource[OpenImage, Orientations, FileOptions]:
    """Return the row of a file with an orientation function in each voxel."""
    return OrientationSource(
        FILE, load, _follows, lambda opened, options: _form(kind, math.prod(opened.image.shape[3:]), options), place,
    )


_FILES: dict[str, OrientationSource[OpenImage, Orientations, FileOptions]] = {
    "sh": _file(
        "sh", lambda file, options, space, note: load_sh(file, options.sh_basis, space, note),
        lambda read, options, name: place_orientations(read, options.sh_frame or "voxel", name),
    ),
    "odf": _file("odf", lambda file, options, space, note: load_odf(file, options.sphere, space, note)),
    "pmf": _file("pmf", lambda file, options, space, note: load_pmf(file, options.sphere, space, note)),
    "peaks": _file(
        "peaks", lambda file, _, space, note: load_peaks(file, space, note),
        lambda read, options, name: place_orientations(read, options.peaks_frame, name),
    ),
}
SOURCES: dict[str, OrientationSource[Any, Any, Any]] = _FILES | {
    "bedpostx": OrientationSource(
        "samples of bedpostX", lambda files, _, space, note: load_samples(files, space, note), lambda read, _: read,
        lambda files, _: Form("samples", files.image.shape[3], fibres=len(files.fibres)),
        lambda read, _, name: (read, place_samples(read, name)), sample_files,
        lambda path: [Path(path)] if Path(path).is_file() else listed_files(sample_files(path)), lambda read: read.mask,
    ),
}
FUNCTIONS = (FITTED, *_FILES)  # all that have an orientation function in each voxel


def describe_inputs(follows: Sequence[str]) -> str:
    """Describe what can be followed, for tables: 'a series or an orientation file'."""
    return listed(dict.fromkeys(OF_A_SERIES.get(name) or SOURCES[name].title for name in follows))
