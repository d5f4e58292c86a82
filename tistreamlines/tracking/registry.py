"""The registry of direction getters, stopping rules and products: one row for each, which all other parts read."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from itertools import combinations
from pathlib import Path
from typing import Any, Generic, TypeVar

from .. import plugins
from ..aliases import Array
from ..errors import ParameterError, listed
from ..fit.models import MODELS
from ..io import maps, tables
from ..io.images import Tell
from ..option import flag
from ..space.batch import Space
from .getters import along_peaks, bedpostx, boot, cone, fod, pmf, ptt
from .getters.shared import AngleOptions
from .parts import Getter, Rule
from .products import rejected, waytotal
from .products.collector import Collector
from .products.connectome import connectome
from .products.density import map as density_map
from .products.files import Maker, ProductFile, at_once
from .products.samples import table as sample_table
from .products.voxel_matrix import matrices as voxel_matrices
from .products.voxel_matrix import targets
from .references import ALWAYS, REFERENCES
from .sources import FITTED, FUNCTIONS, OF_A_SERIES, SIGNALS, SOURCES, OrientationSource
from .stopping import act5, anatomy, threshold
from .tables.inputs import GetterInputs, KernelTables, MapImage, Scheme, StopTables
from .tables.rows import Rows, tables_of
from .weights import options as weight_options

Options = TypeVar("Options")  # base class of Parameters that a row reads
Map = TypeVar("Map")  # of a stopping rule: an array, or an OwnMap
FOD_MODELS = ("csd", "msmt")
ANY_MODEL = (*FOD_MODELS, "opdt", "csa")
_REGISTERED: dict[str, str] = {}  # the module that has registered a name


@dataclass(frozen=True)
class Method(Generic[Options]):
    """A direction getter, which chooses the next direction of a streamline.

    Attributes
    ----------
    title : str
        Full name.
    use : str
        When to use it, for tables.
    follows : tuple of str
        Its inputs: SIGNALS of a series, the FITTED model, and keys of SOURCES (``tracking/sources.py``).
    describe : callable
        Returns its getter, and how rows are made of values, from a :class:`Scheme` and the options.
    options : type
        Class of its options, a base class of Parameters. An option that only some classes have belongs to these
        methods only.
    defaults : mapping
        Defaults of options whose own default is None, so also of the step size and the stopping rule. ``docs/truth.md``
        has the scores that decided them.
    models : tuple of str
        Models that can be fitted for it; the default is in ``defaults``.
    references : tuple of str
        Keys of REFERENCES.
    asymmetric : bool
        Whether it can keep opposite directions apart.
    step_in_tables : bool
        Whether its tables depend on the step size.
    draws : bool
        Whether it draws random numbers.
    steps_draw : bool
        Whether a step that is taken again can be another one, because it draws. An initial direction may be drawn for a
        method all of whose steps follow from it.
    ends_at_cutoff : bool
        Whether streamlines end where what it follows is too low, as tckgen's do, so that they need no mask. A model
        that the user chooses bounds them then.
    ends_anywhere : bool
        Whether most halves may end for want of a direction, because grey matter has directions too, but without order.
    mean_side : bool
        Whether lengths in voxels are in units of the cube root of a voxel's volume, as in tckgen, not of its smallest
        side.
    steps_along_peaks : callable
        Returns whether its steps follow peaks, not only the first ones, from the options.
    parts : callable
        Returns how many parts, with a point at the end of each, an arc as long as ``step_size`` has, from the options;
        0 where steps are straight.
    dipys : mapping
        DIPY's defaults, where they differ.
    low_order : mapping
        Defaults where a fitted model has a lower order than its own, because a series has few directions.
    example : str
        Arguments of its object in the example of the object's docstring.
    """

    title: str
    use: str
    follows: tuple[str, ...]
    describe: Callable[[Scheme, Options], tuple[Getter, Rows]]
    options: type[AngleOptions]
    defaults: Mapping[str, object]
    models: tuple[str, ...]
    references: tuple[str, ...]
    asymmetric: bool = False
    step_in_tables: bool = False
    draws: bool = True
    steps_draw: bool = True
    ends_at_cutoff: bool = False
    ends_anywhere: bool = False
    mean_side: bool = False
    steps_along_peaks: Callable[[Options], bool] = lambda _: False
    parts: Callable[[Options], int] = lambda _: 0
    dipys: Mapping[str, object] = field(default_factory=dict)
    low_order: Mapping[str, object] = field(default_factory=dict)
    example: str = ""

    def prepare(self, inputs: GetterInputs, options: Options) -> KernelTables:
        """Make its tables.

        Raises
        ------
        TrackingError
            If the inputs do not fit each other or the options.
        """
        return tables_of(inputs, *self.describe(inputs.scheme, options))


@dataclass(frozen=True)
class StoppingRule(Generic[Map, Options]):
    """A stopping rule, which decides where a streamline ends.

    Attributes
    ----------
    title : str
        Description in a few words.
    prepare : callable
        Makes its tables from the maps (by option name), a function that fits FA, the options, and a voxel's sides, mm.
    options : type
        Class of its options, a base class of Parameters.
    maps : dict of str to int
        Options that name images on the grid of the series, and the number of volumes of each; 0 for a 3-D image. Each
        of them chooses the rule where it is given and ``stopping`` is not; if several rules have it, the first.
    needs_fa : callable
        Returns whether FA must be fitted, from the options.
    doubt : callable
        Says why the maps may be wrong, or nothing, from the maps, a function that fits FA (None without a series) and
        the options.
    references : tuple of str
        Keys of REFERENCES.
    step_in_tables : bool
        Whether its tables depend on the step size.
    draws : bool
        Whether it draws random numbers.
    rule : callable or None
        Returns the :class:`Rule` before maps are read, from the options and a voxel's sides, mm: what it does not know
        of the maps, no kernel depends on. None if only the maps tell; then kernels are compiled later.
    in_rows : int
        Number of its maps that are stored in rows.
    map_images : tuple of str
        Those of ``maps`` that may lie on any grid: ``prepare`` receives each as an
        :class:`~tistreamlines.tracking.tables.inputs.MapImage`.
    read : callable or None
        Makes one map on another grid, the one of ``map_images``, from the options, which name images of it, and a
        function that receives warnings. It returns what messages call the map, its values and its grid, or None if no
        option names it. None instead of a function if each option names a map.
    chosen_by : tuple of str
        Options besides the maps that choose the rule in the same way.
    defaults : mapping
        Defaults of options whose own default is None, instead of those of other rules and of the direction getter.
    tissues : callable
        Returns the fractions of white matter, grey matter and fluid, (x, y, z, 3), from the maps, as an
        :class:`~tistreamlines.tracking.tables.inputs.MapImage`; None if they are not known. They are compared with the
        input of the streamlines.
    example : str
        Arguments of its object in the example of the object's docstring.
    """

    title: str
    prepare: Callable[[Mapping[str, Map], Callable[[], Array], Options, tuple[float, ...]], StopTables]
    options: type
    maps: Mapping[str, int]
    needs_fa: Callable[[Options], bool] = lambda _: False
    doubt: Callable[[Mapping[str, Map], Callable[[], Array] | None, Options], str] = lambda *_: ""
    references: tuple[str, ...] = ()
    step_in_tables: bool = False
    draws: bool = False
    rule: Callable[[Options, tuple[float, ...]], Rule] | None = None
    in_rows: int = 1
    map_images: tuple[str, ...] = ()
    read: Callable[[Options, Tell], tuple[Path, Array, Space] | None] | None = None
    chosen_by: tuple[str, ...] = ()
    defaults: Mapping[str, object] = field(default_factory=dict)
    tissues: Callable[[Mapping[str, Map]], MapImage | None] = lambda _: None
    example: str = ""


@dataclass(frozen=True)
class Product(Generic[Options]):
    """A product: a file that a run makes of its streamlines, with or without a tractogram.

    Attributes
    ----------
    title : str
        A few words about the file.
    options : type
        Class of its options, a base class of Parameters. The first one has the name of the row, and names the file.
    make : callable
        Makes the :class:`~tistreamlines.tracking.products.files.ProductFile` of a run from the options, the grid of the
        tracked image, the step size in mm and the number of threads, which is None for as many as help.
    suffixes : tuple of str
        Suffixes of its files; with "", a name may end with anything.
    collector : callable
        Returns the class of its collector from the options, so that kernels compile before the inputs are read; None if
        these options need points. None instead of a function if the product always needs points.
    check : callable
        Checks the options before the work begins, and raises an error if they are wrong. It may also read inputs; then
        it returns a function that makes the product from these, which takes the place of ``make``.
    files : callable
        Returns the paths of all files from the options; None if there is one, which the first option names.
    needs_seeds : bool
        Whether it needs the seed of each streamline, which most tractograms of other programs lack.
    of_dropped : bool
        Whether it is made of streamlines that are not accepted, of which no tractogram knows.
    needs_step : bool
        Whether it needs the step size. A tractogram of another program may have to be read once more to find it.
    example : str
        Arguments of its object in the example of the object's docstring.
    """

    title: str
    options: type
    make: Callable[[Options, Space, float, int | None], ProductFile]
    suffixes: tuple[str, ...]
    collector: Callable[[Options], type[Collector] | None] | None = None
    check: Callable[[Options], Maker | None] = lambda _: None
    files: Callable[[Options], tuple[Path, ...]] | None = None
    needs_seeds: bool = False
    of_dropped: bool = False
    needs_step: bool = True
    example: str = ""


# defaults of DIPY's probabilistic_tracking and deterministic_tracking, and of ptt_tracking except for the angle
_DIPY = {
    "model": "csd", "max_angle": 20.0, "relative_peak_threshold": 0.5, "min_separation_angle": 25.0,
    "pmf_threshold": 0.1,
}
FODS = (FITTED, "sh")
_TCKGENS_ENDS = {"stopping": "binary", "max_length": "100vox", "too_long": "truncate"}  # its defaults
_TCKGEN = _TCKGENS_ENDS | {"model": "csd"}
METHODS: dict[str, Method[Any]] = {
    "boot": Method(
        "residual bootstrap", "the spread of streamlines should reflect the noise of the data", (SIGNALS,),
        boot.describe, boot.BootOptions,
        {"model": "csa", "max_angle": 30.0, "relative_peak_threshold": 0.5, "min_separation_angle": 25.0,
         "boot_rule": "cuslines"},
        ("csa", "opdt"), ("Berman 2008",), steps_along_peaks=lambda _: True,
        dipys={"model": "opdt", "max_angle": 60.0, "relative_peak_threshold": 0.25, "min_separation_angle": 45.0,
               "boot_rule": "dipy"}, example="max_angle=45",
    ),
    "prob": Method(
        "probabilistic", "all fibre directions of a voxel are of interest, including crossings", FUNCTIONS,
        cone.describe_prob, pmf.PmfOptions, _DIPY | {"max_angle": 25.0, "pmf_threshold": 0.2}, ANY_MODEL,
        ("Behrens 2003", "Parker 2003"), asymmetric=True,
        dipys={"max_angle": 20.0, "pmf_threshold": 0.1}, low_order={"max_angle": 30.0}, example="max_angle=20",
    ),
    "det": Method(
        "deterministic", "only the most likely path is needed, without random draws", FUNCTIONS, cone.describe_det,
        pmf.DetOptions, _DIPY, ANY_MODEL, ("Mori 1999", "Basser 2000"), asymmetric=True, draws=False,
        steps_draw=False, steps_along_peaks=lambda options: options.det_rule == "closest", example='det_rule="closest"',
    ),
    "ptt": Method(
        "parallel transport", "smooth paths are needed; each step depends on the data ahead of it", FUNCTIONS,
        ptt.describe, ptt.PttOptions, _DIPY | {"max_angle": 10.0}, ANY_MODEL, ("Aydogan 2021",),
        step_in_tables=True, example="probe_length=1",
    ),
    "bedpostx": Method(
        "samples of fibres", "bedpostX has been run, as for FSL's probtrackx2", ("bedpostx",), bedpostx.describe,
        bedpostx.BedpostxOptions,
        {"max_angle": 80.0, "step_size": "0.5mm", "max_steps": 2000, "stopping": "binary"}, (),
        ("Behrens 2003", "Behrens 2007"), step_in_tables=True,
        ends_anywhere=True, example='bedpostx="subject.bedpostX"',
    ),
    "ifod1": Method(
        "iFOD1", "streamlines are compared with those of MRtrix3's tckgen -algorithm iFOD1", FODS, fod.describe_first,
        fod.Ifod1Options, _TCKGEN | {"max_angle": 15.0, "step_size": "0.1vox"}, FOD_MODELS,
        ("Tournier 2012",), ends_at_cutoff=True, ends_anywhere=True, mean_side=True, example="cutoff=0.1",
    ),
    "ifod2": Method(
        "iFOD2", "streamlines are compared with those of MRtrix3's tckgen", FODS, fod.describe_second, fod.Ifod2Options,
        _TCKGEN | {"max_angle": 45.0, "step_size": "0.5vox"}, FOD_MODELS, ("Tournier 2010",),
        step_in_tables=True, ends_at_cutoff=True, ends_anywhere=True, mean_side=True,
        parts=lambda options: options.samples - 1, example="samples=5",
    ),
    "sd_stream": Method(
        "SD_STREAM", "streamlines are compared with those of MRtrix3's tckgen -algorithm SD_Stream", FODS,
        along_peaks.describe_sd_stream, fod.FodOptions,
        _TCKGEN | {"max_angle": 60.0, "step_size": "0.1vox"}, FOD_MODELS, ("Tournier 2012",),
        steps_draw=False, ends_at_cutoff=True, ends_anywhere=True, mean_side=True, example="cutoff=0.1",
    ),
    "fact": Method(
        "FACT", "peaks are given, such as those of TractSeg or of a tensor, or as for tckgen -algorithm FACT",
        ("peaks",), along_peaks.describe_fact, along_peaks.FactOptions,
        _TCKGENS_ENDS | {"max_angle": 60.0, "step_size": "0.1vox"}, (), ("Mori 1999",),
        steps_draw=False, ends_at_cutoff=True, ends_anywhere=True, mean_side=True, example='peaks_between="linear"',
    ),
}
STOPPING_RULES: dict[str, StoppingRule[Any, Any]] = {
    "threshold": StoppingRule(
        "ends streamlines where a map is at or below a threshold", threshold.prepare, threshold.ThresholdOptions,
        {"stop_map": 0}, threshold.needs_fa, threshold.doubt, rule=threshold.rule_of, chosen_by=("fa_threshold",),
        example="fa_threshold=0.15",
    ),
    "binary": StoppingRule(
        "ends them outside a mask", threshold.prepare_binary, threshold.BinaryOptions, {"stop_mask": 0},
        rule=threshold.binary_rule, example='stop_mask="white.nii.gz"',
    ),
    "act": StoppingRule(
        "ends them in grey matter (valid) or cerebrospinal fluid (invalid)", anatomy.prepare_act,
        anatomy.AnatomyOptions, anatomy.MAPS, doubt=anatomy.doubt, references=("Smith 2012",), step_in_tables=True,
        rule=anatomy.act_of, in_rows=2, tissues=anatomy.tissues_of, example='pve="pve.nii.gz"',
    ),
    "cmc": StoppingRule(
        "ends them at random where there is little white matter, with a valid end in grey matter", anatomy.prepare_cmc,
        anatomy.AnatomyOptions, anatomy.MAPS, doubt=anatomy.doubt, references=("Girard 2014",), step_in_tables=True,
        draws=True, rule=anatomy.cmc_of, in_rows=2, tissues=anatomy.tissues_of, example='pve="pve.nii.gz"',
    ),
    act5.NAME: StoppingRule(
        "ends them by five tissues, as MRtrix3's ACT", act5.prepare, act5.Act5Options, act5.MAPS,
        doubt=act5.doubt, references=("Smith 2012",), rule=act5.rule_of, in_rows=0, map_images=("act",),
        read=act5.read,
        defaults={"keep": "valid-ends", "min_length": "2vox", "too_long": "drop"}, tissues=act5.tissues_of,
        example='act="5tt.nii.gz"',
    ),
}


def _sift2(options: Any, space: Space, step_mm: float, threads: int | None) -> ProductFile:
    """Return what weighs the streamlines; its modules take time to import."""
    from .weights.product import Sift2Weights

    return Sift2Weights(options, space, step_mm, threads)


PRODUCTS: dict[str, Product[Any]] = {
    "density": Product(
        "map of how many streamlines pass through each voxel", density_map.DensityOptions, density_map.density_map,
        maps.SUFFIXES, lambda options: density_map.collector_of(options.density_kind, options), density_map.check,
        needs_step=False,
        example='"density.nii.gz", voxel=1',
    ),
    "ends": Product(
        "map of how many streamlines end in each voxel", density_map.EndsOptions, density_map.ends_map,
        maps.SUFFIXES, lambda options: density_map.collector_of(density_map.ENDS, options), density_map.check,
        needs_step=False,
        example='"ends.nii.gz"',
    ),
    "connectome": Product(
        "matrices of how many streamlines join two nodes of a parcellation", connectome.ConnectomeOptions,
        connectome.Connectomes, tables.MATRIX_SUFFIXES, connectome.collector_of, connectome.check, connectome.files,
        needs_step=False,
        example='("nodes.nii.gz", "connectome.csv"), measure="mean-length"',
    ),
    "sample_table": Product(
        "table of the values of maps along each streamline", sample_table.SampleTableOptions, sample_table.SampleTable,
        tables.TABLE_SUFFIXES, needs_step=False,
        example='"samples.csv"',
    ),
    "seed_matrix": Product(
        "matrices of how many streamlines from each seed voxel pass other voxels", voxel_matrices.SeedMatrixOptions,
        at_once(voxel_matrices.seed_matrices), (*tables.SPARSE_SUFFIXES, ""), None, voxel_matrices.seed_matrices,
        voxel_matrices.seed_files, needs_seeds=True, needs_step=False,
        example='("seeds.nii.gz", "matrix.npz")',
    ),
    "seeds_to_targets": Product(
        "how many streamlines from each seed voxel reach each of several masks", targets.TargetOptions,
        at_once(targets.seeds_to_targets), targets.SUFFIXES, None, targets.seeds_to_targets, targets.files,
        needs_seeds=True,
        example='("seeds.nii.gz", "targets.csv"), targets=["left.nii.gz", "right.nii.gz"]',
    ),
    "voxel_matrix": Product(
        "matrices of how many streamlines pass both of two voxels", voxel_matrices.VoxelMatrixOptions,
        at_once(voxel_matrices.voxel_matrices), (*tables.SPARSE_SUFFIXES, ""), None, voxel_matrices.voxel_matrices,
        voxel_matrices.voxel_files, needs_step=False,
        example='("mask.nii.gz", "matrix.npz")',
    ),
    "sift2": Product(
        "weights of streamlines by SIFT2", weight_options.Sift2Options, _sift2, weight_options.SUFFIXES,
        None, weight_options.check, weight_options.files,
        example='("tracked", "weights.txt")',
    ),
    "waytotal": Product(
        "number of streamlines", waytotal.WaytotalOptions, waytotal.Waytotal, waytotal.SUFFIXES,
        lambda _: Collector, needs_step=False,
        example='"waytotal"',
    ),
    "rejected": Product(
        "map of where streamlines are dropped, with a volume for each reason", rejected.RejectedOptions,
        rejected.Rejected, (*maps.SUFFIXES, maps.MIF), rejected.collector_of, of_dropped=True, needs_step=False,
        example='"rejected.nii.gz"',
    ),
}


def register(name: str, row: Method | StoppingRule | Product | OrientationSource, *modules: str) -> None:
    """Add a direction getter, a stopping rule or a source of directions from a module outside this package.

    Call it where the module is imported, not in a function: processes that help a run import the module too. A script
    starts its runs under ``if __name__ == "__main__":``.

    Parameters
    ----------
    name : str
        Its name, as for ``dg`` or ``stopping``; of a source or a product, the option that names the file.
    row : Method, StoppingRule, Product or Source
        Its description.
    *modules : str
        Names of other modules that have its kernel functions, if they are not of the same package as the caller.

    Raises
    ------
    ParameterError
        If the name is taken or cannot be one, if a product has no option of its name, or if a field of its options is
        not an option.

    Examples
    --------
    A direction getter like ``prob``, whose steps turn by at most 10 degrees unless another angle is given:

    >>> from dataclasses import replace
    >>> import tistreamlines as ts
    >>> from tistreamlines.tracking.registry import METHODS
    >>> prob = METHODS["prob"]
    >>> ts.register("narrow", replace(prob, title="narrow cone", defaults={**prob.defaults, "max_angle": 10.0}))
    >>> ts.Parameters(dg="narrow").max_angle
    10.0
    """
    tables: dict[type, dict[str, Any]] = {Method: METHODS, StoppingRule: STOPPING_RULES, Product: PRODUCTS}
    table = tables.get(type(row), SOURCES)
    caller = sys._getframe(1).f_globals["__name__"]
    if name in table and _REGISTERED.get(name) != plugins.module_name(caller):
        raise ParameterError(f"{name!r} is taken: give the {type(row).__name__} another name")
    if not isinstance(name, str) or not name.isidentifier():
        raise ParameterError(f"{name!r} cannot be an option of a command or a keyword: give letters, digits and _")
    if isinstance(row, Product) and name not in {f.name for f in fields(row.options)}:
        raise ParameterError(f"{row.options.__name__} has no option {name!r}, which is to name the file of the product")
    if not isinstance(row, OrientationSource):
        if wrong := [f.name for f in fields(row.options) if "option" not in f.metadata]:
            raise ParameterError(f"{row.options.__name__}.{wrong[0]} is no option: define it with option(...)")
        makes = row.make if isinstance(row, Product) else row.describe if isinstance(row, Method) else row.prepare
        modules = (makes.__module__, *modules)
    plugins.note([caller, *modules])
    _REGISTERED[name] = plugins.module_name(caller)
    table[name] = row


def default_method(source: str) -> str:
    """Return the first method of the registry that can follow a source: a key of SOURCES, or FITTED for a series."""
    able = set(OF_A_SERIES) if source == FITTED else {source}
    return next(name for name, row in METHODS.items() if able & set(row.follows))


def rule_for(names: Collection[str]) -> tuple[str | None, str]:
    """Return the stopping rule that options choose, and one of those that do; None if no option does.

    Parameters
    ----------
    names : collection of str
        The options that the user gives.

    Raises
    ------
    ParameterError
        If two of them choose different rules.
    """
    rows = STOPPING_RULES.items()
    able = {name: [rule for rule, row in rows if name in (*row.maps, *row.chosen_by)] for name in names}
    choices = {name: rules for name, rules in able.items() if rules}
    common = [rule for rule in STOPPING_RULES if all(rule in rules for rules in choices.values())]
    if not choices:
        return None, ""
    if common:
        return common[0], next(iter(choices))
    first, other = next(
        ((first, other) for first, other in combinations(choices, 2) if not {*choices[first]} & {*choices[other]}),
        tuple(choices)[:2],
    )
    raise ParameterError(
        f"{flag(first)} chooses the stopping rule {listed(choices[first])}, and {flag(other)} "
        f"{listed(choices[other])}: give one of the two"
    )


def owners(name: str) -> dict[str, tuple[str, ...]]:
    """Return the methods ('dg') and stopping rules ('stopping') that have an option, unless all have it."""
    tables = (("dg", METHODS), ("stopping", STOPPING_RULES))
    rows = tuple((chooser, key, row.options) for chooser, table in tables for key, row in table.items())
    having, sizes = _owners_in(rows).get(name, {}), {chooser: len(table) for chooser, table in tables}
    return {chooser: keys for chooser, keys in having.items() if len(keys) < sizes[chooser]}


@cache
def _owners_in(rows: tuple[tuple[str, str, type], ...]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return the keys of the rows that have each option, by option and 'dg' or 'stopping'."""
    owners: dict[str, dict[str, tuple[str, ...]]] = {}
    for chooser, key, options in rows:
        for name in _names_in(options):
            having = owners.setdefault(name, {})
            having[chooser] = (*having.get(chooser, ()), key)
    return owners


@cache
def _names_in(options: type) -> frozenset[str]:
    """Return the names of the options of a class."""
    return frozenset(field.name for field in fields(options))


def describe_default(name: str) -> str:
    """Describe the default of an option for each method or model: '60 for boot, 20 for prob or det'."""
    keys: dict[str, list[str]] = {}
    for table in (METHODS, MODELS):
        for key, row in table.items():
            if name in row.defaults:
                value = row.defaults[name]
                keys.setdefault(value if isinstance(value, str) else f"{value:g}", []).append(key)
    return ", ".join(f"{value} for {listed(names)}" for value, names in keys.items())


def citations(dg: str, model: str | None) -> list[str]:
    """Return the references of a method, of its model, if any, and of the parts that every run uses."""
    names = [*METHODS[dg].references, *(MODELS[model].references if model else ()), *ALWAYS]
    return [REFERENCES[name] for name in names]


plugins.import_installed()  # at the end, since these modules import this one
