"""The folder of FODs: images as MRtrix3 and DIPY read them, responses, masks and the record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array, GradientTable, Json
from ..errors import BusyError, InputError, OutputError, ParameterError, listed
from ..fit.fod_fit import FodFit
from ..fit.frames import axes_are_scanners
from ..fit.tissues import BASIS, RED_GREEN_BLUE
from ..io import drafts
from ..io.maps import map_content
from ..io.response import response_file
from ..io.sidecar import write_record
from ..report.content import SUFFIXES
from ..report.fods import write_fod_report
from ..space.batch import Space
from ..space.harmonics import BASES, frame_of, from_descoteaux, to_descoteaux, turn_coefficients
from .outputs import check_name, record_at

FORMATS = ("mif", "nii.gz")
NAMES = {"wm": "wmfod", "gm": "gm", "csf": "csf"}  # of the coefficients of each tissue
SHARES = "tissues"  # of the tissues
OTHERS = ("voxels", SHARES, "mask", "failed", "residual", "field")
RECORD = "fod.json"
SYMMETRIC = (BASIS, *(name for name, basis in BASES.items() if not basis.full and name != BASIS))


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
    folder : Path or None
        Folder to write, if any.
    page : Path or None
        Report to write, if any: in the folder or elsewhere.
    format : str
        One of FORMATS.
    basis : str
        Basis of the harmonics: along the scanner's axes in tournier07, as MRtrix3 reads them, and along the voxel axes
        in a basis of DIPY.
    force : bool
        Whether files of an earlier run are replaced.
    """

    folder: Path | None
    page: Path | None
    format: str = FORMATS[0]
    basis: str = BASIS
    force: bool = False

    def __post_init__(self) -> None:
        """Check format, basis and the name of the page."""
        if self.format not in FORMATS:
            raise ParameterError(f"--format is {self.format!r}: give {listed(FORMATS)}")
        if self.basis not in SYMMETRIC:
            raise ParameterError(f"--sh-basis is {self.basis!r}: give {listed(SYMMETRIC)}")
        if self.basis != BASIS and self.format == FORMATS[0]:
            raise ParameterError(
                f"--sh-basis {self.basis} needs --format nii.gz, since programs take a .mif to be in {BASIS}"
            )
        page = self.page
        if page is not None and page.suffix.lower() not in SUFFIXES:
            raise OutputError(f"{page}: unknown suffix {page.suffix!r}; end the name with {', '.join(SUFFIXES)}")

    @property
    def inside(self) -> bool:
        """Whether the page lies in the folder."""
        if self.folder is None or self.page is None:
            return False
        return drafts.real_path(self.page).parent == drafts.real_path(self.folder)

    def names(self, tissues: Collection[str], *, selected: bool, normalised: bool) -> list[str]:
        """Return the names of the files in the folder.

        Parameters
        ----------
        tissues : of the fit.
        selected : whether voxels were selected for a response.
        normalised : whether the tissues were divided by a field.
        """
        absent = {"voxels": not selected, SHARES: len(tissues) < 2, "field": not normalised}
        images = [*(NAMES[tissue] for tissue in tissues), *(name for name in OTHERS if not absent.get(name, False))]
        pages = [self.page.name] if self.page is not None and self.inside else []
        texts = [*map(response_name, tissues), RECORD]
        return sorted([*(f"{name}.{self.format}" for name in images), *texts, *pages])

    def check(self, taken: Mapping[Path, str]) -> None:
        """Raise an OutputError if a file cannot be written; ``taken`` describes those that are not replaced."""
        folder, page = self.folder, self.page
        if folder is not None:
            check_name(folder, taken)
            drafts.check_folder_target(folder, names_in(folder), force=self.force)
        if page is None:
            return
        check_name(page, taken)
        if folder is not None and not self.inside and drafts.real_path(folder) in drafts.real_path(page).parents:
            raise OutputError(f"{page}: {folder} gets no folders within; give {folder / page.name}")
        if not self.inside:
            drafts.check_target(page, force=self.force)

    @contextmanager
    def reserved(self, taken: Mapping[Path, str]) -> Generator[None, None, None]:
        """Check the files, and keep other runs from writing the folder until the end of the block."""
        self.check(taken)
        with ExitStack() as held:
            if (folder := self.folder) is not None:
                with drafts.explained(folder):
                    try:
                        held.enter_context(drafts.reserved(drafts.real_path(folder)))
                    except BlockingIOError:
                        text = f"{folder}: another run is writing it; wait for its end, or give another name"
                        raise BusyError(text) from None
            yield

    def write(
        self, fit: FodFit, space: Space, gtab: GradientTable, record: Json, background: npt.NDArray[np.uint8] | None,
        begin: Callable[[str], object],
    ) -> None:
        """Write all files of a fit, whose directions and gradients are along the scanner's axes.

        Parameters
        ----------
        fit : FodFit
        space : Space
            Grid of the series.
        gtab : GradientTable
            Gradients of the series.
        record : dict
            Of the run.
        background : (x, y, z) uint8 or None
            The mean b0, for the page.
        begin : callable
            Receives the stages.
        """

        def report(page: Path) -> None:
            begin("report")
            write_fod_report(page, record, fit, space, background, force=self.force)

        if self.folder is not None:
            begin("write")
            with drafts.completed_folder(self.folder, names_in(self.folder), force=self.force) as draft:
                if self.page is not None and self.inside:
                    report(draft / self.page.name)
                self._fill(draft, fit, space, gtab, record)
                begin("place")
        if self.page is not None and not self.inside:
            report(self.page)

    def _fill(self, folder: Path, fit: FodFit, space: Space, gtab: GradientTable, record: Json) -> None:
        """Write images, responses and the record."""
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
