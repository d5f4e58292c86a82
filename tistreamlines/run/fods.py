"""``fit_fods``: fibre orientation distributions (FODs) of a diffusion series, as MRtrix3 and DIPY read them."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from ..aliases import GradientTable, Json
from ..devices import CPU
from ..devices.threads import readers_awaited
from ..errors import InputError, ParameterError, listed
from ..fit.fits import Fits, warnings_of_fit
from ..fit.fod_fit import FodFit
from ..fit.fods import csd_fods
from ..fit.frames import along_scanner_axes
from ..fit.model_fits import tissue_options
from ..fit.models import ONE
from ..fit.shells import gradients_only
from ..fit.tissue_fods import tissue_fods
from ..fit.tissues import BASIS, tissue_shells
from ..io.cache import source_hash, with_plugins
from ..io.gradients import drain
from ..io.nifti import Dwi, load_mask, open_dwi
from ..option import file_of, flag, whole
from ..options.parameters import Parameters
from ..options.signatures import check_keywords, list_keywords
from ..space.batch import Space
from ..tracking.registry import FOD_MODELS, METHODS
from .fod_files import FORMATS, NAMES, FodFiles
from .fod_plan import FodPlan, make_fod_plan
from .hashes import doubts_of_places, hashing, inputs_of_tables
from .inputs import Headers, Inputs, read
from .log import Log, Watcher
from .needs import refuse_idle
from .outputs import taken_by
from .record import OURS, inputs_of, versions
from .series import Series, locate, series_of
from .setup import bar_or
from .spec import with_order
from .tables import background_of

if TYPE_CHECKING:
    from ..option import ImageLike, PathLike, PointsLike

OF_CSD = ("response", "fa_response", "csd_lambda")
OF_MSMT = ("response_wm", "response_gm", "response_csf", "normalise")
OPTIONS = ("mask", "shells", "bvecs_frame", *OF_CSD, *OF_MSMT, "threads", "arch")
OWN = {"model": None, "lmax": None, "format": FORMATS[0], "sh_basis": BASIS, "report": None, "force": False}
KEYWORDS = {**dict.fromkeys(OPTIONS), "bvecs_frame": "auto", "fa_response": 0.7, "normalise": True, "arch": CPU, **OWN}
PLACED = ("mask",)  # options that may be arrays
SEVERAL = 3  # shells, b = 0 among them, from which msmt is the default
GETTER = next(name for name, row in METHODS.items() if FOD_MODELS[0] in row.models)  # which takes the same options
HIGHEST = 12  # order of harmonics


class FodOptions(TypedDict, total=False):
    """Options of the fit and of the files."""

    model: str | None
    mask: ImageLike | None
    shells: str | float | Sequence[float] | None
    bvecs_frame: str
    response: str | PathLike | Sequence[float] | None
    fa_response: float
    csd_lambda: str | float | None
    response_wm: PathLike | None
    response_gm: PathLike | None
    response_csf: PathLike | None
    normalise: bool
    lmax: str | int | Sequence[int] | None
    threads: int | None
    arch: str
    format: str
    sh_basis: str
    report: PathLike | None
    force: bool


class FodLog(Log):
    """The log of a run in which the order of the harmonics is --lmax."""

    def note(self, text: str) -> None:
        """Record a choice that was made for the user."""
        super().note(_with_lmax(text))


@dataclass(frozen=True, eq=False)
class FodResult:
    """FODs of a series.

    Parameters
    ----------
    fit : FodFit
        ``coefficients`` of each tissue, by 'wm', 'gm' and 'csf', in the basis tournier07 along the scanner's axes;
        ``responses`` of these, with a row for each of the ``shells``, and ``selections``, the voxels of responses;
        ``mask``, ``failed``, ``residual``, and the ``field`` and ``scale`` of the normalisation.
    space : Space
        Grid of the series.
    record : dict
        Options, inputs and results, as the file fod.json has them.
    folder : Path or None
        The folder in which they were written.

    Examples
    --------
    Amplitudes of FODs along the x axis of the scanner, whose coefficients of white matter are multiplied by harmonics:

    >>> import tistreamlines as ts
    >>> result = ts.fit_fods("dwi.nii.gz", "dwi.bval", "dwi.bvec", lmax=4)
    >>> sorted(result.fit.coefficients), result.fit.coefficients["wm"].shape[:3] == result.space.shape
    (['wm'], True)
    """

    fit: FodFit
    space: Space
    record: Json
    folder: Path | None = None


@list_keywords(KEYWORDS, whole=True)
def fit_fods(
    dwi: ImageLike, bvals: PointsLike | None = None, bvecs: PointsLike | None = None, folder: PathLike | None = None, *,
    gtab: GradientTable | None = None, affine: npt.ArrayLike | None = None, watcher: Watcher | None = None,
    progress: bool = False, **options: Unpack[FodOptions],
) -> FodResult:
    """Fit fibre orientation distributions (FODs) to a diffusion series, and write them for MRtrix3 or DIPY.

    Parameters
    ----------
    dwi, bvals, bvecs : as for :func:`track`
        The diffusion series and its gradients.
    folder : str or Path, optional
        Folder to write, in which ``wmfod.mif`` has the FODs. Without it, nothing is written.
    gtab, affine, watcher, progress : as for :func:`track`
        Gradients and grid of arrays, and messages.
    mask, shells, bvecs_frame, response, fa_response, csd_lambda : as for :func:`track`
        Options of the series and of csd.
    response_wm, response_gm, response_csf, normalise : as for :func:`track`
        Options of msmt. Without responses, they are estimated as by MRtrix3's ``dwi2response dhollander``.
    threads : int, optional
        Number of CPU threads; by default all cores.
    arch : str
        Where voxels are fitted: 'cpu', the default, 'cuda', 'vulkan' and others, or 'auto' for the first of these with
        a GPU. The bits are the same.
    model : str, optional
        'msmt' fits several tissues to all shells, and 'csd' white matter to one of them. By default, it is msmt for
        series of three or more shells, b = 0 among them, and where an option is of msmt, else csd.
    lmax : int, sequence of int or str, optional
        Orders of the harmonics, even: of white matter, or of white matter, grey matter and fluid, such as (8, 0, 0). By
        default 8, for csd at most the order that the directions determine, and 0.
    format : str
        'mif', the default, or 'nii.gz'.
    sh_basis : str
        Basis of the coefficients in the files: 'tournier07', the default, which MRtrix3 reads, is along the scanner's
        axes; 'descoteaux07_legacy' and others, which DIPY reads, are along the voxel axes.
    report : str or Path, optional
        Page to write, .html: responses, their voxels, tissues, the shapes of FODs in a slice, and residuals. It may lie
        in the folder.
    force : bool
        Replace a folder that this function has written, and a report.

    Returns
    -------
    FodResult
        The coefficients, the responses and the residuals.

    Raises
    ------
    ParameterError
        If an option is invalid, or if options cannot be combined.
    InputError
        If an input is missing or damaged, or does not determine the FODs.
    OutputError
        If the folder is not empty, or cannot be written.
    BusyError
        If another run is writing the folder.
    DeviceError
        If the device is unavailable, or lacks the memory.
    TypeError
        If a keyword is not an option of this function.

    See Also
    --------
    track : Track streamlines, through FODs or a series.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> result = ts.fit_fods("dwi.nii.gz", "dwi.bval", "dwi.bvec", "fods", lmax=4)
    >>> result.fit.coefficients["wm"].shape[-1]
    15
    >>> sorted(path.name for path in result.folder.iterdir())
    ['failed.mif', 'fod.json', 'mask.mif', 'residual.mif', 'response_wm.txt', 'voxels.mif', 'wmfod.mif']
    """
    check_keywords("fit_fods", options, KEYWORDS)
    series, notes = series_of({"dwi": dwi, "bvals": bvals, "bvecs": bvecs}, gtab)
    files = _files_of(folder, options)
    with bar_or(watcher, progress=progress) as display, files.reserved(taken_by(series.values())):
        log = FodLog(display)
        log.tell(notes, ())
        inputs, chosen, hashes = _read(series, options, affine, log)
        assert inputs.dwi is not None
        dwi_in_scanner = along_scanner_axes(inputs.dwi)
        fit = _fit(dwi_in_scanner, inputs.mask, chosen, orders_of(options.get("lmax")), log)
        fit = _without_missing(fit, inputs, chosen)
        if failed := int(fit.failed.sum()):
            count = fit.mask.sum()
            log.warn(f"{inputs.dwi.path}: {failed} of {count} voxels have no signal or no fit: their FODs are 0")
        record = _record(fit, inputs, chosen, options, hashes, log)
        record["folder"] = None if files.folder is None else str(files.folder)
        background = None if files.page is None else background_of(inputs.dwi)
        files.write(fit, inputs.space, dwi_in_scanner.gtab, record, background, log.begin)
    return FodResult(fit, inputs.space, record, files.folder)


def plan_fods(
    dwi: ImageLike, bvals: PointsLike | None = None, bvecs: PointsLike | None = None, folder: PathLike | None = None, *,
    gtab: GradientTable | None = None, affine: npt.ArrayLike | None = None, watcher: Watcher | None = None,
    **options: Unpack[FodOptions],
) -> FodPlan:
    """Check all that :func:`fit_fods` needs, and return what it would do; it has the same arguments and errors."""
    check_keywords("plan_fods", options, KEYWORDS)
    series, notes = series_of({"dwi": dwi, "bvals": bvals, "bvecs": bvecs}, gtab)
    files, log = _files_of(folder, options), FodLog(watcher or Watcher())
    files.check(taken_by(series.values()))
    log.tell(notes, ())
    inputs, chosen, _ = _read(series, options, affine, log)
    assert inputs.dwi is not None
    log.begin("prepare")
    mask = Fits(inputs.dwi, inputs.mask, chosen.threads, note=log.note, warn=log.warn).mask
    with _named_in_errors(inputs.dwi.path):
        plan = make_fod_plan(inputs.dwi, mask, chosen, orders_of(options.get("lmax")), files)
    return replace(plan, seconds=log.durations()["total"])


def _files_of(folder: PathLike | None, options: FodOptions) -> FodFiles:
    """Return the files that the options ask for."""
    target, page = (None if path is None else Path(path) for path in (folder, options.get("report")))
    suffix, basis = options.get("format", FORMATS[0]), options.get("sh_basis", BASIS)
    return FodFiles(target, page, suffix, basis, force=bool(options.get("force", False)))


# ------------------------------------------------------------------------------------------------------------- reading
@readers_awaited()
def _read(
    series: Series, options: FodOptions, affine: npt.ArrayLike | None, log: Log
) -> tuple[Inputs, Parameters, Json]:
    """Read the series and the mask; return them, the options with the model and its order, and the files' hashes."""
    series = {name: path if name == "dwi" else drain(path) for name, path in series.items()}
    shared = {name: value for name in OPTIONS if (value := options.get(name)) is not None}
    placed = {name: shared[name] for name in PLACED if name in shared}
    series, located = locate(series, Parameters.given(placed), affine)
    opened = open_dwi(series["dwi"], series.get("bvals"), series.get("bvecs"), note=log.note)
    gtab = opened.gradients.result()
    orders = orders_of(options.get("lmax"))
    model = {"dg": GETTER, "model": _model_of(options, gtab, opened.path), "sh_order": (*orders, None)[0]}
    if model["model"] == "csd":
        model["csd_shells"] = ONE
    if len(orders) > 1 and model["model"] == "csd":
        raise ParameterError(f"--lmax has {len(orders)} orders, and --model csd one tissue: give one, e.g. {orders[0]}")
    chosen = Parameters.given({**shared, "mask": located.mask, **model})
    refuse_idle(series, chosen)
    hashes = hashing(sources := {**series, **inputs_of_tables(chosen)})
    log.tell([], doubts_of_places(sources))
    inputs = read(Headers(opened, None), series, chosen, log)
    assert inputs.dwi is not None
    ordered = with_order(chosen, inputs.dwi.gtab, log.note, str(inputs.dwi.path))
    return inputs, ordered, inputs_of(sources, hashes())


def _model_of(options: FodOptions, gtab: GradientTable, path: Path) -> str:
    """Return the model that the caller names, or the one that other options or the shells of the series choose."""
    if (asked := options.get("model")) is not None:
        if asked not in FOD_MODELS:
            raise ParameterError(f"--model is {asked!r}: give {listed(FOD_MODELS)}")
        return asked
    for model, names in (("csd", OF_CSD), ("msmt", OF_MSMT)):
        if any(options.get(name) is not None for name in names):
            return model
    if (bvals := options.get("shells")) is not None:
        gtab = gradients_only(gtab, bvals, path)[0]
    return "msmt" if len(tissue_shells(gtab)) >= SEVERAL else "csd"


def orders_of(value: str | int | Sequence[int] | None) -> tuple[int, ...]:
    """Return the orders of harmonics that --lmax gives, one for each tissue; none if it is not given.

    Raises
    ------
    ParameterError
        If a value is no even number from 0 to 12.
    """
    if value is None:
        return ()
    words = value.split(",") if isinstance(value, str) else value if isinstance(value, Sequence) else [value]
    numbers = [whole(word) if isinstance(word, str) else word for word in words]
    orders = tuple(int(n) for n in numbers if isinstance(n, Integral) and not n % 2 and 0 <= n <= HIGHEST)
    if not 1 <= len(orders) == len(numbers) <= len(NAMES) or not orders[0]:
        raise ParameterError(
            f"--lmax is {value!r}: give an even order from 2 to {HIGHEST}, e.g. 8, or one for each tissue, e.g. 8,0,0"
        )
    return orders


# ------------------------------------------------------------------------------------------------------------- the fit
def _fit(
    dwi: Dwi, mask: npt.NDArray[np.bool_] | None, chosen: Parameters, orders: tuple[int, ...], log: Log
) -> FodFit:
    """Fit the model to a series."""
    log.begin("prepare")
    fits = Fits(dwi, mask, chosen.threads, note=log.note, progress=log.watcher.fitted)
    inside, stages = fits.mask, [""]

    def tell(stage: str, share: float) -> None:
        if stage != stages[-1]:
            stages.append(stage)
            log.begin(stage)
        log.watcher.fitted(share)

    arch = chosen.arch if chosen.gives("arch") else CPU
    with _named_in_errors(dwi.path), warnings_of_fit() as texts:
        if chosen.model == "csd":
            log.begin("fit")
            fit = csd_fods(dwi, inside, chosen, chosen.threads, log.watcher.fitted, arch)
        else:
            fit = tissue_fods(dwi, inside, tissue_options(chosen, orders), chosen.threads, tell, arch)
    for text in texts:
        log.note(f"{dwi.path}: {text}")
    return fit


@contextmanager
def _named_in_errors(path: Path) -> Generator[None, None, None]:
    """Name the series in an InputError of the block."""
    try:
        yield
    except InputError as error:
        raise InputError(_with_lmax(f"{path}: {error.on_command_line}")) from error


def _with_lmax(text: str) -> str:
    """Return a message about the order of harmonics with the name that this option has here."""
    return text.replace(flag("sh_order"), flag("lmax"))


def _without_missing(fit: FodFit, inputs: Inputs, chosen: Parameters) -> FodFit:
    """Count the voxels of the mask with NaN, which reading has left out of it, as voxels without a fit."""
    assert inputs.dwi is not None
    if inputs.dwi.missing is None or chosen.mask is None:
        return fit
    lost = inputs.dwi.missing & load_mask(file_of(chosen.mask), inputs.space)
    return replace(fit, mask=fit.mask | lost, failed=fit.failed | lost)


def _record(
    fit: FodFit, inputs: Inputs, chosen: Parameters, options: FodOptions, sources: Json, log: Log
) -> Json:
    """Return the record of the run; ``parameters`` has the model and the options of the caller."""
    values = chosen.as_dict()
    lmax = ",".join(map(str, orders_of(options.get("lmax")))) or None
    parameters: Json = {name: str(values[name]) for name in OPTIONS if options.get(name) is not None}
    files = {"format": options.get("format"), "sh_basis": options.get("sh_basis"), "report": options.get("report")}
    parameters |= {name: str(value) for name, value in files.items() if value}
    parameters |= {"model": chosen.model, "lmax": lmax, "force": bool(options.get("force"))}
    return {
        "made_by": OURS, "versions": versions(), "source": with_plugins(source_hash()), "inputs": sources,
        "parameters": parameters,
        "frames": inputs.frames, "shells": inputs.b_values, "chosen": fit.chosen,
        "result": {
            "voxels": int(fit.mask.sum()), "failed": int(fit.failed.sum()), "response_shells": fit.shells,
            "responses": fit.responses, "selected": {name: int(part.sum()) for name, part in fit.selections.items()},
            "lognorm_scale": fit.scale, "seconds": log.durations(),
        },
        "notes": log.notes, "warnings": log.warnings,
    }
