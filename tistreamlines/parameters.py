"""Every option of tracking, once: command line, help, Python keywords and sidecar are made from this."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import TrackingError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PathLike = str | Path
SEED_FA = 0.25


class ParameterError(TrackingError, ValueError):
    """An option has a value that it cannot have, or does not go with another: wrong use."""


@dataclass(frozen=True)
class Option:
    """What is known of one option besides its name and default.

    Attributes
    ----------
    group : heading under which the help lists it.
    help : what it does, in a line or two.
    unit : what the value is counted in, or what stands in for it in the help ("FILE").
    choices : all the words it may be, if it is a word.
    low, high : bounds, both allowed unless ``above`` says that ``low`` itself is not.
    absent : what happens when it is not given and has no default.
    off : name of the flag that turns a flag off.
    excludes, requires : options that must not, or must, be given with it.
    """

    group: str
    help: str
    unit: str = ""
    choices: tuple[str, ...] = ()
    low: float = -math.inf
    high: float = math.inf
    above: bool = False
    absent: str = ""
    off: str = ""
    excludes: tuple[str, ...] = ()
    requires: tuple[str, ...] = ()


def _option(default: Any, group: str, help: str, **known: Any) -> Any:
    return field(default=default, metadata={"option": Option(group, help, **known)})


SEEDS, MODEL, GROWTH, OUTPUT, RUNNING = "Seeds and region", "Model and directions", "Growth", "Output", "Running"


@dataclass(frozen=True)
class Parameters:
    """All options of tracking with their defaults; :func:`options` tells what each means.

    Raises
    ------
    ParameterError
        If a value is of the wrong kind, out of bounds, or does not go with another.
    """

    mask: PathLike | None = _option(
        None, SEEDS, "Where the FA map is fitted; FA is 0 outside. The data are not masked.", unit="FILE",
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
    dg: str = _option("boot", MODEL, "Direction getter: residual bootstrap.", choices=("boot",))
    model: str = _option("opdt", MODEL, "Model whose ODF is bootstrapped.", choices=("opdt", "csa"))
    sphere: str = _option(
        "default", MODEL, "Directions: DIPY's hemisphere of 362, the whole sphere of 724, or the hemisphere of 181.",
        choices=("default", "full", "small"),
    )  # fmt: skip
    sh_order: int = _option(4, MODEL, "Order of the spherical harmonics, even.", unit="order", low=2, high=12)
    sm_lambda: float = _option(0.006, MODEL, "Laplace-Beltrami smoothing of the fit.", unit="weight", low=0)
    min_signal: float = _option(1.0, MODEL, "Signals below this are raised to it.", unit="signal", low=0, above=True)
    relative_peak_threshold: float = _option(
        0.25, MODEL, "Peaks lower than this share of the ODF's range are left out.", unit="share", low=0, high=1,
    )  # fmt: skip
    min_separation_angle: float = _option(
        45.0, MODEL, "A peak closer than this to a higher one is left out.", unit="degrees", low=0, high=90,
    )  # fmt: skip
    angular_weight: float = _option(
        0.0, MODEL, "Weight w of ODF * (1 - w + w |cos(angle to the last step)|); 0 is off.", unit="weight", low=0,
        high=1,
    )  # fmt: skip
    boot_rule: str = _option(
        "dipy", MODEL, "Draw again only while there is no peak at all (dipy), or until one fits (cuslines).",
        choices=("dipy", "cuslines"),
    )  # fmt: skip
    negative_odf: str = _option(
        "dipy", MODEL, "An ODF without a positive value has one peak, as in DIPY, or none.", choices=("dipy", "none"),
    )  # fmt: skip
    max_angle: float = _option(
        60.0, GROWTH, "Greatest angle between two steps.", unit="degrees", low=0, high=90, above=True,
    )  # fmt: skip
    step_size: str | float = _option(
        "0.5vox", GROWTH, "Step length in mm, or with 'vox' behind it in smallest voxel sides.", unit="mm",
    )  # fmt: skip
    max_steps: int = _option(500, GROWTH, "Most steps each way from the seed.", unit="steps", low=1, high=10_000)
    min_length: float = _option(0.0, GROWTH, "Streamlines shorter than this are dropped.", unit="mm", low=0)
    max_length: float | None = _option(
        None, GROWTH, "Streamlines longer than this are dropped.", unit="mm", low=0, above=True, absent="no limit",
    )  # fmt: skip
    rng_seed: int = _option(0, GROWTH, "Key of the random draws of residuals.", unit="number", low=0, high=2**64 - 1)
    force: bool = _option(False, OUTPUT, "Replace files that exist.")
    json_stats: PathLike | None = _option(
        None, OUTPUT, "Write counts, lengths, stop reasons and seconds as JSON.", unit="FILE", absent="not written",
    )  # fmt: skip
    arch: str = _option(
        "auto", RUNNING, "Where to run. auto: the first of metal, cuda, vulkan with a device in hardware, else cpu.",
        choices=("auto", "cuda", "metal", "vulkan", "cpu"),
    )  # fmt: skip
    exact: bool = _option(
        True, RUNNING, "The same bits on every device, or whatever the compiler's liberties give.", off="fast",
    )  # fmt: skip
    threads: int | None = _option(None, RUNNING, "CPU threads.", unit="threads", low=1, high=4096, absent="all cores")
    chunk_size: int | None = _option(
        None, RUNNING, "Seeds tracked at a time; changes no result.", unit="seeds", low=1, high=1_000_000,
        absent="what fits the device",
    )  # fmt: skip
    memory_limit: float | None = _option(
        None, RUNNING, "Device memory to use at most.", unit="GB", low=0, above=True, absent="what is free",
    )  # fmt: skip
    cache_dir: PathLike | None = _option(
        None, RUNNING, "Folder that keeps the FA map and the prepared tables for the next run on the same files.",
        unit="FOLDER", absent="nothing is kept",
    )  # fmt: skip

    def __post_init__(self) -> None:
        for name, option in options().items():
            object.__setattr__(self, name, _checked(name, option, getattr(self, name)))
        if self.sh_order % 2:
            raise ParameterError(f"{flag('sh_order')} is {self.sh_order}: give an even order, as 4")
        if self.max_length is not None and self.max_length < self.min_length:
            raise ParameterError(f"--max-length {self.max_length:g} is below --min-length {self.min_length:g}")
        self.step_mm([1.0])

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
        return cls(**named)

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
        """Value by name, paths as text."""
        return {name: str(value) if isinstance(value, Path) else value for name, value in asdict(self).items()}


def options() -> dict[str, Option]:
    """What is known of each parameter, by name, in the order of the help."""
    return {f.name: f.metadata["option"] for f in fields(Parameters)}


def defaults() -> dict[str, Any]:
    """Return each parameter's default by name."""
    return {f.name: f.default for f in fields(Parameters) if f.default is not MISSING}


def kind(name: str) -> str:
    """Return what a parameter holds: 'flag', 'path', 'word', 'int', 'float' or 'text'."""
    annotation = str(next(f.type for f in fields(Parameters) if f.name == name))
    if annotation.startswith("str |"):
        return "text"
    words = {"bool": "flag", "PathLike": "path", "str": "word"}
    first = annotation.split(" ")[0]
    return words.get(first, first)


def flag(name: str) -> str:
    """Spell a parameter as an option: max_angle -> --max-angle."""
    return "--" + name.replace("_", "-")


def _checked(name: str, option: Option, value: Any) -> Any:
    """Return the value as its kind has it, or raise."""
    sort = kind(name)
    if value is None and defaults()[name] is None:
        return None
    if sort == "word":
        if value not in option.choices:
            raise ParameterError(f"{flag(name)} is {value!r}: give one of {', '.join(option.choices)}")
        return value
    if sort == "flag":
        if not isinstance(value, bool):
            raise ParameterError(f"{flag(name)} is {value!r}: give True or False")
        return value
    if sort in ("int", "float"):
        return _number(name, option, value, sort)
    if sort == "path" and not isinstance(value, str | Path):
        raise ParameterError(f"{flag(name)} is a {type(value).__name__}: give the path of a file")
    return value


def _number(name: str, option: Option, value: Any, sort: str) -> int | float:
    try:
        number = float(value)
        exact = int(value) if sort == "int" else number
    except (TypeError, ValueError, OverflowError):
        number = exact = math.nan
    if isinstance(value, bool) or not math.isfinite(number) or (sort == "int" and exact != value):
        raise ParameterError(f"{flag(name)} is {value!r}: give a {'whole ' if sort == 'int' else ''}number")
    if exact < option.low or exact > option.high or (option.above and exact == option.low):
        raise ParameterError(f"{flag(name)} is {exact}: give {bounds(option)}")
    return exact


def bounds(option: Option) -> str:
    """Say which numbers an option takes: 'a number from 0 to 1'."""
    low = "" if option.low == -math.inf else f"above {option.low:g}" if option.above else f"from {_plain(option.low)}"
    high = "" if option.high == math.inf else f"to {_plain(option.high)}"
    if option.above and high:
        high = f"up {high}"
    return " ".join(["a number", low or "", high]).strip() + (" on" if low and not high and not option.above else "")


def _plain(bound: float) -> str:
    return str(int(bound)) if float(bound).is_integer() else f"{bound:g}"
