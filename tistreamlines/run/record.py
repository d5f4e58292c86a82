"""The JSON record of a run: parameters, inputs, versions, device and results; and how records are read back.

Each dataclass lists the fields of a JSON object that is read back, with their types and checks: the records of parts
and of pieces, and the journal of a run that can go on. A record is used only if it has all of them, if nobody has
changed it since it was written, and if it is that of the tractogram beside it.
"""

from __future__ import annotations

import json
import math
import platform
import zipfile
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin, get_type_hints

from ..aliases import Array, Json
from ..errors import ParameterError
from ..installed import version_of
from ..io import sidecar
from ..io.cache import source_hash, with_plugins
from ..io.drafts import complete_file, explained
from ..io.images import AnyPath
from ..io.numbers import SUFFIX as NUMBERS
from ..io.regular import read_regular
from ..io.trx import contents
from ..kernels.stop_reasons import Stop, Verdict
from ..option import part_of
from ..options.parameters import Parameters, length_mm, voxel_side
from ..space.batch import Space
from ..tracking.stopping.segmentation import subject_files

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

OURS = "tistreamlines"
SEED_REJECTED = Verdict.SEED_OUTSIDE_LIMIT.name.lower()  # such streamlines are none of tckgen's total count
MOST = 1 << 53  # JSON's whole numbers are exact up to here
Kind = TypeVar("Kind", bound="DataclassInstance")


def by_reason(counts: Array, no_reason: Stop | Verdict) -> dict[str, int]:
    """Return by name how many ends or streamlines there are for each reason."""
    return {reason.name.lower(): int(counts[reason]) for reason in type(no_reason) if reason is not no_reason}


def versions() -> dict[str, str]:
    """Return the versions of this package, of Python and of the libraries that can affect results."""
    from .. import __version__

    system = f"{platform.system()} {platform.machine()}"
    libraries = {name: version_of(name) for name in ("taichi", "numba", "numpy", "scipy", "dipy", "nibabel")}
    return {OURS: __version__, "python": platform.python_version(), "system": system, **libraries}


def record(
    parameters: Parameters, step_mm: float, inputs: Json, device: Json, stats: Mapping[str, object],
) -> Json:
    """Return the content of the record, ready for JSON.

    Parameters
    ----------
    parameters : Parameters
        Options of the run.
    step_mm : float
        Step size, mm.
    inputs, device, stats : dict
        Input files with their hashes, the device, and the results.

    Returns
    -------
    dict
        The record.
    """
    return {
        "made_by": OURS,
        "versions": versions(),
        "source": with_plugins(source_hash()),
        "device": device,
        "inputs": inputs,
        "parameters": parameters.as_dict(),
        "step_mm": step_mm,
        "stop_threshold": parameters.threshold if parameters.applies("stop_threshold") else None,
        "stop_reason_codes": {int(reason): reason.text for reason in Stop if reason is not Stop.GROWING},
        "result": dict(stats),
    }


def inputs_of(paths: Mapping[str, AnyPath], hashes: Mapping[str, str]) -> Json:
    """Return what a record says of the inputs, given the hash of each that is recorded; also what a folder has."""
    inputs: Json = {name: {"path": str(paths[name]), "sha256": digest} for name, digest in hashes.items()}
    for name, content in inputs.items():
        if files := subject_files(paths[name]):
            content["files"] = [str(file) for file in files]
    return inputs


def tractogram(path: Path) -> Json:
    """Return what a record says of the tractogram that it lies beside, so that no other one is taken for it."""
    if path.suffix.lower() not in (".trx", NUMBERS):
        return {"format": path.suffix}
    with explained(path), zipfile.ZipFile(complete_file(path)) as archive:
        if path.suffix.lower() == NUMBERS:
            return {"format": path.suffix, "contents": contents(archive)}
        points = json.loads(archive.read("header.json"))["NB_VERTICES"]
        return {"format": path.suffix, "contents": contents(archive), "points": points}


def header_fields(record: Json, space: Space) -> dict[str, object]:
    """Return what the header of a .tck says of its run, by the names that MRtrix3's tckgen uses, as far as known.

    Parameters
    ----------
    record : of the run, as :func:`record` returns it; its result has at least ``streamlines``
        and ``dropped``.
    space : grid of the image that was tracked.
    """
    options, result = record["parameters"], record["result"]
    longest, side = options["max_length"], voxel_side(options["dg"], space.voxel_sizes)
    dropped = sum(count for reason, count in result["dropped"].items() if reason != SEED_REJECTED)
    known = {
        f"{OURS}_version": record["versions"][OURS],
        "method": options["dg"],
        "max_angle": options["max_angle"],
        "min_dist": length_mm(options["min_length"], side),
        "max_dist": None if longest is None else length_mm(longest, side),
        "threshold": record["stop_threshold"],
        "total_count": result["streamlines"] + dropped,
    }
    return {name: value for name, value in known.items() if value is not None}


class RecordError(ValueError):
    """A record cannot be used; the message goes on after its name, 'a.json has no checksum'."""


@dataclass(frozen=True)
class Input:
    """A file that a run has read."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Result:
    """The numbers of a run, which :class:`tistreamlines.run.result.TrackResult` describes.

    The number of streamlines has the key ``streamlines``; in Python, this is the name of the streamlines themselves.
    """

    arch: str
    device: str
    seeds: int
    n_streamlines: int = field(metadata={"key": "streamlines"})
    points: int
    mean_points: float
    median_points: float
    mean_mm: float
    median_mm: float
    stop_reasons: dict[str, int]
    written_stop_reasons: dict[str, int]
    dropped: dict[str, int]
    seconds: dict[str, float]


@dataclass(frozen=True)
class PieceRecord:
    """Consecutive seeds of a run: those of a piece."""

    first_seed: int
    seeds: int


@dataclass(frozen=True)
class PartRecord(PieceRecord):
    """The seeds of the number-th of so many parts, and which points are written by default when they are joined."""

    number: int
    of: int
    downsample: int = 1


@dataclass(frozen=True)
class Tractogram:
    """The file that a record describes; what it contains, and how many points, is known of .trx files."""

    format: str
    contents: str = ""
    points: int | None = None


@dataclass(frozen=True)
class RunRecord:
    """The record beside a tractogram; ``content`` is all of it, as JSON has it."""

    made_by: str
    versions: dict[str, str]
    source: str
    device: Json
    inputs: dict[str, Input]
    parameters: Json
    step_mm: float
    warnings: list[str]
    result: Result
    tractogram: Tractogram
    content: Json
    devices: list[Json] = field(default_factory=list)
    part: PartRecord | None = None
    piece: PieceRecord | None = None

    def __post_init__(self) -> None:
        """Compare fields that depend on each other."""
        if self.step_mm == 0:
            raise RecordError("has 0 as step_mm")
        written = self.result.n_streamlines  # each streamline is written or dropped, and has two ends
        grown = written + sum(self.result.dropped.values())
        for count, reasons in ((grown, self.result.stop_reasons), (written, self.result.written_stop_reasons)):
            if sum(reasons.values()) != 2 * count:
                raise RecordError(f"has {sum(reasons.values())} ends of {count} streamlines")
        if self.part is not None and part_of(self.parameters.get("part")) != (self.part.number, self.part.of):
            raise RecordError(f"has {self.parameters.get('part')} as part of its parameters")
        if self.piece is not None and self.piece.seeds != self.result.seeds:
            raise RecordError(f"has {self.piece.seeds} and {self.result.seeds} seeds")


@dataclass(frozen=True)
class Journal:
    """The common fields of the pieces of a run with --resume; the products of its end, and the files that it has begun
    to write."""

    made_by: str
    run: Json
    inputs: dict[str, Input] = field(default_factory=dict)  # that change no piece: those of products
    outputs: list[str] = field(default_factory=list)


def loaded(path: Path, *, private: bool = False) -> Json:
    """Return the JSON object of a file that this program has written; raise RecordError or OSError if it is none."""
    try:
        content = json.loads(read_regular(path, private=private).decode())
    except (ValueError, RecursionError) as error:  # no JSON, nested too deeply, or a name with a NUL
        raise RecordError("is no JSON object") from error
    if not isinstance(content, dict) or content.get("made_by") != OURS:
        raise RecordError("was not written by this program")
    return content


def read(path: Path, kind: type[Kind], *, private: bool = False) -> Kind:
    """Read a record, and check that it is complete and unchanged.

    Parameters
    ----------
    path : Path
        The JSON file.
    kind : type
        Its class above.
    private : bool
        Refuse links and files of other users, see :func:`tistreamlines.io.regular.open_regular`.

    Raises
    ------
    RecordError
        If it cannot be used.
    OSError
        If it cannot be read.
    """
    content = loaded(path, private=private)
    if "checksum" not in content:
        raise RecordError("has no checksum, as those of earlier versions")
    if content["checksum"] != sidecar.checksum(content):
        raise RecordError("has been changed since it was written")
    try:
        return _object("", kind, content | {"content": content})
    except ParameterError as error:
        raise RecordError(f"has an option that is none: {error}") from error


def _checked(name: str, kind: object, value: object) -> object:
    """Return a value of JSON as its type demands; raise RecordError, with its name, if it is of another one."""
    first, *others = get_args(kind) or (None,)
    if isinstance(kind, UnionType):
        return None if value is None else _checked(name, first, value)
    if isinstance(kind, type) and is_dataclass(kind) and isinstance(value, dict):
        return _object(name, kind, value)
    if get_origin(kind) is dict and isinstance(value, dict):
        return {key: _checked(f"{name}.{key}", others[0], item) for key, item in value.items()}
    if get_origin(kind) is list and isinstance(value, list):
        return [_checked(name, first, item) for item in value]
    if kind is Any or (kind is str and isinstance(value, str)):
        return value
    if kind in (int, float) and type(value) is int and 0 <= value < MOST:
        return value
    if kind is float and isinstance(value, float) and 0 <= value < math.inf:
        return value
    raise RecordError(f"has {str(value)[:40]!r} as {name}")


def _object(name: str, kind: type[Kind], value: Json) -> Kind:
    """Return the object of a class above; fields that it does not list are left out."""
    types, before, keys = get_type_hints(kind), f"{name}." if name else "", keys_of(kind)
    needed = {keys[row.name] for row in fields(kind) if row.default is MISSING and row.default_factory is MISSING}
    if missing := sorted(needed - value.keys()):
        raise RecordError(f"lacks {before}{missing[0]}")
    known = {field: key for field, key in keys.items() if key in value}
    return kind(**{field: _checked(before + key, types[field], value[key]) for field, key in known.items()})


def keys_of(kind: type[DataclassInstance]) -> dict[str, str]:
    """Return the key in JSON of each field of a class above, which is its name unless it says another one."""
    return {row.name: row.metadata.get("key", row.name) for row in fields(kind)}
