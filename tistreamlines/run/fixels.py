"""Fixels of fibre orientation distributions: the lobes in each voxel, as MRtrix3's ``fod2fixel`` finds them."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..backends import take_compiler
from ..devices import choose
from ..errors import InputError, ParameterError, listed
from ..fit.fod_image import load_fods, source_and_basis
from ..fit.lobes import Lobes, Thresholds, find_lobes
from ..io.images import LARGEST
from ..io.in_memory import source_of
from ..io.maps import DIRECTIONS, FORMATS, INDEX, check_folder, write_fixels
from ..io.nifti import load_mask
from ..option import ImageLike, PathLike, flag
from ..options.parameters import Parameters
from ..options.signatures import check_keywords, list_keywords
from ..space.batch import Space

LOBES = {
    "fmls_peak_value": Thresholds.peak_value, "fmls_integral": Thresholds.integral,
    "fmls_merge_ratio": Thresholds.merge_ratio,
}
RUNNING = {"arch": "cpu", "compiler": "auto", "threads": None}
KEYWORDS = {**LOBES, "peak_amp": False, "disp": False, "format": FORMATS[0], **RUNNING, "force": False}
DENSITY, PEAK, DISPERSION = "afd", "peak_amp", "disp"  # images of fod2fixel


class FixelOptions(TypedDict, total=False):
    """Options of lobes, of files and of devices."""

    fmls_peak_value: float
    fmls_integral: float
    fmls_merge_ratio: float
    peak_amp: bool
    disp: bool
    format: str
    arch: str
    compiler: str
    threads: int | None
    force: bool


@dataclass(frozen=True, eq=False)
class Fixels:
    """Fixels: fibre populations within voxels.

    Parameters
    ----------
    index : (x, y, z, 2) uint32
        Number of fixels of each voxel, and the number of the first one.
    directions : (n, 3) float32, RAS
        Unit vector of each fixel along the scanner's axes: mean direction of the lobe weighted by amplitude, or that of
        its peak. The sign means nothing.
    densities : (n,) float32
        Apparent fibre density (AFD): the integral of the lobe and its opposite.
    peaks : (n,) float32
        Amplitude of the peak of the lobe.
    space : Space
        Grid of the voxels.
    lobe_of_direction : (voxels, 1281) uint8 or None
        If the caller wants it: of each voxel with fixels, in the order of their first fixels, the number within the
        voxel of the fixel to which each direction of ``tistreamlines.space.geodesic.half_sphere()`` belongs, along the
        scanner's axes. Directions outside all lobes belong to a lobe nearby.

    Examples
    --------
    A grid of two voxels, the first of which has two fixels:

    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> index = np.array([2, 0, 1, 2], np.uint32).reshape(2, 1, 1, 2)
    >>> directions = np.array([[1, 0, 0], [0, 1, 0], [1, 0, 0]], np.float32)
    >>> densities, peaks = np.float32([0.75, 0.25, 0.5]), np.float32([0.8, 0.5, 0.5])
    >>> fixels = ts.Fixels(index, directions, densities, peaks, ts.Space(np.eye(4), (2, 1, 1)))
    >>> len(fixels)
    3
    >>> count, first = fixels.index[0, 0, 0]
    >>> fixels.densities[first : first + count].tolist()
    [0.75, 0.25]
    """

    index: npt.NDArray[np.uint32]
    directions: npt.NDArray[np.float32]
    densities: npt.NDArray[np.float32]
    peaks: npt.NDArray[np.float32]
    space: Space
    lobe_of_direction: npt.NDArray[np.uint8] | None = None

    def __len__(self) -> int:
        """Return the number of fixels."""
        return len(self.densities)

    @property
    def dispersions(self) -> npt.NDArray[np.float32]:
        """Density over amplitude of the peak, ``(n,)`` float32: the wider a lobe, the greater."""
        return self.densities / self.peaks


@list_keywords(KEYWORDS, whole=True)
def fixels(
    fod: ImageLike, folder: PathLike | None = None, *, sh_basis: str | None = None, sh_frame: str | None = None,
    mask: ImageLike | None = None, maxnum: int | None = None, dirpeak: bool = False, directions_table: bool = False,
    **options: Unpack[FixelOptions],
) -> Fixels:
    """Find the fixels of fibre orientation distributions (FODs), as MRtrix3's ``fod2fixel``.

    Parameters
    ----------
    fod : str, Path or nibabel image
        Spherical harmonics, one coefficient per volume, of even degrees.
    folder : str or Path, optional
        Folder to write, in MRtrix3's format of fixels: ``index``, ``directions`` and ``afd``.
    sh_basis : str, optional
        Basis of the harmonics, such as 'tournier07' (MRtrix3), which is the default of a .mif, or 'descoteaux07_legacy'
        (DIPY). Other files need it.
    sh_frame : str, optional
        Axes of the harmonics: 'scanner', by default with tournier07, or 'voxel', with descoteaux07.
    mask : str, Path or nibabel image, optional
        Voxels that may have fixels: those of at least 0.5.
    maxnum : int, optional
        Most fixels of a voxel: those of the highest peaks.
    dirpeak : bool
        The direction of a fixel is that of the peak, not the mean.
    directions_table : bool
        Also return the fixel of each direction of the half sphere (``lobe_of_direction``).
    fmls_peak_value, fmls_integral : float
        Lobes whose peak has a lower amplitude, or whose integral is lower, are dropped. By default 0.1 and 0.
    fmls_merge_ratio : float
        From 0 to 1: two lobes are one where the amplitude between them exceeds this part of the lower peak. By default
        1: none are joined.
    peak_amp, disp : bool
        Also write the amplitudes of the peaks, and the dispersions.
    format : str
        'mif', the default, 'nii' or 'nii.gz'.
    arch : str
        Where lobes are found: 'cpu', the default, 'cuda', 'amdgpu', 'vulkan', 'metal', or 'auto' for the first of these
        with a GPU. The result is the same, bit for bit.
    compiler, threads : str, int
        As for :func:`track`.
    force : bool
        Replace fixels in a folder.

    Returns
    -------
    Fixels
        An index of the voxels, and direction, density and peak of each fixel.

    Raises
    ------
    ParameterError
        If an option is out of bounds, or if options cannot be combined.
    InputError
        If the image or the mask is missing or damaged, or if no voxel has a fixel.
    OutputError
        If the folder is not empty, or cannot be written.
    DeviceError
        If the device is unavailable, or lacks the memory.

    TypeError
        If a keyword is not an option of fixels.

    Warns
    -----
    UserWarning
        If another basis, or other axes, fit the image better.

    Notes
    -----
    Lobes are those of MRtrix3's ``fod2fixel``: a watershed over directions [1]_.

    References
    ----------
    .. [1] Smith RE, Tournier JD, Calamante F, Connelly A. SIFT: Spherical-deconvolution informed filtering of
        tractograms. NeuroImage 67, 2013. doi:10.1016/j.neuroimage.2012.11.049

    Examples
    --------
    >>> import nibabel as nib
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> degrees = np.arange(0, 10, 2)
    >>> fod = np.zeros((3, 3, 3, 45))  # a fibre along z in each voxel
    >>> fod[..., degrees * (degrees + 1) // 2] = np.sqrt(2 * degrees + 1) * np.exp(-degrees * (degrees + 1) / 30)
    >>> fixels = ts.fixels(nib.Nifti1Image(fod, np.eye(4)), sh_basis="tournier07")
    >>> len(fixels), fixels.index[1, 1, 1].tolist()
    (27, [1, 13])
    >>> np.abs(fixels.directions[13]).round(2).tolist()
    [0.0, 0.0, 1.0]
    """
    check_keywords("fixels", options, KEYWORDS)
    peak_value, integral, merge_ratio = (options.get(name, default) for name, default in LOBES.items())
    thresholds = Thresholds(
        check_number("fmls_peak_value", peak_value), check_number("fmls_integral", integral),
        check_number("fmls_merge_ratio", merge_ratio, 1.0),
    )
    format, force = options.get("format", FORMATS[0]), options.get("force", False)
    _check(maxnum, format, directions_table=directions_table)
    running = Parameters.given({name: options.get(name, default) for name, default in RUNNING.items()})
    source_and_basis(fod, sh_basis, sh_frame)  # an error comes before the folder and the device are looked at
    names = [DENSITY] + [PEAK] * options.get("peak_amp", False) + [DISPERSION] * options.get("disp", False)
    target = None if folder is None else Path(folder)
    if target is not None:
        check_folder(target, (DIRECTIONS, *names, INDEX), format, force=force)
    take_compiler(running.compiler)
    device = choose(running.arch)
    from ..io.placement import placement_doubts

    tell = partial(warnings.warn, stacklevel=2)
    image = load_fods(fod, sh_basis, sh_frame, note=tell)
    sources = [source_of("fod", fod), *([] if mask is None else [source_of("mask", mask)])]
    for doubt in placement_doubts(sources):
        tell(doubt)
    space, inside = image.harmonics.space, image.harmonics.values[..., 0] > 0
    if mask is not None:
        inside &= load_mask(sources[1], space, tell, tell)
    for doubt in image.doubts():
        tell(doubt)
    functions = image.along_scanner_axes(inside)
    lobes = find_lobes(functions, image.basis, thresholds, device, table=directions_table, threads=running.threads)
    if not len(lobes.integrals):
        raise InputError(f"{image.name}: has no fixel; check the mask, and lower --fmls-peak-value or --fmls-integral")
    numbered = _fixels(lobes, inside, space, maxnum, dirpeak=dirpeak)
    if target is not None:
        images = {DENSITY: numbered.densities, PEAK: numbered.peaks, DISPERSION: numbered.dispersions}
        images = {DIRECTIONS: numbered.directions} | {name: images[name] for name in names}
        write_fixels(target, numbered.index, images, space, format, force=force)
    return numbered


def _check(maxnum: int | None, suffix: str, *, directions_table: bool) -> None:
    if suffix not in FORMATS:
        raise ParameterError(f"--format is {suffix!r}: give {listed(FORMATS)}")
    if maxnum is not None and (not isinstance(maxnum, numbers.Integral) or maxnum < 1):
        raise ParameterError(f"--maxnum is {maxnum!r}: give a whole number of at least 1")
    if maxnum is not None and directions_table:
        raise ParameterError("directions_table is of all fixels: leave maxnum out")


def check_number(name: str, value: object, high: float = math.inf) -> float:
    """Return a threshold; raise a ParameterError if it is no number from 0 on."""
    number = float(value) if isinstance(value, numbers.Real) and not isinstance(value, bool) else math.nan
    if not 0 <= number <= min(high, LARGEST):  # "not <=" also catches NaN
        raise ParameterError(f"{flag(name)} is {value!r}: give a number from 0 {'on' if high > 1 else f'to {high:g}'}")
    return number


def _fixels(
    lobes: Lobes, inside: npt.NDArray[np.bool_], space: Space, maxnum: int | None, *, dirpeak: bool
) -> Fixels:
    """Number the fixels voxel by voxel, and leave out those of low peaks where a voxel has too many."""
    begins = np.cumsum(lobes.counts) - lobes.counts
    rank = np.arange(len(lobes.integrals)) - np.repeat(begins, lobes.counts)
    kept = slice(None) if maxnum is None else rank < maxnum
    counts = lobes.counts if maxnum is None else np.minimum(lobes.counts, maxnum)
    index = np.zeros((*inside.shape, 2), np.uint32)
    index[inside, 0] = counts
    index[inside, 1] = np.where(counts > 0, np.cumsum(counts) - counts, 0)
    table = None if lobes.words is None else lobes.table[counts > 0]
    directions = (lobes.peaks if dirpeak else lobes.means)[kept]
    return Fixels(index, directions, lobes.integrals[kept], lobes.amplitudes[kept], space, table)
