"""What direction getters follow: one row for each kind of input that takes the place of a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..fit.frames import Placing, place_orientations
from ..fit.samples import place_samples
from ..io.images import AnyPath, Opened, open_image
from ..io.orientations import Orientations, load_odf, load_peaks, load_pmf, load_sh
from ..io.samples import SampleFiles, Samples, listed_files, load_samples, sample_files
from ..option import listed
from ..space.batch import Space
from ..space.harmonics import BASES
from .tables.given import OrientationFunctions, Signals

if TYPE_CHECKING:
    from ..io.stored import Image

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
        What it is, for tables.
    read : callable
        Reads it, from what was opened, all options, the grid of the series if there is one, and a function that
        receives notes. What it returns has ``space``, its grid.
    follows : callable
        Makes ``Given.follows`` of what was read and the options.
    blank : callable
        Makes what stands in for it, to compile kernels before it is read: from what was opened, all options and the
        shape of an image of ones.
    place : callable
        Turns what was read to the voxel axes, from it, the options and its name; returns it, and how the axes were
        chosen. None if directions are along the voxel axes.
    open : callable
        Opens it, from the value of its option, and reads only headers. An image unless another one is given.
    files : callable
        Returns the files that belong to it, of which hashes are taken, from the value of the option. None for an image.
    mask : callable
        Returns the voxels that have directions, (x, y, z) bool, from what was read, if that says it. Without other
        options, seeds are placed there, and ``stop_mask`` is these. None if it does not say it.
    """

    title: str
    read: Callable[[Input, Options, Space | None, Tell], Directions]
    follows: Callable[[Directions, Options], Signals | OrientationFunctions | Samples]
    blank: Callable[[Input, Options, tuple[int, int, int]], Directions]
    place: Callable[[Directions, Options, str], tuple[Directions, Placing]] | None = None
    open: Callable[[Any], Input | Opened] = open_image
    files: Callable[[Any], Sequence[Path]] | None = None
    mask: Callable[[Directions], npt.NDArray[np.bool_]] | None = None


def few_voxels(image: Image, shape: tuple[int, int, int]) -> Space:
    """Return a grid of few voxels of an image's size, for what stands in for the image."""
    assert image.affine is not None
    return Space(np.diag([*np.linalg.norm(image.affine[:3, :3], axis=0), 1.0]), shape)


def _blank(kind: Kind, opened: Opened, options: FileOptions, shape: tuple[int, int, int]) -> Orientations:
    """Return orientations of ones, with as many volumes as the file has."""
    image = opened.image
    space = few_voxels(image, shape)
    values = np.ones((*shape, *image.shape[3:]), np.float32).reshape(*shape, -1)
    return Orientations(kind, values, options.sh_basis, options.sphere, space)


def _sampled(read: Orientations, options: FileOptions) -> OrientationFunctions:
    return OrientationFunctions("pmf", read.values, symmetric=not options.asymmetric)


def _harmonics(read: Orientations, options: FileOptions) -> OrientationFunctions:
    del options
    assert read.basis is not None
    return OrientationFunctions("sh", read.values, read.basis, not BASES[read.basis].full)


def _lobes(read: Orientations, options: FileOptions) -> OrientationFunctions:
    return OrientationFunctions("peaks", read.values, peak_width=options.peak_width)


@dataclass(frozen=True)
class _OpenedSamples:
    """The files of bedpostX's samples, and the header of the first fibre's fractions."""

    files: SampleFiles
    image: Image


def _open_samples(paths: AnyPath | Sequence[AnyPath]) -> _OpenedSamples:
    files = sample_files(paths)
    return _OpenedSamples(files, open_image(files.fibres[0]["f"]).image)


def _sample_parts(path: AnyPath) -> list[Path]:
    return [Path(path)] if Path(path).is_file() else listed_files(sample_files(path))


def _load_samples(opened: _OpenedSamples, options: object, space: Space | None, note: Tell) -> Samples:
    del options
    return load_samples(opened.files, space, note)


def _blank_samples(opened: _OpenedSamples, options: object, shape: tuple[int, int, int]) -> Samples:
    """Return samples of fibres along the first axis, as many as the files have."""
    del options
    image = opened.image
    space = few_voxels(image, shape)
    values = np.zeros((math.prod(shape), image.shape[3], len(opened.files.fibres), 4), np.float32)
    values[..., [0, 3]] = 1
    return Samples(values, np.ones(shape, bool), space)


_FILES: dict[str, OrientationSource[Opened, Orientations, FileOptions]] = {  # of an orientation function in each voxel
    "sh": OrientationSource(
        FILE, lambda file, options, space, note: load_sh(file, options.sh_basis, space, note), _harmonics,
        partial(_blank, "sh"),
        lambda read, options, name: place_orientations(read, options.sh_frame or "voxel", name),
    ),
    "odf": OrientationSource(
        FILE, lambda file, options, space, note: load_odf(file, options.sphere, space, note), _sampled,
        partial(_blank, "odf"),
    ),
    "pmf": OrientationSource(
        FILE, lambda file, options, space, note: load_pmf(file, options.sphere, space, note), _sampled,
        partial(_blank, "pmf"),
    ),
    "peaks": OrientationSource(
        FILE, lambda file, _, space, note: load_peaks(file, space, note), _lobes, partial(_blank, "peaks"),
        lambda read, options, name: place_orientations(read, options.peaks_frame, name),
    ),
}
SOURCES: dict[str, OrientationSource[Any, Any, Any]] = _FILES | {
    "bedpostx": OrientationSource(
        "samples of bedpostX", _load_samples, lambda read, _: read, _blank_samples,
        lambda read, _, name: (read, place_samples(read, name)), _open_samples,
        _sample_parts, lambda read: read.mask,
    ),
}
FUNCTIONS = (FITTED, *_FILES)  # all that have an orientation function in each voxel


def described(follows: Sequence[str]) -> str:
    """Describe what can be followed, for tables: 'a series or an orientation file'."""
    return listed(dict.fromkeys(OF_A_SERIES.get(name) or SOURCES[name].title for name in follows))
