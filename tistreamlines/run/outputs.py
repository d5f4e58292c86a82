"""Checks that the outputs can be written, before any work is done."""

from __future__ import annotations

import json
from collections.abc import Iterable
from os import PathLike
from pathlib import Path

from ..errors import OutputError, ParameterError
from ..io.in_memory import InMemory
from ..io.sidecar import sidecar_path
from ..io.writer import SINKS, check_target
from ..options.parameters import Parameters
from .record import OURS


def check_outputs(output: Path | None, parameters: Parameters, series: Iterable[str | PathLike[str]] = ()) -> None:
    """Check that the outputs can be written and that none of them replaces an input.

    Parameters
    ----------
    output : tractogram to write, if any.
    parameters : all options, among them the other outputs and inputs.
    series : paths of the diffusion series and its gradients.

    Raises
    ------
    OutputError
        If an output is a folder or an input, exists already, or cannot be written.
    ParameterError
        If two outputs have the same name.
    """
    if output is not None and not output.name:
        raise OutputError(f"{output}: is a folder; name a file in it")
    stats = None if parameters.json_stats is None else Path(parameters.json_stats)
    goes_on = output is not None and parameters.resume and unfinished(output).is_dir()
    force = parameters.force or goes_on  # a run that was ended may have written some of its outputs
    inputs = [Path(path) for path in (*series, *parameters.inputs().values()) if not isinstance(path, InMemory)]
    for path in (stats, output, None if output is None else output.with_suffix(".json")):
        if path is not None:
            _check_name(path, inputs)
    if stats is not None:
        check_target(stats, force=force)
    if output is None:
        return
    if output.suffix.lower() not in SINKS:
        raise OutputError(f"{output}: unknown suffix {output.suffix!r}; end the name with {', '.join(SINKS)}")
    if parameters.part is not None and output.suffix.lower() != ".trx":
        raise OutputError(f"{output}: a part is a .trx file; tistreamlines join makes a {output.suffix} of all parts")
    check_target(output, force=force)
    beside = sidecar_path(output)
    check_target(beside, force=force)
    if stats is not None and stats.resolve() in (beside.resolve(), output.resolve()):
        raise ParameterError(f"--json-stats {stats}: is also the name of another output; give another name")
    if beside.exists() and not _is_ours(beside):
        raise OutputError(f"{beside}: is not the record of a tractogram and is not replaced; rename {output.name}")


def unfinished(output: Path) -> Path:
    """Return the folder in which a run that can go on keeps what it has tracked."""
    return output.with_name(f"{output.name}.unfinished")


def _check_name(path: Path, inputs: Iterable[Path]) -> None:
    """Refuse a name that the file system does not accept, and that of an input, which would be lost."""
    try:
        # the hidden folder in which a file is written has the longest name
        path.with_name(f".{path.name}.{8 * 'x'}.part").lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error
    if any(_is_same(path, given) for given in inputs):
        raise OutputError(f"{path}: is an input, and is not replaced; give another name")


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def _is_ours(path: Path) -> bool:
    try:
        return path.is_file() and json.loads(path.read_text(encoding="utf-8")).get("made_by") == OURS
    except (OSError, ValueError, AttributeError):
        return False
