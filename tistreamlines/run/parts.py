"""Parts of a run: ranges of its seeds that are tracked apart, and their tractograms joined to that of the whole run."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, ParameterError
from ..io import sidecar
from ..io.in_memory import InMemory
from ..io.trx import Fields
from ..io.writer_thread import WriterThread
from ..option import flag, recorded
from ..options.definitions import joined_options, names_affecting
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.products.content import SPARSE, Content, check_content
from ..tracking.registry import PRODUCTS
from .counts import Counts
from .header import header_fields
from .inputs import doubts_of_places, hashing
from .kept import Stored, damaged
from .outputs import check_names, reserved, table_beside
from .products import asked, products_of
from .record import OURS, tractogram
from .schema import PartRecord

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import ProductOptions
    from ..report.gathered import Gathered

MACHINE = ("python", "system")  # versions that may differ
HASHED = ("the content", "the source")  # of which a hash is known, which tells nobody anything
TOLD = 10  # missing parts that are named


def identity(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what parts of one run have in common: versions, source, inputs and the options that change streamlines."""
    given, free = record["inputs"], names_affecting("run")
    versions = {f"the version of {name}": v for name, v in record["versions"].items() if name not in MACHINE}
    code = {f"the source of {OURS}": record["source"], "the step in mm": record["step_mm"]}
    inputs = {f"the content of {n}": one["sha256"] for n, one in given.items() if n.split()[0] not in free}
    named = {
        flag(name): [one for i, one in enumerate(value, 1) if f"{name} {i}" not in given]  # spheres
        if isinstance(value, list) else value
        for name, value in record["parameters"].items() if name not in free and name not in given
    }
    return json.loads(json.dumps(versions | code | inputs | named))


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """Say in what two identities differ first: '--max-angle is 30, not 60'; nothing if they are equal."""
    for name in {**one, **other}:
        if one.get(name) != other.get(name):
            told = "differs" if name.startswith(HASHED) else f"is {one.get(name)}, not {other.get(name)}"
            return f"{name} {told}"
    return ""


def join(
    parts: Iterable[str | PathLike[str]], output: str | PathLike[str], *, force: bool = False,
    json_stats: str | PathLike[str] | None = None, report: str | PathLike[str] | None = None,
    **products: Unpack[ProductOptions],
) -> dict[str, Any]:
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
        Options of what the tractogram holds, such as ``sample``, and of what is made of the streamlines besides, such
        as ``density``, as for :func:`track`. The files have the bytes of those that one run would have written.

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
    target, stats = Path(output), None if json_stats is None else Path(json_stats)
    paths = [Path(path) for path in parts]
    for part in paths:
        if not part.name or part.suffix.lower() in (".tck", ".trk"):
            what = "a folder" if not part.name else "no part of a run, all of which are .trx"
            raise InputError(f"{part}: is {what}: give the .trx files of all parts of a run")
    taken = {path: "belongs to a part" for part in paths for path in (part, sidecar.sidecar_path(part))}
    chosen = _product_options(products)
    taken |= {Path(path): "is an input" for path in chosen.inputs().values() if not isinstance(path, InMemory)}
    others, page = asked(chosen), None if report is None else Path(report)

    def check_joined() -> None:
        table = table_beside(target, chosen)
        check_names(target, stats, taken, force=force, products=others, table=table, report=page)
        check_content(chosen, target)

    with reserved(target, check_joined, others):
        ordered, counts = whole([Stored(path) for path in paths]), Counts()
        thinned = chosen
        if not any(map(chosen.gives, SPARSE)):
            thinned = chosen.changed(downsample=_part(ordered[0]).downsample)
        step_mm, space = ordered[0].record.step_mm, ordered[0].space
        files, hashes = chosen.inputs(), hashing(chosen.inputs())
        doubts = doubts_of_places(files)
        made, content = products_of(chosen, space, step_mm), Content(thinned, chosen.threads)
        made.follow()
        content.groups_of, content.late = made.groups, made.per_streamline
        gathered = None if page is None else _gathered(space, step_mm)

        def count(batch: Batch) -> None:
            counts.add(batch)
            made.add(batch)
            if gathered is not None:
                gathered.add(batch)

        def told() -> dict[str, Any]:
            return joined_record([one.record.content for one in ordered], counts.summary(step_mm))

        write(
            ordered, target, space, step_mm, count, content, lambda: header_fields(told(), space), force=force,
            written=lambda: made.write(force=force),
        )
        record = told()
        record["tractogram"] = tractogram(target)
        held = chosen.as_dict() | {"downsample": thinned.as_dict()["downsample"]}
        record["parameters"] |= {name: held[name] for name in joined_options()}
        record["parameters"]["report"] = recorded(page)
        record["inputs"] |= {n: {"path": str(files[n]), "sha256": one} for n, one in hashes().items()}
        record |= made.told | content.details
        from .ends import nothing

        result = record["result"]
        empty = [] if result["streamlines"] else [nothing(result["seeds"], result["dropped"], result["stop_reasons"])]
        doubts += dict.fromkeys([*made.doubts, *content.doubts, *empty])
        record["warnings"] = list(dict.fromkeys([*record["warnings"], *doubts]))
        for doubt in doubts:
            warnings.warn(doubt, stacklevel=2)
        sidecar.write_record(sidecar.sidecar_path(target), record, force=force)
        if stats is not None:
            sidecar.write_json(stats, record["result"], force=force)
        if gathered is not None and page is not None:
            from ..report.page import Told
            from .reporting import report as write_page

            facts = Told(record, str(target), counts.histogram, products=made.values)
            write_page(page, facts, gathered, None, force=force)
    return record["result"]


def _gathered(space: Space, step_mm: float) -> Gathered:
    """Return what a report keeps of the streamlines."""
    from ..report.gathered import Gathered

    return Gathered(space, step_mm)


def _product_options(given: Mapping[str, Any]) -> Parameters:
    """Check the options of products as those of a run."""
    if unknown := set(given) - set(joined_options()):
        raise TypeError(f"join() got an unexpected keyword argument {min(unknown)!r}")
    chosen = Parameters.given(given)
    for name, value in chosen.inputs().items():
        if isinstance(value, InMemory) and value.affine is None:
            raise ParameterError(f"{name} is an array: give a nibabel image, or the path of one")
    return chosen


def whole(parts: Sequence[Stored]) -> list[Stored]:
    """Return the parts in the order of their seeds; raise InputError unless they are those of one run, each once."""
    if not parts:
        raise InputError("no part is given: give the .trx files of all parts of a run")
    first, found = parts[0], dict[int, Stored]()
    for one in parts:
        part, of = _part(one), _part(first).of
        differs = difference(identity(one.record.content), identity(first.record.content))
        if not differs and part.of != of:
            differs = f"it is one of {part.of} parts, not of {of}"
        if differs:
            raise InputError(f"{one.path}: is of another run than {first.path}: {differs}")
        if part.number in found:
            other = found[part.number].path
            raise InputError(f"{one.path}: is part {part.number}, and so is {other}: give one of them")
        if one.record.result.seeds != part.seeds:
            seeds = f"{one.record.result.seeds} of {part.seeds} seeds"
            raise InputError(f"{one.path}: only {seeds} were tracked: track it again")
        found[part.number] = one
    count = _part(first).of
    missing = [*islice((str(number) for number in range(1, count + 1) if number not in found), TOLD + 1)]
    if missing:
        named = ", ".join(missing[:TOLD]) + (", ..." if len(missing) > TOLD else "")
        raise InputError(f"of {count} parts, these are missing: {named}; give the files of all parts")
    ordered, begin = [found[number] for number in sorted(found)], 0
    for one in ordered:
        if _part(one).first_seed != begin:
            raise damaged(one.path, f"its record says that its first seed is {_part(one).first_seed}, not {begin}")
        begin += _part(one).seeds
    return ordered


def _part(one: Stored) -> PartRecord:
    """Return which part of a run a tractogram is; raise InputError if it is none."""
    if one.record.part is None:
        raise InputError(f"{one.path}: is not a part of a run: give files that track --part has written")
    return one.record.part


def write(
    parts: Iterable[Stored], output: Path, space: Space, step_mm: float, count: Callable[[Batch], None],
    content: Content, fields: Fields, *, force: bool, drafts: Path | None = None,
    written: Callable[[], object] = lambda: None,
) -> None:
    """Write the content of the streamlines of parts, in this order, and count them.

    ``fields`` returns at the end what the header of a .tck says. ``written`` is called when the tractogram is complete,
    before it gets its name.
    """
    layout = content.layout(step_mm)
    with WriterThread(output, space, force=force, drafts=drafts, content=content.of, fields=fields, **layout) as writer:
        for part in parts:
            for batch in part.batches():
                count(batch)
                writer.put(batch)
        writer.finish()
        written()


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
    made = {name: value for name, value in first.items() if name not in ("part", "devices", *PRODUCTS)}
    return made | ({"devices": devices} if len(devices) > 1 else {}) | {
        "device": devices[0],
        "parameters": first["parameters"] | {"part": None, "resume": False, "cache_dir": None, "shared_cache": False},
        "warnings": list(dict.fromkeys(text for one in records for text in one["warnings"])),
        "result": {**results[0], **named, **counted, **sums, "seeds": seeds},
    }
