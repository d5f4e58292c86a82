"""The registry of orientation models: each row has the defaults and references of one, and their options.

:mod:`.model_fits` has the fits, which import more.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..aliases import GradientTable, Json
from ..errors import ParameterError
from ..io.response import AUTO, FA, FEWEST_FIBRES
from ..option import MODEL, PathLike, TableLike, flag, option
from ..space.harmonics import highest_order
from .csd_system import DIPYS_WEIGHT
from .linear import LINEAR
from .shells import HIGHEST, Volumes, shell_of_models, shells_of_csd, volumes_of_csd
from .tissues import TISSUES, tissues_of

BASIS = "descoteaux07_legacy"  # basis of the coefficients of all models
ALL, ONE = "all", "highest"  # shells that csd is fitted to
DIPYS_SMOOTHING = 0.006  # its smooth
ORDER_OF_SHELLS = 10  # of csd of several shells, where the directions of all of them determine it
Mask = npt.NDArray[np.bool_]
Progress = Callable[[float], object]


class Fitted(NamedTuple):
    """The fit of a model.

    Attributes
    ----------
    coefficients : (x, y, z, m) float32
        In ``BASIS``, 0 outside the mask.
    chosen : dict
        Values that were chosen from the data, for the record.
    shares : mapping of str to (x, y, z) float32
        Share of each tissue in a voxel; none of a model without tissues.
    """

    coefficients: npt.NDArray[np.float32]
    chosen: Json
    shares: Mapping[str, npt.NDArray[np.float32]] = MappingProxyType({})


REFERENCES = {
    "Tristán-Vega 2009": "Tristán-Vega A, Westin CF, Aja-Fernández S. Estimation of fiber orientation probability "
    "density functions in high angular resolution diffusion imaging. NeuroImage 47, 2009. "
    "doi:10.1016/j.neuroimage.2009.04.049",
    "Tristán-Vega 2010": "Tristán-Vega A, Westin CF, Aja-Fernández S. A new methodology for the estimation of fiber "
    "populations in the white matter of the brain with the Funk-Radon transform. NeuroImage 49, 2010. "
    "doi:10.1016/j.neuroimage.2009.09.070",
    "Aganj 2010": "Aganj I, Lenglet C, Sapiro G, Yacoub E, Ugurbil K, Harel N. Reconstruction of the orientation "
    "distribution function in single- and multiple-shell q-ball imaging within constant solid angle. Magn Reson Med "
    "64, 2010. doi:10.1002/mrm.22365",
    "Tournier 2004": "Tournier JD, Calamante F, Gadian DG, Connelly A. Direct estimation of the fiber orientation "
    "density function from diffusion-weighted MRI data using spherical deconvolution. NeuroImage 23, 2004. "
    "doi:10.1016/j.neuroimage.2004.07.037",
    "Tournier 2007": "Tournier JD, Calamante F, Connelly A. Robust determination of the fibre orientation distribution "
    "in diffusion MRI: non-negativity constrained super-resolved spherical deconvolution. NeuroImage 35, 2007. "
    "doi:10.1016/j.neuroimage.2007.02.016",
    "Jeurissen 2014": "Jeurissen B, Tournier JD, Dhollander T, Connelly A, Sijbers J. Multi-tissue constrained "
    "spherical deconvolution for improved analysis of multi-shell diffusion MRI data. NeuroImage 103, 2014. "
    "doi:10.1016/j.neuroimage.2014.07.061",
    "Dhollander 2016": "Dhollander T, Raffelt D, Connelly A. Unsupervised 3-tissue response function estimation from "
    "single-shell or multi-shell diffusion MR data without a co-registered T1 image. ISMRM Workshop on Breaking the "
    "Barriers of Diffusion MRI, 2016.",
    "Dhollander 2019": "Dhollander T, Mito R, Raffelt D, Connelly A. Improved white matter response function "
    "estimation for 3-tissue constrained spherical deconvolution. Proc ISMRM 27, 2019.",
    "Dhollander 2021": "Dhollander T, Tabbara R, Rosnarho-Tornstrand J, Tournier JD, Raffelt D, Connelly A. "
    "Multi-tissue log-domain intensity and inhomogeneity normalisation for quantitative apparent fibre density. Proc "
    "ISMRM 29, 2021.",
    "Tournier 2013": "Tournier JD, Calamante F, Connelly A. Determination of the appropriate b value and number of "
    "gradient directions for high-angular-resolution diffusion-weighted imaging. NMR Biomed 26, 2013. "
    "doi:10.1002/nbm.3017",
}


@dataclass(frozen=True)
class Model:
    """An orientation model.

    Attributes
    ----------
    title : str
        Full name.
    defaults : dict
        Defaults of the options whose default depends on the model.
    references : tuple of str
        Keys of REFERENCES.
    order : int
        Default order of the harmonics for series with enough directions.
    dipys : dict
        DIPY's defaults, where they differ.
    example : str
        Arguments of its object in the example of the object's docstring.
    all_shells : bool
        Whether it is fitted to all shells.
    tissues : callable or None
        Returns the tissues whose shares its fit has, from the options and the gradients of the series; None if it has
        no tissues.
    """

    title: str
    defaults: Mapping[str, object]
    references: tuple[str, ...]
    order: int
    dipys: Mapping[str, object]
    example: str = ""
    all_shells: bool = False
    tissues: Callable[[FitOptions, GradientTable], Sequence[str]] | None = None


def response_files(options: FitOptions) -> dict[str, PathLike]:
    """Return the files of the tissues' responses, by the name of the tissue."""
    return {name: file for name in TISSUES if (file := getattr(options, f"response_{name}")) is not None}


def weight_of(text: str | float) -> float | None:
    """Return the weight that ``csd_lambda`` names, None for the one that the data have.

    Raises
    ------
    ParameterError
        If it is neither 'auto' nor a number above 0.
    """
    if text == AUTO:
        return None
    try:
        weight = float(text)
    except (TypeError, ValueError):
        weight = math.nan
    if not 0 < weight < math.inf:
        raise ParameterError(f"{flag('csd_lambda')} is {text!r}: give {AUTO}, or a number above 0, e.g. 0.1")
    return weight


MODELS = {
    "opdt": Model(
        "orientation probability density transform", {"sm_lambda": DIPYS_SMOOTHING},
        ("Tristán-Vega 2009", "Tristán-Vega 2010"), 4, {"sh_order": 4}, "sh_order=4",
    ),
    "csa": Model(
        "constant solid angle ODF", {"sm_lambda": 0.003}, ("Aganj 2010",), 6,
        {"sm_lambda": DIPYS_SMOOTHING, "sh_order": 4}, "sh_order=8",
    ),
    "csd": Model(
        "constrained spherical deconvolution", {"response": AUTO, "csd_lambda": AUTO, "csd_shells": ALL},
        ("Tournier 2004", "Tournier 2007", "Tournier 2013"), 8,
        {"response": FA, "csd_lambda": DIPYS_WEIGHT, "csd_shells": ONE, "sh_order": 8}, 'response="tournier"',
    ),
    "msmt": Model(
        "CSD of several tissues", {},
        ("Tournier 2004", "Jeurissen 2014", "Dhollander 2016", "Dhollander 2019", "Dhollander 2021"), 8, {},
        'response_wm="wm.txt"', all_shells=True,
        tissues=lambda options, gtab: tissues_of(response_files(options), gtab),
    ),
}


def import_model(model: str | None) -> None:
    """Import what the fit of a model needs, which takes a tenth of a second or more."""
    if model in LINEAR:
        import dipy.reconst.shm  # noqa: F401
    elif model == "msmt":
        import scipy.linalg
        import scipy.optimize  # noqa: F401


def begin_compiling(model: str | None) -> None:
    """Begin to compile what fits of FA and a model need on the CPU: a first run would wait for it after reading."""
    from . import csd_batches, iterations, linear, tensor

    tensor.begin_compiling()
    if model == "csd":
        csd_batches.begin_compiling()
    elif model == "msmt":
        iterations.begin_compiling()  # unless files have the responses, which is not known here
    elif model in LINEAR:
        linear.begin_compiling(model)


def order_for(model: str, directions: int, most: int | None = None) -> int:
    """Return the default order of a model's harmonics, up to ``most``, whose coefficients the directions determine."""
    return min(MODELS[model].order if most is None else most, highest_order(directions))


def volumes_of(options: FitOptions) -> Callable[[GradientTable], Volumes]:
    """Return the function that chooses the weighted volumes (n,) to which the model is fitted."""
    if MODELS[options.model].all_shells:
        return lambda gtab: ~np.asarray(gtab.b0s_mask)
    return volumes_of_csd if options.csd_shells == ALL and options.model == "csd" else shell_of_models


def order_of_series(options: FitOptions, gtab: GradientTable, residuals: int = 0) -> tuple[int, int, int]:
    """Return the default order of a model's harmonics, its highest one, and the number of directions.

    So many ``residuals`` more directions than coefficients are needed. The mean of each inner shell of csd is one.
    """
    most, directions = MODELS[options.model].order, int(volumes_of(options)(gtab).sum())
    if MODELS[options.model].all_shells:
        return most, most, directions  # directions do not limit it: see tissues.doubts
    inner = len(shells_of_csd(gtab)) - 1 if options.model == "csd" and options.csd_shells == ALL else 0
    most = ORDER_OF_SHELLS if inner else most
    return order_for(options.model, directions - residuals - inner, most), most, directions


_FITS_ELSEWHERE = "fit it there, and give its orientation functions as --sh FILE"
MODELS_ELSEWHERE = {  # of DIPY, MRtrix3 and FSL
    **dict.fromkeys(
        ("dti", "tensor", "fwdti", "dki"),
        "no tensor is tracked: give csd, csa or opdt; FA, at which streamlines end by default, needs no option",
    ),
    **dict.fromkeys(("msmtcsd", "mcsd"), "give msmt"),
    "ss3t": f"MRtrix3Tissue has it: {_FITS_ELSEWHERE}",
    **dict.fromkeys(("sfm", "forecast", "gqi", "shore", "mapmri", "rumba"), f"DIPY has it: {_FITS_ELSEWHERE}"),
    **dict.fromkeys(("qball", "csaodf"), "give csa"),
    **dict.fromkeys(("csdeconv", "ssst", "ssstcsd", "fod", "fodf"), "give csd"),
    **dict.fromkeys(("bedpostx", "ballandsticks", "ballandstick"), "give bedpostX's folder as --bedpostx FOLDER"),
}


@dataclass(frozen=True, repr=False, eq=False)
class FitOptions:
    """Options of the orientation models, a part of :class:`tistreamlines.Parameters`."""

    model: str = option(
        None, MODEL, "Orientation model: "
        + "; ".join(f"{name}, {model.title}" for name, model in MODELS.items()) + ".", choices=MODELS.keys(),
        foreign=MODELS_ELSEWHERE, common=True,
    )
    sh_order: int = option(
        None, MODEL, "Order of the spherical harmonics of the model, even.", unit="order", low=2, high=12,
        only={"model": MODELS.keys()},
        absent=", ".join(f"{row.order} for {name}" for name, row in MODELS.items() if not row.all_shells)
        + f", or the highest that the directions determine; {MODELS['msmt'].order} for msmt",
    )
    sm_lambda: float = option(
        None, MODEL, "Weight of the Laplace-Beltrami regularisation of the fit.", unit="weight", low=0,
        only={"model": LINEAR},
    )
    min_signal: float = option(
        1.0, MODEL, "Signals below this value are raised to it.", unit="signal", low=0, above=True,
        only={"model": LINEAR},
    )
    response: str | PathLike | Sequence[float] = option(
        None, MODEL, "The signal of a single fibre, csd's response. With fa, it is estimated from voxels of high FA, "
        "as DIPY does; with tournier, from the voxels most like a single fibre after deconvolution, as MRtrix3's "
        "dwi2response tournier does; with auto, as with fa, or as with tournier where fewer than "
        f"{FEWEST_FIBRES} voxels have a high FA. FILE is MRtrix3's text of zonal harmonics, or has DIPY's numbers: "
        "three eigenvalues in mm2/s and the b0 signal. The numbers themselves can also be given, with commas.",
        unit="auto|fa|tournier|FILE|numbers",
        only={"model": ("csd",)},
    )
    fa_response: float = option(
        0.7, MODEL, "FA above which a voxel counts as a single fibre with --response auto or fa.", unit="FA", low=0,
        high=1, only={"model": ("csd",)},
    )
    response_wm: TableLike | None = option(
        None, MODEL, "Response of white matter with msmt, MRtrix3's text of zonal harmonics: a row for each shell, "
        "b = 0 first.", unit="FILE", absent="estimated from the series, as by MRtrix3's dwi2response dhollander",
        only={"model": ("msmt",)},
    )
    response_gm: TableLike | None = option(
        None, MODEL, "Response of grey matter with msmt. Without it, --response-wm and --response-csf are of two "
        "tissues.", unit="FILE", absent="estimated with that of white matter", requires=("response_wm",),
        only={"model": ("msmt",)},
    )
    response_csf: TableLike | None = option(
        None, MODEL, "Response of cerebrospinal fluid with msmt.", unit="FILE",
        absent="estimated with that of white matter", requires=("response_wm",), only={"model": ("msmt",)},
    )
    normalise: bool = option(
        True, MODEL, "Divide the tissues of msmt by a smooth field that makes their sum the same everywhere, as "
        "MRtrix3's mtnormalise does. Amplitudes of FODs can then be compared between voxels and subjects.",
        off="no-normalise", only={"model": ("msmt",)},
    )
    csd_shells: str = option(
        None, MODEL, "Shells that csd is fitted to. With all, those of lower b-values add what they know of the "
        "directions to the highest one up to "
        f"{HIGHEST:g} s/mm2; with highest, it is fitted to that one alone, which --response FILE needs.",
        choices=(ALL, ONE), only={"model": ("csd",)},
    )
    csd_lambda: str | float = option(
        None, MODEL, "Weight of csd's constraint that fibre orientation distributions are not negative; "
        "a low one keeps fibres apart that cross at small angles, a high one smooths noise. With auto, it is chosen "
        "from the data; DIPY's is 1.", unit="auto|weight", only={"model": ("csd",)},
    )
