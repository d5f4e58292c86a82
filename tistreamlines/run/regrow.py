"""Streamlines of a run that are tracked again from their numbers, with the same bits."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy as np
import numpy.typing as npt

from ..errors import InputError, OutputError, ParameterError, TrackingError
from ..io.in_memory import refuse_arrays, source_of
from ..io.numbers import SUFFIX as NUMBERS
from ..io.numbers import Numbers, keys_of
from ..io.tables import write_numbers
from ..kernels.stop_reasons import Verdict
from ..option import several
from ..options.signatures import check_keywords, list_keywords
from ..space.batch import Batch, Groups
from ..tracking.engine.engine import Block, Engine
from ..tracking.growth.statistics import Statistics
from ..tracking.products.files import SIFT2, WeightProduct
from ..tracking.products.points.content import check_content
from ..tracking.seeding.seeds import Seeds
from ..tracking.selection.criteria import check_regions
from ..tracking.selection.places import Region, load_region, passes
from .log import Watcher
from .outputs import Outputs, check_names, reserved, taken_by
from .pipeline import start
from .products import Products
from .recipe import Recipe
from .result import TrackResult
from .run import SEEDS_AT_ONCE, Run
from .setup import bar_or

if TYPE_CHECKING:
    from typing import TypedDict

    from ..option import ImageLike

    class Running(TypedDict, total=False):
        """Where and how streamlines are tracked again."""

        arch: str
        compiler: str
        threads: int | None
        chunk_size: int | None
        memory_limit: float | None
        cache_dir: str | PathLike[str] | None


RUNNING = {
    "arch": "auto", "compiler": "auto", "threads": None, "chunk_size": None, "memory_limit": None, "cache_dir": None,
}
GAP = 1 << 14  # seeds between two that are tracked, from which on a new block of seeds begins
OUTSIDE = -1.0  # voxel coordinate of seeds between them, where no image is and no streamline starts


@list_keywords(RUNNING)
def regrow(
    recipe: str | PathLike[str], output: str | PathLike[str] | None = None, *,
    edge: Sequence[str] | Sequence[Sequence[str]] | None = None, node: str | Sequence[str] | None = None,
    include: ImageLike | Sequence[ImageLike] | None = None, exclude: ImageLike | Sequence[ImageLike] | None = None,
    rows: slice | npt.ArrayLike | None = None, force: bool = False, watcher: Watcher | None = None,
    progress: bool = False, **running: Unpack[Running],
) -> TrackResult:
    """Track streamlines of a run again, from their numbers, with the same bits.

    ``track`` keeps numbers in the place of points if its output ends in .npz. The record beside it says which inputs
    and options they belong to.

    Parameters
    ----------
    recipe : str or Path
        The numbers, .npz, or their record, .json.
    output : str or Path, optional
        Tractogram to write: .trx, .trk or .tck. Without an output, the streamlines are kept in memory.
    edge : pair of str, or list of pairs, optional
        Only streamlines that join two nodes of a parcellation, or those of several edges. The run needs ``connectome``
        and ``groups`` for this.
    node : str or list of str, optional
        Only streamlines with an end in this node, or one of these.
    include, exclude : str, Path, nibabel image, ndarray or list, optional
        Masks or spheres: only streamlines with a point in each of ``include``, and with none in any of ``exclude``.
    rows : slice or array_like, optional
        Only streamlines of these rows of the file, or where this is True.
    force : bool
        Overwrite existing files.
    watcher, progress : as for :func:`track`
        Messages.
    arch, compiler, threads, chunk_size, memory_limit, cache_dir : as for :func:`track`
        They do not change the streamlines.

    Returns
    -------
    TrackResult
        Counts and lengths of these streamlines, and a sequence of them.

    Raises
    ------
    InputError
        If the numbers, an input or this version are others than those of the run, or if no streamline is left.
    ParameterError
        If an option is invalid.
    OutputError
        If the output cannot be written.
    DeviceError
        If the requested device is not available.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> result = ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.npz", nseeds=100, arch="cpu")
    >>> again = ts.regrow("brain.npz", rows=slice(0, 10), arch="cpu")
    >>> len(again)
    10
    """
    check_keywords("regrow", running, RUNNING)
    stored, path = Recipe(Path(recipe)), None if output is None else Path(output)
    numbers = _selected(stored, edge, node, rows)
    parameters = stored.parameters({name: value for name, value in running.items() if value is not None})
    weights = None if numbers.weights is None else KnownWeights(numbers.weights, path)
    files = {} if weights is None or path is None else {SIFT2: weights.paths}
    taken = {file: "belongs to the numbers" for file in (stored.path, stored.path.with_suffix(".json"))}
    taken |= taken_by(stored.inputs.values())
    if path is not None and path.suffix.lower() == NUMBERS:
        raise OutputError(f"{path}: holds no points: give a .trx, .trk or .tck")
    outputs = replace(Outputs.of(path, parameters), products=files)

    def check() -> None:
        check_names(outputs, taken, force=force)
        if path is not None:
            check_content(parameters, path)

    with bar_or(watcher, progress=progress) as display, ExitStack() as held:
        if path is not None:
            held.enter_context(reserved(outputs, check))
        regions = _regions(include, exclude, display)
        try:
            run = start(stored.series, parameters.changed(force=force), display, makers={})
        except TrackingError as error:
            raise stored.refusal(error) from error
        stored.check(run.plan, run.kernels, run.record({}))
        check_regions(regions, run.plan.space)
        run.receiver.products = Products({} if weights is None else {SIFT2: weights})
        batches = _Regrowth(run, stored.path, numbers, regions, weights).batches()
        if path is not None:
            return run.save(path, batches)
        with closing(batches):
            kept = tuple(run.receiver.content.of(batch, lambda _: ()) for batch in run.count(batches))
        if weights is not None:
            weights.weights()
        return run.result(None, kept)


def _selected(
    stored: Recipe, edge: Sequence[str] | Sequence[Sequence[str]] | None, node: str | Sequence[str] | None,
    rows: slice | npt.ArrayLike | None,
) -> Numbers:
    """Return the numbers of the streamlines that the caller wants."""
    chosen = np.ones(len(stored.numbers), bool)
    if rows is not None:
        chosen[:] = False
        try:
            chosen[rows if isinstance(rows, slice) else np.asarray(rows)] = True
        except IndexError as error:
            raise ParameterError(f"rows are none of the {len(chosen):,} of {stored.path}: {error}") from error
    if edge is not None:
        edges = [edge] if len(edge) == 2 and all(isinstance(name, str) for name in edge) else edge
        if not edges or any(isinstance(pair, str) or len(pair) != 2 for pair in edges):
            raise ParameterError(f"edge is {edge!r}: give two nodes, or a list of pairs")
        chosen &= np.any([stored.rows_of_nodes([str(name) for name in pair], joined=True) for pair in edges], axis=0)
    if node is not None:
        chosen &= stored.rows_of_nodes([str(name) for name in several(node)], joined=False)
    if not chosen.any():
        count = len(stored.numbers)
        raise InputError(f"{stored.path}: none of its {count:,} streamlines is left: give other nodes or rows")
    return stored.numbers if chosen.all() else stored.numbers.select(np.flatnonzero(chosen))


def _regions(include: object, exclude: object, display: Watcher) -> dict[str, list[Region]]:
    """Read the regions, by the name of their option."""
    regions: dict[str, list[Region]] = {}
    for name, value in (("include", include), ("exclude", exclude)):
        sources = [source_of(name, source) for source in several(() if value is None else value)]
        refuse_arrays({f"{name} {number}": source for number, source in enumerate(sources, 1)})
        regions[name] = [load_region(name, source, display.note, display.warn) for source in sources]
    return regions


def _pass(batch: Batch, regions: Mapping[str, Sequence[Region]]) -> npt.NDArray[np.bool_]:
    """Return which streamlines of a batch have a point in all regions to include, and in none to exclude, (n,)."""
    kept = np.ones(len(batch), bool)
    for region in regions["include"]:
        kept &= passes(batch, region)
    for region in regions["exclude"]:
        kept &= ~passes(batch, region)
    return kept


def blocks(seeds: Seeds, wanted: npt.NDArray[np.int64]) -> Iterator[Block]:
    """Yield blocks of seeds, of which only the wanted numbers (n,), in ascending order, lie where they do in the run.

    Kernels count the random numbers of a chunk by the number of its first seed. So the seeds between those that are
    wanted are there, too, but outside the image.
    """
    first = 0
    while first < len(wanted):
        near = wanted[first : first + np.searchsorted(wanted[first:], wanted[first] + SEEDS_AT_ONCE)]
        apart = np.flatnonzero(np.diff(near) > GAP)
        near = near[: apart[0] + 1] if len(apart) else near
        begin, count = int(near[0]), int(near[-1] - near[0]) + 1
        items, points = (near - begin).astype(np.int32), np.full((count, 3), OUTSIDE, np.float32)
        points[items] = seeds.among(begin, items)
        yield points, begin, seeds.directions(begin, count)
        first += len(near)


@dataclass
class _Regrowth:
    """Tracks streamlines again.

    Parameters
    ----------
    run : that of the seeds.
    path : the numbers, for messages.
    numbers : of the streamlines.
    regions : those that streamlines pass by, or not, by the name of their option.
    weights : receives the rows of those that are kept, if they have weights.
    """

    run: Run
    path: Path
    numbers: Numbers
    regions: Mapping[str, Sequence[Region]]
    weights: KnownWeights | None

    def batches(self) -> Generator[Batch, None, None]:
        """Track, and count what is kept as a run of these seeds alone."""
        engine, log, keys, done = self.run.engine, self.run.log, self.numbers.keys, 0
        assert isinstance(engine, Engine)
        counted = self.run.receiver.statistics = Statistics()
        log.begin("track")
        counted.counts[0] = len(wanted := np.unique(self.numbers.seed_number).astype(np.int64))
        with closing(engine.track_blocks(blocks(self.run.plan.seeds, wanted))) as grown:  # type: ignore[type-var]
            for batch in grown:
                near = keys[done : done + len(batch)]  # both ascend
                here = np.isin(keys_of(batch.seed_number, batch.direction_number), near, assume_unique=True)
                batch = batch if here.all() else batch[np.flatnonzero(here)]
                self._check(batch, done)
                rows = np.arange(done, done + len(batch))
                done += len(batch)
                log.watcher.progress(done, len(keys), done)
                if not (kept := _pass(batch, self.regions)).all():
                    batch, rows = batch[np.flatnonzero(kept)], rows[kept]
                if self.weights is not None:
                    self.weights.rows.append(rows)
                counted.stop_reasons[:] += np.bincount(batch.stop_reasons.ravel(), minlength=len(counted.stop_reasons))
                counted.verdicts[Verdict.ACCEPTED] += len(batch)
                yield replace(batch, groups=tuple(Groups(g.names, g.numbers[rows]) for g in self.numbers.groups))
        if done < len(keys):
            raise self._differs(done)
        if not counted.verdicts[Verdict.ACCEPTED]:
            log.warn("no streamline passes by the regions as --include and --exclude ask for")

    def _check(self, batch: Batch, done: int) -> None:
        """Raise an InputError unless a batch has the streamlines from row ``done`` on, with as many points."""
        rows = slice(done, done + len(batch))
        expected = self.numbers.select(rows)
        same = keys_of(batch.seed_number, batch.direction_number) == expected.keys
        same &= batch.whole_lengths == expected.points
        if not same.all():
            raise self._differs(done + int(np.argmin(same)))

    def _differs(self, row: int) -> InputError:
        """Return the error about the streamline of a row, which did not grow as in the run."""
        seed, direction = int(self.numbers.seed_number[row]), int(self.numbers.direction_number[row])
        return InputError(
            f"{self.path}: the streamline of seed {seed}, direction {direction}, does not grow as it did: this version "
            "places seeds or selects streamlines in another way: use that of the record"
        )


@dataclass(frozen=True, eq=False)
class Weights:
    """Weights of streamlines that are tracked again, (n,)."""

    weights: npt.NDArray[np.float64]


class KnownWeights(WeightProduct):
    """Weights that are known by the numbers of streamlines, written beside the tractogram as those of SIFT2 are.

    Parameters
    ----------
    known : (n,) of all streamlines that are tracked again.
    output : the tractogram, if there is one.

    Attributes
    ----------
    rows : of those that are kept, part by part.
    """

    needs_points = False

    def __init__(self, known: npt.NDArray[np.float32], output: Path | None) -> None:
        super().__init__(*(() if output is None else (output.with_name(f"{output.stem}_weights.txt"),)))
        self._known, self.rows = known, [np.empty(0, np.int64)]

    def add(self, batch: Batch) -> None:
        """Do nothing: rows are added where streamlines are tracked."""

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weight of each streamline that is kept, (n,)."""
        self.value = Weights(self._known[np.concatenate(self.rows)].astype(float))
        return self.value.weights

    def write(self, *, force: bool) -> None:
        """Write the weights."""
        for path in self.paths:
            write_numbers(path, self.weights(), force=force)
