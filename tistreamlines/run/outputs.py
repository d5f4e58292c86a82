"""Checks that the outputs can be written, before any work is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from ..errors import BusyError, OutputError, ParameterError
from ..io import drafts
from ..io.in_memory import InMemory
from ..io.writer import SINKS, check_target, explained, table_of
from ..option import flag
from ..options.parameters import Parameters
from ..report.names import SUFFIXES, files_of
from ..tracking.products.content import check_content
from ..tracking.registry import PRODUCTS
from .products import asked, record_path, suffix_of
from .schema import Journal, RecordError, loaded, read

JOURNAL = "run.json"  # what is known of an unfinished run


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
    stats = None if parameters.json_stats is None else Path(parameters.json_stats)
    inputs = (Path(path) for path in (*series, *parameters.inputs().values()) if not isinstance(path, InMemory))
    taken, table = dict.fromkeys(inputs, "is an input"), table_beside(output, parameters)
    previous = previous_outputs(output) if output is not None and parameters.resume else ()
    check_names(
        output, stats, taken, force=parameters.force, products=asked(parameters), table=table,
        report=report_of(parameters), previous=previous,
    )
    if output is not None:
        check_content(parameters, output)
    if output is not None and parameters.part is not None and output.suffix.lower() != ".trx":
        raise OutputError(f"{output}: a part is a .trx file; tistreamlines join makes a {output.suffix} of all parts")


def report_of(parameters: Parameters) -> Path | None:
    """Return the page that is asked for."""
    return None if parameters.report is None else Path(parameters.report)


def check_names(
    output: Path | None, stats: Path | None, taken: Mapping[Path, str], *, force: bool,
    products: Mapping[str, tuple[Path, ...]], table: Path | None = None, report: Path | None = None,
    previous: Collection[Path] = (),
) -> None:
    """Check that the outputs have names of their own and can be written.

    Parameters
    ----------
    output : tractogram to write, if any; its record is written beside it.
    stats : file for the counts, if any.
    taken : files that are not replaced, each with what it is.
    force : whether existing outputs are replaced.
    products : files of products, by the name of their row; without a tractogram, the record lies beside the first.
    table : what is sampled along the streamlines of a .tck file, if anything.
    report : page about the run, if any; its other files lie beside it.
    previous : outputs, by :func:`place_of`, that are replaced in any case.

    Raises
    ------
    OutputError
        If an output is a folder or one of the files that are taken, exists already, or cannot be written.
    ParameterError
        If two outputs have the same name.
    """
    made = [(name, path) for name, paths in products.items() for path in paths]
    for path in (output, *(path for _, path in made)):
        if path is not None and not path.name:
            raise OutputError(f"{path}: is a folder; name a file in it")
    beside = record_path(output, products)
    given = [path for path in (stats, *(path for _, path in made), output, beside, table) if path is not None]
    for path in given:
        check_name(path, taken)
    if output is not None and output.suffix.lower() not in SINKS:
        raise OutputError(f"{output}: unknown suffix {output.suffix!r}; end the name with {', '.join(SINKS)}")
    places = Counter(path.resolve() for path in (*(path for _, path in made), table) if path is not None)
    for name, path in made:
        if "" not in (suffixes := PRODUCTS[name].suffixes) and not suffix_of(path, suffixes):
            raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(suffixes)}")
        if places[path.resolve()] > 1:
            raise ParameterError(f"{flag(name)} {path}: is also the name of another output; give another name")
    for path in given:
        check_target(path, force=force or place_of(path) in previous)
    if stats is not None:
        if any(_same_name(stats, path) for path in (output, beside, table, *(path for _, path in made)) if path):
            raise ParameterError(f"--json-stats {stats}: is also the name of another output; give another name")
        if record_at(stats) is not None:
            raise OutputError(f"{stats}: is the record of a tractogram, and is not replaced; give another name")
    if report is not None:
        named = [path for path in (output, beside, stats, table, *(path for _, path in made)) if path is not None]
        _check_report(report, named, taken, force=force, previous=previous)
    if beside is not None and beside.exists():
        own = output or made[0][1]
        _check_record(own, beside, [path for _, path in made])


def _check_report(
    page: Path, others: Iterable[Path], taken: Mapping[Path, str], *, force: bool, previous: Collection[Path]
) -> None:
    """Check the names of a page about the run and of the files beside it."""
    if page.suffix.lower() not in SUFFIXES:
        raise OutputError(f"{page}: unknown suffix {page.suffix!r}; end the name with {', '.join(SUFFIXES)}")
    for path in files_of(page).values():
        check_name(path, taken)
        check_target(path, force=force or place_of(path) in previous)
        if any(_same_name(path, other) for other in others):
            raise ParameterError(f"--report {page}: {path.name} is also the name of another output; give another name")
        if record_at(path) is not None:
            raise OutputError(f"{path}: is the record of a tractogram, and is not replaced; give another name")


@contextmanager
def reserved(
    output: Path | None, check: Callable[[], None], products: Mapping[str, tuple[Path, ...]]
) -> Generator[None, None, None]:
    """Check the outputs, and keep other runs from tractogram, products and record until the end of the block.

    Raises
    ------
    BusyError
        If another run is writing the tractogram or a product, or one whose record has the same name.
    """
    check()
    beside = record_path(output, products)
    if beside is None:
        yield
        return
    made = [path for paths in products.values() for path in paths]
    first = output or made[0]
    drafts.allow_open(len(made))
    with ExitStack() as held:
        for path in (beside, *made):
            together = [output] if path == beside and output is not None else []
            with explained(path):
                try:
                    held.enter_context(drafts.reserved(path, *together))
                except BlockingIOError:
                    raise BusyError(
                        f"{first}: another run is writing it, or another output with the record "
                        f"{beside.name}; wait for its end, or give another name"
                        if path == beside else f"{path}: another run is writing it; wait for its end, or give another "
                        "name"
                    ) from None
                except drafts.ForeignLock as error:
                    lock = drafts.lock_of(path).name
                    raise OutputError(
                        f"{path}: {lock} belongs to another user ({error.owner}), whose run may be writing it; if "
                        "none is, have that file removed, or give another name"
                    ) from None
        check()  # that run may have ended meanwhile
        yield


def table_beside(output: Path | None, parameters: Parameters) -> Path | None:
    """Return the table of what is sampled beside a .tck file, which has no room for it."""
    return table_of(output) if output is not None and output.suffix.lower() == ".tck" and parameters.sample else None


def unfinished(output: Path) -> Path:
    """Return the folder in which a run that can go on keeps what it has tracked."""
    return output.with_name(f"{output.name}.unfinished")


def place_of(path: Path) -> Path:
    """Return the place of a file, wherever its name is read; a link is not followed, since it is replaced itself."""
    return path.parent.resolve() / path.name


def previous_outputs(output: Path) -> set[Path]:
    """Return the outputs that an unfinished run had begun to write when it was ended, by :func:`place_of`."""
    try:
        return set(map(Path, read(unfinished(output) / JOURNAL, Journal, own=True).outputs))
    except (OSError, RecordError):
        return set()


def outputs_of(output: Path, parameters: Parameters) -> list[Path]:
    """Return all files that a run writes, by :func:`place_of`."""
    products, page = asked(parameters), report_of(parameters)
    beside = [record_path(output, products), table_beside(output, parameters), parameters.json_stats]
    made = [output, *(path for paths in products.values() for path in paths)]
    made += [Path(path) for path in beside if path is not None]
    return [place_of(path) for path in made + ([] if page is None else [*files_of(page).values()])]


def check_name(path: Path, taken: Mapping[Path, str]) -> None:
    """Refuse a name that the file system does not accept, and that of a file which would be lost."""
    try:
        # the hidden folder in which a file is written has the longest name
        path.with_name(f".{path.name}.{8 * 'x'}.part").lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error
    for other, what in taken.items():
        if _is_same(path, other):
            raise OutputError(f"{path}: {what}, and is not replaced; give another name")


def _same_name(path: Path, other: Path) -> bool:
    return path.resolve() == other.resolve()


def _is_same(path: Path, other: Path) -> bool:
    try:
        return path.samefile(other)
    except (OSError, ValueError):  # one of them does not exist
        return False


def _check_record(own: Path, beside: Path, made: Iterable[Path]) -> None:
    """Refuse to replace a JSON file that is no record, or that of a tractogram or product that is not written anew."""
    found = record_at(beside)
    if found is None:
        raise OutputError(f"{beside}: is not the record of a tractogram and is not replaced; rename {own.name}")
    told = found.get("tractogram")
    suffix = told.get("format") if isinstance(told, dict) else None
    if isinstance(suffix, str) and suffix.lower() in SINKS:
        _refuse_other(beside.with_suffix(suffix), own, beside)
    elif told is None:  # of a run without a tractogram
        others = {beside.with_suffix(one) for row in PRODUCTS.values() for one in row.suffixes}
        for other in sorted(others - set(made)):
            _refuse_other(other, own, beside)


def _refuse_other(other: Path, own: Path, beside: Path) -> None:
    if other.is_file() and other.name != own.name and not _is_same(other, own):
        raise OutputError(f"{beside}: is the record of {other.name}, and is not replaced; rename {own.name}")


def record_at(path: Path) -> dict[str, Any] | None:
    """Return the record in a file, perhaps damaged, or None if it has none."""
    try:
        return loaded(path)
    except (OSError, RecordError):
        return None
