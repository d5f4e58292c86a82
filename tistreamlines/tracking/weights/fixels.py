"""The fixels of an image of fibre orientation distributions (FODs), with which streamlines are compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ...devices import Device
from ...errors import InputError
from ...fit.fod_image import along_scanner_axes, source_and_basis
from ...fit.lobes import Thresholds, find_lobes
from ...io.images import Tell, open_image
from ...io.orientations import load_sh
from ...space.batch import Space
from ...space.harmonics import frame_of
from .fixel_grid import FixelTable
from .voxel_masks import given_mask, tissue_mask

Array = npt.NDArray[Any]


@dataclass(frozen=True, eq=False)
class Fixels:
    """The lobes of FODs, in the order of their voxels.

    Parameters
    ----------
    table : FixelTable
        Which of them a streamline visits.
    fibres : (n,) float64
        Fibre density of each.
    mask : (x, y, z) float
        How much each voxel counts, 0 to 1.
    directions : (n, 3) float32
        Mean direction of each, a unit vector along the scanner's axes, whose sign means nothing.
    """

    table: FixelTable
    fibres: Array
    mask: Array
    directions: Array

    @property
    def masks(self) -> npt.NDArray[np.float64]:
        """How much the voxel of each fixel counts, (n,)."""
        return self.mask.ravel()[self.table.voxel_of].astype(float)

    def check_overlap(self, space: Space, name: str) -> None:
        """Raise an InputError, which begins with a name, if no fixel lies in an image of this grid."""
        centres = self.table.space.to_ras(np.argwhere(self.table.counts > 0))
        inside = np.abs(space.to_voxel(centres) - (np.array(space.shape) - 1) / 2) <= np.array(space.shape) / 2
        if not inside.all(axis=1).any():
            raise InputError(f"{name}: no fixel lies in the tracked image: are both of one subject, in one space?")


def fixels_of(
    fod: Any, basis: str | None, device: Device, threads: int | None, note: Tell, *, option: str, tissues: Any = None,
    proc_mask: Any = None, scale_grey: bool = False,
) -> Fixels:  # fmt: skip
    """Find the fixels of an image, as MRtrix3's tcksift2 and ``tckgen -seed_dynamic`` do.

    Parameters
    ----------
    fod : path or image
        Image of FODs.
    basis : str, optional
        Basis of its harmonics; that of MRtrix3 for a .mif.
    device, threads : Device, int
        Where they are found. The result is the same everywhere.
    note : callable
        Is told of what looks wrong.
    option : str
        The option that names the basis, for messages.
    tissues, proc_mask : path or image, optional
        Five tissues, or how much each voxel counts; without them, each voxel with an FOD counts alike.
    scale_grey : bool
        Whether grey matter lowers fibre densities.

    Raises
    ------
    InputError
        If a file is missing or damaged, or there is no fixel where voxels count.
    ParameterError
        If the basis is not known, or keeps opposite directions apart.
    """
    given, basis = source_and_basis(fod, basis, None, option=option)
    harmonics = load_sh(open_image(given), basis)
    inside = harmonics.values[..., 0] > 0
    scale = None
    if proc_mask is not None:
        mask = given_mask(proc_mask, harmonics.space, note)
    elif tissues is not None:
        mask, scale = tissue_mask(tissues, harmonics.space, inside, device, threads, note)
    else:
        mask = inside.astype(float)
    inside &= mask > 0  # as in MRtrix3, other voxels have no fixels
    functions = along_scanner_axes(harmonics, inside, frame_of(basis), str(given), note)
    lobes = find_lobes(functions, basis, Thresholds(), device, table=True, threads=threads)
    if not len(lobes.integrals):
        raise InputError(f"{given}: has no fixel where voxels count")
    assert lobes.words is not None
    counts = np.zeros(inside.shape, np.int32)
    counts[inside] = lobes.counts
    table = FixelTable(harmonics.space, counts, inside, lobes.words)
    fibres = lobes.integrals.astype(float)
    if scale_grey and scale is not None:
        fibres *= scale.ravel()[table.voxel_of]
    return Fixels(table, fibres, mask, lobes.means)
