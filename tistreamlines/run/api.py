"""``track`` and ``stream``: tracking from Python, on files, nibabel images or arrays."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import numpy.typing as npt

from ..aliases import GradientTable
from ..errors import ParameterError
from ..io.numbers import SUFFIX as NUMBERS
from ..io.writer import SINKS
from ..option import flag
from ..options.definitions import defaults
from ..options.definitions import options as known_options
from ..options.objects import MADE
from ..options.parameters import Parameters
from ..options.signatures import list_keywords
from ..space.batch import Batch
from ..tracking.engine.engine import Engine
from ..tracking.products.points.content import check_written
from ..tracking.registry import PRODUCTS
from . import bids
from .estimate import Estimate, make_estimate
from .inputs import open_headers
from .log import Log, Watcher
from .memory import Memory
from .needs import needs_series, refuse_idle
from .outputs import Outputs, check_outputs, reserved
from .pipeline import Run, carry_out, start
from .products import asked, makers_of, with_weights
from .result import TrackResult
from .series import locate, series_of
from .setup import bar_or
from .spec import describe

if TYPE_CHECKING:
    from ..option import ImageLike, PointsLike
    from ..options.objects import Options

    class Arguments(Options, total=False):
        """The keywords that track, stream and estimate have in common."""

        gtab: GradientTable | None
        affine: npt.ArrayLike | None
        parameters: Parameters | None
        watcher: Watcher | None
        progress: bool


COMMON = {"gtab": None, "affine": None, "parameters": None, "watcher": None, "progress": False}
_missing = defaults()
KEYWORDS = COMMON | {name: _missing.get(name) for name in (*known_options(), MADE)}


@list_keywords(KEYWORDS, whole=True)
def track(
    dwi: ImageLike | None = None, bvals: PointsLike | None = None, bvecs: PointsLike | None = None,
    output: str | PathLike[str] | None = None, *, keep_streamlines: bool = True, **options: Unpack[Arguments],
) -> TrackResult:
    """Track streamlines and write them to a file, or keep them in memory.

    Streamlines shorter than five voxels are dropped unless ``min_length`` is given.

    Parameters
    ----------
    dwi : str, Path, nibabel image or (x, y, z, n) ndarray, optional
        Diffusion series. It and its gradients can be left out if orientations are given as ``sh``, ``odf``, ``pmf``
        or ``peaks``, together with a ``stop_map``, and ``seed_mask``, ``seed_image``, ``seed_sphere``, ``seed_gmwmi``,
        ``seed_surface`` or ``seeds``.
    bvals : str, Path or (n,) array_like, optional
        Diffusion weighting in s/mm^2, as a file in FSL's format or an array. Volumes of at most b=50 count as b0. They
        and ``bvecs`` can be left out for a series that has gradients of its own, as MRtrix3's .mif, and for a file
        beside which they lie: dwi.bval and dwi.bvec, or FSL's bvals and bvecs.
    bvecs : str, Path, (n, 3) or (3, n) array_like, optional
        Gradient directions, unit vectors. ``bvecs_frame`` tells along which axes.
    output : str or Path, optional
        Tractogram to write: .trx, .trk or .tck; with .npz, numbers from which :func:`regrow` tracks the streamlines
        again. A record of the run is written beside it as .json. Without an output, they are kept in memory.
    gtab : dipy.core.gradients.GradientTable, optional
        The gradients, instead of ``bvals`` and ``bvecs``. Its b0 threshold is not used.
    affine : (4, 4) array_like, optional
        From voxel coordinates of the arrays (centre of a voxel = integer) to RASmm. Without it, arrays are taken to lie
        on the grid of the files or nibabel images among the inputs.
    parameters : Parameters, optional
        Options, of which keywords override single ones.
    watcher : Watcher, optional
        Receives the stages, notes, warnings and progress.
    progress : bool
        Whether a bar shows the stages and the progress, in a terminal or in a notebook; elsewhere, a line a minute
        does. It takes the place of ``watcher``.
    keep_streamlines : bool
        Whether the streamlines are kept in memory where no ``output`` is given, but files that are made of them, such
        as ``density`` or ``connectome``. With False, only these files are written: that takes less memory, and where
        devices can make them, less time, since no point comes back from a GPU.
    **options
        The fields of :class:`tistreamlines.Parameters`: lengths in mm, angles in degrees. ``mask``, ``seed_mask``,
        ``seed_image``, ``seed_gmwmi``, ``stop_map``, ``sh``, ``odf``, ``pmf`` and ``peaks`` are paths, nibabel images
        or arrays; ``seeds`` is a path, or an array or a list of points (n, 3) or of points and directions (n, 6) in
        RASmm. ``dg``, ``stopping`` and ``model`` can be objects with options of their own, as ``Prob(max_angle=30)``,
        regions can be ``Sphere`` and ``Mask``, and ``products`` is a list of objects such as ``Density``.

    Returns
    -------
    TrackResult
        Counts, lengths and times, and a sequence of the streamlines; ``to_sft()`` gives them as DIPY's
        StatefulTractogram, and ``save()`` writes them.

    Raises
    ------
    ParameterError
        If an option or the kind of an input is invalid, or if options cannot be combined.
    InputError
        If an input is missing or damaged, or does not match the others.
    OutputError
        If the output cannot be written.
    DeviceError
        If the requested device is not available.

    See Also
    --------
    stream : Hand out the streamlines batch by batch.

    Notes
    -----
    Direction getters, stopping rules and models are those of DIPY (``dipy.tracking``, ``dipy.reconst``) and of MRtrix3
    (``tckgen``); ``tistreamlines track --dg prob --citations`` prints the papers of those that a run uses.

    Examples
    --------
    From files to a file. Those here are the ones that ``tistreamlines demo`` writes:

    >>> import tistreamlines as ts
    >>> result = ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100, dg="prob", arch="cpu")
    >>> result.seeds, result.path.name
    (100, 'brain.trx')

    From arrays to memory: peaks along x in voxels of 2 mm, and a seed at their centre:

    >>> import numpy as np
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1
    >>> affine = np.diag([2, 2, 2, 1])
    >>> result = ts.track(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=affine, seeds=[[20, 4, 4]], dg=ts.Det(max_angle=30),
    ...     step_size=1, arch="cpu",
    ... )
    >>> len(result), result[0].shape
    (1, (41, 3))
    """
    series = {"dwi": dwi, "bvals": bvals, "bvecs": bvecs}
    with _watching(options) as watcher, ExitStack() as held:
        run, path = start_run(series, output, options, watcher, held, keeps=keep_streamlines)
        return carry_out(run, path, keeps=keep_streamlines)


@list_keywords(KEYWORDS, whole=True)
def stream(
    dwi: ImageLike | None = None, bvals: PointsLike | None = None, bvecs: PointsLike | None = None,
    **options: Unpack[Arguments],
) -> Generator[Batch, None, None]:
    """Track streamlines and hand them out batch by batch, while tracking goes on.

    Nothing is written and no batch is kept, so memory stays bounded. The inputs are read and checked, and the kernels
    compiled, before this returns. Closing the iterator ends the tracking.

    Parameters
    ----------
    dwi, bvals, bvecs : as for :func:`track`
        The diffusion series and its gradients.
    gtab, affine, parameters, watcher, progress, **options : as for :func:`track`
        Gradients and grid of arrays, options and messages.

    Returns
    -------
    generator of Batch
        Streamlines in RASmm, in the order of their seeds.

    Raises
    ------
    ParameterError, InputError, DeviceError
        See :func:`track`.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> batches = ts.stream(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), seeds=[[20, 4, 4], [24, 4, 4]],
    ...     dg="det", step_size=1, arch="cpu",
    ... )
    >>> for batch in batches:
    ...     for streamline in batch:
    ...         print(streamline.shape)
    (41, 3)
    (41, 3)
    """
    series = {"dwi": dwi, "bvals": bvals, "bvecs": bvecs}
    with ExitStack() as shown:
        run, _ = start_run(series, None, options, shown.enter_context(_watching(options)), hands_out=True)
        return _contents(run, shown.pop_all())


def _contents(run: Run, shown: ExitStack) -> Generator[Batch, None, None]:
    """Hand out the streamlines of a run, and end at last what shows the progress."""
    with shown, closing(run.contents()) as batches:
        yield from batches


@list_keywords(KEYWORDS, whole=True)
def estimate(
    dwi: ImageLike | None = None, bvals: PointsLike | None = None, bvecs: PointsLike | None = None,
    output: str | PathLike[str] | None = None, **options: Unpack[Arguments],
) -> Estimate:
    """Estimate what a run of :func:`track` would take: streamlines, points, bytes, memory and time.

    Everything is prepared as for the run, and a pilot is tracked: 2,000 seeds, and more if that takes less than a
    second. They are spread over all seeds of the run. Nothing is written, except what ``cache_dir`` keeps.

    Parameters
    ----------
    dwi, bvals, bvecs, output : as for :func:`track`
        Inputs, and the tractogram of the run; it is checked that it can be written.
    gtab, affine, parameters, watcher, progress, **options : as for :func:`track`
        Gradients and grid of arrays, options and messages.

    Returns
    -------
    Estimate
        The expected numbers, with their spread.

    Raises
    ------
    ParameterError, InputError, OutputError, DeviceError
        See :func:`track`.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> expected = ts.estimate(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), seeds=[[20, 4, 4]] * 5,
    ...     dg="det", step_size=1, arch="cpu",
    ... )
    >>> expected.streamlines, expected.points
    (5, 205)
    """
    with _watching(options) as watcher:
        run, path = start_run({"dwi": dwi, "bvals": bvals, "bvecs": bvecs}, output, options, watcher)
        seconds, chosen = run.log.durations()["total"], run.parameters
        if not isinstance(run.engine, Engine):
            raise ParameterError(
                "--dry-run estimates the time of one device: leave --devices out, and divide that time"
            )
        run.log.begin("track")
        return make_estimate(
            run.engine, run.plan.seeds, run.seed_range, watcher.progress, select=chosen.select,
            time_limit=chosen.time_limit, formats=SINKS if path is None else [path.suffix.lower()],
            prepare_seconds=seconds, content=run.receiver.content,
            # opened anew, since a run with tables from the cache opens no headers
            spec=describe(chosen, open_headers(run.series, chosen, Log())),
        )


def _watching(options: Arguments) -> AbstractContextManager[Watcher]:
    """Show a bar if the caller wants one; otherwise, return the watcher."""
    return bar_or(options.get("watcher"), progress=options.get("progress", False))


def start_run(
    files: Mapping[str, object], output: object, options: Arguments, watcher: Watcher, held: ExitStack | None = None,
    *, hands_out: bool = False, keeps: bool = False, memory: Memory | None = None,
) -> tuple[Run, Path | None]:
    """Check the arguments of :func:`track` and start the run; return it and the path of the tractogram.

    ``files`` are ``dwi``, ``bvals`` and ``bvecs``, each of which may be None.

    The outputs are reserved as long as ``held`` is open; without it, they are not written. With ``hands_out``,
    streamlines are handed out and nothing is written. With ``keeps``, they are kept in memory if there is no path.
    ``memory`` has what earlier runs have made of the inputs.
    """
    if output is not None and not isinstance(output, str | PathLike):
        raise ParameterError(f"output is a {type(output).__name__}: give the path of a tractogram")
    path = None if output is None else Path(output)
    chosen = Parameters.given(
        {name: value for name, value in options.items() if name not in COMMON}, options.get("parameters")
    )
    files_of_run = ("bids_out", *PRODUCTS, "report", "save_5tt")
    if hands_out and (written := [name for name in files_of_run if getattr(chosen, name) is not None]):
        raise ParameterError(f"{written[0]} is written by track; stream and Live write nothing")
    if chosen.bids_out is not None:
        path, chosen = bids.named(files["dwi"], path, chosen)
        if held is None:
            path = None  # an estimate makes no folders
        else:
            held.enter_context(bids.made_folders(path))
    chosen = with_weights(chosen, path)
    products = asked(chosen)
    # join and a run that goes on read streamlines back, which products alone do not hold
    needing = ["resume", *(("part",) if products else ("json_stats", "save_5tt"))]
    if not products and chosen.report is None:
        needing.append("force")
    for name in needing:
        if path is None and getattr(chosen, name):
            raise ParameterError(f"{flag(name)} needs an output: give --output, or leave it out")
    if path is None and products and not keeps:
        check_written(chosen.gives, chosen.sample_table is not None)
    series, notes = series_of(files, options.get("gtab"))
    if not series and needs_series(chosen):
        raise ParameterError(needs_series(chosen))
    refuse_idle(series, chosen)
    check = partial(check_outputs, path, chosen, series.values())
    if held is None:
        check()
    else:
        held.enter_context(reserved(Outputs.of(path, chosen), check))
    series, chosen = locate(series, chosen, options.get("affine"))
    if chosen.resume and held is None:  # a preset gives way to an option that a user names, whatever its value
        chosen = chosen.changed(resume=False)
    makers = makers_of(chosen)
    if path is None:
        without_points = bool(products) and not keeps
    else:  # pieces of a run that goes on have points, of which nodes are found
        without_points = path.suffix.lower() == NUMBERS and not (chosen.resume or chosen.groups)
    # a report shows streamlines, so their points are needed
    without_points = without_points and held is not None and chosen.report is None
    run = start(
        series, chosen, watcher, makers=makers, without_points=without_points, notes=notes, memory=memory
    )
    return run, path
