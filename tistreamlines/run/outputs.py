"""Checks that the outputs can be written, before any work is done."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from pathlib import Path

from ..aliases import Json
from ..errors import BusyError, OutputError, ParameterError
from ..io import drafts
from ..io.fixel_images import files_of_folder
from ..io.images import label_in
from ..io.in_memory import InMemory
from ..io.maps import SUFFIXES as MAP_SUFFIXES
from ..io.numbers import SUFFIX as NUMBERS
from ..io.writer import SINKS, table_of
from ..option import flag
from ..options.parameters import Parameters
from ..report.content import SUFFIXES, files_of
from ..tracking.products.points.content import check_content
from ..tracking.registry import PRODUCTS
from ..tracking.stopping.segmentation import subject_files
from .products import asked, record_path, suffix_of
from .record import Journal, RecordError, loaded, read

JOURNAL = "run.json"  # what is known of an unfinished run


@dataclass(frozen=True)
class Outputs:
    """The files that a run writes.

    Parameters
    ----------
    tractogram : if any; the record lies beside it.
    products : files of products, by the name of their row; without a tractogram, the record lies beside the first.
    stats : file for the counts, if any.
    table : what is sampled along the streamlines of a .tck file, which has no room for it, if anything.
    report : page about the run, if any; its other files lie beside it.
    tissues : image of five tissues, if any.
    """

    tractogram: Path | None
    products: Mapping[str, tuple[Path, ...]] = field(default_factory=dict)
    stats: Path | None = None
    table: Path | None = None
    report: Path | None = None
    tissues: Path | None = None

    @classmethod
    def of(cls, tractogram: Path | None, parameters: Parameters) -> Outputs:
        """Return the outputs that the options ask for."""
        paths = parameters.json_stats, parameters.report, parameters.save_5tt
        stats, report, tissues = (None if path is None else Path(path) for path in paths)
        table = None
        if tractogram is not None and tractogram.suffix.lower() == ".tck" and parameters.sample:
            table = table_of(tractogram)
        return cls(tractogram, asked(parameters), stats, table, report, tissues)

    @property
    def product_files(self) -> list[Path]:
        """All files of products."""
        return [path for paths in self.products.values() for path in paths]

    @property
    def record(self) -> Path | None:
        """The record of the run."""
        return record_path(self.tractogram, self.products)

    @property
    def main(self) -> list[Path]:
        """All files but the counts and the report."""
        return [path for path in (*self.product_files, self.tractogram, self.record, self.table) if path is not None]

    @property
    def others(self) -> list[tuple[Path, str]]:
        """The counts, the five tissues and the files of the report, each with its name in messages."""
        single = ("json_stats", self.stats), ("save_5tt", self.tissues)
        pages = [] if self.report is None else files_of(self.report).values()
        return [
            *((path, f"{flag(name)} {path}:") for name, path in single if path is not None),
            *((path, f"--report {self.report}: {path.name}") for path in pages),
        ]

    @property
    def files(self) -> list[Path]:
        """All files."""
        return [*self.main, *(path for path, _ in self.others)]

    @property
    def places(self) -> list[Path]:
        """The places of all files, see :func:`place_of`."""
        return [place_of(path) for path in self.files]


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
        If two outputs have the same name, or if the streamlines could not be tracked again from their numbers.
    """
    previous = previous_outputs(output) if output is not None and parameters.resume else ()
    inputs = (*series, *parameters.inputs().values())
    check_names(Outputs.of(output, parameters), taken_by(inputs), force=parameters.force, previous=previous)
    if output is not None:
        check_content(parameters, output)
    if output is None:
        return
    numbers = output.suffix.lower() == NUMBERS
    if parameters.part is not None and output.suffix.lower() != ".trx":
        joined = "is written in one run" if numbers else "is what tistreamlines join makes of all parts"
        raise OutputError(f"{output}: a part is a .trx file, and a {output.suffix} {joined}")
    if numbers:
        _check_recipe(output, parameters, inputs)


def _check_recipe(output: Path, parameters: Parameters, inputs: Iterable[object]) -> None:
    """Refuse a run whose streamlines cannot be tracked again from their numbers, of which the output is to be made."""
    if parameters.seed_dynamic is not None:
        raise ParameterError(
            f"{output}: keeps numbers, and with --seed-dynamic a seed depends on all streamlines before it: write a "
            ".trx, or leave it out"
        )
    if not parameters.exact:
        raise ParameterError(
            f"{output}: keeps numbers, from which streamlines are tracked again on any device, and with --fast their "
            "bits depend on it: leave it out, or write a .trx"
        )
    if arrays := [str(source) for source in inputs if isinstance(source, InMemory)]:
        raise ParameterError(
            f"{output}: keeps numbers, from which streamlines are tracked again, and {arrays[0]} is in no file: give "
            "the path of one, or write a .trx"
        )


def taken_by(inputs: Iterable[str | PathLike[str]]) -> dict[Path, str]:
    """Return the files among the inputs and in their folders, which no output may replace, with a description."""
    paths = [label_in(path)[0] for path in inputs if not isinstance(path, InMemory)]
    files = chain.from_iterable((*subject_files(path), *files_of_folder(path)) for path in paths)
    return {Path(path): "is an input" for path in (*paths, *files)}


def check_names(
    outputs: Outputs, taken: Mapping[Path, str], *, force: bool, previous: Collection[Path] = ()
) -> None:
    """Check that the outputs have names of their own and can be written.

    Parameters
    ----------
    outputs : all files that are written.
    taken : files that are not replaced, each with its description.
    force : whether existing outputs are replaced.
    previous : outputs, by :func:`place_of`, that are replaced in any case.

    Raises
    ------
    OutputError
        If an output is a folder or one of the files that are taken, exists already, or cannot be written.
    ParameterError
        If two outputs have the same name.
    """
    tractogram, page = outputs.tractogram, outputs.report
    if page is not None and page.suffix.lower() not in SUFFIXES:
        raise OutputError(f"{page}: unknown suffix {page.suffix!r}; end the name with {', '.join(SUFFIXES)}")
    tissues = outputs.tissues
    if tissues is not None and not suffix_of(tissues, MAP_SUFFIXES):
        raise OutputError(f"{tissues}: unknown suffix {tissues.suffix!r}; end the name with {', '.join(MAP_SUFFIXES)}")
    for path in (tractogram, *outputs.product_files):
        if path is not None and not path.name:
            raise OutputError(f"{path}: is a folder; name a file in it")
    record, files = outputs.record, outputs.files
    there = _identities(taken)
    for path in files:
        _check_name(path, there)
    if tractogram is not None and tractogram.suffix.lower() not in SINKS:
        raise OutputError(f"{tractogram}: unknown suffix {tractogram.suffix!r}; end the name with {', '.join(SINKS)}")
    places = Counter(drafts.real_path(path) for path in (*outputs.product_files, outputs.table) if path is not None)
    for name, paths in outputs.products.items():
        for path in paths:
            if "" not in (suffixes := PRODUCTS[name].suffixes) and not suffix_of(path, suffixes):
                raise OutputError(f"{path}: unknown suffix {path.suffix!r}; end the name with {', '.join(suffixes)}")
            if places[drafts.real_path(path)] > 1:
                raise ParameterError(f"{flag(name)} {path}: is also the name of another output; give another name")
    for path in files:
        drafts.check_target(path, force=force or place_of(path) in previous)
    for number, (path, option) in enumerate(outputs.others, len(outputs.main)):
        _check_apart(path, files[:number], option)
    if record is not None and record.exists():
        _check_record(tractogram or outputs.product_files[0], record, {*outputs.product_files, *taken})


def _check_apart(path: Path, others: Iterable[Path], option: str) -> None:
    """Refuse a name that another output has, and that of the record of a tractogram."""
    if drafts.real_path(path) in set(map(drafts.real_path, others)):
        raise ParameterError(f"{option} is also the name of another output; give another name")
    if record_at(path) is not None:
        raise OutputError(f"{path}: is the record of a tractogram, and is not replaced; give another name")


@contextmanager
def reserved(outputs: Outputs, check: Callable[[], None]) -> Generator[None, None, None]:
    """Check the outputs, and keep other runs from tractogram, products and record until the end of the block.

    Raises
    ------
    BusyError
        If another run is writing the tractogram or a product, or one whose record has the same name.
    """
    check()
    record, products = outputs.record, outputs.product_files
    if record is None:
        yield
        return
    first = outputs.tractogram or products[0]
    drafts.allow_open(len(products))
    with ExitStack() as held:
        paths = []  # whose locks are held
        for path in (record, *products):
            with drafts.explained(path):
                try:
                    if held.enter_context(drafts.locked(drafts.lock_of(path))) is not None:
                        paths.append(path)
                except BlockingIOError:
                    raise BusyError(
                        f"{first}: another run is writing it, or another output with the record "
                        f"{record.name}; wait for its end, or give another name"
                        if path == record else f"{path}: another run is writing it; wait for its end, or give another "
                        "name"
                    ) from None
                except drafts.ForeignLock as error:
                    lock = drafts.lock_of(path).name
                    raise OutputError(
                        f"{path}: {lock} belongs to another user ({error.owner}), whose run may be writing it; if "
                        "none is, have that file removed, or give another name"
                    ) from None
        drafts.remove_drafts([*paths, *([outputs.tractogram] if record in paths and outputs.tractogram else [])])
        check()  # that run may have ended meanwhile
        yield


def unfinished(output: Path) -> Path:
    """Return the folder in which a run that can go on keeps what it has tracked."""
    return output.with_name(f"{output.name}.unfinished")


def place_of(path: Path) -> Path:
    """Return the place of a file, wherever its name is read; a link is not followed, since it is replaced itself."""
    return drafts.real_path(path.parent) / path.name


def previous_outputs(output: Path) -> set[Path]:
    """Return the outputs that an unfinished run had begun to write when it was ended, by :func:`place_of`."""
    try:
        return set(map(Path, read(unfinished(output) / JOURNAL, Journal, private=True).outputs))
    except (OSError, RecordError):
        return set()


def check_name(path: Path, taken: Mapping[Path, str]) -> None:
    """Refuse a name that the file system does not accept, and that of a file which would be lost."""
    _check_name(path, _identities(taken))


def _check_name(path: Path, taken: Mapping[tuple[int, int], str]) -> None:
    """Do as :func:`check_name`, with files that are taken by :func:`_identities`."""
    try:
        # the hidden folder in which a file is written has the longest name
        path.with_name(f".{path.name}.{8 * 'x'}.part").lstat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise OutputError(f"{path}: cannot be written ({reason}); give another name") from error
    for identity in _identities({path: ""}):
        if identity in taken:
            raise OutputError(f"{path}: {taken[identity]}, and is not replaced; give another name")


def _identities(paths: Mapping[Path, str]) -> dict[tuple[int, int], str]:
    """Return what is said of those files that are there, by the numbers of their disk and of their place on it."""
    said = {}
    for path, what in paths.items():
        with suppress(OSError, ValueError):
            status = path.stat()
            said.setdefault((status.st_dev, status.st_ino), what)
    return said


def _is_same(path: Path, other: Path) -> bool:
    return _identities({path: ""}).keys() <= _identities({other: ""}).keys() and path.exists()


def _check_record(output: Path, record: Path, paths: Iterable[Path]) -> None:
    """Refuse to replace a JSON file that is no record, or that of a tractogram or product that is not written anew.

    ``paths`` are the files that are written, and inputs, of which it is not the record.
    """
    content = record_at(record)
    if content is None:
        raise OutputError(f"{record}: is not the record of a tractogram and is not replaced; rename {output.name}")
    file = content.get("tractogram")
    suffix = file.get("format") if isinstance(file, dict) else None
    others: set[Path] = set()
    if isinstance(suffix, str) and suffix.lower() in SINKS:
        others = {record.with_suffix(suffix)}
    elif file is None:  # of a run without a tractogram
        others = {record.with_suffix(ending) for row in PRODUCTS.values() for ending in row.suffixes} - set(paths)
    for other in sorted(others):
        if other.is_file() and other.name != output.name and not _is_same(other, output):
            raise OutputError(f"{record}: is the record of {other.name}, and is not replaced; rename {output.name}")


def record_at(path: Path) -> Json | None:
    """Return the record in a file, perhaps damaged, or None if it has none."""
    try:
        return loaded(path)
    except (OSError, RecordError):
        return None
