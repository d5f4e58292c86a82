"""The registry of direction getters and of stopping rules: a row each, read by all other parts of the package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

from ..fit.models import MODELS
from ..options.option import listed
from . import boot, pmf, ptt, threshold
from .given import Given, Prepared, StopTables
from .options import MethodOptions
from .references import ALWAYS, REFERENCES

ANY_MODEL = ("csd", "opdt", "csa")


@dataclass(frozen=True)
class Method:
    """A direction getter: how the next direction of a streamline is chosen.

    Attributes
    ----------
    title : its name in a few words.
    use : when to use it, a sentence for tables.
    follows : what it works on: the signals of a series, or orientation functions, fitted or from a file.
    prepare : makes its tables from what was read and fitted, and from the options.
    options : the class of its options, a part of Parameters; those that only some methods have belong to these.
    defaults : of the options whose default depends on the method.
    models : those that can be fitted for it.
    references : names in REFERENCES.
    count_step : bytes read and operations done for a step, from the constants of its kernels, for the benchmark.
    asymmetric : whether it can keep the opposite directions of a function from a file apart.
    step_in_tables : whether its tables depend on the step length.
    """

    title: str
    use: str
    follows: Literal["signals", "functions"]
    prepare: Callable[[Given, Any], Prepared]
    options: type[MethodOptions]
    defaults: Mapping[str, Any]
    models: tuple[str, ...]
    references: tuple[str, ...]
    count_step: Callable[[dict[str, Any]], tuple[int, int]]
    asymmetric: bool = False
    step_in_tables: bool = False

    @property
    def needs(self) -> str:
        """What it works on, for tables."""
        return "a series with b0s and one shell" if self.follows == "signals" else "a series or an orientation file"


@dataclass(frozen=True)
class StoppingRule:
    """A stopping rule: where a streamline ends.

    Attributes
    ----------
    title : its name in a few words.
    prepare : makes its tables from the maps by option name, from a function that fits FA, and from the options.
    options : the class of its options, a part of Parameters.
    maps : options that name images, read on the grid of the series.
    needs_fa : whether FA has to be fitted, by the options.
    references : names in REFERENCES.
    """

    title: str
    prepare: Callable[[Mapping[str, Any], Callable[[], Any], Any], StopTables]
    options: type
    maps: tuple[str, ...]
    needs_fa: Callable[[Any], bool] = lambda _: False
    references: tuple[str, ...] = field(default=())


# as DIPY's probabilistic_tracking and deterministic_tracking have them; ptt_tracking but for the angle
_DIPY = {"model": "csd", "max_angle": 20.0, "relative_peak_threshold": 0.5, "min_separation_angle": 25.0}
METHODS: dict[str, Method] = {
    "boot": Method(
        "residual bootstrap", "the spread should reflect the noise of the measurement", "signals",
        boot.prepare, boot.BootOptions,
        {"model": "opdt", "max_angle": 60.0, "relative_peak_threshold": 0.25, "min_separation_angle": 45.0},
        ("opdt", "csa"), ("Berman 2008",), boot.count_step,
    ),
    "prob": Method(
        "probabilistic", "all directions that a voxel's fibres allow are of interest, crossings included", "functions",
        pmf.prepare_prob, pmf.PmfOptions, _DIPY, ANY_MODEL, ("Behrens 2003", "Parker 2003"), pmf.count_step,
        asymmetric=True,
    ),
    "det": Method(
        "deterministic", "only the most likely path is needed, identical in each run", "functions", pmf.prepare_det,
        pmf.DetOptions, _DIPY, ANY_MODEL, ("Mori 1999", "Basser 2000"), pmf.count_step, asymmetric=True,
    ),
    "ptt": Method(
        "parallel transport", "smooth paths are needed, each step judged by what lies ahead", "functions",
        ptt.prepare, ptt.PttOptions, _DIPY | {"max_angle": 10.0}, ANY_MODEL, ("Aydogan 2021",), ptt.count_step,
        step_in_tables=True,
    ),
}  # fmt: skip
STOPPING_RULES: dict[str, StoppingRule] = {
    "threshold": StoppingRule(
        "ends where a map is at or below a threshold", threshold.prepare, threshold.ThresholdOptions, ("stop_map",),
        threshold.needs_fa,
    ),
}  # fmt: skip


def default_method(follows: str) -> str:
    """The method that is taken where none is named: the first that follows this."""
    return next(name for name, row in METHODS.items() if row.follows == follows)


def owners(name: str) -> dict[str, tuple[str, ...]]:
    """Methods and stopping rules that an option belongs to, by 'dg' and 'stopping'; none where it belongs to all."""
    out = {}
    for fact, table in (("dg", METHODS), ("stopping", STOPPING_RULES)):
        having = tuple(key for key, row in table.items() if name in {f.name for f in fields(row.options)})
        if having and len(having) < len(table):
            out[fact] = having
    return out


def varying(name: str) -> str:
    """Say what an option's default is for each method or model: '60 for boot, 20 for prob or det'."""
    keys: dict[str, list[str]] = {}
    for table in (METHODS, MODELS):
        for key, row in table.items():
            if name in row.defaults:
                value = row.defaults[name]
                keys.setdefault(value if isinstance(value, str) else f"{value:g}", []).append(key)
    return ", ".join(f"{value} for {listed(names)}" for value, names in keys.items())


def citations(dg: str, model: str | None) -> list[str]:
    """References of a method, of the model it follows, if any, and of what every run uses."""
    names = [*METHODS[dg].references, *(MODELS[model].references if model else ()), *ALWAYS]
    return [REFERENCES[name] for name in names]


def table_rows() -> list[tuple[str, ...]]:
    """Name, title, needs, models, use and references of each method, for tables."""
    return [
        (name, row.title, row.needs, ", ".join(row.models), row.use, ", ".join(row.references))
        for name, row in METHODS.items()
    ]
