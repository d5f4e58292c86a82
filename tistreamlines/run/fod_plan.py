"""The plan of a fit of FODs, which ``fod --dry-run`` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import GradientTable
from ..fit.csd import DIPYS_WEIGHT, System
from ..fit.model_fits import known_response, tissue_options
from ..fit.shells import Volumes, b_value, gradients_on_shell, shell_of_models
from ..fit.tissue_fods import planned_orders
from ..fit.tissues import tissue_shells
from ..io.nifti import Dwi
from ..io.response import FA, TOURNIER, WAYS, response_text
from ..options.parameters import Parameters
from ..space.batch import Space
from ..space.harmonics import count_of
from .fod_files import FodFiles

DHOLLANDER = "estimated as by MRtrix3's dwi2response dhollander"
TOURNIERS = "estimated as by MRtrix3's dwi2response tournier"


@dataclass(frozen=True)
class FodPlan:
    """The plan of a fit of FODs.

    Parameters
    ----------
    model : of the fit.
    orders : of the harmonics of each tissue.
    shells : b-value and number of volumes of each shell that is fitted, b = 0 included.
    voxels : in the mask.
    space : grid of the series.
    responses : where they come from.
    normalised : whether the tissues are divided by a field.
    folder : which would be written, if any.
    files : in the folder.
    page : elsewhere, if any.
    seconds : which reading, the mask and all checks took.
    """

    model: str
    orders: Mapping[str, int]
    shells: Mapping[float, int]
    voxels: int
    space: Space
    responses: str
    normalised: bool
    folder: Path | None
    files: tuple[str, ...]
    page: Path | None
    seconds: float = 0.0

    def table(self) -> dict[str, str]:
        """Return the plan as text, with a name for each line."""
        orders = (f"{name} of order {n} ({count_of(n)})" for name, n in self.orders.items())
        lengths = self.space.shape, self.space.voxel_sizes
        grid, sides = (" x ".join(f"{length:.4g}" for length in row) for row in lengths)
        return {
            "model": self.model + (", normalised" if self.normalised else ""),
            "tissues (coefficients)": ", ".join(orders),
            "shells (volumes)": ", ".join(f"b = {b:.0f} ({count})" for b, count in self.shells.items()),
            "image": f"{grid} voxels of {sides} mm",
            "voxels of the mask": f"{self.voxels:,}",
            "responses": self.responses,
            "folder": "that of --output" if self.folder is None else str(self.folder),
            "files": ", ".join(self.files) + ("" if self.page is None else f", and {self.page}"),
            "reading and checking": f"{self.seconds:.3g} s",
        }


def make_fod_plan(
    dwi: Dwi, mask: npt.NDArray[np.bool_], chosen: Parameters, orders: tuple[int, ...], files: FodFiles
) -> FodPlan:
    """Return the plan of a fit; check responses and gradients.

    Parameters
    ----------
    dwi : Dwi
        The series.
    mask : (x, y, z) bool
        Voxels to fit.
    chosen : Parameters
        All options, with the model and its order.
    orders : tuple of int
        Those of the tissues that the user gave.
    files : FodFiles
        The files that would be written.

    Raises
    ------
    InputError
        If responses and gradients do not match, or do not determine the FODs.
    """
    if chosen.model == "csd":
        gtab = gradients_on_shell(dwi.gtab, shell_of_models)[0]
        weighted = ~np.asarray(gtab.b0s_mask)
        of_tissues, shells = {"wm": _order_of_csd(gtab, chosen)}, [~weighted, weighted]
        selected, normalised, responses = response_text(chosen.response) in WAYS, False, _response_of_csd(chosen)
    else:
        options, gtab = tissue_options(chosen, orders), dwi.gtab
        of_tissues, shells = planned_orders(dwi, mask, options), tissue_shells(gtab)
        selected, normalised = not options.files, options.normalise
        responses = ", ".join(str(file) for file in options.files.values()) or DHOLLANDER
    names = tuple(files.names(of_tissues, selected=selected, normalised=normalised))
    return FodPlan(
        chosen.model, of_tissues, _volumes(gtab, shells), int(mask.sum()), dwi.space, responses, normalised,
        files.folder, names, None if files.inside else files.page,
    )


def _order_of_csd(gtab: GradientTable, chosen: Parameters) -> int:
    """Return the order of csd; check a response that is known."""
    source, order = response_text(chosen.response), chosen.sh_order
    if source not in WAYS:
        System.of(gtab, known_response(source, gtab, order).response, order, DIPYS_WEIGHT)
    return order


def _response_of_csd(chosen: Parameters) -> str:
    """Say where csd's response comes from."""
    source, by_fa = response_text(chosen.response), f"estimated from voxels with an FA above {chosen.fa_response:g}"
    if source not in WAYS:
        return source
    return {FA: by_fa, TOURNIER: TOURNIERS}.get(source, f"{by_fa}; where these are few, {TOURNIERS}")


def _volumes(gtab: GradientTable, shells: list[Volumes]) -> dict[float, int]:
    """Return the number of volumes of each shell by its b-value."""
    return {b_value(gtab, shell): int(shell.sum()) for shell in shells if shell.any()}
