"""Every option of tracking, once: command line, help, Python keywords and sidecar are made from this."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import ParameterError
from ..methods.registry import GETTERS, MODELS, ORIENTED, SOURCES, listed, varying
from ..options.option import Option, bounds, checked, flag
from ..options.option import option as _option
from ..sphere.harmonics import BASES, frame_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = [
    "INPUTS", "MOST_POWER", "SEED_FA", "Option", "ParameterError", "Parameters", "bounds", "companions", "defaults",
    "flag", "kind", "options",
]  # fmt: skip
PathLike = str | Path
SEED_FA = 0.25
MOST_POWER = 100  # two to this power is a number of float32
INPUTS = ("mask", "seed_mask", "seeds", "stop_map", *SOURCES)  # files that are read besides the series
SEEDS, MODEL, FILES = "Seeds and region", "Model and directions", "Orientations from a file, in place of a model"
GROWTH, OUTPUT, RUNNING = "Growth", "Output", "Running"
BOOT, PTT, PMF = {"dg": ("boot",)}, {"dg": ("ptt",)}, {"dg": ORIENTED}


@dataclass(frozen=True)
class Parameters:
    """All options of tracking with their defaults; :func:`options` tells what each means.

    Raises
    ------
    ParameterError
        If a value is of the wrong kind, out of bounds, or does not go with another.
    """

    mask: PathLike | None = _option(
        None, SEEDS, "Where FA and, but for boot, the model are fitted; both are 0 outside.", unit="FILE",
        absent="DIPY's median_otsu of the mean b0, radius 2, one pass",
    )  # fmt: skip
    seed_mask: PathLike | None = _option(
        None, SEEDS, "Voxels in which seeds are placed at random.", unit="FILE",
        absent=f"FA > {SEED_FA} in the mask", excludes=("seeds",),
    )  # fmt: skip
    seeds: PathLike | None = _option(
        None, SEEDS, "Seed points, x y z in RASmm: .npy of shape (n, 3), or text with one point a line.", unit="FILE",
        absent="random seeds", excludes=("nseeds", "seed_seed"),
    )  # fmt: skip
    nseeds: int = _option(100_000, SEEDS, "Number of random seeds.", unit="seeds", low=1, high=2**32 - 1)
    seed_seed: int = _option(0, SEEDS, "Key of the random seed points.", unit="number", low=0, high=2**64 - 1)
    stop_map: PathLike | None = _option(
        None, SEEDS, "Map that ends streamlines at or below its threshold, taken as it is.", unit="FILE", absent="FA",
    )  # fmt: skip
    stop_threshold: float | None = _option(
        None, SEEDS, "Threshold of --stop-map, in its own unit.", unit="value", absent="the --fa-threshold",
        requires=("stop_map",),
    )  # fmt: skip
    fa_threshold: float = _option(
        0.1, SEEDS, "Streamlines end where the stop map is at or below this.", unit="FA", low=0, high=1,
        excludes=("stop_threshold",),
    )  # fmt: skip
    bvecs_frame: str = _option(
        "auto", SEEDS, "Axes of BVECS: the voxel axes as DIPY takes them (voxel), or with x flipped where the affine's "
        "determinant is positive, as FSL defines them (fsl); auto finds out by which of them neighbouring fibres "
        "continue each other better.", choices=("auto", "voxel", "fsl"),
    )  # fmt: skip
    dg: str = _option(
        None, MODEL, "Direction getter: "
        + "; ".join(f"{name}, {getter.title}" for name, getter in GETTERS.items()) + ".",
        choices=tuple(GETTERS), absent="boot, or prob with " + listed(map(flag, SOURCES)),
    )  # fmt: skip
    model: str = _option(
        None, MODEL, "Model of the orientations: "
        + "; ".join(f"{name}, {model.title}" for name, model in MODELS.items()) + ". boot takes opdt or csa.",
        choices=tuple(MODELS), absent=varying("model"), excludes=SOURCES,
    )  # fmt: skip
    sphere: str = _option(
        "default", MODEL, "Directions: DIPY's hemisphere of 362, the whole sphere of 724, or the hemisphere of 181.",
        choices=("default", "full", "small"),
    )  # fmt: skip
    sh_order: int = _option(
        None, MODEL, "Order of the model's spherical harmonics, even.", unit="order", low=2, high=12,
        absent=varying("sh_order"), only={"model": tuple(MODELS)},
    )  # fmt: skip
    sm_lambda: float = _option(
        0.006, MODEL, "Laplace-Beltrami smoothing of the fit.", unit="weight", low=0, only={"model": ("opdt", "csa")},
    )  # fmt: skip
    min_signal: float = _option(
        1.0, MODEL, "Signals below this are raised to it.", unit="signal", low=0, above=True,
        only={"model": ("opdt", "csa")},
    )  # fmt: skip
    fa_response: float = _option(
        0.7, MODEL, "The fibre response of csd is that of voxels with an FA above this.", unit="FA", low=0, high=1,
        only={"model": ("csd",)},
    )  # fmt: skip
    relative_peak_threshold: float = _option(
        None, MODEL, "Peaks lower than this share of the ODF's range are left out.", unit="share", low=0, high=1,
        absent=varying("relative_peak_threshold"),
    )  # fmt: skip
    min_separation_angle: float = _option(
        None, MODEL, "A peak closer than this to a higher one is left out.", unit="degrees", low=0, high=90,
        absent=varying("min_separation_angle"),
    )  # fmt: skip
    pmf_threshold: float = _option(
        0.1, MODEL, "Directions whose value is below this share of the greatest are never taken. In ptt's probes it is "
        "absolute: values that are not above it count as 0.", unit="share", low=0, high=1, only=PMF,
    )  # fmt: skip
    pmf_rows: str = _option(
        None, MODEL, "What a voxel's row holds: harmonics, evaluated on the sphere in each step (sh), or samples on "
        "the sphere, negative ones as 0 (sampled): DIPY's SHCoeffPmfGen or SimplePmfGen. ptt has samples "
        "with both; sh leaves negative ones as they are.", choices=("sh", "sampled"),
        absent="sh; sampled for a full basis", only={**PMF, "source": ("model", "sh")},
    )  # fmt: skip
    max_directions: int | None = _option(
        None, MODEL, "Begin at most this many streamlines at a seed, toward the highest peaks.", unit="directions",
        low=1, high=1000, absent="one for each peak", only=PMF,
    )  # fmt: skip
    det_rule: str = _option(
        "max", MODEL, "Follow the greatest value within the angle (max), or the closest peak (closest).",
        choices=("max", "closest"), only={"dg": ("det",)},
    )  # fmt: skip
    probe_length: float = _option(
        1.5, MODEL, "Length of a probe, the arc ahead by which a candidate for a step is judged.", unit="mm", low=0,
        above=True, only=PTT,
    )  # fmt: skip
    probe_radius: float = _option(
        0.0, MODEL, "Radius of the circle of lines that make a probe, where --probe-count is above 1.", unit="mm",
        low=0, only=PTT,
    )  # fmt: skip
    probe_quality: int = _option(
        7, MODEL, "Points of a probe at which the orientation function is read.", unit="points", low=2, high=1000,
        only=PTT,
    )  # fmt: skip
    probe_count: int = _option(
        1, MODEL, "Parallel lines that make a probe.", unit="lines", low=1, high=1000, only=PTT,
    )  # fmt: skip
    data_support_exponent: float = _option(
        1.0, MODEL, "Candidates are drawn by their data support to this power.", unit="power", low=0, high=MOST_POWER,
        above=True, only=PTT,
    )  # fmt: skip
    probe_rule: str = _option(
        "dipy", MODEL, "dipy follows DIPY 1.12, whose probes are voxel size (mm) squared times too long; paper is the "
        "method as published.", choices=("dipy", "paper"), only=PTT,
    )  # fmt: skip
    angular_weight: float = _option(
        0.0, MODEL, "Weight w of ODF * (1 - w + w |cos(angle to the last step)|); 0 is off.", unit="weight", low=0,
        high=1, only=BOOT,
    )  # fmt: skip
    boot_rule: str = _option(
        "dipy", MODEL, "Draw again only while there is no peak at all (dipy), or until one fits (cuslines).",
        choices=("dipy", "cuslines"), only=BOOT,
    )  # fmt: skip
    negative_odf: str = _option(
        "dipy", MODEL, "An ODF without a positive value has one peak, as in DIPY, or none.", choices=("dipy", "none"),
        only=BOOT,
    )  # fmt: skip
    sh: PathLike | None = _option(
        None, FILES, "Coefficients of spherical harmonics, one a volume; the order is read from their number.",
        unit="FILE", absent="a model is fitted", only=PMF, excludes=("odf", "pmf", "peaks"), requires=("sh_basis",),
    )  # fmt: skip
    sh_basis: str | None = _option(
        None, FILES, "Basis of --sh. DIPY writes descoteaux07_legacy unless told otherwise, MRtrix3 tournier07.",
        choices=tuple(BASES), absent="none; --sh needs one", requires=("sh",),
    )  # fmt: skip
    sh_frame: str | None = _option(
        None, FILES, "Axes of --sh: the voxel axes (voxel), as DIPY has them, or the scanner's (scanner), as MRtrix3.",
        choices=("scanner", "voxel"), absent="scanner for tournier07, voxel for descoteaux07", requires=("sh",),
    )  # fmt: skip
    odf: PathLike | None = _option(
        None, FILES, "Orientation functions sampled at the vertices of --sphere, one a volume.", unit="FILE",
        absent="a model is fitted", only=PMF, excludes=("pmf", "peaks"),
    )  # fmt: skip
    pmf: PathLike | None = _option(
        None, FILES, "The same, none of them negative.", unit="FILE", absent="a model is fitted", only=PMF,
        excludes=("peaks",),
    )  # fmt: skip
    peaks: PathLike | None = _option(
        None, FILES, "Peaks, x y z of each in three volumes, their lengths the amplitudes. Each is moved to the "
        "nearest vertex of --sphere: at most 5.5 degrees away on default and full, 6.9 on small.", unit="FILE",
        absent="a model is fitted", only=PMF,
    )  # fmt: skip
    peaks_frame: str = _option(
        "auto", FILES, "Axes of --peaks, as for --sh; auto finds out by which of them neighbouring fibres continue "
        "each other better.", choices=("auto", "scanner", "voxel"), only={"source": ("peaks",)},
    )  # fmt: skip
    asymmetric: bool = _option(
        False, FILES, "Keep opposite directions of --odf or --pmf apart; needs --sphere full.",
        only={"dg": ("prob", "det"), "source": ("odf", "pmf")},
    )  # fmt: skip
    max_angle: float = _option(
        None, GROWTH, "Greatest angle between two steps; with ptt, that by which a step's arc bends in voxels of 1 mm: "
        "as in DIPY, it is multiplied by the mean voxel side in mm.", unit="degrees", low=0, high=90, above=True,
        absent=varying("max_angle"),
    )  # fmt: skip
    step_size: str | float = _option(
        "0.5vox", GROWTH, "Step length in mm, or with 'vox' behind it in smallest voxel sides.", unit="mm",
    )  # fmt: skip
    max_steps: int = _option(500, GROWTH, "Most steps each way from the seed.", unit="steps", low=1, high=10_000)
    min_length: float = _option(0.0, GROWTH, "Streamlines shorter than this are dropped.", unit="mm", low=0)
    max_length: float | None = _option(
        None, GROWTH, "Streamlines longer than this are dropped.", unit="mm", low=0, above=True, absent="no limit",
    )  # fmt: skip
    rng_seed: int = _option(0, GROWTH, "Key of the random draws.", unit="number", low=0, high=2**64 - 1)
    force: bool = _option(False, OUTPUT, "Replace files that exist.")
    json_stats: PathLike | None = _option(
        None, OUTPUT, "Write counts, lengths, stop reasons and seconds as JSON.", unit="FILE", absent="not written",
    )  # fmt: skip
    arch: str = _option(
        "auto", RUNNING, "Where to run. auto: the first of metal, cuda, vulkan with a device in hardware, else cpu.",
        choices=("auto", "cuda", "metal", "vulkan", "cpu"),
    )  # fmt: skip
    exact: bool = _option(
        True, RUNNING, "The same bits on every device, or whatever the compiler's liberties give; ptt is always exact.",
        off="fast",
    )  # fmt: skip
    threads: int | None = _option(None, RUNNING, "CPU threads.", unit="threads", low=1, high=4096, absent="all cores")
    chunk_size: int | None = _option(
        None, RUNNING, "Seeds tracked at a time at most; changes no result.", unit="seeds", low=1, high=1_000_000,
        absent="what fits the device",
    )  # fmt: skip
    memory_limit: float | None = _option(
        None, RUNNING, "Memory that tables and buffers may take on the device (cpu: in the host's memory).", unit="GB",
        low=0, above=True, absent="half of what is free; cpu: no limit",
    )  # fmt: skip
    cache_dir: PathLike | None = _option(
        None, RUNNING, "Folder that keeps the FA map and the prepared tables for the next run on the same files.",
        unit="FOLDER", absent="nothing is kept",
    )  # fmt: skip

    def __post_init__(self) -> None:
        missing = defaults()
        for name, option in options().items():
            value = getattr(self, name)
            if value is not None or missing[name] is not None:
                self._set(name, checked(name, option, value, kind(name)))
        self._resolve()
        if self.sh_order is not None and self.sh_order % 2:
            raise ParameterError(f"{flag('sh_order')} is {self.sh_order}: give an even order, as 4")
        if self.max_length is not None and self.max_length < self.min_length:
            raise ParameterError(f"--max-length {self.max_length:g} is below --min-length {self.min_length:g}")
        self.step_mm([1.0])

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)

    def _resolve(self) -> None:
        """Fill in the defaults that depend on the getter, the model or the file of orientations."""
        if self.dg is None:
            self._set("dg", "boot" if self.source == "model" else "prob")
        getter, fitted = GETTERS[self.dg], self.source == "model"
        known = getter.defaults | ({} if fitted else {"model": None})
        for name in known:
            if getattr(self, name) is None:
                self._set(name, known[name])
        if self.model is not None:
            if self.model not in getter.models:
                able = listed(name for name, other in GETTERS.items() if self.model in other.models)
                raise ParameterError(f"--model {self.model} goes with --dg {able}, not with {self.dg}")
            if self.sh_order is None:
                self._set("sh_order", MODELS[self.model].defaults["sh_order"])
        full = self.sh_basis is not None and BASES[self.sh_basis].full
        if (full or self.asymmetric) and self.sphere != "full":
            name = f"--sh-basis {self.sh_basis}" if full else "--asymmetric"
            raise ParameterError(f"{name} keeps opposite directions apart, and needs --sphere full")
        if full and self.dg == "ptt":
            raise ParameterError(f"--sh-basis {self.sh_basis} keeps opposite directions apart: give --dg prob or det")
        if full and self.pmf_rows == "sh":
            raise ParameterError(f"--pmf-rows sh has no odd harmonics, --sh-basis {self.sh_basis} has: leave it out")
        if self.sh_basis is not None and self.sh_frame is None:
            self._set("sh_frame", frame_of(self.sh_basis))
        if self.pmf_rows is None:
            self._set("pmf_rows", "sampled" if full else "sh")

    @property
    def source(self) -> str:
        """Where orientations come from: 'model', or the option that names their file."""
        return next((name for name in SOURCES if getattr(self, name) is not None), "model")

    def applies(self, name: str) -> bool:
        """Whether an option has a meaning for the getter, the model and the source."""
        return not self._misfit(name)

    def _misfit(self, name: str) -> str:
        """Say with what an option would go, and with what it does not; nothing if it fits."""
        facts = {"dg": self.dg, "model": self.model, "source": self.source}
        for fact, words in options()[name].only.items():
            if facts[fact] not in words:
                own = "source" if facts[fact] is None else fact
                return f"goes with {companions(fact, words)}, not with {companions(own, (facts[own],))}"
        return ""

    @classmethod
    def given(cls, named: Mapping[str, Any]) -> Parameters:
        """Make parameters from those that were given, and check that they go together.

        Parameters
        ----------
        named : value by name; a value of None counts as not given.
        """
        named = {name: value for name, value in named.items() if value is not None}
        known = options()
        for name in named:
            if name not in known:
                raise TypeError(f"track() has no parameter {name!r}; it has {', '.join(known)}")
            for other in known[name].excludes:
                if other in named:
                    raise ParameterError(f"{flag(name)} and {flag(other)} exclude each other: give one of them")
            for other in known[name].requires:
                if other not in named:
                    raise ParameterError(f"{flag(name)} needs {flag(other)}: give both or neither")
        made = cls(**named)
        for name in named:
            if not made.applies(name):
                raise ParameterError(f"{flag(name)} {made._misfit(name)}: leave it out")
        return made

    def step_mm(self, voxel_sizes: npt.ArrayLike | np.ndarray) -> float:
        """Step length in mm for voxels of these sides (mm)."""
        text = str(self.step_size).strip()
        match = re.fullmatch(r"([0-9.eE+-]+)\s*(vox|mm)?", text)
        try:
            size = float(match[1]) if match else math.nan
        except ValueError:
            size = math.nan
        if not (size > 0 and math.isfinite(size)):
            raise ParameterError(f"--step-size is {text!r}: give a length above 0, as 0.5vox, 0.9mm or 0.9")
        assert match
        return size * min(float(side) for side in voxel_sizes) if match[2] == "vox" else size  # type: ignore[union-attr]

    @property
    def threshold(self) -> float:
        """What the stop map must exceed."""
        return self.fa_threshold if self.stop_threshold is None else self.stop_threshold

    def as_dict(self) -> dict[str, Any]:
        """Value by name, paths as text; None for what has no meaning for the getter, the model or the source."""
        values = {name: value if self.applies(name) else None for name, value in asdict(self).items()}
        return {name: str(value) if isinstance(value, Path) else value for name, value in values.items()}


def companions(fact: str, words: tuple[str, ...]) -> str:
    """Spell what an option goes with: '--dg prob or det', '--odf or --pmf'."""
    return listed(map(flag, words)) if fact == "source" else f"{flag(fact)} {listed(words)}"


def options() -> dict[str, Option]:
    """What is known of each parameter, by name, in the order of the help."""
    return {f.name: f.metadata["option"] for f in fields(Parameters)}


def defaults() -> dict[str, Any]:
    """Return each parameter's default by name."""
    return {f.name: f.default for f in fields(Parameters) if f.default is not MISSING}


def kind(name: str) -> str:
    """Return what a parameter holds: 'flag', 'path', 'word', 'int', 'float' or 'text'."""
    annotation = str(next(f.type for f in fields(Parameters) if f.name == name))
    if annotation == "str | float":
        return "text"
    words = {"bool": "flag", "PathLike": "path", "str": "word"}
    first = annotation.split(" ")[0]
    return words.get(first, first)
