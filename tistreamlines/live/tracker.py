"""Tracking again and again on the same data: what is made of the inputs stays in memory."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import ExitStack
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError, TrackingError
from ..io.gradients import drain
from ..option import ImageLike, PointsLike
from ..options.definitions import options as known_options
from ..options.definitions import saying
from ..options.option_groups import BESIDE_A_MASK, PLACE
from ..options.parameters import Parameters
from ..run.api import COMMON, start_run
from ..run.inputs import open_headers
from ..run.log import Log, Watcher
from ..run.memory import Memory
from ..run.pipeline import carry_out
from ..run.result import TrackResult
from ..run.series import locate, series_of
from ..space.batch import Space
from ..tracking.engine.engine import Engine
from ..viewer.scene import opened_image

if TYPE_CHECKING:
    from ipyniivue import NiiVue

PLACES = (*saying(PLACE), *BESIDE_A_MASK)  # options that say where seeds are placed


class Silent(Watcher):
    """Says nothing."""

    def warn(self, text: str) -> None:
        """Leave a warning to those who read the result."""


class Live:
    """Tracks again and again on the same data, each time with other options.

    The series is read and fitted once. A run of a thousand seeds then takes as long as its streamlines grow. Its
    streamlines are those of :func:`tistreamlines.track` with the same options, to the last bit. Any thread may use it;
    one run follows the other. Nothing is written, also no ``cache_dir``. Files are the faster inputs: of an array, each
    run computes a hash.

    Parameters
    ----------
    dwi, bvals, bvecs : as for :func:`tistreamlines.track`
        The diffusion series and its gradients.
    watcher : Watcher, optional
        Receives the stages, notes, warnings and progress of all runs.
    **options
        Those of :func:`tistreamlines.track` that all runs have in common.

    Attributes
    ----------
    watcher : Watcher
        Receives the messages of later runs.
    background : (x, y, z) uint8 or None
        The mean b0 for pictures, after the first run, if there is a series.

    Examples
    --------
    Peaks along x in voxels of 2 mm, and two places from which they are followed:

    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1
    >>> live = ts.Live(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), dg="det", arch="cpu",
    ... )
    >>> len(live.track(seed_sphere="20,4,4,1", nseeds=50)), len(live.track(seed_sphere="30,4,4,1", nseeds=20))
    (50, 20)
    """

    def __init__(
        self, dwi: ImageLike | None = None, bvals: PointsLike | None = None, bvecs: PointsLike | None = None, *,
        watcher: Watcher | None = None, **options: Any,
    ) -> None:
        series = {"dwi": dwi, "bvals": bvals, "bvecs": bvecs}
        # what comes through a pipe is there once
        self._series = {k: drain(v) if isinstance(v, str | PathLike) and k != "dwi" else v for k, v in series.items()}
        self._options, self.watcher = options, watcher or Watcher()
        self._memory, self._running = Memory(), threading.Lock()
        self.background: npt.NDArray[np.uint8] | None = None
        self._followed: ImageLike | None = None
        self._views: list[NiiVue] = []
        # apart from the lock of runs, since a widget may call what tracks
        self._showing, self._runs, self._shown = threading.RLock(), 0, 0  # how many runs, and which one is shown

    @cached_property
    def space(self) -> Space:
        """The grid of the image that is tracked."""
        series, _ = series_of(self._series, self._options.get("gtab"))
        chosen = {name: value for name, value in self._options.items() if name not in COMMON}
        series, chosen = locate(series, Parameters.given(chosen), self._options.get("affine"))
        headers = open_headers(series, chosen, Log())
        image = headers.followed.image if headers.dwi is None else headers.dwi.image
        x, y, z, *_ = image.shape
        return Space(np.asarray(image.affine, np.float64), (x, y, z))

    def options(self, **changes: Any) -> dict[str, Any]:
        """Return the options of a run.

        Parameters
        ----------
        **changes
            Options of this run alone; None takes one of all runs away. They replace those that they exclude, and a
            place of seeds any other.

        Returns
        -------
        dict
            Those of all runs with the changes.
        """
        known, names = known_options(), {name for name, value in changes.items() if value is not None}
        without = (changes.keys() - names) | set(PLACES if names & {*PLACES} else ())
        for name in names & known.keys():
            without |= {other for other in known if other in known[name].excludes or name in known[other].excludes}
        common = {name: value for name, value in self._options.items() if name not in without}
        while idle := [name for name in common if name in known and without & {*known[name].requires}]:
            without |= set(idle)
            common = {name: value for name, value in common.items() if name not in without}
        return {name: value for name, value in (common | changes).items() if value is not None}

    def track(self, **changes: Any) -> TrackResult:
        """Track streamlines, and keep them in memory.

        Parameters
        ----------
        **changes
            Options of this run alone, see :meth:`options`.

        Returns
        -------
        TrackResult
            As :func:`tistreamlines.track` returns it.

        Raises
        ------
        ParameterError, InputError, DeviceError
            As :func:`tistreamlines.track` raises them; also if an option names a file to write.
        """
        chosen = self.options(**changes)
        with self._running, ExitStack() as held:
            run, _ = start_run(
                self._series, None, chosen, self.watcher, held, hands_out=True, memory=self._memory  # type: ignore[arg-type]
            )
            self.background = run.plan.tables.background
            self._followed = getattr(run.parameters, run.parameters.source, None)
            try:
                result = carry_out(run, None, keeps=True)
            except BaseException:
                self._memory.forget("engine")  # which may be in the middle of something
                raise
            if isinstance(run.engine, Engine) and run.engine.has_less_room:
                self._memory.forget("engine")
            self._runs = number = self._runs + 1
        self._show(result, number)
        return result

    def _show(self, result: TrackResult, number: int) -> None:
        """Have all widgets show the result of a run, unless that of a later one is there."""
        with self._showing:
            self._views = [view for view in self._views if view.comm is not None]  # others were closed
            if not self._views or number < self._shown:
                return
            self._shown = number
            from .notebook import show

            for view in [*self._views]:
                if number == self._shown:  # a widget may have called what tracks
                    show(view, result)

    def view(self, image: ImageLike | None = None, *, radius: float = 3.0, nseeds: int = 1000) -> NiiVue:
        """Show the streamlines in a notebook, with NiiVue: those from the crosshair, and those of each later run.

        Parameters
        ----------
        image : str, Path or nibabel image, optional
            Image under the streamlines; by default the mean b0, or what is followed.
        radius : float
            Of the sphere of seeds around the crosshair, mm.
        nseeds : int
            Seeds in it. They are tracked when the crosshair moves, with the options of all runs.

        Returns
        -------
        ipyniivue.NiiVue
            A widget. Its streamlines are replaced by those of each :meth:`track`.

        Raises
        ------
        InputError
            If ipyniivue is not installed (``pip install 'tistreamlines[view]'``), or if an input is missing or damaged.
        ParameterError, DeviceError
            As for :meth:`track`.
        """
        from .notebook import show, widget_of

        def move(place: Sequence[float]) -> None:
            try:
                self.track(seed_sphere=[[*place, radius]], nseeds=nseeds)
            except TrackingError as error:  # such as a place outside the image; the streamlines stay
                self.watcher.warn(str(error))

        shape, ras = np.asarray(self.space.shape), self.space.to_ras
        first = self.track(seed_sphere=[[*ras((shape[None] - 1) / 2.0)[0], radius]], nseeds=nseeds)
        widget = widget_of(self.picture(image), move)
        with self._showing:
            show(widget, first)
            self._views.append(widget)
        return widget

    def picture(self, image: ImageLike | None = None) -> tuple[str, Space, Array]:
        """Return the image that lies under streamlines, after the first run.

        Parameters
        ----------
        image : str, Path, nibabel image or ndarray, optional
            By default, the mean b0, or without a series the orientations that are followed.

        Returns
        -------
        tuple
            Its name, its grid and its values, (x, y, z).

        Raises
        ------
        InputError
            If it cannot be read, or if there is none.
        """
        if image is None and self.background is not None:
            return "mean b0", self.space, self.background
        source = self._followed if image is None else image
        if source is None:
            raise InputError("the series has no b0 volume for a picture: give an image")
        return opened_image(source)

    def command(self, result: TrackResult, output: str | PathLike[str]) -> str:
        """Return the command that writes the streamlines of a result to a file, with the same bits.

        Parameters
        ----------
        result : TrackResult
            Of :meth:`track`.
        output : str or Path
            The tractogram that the command writes.

        Returns
        -------
        str
            A line for a shell. It names arrays and images in memory as such, since they have no file.
        """
        from ..report.content import command

        return command(result.record, str(output))
