"""The contents of a tractogram: all or fewer points of each streamline, and values of maps along it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ....aliases import Array, Json
from ....errors import OutputError, ParameterError
from ....io.images import Tell, silent
from ....io.numbers import SUFFIX as NUMBERS
from ....io.trk import MOST_NAMES, NAME_CHARACTERS, PROPERTIES
from ....option import OUTPUT, ImageLike, OneOrMore, flag, option, values_of
from ....space.batch import Batch, Groups, Space
from ..samples.sampler import STATISTICS, Sampler, names_of
from .compression import compress_batch
from .thinning import thin_batch

SEGMENT_MM = 10.0  # the longest segment that --compress makes, DIPY's default
SPARSE = ("endpoints_only", "compress", "downsample")  # options that leave points out
BELOW = (*SPARSE, "points")  # or something of them


@dataclass(frozen=True, repr=False, eq=False)
class ContentOptions:
    """Options of the contents of a tractogram, a part of :class:`tistreamlines.Parameters`."""

    sample: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Sample this map along each streamline, and write NAME_mean, NAME_median, NAME_min and NAME_max "
        "with the streamlines, where NAME is that of the file. As in MRtrix3's tcksample, values are interpolated "
        "trilinearly and 0 outside the map, and the mean is weighted by length. A .trx or a .trk file holds the "
        "values; beside a .tck file, they are written to *_samples.csv. The map can have any grid. For a run in parts, "
        "give this and the other options of a tractogram's contents to tistreamlines join.", unit="FILE",
        absent="none", excludes=("part",), common=True, affects="run",
    )
    sample_points: bool = option(
        False, OUTPUT, "Write the values of --sample at each point, too. This needs a .trx or a .trk file.",
        requires=("sample",), affects="run",
    )
    endpoints_only: bool = option(
        False, OUTPUT, "Write only the first and the last point of each streamline. Maps of --density and values of "
        "--sample are those of whole streamlines.", excludes=("compress", "downsample", "part"), affects="run",
    )
    compress: float | None = option(
        None, OUTPUT, "Leave out points within this distance of a line between other points, as DIPY's "
        "compress_streamlines does. Maps of --density and values of --sample are those of whole streamlines.",
        unit="mm", low=0, above=True, absent="all points", excludes=("endpoints_only", "downsample", "part"),
        affects="run",
    )
    downsample: int | None = option(
        None, OUTPUT, "Write every N-th point, counted from the seed, and both ends, as MRtrix3's tckgen does; 1 "
        "writes all. Maps, matrices and values of --sample are those of whole streamlines.", unit="N", low=1,
        high=10_000, absent="1; samples - 1 for ifod2, which are the ends of its arcs",
        excludes=("endpoints_only", "compress", "part"), affects="run",
    )
    groups: bool = option(
        False, OUTPUT, "Write a group for each node of --connectome to the tractogram: the streamlines of which an end "
        "belongs to the node, as FILE_NODE. This needs a .trx file.", requires=("connectome",), excludes=("part",),
        affects="run",
    )
    points: str = option(
        "float32", OUTPUT, "Type of the points of a .trx file. float16 halves their size, and rounds them by up to "
        "0.03 mm along an axis at up to 128 mm from the origin, 0.06 mm at up to 256 mm.",
        choices=("float32", "float16"), excludes=("part",), affects="run",
    )


class Content:
    """Makes of streamlines what the tractogram holds of them.

    Parameters
    ----------
    options : ContentOptions
        The contents that options ask for.
    threads : int, optional
        How many threads sample; by default as many as help.
    note : callable
        Receives messages about the maps.
    parcellations : int
        How many have groups, for --groups.

    Attributes
    ----------
    details : dict
        Fields of the record: the map of each name, if maps are sampled.

    Raises
    ------
    InputError
        If a map is missing or damaged, or no 3-D image.
    """

    def __init__(
        self, options: ContentOptions, threads: int | None = None, note: Tell = silent, parcellations: int = 0
    ) -> None:
        self._options, self._parcellations = options, parcellations
        self._sampler = Sampler.of(values_of(options.sample), threads, note)
        self.details: Json = {"samples": self._sampler.details} if self._sampler.maps else {}

    @property
    def doubts(self) -> list[str]:
        """Why what was sampled may be wrong."""
        return self._sampler.doubts

    @property
    def every(self) -> int:
        """Which points the engine has to lay out: every n-th one, or 1 for all, at which maps are sampled."""
        return 1 if self._sampler.maps else _every(self._options)

    def of(self, batch: Batch, groups: Callable[[Batch], tuple[Groups, ...]]) -> Batch:
        """Return the streamlines with sampled values, and the points that are written.

        ``groups`` returns the groups of the streamlines of a batch, for --groups.
        """
        content, chosen = batch, self._options
        if chosen.endpoints_only:
            content = ends_of(content)
        elif chosen.compress is not None:
            content = compress_batch(content, chosen.compress, SEGMENT_MM)
        elif content.whole is None:
            content = thin_batch(content, _every(chosen))
        if content.whole is not None:  # which is no part of a tractogram
            content = replace(content, whole=None)
        if self._sampler.maps:
            content = replace(content, data_per_streamline=self._sampler.per_streamline(batch))
            if chosen.sample_points:
                content = replace(content, data_per_point=self._sampler.per_point(content))
        return self.grouped(content, groups)

    def grouped(self, batch: Batch, groups: Callable[[Batch], tuple[Groups, ...]]) -> Batch:
        """Return the streamlines with their groups, if an option asks for these; see :meth:`of`."""
        return replace(batch, groups=groups(batch)) if self._options.groups else batch

    def layout(self, step_mm: float) -> Json:
        """Return what :func:`layout_of` returns of the options."""
        return layout_of(self._options, step_mm)

    def size(self, suffix: str, points: int, streamlines: int) -> int:
        """Return the bytes of points and samples in a tractogram; points that --compress leaves out are counted."""
        if suffix == NUMBERS:
            return 4 * self._parcellations * self._options.groups * streamlines
        chosen, maps = self._options, 0 if suffix == ".tck" else len(self._sampler.maps)
        every = _every(chosen)
        thinned = (points + 2 * (every - 1) * streamlines) // every  # whose halves end anywhere, on average
        left = min(points, 2 * streamlines if chosen.endpoints_only else thinned)
        each = 3 * (np.dtype(chosen.points).itemsize if suffix == ".trx" else 4) + 4 * maps * chosen.sample_points
        grouped = 8 * self._parcellations * chosen.groups
        return each * left + (4 * len(STATISTICS) * maps + grouped) * streamlines


def layout_of(options: ContentOptions, step_mm: float) -> Json:
    """Return what a writer needs to know: the type of points, and their distance in mm, if there is one for all."""
    same = not options.endpoints_only and options.compress is None
    return {"step_mm": step_mm * _every(options) if same else None, "point_type": options.points}


def _every(options: ContentOptions) -> int:
    """Return N where every N-th point is written."""
    return 1 if options.endpoints_only or options.compress is not None else options.downsample or 1


def check_content(options: ContentOptions, output: Path) -> None:
    """Raise an error if a tractogram of this name cannot hold the contents."""
    suffix = output.suffix.lower()
    if options.points != "float32" and suffix != ".trx":
        raise OutputError(f"{output}: --points {options.points} needs a .trx file; give another name, or leave it out")
    if options.groups and suffix not in (".trx", NUMBERS):
        raise OutputError(f"{output}: a {suffix} file has no groups; write a .trx file, or leave --groups out")
    if suffix == NUMBERS:  # what else options ask for is in the tractograms that are tracked again
        return
    if options.sample_points and suffix == ".tck":
        raise OutputError(f"{output}: a .tck file has no room for --sample-points; write a .trx or a .trk file")
    if suffix != ".trk":
        return
    names = names_of(values_of(options.sample))
    if len(PROPERTIES) + len(STATISTICS) * len(names) > MOST_NAMES:
        raise OutputError(f"{output}: a .trk file has room for the values of one map of --sample; write a .trx file")
    longest = max((f"{name}_{which}" for name, which in product(names, STATISTICS)), key=len, default="")
    if len(longest) > NAME_CHARACTERS:
        raise OutputError(
            f"{output}: {longest} of --sample exceeds the {NAME_CHARACTERS} characters of a name in a .trk file; "
            "give the map a shorter name, or write a .trx file"
        )


def check_written(is_given: Callable[[str], bool], sampled: bool) -> None:
    """Raise an error if an option says something about a tractogram, and the run keeps no streamline.

    Parameters
    ----------
    is_given : says of an option's name whether it is given.
    sampled : whether values of maps are kept.
    """
    for name in (*(() if sampled else ("sample",)), "sample_points", "groups", *BELOW):
        if is_given(name):
            raise ParameterError(f"{flag(name)} says what a tractogram holds, and none is written: give an output")


def ends_of(batch: Batch) -> Batch:
    """Return streamlines of their first and last point; one of a single point keeps that."""
    chosen = np.zeros(len(batch.points), bool)
    chosen[batch.offsets[:-1]] = chosen[batch.offsets[1:] - 1] = True
    return _of_points(batch, batch.points[chosen], np.minimum(batch.lengths, 2))


def _of_points(batch: Batch, points: Array, lengths: npt.NDArray[np.int64]) -> Batch:
    """Return a batch with fewer points, without what was known of each of those before."""
    return replace(batch, points=points, offsets=np.concatenate([[0], np.cumsum(lengths)]), data_per_point={})


def rounding_mm(space: Space) -> float:
    """Return by how much float16 rounds a coordinate of a point in an image at most, mm."""
    corners = space.to_ras(list(product(*((-0.5, side - 0.5) for side in space.shape))))
    return float(np.spacing(np.float16(np.abs(corners).max()))) / 2
