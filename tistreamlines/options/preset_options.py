"""The options that a preset stands for, beside those that a user gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..option import check_value, companions, flag
from ..tracking.products.connectome.connectome import excludes_radius
from ..tracking.registry import METHODS, default_method, rule_for
from ..tracking.sources import FITTED, SOURCES
from ..tracking.stopping.segmentation import ACT, NAME
from .definitions import applies_with, join_options, kind, options
from .presets import PRESETS

PRESET = "preset"
FACTS = ("dg", "stopping", "model")  # on which the effect of other options depends


@dataclass(frozen=True)
class Expansion:
    """The options of a user with those of a preset.

    Attributes
    ----------
    preset : its name, or '' without one.
    values : all options by name.
    added : those of the preset.
    left_out : why others of the preset are not among them, in words, by name.
    """

    preset: str
    values: dict[str, object]
    added: dict[str, object]
    left_out: dict[str, str]

    def __str__(self) -> str:
        """Return the options that the preset stands for, as on the command line."""
        lines = [f"{flag(PRESET)} {self.preset} ({PRESETS[self.preset].title}) stands for:"]
        lines += [f"  {_words(name, value)}" for name, value in self.added.items()]
        reasons: dict[str, list[str]] = {}
        for name, why in self.left_out.items():
            reasons.setdefault(why, []).append(flag(name))
        lines += [f"  without {', '.join(flags)}: {why}" for why, flags in reasons.items()]
        return "\n".join(lines)


def with_preset(named: Mapping[str, object]) -> Expansion:
    """Add the options that a preset stands for to those of a user, unless these are in their way.

    Parameters
    ----------
    named : mapping
        Values by option name.

    Raises
    ------
    ParameterError
        If there is no such preset.
    """
    known = options()
    words = {key: check_value(key, known[key], named[key], kind(key)) for key in (PRESET, *FACTS) if key in named}
    named = {**named, **words}  # as they are spelled here
    values, added, left_out = dict(named), dict[str, object](), dict[str, str]()
    if PRESET not in named:
        return Expansion("", values, added, left_out)
    name = str(named[PRESET])
    for key, value in PRESETS[name].options.items():
        if key in named:
            continue
        if why := _obstacle(key, value, named, values):
            left_out[key] = why
        else:
            values[key] = added[key] = value
    return Expansion(name, values, added, left_out)


def _obstacle(name: str, value: object, named: Mapping[str, object], values: Mapping[str, object]) -> str:
    """Return why an option of a preset cannot be added to other ones, in words, or nothing."""
    known = options()
    for other in named:
        excluded = other in known[name].excludes or name in known[other].excludes
        if excluded or (name in FACTS and value not in applies_with(other).get(name, (value,))):
            return f"because of {flag(other)}"
    if name == "dg" and named.get("model", value) not in (value, *METHODS[str(value)].models):
        return "because of --model"
    if "part" in values and name in join_options():
        return "for tistreamlines join"
    if missing := [other for other in known[name].requires if values.get(other, False) is False]:
        return f"for lack of {flag(missing[0])}"
    if known[name].needs_one and not set(known[name].needs_one) & set(values):
        return f"for lack of {flag(known[name].needs_one[0])}"
    source = next((key for key in SOURCES if key in values), FITTED)
    facts = {
        "source": source, "model": values.get("model"), "dg": values.get("dg") or default_method(source),
        "stopping": values.get("stopping") or rule_for(values)[0],
    }
    if name == "seed_gmwmi" and value == ACT and facts["stopping"] != NAME:
        return f"for lack of {companions('stopping', (NAME,))}"
    if name == "connectome_radius":
        measures: Any = values.get("connectome_measure") or ()
        measures = [measures] if isinstance(measures, str) else measures
        if other := excludes_radius(value, values.get("connectome_assignment"), measures):
            return f"because of {other}"
    method = METHODS[str(facts["dg"])]
    if name == "model" and value not in method.models:
        return f"because of {flag('dg')} {facts['dg']}"
    if name == "backtrack" and not method.steps_draw:
        return f"for lack of random steps with {flag('dg')} {facts['dg']}"
    for fact, words in applies_with(name).items():
        if fact != name and facts[fact] not in words:
            return f"for lack of {companions(fact, words)}"
    return ""


def _words(name: str, value: object) -> str:
    """Return an option as on the command line."""
    if isinstance(value, bool):
        return flag(name)
    return " ".join(f"{flag(name)} {item:g}" if isinstance(item, float) else f"{flag(name)} {item}"
                    for item in (value if isinstance(value, tuple) else (value,)))
