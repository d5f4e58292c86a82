"""Runs on a cluster with dask.distributed: workers track parts of the seeds, and one of them joins the parts.

The client, the scheduler and the workers share a file system. A part is a file there, beside the output, and a task
returns only counts. So a task that is lost with its worker is repeated without loss, and the bytes of the tractogram
are those of one run, whatever happens. Dask starts several tasks in one process, one after another or in threads, and
Taichi belongs to a process as a whole: a lock lets one task track at a time, and the next one finds the kernels
compiled.
"""

from __future__ import annotations

import hashlib
import math
import pickle
import shutil
import time
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from os import PathLike
from pathlib import Path
from threading import Lock
from types import SimpleNamespace
from typing import Any, TypeVar
from uuid import uuid4

try:
    from distributed import Client, Future, KilledWorker, as_completed, get_worker
except ImportError as error:
    raise ImportError('dask is missing: pip install "tistreamlines[distributed]"') from error
import numpy as np

from ..aliases import Json
from ..devices import ON_HOST
from ..errors import BusyError, InputError, ParameterError, TrackingError
from ..io.drafts import hidden_folder
from ..io.numbers import SUFFIX as NUMBERS
from ..io.response import is_file
from ..option import ImageLike, PointsLike, flag
from ..options.definitions import input_names, is_word, join_options, kind, options
from ..options.objects import expand
from ..options.parameters import Parameters
from ..options.preset_options import with_preset
from ..tracking.products.files import check_weights
from ..tracking.registry import PRODUCTS
from ..tracking.selection.places import sphere_in
from .api import track as track_here
from .log import Watcher
from .outputs import check_outputs
from .parts import join
from .products import asked

EACH = 4  # parts for each worker: the last one to end is waited for, and one of a killed worker is tracked again
SERIES = ("dwi", "bvals", "bvecs")
OTHERS = (*SERIES, "output", "gtab", "affine", "parameters")  # arguments that are no options
TASK = "task.pickle"
PATIENCE = 300  # seconds to wait for an output that another worker holds
Outcome = Json | BaseException
Result = TypeVar("Result")

_one_at_a_time = Lock()


def track(
    client: Client, dwi: ImageLike | None = None, bvals: PointsLike | None = None, bvecs: PointsLike | None = None,
    output: str | PathLike[str] = "", *, parts: int | None = None, retries: int = 3, watcher: Watcher | None = None,
    **options: object,
) -> Json:
    """Track streamlines on the workers of a cluster, and write the file that one run would have written.

    Parameters
    ----------
    client : distributed.Client
        Connection to a cluster, whose workers see the same files as the client.
    dwi, bvals, bvecs, output : as for :func:`tistreamlines.track`
        Inputs, and the tractogram to write, on shared storage. Arrays and images are written there once, for all
        workers.
    parts : int, optional
        Number of parts; four for each worker by default, and 1 with ``select``.
    retries : int
        How often a part may fail, or lose its worker more often than dask tolerates, before the run fails.
    watcher : Watcher, optional
        Receives the progress, as parts are finished, and notes and warnings.
    **options
        All others of :func:`tistreamlines.track`. Each worker uses the device that ``arch`` names, and with
        ``arch="cpu"`` as many threads as dask has given it. Without ``cache_dir``, tables are kept until the run ends.

    Returns
    -------
    dict
        Counts, lengths, stop reasons and run times, summed over the parts, as ``TrackResult.as_dict()`` returns them.

    Raises
    ------
    ParameterError, InputError, OutputError, DeviceError
        See :func:`tistreamlines.track`.
    distributed.KilledWorker
        If workers die again and again.

    Examples
    --------
    >>> from distributed import Client
    >>> from tistreamlines.distributed import track
    >>> client = Client("scheduler:8786")  # doctest: +SKIP
    >>> track(client, "dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000_000)  # doctest: +SKIP
    """
    subject = {"dwi": dwi, "bvals": bvals, "bvecs": bvecs, "output": output, **options}
    ((_, outcome),) = track_many(client, [subject], parts=parts, retries=retries, watcher=watcher)
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def track_many(
    client: Client, subjects: Iterable[Mapping[str, object]], *, parts: int | None = None, retries: int = 3,
    watcher: Watcher | None = None,
) -> Generator[tuple[int, Outcome], None, None]:
    """Track many subjects on the workers of a cluster, and hand out the results as they complete.

    Parameters
    ----------
    client : distributed.Client
        Connection to a cluster, whose workers see the same files as the client.
    subjects : iterable of dict
        Arguments of :func:`tistreamlines.track` for each subject, ``output`` among them.
    parts : int, optional
        Number of parts of each subject. By default there are four parts for each worker in all, and at least one for
        each subject.
    retries, watcher : as for :func:`track`
        The number of tolerated failures, and the receiver of the progress of all subjects together.

    Returns
    -------
    generator of (int, dict or Exception)
        Which of the subjects has ended, from 0 on, and its counts, lengths, stop reasons and run times, or the error
        that ended it; the other subjects go on.

    Raises
    ------
    ParameterError, OutputError
        If the arguments of a subject are wrong, before any of them is tracked.

    Examples
    --------
    >>> from distributed import Client
    >>> from tistreamlines.distributed import track_many
    >>> subjects = [{"dwi": f"sub-{k:02}/dwi.nii.gz", "output": f"sub-{k:02}/brain.trx"} for k in range(1, 31)]
    >>> for number, counts in track_many(Client("scheduler:8786"), subjects):  # doctest: +SKIP
    ...     print(number, counts)
    """
    subjects, workers = list(subjects), dict(client.nthreads())  # type: ignore[arg-type]
    if parts is not None and (not isinstance(parts, int) or parts < 1):
        raise ParameterError(f"parts is {parts!r}: give a whole number from 1 on")
    each = parts or max(math.ceil(EACH * len(workers) / max(len(subjects), 1)), 1)
    jobs = [_Job(number, subject, parts, each) for number, subject in enumerate(subjects)]
    return _outcomes(client, jobs, retries, watcher or Watcher())


class _Job:
    """A subject: its arguments, and a folder beside the output, for the inputs of workers and the parts that they
    write."""

    def __init__(self, number: int, subject: Mapping[str, object], parts: int | None, each: int) -> None:
        self.number, all_options = number, options()
        arguments = {name: _shareable(name, value) for name, value in expand(subject).items()}
        # join has no presets, so it receives what they stand for
        arguments |= with_preset({name: value for name, value in arguments.items() if name in all_options}).added
        output, base = arguments.get("output"), arguments.get("parameters")
        if not isinstance(output, str | PathLike) or not output:
            raise ParameterError("output is missing: name a tractogram on storage that all workers see")
        self.output = Path(output).absolute()
        of_subject = {name: value for name, value in arguments.items() if name not in OTHERS}
        if not isinstance(base, Parameters | None):
            raise ParameterError(f"parameters is {base!r}: give an object of tistreamlines.Parameters")
        chosen = Parameters.given(of_subject, base)
        if chosen.part is not None:
            raise ParameterError("part is chosen for each worker: give the number of parts")
        if chosen.select is not None and parts not in (None, 1):
            raise ParameterError("--select takes the seeds in turn, in one part: leave parts out")
        for name in (*asked(chosen), *(name for name in ("report", "save_5tt") if getattr(chosen, name) is not None)):
            if name not in of_subject:
                raise ParameterError(f"{name} is within parameters, which every part would write: give it as a keyword")
        dropped = [name for name in asked(chosen) if PRODUCTS[name].of_dropped]
        if dropped and each > 1 and chosen.select is None:
            raise ParameterError(f"{flag(dropped[0])} is made of one run, and not of its parts: leave it out, or give "
                                 "parts=1")
        if each > 1 and chosen.select is None:
            if self.output.suffix.lower() == NUMBERS:
                raise ParameterError(f"{self.output}: numbers are written in one run, and not of its parts: write a "
                                     ".trx, or give parts=1")
            if chosen.seed_dynamic is not None:
                raise ParameterError("seed_dynamic places seeds where streamlines of the whole run lack: leave it "
                                     "out, or give parts=1")
        series = (arguments.get(name) for name in SERIES)
        check_outputs(self.output, chosen, [path for path in series if isinstance(path, str | PathLike)])
        self.parts = 1 if chosen.select is not None else each
        if self.parts > 1:
            check_weights(chosen.weights, chosen.sift2)
        self.arguments = arguments | {"output": str(self.output), "json_stats": chosen.json_stats}
        self.dasks_threads = chosen.arch in ON_HOST and chosen.threads is None
        self.files, self.futures = ExitStack(), set[Future]()
        self.done, self.messages, self.ended = list[Json](), set[str](), False

    def open(self) -> None:
        """Create the folder, with the arguments, which may hold whole images.

        Only their hash is sent through dask; without that, whoever can write to the shared storage could have a worker
        run any code.
        """
        # of another name than drafts of the output, which whoever writes that removes
        folder = self.files.enter_context(hidden_folder(self.output.with_suffix(".parts")))
        cache = {"cache_dir": str(folder)} if self.parts > 1 else {}
        content = pickle.dumps(cache | self.arguments)
        (folder / TASK).write_bytes(content)
        self.task = str(folder), hashlib.sha256(content).hexdigest(), self.parts

    def end(self, client: Client) -> None:
        """Remove what belongs to a subject only while it is tracked."""
        if not self.ended:
            if self.futures:
                client.cancel(list(self.futures))
            self.ended = True
            self.files.close()


def _outcomes(
    client: Client, jobs: Sequence[_Job], retries: int, watcher: Watcher
) -> Generator[tuple[int, Outcome], None, None]:
    """Have all subjects tracked; hand out the number of each that has ended, and its counts or its error."""
    waiting, tasks = as_completed(loop=client.loop), dict[str, tuple[_Job, int | None, int]]()

    def submit(job: _Job, part: int | None, left: int) -> None:
        """Submit a part or, if that is None, the join of all parts; it may be tried ``left`` more times."""
        work, *more = (_join_parts,) if part is None else (_track_part, part, job.dasks_threads)
        key = f"{work.__name__.strip('_')}-{uuid4().hex}"
        future = client.submit(work, *job.task, *more, key=key, pure=False, retries=retries)
        tasks[key] = job, part, left
        job.futures.add(future)
        waiting.add(future)

    watcher.stage("track")
    try:
        for job in jobs:
            job.open()
            for part in range(1, job.parts + 1):
                submit(job, part, retries)
        for future in waiting:
            job, part, left = tasks.pop(future.key)
            job.futures.discard(future)
            if job.ended:
                continue
            outcome = future.exception() or future.result()
            if isinstance(outcome, KilledWorker) and left:
                submit(job, part, left - 1)
                continue
            if part is not None and not isinstance(outcome, BaseException):
                job.done.append(outcome["result"])
                _tell(watcher, jobs, job, outcome)
                if len(job.done) == job.parts > 1:
                    submit(job, None, retries)
                if job.parts > 1:
                    continue
            job.end(client)
            yield job.number, outcome if isinstance(outcome, BaseException) else outcome["result"]
    finally:
        for job in jobs:
            job.end(client)


def _tell(watcher: Watcher, jobs: Sequence[_Job], job: _Job, tracked: Json) -> None:
    """Tell what is new in the notes and warnings of a part that was tracked, and how many seeds are there."""
    for name, tell in (("notes", watcher.note), ("warnings", watcher.warn)):
        for text in tracked[name]:
            if text not in job.messages:
                job.messages.add(text)
                tell(text)
    done = [result for other in jobs for result in other.done]
    seeds, streamlines = (sum(result[name] for result in done) for name in ("seeds", "streamlines"))
    watcher.progress(seeds, round(seeds * sum(other.parts for other in jobs) / len(done)), streamlines)


class _Silent(Watcher):
    """Leaves notes and warnings to the client."""

    def warn(self, text: str) -> None:
        """Say nothing."""


def _arguments(folder: str, digest: str) -> dict[str, Any]:
    """Read the arguments of :func:`tistreamlines.track` as the client has written them, and nothing else."""
    path = Path(folder) / TASK
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != digest:
        raise TrackingError(f"{path} was changed by someone else: find out by whom, and start the run again")
    return pickle.loads(content)


def _track_part(folder: str, digest: str, parts: int, part: int, dasks_threads: bool) -> Json | TrackingError:
    """Track a part on the worker that runs this; errors that another try would not mend are returned."""
    arguments = _arguments(folder, digest)
    arguments["force"] = True
    if dasks_threads:
        arguments["threads"] = get_worker().state.nthreads
    if parts > 1:
        arguments |= dict.fromkeys(("json_stats", "report", *join_options()))  # join makes them of all parts
        arguments |= {"output": f"{folder}/part{part}.trx", "part": f"{part}/{parts}"}
        arguments |= {} if part == 1 else {"save_5tt": None}
    try:
        with _one_at_a_time:
            result = _when_free(lambda: track_here(**arguments, watcher=_Silent()))
    except (ParameterError, InputError) as error:
        return error
    finally:
        if not (Path(folder) / TASK).exists():  # the client has given up, and does not know what this has written since
            shutil.rmtree(folder, ignore_errors=True)
    return {"result": result.as_dict(), "notes": result.notes, "warnings": result.warnings}


def _join_parts(folder: str, digest: str, parts: int) -> Json | TrackingError:
    """Join the parts on the worker that runs this."""
    arguments = _arguments(folder, digest)
    try:
        # an earlier try, on a worker that was killed, may have written the output
        paths = [f"{folder}/part{number}.trx" for number in range(1, parts + 1)]
        options = {name: arguments.get(name) for name in ("json_stats", "report", *join_options())}
        result = _when_free(lambda: join(paths, arguments["output"], force=True, **options))
    except InputError as error:
        return error
    return {"result": result}


def _when_free(call: Callable[[], Result]) -> Result:
    """Call ``track`` or ``join``; wait while a worker that was lost still writes the same, or its disk thinks so."""
    for _ in range(PATIENCE):
        with suppress(BusyError):
            return call()
        time.sleep(1)
    return call()


def _shareable(name: str, value: object) -> object:
    """Return what other processes understand: absolute paths, and the values of images."""
    if hasattr(value, "dataobj") and hasattr(value, "affine"):  # an image, which would be rounded when it is sent
        data, affine = (getattr(value, attribute) for attribute in ("dataobj", "affine"))
        return SimpleNamespace(dataobj=np.asanyarray(data), affine=np.asarray(affine))
    if isinstance(value, str | PathLike):
        names_path = name in (*SERIES, *input_names()) or (name in options() and kind(name) == "path")
        names_path &= name not in options() or not is_word(name, value)
        file = is_file(value) if name == "response" else names_path and sphere_in(name, value) is None
        return str(Path(value).absolute()) if file else value
    return [_shareable(name, item) for item in value] if isinstance(value, list | tuple) else value
