"""From the inputs to the tables and seeds of the engine: reads inputs, fits models, makes tables.

Tables of an earlier run are read from the cache, if there is one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cache as cached
from functools import partial

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json
from ..devices.threads import thread_pool
from ..errors import InputError
from ..fit.fits import Fits
from ..fit.models import BASIS, MODELS
from ..fit.shells import on_shell, shell_of_models
from ..fit.tissues import TISSUES
from ..io import nifti
from ..io.cache import Cache, Results
from ..io.picture import grey
from ..io.samples import Samples
from ..options.definitions import input_names, is_word, names_affecting
from ..options.option_groups import BESIDE_A_MASK, SEED_FA
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.growth.settings import Settings
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.seeding.seeds import Seeds
from ..tracking.sources import SOURCES
from ..tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals
from ..tracking.tables.packing import pack_tables, unpack_tables
from ..tracking.weights.fods import Fods
from ..tracking.weights.options import are_followed
from .followed import fods_of
from .inputs import (
    Headers,
    Inputs,
    Map,
    Mask,
    Series,
    doubts_of_places,
    follows_signals,
    hashing,
    inputs_of_tables,
    open_headers,
    own_mask,
    read,
    read_places,
)
from .log import Log
from .memory import Memory, once
from .seeds import Region, seeds_of
from .setup import arch_of_fits, settings_on
from .spec import Spec, describe, with_order

Followed = Signals | OrientationFunctions | Samples
MAPS_OF_PLACES = ("seed_mask", "seed_image")
# options that name places of seeds; tables in memory do not depend on them
PLACES = ("seeds", "seed_sphere", *MAPS_OF_PLACES)
# options on which tables depend, but not what is read of the inputs
LATE = frozenset((
    "max_angle", "step_size", "stop_threshold", "fa_threshold", "cutoff", "power", "samples", "trials", "pmf_threshold",
    "relative_peak_threshold", "min_separation_angle", "max_directions", "backtrack", "crop_at_gmwmi",
    "a region of seeds",
))
Describe = Callable[[], Spec]


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables that follow from the inputs. They serve other seeds too, so the cache can keep them.

    Attributes
    ----------
    prepared : tables of the method and the stopping rule.
    space : grid of the series or the orientations.
    region : voxels in which seeds are placed.
    frames : axes of the directions of each input.
    chosen : what the fit of the model has chosen from the data.
    background : (x, y, z) uint8, the mean b0 for pictures, if there is one and a report or the cache needs it.
    """

    prepared: KernelTables
    space: Space
    region: Region
    frames: Json
    chosen: Json
    background: npt.NDArray[np.uint8] | None

    def packed(self) -> tuple[dict[str, Array], Json]:
        """Return arrays, and values for JSON."""
        arrays, values = pack_tables(self.prepared, self.space)
        arrays |= {f"region_{name}": part for name, part in self.region._asdict().items()}
        if self.background is not None:
            arrays["background"] = self.background
        return arrays, values | {"frames": self.frames, "chosen": self.chosen}

    @classmethod
    def unpacked(cls, arrays: Mapping[str, Array], values: Json) -> Tables:
        """Undo :meth:`packed`; raise ValueError, TypeError or KeyError if that is not what it has made."""
        prepared, space = unpack_tables(arrays, values)
        region = Region(*(arrays[f"region_{name}"] for name in Region._fields))
        types = [(part.dtype, part.shape) for part in region]
        count = len(region.weights)
        if types != [(np.int32, (count, 3)), (np.float32, (count,)), (np.float64, (4, 4))]:
            raise ValueError(f"voxels of seeds, their weights and their affine are {types}")
        same = np.array_equal(region.affine, space.affine)
        if (region.voxels < 0).any() or (same and (region.voxels >= space.shape).any()):
            raise ValueError("region has voxels outside the image")
        background = arrays.get("background")
        if background is not None and (background.dtype, background.shape) != (np.uint8, space.shape):
            raise ValueError(f"background is {background.dtype} {background.shape}, not uint8 {space.shape}")
        return cls(prepared, space, region, values["frames"], values["chosen"], background)


@dataclass(frozen=True, eq=False)
class Plan:
    """The tables and the seeds of a run.

    Attributes
    ----------
    tables : what is made of the inputs.
    seeds : the seeds.
    followed : the FODs, or the samples of fibres, that streamlines follow, if an option asks for them.
    settings : lengths in steps, and how streamlines are grown.
    hashes : sha256 of each input, by the name of its argument or option.
    """

    tables: Tables
    seeds: Seeds
    followed: Fods | None
    settings: Settings
    hashes: dict[str, str]

    @property
    def prepared(self) -> KernelTables:
        """Tables of the method and the stopping rule."""
        return self.tables.prepared

    @property
    def space(self) -> Space:
        """Grid of the series or the orientations."""
        return self.tables.space


def make_plan(
    series: Series, parameters: Parameters, log: Log, precompile: Callable[[Describe], object] = lambda _: None,
    memory: Memory | None = None,
) -> Plan:
    """Read the inputs and prepare tables and seeds, or read the tables from the cache.

    Parameters
    ----------
    series : paths or arrays of ``dwi``, ``bvals`` and ``bvecs``, not pipes; empty if :func:`needs_series` finds no need
        of them.
    parameters : all options.
    log : receives the stages ``load``, ``fit`` and ``prepare``, notes and warnings.
    precompile : called when the headers are open, with a function that describes the run.
    memory : what earlier runs of this process have made; then the cache on disk is not used.
    """
    sources = inputs_of_tables(parameters)
    later = {name: source for name, source in parameters.inputs().items() if name not in sources}
    folder, shared = parameters.cache_dir, parameters.shared_cache
    cache: Results | None = memory
    if memory is None and folder is not None:
        cache = Cache(folder, log.watcher.note, shared)
    cached = cache is not None and not are_followed(parameters)  # tables that are kept have not what was followed
    log.begin("load")

    known_files = {} if memory is None else memory.hashes
    hashes, hashes_of_later = (hashing(files, known_files) for files in ({**series, **sources}, later))
    # the maker of the tables checks their inputs
    known = {str(source) for source in (*series.values(), *sources.values())}
    elsewhere = {name: source for name, source in later.items() if str(source) not in known}
    places = {name: sources.pop(name) for name in MAPS_OF_PLACES if name in sources and memory is not None}
    log.tell([], doubts_of_places(elsewhere | places))
    notes, warnings = len(log.notes), len(log.warnings)  # what does not follow from the tables
    causes = {**hashes(), **_causes(parameters)} if cache else {}
    if memory is not None:  # whose tables serve seeds at any place
        causes = {name: cause for name, cause in causes.items() if name not in PLACES}
        causes["a region of seeds"] = all(getattr(parameters, name) is None for name in PLACES)
    followed, kept = None, cache.load("tables", causes, _unpacked) if cache and cached else None
    if kept is not None:
        tables, *messages = kept
        settings = settings_on(tables.space, parameters)
        log.tell(*messages)
        region = _region_apart(parameters, tables.space, hashes, log, memory) or tables.region
        seeds = seeds_of(parameters, tables.space, region, settings.step_mm)
    else:
        headers = open_headers(series, parameters, log)
        precompile(partial(describe, parameters, headers))
        inputs = _read(headers, series, parameters, log, causes, memory)
        settings = settings_on(inputs.space, parameters)
        log.tell([], doubts_of_places({**series, **sources}))
        known_hashes = hashes() if cache else {}
        before = len(log.notes), len(log.warnings)
        region = _region_apart(parameters, inputs.space, hashes, log, memory)
        after = len(log.notes), len(log.warnings)
        tables, seeds, followed = _prepare(
            inputs, parameters, settings.step_mm, known_hashes, cache, log, region, anywhere=memory is not None
        )
        if cache and cached:
            log.begin("prepare")
            arrays, values = tables.packed()
            messages = {  # without those of the region, which other runs do not have
                "notes": log.notes[notes : before[0]] + log.notes[after[0] :],
                "warnings": log.warnings[warnings : before[1]] + log.warnings[after[1] :],
            }
            cache.store("tables", causes, arrays, values | messages)
            if memory is not None and (kept := memory.load("tables", causes, _unpacked)) is not None:
                tables = kept[0]  # the object that later runs have, too, so that they can have its engine
    if memory is not None:
        seeds.reach()  # which raises an error if places of seeds lie outside the image
    return Plan(tables, seeds, followed, settings, {**hashes(), **hashes_of_later()})


def _read(
    headers: Headers, series: Series, parameters: Parameters, log: Log, causes: Json, memory: Memory | None
) -> Inputs:
    """Read the inputs, or take those of the run before, with their notes and warnings."""
    early = {name: cause for name, cause in causes.items() if name.removesuffix(" given") not in LATE}
    apart = memory is not None
    return once(memory, "inputs", early, log, lambda: read(headers, series, parameters, log, places_apart=apart))


def _region_apart(
    parameters: Parameters, space: Space, hashes: Callable[[], Mapping[str, str]], log: Log, memory: Memory | None
) -> Region | None:
    """Return the voxels of a mask or a map of seeds, if there is a memory, whose tables and inputs have none."""
    given = [name for name in MAPS_OF_PLACES if getattr(parameters, name) is not None]
    if memory is None or not given:
        return None
    files = {name: (hashes()[name], str(getattr(parameters, name))) for name in given}
    causes = space.shape, space.affine.tobytes(), files
    return memory.once("region", causes, log, lambda: _region_of(*read_places(parameters, space, log)))


def _region_of(seeded: Mask | Map | None, space: Space) -> Region:
    """Return the voxels of a mask or a map of seeds on its grid."""
    assert seeded is not None
    voxels = np.argwhere(seeded).astype(np.int32)
    return Region(voxels, seeded[tuple(voxels.T)].astype(np.float32), space.affine)


def _unpacked(arrays: Mapping[str, Array], values: Json) -> tuple[Tables, list[str], list[str]]:
    """Return tables, and the notes and warnings of the run that made them."""
    return Tables.unpacked(arrays, values), values["notes"], values["warnings"]


def _prepare(
    inputs: Inputs, parameters: Parameters, step_mm: float, hashes: Mapping[str, str], cache: Results | None, log: Log,
    region: Region | None, *, anywhere: bool,
) -> tuple[Tables, Seeds, Fods | None]:
    """Fit what method, stopping rule and seeds need; return tables, seeds and the FODs that are followed.

    With ``anywhere``, the tables serve seeds at any place; ``region`` is that of the seeds, if it is known.
    """
    if inputs.dwi is not None:
        parameters = with_order(parameters, inputs.dwi.gtab, log.note, str(inputs.dwi.path))
    known = {name: hashes.get(name) for name in ("dwi", "bvals", "bvecs", "mask")}
    known |= {"frame": inputs.frames.get("bvecs", {}).get("frame", ""), "shells": parameters.shells}
    fits = None
    if inputs.dwi is not None:
        arch, tells = arch_of_fits(parameters), (log.note, log.warn, log.watcher.fitted)
        fits = Fits(inputs.dwi, inputs.mask, parameters.threads, known, cache, *tells, arch)
    log.begin("prepare")

    @cached
    def coefficients() -> npt.NDArray[np.float32]:
        assert fits is not None and parameters.model is not None
        log.begin("fit")
        values = fits.coefficients(parameters.model, parameters)
        log.begin("prepare")
        return values

    @cached
    def anisotropy() -> npt.NDArray[np.float32]:
        assert fits is not None
        if cache is not None or not _fits_model(inputs, parameters):
            return fits.anisotropy()
        assert fits.mask is not None  # of which both fits have need
        fa = thread_pool("anisotropy", 1).submit(fits.anisotropy)
        try:
            coefficients()  # meanwhile: a part of this is done by one thread or by a GPU
        finally:
            wait([fa])
        return fa.result()

    sides = tuple(inputs.space.voxel_sizes.tolist())
    rule = STOPPING_RULES[parameters.stopping]
    maps = {**inputs.maps, **_maps_of_fit(inputs, fits, coefficients, parameters)}
    stop = rule.prepare(maps, anisotropy, parameters, sides)
    if doubt := rule.doubt(maps, None if fits is None else anisotropy, parameters):
        log.warn(doubt)
    region = region or _seed_region(inputs, fits, anisotropy, parameters)
    seeds = seeds_of(parameters, inputs.space, region, step_mm, log.note, log.warn)
    follows = _followed(inputs, coefficients, parameters)
    placement = None
    if (tissues := rule.tissues(inputs.maps)) is not None:  # those of the fit lie where its fibres do
        from ..tracking.stopping.tissues import placement_doubt

        fa = None if fits is None else anisotropy
        placement = thread_pool("placement", 1).submit(placement_doubt, tissues, follows, fa, inputs.space)
    followed = fods_of(follows, inputs.space, parameters) if are_followed(parameters) else None
    seeds.follow(followed)
    # seeds in fixels may lie in all voxels of a brain, and have no places that may be wrong
    reach: Array | Callable[[], Array] = seeds.reach if parameters.seed_dynamic is not None else seeds.reach()
    if anywhere:
        reach = _points_of_all(follows)
    data = GetterInputs(follows, stop, reach, parameters.sphere, step_mm, sides)
    prepared = _tables_of(data, inputs, parameters)
    if placement is not None and (doubt := placement.result()):
        log.warn(doubt)
    chosen = _chosen(inputs, parameters) | ({} if fits is None else fits.chosen)
    wanted = parameters.report is not None or cache is not None
    background = background_of(inputs.dwi) if wanted and inputs.dwi is not None else None
    return Tables(prepared, inputs.space, region, inputs.frames, chosen, background), seeds, followed


def _points_of_all(follows: Followed) -> npt.NDArray[np.float64]:
    """Return a point in each voxel with values, (m, 3) voxel coordinates."""
    if isinstance(follows, Samples):
        inside = follows.mask
    else:
        values = follows.data if isinstance(follows, Signals) else follows.values
        inside = values.any(axis=-1)
    return np.argwhere(inside).astype(np.float64) + 0.25  # between the voxel and the next ones


def background_of(dwi: nifti.Dwi) -> npt.NDArray[np.uint8] | None:
    """Return the mean b0 for pictures, (x, y, z); None if there is no b0."""
    if not np.any(dwi.gtab.b0s_mask):
        return None
    return grey(np.nan_to_num(dwi.mean_b0))


def _chosen(inputs: Inputs, parameters: Parameters) -> Json:
    """Return the shells and the order that are fitted, and the defaults that follow from the order, for the record."""
    names = () if parameters.model is None else ("sh_order", *METHODS[parameters.dg].low_order)
    chosen = {name: getattr(parameters, name) for name in names}
    return {} if inputs.dwi is None else {"shells": inputs.b_values, **chosen}


def _seed_region(
    inputs: Inputs, fits: Fits | None, anisotropy: Callable[[], npt.NDArray[np.float32]], parameters: Parameters
) -> Region:
    """Return the voxels in which seeds are placed.

    There are none if seeds or balls are given, or an interface or surfaces without a mask.
    """
    space = inputs.space if inputs.seed_space is None else inputs.seed_space
    region = inputs.seeded
    names = ("seeds", "seed_sphere", "seed_dynamic", *(BESIDE_A_MASK if region is None else ()))
    if any(getattr(parameters, name) is not None for name in names):
        return Region(np.empty((0, 3), np.int32), np.empty(0, np.float32), inputs.space.affine)
    if region is None:
        region = own_mask(inputs.oriented, parameters)
    if region is None:
        assert fits is not None
        above = anisotropy() > SEED_FA
        region = fits.mask & above
    if not region.any():
        name = "" if inputs.dwi is None else f"{inputs.dwi.path}: "
        raise InputError(f"{name}no voxel of the mask has FA > {SEED_FA}; give --seed-mask or --seeds")
    return _region_of(region, space)


def _tables_of(data: GetterInputs, inputs: Inputs, parameters: Parameters) -> KernelTables:
    """Make the tables of the method from its input; name the series in an error about its signals."""
    try:
        return METHODS[parameters.dg].prepare(data, parameters)
    except InputError as error:
        if not isinstance(data.follows, Signals) or inputs.dwi is None:
            raise
        raise InputError(f"{inputs.dwi.path}: {error.on_command_line}") from error


def _maps_of_fit(
    inputs: Inputs, fits: Fits | None, fit: Callable[[], object], parameters: Parameters
) -> dict[str, npt.NDArray[np.float32]]:
    """Return the maps of the stopping rule that are the shares of tissues by the model's fit, (x, y, z, 3)."""
    names = [name for name in STOPPING_RULES[parameters.stopping].maps if is_word(name, getattr(parameters, name))]
    if not names:
        return {}
    from ..tracking.stopping.tissues import NAMES

    assert fits is not None and inputs.dwi is not None and parameters.model is not None
    tissues_of = MODELS[parameters.model].tissues
    known = tissues_of(parameters, inputs.dwi.gtab) if tissues_of is not None else ()
    if missing := [name for tissue, name in zip(TISSUES, NAMES, strict=True) if tissue not in known]:
        raise InputError(
            f"{inputs.dwi.path}: the fit of {parameters.model} has no {' and no '.join(missing)}, and --stopping "
            f"{parameters.stopping} needs three tissues: give two or more shells besides b = 0, the responses of all "
            "three, or tissue fractions in files"
        )
    fit()
    return dict.fromkeys(names, np.stack([fits.shares[tissue] for tissue in TISSUES], axis=-1))


def _fits_model(inputs: Inputs, parameters: Parameters) -> bool:
    """Return whether the method follows a model that is fitted to the series."""
    return inputs.oriented is None and not follows_signals(parameters)


def _followed(
    inputs: Inputs, coefficients: Callable[[], npt.NDArray[np.float32]], parameters: Parameters
) -> Followed:
    """Return what the method follows: a given source, the signals, or coefficients (x, y, z, n) of a fitted model."""
    if inputs.oriented is not None:
        return SOURCES[parameters.source].follows(inputs.oriented, parameters)
    if not _fits_model(inputs, parameters):
        assert inputs.dwi is not None
        return Signals(*on_shell(inputs.dwi.data, inputs.dwi.gtab, shell_of_models))
    return OrientationFunctions("sh", coefficients(), BASIS)


def _causes(parameters: Parameters) -> Json:
    """Return the options that the tables depend on, besides the inputs, which are identified by their content."""
    inputs = (*input_names(), *parameters.inputs())
    affecting = names_affecting("tables") - set(inputs)
    # a word in the place of a file has no content that is hashed
    causes = {name: value for name, value in parameters.as_dict().items() if name in affecting or is_word(name, value)}
    # a default may follow from the order of the fit
    causes |= {f"{name} given": parameters.gives(name) for name in METHODS[parameters.dg].low_order}
    if METHODS[parameters.dg].step_in_tables or STOPPING_RULES[parameters.stopping].step_in_tables or parameters.pft:
        causes["step_size"] = parameters.step_size
    return causes
