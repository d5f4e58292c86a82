"""Values, weights, groups and nodes, which colour and divide the streamlines of a page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..aliases import Array, Json
from ..errors import InputError
from ..io.tables import faint, load_weights
from ..io.tractograms import StoredGroup
from ..option import ImageLike
from ..options.parameters import Parameters
from ..space.batch import Batch, Groups, Space
from ..tracking.products.connectome.connectome import Connectomes
from ..tracking.products.connectome.matrix import UNWEIGHTED, Matrix
from ..tracking.products.files import first_of
from ..tracking.products.samples.sampler import Sampler
from ..tracking.registry import PRODUCTS
from .matrix import COUNT

WEIGHTS = "weights"
OF_POINTS, OF_STREAMLINES = " (at points)", " (of streamlines)"  # behind a name that values of both kinds have
OF_FILE = " (file)"  # behind the name of values of the file that is also that of a map or of weights
WINDOW = (1.0, 99.0)  # percentiles of values, between which the colours change at first
MOST_SETS = 12  # of values at points, each of which takes megabytes of a page
MOST_NODES = 1000  # of which each measure takes three megabytes
NO_GRID = Space(np.eye(4), (1, 1, 1))


@dataclass(frozen=True, eq=False)
class Values:
    """Numbers of points, or of streamlines, which become colours.

    Parameters
    ----------
    name : what they are.
    of_points : whether there is a number for each point.
    numbers : (n,) float32, which may be NaN.
    """

    name: str
    of_points: bool
    numbers: Array

    @property
    def window(self) -> tuple[float, float]:
        """The numbers between which the colours change at first."""
        known = self.numbers[np.isfinite(self.numbers)].astype(float)
        if not len(known):
            return 0.0, 1.0
        for low, high in (np.percentile(known, WINDOW), (known.min(), known.max())):
            if low < high:
                return float(low), float(high)
        half = max(abs(float(known[0])) / 1000, 0.5)
        return float(known[0]) - half, float(known[0]) + half


@dataclass(frozen=True, eq=False)
class Extras:
    """Facts that a page shows of streamlines besides their directions; see :class:`ExtraMaker`.

    Parameters
    ----------
    values : their numbers; maps and weights, which the user chooses, come first.
    begins_with_values : whether the first of them colour the streamlines at first.
    groups : of the file.
    shown : names of the groups that are shown at first; all if there are none.
    matrix : of the streamlines of the whole file.
    weighted : whether they are weighted in it.
    nodes : (n, 2), the nodes of both ends, from 1 on; 0 for none.
    doubts : why they may be wrong.
    """

    values: Sequence[Values] = ()
    begins_with_values: bool = False
    groups: Sequence[StoredGroup] = ()
    shown: Sequence[str] = ()
    matrix: Matrix | None = None
    weighted: bool = False
    nodes: Array | None = None
    doubts: Sequence[str] = ()


class ExtraMaker:
    """Makes the :class:`Extras` of streamlines while all of them are read.

    Parameters
    ----------
    title : name of the tractogram, for messages.
    maps : 3-D images, sampled along the streamlines.
    weights : file with a number for each streamline.
    groups : function of row numbers that returns the groups of the file.
    shown : names of groups that are shown at first.
    labels, nodes : the parcellation whose matrix is shown, and options of it, see :func:`connectomes_of`.
    """

    def __init__(
        self, title: str, *, maps: Sequence[ImageLike] = (), weights: str | None = None,
        groups: Callable[[Array], Sequence[StoredGroup]] = lambda rows: (), shown: Sequence[str] = (),
        labels: str | None = None, nodes: Json | None = None,
    ) -> None:
        self._title, self._groups, self._shown = title, groups, shown
        self._connectomes = None if labels is None else connectomes_of(labels, nodes or {}, weights)
        self._notes: list[str] = []
        self._sampler = Sampler.of(maps, note=self._notes.append)
        self._weights, self._path = None if weights is None else load_weights(weights), weights
        if weights is not None and self._weights is not None:
            self._notes += faint(weights, self._weights)
        self._names = {of(name) for name in self._sampler.maps for of in (map_name, mean_name)}
        self._names |= set() if weights is None else {WEIGHTS}
        self._left: list[str] = []  # values of the file at points for which there is no room

    @property
    def samples(self) -> bool:
        """Whether maps are sampled along streamlines."""
        return bool(self._sampler.maps)

    def add(self, batch: Batch) -> None:
        """Take streamlines of the file into account, before a sample of them is chosen."""
        if self._connectomes is not None:
            self._connectomes.add(batch)

    def extend(self, batch: Batch) -> Batch:
        """Return streamlines of the sample with values of maps and of the file, and with their nodes as groups."""
        points, streamlines = self._sampler.sample(batch)
        means = {mean_name(name): streamlines[f"{name}_mean"] for name in self._sampler.maps}
        nodes = [] if self._connectomes is None else self._connectomes.nodes(batch)
        stored = self._rename(batch.data_per_point)
        shown, self._left = sorted(stored)[:MOST_SETS], sorted(stored)[MOST_SETS:]
        return replace(
            batch,
            data_per_point={name: stored[name] for name in shown} | {map_name(name): points[name] for name in points},
            data_per_streamline=self._rename(batch.data_per_streamline) | means,
            groups=tuple(Groups((), each) for each in nodes),
        )

    def _rename(self, values: Mapping[str, Array]) -> dict[str, Array]:
        """Return values of the file, whose names are not those of maps and weights."""
        out = {}
        for name, numbers in values.items():
            shown = name
            while shown in self._names or (shown != name and shown in values):
                shown += OF_FILE
            out[shown] = numbers
        return out

    def of(self, sample: Batch, total: int) -> Extras:
        """Return the extras of the streamlines of a sample, whose ``seed_number`` is their row.

        Raises
        ------
        InputError
            If there is another number of weights than of streamlines, ``total``, if all lie outside a map, or if a
            group does not exist.
        """
        if doubts := self._sampler.doubts:
            raise InputError(doubts[0])
        if self._weights is not None and len(self._weights) != total:
            count = len(self._weights)
            raise InputError(f"{self._path}: has {count:,} weights, but {self._title} has {total:,} streamlines")
        rows = sample.seed_number
        groups = list(self._groups(rows))
        if missing := [name for name in self._shown if name not in {group.name for group in groups}]:
            names = first_of([group.name for group in groups]) or "none"
            raise InputError(f"{self._title}: has no group {missing[0]!r}; it has {names}")
        values = self._values(sample, None if self._weights is None else self._weights[rows])
        begins, matrix = self.samples or self._weights is not None, self._matrix()
        nodes = None if matrix is None else sample.groups[0].numbers
        return Extras(values, begins, groups, self._shown, matrix, self._weights is not None, nodes, self._notes)

    def _matrix(self) -> Matrix | None:
        """Return the matrix of all streamlines, or None if there is no parcellation."""
        if self._connectomes is None:
            return None
        if self._weights is not None:
            self._connectomes.take_weights(self._weights)
        (matrix,) = self._connectomes.matrices()
        self._notes += self._connectomes.doubts
        return matrix

    def _values(self, sample: Batch, weights: Array | None) -> list[Values]:
        """Return the numbers of a sample: of maps, weights, and of the file."""
        points, streamlines = dict(sample.data_per_point), dict(sample.data_per_streamline)
        out = []
        for name in self._sampler.maps:
            out.append(Values(map_name(name), True, points.pop(map_name(name))))
            out.append(Values(mean_name(name), False, streamlines.pop(mean_name(name))))
        if weights is not None:
            out.append(Values(WEIGHTS, False, weights.astype(np.float32)))
        if self._left:
            count = MOST_SETS + len(self._left)
            self._notes.append(f"{self._title}: has {count} sets of values at points, and the page has room for "
                               f"{MOST_SETS}: it lacks {first_of(self._left)}")
        for of_points, values, others in ((True, points, streamlines), (False, streamlines, points)):
            names = _apart(values, others, OF_POINTS if of_points else OF_STREAMLINES)
            out += [Values(names[name], of_points, values[name]) for name in sorted(values)]
        return out


def _apart(names: Collection[str], others: Collection[str], words: str) -> dict[str, str]:
    """Return names, with words behind those that are also among others; no two of all are equal then."""
    out, taken = {name: name for name in names}, {*names, *others}
    for name in sorted({*names} & {*others}):
        while out[name] in taken:
            out[name] += words
        taken.add(out[name])
    return out


def map_name(name: str) -> str:
    """Return the name of the values of a map at points, which no value of a file should have."""
    return f"{name} (map)"


def mean_name(name: str) -> str:
    """Return the name of the means of a map along streamlines."""
    return f"{name} (map), mean"


def connectomes_of(labels: str, options: Json, weights: str | None) -> Connectomes:
    """Return the maker of the matrix of a parcellation, with the options that ``track`` and ``map`` have for it.

    Raises
    ------
    InputError, ParameterError
        If a file is missing or damaged, if an option is wrong, if the parcellation has probabilities, since an end
        has no single node then, or if it has too many nodes.
    """
    counts = [COUNT] if weights is None else [COUNT, UNWEIGHTED + COUNT]
    measures = dict.fromkeys([*counts, *(options.get("connectome_measure") or ())])
    parameters = Parameters.given({
        **options, "connectome": [(labels, Path("connectome.csv"))], "connectome_measure": list(measures),
        **({} if weights is None else {"weights": weights}),
    })
    make = PRODUCTS["connectome"].check(parameters)
    assert make is not None
    connectomes = make(NO_GRID, 1.0, None)
    assert isinstance(connectomes, Connectomes)
    if any(parcellation.shares is not None for parcellation in connectomes.parcellations):
        raise InputError(f"{labels}: has probabilities, of which an end has no single node; give an image with the "
                         "label of the most probable node")
    if (count := len(connectomes.parcellations[0].nodes)) > MOST_NODES:
        raise InputError(f"{labels}: has {count:,} nodes, and a page has room for {MOST_NODES:,}; give a lookup table "
                         "of those that are wanted (--connectome-nodes)")
    return connectomes
