"""The definitions of all options by name: of this package, and of rows that users have registered.

Options of a direction getter, a stopping rule or a model are defined with it, in ``tracking/`` or ``fit/models.py``;
all others are defined in ``option_groups``.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import Field, dataclass, fields, replace
from functools import cache, partial

from ..errors import listed
from ..fit.models import MODELS
from ..io.in_memory import source_of
from ..io.response import AUTO, FA
from ..option import GROUPS, Option, flag, pairs, several
from ..tracking import registry
from ..tracking.getters import along_peaks, bedpostx, boot, fod, pmf, ptt
from ..tracking.growth.settings import GrowthOptions
from ..tracking.products.connectome.connectome import ConnectomeOptions
from ..tracking.products.density.map import MapOptions
from ..tracking.products.files import SIFT2, WEIGHABLE
from ..tracking.products.points.content import ContentOptions
from ..tracking.products.rejected import RejectedOptions
from ..tracking.products.samples.table import TableOptions
from ..tracking.products.voxel_matrix import matrices, targets
from ..tracking.products.waytotal import WaytotalOptions
from ..tracking.registry import METHODS, PRODUCTS, STOPPING_RULES
from ..tracking.seeding.surfaces import SurfaceOptions
from ..tracking.selection.options import RegionOptions, SelectionOptions
from ..tracking.sources import SOURCES
from ..tracking.stopping import act5, anatomy, threshold
from ..tracking.stopping.segmentation import ACT, tissue_files
from ..tracking.weights.options import DynamicOptions, Sift2Options
from .option_groups import FileOptions, MethodChoice, RunningOptions, SeedOptions

IMAGES = ("ImageLike", "PointsLike")  # annotations of options whose value may be in memory
INPUTS = (*IMAGES, "TableLike")  # and of those that name an input


@dataclass(frozen=True, init=False, repr=False, eq=False)
class PackageOptions(
    RejectedOptions, WaytotalOptions, Sift2Options, matrices.VoxelMatrixOptions, targets.TargetOptions,
    matrices.SeedMatrixOptions, ConnectomeOptions, MapOptions, TableOptions, RunningOptions, SelectionOptions,
    RegionOptions, GrowthOptions, bedpostx.BedpostxOptions, FileOptions, boot.BootOptions, fod.Ifod2Options,
    along_peaks.FactOptions, ptt.PttOptions, pmf.DetOptions, act5.Act5Options, anatomy.AnatomyOptions,
    threshold.BinaryOptions, threshold.ThresholdOptions, MethodChoice, SurfaceOptions, DynamicOptions, SeedOptions,
):
    """The options of this package, so that type checkers know them."""


def options() -> dict[str, Option]:
    """Return the definition of each option by name, in the order of the help."""
    return _options_of(_classes(), tuple(SOURCES))


def defaults() -> dict[str, object]:
    """Return the default of each option by name."""
    return {name: known.default for name, known in _fields_of(_classes()).items()}


def names_affecting(*what: str) -> frozenset[str]:
    """Return the options that affect one of these; see :class:`tistreamlines.option.Option`."""
    return frozenset(name for name, option in options().items() if option.affects in what)


def input_names() -> tuple[str, ...]:
    """Return the options that name an input besides the series: an image, a table, or a source of directions."""
    return _named(INPUTS, _classes(), tuple(SOURCES))


def names_in_memory() -> tuple[str, ...]:
    """Return the inputs that may be arrays or images in memory, instead of files."""
    return _named(IMAGES, _classes(), tuple(SOURCES))


def product_options(*, of_dropped: bool = True) -> tuple[str, ...]:
    """Return the options of all products, in the order of the help; those of dropped streamlines only if wanted."""
    rows = [row for row in PRODUCTS.values() if of_dropped or not row.of_dropped]
    names = {field.name for row in rows for field in fields(row.options)}
    return tuple(name for name in options() if name in names)


def map_options() -> tuple[str, ...]:
    """Return the options for an existing tractogram: of all products that can be made of it, and of sampled maps."""
    products = product_options(of_dropped=False)
    return tuple(name for name in options() if name == "sample" or name in products)


def join_options() -> tuple[str, ...]:
    """Return the options that parts of a run are joined with: what the tractogram holds, and products made of it."""
    joined = {*(field.name for field in fields(ContentOptions)), *product_options(of_dropped=False)}
    return tuple(name for name in options() if name in joined)


def is_word(name: str, value: object) -> bool:
    """Return whether the value of an option is a word that stands in the place of a file."""
    return str(value) in options()[name].words


def saying(what: str) -> tuple[str, ...]:
    """Return the options of which only one can be given, since each says the same in its way."""
    return tuple(name for name, option in options().items() if option.one_of == what)


def applies_with(name: str) -> dict[str, Collection[str]]:
    """Return with which values of 'dg', 'stopping', 'model' and 'source' an option has an effect."""
    return _limits(name, options()[name])


def all_limits() -> dict[str, dict[str, Collection[str]]]:
    """Return what :func:`applies_with` returns of every option, in a fraction of the time."""
    global _last_limits
    rows, known = (*PRODUCTS.items(), *METHODS.items(), *STOPPING_RULES.items(), *SOURCES.items()), _last_limits
    if rows != known[0]:  # hardly ever
        _last_limits = known = rows, {name: _limits(name, option) for name, option in options().items()}
    return known[1]


def _limits(name: str, option: Option) -> dict[str, Collection[str]]:
    only: dict[str, Collection[str]] = {**registry.owners(name), **option.only}
    if name in SOURCES:
        only["dg"] = tuple(key for key, row in METHODS.items() if name in row.follows)
    if name == "asymmetric":
        only["dg"] = tuple(key for key, row in METHODS.items() if row.asymmetric)
    return only


def absent(name: str) -> str:
    """Describe what happens if an option without a fixed default is not given, for the help."""
    option = options()[name]
    otherwise = "" if option.otherwise is None else str(option.otherwise)
    varying = registry.describe_default(name)
    return ", ".join(filter(None, (otherwise or (varying and option.absent), varying))) or option.absent


def kind(name: str) -> str:
    """Return the type of an option: 'flag', 'path', 'word', 'int', 'float', 'text', 'list' of values, or 'pairs'."""
    return _kinds_of(_classes(), tuple(SOURCES))[name]


def sources_of(name: str, value: object) -> object:
    """Make arrays and images path-like, and a tuple of the values of an option that can be given several times."""
    points = _type(name).startswith("PointsLike")  # which may be given as lists
    wrap = partial(source_of, name, lists=points) if name in names_in_memory() else (lambda value: value)
    if (known := kind(name)) == "pairs":
        return tuple(
            (wrap(pair[0]), *pair[1:]) if isinstance(pair, list | tuple) and pair else pair for pair in pairs(value)
        )
    return tuple(map(wrap, several(value))) if known == "list" else wrap(value)


def without_effect(name: str, chosen: PackageOptions) -> str:
    """Say why an option changes nothing in a run, and what to do; nothing if it has an effect.

    Parameters
    ----------
    name : str
        Name of an option with a value.
    chosen : Parameters
        All options.
    """
    draws = METHODS[chosen.dg].draws or STOPPING_RULES[chosen.stopping].draws or chosen.one_way
    if name == "rng_seed" and not draws:
        return (
            f"changes nothing with --dg {chosen.dg}, which draws no random numbers: leave it out; --seed-seed is for "
            "the places of the seeds"
        )
    if name == "too_long" and chosen.max_length is None:
        return "needs --max-length: give both or neither"
    if name == "backtrack" and chosen.backtrack and not METHODS[chosen.dg].steps_draw:
        return f"finds no other way with --dg {chosen.dg}, whose steps draw no random numbers: leave it out"
    if name == "probe_radius" and chosen.probe_radius and chosen.probe_count == 1:
        return "changes nothing with a single line: give --probe-count, the number of lines at this distance"
    if name == "weights" and chosen.weights != SIFT2 and not any(getattr(chosen, product) for product in WEIGHABLE):
        return f"weighs nothing: give {listed(map(flag, WEIGHABLE))}"
    if name == "fa_response" and chosen.response not in (AUTO, FA):
        return f"changes nothing with another --response than {AUTO} or {FA}: leave one of them out"
    if name == "seed_gmwmi" and is_word(name, chosen.seed_gmwmi) and tissue_files(chosen) is None:
        return f"{ACT} takes the five tissues of the stopping rule: give --act"
    of_fit = name in STOPPING_RULES[chosen.stopping].maps and is_word(name, getattr(chosen, name))
    if of_fit and not (chosen.model is not None and MODELS[chosen.model].tissues is not None):
        able = listed(key for key, row in MODELS.items() if row.tissues is not None)
        return f"{getattr(chosen, name)} takes the tissues of a fit: give a series and --model {able}, or a file"
    return ""


def _type(name: str) -> str:
    """Return the annotation of an option as it is written."""
    annotation = _fields_of(_classes())[name].type
    return getattr(annotation, "__name__", str(annotation)) if not isinstance(annotation, str) else annotation


def _classes() -> tuple[type, ...]:
    """Return the classes of all options: of this package, then of registered rows."""
    global _last
    rows = (*METHODS.values(), *STOPPING_RULES.values(), *PRODUCTS.values())
    known = _last
    if rows != known[0]:  # hardly ever: to compare the same rows takes no time
        _last = known = rows, tuple(dict.fromkeys([PackageOptions, *(row.options for row in rows)]))
    return known[1]


_last: tuple[tuple[object, ...], tuple[type, ...]] = (), ()
_last_limits: tuple[tuple[object, ...], dict[str, dict[str, Collection[str]]]] = (), {}


@cache
def _fields_of(classes: tuple[type, ...]) -> dict[str, Field[object]]:
    known: dict[str, Field[object]] = {}
    for group in classes:
        known |= {field.name: field for field in fields(group) if field.name not in known}
    return known


@cache
def _kinds_of(classes: tuple[type, ...], sources: tuple[str, ...]) -> dict[str, str]:
    return {name: _kind(_type(name), option) for name, option in _options_of(classes, sources).items()}


def _kind(annotation: str, option: Option) -> str:
    """Return the type of an option from its annotation."""
    if annotation.startswith("OneOrMore[tuple["):
        return "pairs"
    if annotation == "str | float" or (annotation.startswith("str") and not option.choices):
        return "text"
    if annotation.startswith("OneOrMore["):
        return "list"
    paths = ("PathLike", "ImageLike", "PointsLike", "TableLike")
    words = {"bool": "flag", "str": "word"} | dict.fromkeys(paths, "path")
    first = annotation.split(" ")[0]
    return words.get(first, first)


@cache
def _named(likes: tuple[str, ...], classes: tuple[type, ...], sources: tuple[str, ...]) -> tuple[str, ...]:
    named = _options_of(classes, sources)
    return tuple(name for name in named if name in sources or any(like in _type(name) for like in likes))


@cache
def _options_of(classes: tuple[type, ...], sources: tuple[str, ...]) -> dict[str, Option]:
    """Return the definitions, in which options of which only one can be given exclude each other."""
    known: dict[str, Option] = {name: f.metadata["option"] for name, f in _fields_of(classes).items()}
    for name, option in known.items():
        others = ("model", *sources) if name in sources else tuple(
            other for other, row in known.items() if option.one_of and row.one_of == option.one_of
        )
        excludes = dict.fromkeys([*option.excludes, *others])
        known[name] = replace(option, excludes=tuple(other for other in excludes if other != name))
    return dict(sorted(known.items(), key=lambda item: GROUPS.index(item[1].group)))
