"""Images of fibre orientation distributions (FODs), whose lobes are sought."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from zlib import crc32

import numpy as np
import numpy.typing as npt

from ..devices.threads import in_threads
from ..errors import ParameterError
from ..io.images import AnyPath, Tell, open_image, silent
from ..io.in_memory import InMemory, source_of
from ..io.orientations import Orientations, default_basis, load_sh
from ..space.harmonics import basis_of, frame_of, order_of, turning_matrix
from .frames import axes_are_scanners, frame_of_orientations
from .series import in_parts, rows_of


@dataclass(frozen=True, eq=False)
class FodImage:
    """The orientation functions of all voxels.

    Parameters
    ----------
    harmonics : Orientations
        Of the kind 'sh', with a symmetric basis.
    frame : str
        Axes of the harmonics: 'scanner' or 'voxel'.
    name : str
        For messages.
    """

    harmonics: Orientations
    frame: str
    name: str

    @property
    def basis(self) -> str:
        """Basis of the harmonics."""
        assert self.harmonics.basis is not None
        return self.harmonics.basis

    @cached_property
    def content(self) -> tuple[int, ...]:
        """Checksums of the functions, of each plane."""
        return tuple(in_threads(lambda plane: crc32(np.ascontiguousarray(plane).data), self.harmonics.values, None))

    def doubts(self) -> tuple[str, ...]:
        """Return a warning if the functions look as if they had another frame or basis."""
        return tuple(frame_of_orientations(self.harmonics, self.frame, self.name).warnings)

    def along_scanner_axes(
        self, inside: npt.NDArray[np.bool_], threads: int | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the coefficients of some voxels along the scanner's axes, (voxels, n).

        Lobes depend a little on the directions in which functions are sampled. Along these axes, these are MRtrix3's,
        however the voxels are stored.
        """
        (rows, voxels), space, turn = rows_of(self.harmonics.values, inside), self.harmonics.space, None
        if self.frame != "scanner" and not axes_are_scanners(space):
            turn = turning_matrix(space.axes.T, order_of(rows.shape[1]), self.basis).T
        out = np.empty((len(voxels), rows.shape[1]), np.float32)

        def copy(part: slice) -> None:
            some = rows[voxels[part]]
            out[part] = some if turn is None else some.astype(np.float64) @ turn

        in_parts(copy, len(voxels), threads)
        return out


def load_fods(
    fod: object, basis: str | None, frame: str | None = None, *, option: str = "--sh-basis", note: Tell = silent
) -> FodImage:
    """Read an image of FODs.

    Parameters
    ----------
    fod : path or nibabel image
        Spherical harmonics, one coefficient per volume.
    basis, frame : str, optional
        By default those of MRtrix3 for its own files, and the frame that goes with the basis.
    option : str
        The option that names the basis, for messages.
    note : callable
        Receives a message if there are NaN values; these voxels have no function.

    Raises
    ------
    InputError
        If the image is missing or damaged.
    ParameterError
        If the basis is not known or keeps opposite directions apart, or if the frame is no frame.
    """
    path, basis = source_and_basis(fod, basis, frame, option=option)
    return FodImage(load_sh(open_image(path), basis, note=note), frame or frame_of(basis), str(path))


def source_and_basis(
    fod: object, basis: str | None, frame: str | None, *, option: str = "--sh-basis"
) -> tuple[AnyPath, str]:
    """Return the path of an image, or what stands in for it, and the basis; see :func:`load_fods`."""
    path = source_of("fod", fod)
    if isinstance(path, InMemory) and path.affine is None:
        raise ParameterError("fod is an array: give a nibabel image, or the path of one")
    basis = basis or default_basis(path, option)
    if basis_of(basis).full:
        raise ParameterError(f"{option} {basis} keeps opposite directions apart, and a fixel does not: give a "
                             "symmetric basis and functions of even degrees")
    if frame not in (None, "scanner", "voxel"):
        raise ParameterError(f"--sh-frame is {frame!r}: give scanner or voxel")
    return path, basis
