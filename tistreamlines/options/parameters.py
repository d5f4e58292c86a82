"""All options of a run: their values, the defaults that follow from others, and which of them belong together.

The command line, its help, the Python keywords and the record are made from the same definitions (``definitions``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from os import PathLike
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt

from ..aliases import Json
from ..errors import ParameterError, listed
from ..fit.models import MODELS, ONE, weight_of
from ..fit.shells import b_values_of
from ..io.orientations import default_basis
from ..io.response import AUTO, WAYS, is_file, response_text
from ..option import ball_of, check_value, companions, flag, part_of, record_value
from ..space.batch import mean_side
from ..space.harmonics import BASES, frame_of
from ..tracking import registry
from ..tracking.growth.settings import ROUNDING, SHORTEST, steps_of_half
from ..tracking.registry import METHODS, PRODUCTS, STOPPING_RULES
from ..tracking.selection.options import SEEDS_EACH
from ..tracking.selection.places import sphere_in
from ..tracking.sources import FITTED, SOURCES
from .definitions import (
    PackageOptions,
    all_limits,
    applies_with,
    defaults,
    input_names,
    is_word,
    kind,
    options,
    sources_of,
    without_effect,
)
from .objects import MADE, Options, expand
from .preset_options import with_preset


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Parameters(PackageOptions):
    """All options of tracking with their defaults.

    The options page of the documentation describes each field. Lengths are in mm, angles in degrees. Images (``mask``,
    ``seed_mask``, ``seed_image``, ``seed_gmwmi``, ``sh``, ``odf``, ``pmf``, ``peaks``, maps of the stopping rule,
    regions) are paths, nibabel images or arrays; ``seeds`` is a path or an (n, 3) or (n, 6) array in RASmm; a region
    can also be a sphere, 'x,y,z,r' or four numbers in RASmm, and several are given in a list. Options that are None get
    the default of the direction getter or the model. A direction getter, a stopping rule, a model and a region can be
    objects, such as ``dg=Prob(max_angle=30)``; they and ``products``, a list of objects such as ``Density``, only stand
    for fields.

    Raises
    ------
    ParameterError
        If a value has the wrong type, is out of bounds, or cannot be combined with another.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> ts.Parameters(step_size="0.5vox").step_mm([2.0, 2.0, 2.0])
    1.0
    """

    def __init__(self, **named: Unpack[Options]) -> None:
        self._fill(named)

    @classmethod
    def _of(cls, named: Mapping[str, object]) -> Parameters:
        """Make parameters from values by option name."""
        parameters = object.__new__(cls)
        parameters._fill(named)
        return parameters

    def _fill(self, named: Mapping[str, object]) -> None:
        """Set all options, and check their values."""
        missing = defaults()
        if unknown := set(named) - set(missing) - {MADE}:
            raise TypeError(_unknown(min(unknown)))
        expansion = with_preset(expand(named))
        values = expansion.values
        for name, default in missing.items():
            self._set(name, values.get(name, default))
        # a later override must not meet the defaults that _resolve fills in below
        chosen = {name: value for name in missing if (value := getattr(self, name)) is not missing[name]}
        if expansion.preset:  # which a default overrides, too
            chosen |= {name: getattr(self, name) for name in values if name in missing}
        self._set("_given", chosen)
        self._set("_added", frozenset(expansion.added))
        for name, option in options().items():
            value = getattr(self, name)
            if value is not None or missing[name] is not None:
                self._set(name, check_value(name, option, sources_of(name, value), kind(name)))
        self._resolve()
        if self.sh_order is not None and self.sh_order % 2:
            raise ParameterError(f"{flag('sh_order')} is {self.sh_order}: give an even order, e.g. 4")
        self.step_mm([1.0])
        for name in ("min_length", "max_length"):
            with suppress(TypeError, ValueError):
                self._set(name, float(getattr(self, name)))  # a number is recorded alike, however it is written
        self.max_mm([1.0])
        self.min_mm([0.0])  # for voxels of any size; the run compares lengths in voxels
        if self.shells is not None:
            self._set("shells", b_values_of(self.shells))
        if self.csd_lambda is not None:
            self._set("csd_lambda", weight_of(self.csd_lambda) or AUTO)
        if self.response is not None:
            self._set("response", response_text(self.response))
        for text in self.seed_sphere or ():
            ball_of("seed_sphere", text)
        if self.part is not None:
            part_of(self.part)

    def __repr__(self) -> str:
        """Return the options of the user."""
        texts = (f"{name}={value!r}" for name, value in self._of_user().items())
        return f"{type(self).__name__}({', '.join(texts)})"

    def __eq__(self, other: object) -> bool:
        """Whether all options have the same values."""
        return isinstance(other, Parameters) and self.as_dict() == other.as_dict()

    def __hash__(self) -> int:
        """Return a number that is the same for equal options."""
        return hash(str(self.as_dict()))

    def _of_user(self) -> dict[str, object]:
        """Return the options of the user, without those of a preset, which may have to give way to others."""
        return {name: value for name, value in vars(self)["_given"].items() if name not in vars(self)["_added"]}

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _resolve(self) -> None:
        """Set the defaults that depend on the direction getter, the model or the orientation file."""
        if self.dg is None:
            self._set("dg", registry.default_method(self.source))
        if self.stopping is None:
            self._set("stopping", registry.rule_for(vars(self)["_given"])[0])
        method, fitted = METHODS[self.dg], self.source == FITTED
        rule_defaults = {} if self.stopping is None else STOPPING_RULES[self.stopping].defaults
        known = {**method.defaults, **(method.dipys if self.like else {}), **rule_defaults}
        if not fitted:
            known["model"] = None
        for name in known:
            if getattr(self, name) is None:
                self._set(name, known[name])
        if self.model is not None:
            if self.model not in method.models:
                able = listed(name for name, other in METHODS.items() if self.model in other.models)
                raise ParameterError(f"--model {self.model} needs --dg {able}, not {self.dg}")
            model = MODELS[self.model]
            if self.model == "csd" and self.csd_shells is None and self.response not in (None, *WAYS):
                self._set("csd_shells", ONE)  # a file or numbers are the response of one shell
            for name, value in {**model.defaults, **(model.dipys if self.like else {})}.items():
                if getattr(self, name) is None:
                    self._set(name, value)
        for name, option in options().items():
            if getattr(self, name) is None and option.otherwise is not None:
                self._set(name, option.otherwise)
        if self.keep is None:
            self._set("keep", "all")
        if self.max_steps is None and self.max_length is None:
            self._set("max_steps", steps_of_half(None))
        if self.min_length is None:
            self._set("min_length", 0.0 if self.like else SHORTEST)
        if self.downsample is None:
            self._set("downsample", 1 if self.part else self.parts)
        self._resolve_basis()

    def _resolve_basis(self) -> None:
        """Check the options that depend on the basis of an --sh file, and set their defaults."""
        if self.sh is not None and self.sh_basis is None:
            self._set("sh_basis", default_basis(self.sh))
        full = self.sh_basis is not None and BASES[self.sh_basis].full
        if (full or self.asymmetric) and self.sphere != "full":
            name = f"--sh-basis {self.sh_basis}" if full else "--asymmetric"
            raise ParameterError(f"{name} keeps opposite directions apart, which needs --sphere full")
        if full and not METHODS[self.dg].asymmetric:
            able = companions("dg", applies_with("asymmetric")["dg"])
            raise ParameterError(f"--sh-basis {self.sh_basis} keeps opposite directions apart: give {able}")
        if full and self.pmf_rows == "sh":
            raise ParameterError(
                f"--pmf-rows sh stores no odd harmonics, but --sh-basis {self.sh_basis} has some: leave it out"
            )
        if self.sh_basis is not None and self.sh_frame is None:
            self._set("sh_frame", frame_of(self.sh_basis))
        if self.pmf_rows is None:
            self._set("pmf_rows", "sampled" if full else "sh")

    @property
    def seed_count(self) -> int:
        """Greatest number of random seeds."""
        several = self.max_seeds or min(SEEDS_EACH * (self.select or 0), 2**32 - 1)
        return self.nseeds if self.select is None else several

    def inputs(self) -> dict[str, str | PathLike[str]]:
        """Return the files, arrays and images of the user.

        Returns
        -------
        dict
            Paths and what stands in for them, by option name; one of several is 'include 1'.
        """
        inputs: dict[str, str | PathLike[str]] = {}
        for name in (*input_names(), "response"):
            value = getattr(self, name)
            if kind(name) == "pairs":
                files = ((i, pair[0]) for i, pair in enumerate(value or (), 1) if not is_word(name, pair[0]))
                inputs |= {f"{name} {i}": file for i, file in files}
            elif isinstance(value, tuple):
                inputs |= {f"{name} {i}": file for i, file in enumerate(value, 1) if sphere_in(name, file) is None}
            elif value is not None and not is_word(name, value) and (
                name != "response" or is_file(value)  # numbers are text by now
            ):
                inputs[name] = value
        return inputs

    @property
    def source(self) -> str:
        """Source of the orientations: 'model', or the name of the option that gives their file."""
        return next((name for name in SOURCES if getattr(self, name, None) is not None), FITTED)

    def applies(self, name: str) -> bool:
        """Return whether an option has an effect with this direction getter, stopping rule, model and source.

        Parameters
        ----------
        name : str
            Name of the option, as ``'sm_lambda'``.

        Returns
        -------
        bool
            False if the option is ignored.
        """
        return not self._misfit(name)

    def _facts(self) -> dict[str, Any]:
        """Return the choices on which it depends whether an option has an effect."""
        return {"dg": self.dg, "model": self.model, "source": self.source, "stopping": self.stopping}

    def _misfit(self, name: str) -> str:
        """Return why an option has no effect, and what to do, or an empty string if it has one."""
        facts = self._facts()
        for fact, words in applies_with(name).items():
            if facts[fact] not in words:
                decisive = "source" if facts[fact] is None else fact
                able, chosen = companions(fact, words), companions(decisive, (facts[decisive],))
                if decisive == "source" or self.gives(fact):
                    return f"can be used with {able}, not with {chosen}: leave it out"
                # nobody has given the other word: it is a default, or follows from an option
                by = registry.rule_for(vars(self)["_given"])[1] if fact == "stopping" else ""
                other = f"{flag(by)}, which chooses {chosen}" if by else f"{chosen}, the default here"
                this = "one of these" if len(words) > 1 else "it"
                return f"can be used with {able}, not with {other}: give {this}, or leave {flag(name)} out"
        return ""

    @classmethod
    def given(cls, named: Mapping[str, object], base: Parameters | None = None) -> Parameters:
        """Make parameters from the options that a user gave, and check that these can be combined.

        Parameters
        ----------
        named : dict
            Values by option name. A value of None counts as not given.
        base : Parameters, optional
            Parameters that hold for the options that are not given.

        Returns
        -------
        Parameters
            The parameters.

        Raises
        ------
        ParameterError
            If a value is invalid, two options exclude each other, or an option has no effect with the others.
        TypeError
            If a name is not an option.
        """
        named = expand(named)
        if base is not None:
            named = {**base._of_user(), **named}
        known = options()
        if unknown := set(named) - set(known):
            raise TypeError(_unknown(min(unknown)))
        of_user, named = named, with_preset(named).values
        for name in named:
            for other in known[name].excludes:
                if other in named:
                    raise ParameterError(f"{flag(name)} and {flag(other)} exclude each other: give one of them")
            for other in known[name].requires:
                if named.get(other, False) is False:
                    raise ParameterError(f"{flag(name)} needs {flag(other)}: give both or neither")
            if known[name].needs_one and not set(known[name].needs_one) & set(named):
                raise ParameterError(f"{flag(name)} needs {listed(map(flag, known[name].needs_one))}: give one of them")
        parameters = cls._of(of_user)
        for name in named:
            if reason := parameters._misfit(name) or without_effect(name, parameters):
                raise ParameterError(f"{flag(name)} {reason}")
        for name in set(named) & set(PRODUCTS):
            for image, file in getattr(parameters, name) if kind(name) == "pairs" else ():
                able = PRODUCTS[name].suffixes
                if str(image).lower().endswith(able) and not str(file).lower().endswith(able):
                    order = known[name].unit
                    raise ParameterError(f"{flag(name)} is {image} and {file}: give them in the order {order}")
        return parameters

    def gives(self, name: str) -> bool:
        """Return whether an option was given, even with its default.

        Parameters
        ----------
        name : str
            Name of the option.

        Returns
        -------
        bool
            False if the value is a default.
        """
        return name in self.given_names

    @property
    def given_names(self) -> tuple[str, ...]:
        """Names of the options that the user has set."""
        return tuple(vars(self)["_given"])

    def changed(self, **values: object) -> Parameters:
        """Return the options with other values; defaults stay defaults.

        Parameters
        ----------
        **values
            Values by option name.

        Returns
        -------
        Parameters
            The options.
        """
        return self._of({**self._of_user(), **values})

    @property
    def parts(self) -> int:
        """Number of parts of a step, with a point at the end of each: 1 where steps are straight."""
        return max(METHODS[self.dg].parts(self), 1)

    def step_mm(self, voxel_sizes: npt.ArrayLike | np.ndarray) -> float:
        """Return the distance in mm between two points, along the streamline: the step size, or that of its parts.

        Parameters
        ----------
        voxel_sizes : array_like, (3,)
            Sides of a voxel, mm.

        Returns
        -------
        float
            Distance, mm.

        Raises
        ------
        ParameterError
            If ``step_size`` is not a length above 0.
        """
        size = length_mm(self.step_size, voxel_side(self.dg, voxel_sizes))
        if not size > 0:
            raise ParameterError(
                f"--step-size is {str(self.step_size).strip()!r}: give a length above 0, e.g. 0.5vox, 0.9mm or 0.9"
            )
        return size / self.parts

    def min_mm(self, voxel_sizes: npt.ArrayLike | np.ndarray) -> float:
        """Return the length in mm below which streamlines are dropped.

        Parameters
        ----------
        voxel_sizes : array_like, (3,)
            Sides of a voxel, mm.

        Returns
        -------
        float
            Length, mm.

        Raises
        ------
        ParameterError
            If ``min_length`` is not a length, or is more than ``max_length``.
        """
        least, text = length_mm(self.min_length, voxel_side(self.dg, voxel_sizes)), str(self.min_length).strip()
        if not least >= 0:
            raise ParameterError(f"--min-length is {text!r}: give a length of at least 0, e.g. 10, 10mm or 5vox")
        most = self.max_mm(voxel_sizes)
        if most is not None and 0 < most < least:
            longest = f"{self.max_length:g}" if isinstance(self.max_length, float) else self.max_length
            raise ParameterError(f"--max-length is {longest}: give at least --min-length, which is {text}")
        return least

    def max_mm(self, voxel_sizes: npt.ArrayLike | np.ndarray) -> float | None:
        """Return the length in mm of the longest streamlines; None for no limit.

        Parameters
        ----------
        voxel_sizes : array_like, (3,)
            Sides of a voxel, mm.

        Returns
        -------
        float or None
            Length, mm.

        Raises
        ------
        ParameterError
            If ``max_length`` is not a length above 0.
        """
        if self.max_length is None:
            return None
        most = length_mm(self.max_length, voxel_side(self.dg, voxel_sizes))
        if not (most > 0 or (most == 0 and not any(voxel_sizes))):  # type: ignore[arg-type]
            text = str(self.max_length).strip()
            raise ParameterError(f"--max-length is {text!r}: give a length above 0, e.g. 200, 200mm or 100vox")
        return most

    def as_dict(self) -> Json:
        """Return the value of each option, as written to the record.

        Returns
        -------
        dict
            Values by option name. Paths are strings; options that have no effect are None.
        """
        named, known, facts = vars(self)["_given"], options(), self._facts()
        idle = {other for name in named for other in known[name].excludes if other not in named}
        for name, limits in all_limits().items():
            if any(facts[fact] not in words for fact, words in limits.items()):
                idle.add(name)
        return {name: None if name in idle else record_value(getattr(self, name)) for name in known}


def _unknown(name: str) -> str:
    """Say that there is no such option, and which are meant perhaps."""
    from difflib import get_close_matches

    near = get_close_matches(name, options(), 3)
    help = f"did you mean {listed(map(repr, near))}?" if near else f"the options are {', '.join(options())}"
    return f"{name!r} is not an option of tracking; {help}"


def voxel_side(dg: str, voxel_sizes: npt.ArrayLike | np.ndarray) -> float:
    """Return how long in mm a voxel is for a direction getter, where options name lengths in voxels.

    It is the smallest side, or as in MRtrix3's tckgen the cube root of the volume.
    """
    sides = np.asarray(voxel_sizes, float)
    if METHODS[dg].mean_side and np.ptp(sides) > ROUNDING * sides.max():
        return mean_side(sides)
    return float(sides.min())


def length_mm(value: str | float, side: float) -> float:
    """Return a length in mm from a number, or from text such as 0.5vox or 0.9mm; NaN if it is none.

    ``side`` is the length of a voxel, mm.
    """
    match = re.fullmatch(r"([0-9.eE+-]+)\s*(vox|mm)?", str(value).strip())
    try:
        size = float(match[1]) if match else math.nan
    except ValueError:
        size = math.nan
    if match and match[2] == "vox":
        size *= side
    return size if math.isfinite(size) else math.nan
