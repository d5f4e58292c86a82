"""Ways to track data whose bundles are known: this package, DIPY and MRtrix3, with the defaults of each.

Each way has a folder with the files of :func:`.known.write_series`, in which fits are kept for the next way.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tistreamlines.fit.models import BASIS
from tistreamlines.fit.shells import HIGHEST
from tistreamlines.options.parameters import Parameters
from tistreamlines.run.api import track
from tistreamlines.space.encoding import B0_THRESHOLD
from tistreamlines.tracking.registry import METHODS

from .known import Known, axes_of
from .peaks import Functions
from .scores import Lines

RANDOM_SEED = 1_000_003  # a large one: see docs/drop-in-dipy.md
GRADIENTS = ("-fslgrad", "dwi.bvec", "dwi.bval")
TISSUES = ("wm", "gm", "csf")


@dataclass(frozen=True, eq=False)
class Way:
    """A way to track.

    Attributes
    ----------
    track : from the data, the folder of their files and the number of seeds to streamlines (m, 3), mm.
    functions : from the data and the folder to the orientation functions that are followed, if there are any. Ways that
        follow the same ones have the same object.
    """

    track: Callable[[Known, Path, int], Lines]
    functions: Callable[[Known, Path], Functions] | None = None


def shells(folder: Path) -> npt.NDArray[np.float64]:
    """Return the b-values (n,) of the shells of a series."""
    bvals = np.loadtxt(folder / "dwi.bval")
    return np.unique(bvals[bvals > B0_THRESHOLD])


def one_shell(folder: Path) -> float:
    """Return the b-value of the shell for methods of one: the highest up to 3500 s/mm2, or else the lowest."""
    bvals = shells(folder)
    return float(max((bval for bval in bvals if bval <= HIGHEST), default=bvals.min()))


# ----------------------------------------------------------------------------------------------------- this package
def ours(known: Known, folder: Path, count: int, cache: Path | None = None, **options: Any) -> Lines:
    """Track with this package, all lengths; where a model is fitted as by DIPY, with the options that the data need."""
    defaults: dict[str, Any] = {"min_length": 0}
    if "model" in METHODS[options["dg"]].follows and "like" in options:
        defaults |= known.options
    result = track(
        folder / "dwi.nii.gz", folder / "dwi.bval", folder / "dwi.bvec", mask=folder / "mask.nii.gz",
        stop_map=folder / "white.nii.gz", stop_threshold=0.5, seeds=known.seeds(count), arch="cpu",
        cache_dir=folder / "cache" if cache is None else cache,
        **(defaults | options),
    )
    return list(result.to_sft().streamlines)


def our_functions(known: Known, folder: Path, **options: Any) -> Functions:
    """Return the orientation functions that a run of this package has fitted, from a cache of its own."""
    with tempfile.TemporaryDirectory(dir=folder) as room:
        ours(known, folder, 1, Path(room), **options)
        (fitted,) = Path(room).glob("odf-*.npz")
        with np.load(fitted) as kept:
            coefficients = np.zeros((*known.mask.shape, kept["harmonics"].shape[1]), np.float32)
            coefficients[kept["mask"]] = kept["harmonics"]
    return Functions(coefficients, BASIS, axes_of(known.affine))


def our_way(**options: Any) -> Way:
    """Return a way of this package with its options."""
    options = {"dg": Parameters().dg} | options
    follows = "model" in METHODS[options["dg"]].follows
    return Way(partial(ours, **options), partial(our_functions, **options) if follows else None)


# ------------------------------------------------------------------------------------------------------------- DIPY
def _dipy_fit(known: Known, folder: Path) -> npt.NDArray[np.float64]:
    """Return the coefficients of DIPY's CSD as in its examples, of the b0s and one shell."""
    import nibabel as nib
    from dipy.core.gradients import gradient_table
    from dipy.reconst.csdeconv import ConstrainedSphericalDeconvModel, auto_response_ssst

    kept = folder / "dipy.npy"
    if not kept.exists():
        bvals, bvecs = np.loadtxt(folder / "dwi.bval"), np.loadtxt(folder / "dwi.bvec").T
        used = (bvals <= B0_THRESHOLD) | (bvals == one_shell(folder))
        image: Any = nib.load(folder / "dwi.nii.gz")
        data, gtab = image.get_fdata()[..., used], gradient_table(bvals[used], bvecs=bvecs[used])
        response, _ = auto_response_ssst(gtab, data, roi_radii=10, fa_thr=known.response_fa)
        fitted = ConstrainedSphericalDeconvModel(gtab, response, sh_order_max=8).fit(data, mask=known.mask)
        np.save(kept, fitted.shm_coeff)
    return np.load(kept)


def dipy_functions(known: Known, folder: Path) -> Functions:
    """Fit DIPY's CSD."""
    return Functions(_dipy_fit(known, folder), BASIS, axes_of(known.affine))


def dipy(known: Known, folder: Path, count: int, getter: str) -> Lines:
    """Track with DIPY."""
    from dipy import direction
    from dipy.data import default_sphere
    from dipy.tracking.local_tracking import LocalTracking
    from dipy.tracking.stopping_criterion import ThresholdStoppingCriterion

    fitted = _dipy_fit(known, folder)
    chosen = getattr(direction, getter).from_shcoeff(fitted, max_angle=30.0, sphere=default_sphere)
    white = ThresholdStoppingCriterion(known.white.astype(float), 0.5)
    step = known.voxel_mm / 2
    lines: Any = LocalTracking(chosen, white, known.seeds(count), known.affine, step, random_seed=RANDOM_SEED)
    return list(lines)


# ----------------------------------------------------------------------------------------------------------- MRtrix3
def _csd_steps(known: Known, folder: Path) -> list[list[str]]:
    """Return the commands that fit one shell with the response of ``tournier``."""
    del known
    shell = ["-shells", f"{one_shell(folder):g}"] if len(shells(folder)) > 1 else []
    return [
        ["dwi2response", "tournier", "dwi.nii.gz", "csd.txt", "-mask", "mask.nii.gz", *shell, *GRADIENTS],
        ["dwi2fod", "csd", "dwi.nii.gz", "csd.txt", "csd.mif", "-mask", "mask.nii.gz", *shell, *GRADIENTS],
    ]


def _msmt_steps(known: Known, folder: Path) -> list[list[str]]:
    """Return the commands that fit all shells with the responses of ``dhollander``, and normalise three tissues."""
    # b = 0 and one shell determine no more than two tissues
    several = len(shells(folder)) > 1
    used = TISSUES if several else ("wm", "csf")
    images = {tissue: "msmt.mif" if tissue == "wm" else f"{tissue}.mif" for tissue in used}
    files = [name for tissue, image in images.items() for name in (f"{tissue}.txt", image)]
    responses = [f"{tissue}.txt" for tissue in TISSUES]
    pairs = [image for name in images.values() for image in (name, name)]
    erode = ["-mask", "mask.nii.gz", "-erode", str(known.erosions)]
    return [
        ["dwi2response", "dhollander", "dwi.nii.gz", *responses, *erode, *GRADIENTS],
        ["dwi2fod", "msmt_csd", "dwi.nii.gz", *files, "-mask", "mask.nii.gz", *GRADIENTS],
        *([["mtnormalise", *pairs, "-mask", "mask.nii.gz"]] if several else []),
    ]


STEPS = {"csd": _csd_steps, "msmt": _msmt_steps}


def _run(folder: Path, *command: str) -> None:
    """Run a program of MRtrix3, or raise RuntimeError with the last line that it has printed."""
    done = subprocess.run([*command, "-quiet", "-force"], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.strip().rpartition(chr(10))[2] or done.returncode}")


def _mrtrix_fit(known: Known, folder: Path, fit: str) -> str:
    """Return the name of the file of MRtrix3's orientation functions."""
    kept = f"{fit}.mif"
    for step in STEPS[fit](known, folder) if not (folder / kept).exists() else []:
        _run(folder, *step)
    return kept


def mrtrix_functions(known: Known, folder: Path, fit: str) -> Functions:
    """Fit MRtrix3's csd or msmt_csd."""
    import nibabel as nib
    from nibabel.orientations import io_orientation, ornt_transform

    _run(folder, "mrconvert", _mrtrix_fit(known, folder, fit), f"{fit}.nii.gz")
    image: Any = nib.load(folder / f"{fit}.nii.gz")
    image = image.as_reoriented(ornt_transform(io_orientation(image.affine), io_orientation(known.affine)))
    return Functions(image.get_fdata(dtype=np.float32), "tournier07", np.eye(3))


def mrtrix(known: Known, folder: Path, count: int, fit: str, algorithm: str) -> Lines:
    """Track with MRtrix3."""
    import nibabel as nib

    white = ("-seed_image", "white.nii.gz", "-mask", "white.nii.gz")
    words = ("-algorithm", algorithm, "-select", "0", "-seeds", str(count), "-minlength", "0")
    _run(folder, "tckgen", _mrtrix_fit(known, folder, fit), "out.tck", *white, *words)
    loaded: Any = nib.streamlines.load(folder / "out.tck")
    return list(loaded.streamlines)


def ours_on_mrtrix(known: Known, folder: Path, count: int, fit: str, dg: str) -> Lines:
    """Track MRtrix3's orientation functions with this package, all lengths."""
    result = track(
        sh=folder / _mrtrix_fit(known, folder, fit), sh_basis="tournier07", dg=dg, stop_mask=folder / "white.nii.gz",
        seeds=known.seeds(count), min_length=0, arch="cpu",
    )
    return list(result.to_sft().streamlines)


def ways() -> dict[str, Way]:
    """Return what tracks by default, by name."""
    known: dict[str, Way] = {"boot": our_way(dg="boot"), "boot-like-dipy": our_way(dg="boot", like="dipy")}
    for like in ("", "-like-dipy"):
        options = {"like": "dipy"} if like else {}
        functions = our_way(dg="prob", **options).functions  # the same for all three
        known |= {
            f"{dg}{like}": Way(partial(ours, dg=dg, **options), functions) for dg in ("prob", "det", "ptt")
        }
    known |= {
        "dipy-det": Way(partial(dipy, getter="DeterministicMaximumDirectionGetter"), dipy_functions),
        "dipy-prob": Way(partial(dipy, getter="ProbabilisticDirectionGetter"), dipy_functions),
    }
    for fit in STEPS if shutil.which("tckgen") else ():
        functions = partial(mrtrix_functions, fit=fit)
        prefix = "mrtrix" if fit == "csd" else f"mrtrix-{fit}"
        known |= {
            f"{prefix}-{algorithm.lower()}": Way(partial(mrtrix, fit=fit, algorithm=algorithm), functions)
            for algorithm in ("SD_STREAM", "iFOD1", "iFOD2")
        }
        known |= {
            f"{dg}-{prefix}": Way(partial(ours_on_mrtrix, fit=fit, dg=dg), functions)
            for dg in ("sd_stream", "ifod1", "ifod2")
        }
    return known
