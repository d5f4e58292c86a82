"""Tractograms of runs: streamlines are received, counted and written with a record, and read back where these fit.

A run that goes on writes pieces, tractograms of consecutive seeds. Parts are pieces of separate runs.
"""

from __future__ import annotations

import json
import os
import shutil
import zipfile
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np

from ..aliases import Array, Json
from ..errors import InputError, OutputError
from ..io import sidecar
from ..io.checksums import crc32
from ..io.drafts import all_or_none, completed
from ..io.images import existing_path, silent
from ..io.maps import write_map
from ..io.numbers import SUFFIX as NUMBERS
from ..io.regular import open_regular
from ..io.trx import MEMBERS, contents, map_points, member_of_points
from ..io.writer import WriterThread
from ..kernels.stop_reasons import Stop, Verdict
from ..option import flag
from ..options.definitions import names_affecting, product_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.growth.statistics import Statistics
from ..tracking.products.points.content import Content, layout_of
from ..tracking.stopping.segmentation import tissue_files
from .ends import Counts
from .outputs import Outputs, check_outputs, reserved
from .products import Products, record_path
from .record import OURS, Kind, RecordError, RunRecord, header_fields, read, tractogram

if TYPE_CHECKING:
    from ..report.scene import StreamlineSample

MACHINE = ("python", "system")  # versions that may differ
VERSION = ("the version", "the source")  # what an identity says of programs
HASHED = ("the content", "the source")  # of which a hash is known, which tells nobody anything
POINTS_AT_ONCE = 1 << 22


@dataclass
class Receiver:
    """Receives the streamlines of a run, or those of all its parts, in the order of their seeds.

    Parameters
    ----------
    parameters : all options.
    space : grid of the image that was tracked.
    step_mm : step size, mm.
    products : what is made of the streamlines besides a tractogram.
    content : what the tractogram holds of them.
    statistics : counts of seeds and of all streamlines that were grown from them; complete once these have come.

    Attributes
    ----------
    counts : of the streamlines so far.
    gathered : the scene of a report, if an option names one.
    force : whether existing files are replaced.
    tissues : what the record says of the image of five tissues, once it is written.
    """

    parameters: Parameters
    space: Space
    step_mm: float
    products: Products
    content: Content
    statistics: Statistics
    counts: Counts = field(default_factory=Counts)
    gathered: StreamlineSample | None = field(init=False)
    tissues: Json = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        self.force = self.parameters.force
        self.gathered = None
        if self.parameters.report is not None:
            from ..report.scene import StreamlineSample

            self.gathered = StreamlineSample(self.space, self.step_mm, self.parameters.threads)

    def count(self, batches: Iterable[Batch]) -> Generator[Batch, None, None]:
        """Take the streamlines of batches into account."""
        for batch in batches:
            self.counts.add(batch)
            self.products.add(batch)
            if self.gathered is not None and batch.has_points:
                self.gathered.add(batch)
            yield batch

    def summary(self) -> Json:
        """Return counts, lengths and ends of the streamlines so far."""
        return self.counts.summary(self.step_mm, self.statistics)

    @contextmanager
    def saved(
        self, output: Path, batches: Iterable[Batch], record: Callable[[], Json],
        finished: Callable[[], object] = lambda: None, drafts: Path | None = None,
    ) -> Generator[None, None, None]:
        """Write a tractogram and the products, which get their names at the end of the block, with the record.

        If the record cannot be written, the others stay, which may have taken hours.

        Parameters
        ----------
        output : the tractogram.
        batches : all streamlines, which :meth:`count` has counted.
        record : returns the record of the run, once all streamlines have come.
        finished : is called when all but the record is written.
        drafts : folder in which the tractogram is written until it is complete.
        """
        content = self.content.grouped if output.suffix.lower() == NUMBERS else self.content.of
        writer = WriterThread(
            output, self.space, force=self.force, drafts=drafts, fields=lambda: header_fields(record(), self.space),
            content=partial(content, groups=self.products.groups), late=self.products.per_streamline,
            **self.content.layout(self.step_mm),
        )
        files = Outputs.of(output, self.parameters).files
        hidden = {*files} - {*self.products.files}  # a plugin may write its products in its own way
        with ExitStack() as together:
            with writer:
                for batch in batches:
                    writer.put(batch)
                writer.finish()
                together.enter_context(all_or_none(files, hidden))
                self.write_tissues()
                self.products.write(force=self.force)
                finished()
            try:
                yield
            except Exception:
                together.close()  # which gives them their names
                raise

    @property
    def doubts(self) -> list[str]:
        """Why what was written may be wrong."""
        return list(dict.fromkeys([*self.content.doubts, *self.products.doubts]))

    def write_record(self, output: Path | None, record: Json) -> Json:
        """Write the record beside the tractogram or the first product, and the counts; return what was written."""
        beside = record_path(output, self.products.paths)
        assert beside is not None
        file = {} if output is None else {"tractogram": tractogram(output)}
        content = record | file | self.products.details | self.tissues
        sidecar.write_record(beside, content, force=self.force)
        if self.parameters.json_stats is not None:
            sidecar.write_json(self.parameters.json_stats, content["result"], force=self.force)
        return content

    def write_tissues(self) -> None:
        """Write the five tissues of the run if an option names their file."""
        if self.parameters.save_5tt is not None and (tissues := tissue_files(self.parameters)) is not None:
            path = Path(self.parameters.save_5tt)
            write_map(path, *tissues.read(silent), force=self.force)
            self.tissues = {"five_tissues": sidecar.file_record(path)}


def save(
    streamlines: Iterable[Batch] | Path, output: Path, space: Space, parameters: Parameters, record: Json, *,
    force: bool, late: dict[str, Array],
) -> None:
    """Write the streamlines of a result to a tractogram, and its record beside it.

    Parameters
    ----------
    streamlines : in memory, or the tractogram in which they are.
    output : tractogram to write.
    space, parameters : grid of the image that was tracked, and options of the run.
    record : of the run, without what it says of a tractogram.
    force : whether existing files are replaced.
    late : values of each streamline in memory that a .trx holds besides, by name.

    Raises
    ------
    OutputError
        If the output cannot be written, or not from the file in which the streamlines are.
    InputError
        If that file is missing, or damaged.
    """
    if output.suffix.lower() == NUMBERS:
        raise OutputError(f"{output}: numbers are written where streamlines are tracked: give the name to track")
    files = record["inputs"]
    series = [files[name]["path"] for name in ("dwi", "bvals", "bvecs") if name in files]
    others = dict.fromkeys(("json_stats", "report", "save_5tt", *product_options()))  # no other file is written
    chosen = parameters.changed(force=force, resume=False, groups=False, **others)
    with reserved(Outputs(output), partial(check_outputs, output, chosen, series)):
        if isinstance(streamlines, Path) and streamlines.suffix.lower() == output.suffix.lower():
            if output.suffix.lower() == ".trx":
                StoredTrx(streamlines).check()
            with completed(output, force=force) as draft:
                shutil.copyfile(existing_path(streamlines), draft)
        else:
            if isinstance(streamlines, Path):
                if streamlines.suffix.lower() != ".trx":
                    raise OutputError(
                        f"{output}: {streamlines.name} lacks what a {output.suffix} of the run has, or rounds it: "
                        "track to a .trx file or to memory, or save the result of to_sft() with DIPY"
                    )
                streamlines, late = StoredTrx(streamlines).batches(), {}  # a .trx has all that other formats have
            layout = layout_of(chosen, record["step_mm"])
            fields = partial(header_fields, record, space)
            with WriterThread(output, space, force=force, fields=fields, late=lambda: late, **layout) as writer:
                for batch in streamlines:
                    writer.put(batch)
        content = {**record, "tractogram": tractogram(output)}
        sidecar.write_record(sidecar.sidecar_path(output), content, force=force)


class StoredTrx:
    """A TRX file that this package has written, with its record.

    Parameters
    ----------
    path : the tractogram.
    private : refuse links and files of other users.

    Attributes
    ----------
    record : what the JSON record beside it says.
    space : grid of the image that was tracked.

    Raises
    ------
    InputError
        If the file or its record is missing or damaged, or if they do not belong together.
    """

    def __init__(self, path: Path, *, private: bool = False) -> None:
        self.path, self._private, self.record = path, private, record_of(path, private=private)
        with self._opened() as (archive, _):
            header, members = json.loads(archive.read("header.json")), contents(archive)
            self.space = Space(header["VOXEL_TO_RASMM"], tuple(header["DIMENSIONS"]))
            self.streamlines, self.points = int(header["NB_STREAMLINES"]), int(header["NB_VERTICES"])
        result, file = self.record.result, self.record.tractogram
        points = result.points if file.points is None else file.points  # which may be fewer than were tracked
        if (self.streamlines, self.points, members) != (result.n_streamlines, points, file.contents):
            raise InputError(
                f"{path}: is not the tractogram that {sidecar.sidecar_path(path).name} describes: track it again"
            )

    @property
    def identity(self) -> Json:
        """The common fields of the pieces of its run."""
        return identity(self.record.content)

    @property
    def counts(self) -> Array:
        """Seeds, half-streamlines by stop reason and streamlines by verdict, as those of a Statistics."""
        result = self.record.result
        ends = (result.stop_reasons.get(reason.name.lower(), 0) for reason in Stop)
        return np.array([result.seeds, *ends, *(result.dropped.get(verdict.name.lower(), 0) for verdict in Verdict)])

    def batches(self) -> Generator[Batch, None, None]:
        """Read the streamlines; raise InputError, at the end, if the points are damaged."""
        if not self.streamlines:
            return
        with self._opened() as (archive, file):
            expected, crc = archive.getinfo(member_of_points(archive.namelist())).CRC, 0
            read = {field: _member(archive, name) for field, name in MEMBERS.items()}
            sampled = [_data(archive, kind) for kind in ("dps", "dpv")]
            points, starts = map_points(file)
            self._check(starts, read)
        cuts = np.unique(np.searchsorted(starts, [*range(0, len(points), POINTS_AT_ONCE), len(points)]))
        for a, b in pairwise(cuts):
            block = np.array(points[starts[a] : starts[b]])
            crc = crc32(block.data, crc)
            ranges = slice(a, b), slice(starts[a], starts[b])
            dps, dpv = ({n: v[rows] for n, v in arrays.items()} for arrays, rows in zip(sampled, ranges, strict=True))
            of_each = (values[a:b] for values in read.values())
            offsets = starts[a : b + 1] - starts[a]
            yield Batch(block, offsets, *of_each, data_per_streamline=dps, data_per_point=dpv)
        if crc != expected:
            raise damaged(self.path, "its points have changed")

    def check(self) -> None:
        """Raise InputError if the file is damaged."""
        for _ in self.batches():
            pass

    def _check(self, starts: Array, read: Mapping[str, Array]) -> None:
        """Raise ValueError unless the arrays fit each other, and the seeds are those that the record tells of."""
        if {len(starts) - 1, *map(len, read.values())} != {self.streamlines}:
            raise ValueError("its arrays do not fit each other")
        seeds, numbers = self.record.piece or self.record.part, read["seed_number"].astype(np.int64)
        if seeds and not (0 <= numbers.min() - seeds.first_seed <= numbers.max() - seeds.first_seed < seeds.seeds):
            raise ValueError("it has streamlines of other seeds than its record says")

    @contextmanager
    def _opened(self) -> Generator[tuple[zipfile.ZipFile, IO[bytes]], None, None]:
        try:
            descriptor = open_regular(self.path, private=self._private)
            with os.fdopen(descriptor, "rb") as file, zipfile.ZipFile(file) as archive:
                yield archive, file
        except Exception as error:  # for a damaged file, zipfile, json and NumPy raise a dozen unrelated types
            raise damaged(self.path, str(error) or type(error).__name__) from error


def identity(record: Json) -> Json:
    """Return what pieces of a run have in common: versions, source, inputs and the options that change streamlines."""
    inputs, free = record["inputs"], names_affecting("run")
    same = {f"the version of {name}": v for name, v in record["versions"].items() if name not in MACHINE}
    same |= {f"the source of {OURS}": record["source"], "the step in mm": record["step_mm"]}
    same |= {f"the content of {name}": file["sha256"] for name, file in inputs.items() if name.split()[0] not in free}
    same |= {
        flag(name): [region for i, region in enumerate(value, 1) if f"{name} {i}" not in inputs]  # spheres
        if isinstance(value, list) else value
        for name, value in record["parameters"].items() if name not in free and name not in inputs
    }
    return json.loads(json.dumps(same))


def difference(record: Json, other: Json) -> str:
    """Say where two identities differ first: '--max-angle is 30, not 60'; nothing if they are equal."""
    for name in {**record, **other}:
        if record.get(name) != other.get(name):
            change = "differs" if name.startswith(HASHED) else f"is {record.get(name)}, not {other.get(name)}"
            return f"{name} {change}"
    return ""


def damaged(path: Path, reason: object) -> InputError:
    """Return the error of a tractogram that cannot be used."""
    return InputError(f"{path}: is damaged ({reason}): track it again")


def _member(archive: zipfile.ZipFile, name: str) -> Array:
    """Read an array, whose checksum is compared; its name ends with the columns, if there are several, and the type."""
    _, *columns, dtype = name.split(".")
    array = np.frombuffer(archive.read(name), np.dtype(dtype).newbyteorder("<"))
    return array.reshape(-1, int(columns[0])) if columns else array


def _data(archive: zipfile.ZipFile, folder: str) -> dict[str, Array]:
    """Read what was sampled: arrays of a folder besides those that every file has."""
    names = (name for name in archive.namelist() if name.startswith(f"{folder}/") and name not in MEMBERS.values())
    return {name.split("/")[1].split(".")[0]: _member(archive, name) for name in names}


def record_of(path: Path, kind: type[Kind] = RunRecord, *, private: bool = False) -> Kind:
    """Return the record of a tractogram; raise InputError if it is missing, damaged or not written by this package."""
    beside = sidecar.sidecar_path(path)
    try:
        return read(beside, kind, private=private)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: has no record {beside.name} beside it: give both, or track it again") from None
    except (OSError, RecordError) as error:
        reason = f"cannot be read: {error.strerror}" if isinstance(error, OSError) else error
        raise damaged(path, f"its record {beside.name} {reason}") from error
