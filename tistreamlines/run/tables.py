"""From the inputs to tables and seeds: fits what method, stopping rule and seeds need, and makes their tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import wait
from dataclasses import dataclass
from functools import cached_property

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
from ..io.cache import Results
from ..io.picture import grey
from ..io.samples import Samples
from ..options.definitions import is_word
from ..options.option_groups import BESIDE_A_MASK, SEED_FA
from ..options.parameters import Parameters
from ..space.batch import Space
from ..tracking.registry import METHODS, STOPPING_RULES
from ..tracking.seeding.seeds import Seeds
from ..tracking.sources import SOURCES
from ..tracking.tables.inputs import GetterInputs, KernelTables, OrientationFunctions, Signals
from ..tracking.tables.packing import pack_tables, unpack_tables
from ..tracking.weights.fods import Fods
from ..tracking.weights.options import are_followed
from .followed import fods_of
from .inputs import Inputs, Map, Mask, own_mask
from .log import Log
from .needs import follows_signals
from .seeds import Region, seeds_of
from .setup import arch_of_fits
from .spec import with_order

Followed = Signals | OrientationFunctions | Samples


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


class Preparation:
    """Makes tables and seeds from the inputs, and makes each fit that they need once.

    Parameters
    ----------
    inputs : what was read.
    parameters : all options.
    log : receives the stages ``fit`` and ``prepare``, notes and warnings.
    cache : where fits are kept, if there is one.
    causes : what tables depend on, among this the hashes of the inputs by name; empty without a cache.
    """

    def __init__(
        self, inputs: Inputs, parameters: Parameters, log: Log, cache: Results | None, causes: Mapping[str, object]
    ) -> None:
        self._inputs, self._parameters, self._log, self._cache = inputs, parameters, log, cache
        self._fits: Fits | None = None
        if inputs.dwi is None:
            return
        self._parameters = parameters = with_order(parameters, inputs.dwi.gtab, log.note, str(inputs.dwi.path))
        known = {name: causes.get(name) for name in ("dwi", "bvals", "bvecs", "mask")}
        known |= {"frame": inputs.frames.get("bvecs", {}).get("frame", ""), "shells": parameters.shells}
        arch, tells = arch_of_fits(parameters), (log.note, log.warn, log.watcher.fitted)
        self._fits = Fits(inputs.dwi, inputs.mask, parameters.threads, known, cache, *tells, arch)

    def make(self, step_mm: float, region: Region | None, *, anywhere: bool) -> tuple[Tables, Seeds, Fods | None]:
        """Return tables, seeds, and the FODs or samples that streamlines follow, if an option asks for them.

        Parameters
        ----------
        step_mm : the step size.
        region : that of the seeds, if it is known.
        anywhere : whether the tables serve seeds at any place.
        """
        inputs, parameters, log, space = self._inputs, self._parameters, self._log, self._inputs.space
        log.begin("prepare")
        sides, rule = tuple(space.voxel_sizes.tolist()), STOPPING_RULES[parameters.stopping]
        maps, fa = {**inputs.maps, **self._maps_of_fit()}, None if self._fits is None else self.anisotropy
        stop = rule.prepare(maps, self.anisotropy, parameters, sides)
        if doubt := rule.doubt(maps, fa, parameters):
            log.warn(doubt)
        region = region or self._seed_region()
        seeds = seeds_of(parameters, space, region, step_mm, log.note, log.warn)
        follows, placement = self._followed(), None
        if (tissues := rule.tissues(inputs.maps)) is not None:  # those of the fit lie where its fibres do
            from ..tracking.stopping.tissues import placement_doubt

            placement = thread_pool("placement", 1).submit(placement_doubt, tissues, follows, fa, space)
        followed = fods_of(follows, space, parameters) if are_followed(parameters) else None
        seeds.follow(followed)
        # seeds in fixels may lie in all voxels of a brain, and have no places that may be wrong
        reach: Array | Callable[[], Array] = seeds.reach if parameters.seed_dynamic is not None else seeds.reach()
        if anywhere:
            reach = _points_of_all(follows)
        prepared = self._tables_of(GetterInputs(follows, stop, reach, parameters.sphere, step_mm, sides))
        if placement is not None and (doubt := placement.result()):
            log.warn(doubt)
        wanted = parameters.report is not None or self._cache is not None
        background = background_of(inputs.dwi) if wanted and inputs.dwi is not None else None
        return Tables(prepared, space, region, inputs.frames, self._chosen(), background), seeds, followed

    @cached_property
    def _coefficients(self) -> Map:
        """Coefficients (x, y, z, n) of the fitted model."""
        assert self._fits is not None and self._parameters.model is not None
        self._log.begin("fit")
        values = self._fits.coefficients(self._parameters.model, self._parameters)
        self._log.begin("prepare")
        return values

    @cached_property
    def _anisotropy(self) -> Map:
        assert self._fits is not None
        if self._cache is not None or not self._follows_model:
            return self._fits.anisotropy()
        assert self._fits.mask is not None  # of which both fits have need
        fa = thread_pool("anisotropy", 1).submit(self._fits.anisotropy)
        try:
            _ = self._coefficients  # meanwhile: a part of this is done by one thread or by a GPU
        finally:
            wait([fa])
        return fa.result()

    def anisotropy(self) -> Map:
        """Return FA, (x, y, z)."""
        return self._anisotropy

    @property
    def _follows_model(self) -> bool:
        """Whether the method follows a model that is fitted to the series."""
        return self._inputs.oriented is None and not follows_signals(self._parameters)

    def _followed(self) -> Followed:
        """Return what the method follows: a given source, the signals, or coefficients of a fitted model."""
        inputs = self._inputs
        if inputs.oriented is not None:
            return SOURCES[self._parameters.source].follows(inputs.oriented, self._parameters)
        if self._follows_model:
            return OrientationFunctions("sh", self._coefficients, BASIS)
        assert inputs.dwi is not None
        return Signals(*on_shell(inputs.dwi.data, inputs.dwi.gtab, shell_of_models))

    def _maps_of_fit(self) -> dict[str, Map]:
        """Return the maps of the stopping rule that are the shares of tissues by the model's fit, (x, y, z, 3)."""
        parameters, dwi, fits = self._parameters, self._inputs.dwi, self._fits
        names = [name for name in STOPPING_RULES[parameters.stopping].maps if is_word(name, getattr(parameters, name))]
        if not names:
            return {}
        from ..tracking.stopping.tissues import NAMES

        assert fits is not None and dwi is not None and parameters.model is not None
        tissues_of = MODELS[parameters.model].tissues
        known = tissues_of(parameters, dwi.gtab) if tissues_of is not None else ()
        if missing := [name for tissue, name in zip(TISSUES, NAMES, strict=True) if tissue not in known]:
            raise InputError(
                f"{dwi.path}: the fit of {parameters.model} has no {' and no '.join(missing)}, and --stopping "
                f"{parameters.stopping} needs three tissues: give two or more shells besides b = 0, the responses of "
                "all three, or tissue fractions in files"
            )
        _ = self._coefficients  # whose fit finds the shares
        return dict.fromkeys(names, np.stack([fits.shares[tissue] for tissue in TISSUES], axis=-1))

    def _seed_region(self) -> Region:
        """Return the voxels in which seeds are placed.

        There are none if seeds or balls are given, or an interface or surfaces without a mask.
        """
        inputs, region = self._inputs, self._inputs.seeded
        names = ("seeds", "seed_sphere", "seed_dynamic", *(BESIDE_A_MASK if region is None else ()))
        if any(getattr(self._parameters, name) is not None for name in names):
            return Region(np.empty((0, 3), np.int32), np.empty(0, np.float32), inputs.space.affine)
        if region is None:
            region = own_mask(inputs.oriented, self._parameters)
        if region is None:
            assert self._fits is not None
            above = self.anisotropy() > SEED_FA
            region = self._fits.mask & above
        if not region.any():
            name = "" if inputs.dwi is None else f"{inputs.dwi.path}: "
            raise InputError(f"{name}no voxel of the mask has FA > {SEED_FA}; give --seed-mask or --seeds")
        return region_of(region, inputs.seed_space or inputs.space)

    def _tables_of(self, data: GetterInputs) -> KernelTables:
        """Make the tables of the method from its input; name the series in an error about its signals."""
        try:
            return METHODS[self._parameters.dg].prepare(data, self._parameters)
        except InputError as error:
            if not isinstance(data.follows, Signals) or self._inputs.dwi is None:
                raise
            raise InputError(f"{self._inputs.dwi.path}: {error.on_command_line}") from error

    def _chosen(self) -> Json:
        """Return the shells and the order that are fitted, and what follows from the order and the fit."""
        if self._fits is None:
            return {}
        parameters = self._parameters
        names = () if parameters.model is None else ("sh_order", *METHODS[parameters.dg].low_order)
        order = {name: getattr(parameters, name) for name in names}
        return {"shells": self._inputs.b_values, **order, **self._fits.chosen}


def region_of(seeded: Mask | Map, space: Space) -> Region:
    """Return the voxels of a mask or a map of seeds on its grid."""
    voxels = np.argwhere(seeded).astype(np.int32)
    return Region(voxels, seeded[tuple(voxels.T)].astype(np.float32), space.affine)


def background_of(dwi: nifti.Dwi) -> npt.NDArray[np.uint8] | None:
    """Return the mean b0 for pictures, (x, y, z); None if there is no b0."""
    if not np.any(dwi.gtab.b0s_mask):
        return None
    return grey(np.nan_to_num(dwi.mean_b0))


def _points_of_all(follows: Followed) -> npt.NDArray[np.float64]:
    """Return a point in each voxel with values, (m, 3) voxel coordinates."""
    if isinstance(follows, Samples):
        inside = follows.mask
    else:
        values = follows.data if isinstance(follows, Signals) else follows.values
        inside = values.any(axis=-1)
    return np.argwhere(inside).astype(np.float64) + 0.25  # between the voxel and the next ones
