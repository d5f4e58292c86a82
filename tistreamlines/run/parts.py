"""Parts of a run: ranges of its seeds that are tracked apart, and their tractograms joined to that of the whole run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import Unpack

import numpy as np

from ..aliases import Json
from ..devices.threads import readers_awaited
from ..errors import InputError, OutputError
from ..io import sidecar
from ..io.in_memory import refuse_arrays
from ..io.numbers import SUFFIX as NUMBERS
from ..options.definitions import join_options
from ..options.objects import ProductOptions
from ..options.parameters import Parameters
from ..options.signatures import check_keywords
from ..tracking.growth.statistics import Statistics
from ..tracking.products.points.content import SPARSE, Content, check_content
from ..tracking.registry import METHODS, PRODUCTS
from .ends import nothing
from .hashes import doubts_of_places, hashing
from .outputs import Outputs, check_names, reserved, taken_by
from .products import makers_of, products_of
from .record import PartRecord, inputs_of
from .saving import Receiver, StoredTrx, damaged, difference

MOST_NAMED = 10  # missing parts in a message


def join(
    parts: Iterable[str | PathLike[str]], output: str | PathLike[str], *, force: bool = False,
    json_stats: str | PathLike[str] | None = None, report: str | PathLike[str] | None = None,
    **products: Unpack[ProductOptions],
) -> Json:
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
    report : str or Path, optional
        Page about the whole run, .html. It has no picture of the series and no directions, which only ``track`` reads.
    **products
        Options of the contents of the tractogram, such as ``sample``, and of its products, such as ``density``, as for
        :func:`track`. The files have the bytes of those that one run would have written.

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
    ParameterError
        If an option is invalid, or if options cannot be combined.
    TypeError
        If a keyword is not an option of the joined files.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> for k in (1, 2):
    ...     part = ts.track(
    ...         "dwi.nii.gz", "dwi.bval", "dwi.bvec", f"part{k}.trx", part=f"{k}/2", nseeds=100, arch="cpu"
    ...     )
    >>> counts = ts.join(["part1.trx", "part2.trx"], "brain.tck")
    >>> counts["seeds"]
    100
    """
    check_keywords("join", products, join_options())
    target, paths = Path(output), [Path(path) for path in parts]
    if target.suffix.lower() == NUMBERS:
        raise OutputError(f"{target}: numbers are written in one run, and not of its parts: give a .trx, .trk or .tck")
    for part in paths:
        if not part.name or part.suffix.lower() in (".tck", ".trk", NUMBERS):
            what = "a folder" if not part.name else "no part of a run, all of which are .trx"
            raise InputError(f"{part}: is {what}: give the .trx files of all parts of a run")
    chosen = Parameters.given({**products, "json_stats": json_stats, "report": report, "force": force})
    outputs, files = Outputs.of(target, chosen), chosen.inputs()
    refuse_arrays(files)
    taken = {path: "belongs to a part" for part in paths for path in (part, sidecar.sidecar_path(part))}
    taken |= taken_by(files.values())

    def check() -> None:
        check_names(outputs, taken, force=force)
        check_content(chosen, target)

    with readers_awaited(), reserved(outputs, check):
        ordered = whole([StoredTrx(path) for path in paths])
        thinned = chosen
        if not any(map(chosen.gives, SPARSE)):
            thinned = chosen.changed(downsample=_part(ordered[0]).downsample)
        step_mm, space = ordered[0].record.step_mm, ordered[0].space
        hashes, doubts = hashing(files), doubts_of_places(files)
        options = chosen.changed(**_arcs(ordered[0]))
        makers, content = products_of(options, space, step_mm, makers_of(options)), Content(thinned, chosen.threads)
        makers.follow()
        statistics = Statistics(counts=np.sum([part.counts for part in ordered], axis=0))
        receiver = Receiver(chosen, space, step_mm, makers, content, statistics)

        def whole_record() -> Json:
            return joined_record([part.record.content for part in ordered], receiver.summary())

        streamlines = receiver.count(batch for part in ordered for batch in part.batches())
        with receiver.saved(target, streamlines, whole_record):
            record = whole_record()
            values = chosen.as_dict() | {"downsample": thinned.as_dict()["downsample"]}
            record["parameters"] |= {name: values[name] for name in (*join_options(), "report")}
            record["inputs"] |= inputs_of(files, hashes())
            result = record["result"]
            ends = result["seeds"], result["dropped"], result["stop_reasons"]
            empty = [] if result["streamlines"] else [nothing(*ends)]
            doubts += dict.fromkeys([*receiver.doubts, *empty])
            record["warnings"] = list(dict.fromkeys([*record["warnings"], *doubts]))
            record = receiver.write_record(target, record | content.details)
        for doubt in doubts:
            warnings.warn(doubt, stacklevel=2)
        if receiver.gathered is not None:
            from .reporting import report as write_page

            write_page(receiver, target, record)
    return result


def whole(parts: Sequence[StoredTrx]) -> list[StoredTrx]:
    """Return the parts in the order of their seeds; raise InputError unless they are those of one run, each once."""
    if not parts:
        raise InputError("no part is given: give the .trx files of all parts of a run")
    first, known = parts[0], dict[int, StoredTrx]()
    same, count = first.identity, _part(first).of
    for stored in parts:
        part = _part(stored)
        differs = difference(stored.identity, same)
        if not differs and part.of != count:
            differs = f"it is one of {part.of} parts, not of {count}"
        if differs:
            raise InputError(f"{stored.path}: is of another run than {first.path}: {differs}")
        if part.number in known:
            other = known[part.number].path
            raise InputError(f"{stored.path} and {other} are both part {part.number}: give one of them")
        if stored.record.result.seeds != part.seeds:
            seeds = f"{stored.record.result.seeds} of {part.seeds} seeds"
            raise InputError(f"{stored.path}: only {seeds} were tracked: track it again")
        known[part.number] = stored
    missing = [*islice((str(number) for number in range(1, count + 1) if number not in known), MOST_NAMED + 1)]
    if missing:
        named = ", ".join(missing[:MOST_NAMED]) + (", ..." if len(missing) > MOST_NAMED else "")
        raise InputError(f"of {count} parts, these are missing: {named}; give the files of all parts")
    ordered, begin = [known[number] for number in sorted(known)], 0
    for stored in ordered:
        part = _part(stored)
        if part.first_seed != begin:
            raise damaged(stored.path, f"its record says that its first seed is {part.first_seed}, not {begin}")
        begin += part.seeds
    return ordered


def _part(stored: StoredTrx) -> PartRecord:
    """Return which part of a run a tractogram is; raise InputError if it is none."""
    if stored.record.part is None:
        raise InputError(f"{stored.path}: is not a part of a run: give files that track --part has written")
    return stored.record.part


def _arcs(stored: StoredTrx) -> dict[str, object]:
    """Return the options of a run that say how many points an arc has, as the weights of SIFT2 need to know."""
    options = stored.record.content["parameters"]
    known = {name: options.get(name) for name in ("dg", "samples")}
    return {name: value for name, value in known.items() if value is not None and known["dg"] in METHODS}


def joined_record(records: Sequence[Json], counted: Json) -> Json:
    """Return the record of a whole run, given those of its parts and what was counted.

    Seconds are summed; the devices of all parts are named.
    """
    results, first = [record["result"] for record in records], records[0]
    stages = dict.fromkeys(stage for part in results for stage in part["seconds"])
    seconds = {stage: round(sum(part["seconds"].get(stage, 0) for part in results), 4) for stage in stages}
    named = {name: ", ".join(dict.fromkeys(part[name] for part in results)) for name in ("arch", "device")}
    used = [device for record in records for device in record.get("devices", [record["device"]])]
    devices = list({json.dumps(device): device for device in used}.values())
    joined = {name: value for name, value in first.items() if name not in ("part", "devices", *PRODUCTS)}
    return joined | ({"devices": devices} if len(devices) > 1 else {}) | {
        "device": devices[0],
        "parameters": first["parameters"] | {"part": None, "resume": False, "cache_dir": None, "shared_cache": False},
        "warnings": list(dict.fromkeys(text for record in records for text in record["warnings"])),
        "result": {**results[0], **named, **counted, "seconds": seconds},
    }
