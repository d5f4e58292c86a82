"""The folder of FODs: images as MRtrix3 and DIPY read them, responses, masks and the record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Json
from ..errors import InputError
from ..fit.fod_fit import FodFit
from ..fit.frames import axes_are_scanners
from ..fit.tissues import BASIS, RED_GREEN_BLUE
from ..io.maps import map_content
from ..io.response import response_file
from ..io.sidecar import write_record
from ..option import listed
from ..report.content import SUFFIXES
from ..space.batch import Space
from ..space.harmonics import frame_of, from_descoteaux, to_descoteaux, turn_coefficients
from .outputs import record_at

FORMATS = ("mif", "nii.gz")
NAMES = {"wm": "wmfod", "gm": "gm", "csf": "csf"}  # of the coefficients of each tissue
SHARES = "tissues"  # of the tissues
OTHERS = ("voxels", SHARES, "mask", "failed", "residual", "field")
RECORD = "fod.json"


def response_name(tissue: str) -> str:
    """Return the name of the file of a response."""
    return f"response_{tissue}.txt"


def names_in(folder: Path) -> frozenset[str]:
    """Return the names of all files that a folder of FODs may have, and of the reports that its record says it has."""
    images = {f"{name}.{suffix}" for name in (*NAMES.values(), *OTHERS) for suffix in FORMATS}
    written = (record_at(folder / RECORD) or {}).get("files")
    names = [name for name in written if isinstance(name, str)] if isinstance(written, list) else []
    pages = {name for name in names if Path(name).suffix.lower() in SUFFIXES}
    return frozenset({RECORD, *map(response_name, NAMES)} | images | pages)


def shares_in(folder: Path) -> Path:
    """Return the image of the shares of tissues in a folder of FODs, whose volumes are CSF, grey and white matter."""
    path = next((path for suffix in FORMATS if (path := folder / f"{SHARES}.{suffix}").is_file()), None)
    if path is None:
        names = listed(f"{SHARES}.{suffix}" for suffix in FORMATS)
        raise InputError(f"{folder}: has no {names}: give a folder that tistreamlines fod --model msmt has written")
    return path


@dataclass(frozen=True)
class FodFiles:
    """The files of a fit.

    Parameters
    ----------
    format : str
        One of FORMATS.
    basis : str
        Basis of the harmonics: along the scanner's axes in tournier07, as MRtrix3 reads them, and along the voxel axes
        in a basis of DIPY.
    """

    format: str
    basis: str

    def write(self, folder: Path, fit: FodFit, space: Space, gtab: GradientTable, record: Json) -> None:
        """Write all files of a fit, whose directions and gradients are along the scanner's axes."""
        keys = header_keys(fit, gtab)
        for name, values in self.images(fit, space):
            of_harmonics = keys if name in NAMES.values() else {}
            content = map_content(f".{self.format.rpartition('.')[2]}", values, space, keys=of_harmonics)
            (folder / f"{name}.{self.format}").write_bytes(content)
        for tissue, rows in fit.responses.items():
            (folder / response_name(tissue)).write_text(response_file(rows, fit.shells), encoding="utf-8")
        names = sorted(path.name for path in folder.iterdir())
        write_record(folder / RECORD, record | {"files": names})

    def images(self, fit: FodFit, space: Space) -> Iterator[tuple[str, Array]]:
        """Yield the name and the values of each image."""
        for tissue, values in fit.coefficients.items():
            yield NAMES[tissue], self.converted(values, space)
        if fit.selections:
            yield "voxels", stacked(fit.selections, fit.mask, np.uint8)
        if len(fit.coefficients) > 1:
            yield SHARES, stacked(fit.shares(), fit.mask, np.float32)
        yield "mask", fit.mask.astype(np.uint8)
        yield "failed", fit.failed.astype(np.uint8)
        yield "residual", fit.residual
        if fit.field is not None:
            yield "field", fit.field

    def converted(self, coefficients: npt.NDArray[np.float32], space: Space) -> npt.NDArray[np.float32]:
        """Return coefficients along the scanner's axes in the basis of the files, along the axes that go with it."""
        if self.basis == BASIS or coefficients.shape[-1] == 1:
            return coefficients
        if frame_of(self.basis) == "voxel" and not axes_are_scanners(space):
            coefficients = turn_coefficients(coefficients, space.axes, BASIS)
        return from_descoteaux(to_descoteaux(coefficients, BASIS), self.basis).astype(np.float32)


def header_keys(fit: FodFit, gtab: GradientTable) -> dict[str, str]:
    """Return what MRtrix3's programs say of FODs in a .mif: gradients that the series had, shells, normalisation."""
    rows = np.column_stack([gtab.bvecs, gtab.bvals])
    keys = {
        "prior_dw_scheme": "\n".join(",".join(f"{number:.10g}" for number in row) for row in rows),
        "shells": ",".join(f"{shell:.0f}" for shell in fit.shells),
    }
    return keys if fit.scale is None else {"lognorm_scale": f"{fit.scale:.17g}"} | keys


def stacked(of_tissues: Mapping[str, Array], mask: Array, kind: type) -> Array:
    """Return maps of tissues as volumes, in the order of red, green and blue; those of other tissues are 0."""
    volumes = [of_tissues.get(name, np.zeros(mask.shape, kind)) for name in RED_GREEN_BLUE]
    return np.stack(volumes, axis=-1).astype(kind)
