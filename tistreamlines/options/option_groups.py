"""Options of every direction getter, stopping rule and model: seeds, orientation files, output, running."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from ..devices import ARCHS, NUMBERED
from ..devices.host import INTERPRETED
from ..errors import ParameterError, listed
from ..fit.shells import ENOUGH, HIGHEST, NEAR
from ..option import FILES, MODEL, OUTPUT, RUNNING, SEEDS, PathLike, flag, option
from ..space.harmonics import BASES
from ..tracking.getters.shared import PeakOptions
from ..tracking.registry import METHODS, STOPPING_RULES, default_method
from ..tracking.sources import FITTED, SOURCES
from ..tracking.stopping.segmentation import ACT
from .presets import PRESETS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..option import BallLike, ImageLike, OneOrMore, PointsLike

_NO_TENSOR = "no tensor is fitted: give det or prob, which tell crossing fibres apart, or fact and the tensor's --peaks"
GETTERS_ELSEWHERE = {  # of MRtrix3's tckgen, DIPY and FSL
    **dict.fromkeys(("tensordet", "tensorprob", "dti", "tensor", "eudx"), _NO_TENSOR),
    **dict.fromkeys(("probabilistic", "probabilisticdirectiongetter"), "give prob"),
    **dict.fromkeys(("deterministic", "deterministicmaximumdirectiongetter"), "give det"),
    **dict.fromkeys(("bootstrap", "bootdirectiongetter"), "give boot"),
    **dict.fromkeys(("closest", "closestpeaks", "closestpeakdirectiongetter"), "give det, and --det-rule closest"),
    **dict.fromkeys(("probtrackx", "probtrackx2", "ballandsticks"), "give bedpostx"),
    "ifod": "give ifod1 or ifod2",
    "pft": "give --pft, with prob and the tissue fractions --pve-wm, --pve-gm and --pve-csf",
    "act": "give --act FILE, with any direction getter",
    **dict.fromkeys(("seedtest", "nulldist1", "nulldist2"), "there is no such algorithm here: give another one"),
}
RULES_ELSEWHERE = {
    "fa": "leave it out, since streamlines end where FA is low unless a file chooses another rule",
    "mask": "give --stop-mask FILE, which chooses the rule",
    **dict.fromkeys(("5tt", "fivetissues"), "give --act FILE, which chooses the rule"),
    **dict.fromkeys(("pve", "pft"), "give --pve-wm, --pve-gm and --pve-csf, which choose the rule"),
}
DEFAULTS_ELSEWHERE = {
    **dict.fromkeys(
        ("tckgen", "mrtrix", "mrtrix3"), "give --dg ifod2, ifod1, sd_stream or fact, with tckgen's defaults"
    ),
    **dict.fromkeys(("fsl", "probtrackx", "probtrackx2"), "give --bedpostx FOLDER, with probtrackx2's defaults"),
    "cuslines": "give --like dipy and --boot-rule cuslines: with boot, these are cuslines' defaults",
}
SEED_FA = 0.25  # without another place, seeds are placed where FA is above this
PLACE = "place of seeds"  # what several options say, each in its way
BESIDE_A_MASK = ("seed_gmwmi", "seed_surface")  # say it too, alone or beside the voxels in which seeds lie or begin


def _default_methods() -> str:
    """Describe the default direction getters of a series and of other inputs."""
    by_source: dict[str, list[str]] = {}
    for name in SOURCES:
        by_source.setdefault(default_method(name), []).append(flag(name))
    others = (f", or {method} with {listed(flags)}" for method, flags in by_source.items())
    return default_method(FITTED) + "".join(others)


def _named(name: str, title: str) -> str:
    """Return the name of a row with its title, if that says more."""
    return name if name == title.lower() else f"{name}, {title}"


@dataclass(frozen=True, repr=False, eq=False)
class SeedOptions:
    """Options of the seeds and of the region in which models are fitted."""

    mask: ImageLike | None = option(
        None, SEEDS, "Brain mask: FA and, except with boot, the model are fitted in its voxels and 0 outside. Voxels "
        "of at least 0.5 are inside. --limit-mask bounds streamlines, --seed-mask seeds. Streamlines of fact, and of "
        "ifod1, ifod2 and sd_stream with --sh, end outside it.",
        unit="FILE", absent="DIPY's median_otsu of the mean b0 with radius 2 and one pass", common=True,
    )
    seed_mask: ImageLike | None = option(
        None, SEEDS, "Mask in which seeds are placed: its voxels of at least 0.5. It may have another grid.",
        unit="FILE",
        absent=f"FA > {SEED_FA} in the mask", one_of=PLACE, common=True,
    )
    seed_image: ImageLike | None = option(
        None, SEEDS, "Map to whose values the number of random seeds in a voxel is proportional. Values must be 0 or "
        "more. It may have another grid.", unit="FILE", absent="as --seed-mask",
        one_of=PLACE,
    )
    seed_sphere: OneOrMore[BallLike] | None = option(
        None, SEEDS, "Ball in which random seeds are placed: centre and radius, in RASmm. With several balls, a seed "
        "lies in one of them with a probability proportional to its volume; where they overlap, there are more seeds.",
        unit="x,y,z,r", absent="as --seed-mask", one_of=PLACE,
    )
    seed_gmwmi: ImageLike | None = option(
        None, SEEDS, "Image of five tissues, as MRtrix3's 5ttgen writes it, a segmentation or a folder as for --act, "
        "or act for that of --act. Random seeds lie at its interface of grey and white matter. The search for it "
        "begins at random points of --seed-mask or --seed-image, if you give one. Each image may have another grid.",
        unit="FILE", words=(ACT,), absent="as --seed-mask",
        excludes=("seeds", "seed_sphere", "seeds_per_voxel", "seed_grid"),
    )
    seeds: PointsLike | None = option(
        None, SEEDS, "Seed points, x y z in RASmm: .npy of shape (n, 3), or text with one point per line. Rows x y z "
        "dx dy dz also give the direction in which a seed's one streamline starts, instead of the peaks. It is moved "
        "to the nearest vertex of --sphere, by at most 5.5 degrees on default and full, 6.9 on small; ifod1, ifod2 and "
        "sd_stream seek one near it.", unit="FILE",
        absent="random seeds", one_of=PLACE, excludes=("nseeds", "seed_seed", "seeds_per_voxel", "seed_grid"),
        common=True,
    )
    nseeds: int = option(
        100_000, SEEDS, "Number of random seeds.", unit="seeds", low=1, high=2**32 - 1,
        excludes=("seeds_per_voxel", "seed_grid"), common=True, affects="growth",
    )
    seeds_per_voxel: int | None = option(
        None, SEEDS, "Number of random seeds in each voxel of --seed-mask, instead of --nseeds.", unit="seeds", low=1,
        high=1_000_000, absent="--nseeds in all", excludes=("nseeds", "seed_grid", "seed_image", "seed_sphere"),
        common=True, affects="growth",
    )
    seed_grid: int | None = option(
        None, SEEDS, "Number of seeds along each side of a voxel of --seed-mask: a regular grid, of n^3 seeds in a "
        "voxel, instead of random seeds.", unit="seeds", low=1, high=100, absent="random seeds",
        excludes=("nseeds", "seed_seed", "seed_image", "seed_sphere"), affects="growth",
    )
    seed_seed: int = option(
        0, SEEDS, "RNG seed for the random seed points.", unit="number", low=0, high=2**64 - 1, affects="growth",
    )
    shells: str | float | Sequence[float] | None = option(
        None, SEEDS, "b-values of the shells that are used, besides the b0s; the volumes of others are left out. Of "
        f"several shells, models are fitted to the one of the highest b-value up to {HIGHEST:g} among those with at "
        f"least {ENOUGH} directions (csd also to lower ones, msmt to all), and FA to the one nearest to "
        f"b = {NEAR:g}.", unit="b,b,...", absent="all",
    )
    bvecs_frame: str = option(
        "auto", SEEDS, "Axes of BVECS: the voxel axes, as DIPY reads them (voxel), or FSL's axes, with x flipped "
        "if the determinant of the affine is positive (fsl). auto chooses the axes with which the fibre directions of "
        "neighbouring voxels agree better.", choices=("auto", "voxel", "fsl"), only={"source": ("model",)},
    )


@dataclass(frozen=True)
class MethodChoice:
    """The choice of a direction getter and a stopping rule."""

    stopping: str = option(
        None, SEEDS, "Stopping rule: "
        + "; ".join(f"{name}, {row.title}" for name, row in STOPPING_RULES.items())
        + ". Without it, the files of the command choose the rule.",
        choices=STOPPING_RULES.keys(), foreign=RULES_ELSEWHERE, otherwise="threshold", common=True,
    )
    like: str | None = option(
        None, MODEL, "Take DIPY's defaults for all options.", choices=("dipy",), foreign=DEFAULTS_ELSEWHERE,
        absent="this package's", common=True, affects="defaults",
    )
    preset: str | None = option(
        None, MODEL, "Take the options of a pipeline, and print them; others override them.",
        choices=tuple(PRESETS), absent="none", common=True, affects="defaults",
    )
    dg: str = option(
        None, MODEL, "Direction getter: " + "; ".join(_named(name, row.title) for name, row in METHODS.items()) + ".",
        choices=METHODS.keys(), absent=_default_methods(), foreign=GETTERS_ELSEWHERE, common=True,
    )


@dataclass(frozen=True, repr=False, eq=False)
class FileOptions:
    """Options of orientation files."""

    sh: ImageLike | None = option(
        None, FILES, "Spherical harmonic coefficients, one per volume; their number determines the order.",
        unit="FILE", absent="a model is fitted", common=True,
    )
    sh_basis: str | None = option(
        None, FILES, "Basis of --sh. The default of DIPY is descoteaux07_legacy; MRtrix3 uses tournier07.",
        choices=tuple(BASES), absent="tournier07 of a .mif; other files need it", requires=("sh",), common=True,
    )
    sh_frame: str | None = option(
        None, FILES, "Axes of --sh: voxel axes (voxel), as in DIPY, or scanner axes (scanner), as in MRtrix3.",
        choices=("scanner", "voxel"), absent="scanner for tournier07, voxel for descoteaux07", requires=("sh",),
    )
    odf: ImageLike | None = option(
        None, FILES, "Orientation functions sampled at the vertices of --sphere, one per volume.", unit="FILE",
        absent="a model is fitted",
    )
    pmf: ImageLike | None = option(
        None, FILES, "Like --odf, but without negative values.", unit="FILE", absent="a model is fitted",
    )
    peaks: ImageLike | None = option(
        None, FILES, "Peaks, three volumes (x, y, z) each, as long as their amplitudes. fact follows them, other "
        "getters lobes made of them.", unit="FILE", absent="a model is fitted", common=True,
    )
    peaks_frame: str = option(
        "auto", FILES, "Axes of --peaks, as for --sh. auto chooses the axes with which the peaks of neighbouring "
        "voxels agree better.", choices=("auto", "scanner", "voxel"), only={"source": ("peaks",)},
    )
    asymmetric: bool = option(
        False, FILES, "Keep opposite directions of --odf or --pmf apart. This needs --sphere full.",
        only={"source": ("odf", "pmf")},
    )


@dataclass(frozen=True, repr=False, eq=False)
class RunningOptions:
    """Options of the output and of the device."""

    force: bool = option(False, OUTPUT, "Overwrite existing files.", common=True, affects="run")
    bids_out: PathLike | None = option(
        None, OUTPUT, "Name the tractogram as BIDS proposes, in this folder of a derivative, instead of --output. The "
        "entities are those in the name of DWI, such as sub-01_dwi.nii.gz. --density auto names the map too.",
        unit="FOLDER", absent="--output has the name", excludes=("part",), affects="run",
    )
    json_stats: PathLike | None = option(
        None, OUTPUT, "Write counts, lengths, stop reasons and run times (seconds) as JSON.", unit="FILE",
        absent="not written", affects="run",
    )
    report: PathLike | None = option(
        None, OUTPUT, "Write a page about the run, .html: command, files, counts, why streamlines ended or were "
        "dropped, pictures of the streamlines, their density and the directions of a slice, and connectomes. "
        "Beside it are a picture for MultiQC, *_mqc.png, and the numbers, *_stats.json.", unit="FILE",
        absent="not written", common=True, affects="run",
    )
    part: str | None = option(
        None, RUNNING, "Track only the K-th of N equal ranges of the seeds, on this or another computer. tistreamlines "
        "join makes one tractogram of the .trx files of all parts.", unit="K/N",
        absent="all seeds", excludes=("select", "time_limit"), affects="run",
    )
    resume: bool = option(
        False, RUNNING, "Keep finished pieces in a folder beside the output until the output is complete. After any "
        "interruption, the same command goes on from there.",
        excludes=("time_limit",), common=True, affects="run",
    )
    arch: str = option(
        "auto", RUNNING, f"Where to run. auto uses the first of these that has a GPU, or else {ARCHS[-1]}.",
        choices=("auto", *ARCHS), unlisted=(INTERPRETED,), common=True, affects="run",
    )
    compiler: str = option(
        "auto", RUNNING, "Compiler for a GPU: taichi, or a fork of it that is installed. The bits are the same. "
        "auto takes the first of these that is installed.", choices=("auto", "taichi", "quadrants", "forge"),
        affects="run",
    )
    devices: str | None = option(
        None, RUNNING, f"GPUs to share the seeds among, with --arch {listed(NUMBERED)}: all, or their numbers, "
        "separated by commas (tistreamlines devices lists them). They do not change the result.", unit="all|0,1,...",
        absent="one device", common=True, affects="run",
    )
    exact: bool = option(
        True, RUNNING, "exact gives the same bits on every device; fast lets the compiler reorder arithmetic. ptt is "
        "always exact.", off="fast", affects="growth",
    )
    threads: int | None = option(
        None, RUNNING, "CPU threads.", unit="threads", low=1, high=4096, absent="all cores", common=True, affects="run",
    )
    chunk_size: int | None = option(
        None, RUNNING, "Greatest number of seeds tracked at a time. It does not change the result.", unit="seeds",
        low=1, high=1_000_000, absent="as many as fit the device", affects="run",
    )
    memory_limit: float | None = option(
        None, RUNNING, "Greatest memory of tables and buffers on the device (cpu: in main memory), and of a map in "
        "main memory. Further visits of --sift2 are in a file until the weights are known.", unit="GB", low=0,
        above=True, absent="half of the free memory; cpu and --sift2: no limit", affects="run",
    )
    cache_dir: PathLike | None = option(
        None, RUNNING, "Folder in which the FA map and the tables are kept for later runs with the same files.",
        unit="FOLDER", absent="nothing is kept", affects="run",
    )
    shared_cache: bool = option(
        False, RUNNING, "Share --cache-dir with others: read what they have written there. A user who can write there "
        "decides what is tracked. Otherwise, the folder and its files must be yours, and nobody else may write there.",
        requires=("cache_dir",), affects="run",
    )


def refuse_peak_options(chosen: MethodChoice) -> None:
    """Raise a ParameterError if options of peaks are given, but seeds have directions and no step looks for peaks."""
    method, peaks = METHODS[chosen.dg], [field.name for field in fields(PeakOptions)]
    for name in ("max_directions", *(() if method.steps_along_peaks(chosen) else peaks)):
        if getattr(chosen, name) != method.defaults.get(name):
            raise ParameterError(
                f"{flag(name)} changes nothing where the direction of each seed's one streamline is given: leave it out"
            )
