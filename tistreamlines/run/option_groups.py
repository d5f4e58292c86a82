"""Options of no direction getter, stopping rule or model: seeds, given orientations, growth, output and running."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..fit.models import GROUP
from ..methods.registry import METHODS, STOPPING_RULES
from ..options.option import PathLike, flag, listed, option
from ..sphere.harmonics import BASES

if TYPE_CHECKING:
    from ..options.option import ImageLike, PointsLike

SEED_FA = 0.25  # random seeds are placed where FA is above this, if neither seeds nor a seed mask are given
SOURCES = ("sh", "odf", "pmf", "peaks")  # options that give orientations in place of a model
FILES = "Orientations from a file, in place of a model"
GROUPS = ("Seeds and region", GROUP, FILES, "Growth", "Output", "Running")  # in the order of the help
SEEDS, GROWTH, OUTPUT, RUNNING = GROUPS[0], *GROUPS[3:]


@dataclass(frozen=True)
class SeedOptions:
    """Seeds and mask."""

    mask: ImageLike | None = option(
        None, SEEDS, "Brain mask. FA and, except with boot, the model are fitted inside it, and are 0 outside.",
        unit="FILE", absent="DIPY's median_otsu of the mean b0, radius 2, one pass",
    )  # fmt: skip
    seed_mask: ImageLike | None = option(
        None, SEEDS, "Mask in which random seeds are placed.", unit="FILE",
        absent=f"FA > {SEED_FA} in the mask", excludes=("seeds",),
    )  # fmt: skip
    seeds: PointsLike | None = option(
        None, SEEDS, "Seed points, x y z in RASmm: .npy of shape (n, 3), or text with one point a line.", unit="FILE",
        absent="random seeds", excludes=("nseeds", "seed_seed"),
    )  # fmt: skip
    nseeds: int = option(100_000, SEEDS, "Number of random seeds.", unit="seeds", low=1, high=2**32 - 1)
    seed_seed: int = option(0, SEEDS, "RNG seed for the random seed points.", unit="number", low=0, high=2**64 - 1)
    bvecs_frame: str = option(
        "auto", SEEDS, "Axes of BVECS: the voxel axes, as DIPY reads them (voxel), or with x flipped where the "
        "affine's determinant is positive, as FSL defines them (fsl). auto chooses the one by which the directions of "
        "neighbouring voxels continue each other better.", choices=("auto", "voxel", "fsl"),
    )  # fmt: skip


@dataclass(frozen=True)
class MethodChoice:
    """The direction getter and the stopping rule."""

    stopping: str = option("threshold", SEEDS, "Stopping rule.", choices=STOPPING_RULES.keys())
    dg: str = option(
        None, GROUP, "Direction getter: " + "; ".join(f"{name}, {row.title}" for name, row in METHODS.items()) + ".",
        choices=METHODS.keys(), absent="boot, or prob with " + listed(map(flag, SOURCES)),
    )  # fmt: skip


@dataclass(frozen=True)
class FileOptions:
    """Orientations that another program computed."""

    sh: ImageLike | None = option(
        None, FILES, "Coefficients of spherical harmonics, one per volume; the order follows from their number.",
        unit="FILE", absent="a model is fitted", excludes=("model", "odf", "pmf", "peaks"),
        requires=("sh_basis",),
    )  # fmt: skip
    sh_basis: str | None = option(
        None, FILES, "Basis of --sh. DIPY writes descoteaux07_legacy unless told otherwise, MRtrix3 tournier07.",
        choices=tuple(BASES), absent="none; --sh needs one", requires=("sh",),
    )  # fmt: skip
    sh_frame: str | None = option(
        None, FILES, "Axes of --sh: the voxel axes (voxel), as DIPY has them, or the scanner's (scanner), as MRtrix3.",
        choices=("scanner", "voxel"), absent="scanner for tournier07, voxel for descoteaux07", requires=("sh",),
    )  # fmt: skip
    odf: ImageLike | None = option(
        None, FILES, "Orientation functions sampled at the vertices of --sphere, one per volume.", unit="FILE",
        absent="a model is fitted", excludes=("model", "pmf", "peaks"),
    )  # fmt: skip
    pmf: ImageLike | None = option(
        None, FILES, "Probability mass functions sampled at the vertices of --sphere, one per volume, with no negative "
        "value.", unit="FILE", absent="a model is fitted", excludes=("model", "peaks"),
    )  # fmt: skip
    peaks: ImageLike | None = option(
        None, FILES, "Peaks, x y z of each in three volumes, their lengths the amplitudes. Each is moved to the "
        "nearest vertex of --sphere: at most 5.5 degrees away on default and full, 6.9 on small.", unit="FILE",
        absent="a model is fitted", excludes=("model",),
    )  # fmt: skip
    peaks_frame: str = option(
        "auto", FILES, "Axes of --peaks, as for --sh; auto chooses the one by which the peaks of neighbouring voxels "
        "continue each other better.", choices=("auto", "scanner", "voxel"), only={"source": ("peaks",)},
    )  # fmt: skip
    asymmetric: bool = option(
        False, FILES, "Keep opposite directions of --odf or --pmf apart; needs --sphere full.",
        only={"source": ("odf", "pmf")},
    )  # fmt: skip


@dataclass(frozen=True)
class GrowthOptions:
    """Step size and lengths, the same for all direction getters."""

    step_size: str | float = option(
        "0.5vox", GROWTH, "Step length in mm; with the suffix 'vox', in sides of the smallest voxel axis.", unit="mm",
    )  # fmt: skip
    max_steps: int = option(
        500, GROWTH, "Maximum number of steps in each direction from the seed.", unit="steps", low=1, high=10_000,
    )  # fmt: skip
    min_length: float = option(
        0.0, GROWTH, "Drop streamlines shorter than this. No minimum length is applied unless you ask for one; 11 to "
        "20 % of a brain's streamlines are under 10 mm.", unit="mm", low=0,
    )  # fmt: skip
    max_length: float | None = option(
        None, GROWTH, "Drop streamlines longer than this.", unit="mm", low=0, above=True, absent="no limit",
    )  # fmt: skip
    rng_seed: int = option(0, GROWTH, "RNG seed for tracking.", unit="number", low=0, high=2**64 - 1)


@dataclass(frozen=True)
class RunningOptions:
    """Outputs, device and memory."""

    force: bool = option(False, OUTPUT, "Replace files that exist.")
    json_stats: PathLike | None = option(
        None, OUTPUT, "Write counts, lengths, stop reasons and seconds as JSON.", unit="FILE", absent="not written",
    )  # fmt: skip
    arch: str = option(
        "auto", RUNNING, "Where to run. auto takes the first of metal, cuda and vulkan that has a GPU, else cpu.",
        choices=("auto", "cuda", "metal", "vulkan", "cpu"),
    )  # fmt: skip
    exact: bool = option(
        True, RUNNING, "exact gives the same bits on every device; fast lets the compiler reorder arithmetic. ptt is "
        "always exact.", off="fast",
    )  # fmt: skip
    threads: int | None = option(None, RUNNING, "CPU threads.", unit="threads", low=1, high=4096, absent="all cores")
    chunk_size: int | None = option(
        None, RUNNING, "Maximum number of seeds tracked at a time; it does not change the result.", unit="seeds",
        low=1, high=1_000_000, absent="what fits the device",
    )  # fmt: skip
    memory_limit: float | None = option(
        None, RUNNING, "Maximum memory of tables and buffers on the device (cpu: in the host's memory).", unit="GB",
        low=0, above=True, absent="half of what is free; cpu: no limit",
    )  # fmt: skip
    cache_dir: PathLike | None = option(
        None, RUNNING, "Folder in which the FA map and the prepared tables are kept for later runs on the same inputs.",
        unit="FOLDER", absent="nothing is kept",
    )  # fmt: skip
