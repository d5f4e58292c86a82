"""Runs that go on where they were ended: pieces of the tractogram are kept until it is complete."""

from __future__ import annotations

import shutil
import stat
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

from ..aliases import Json
from ..devices import name_of
from ..errors import InputError, OutputError, ParameterError
from ..io import sidecar
from ..io.drafts import explained, hidden_folder, locked
from ..io.regular import is_of_this_user, name_of_user
from ..io.writer import WriterThread
from ..kernels.stop_reasons import Verdict
from ..option import flag
from ..options.definitions import names_affecting
from ..tracking.growth.statistics import Statistics
from .ends import Counts
from .outputs import JOURNAL, Outputs, check_outputs, unfinished
from .record import OURS, Journal, RecordError, read, tractogram
from .result import TrackResult
from .run import Run, threads_explained
from .saving import StoredTrx, difference, identity

PIECE = "{:010}.trx"  # by its first seed
LOCK = "lock"  # tells that a process is at the pieces
OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
SECONDS = 10.0  # that a piece takes, about
FEWEST, MOST = 1 << 8, 1 << 20  # seeds of the first piece and of any
FASTER = 8  # greatest ratio of the seeds of a piece to those of the one before


def save_resumable(run: Run, output: Path) -> TrackResult:
    """Track the seeds that are not tracked yet, piece by piece, and write the streamlines of all pieces.

    A piece is a tractogram of consecutive seeds. It counts once its record is there, which is written last.

    Raises
    ------
    ParameterError
        If the pieces that are there are of other inputs, options or versions.
    OutputError
        If another process works at the same output, or if it cannot be written.
    """
    folder = unfinished(output)
    with explained(folder):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        _check_folder(folder)
    record = run.record({})
    with _alone(folder):
        journal = _check_journal(run, folder, record)
        pieces = _kept(run, folder, identity(record))
        try:
            _track_rest(run, folder, pieces)
            # outputs replace nothing unasked, and from now on these files are this run's
            check_outputs(output, run.parameters, run.series.values())
            outputs = [str(path) for path in Outputs.of(output, run.parameters).places]
            sidecar.write_record(folder / JOURNAL, journal | {"outputs": outputs})
            result = _finish(run, folder, pieces, output)
        except BaseException:
            kept = sum(piece.record.result.seeds for piece in pieces)
            run.log.note(f"{folder}: {kept:,} seeds are kept; give the same command to go on")
            raise
        with explained(folder), hidden_folder(output) as draft:
            folder.rename(draft / folder.name)  # all at once: what is half removed must not be taken for a run
    return result


def _check_folder(folder: Path) -> None:
    """Refuse a folder in which other users can put pieces: it has the owner and the mode of a new one beside it."""
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise OutputError(f"{folder}: is a link or a file, not the folder of a run that can go on; remove it")
    if not is_of_this_user(status, folder.parent):
        raise OutputError(
            f"{folder}: belongs to another user ({name_of_user(status.st_uid)}), whose run it is; give another name"
        )
    with hidden_folder(folder) as new:  # on some disks, all files can be written by all
        usual = new.lstat().st_mode
    if status.st_mode & ~usual & OTHERS_WRITE:
        raise OutputError(f"{folder}: other users can write to it; remove it to track anew, or give another name")


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """Keep other processes from the folder; the system ends this with the process."""
    with ExitStack() as held:
        with explained(folder / LOCK):
            try:
                lock = held.enter_context(locked(folder / LOCK))
            except BlockingIOError:
                raise OutputError(f"{folder}: another process is at this run; wait for its end") from None
        if lock is not None:
            for draft in folder.glob(".*.part"):
                shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
        yield


def _check_journal(run: Run, folder: Path, record: Json) -> Json:
    """Compare the run with the one that the pieces belong to, or note down what it is; return its journal."""
    journal, seeds, free = folder / JOURNAL, run.seed_range, names_affecting("run")
    content = {
        "made_by": OURS, "run": identity(record) | {"the range of seeds": f"{seeds.start} to {seeds.stop}"},
        # those that may be others when the run goes on
        "inputs": {name: file for name, file in record["inputs"].items() if name.split()[0] in free},
    }
    try:
        before = read(journal, Journal, private=True)
    except FileNotFoundError:
        if any(folder.glob("*.trx")):
            run.log.warn(f"{journal}: is missing: pieces are used if their own records say that they are of this run")
        sidecar.write_record(journal, content)
        return content
    except (OSError, RecordError) as error:
        reason = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else error
        raise InputError(f"{journal}: {reason}: remove {folder} to track anew") from error
    if differs := difference(content["run"], before.run):
        raise ParameterError(
            f"{folder} belongs to another run ({differs}): give the same inputs and options to go on with that one, or "
            "remove the folder"
        )
    for name, file in content["inputs"].items():
        known = before.inputs.get(name)
        if known is not None and known.path == file["path"] and known.sha256 != file["sha256"]:
            run.log.warn(
                f"{flag(name.split()[0])} {known.path}: has changed since the run began; its "
                "products follow its present values"
            )
    return content


def _kept(run: Run, folder: Path, same: Json) -> list[StoredTrx]:
    """Return the pieces that are complete, in the order of their seeds, up to the first gap or damage."""
    pieces, statistics, first = list[StoredTrx](), run.engine.statistics, run.seed_range.start
    while (path := folder / PIECE.format(first)).exists() or path.is_symlink():
        try:
            piece = StoredTrx(path, private=True)
            piece.check()
            numbers, differs = piece.record.piece, difference(piece.identity, same)
            if numbers is None or numbers.first_seed != first or not 0 < numbers.seeds <= run.seed_range.stop - first:
                differs = "it has other seeds"
            if differs:
                raise InputError(f"{path}: is of another run than the pieces before it ({differs})")
            run.receiver.products.restore(path, piece.counts[-len(Verdict) : -1])
        except InputError as error:
            record = sidecar.sidecar_path(path)
            if record.exists() or record.is_symlink():
                run.log.warn(f"{error}; it and all later pieces are tracked anew")
            for file in (path, record):
                with suppress(OSError):
                    file.unlink()
            break
        pieces.append(piece)
        run.plan.seeds.restore(piece.batches(), first, piece.record.result.seeds)
        first += piece.record.result.seeds
        statistics.counts += piece.counts
        statistics.streamlines += piece.streamlines
    if pieces:
        run.log.note(f"{folder}: the run goes on after {statistics.seeds:,} of {len(run.seed_range):,} seeds")
    return pieces


def _track_rest(run: Run, folder: Path, pieces: list[StoredTrx]) -> None:
    """Track the seeds that are left, and append their pieces."""
    count = FEWEST
    while run.done[0] < len(run.seed_range) and run.left != 0:
        begun = time.perf_counter()
        first = run.seed_range.start + run.done[0]
        stop = min(first + run.plan.seeds.whole_rounds(first, count), run.seed_range.stop)
        pieces.append(_track_piece(run, range(first, stop), folder))
        ratio = SECONDS / max(time.perf_counter() - begun, 1e-3)
        count = int(min(max(count * min(ratio, FASTER), FEWEST), MOST))
    run.warn()


def _track_piece(run: Run, seeds: range, folder: Path) -> StoredTrx:
    """Track some seeds to a tractogram of their own."""
    path, counts, before = folder / PIECE.format(seeds.start), Counts(), run.engine.statistics.counts.copy()
    writer = WriterThread(path, run.plan.space, force=True, step_mm=run.receiver.step_mm)
    with threads_explained(run.parameters), closing(run.tracked(seeds)) as batches, writer:
        for batch in batches:
            counts.add(batch)
            writer.put(batch)
    grown = Statistics(counts=run.engine.statistics.counts - before)
    result = {"arch": run.devices[0].arch, "device": name_of(run.devices), "seconds": {}}
    result |= counts.summary(run.receiver.step_mm, grown)
    piece = {"piece": {"first_seed": seeds.start, "seeds": grown.seeds}, "tractogram": tractogram(path)}
    run.receiver.products.keep(path)
    sidecar.write_record(sidecar.sidecar_path(path), run.record(result) | piece)
    return StoredTrx(path, private=True)


def _finish(run: Run, folder: Path, pieces: Sequence[StoredTrx], output: Path) -> TrackResult:
    """Write the streamlines of all pieces to the output, and its record."""
    run.log.begin("write")
    run.receiver.force = True
    return run.save(output, (batch for piece in pieces for batch in piece.batches()), folder)
