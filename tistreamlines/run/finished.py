"""Runs that were finished before: whether their files are there, and whether a command would write the same ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..aliases import Json
from ..errors import TrackingError
from ..io.cache import source_hash, with_plugins
from ..io.images import label_in
from ..option import RUNNING, flag
from ..options.definitions import names_affecting, options
from ..options.parameters import Parameters
from ..tracking.stopping.segmentation import subject_files
from .hashes import hashing
from .outputs import Outputs, place_of, previous_outputs
from .record import Input, RecordError, Result, Tractogram, read, tractogram

SAME_FILES = ("force", "preset")  # options that change no file: a record lists those that a preset stands for


@dataclass(frozen=True)
class FinishedRun:
    """The record of a run, with or without a tractogram; see :class:`.record.RunRecord`."""

    made_by: str
    source: str
    inputs: dict[str, Input]
    parameters: Json
    chosen: Json
    warnings: list[str]
    result: Result
    tractogram: Tractogram | None = None

    @property
    def is_of_this_version(self) -> bool:
        """Whether the same source of this package has written it."""
        return self.source == with_plugins(source_hash())


def finished_run(outputs: Outputs) -> FinishedRun | None:
    """Return the record of a run whose files are all there, or None."""
    if outputs.record is None or not all(path.is_file() for path in outputs.files):
        return None
    with suppress(OSError, RecordError):
        run = read(outputs.record, FinishedRun)
        return run if _describes(run, outputs.tractogram) else None
    return None


def unfinished_run(outputs: Outputs, parameters: Parameters) -> str:
    """Return why a run cannot begin beside the files of an incomplete one, and what to do; '' if there are none."""
    free = previous_outputs(outputs.tractogram) if outputs.tractogram and parameters.resume else set[Path]()
    if not (there := [str(path) for path in outputs.files if path.exists() and place_of(path) not in free]):
        return ""
    missing = next((path for path in outputs.files if not path.is_file()), None)
    lack = f"{outputs.record} does not describe them" if missing is None else f"{missing} is missing"
    return f"{lack}, so the run is not complete, or its files are damaged; remove {', '.join(there)}, or add --force"


def _describes(run: FinishedRun, path: Path | None) -> bool:
    """Whether a tractogram is that of the record, as far as its end tells, where an archive lists its members."""
    if path is None or run.tractogram is None or not run.tractogram.contents:
        return True
    with suppress(Exception):  # for a damaged file, zipfile raises a dozen unrelated types
        return tractogram(path)["contents"] == run.tractogram.contents
    return False


def difference_from(run: FinishedRun, series: Mapping[str, str], parameters: Parameters, record: Path) -> str:
    """Say how a command would write other files than a finished run: '--max-angle is 30, not 60'; nothing if the same.

    Parameters
    ----------
    run : read from ``record``.
    series : paths of ``dwi``, ``bvals`` and ``bvecs``, as far as the command names them.
    parameters : all options of the command.
    record : the file of the record. An input that is newer is compared with its hash in the record.
    """
    for name, path in series.items():
        known = run.inputs.get(name)
        if known is None or known.path != path:
            return f"{name.upper()} was {'missing' if known is None else known.path}, not {path}"
    known_options = options()
    free = {name for name in names_affecting("run") if known_options[name].group == RUNNING} - {"part"}
    for name, value in json.loads(json.dumps(parameters.as_dict())).items():
        before = run.parameters.get(name)
        by_run = name in run.chosen and not parameters.gives(name)  # a default that follows from the fit
        if name not in free and name not in SAME_FILES and before != value and not by_run:
            return f"{flag(name)} was {before}, not {value}"
    return next((f"{file.path} has changed" for name, file in run.inputs.items() if _changed(name, file, record)), "")


def _changed(name: str, file: Input, record: Path) -> bool:
    """Whether an input is newer than the record of a run, and has another content; one that was removed has not."""
    path = Path(label_in(file.path)[0])
    with suppress(OSError, TrackingError):
        written = record.stat().st_mtime_ns
        if any(_changed_at(part) > written for part in (path, *subject_files(path))):
            return hashing({name: file.path})()[name] != file.sha256
    return False


def _changed_at(path: Path) -> int:
    """Return when a file has changed last, in ns; its own time may be that of the file of which it is a copy."""
    status = path.stat()
    return max(status.st_mtime_ns, status.st_ctime_ns)
