"""Parts of a run: ranges of its seeds that are tracked apart, and their tractograms joined to that of the whole run."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import InputError, OutputError
from ..io import sidecar
from ..io.tractogram import Batch, Space
from ..io.trx import MEMBERS, POINTS, POINTS_START, crc32
from ..io.writer import SINKS, check_target
from ..io.writer_thread import WriterThread
from ..option import flag
from .counts import Counts
from .record import OURS

POINTS_AT_ONCE = 1 << 22
# options that change no streamline, so that parts may differ in them
FREE = (
    "part", "resume", "force", "json_stats", "arch", "devices", "threads", "chunk_size", "memory_limit", "cache_dir",
)  # fmt: skip
MACHINE = ("python", "system")  # versions that may differ


class Stored:
    """A TRX file that this package has written, with its record.

    Parameters
    ----------
    path : the tractogram.

    Attributes
    ----------
    record : the JSON record beside it.
    space : grid of the image that was tracked.

    Raises
    ------
    InputError
        If the file or its record is missing or damaged.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.record = path, record_of(path)
        with self._opened() as archive:
            header = json.loads(archive.read("header.json"))
            self.space = Space(header["VOXEL_TO_RASMM"], tuple(header["DIMENSIONS"]))
            self.streamlines, self.points = header["NB_STREAMLINES"], header["NB_VERTICES"]
        told = self.record["result"]
        if (self.streamlines, self.points) != (told["streamlines"], told["points"]):
            raise InputError(f"{path}: is not the tractogram that {sidecar.sidecar_path(path).name} describes")

    def batches(self) -> Generator[Batch, None, None]:
        """Read the streamlines; raise InputError at the end if the points are damaged."""
        if not self.streamlines:
            return
        with self._opened() as archive:
            expected, crc = archive.getinfo(POINTS).CRC, 0
            fields = {field: _member(archive, name) for field, name in MEMBERS.items()}
            starts = _member(archive, next(n for n in archive.namelist() if n.startswith("offsets."))).astype(np.int64)
            points = np.memmap(self.path, "<f4", "r", POINTS_START, (self.points, 3))
        cuts = np.unique(np.searchsorted(starts, [*range(0, self.points, POINTS_AT_ONCE), self.points]))
        for a, b in pairwise(cuts):
            own = np.array(points[starts[a] : starts[b]])
            crc = crc32(own.data, crc)
            yield Batch(own, starts[a : b + 1] - starts[a], **{name: each[a:b] for name, each in fields.items()})
        if crc != expected:
            raise self._damaged("its points have changed")

    def check(self) -> None:
        """Raise InputError if the file is damaged."""
        for _ in self.batches():
            pass

    def _damaged(self, reason: object) -> InputError:
        return InputError(f"{self.path}: is damaged ({reason}): track it again")

    @contextmanager
    def _opened(self) -> Generator[zipfile.ZipFile, None, None]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                yield archive
        except (OSError, EOFError, zipfile.BadZipFile, KeyError, ValueError, StopIteration) as error:
            raise self._damaged(error) from error


def _member(archive: zipfile.ZipFile, name: str) -> npt.NDArray[Any]:
    """Read an array, whose checksum is compared; its name ends with the columns, if there are several, and the type."""
    _, *columns, dtype = name.split(".")
    array = np.frombuffer(archive.read(name), np.dtype(dtype).newbyteorder("<"))
    return array.reshape(-1, int(columns[0])) if columns else array


def record_of(path: Path) -> dict[str, Any]:
    """Return the record of a tractogram; raise InputError if it is missing or was not written by this package."""
    beside = sidecar.sidecar_path(path)
    try:
        found = json.loads(beside.read_text(encoding="utf-8"))
        if found["made_by"] == OURS:
            return found
    except (OSError, ValueError, KeyError, TypeError):
        pass
    raise InputError(f"{path}: has no record {beside.name} beside it that this program has written: track it again")


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what parts of one run have in common: versions, inputs and the options that change streamlines."""
    given = record["inputs"]
    versions = {f"the version of {name}": v for name, v in record["versions"].items() if name not in MACHINE}
    inputs = {f"the content of {name}": one["sha256"] for name, one in given.items()}
    named = {
        flag(name): [one for i, one in enumerate(value, 1) if f"{name} {i}" not in given]  # spheres
        if isinstance(value, list) else value
        for name, value in record["parameters"].items() if name not in FREE and name not in given
    }  # fmt: skip
    return json.loads(json.dumps(versions | inputs | named))


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Say in what two identities differ first: '--max-angle is 30, not 60'; nothing if they are equal."""
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            told = "differs" if name.startswith("the content") else f"is {one.get(name)}, not {other.get(name)}"
            return f"{name} {told}"
    return ""


def join(
    parts: Iterable[str | PathLike[str]], output: str | PathLike[str], *, force: bool = False,
    json_stats: str | PathLike[str] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Join the parts of a run to the tractogram that one run would have written, in any format.

    Parameters
    ----------
    parts : iterable of str or Path
        All tractograms of ``tistreamlines track --part 1/N`` to ``N/N``, .trx with their .json records, in any order.
    output : str or Path
        Tractogram to write: .trx, .trk or .tck, with a record beside it.
    force : bool
        Overwrite existing files.
    json_stats : str or Path, optional
        File for counts, lengths, stop reasons, dropped streamlines and run times (seconds, summed over the parts) as
        JSON.

    Returns
    -------
    dict
        Counts, lengths, stop reasons and run times, as ``TrackResult.as_dict()`` returns them.

    Raises
    ------
    InputError
        If a part is missing, given twice, damaged, incomplete, or of another run.
    OutputError
        If the output cannot be written.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> for k in range(1, 5):  # doctest: +SKIP
    ...     ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", f"part{k}.trx", part=f"{k}/4")
    >>> ts.join(["part1.trx", "part2.trx", "part3.trx", "part4.trx"], "brain.trx")  # doctest: +SKIP
    """
    target = Path(output)
    paths = [Path(path) for path in parts]
    check_join(paths, target, force=force)
    ordered, counts = whole([Stored(path) for path in paths]), Counts()
    step_mm = ordered[0].record["step_mm"]
    write(ordered, target, ordered[0].space, step_mm, counts.add, force=force)
    record = joined_record([one.record for one in ordered], counts.summary(step_mm))
    sidecar.write_json(sidecar.sidecar_path(target), record, force=force)
    if json_stats is not None:
        sidecar.write_json(Path(json_stats), record["result"], force=force)
    return record["result"]


def check_join(parts: Sequence[Path], output: Path, *, force: bool) -> None:
    """Check that the joined tractogram can be written and replaces no part."""
    if output.suffix.lower() not in SINKS:
        raise OutputError(f"{output}: unknown suffix {output.suffix!r}; end the name with {', '.join(SINKS)}")
    for path in (output, sidecar.sidecar_path(output)):
        if any(path.resolve() in (part.resolve(), sidecar.sidecar_path(part).resolve()) for part in parts):
            raise OutputError(f"{path}: belongs to a part, and is not replaced; give another name")
        check_target(path, force=force)


def whole(parts: Sequence[Stored]) -> list[Stored]:
    """Return the parts in the order of their seeds; raise InputError unless they are those of one run, each once."""
    if not parts:
        raise InputError("no part is given: give the .trx files of all parts of a run")
    first = parts[0]
    found: dict[int, Stored] = {}
    for one in parts:
        part = one.record.get("part")
        if not part:
            raise InputError(f"{one.path}: is not a part of a run: give files that track --part has written")
        differs = difference(identity(one.record), identity(first.record))
        if not differs and part["of"] != first.record["part"]["of"]:
            differs = f"it is one of {part['of']} parts, not of {first.record['part']['of']}"
        if differs:
            raise InputError(f"{one.path}: is of another run than {first.path}: {differs}")
        if part["number"] in found:
            other = found[part["number"]].path
            raise InputError(f"{one.path}: is part {part['number']}, and so is {other}: give one of them")
        if one.record["result"]["seeds"] != part["seeds"]:
            seeds = f"{one.record['result']['seeds']} of {part['seeds']} seeds"
            raise InputError(f"{one.path}: only {seeds} were tracked: track it again")
        found[part["number"]] = one
    count = first.record["part"]["of"]
    missing = [str(number) for number in range(1, count + 1) if number not in found]
    if missing:
        raise InputError(f"of {count} parts, these are missing: {', '.join(missing)}; give the files of all parts")
    return [found[number] for number in sorted(found)]


def write(
    parts: Iterable[Stored], output: Path, space: Space, step_mm: float, count: Callable[[Batch], None], *, force: bool
) -> float:
    """Write the streamlines of parts, in this order, and count them; return the seconds that the writer took."""
    with WriterThread(output, space, force=force, step_mm=step_mm) as writer:
        for part in parts:
            for batch in part.batches():
                count(batch)
                writer.put(batch)
        writer.finish()
    return writer.seconds


def joined_record(records: Sequence[Mapping[str, Any]], counted: Mapping[str, Any]) -> dict[str, Any]:
    """Return the record of a whole run, given those of its parts and the counts of its streamlines.

    Seeds, stop reasons, dropped streamlines and seconds are summed; the devices of all parts are named.
    """
    results, first = [one["result"] for one in records], records[0]
    sums = {
        name: {key: round(sum(one[name].get(key, 0) for one in results), 4) for one in results for key in one[name]}
        for name in ("stop_reasons", "dropped", "seconds")
    }
    named = {name: ", ".join(dict.fromkeys(one[name] for one in results)) for name in ("arch", "device")}
    used = [device for one in records for device in one.get("devices", [one["device"]])]
    devices = list({json.dumps(device): device for device in used}.values())
    seeds = sum(one["seeds"] for one in results)
    made = {name: value for name, value in first.items() if name not in ("part", "devices")}
    return made | ({"devices": devices} if len(devices) > 1 else {}) | {
        "device": devices[0],
        "parameters": first["parameters"] | {"part": None, "resume": False, "cache_dir": None},
        "warnings": list(dict.fromkeys(text for one in records for text in one["warnings"])),
        "result": {**results[0], **named, **counted, **sums, "seeds": seeds},
    }
