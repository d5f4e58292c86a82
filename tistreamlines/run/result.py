"""The result of a run: counts, lengths and times, and the streamlines themselves."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

import numpy as np
import numpy.typing as npt

from ..aliases import Array, Json, StatefulTractogram
from ..errors import InputError
from ..io.images import existing_path
from ..io.numbers import SUFFIX as NUMBERS
from ..kernels.stop_reasons import DROPPED, Stop
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from . import containers
from .products import asked
from .record import Result, keys_of

if TYPE_CHECKING:
    from ipyniivue import NiiVue
    from nibabel.streamlines.array_sequence import ArraySequence

    from ..option import ImageLike

PICTURED, PICTURE_DPI = 1000, 50  # streamlines in the picture of a notebook, about; dots per inch


@dataclass(frozen=True, eq=False, repr=False)
class TrackResult(Result):
    """The result of :func:`tistreamlines.track`.

    Attributes
    ----------
    arch, device : str
        Where the streamlines were computed: 'metal', 'cuda', 'amdgpu', 'vulkan' or 'cpu', and the name of the device.
    seeds : int
        Number of seeds.
    n_streamlines, points : int
        Number of streamlines, and of the points that were tracked, in total.
    mean_points, median_points : float
        Points per streamline.
    mean_mm, median_mm : float
        Length of a streamline in mm.
    stop_reasons : dict of str to int
        How many ends of streamlines stopped for each reason; those of dropped streamlines are included.
    written_stop_reasons : dict of str to int
        The same without those of dropped streamlines.
    dropped : dict of str to int
        How many streamlines were dropped for each reason. A streamline counts for the first reason that holds, so these
        numbers and ``n_streamlines`` add up to the streamlines that were grown.
    seconds : dict of str to float
        Duration of each stage, and ``total``, their sum.
    path : Path or None
        The tractogram, if one was written.
    parameters : Parameters
        All options, defaults included.
    notes, warnings : tuple of str
        Choices that were made for the user, and what may be wrong with the result.
    space : Space
        Grid of the image that was tracked.
    batches : tuple of Batch
        All streamlines, with sampled values, if they were kept in memory; empty if the run wrote a tractogram, or only
        products.
    sample : Batch
        Streamlines of about a thousand seeds, for the picture in a notebook.
    products : dict
        Other products of the streamlines, by the name of the option that names their file.
    record : dict
        The record beside a tractogram, a .json file: options, inputs with their hashes, versions and these numbers.

    Notes
    -----
    A result is a sequence of its streamlines: ``len(result)``, ``for line in result``, ``result[3]`` and
    ``result[3:10]``.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> result = ts.track(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), seeds=[[20, 4, 4]], dg="det",
    ...     step_size=1, arch="cpu",
    ... )
    >>> len(result), result[0].shape, result.mean_mm
    (1, (41, 3), 40.0)
    >>> result.stop_reasons["outside_image"]
    2
    >>> result.save("line.trk")
    >>> len(result.to_sft())
    1
    """

    path: Path | None
    parameters: Parameters
    notes: tuple[str, ...]
    warnings: tuple[str, ...]
    space: Space
    batches: tuple[Batch, ...]
    sample: Batch
    record: Json
    products: dict[str, Any] = field(default_factory=dict)

    @property
    def density(self) -> Array | None:
        """How many streamlines pass through each voxel, (x, y, z) int32, if ``density`` names a file for this map.

        With a ``density_kind``, what the map has in its place: (x, y, z) float32, or (x, y, z, 3) of directions.
        """
        return self.products.get("density")

    @property
    def streamlines_per_second(self) -> float:
        """Streamlines per second of tracking, without loading, fitting and compiling."""
        return self.n_streamlines / max(self.seconds["track"], 1e-9)

    @cached_property
    def streamlines(self) -> ArraySequence:
        """Points of each streamline, ``(n, 3)`` float32, RASmm, as nibabel's ArraySequence.

        If there is a tractogram, they come from it at the first use. A .trx file is mapped, so that only used parts are
        read. Changes in place stay in memory: no file follows them.

        Returns
        -------
        nibabel.streamlines.ArraySequence
            The streamlines, in the order of their seeds.

        Raises
        ------
        InputError
            If the tractogram was written to a file that is no longer there, or has been replaced, or if no streamline
            was kept.
        """
        if self.path is not None:
            stored = containers.read_sequence(self._with_points(self.path))
            if len(stored) != self.n_streamlines:
                raise InputError(
                    f"{self.path}: has {len(stored):,} streamlines and had {self.n_streamlines:,}: track it again"
                )
            return stored
        batches = self._in_memory()
        whole = batches[0] if len(batches) == 1 else Batch.concatenate(batches)
        object.__setattr__(self, "batches", (whole,))  # shares its points with the sequence: they are not kept twice
        return containers.sequence(whole.points, whole.lengths)

    @staticmethod
    def _with_points(path: Path) -> Path:
        """Return the path of the tractogram; raise an InputError if it is missing, or holds numbers alone."""
        if path.suffix.lower() == NUMBERS:
            raise InputError(f"{path}: holds numbers of streamlines, and no points: regrow tracks them again")
        return existing_path(path)

    def _in_memory(self) -> tuple[Batch, ...]:
        """Return all streamlines of a run without a tractogram, or raise an InputError if none were kept."""
        if self.n_streamlines and not self.batches:
            raise InputError(
                f"{self.place}: is all that was kept of this run: leave keep_streamlines=False out, or give an output"
            )
        return self.batches

    def __len__(self) -> int:
        """Return the number of streamlines."""
        return self.n_streamlines

    def __iter__(self) -> Iterator[npt.NDArray[np.float32]]:
        """Iterate over the points of each streamline, ``(n, 3)`` float32, RASmm."""
        lines: Any = self.streamlines
        yield from lines

    @overload
    def __getitem__(self, index: int | np.integer) -> npt.NDArray[np.float32]: ...
    @overload
    def __getitem__(self, index: slice | list[int] | npt.NDArray) -> ArraySequence: ...
    def __getitem__(self, index: Any) -> Any:
        """Return the points of one streamline, ``(n, 3)`` float32, RASmm, or an ArraySequence of several."""
        return self.streamlines[index]

    def save(self, output: str | PathLike[str], *, force: bool = False) -> None:
        """Write the streamlines to a file, and the record of the run beside it.

        The file has the bytes that the run would have written to it. The record has the times of this run.

        Parameters
        ----------
        output : str or Path
            Tractogram to write: .trx, .trk or .tck. A result that was written as .trk or .tck is only copied to the
            same format, since the others contain more, or points that are not rounded.
        force : bool
            Overwrite existing files.

        Raises
        ------
        OutputError
            If the output cannot be written.
        InputError
            If the streamlines were written to a file that is missing or damaged, or if none was kept.
        """
        from .saving import save

        source = self._in_memory() if self.path is None else self.path
        weighed = self.products.get("sift2")
        late = {} if weighed is None else {"weights": weighed.weights}
        save(source, Path(output), self.space, self.parameters, self.record, force=force, late=late)

    def to_sft(self) -> StatefulTractogram:
        """Return the streamlines as DIPY's StatefulTractogram in RASmm.

        Returns
        -------
        dipy.io.stateful_tractogram.StatefulTractogram
            With the seed, seed number, direction number and stop reasons of each streamline, unless they were written
            to a .tck file, which has no room for them.

        Raises
        ------
        InputError
            If the tractogram was written to a file that is no longer there, or if no streamline was kept.
        """
        reference = containers.reference_image(self.space)
        if self.path is None:
            return containers.tractogram(self._in_memory(), reference)
        from dipy.io.streamline import load_tractogram

        loaded: Any = load_tractogram(str(self._with_points(self.path)), reference, bbox_valid_check=False)
        return loaded

    def view(self, image: ImageLike | None = None) -> NiiVue:
        """Show a sample of the streamlines in a notebook, and the density of all, with NiiVue.

        Parameters
        ----------
        image : str, Path or nibabel image, optional
            Image that is shown with the streamlines, such as FA or T1; its grid is that of the density.

        Returns
        -------
        ipyniivue.NiiVue
            A widget. Its second volume, or the only one without an image, is the density, with an opacity of 0.

        Raises
        ------
        InputError
            If ipyniivue is not installed (``pip install 'tistreamlines[view]'``), if there is no streamline, or if a
            file is missing or damaged.
        """
        from ..io.tractograms import stored_batches
        from ..viewer.niivue import widget
        from ..viewer.scene import scene_of

        path = None if self.path is None else self._with_points(self.path)
        kept = self._in_memory() if path is None else ()
        return widget(lambda: scene_of(self.place, lambda: kept if path is None else stored_batches(path), image))

    def as_dict(self) -> Json:
        """Return the numbers of the run.

        Returns
        -------
        dict
            Values by name, as ``tistreamlines track --json-stats`` writes them; the number of streamlines is called
            ``streamlines`` there.
        """
        return {key: getattr(self, name) for name, key in keys_of(Result).items()}

    def table(self) -> dict[str, str]:
        """Return the main numbers as text.

        Returns
        -------
        dict of str to str
            Values with their units, by description.
        """
        return {
            "device": f"{self.arch}: {self.device}",
            "seeds": f"{self.seeds:,}",
            "streamlines": f"{self.n_streamlines:,}",
            "dropped": self._dropped(),
            "ends of streamlines": self._ends(),
            "points": f"{self.points:,}",
            "mean length": f"{self.mean_mm:.1f} mm",
            "median length": f"{self.median_mm:.1f} mm",
            "tracking time": f"{self.seconds['track']:.2f} s "
            f"({self.seconds['total']:.1f} s with loading and compiling)",
            "streamlines per second": f"{self.streamlines_per_second:,.0f}",
        }

    def _dropped(self) -> str:
        """Say how many streamlines were dropped, and why."""
        count = sum(self.dropped.values())
        reasons = {verdict.text: self.dropped[verdict.name.lower()] for verdict in DROPPED}
        why = (f"{text} ({number:,})" for text, number in reasons.items() if number)
        return f"{count:,} of {self.n_streamlines + count:,}" + (f": {', '.join(why)}" if count else "")

    def _ends(self) -> str:
        """Say why the halves of streamlines that were not dropped ended."""
        halves = max(2 * self.n_streamlines, 1)
        ends = {reason.text: self.written_stop_reasons.get(reason.name.lower(), 0) for reason in Stop}
        return ", ".join(f"{text} ({count / halves:.1%})" for text, count in ends.items() if count) or "none"

    def __repr__(self) -> str:
        """Return the main numbers in one line."""
        return (
            f"<TrackResult: {self.n_streamlines:,} streamlines from {self.seeds:,} seeds, {self.mean_mm:.1f} mm on "
            f"average, on {self.arch}, {self.place}>"
        )

    @property
    def place(self) -> str:
        """Where the streamlines, or what was made of them, are: a path, or 'in memory'."""
        files = ", ".join(str(paths[0]) for paths in asked(self.parameters).values())
        return str(self.path) if self.path is not None else files or "in memory"

    def _repr_html_(self) -> str:
        """Return a table and a picture of some of the streamlines, for notebooks."""
        from html import escape  # whose table of names takes longer to load than most modules

        from ..io.picture import png

        rows = self.table() | {"tractogram" if self.path or not self.products else "written": self.place}
        cells = "".join(f"<tr><th>{escape(name)}</th><td>{escape(text)}</td></tr>" for name, text in rows.items())
        table = f"<table>{cells}</table>"
        if self.n_streamlines and not len(self.sample):  # their points have stayed on the device
            return table
        drawn = png(self.sample.points, self.sample.offsets, max_streamlines=PICTURED, dpi=PICTURE_DPI)
        picture = base64.b64encode(drawn).decode()
        shown = f"{min(len(self.sample), PICTURED):,} of {self.n_streamlines:,} streamlines"
        return f'{table}<img alt="{shown}" title="{shown}" src="data:image/png;base64,{picture}">'
