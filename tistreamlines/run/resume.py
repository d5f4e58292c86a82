"""Runs that go on where they were ended: pieces of the tractogram are kept until it is complete."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Generator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, OutputError, ParameterError
from ..io import sidecar
from ..io.drafts import hidden_folder
from ..io.writer import explained
from ..io.writer_thread import WriterThread
from ..kernels.stop_reasons import Stop
from ..kernels.verdicts import Verdict
from .counts import Counts
from .outputs import unfinished
from .parts import Stored, difference, identity, write
from .pipeline import Run
from .record import dropped, stop_reasons
from .result import TrackResult

JOURNAL = "run.json"  # what the pieces have in common
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
        folder.mkdir(exist_ok=True)
    with _alone(folder):
        _check_journal(run, folder)
        pieces = _kept(run, folder)
        try:
            _track_rest(run, folder, pieces)
            result = _finish(run, pieces, output)
        except BaseException:
            kept = sum(piece.record["result"]["seeds"] for piece in pieces)
            run.log.note(f"{folder}: {kept:,} seeds are kept; give the same command to go on")
            raise
        with explained(folder), hidden_folder(output) as draft:
            folder.rename(draft / folder.name)  # all at once: what is half removed must not be taken for a run
    return result


@contextmanager
def _alone(folder: Path) -> Generator[None, None, None]:
    """Keep other processes from the folder; the system ends this with the process."""
    with ExitStack() as files:
        with suppress(ImportError):  # on Windows
            import fcntl

            lock = files.enter_context((folder / "lock").open("w"))
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise OutputError(f"{folder}: another process is at this run; wait for its end") from None
            except OSError:  # a file system without locks
                pass
        own = f".{folder.name.removesuffix('.unfinished')}.*.part"
        for draft in (*folder.parent.glob(own), *folder.glob(".*.part")):
            shutil.rmtree(draft, ignore_errors=True)  # of a process that was killed
        yield


def _check_journal(run: Run, folder: Path) -> None:
    """Compare the run with the one that the pieces belong to, or note down what it is."""
    seeds, journal = run.seed_range, folder / JOURNAL
    own = identity(run.record({})) | {"the range of seeds": f"{seeds.start} to {seeds.stop}"}
    if not journal.exists():
        sidecar.write_json(journal, own)
        return
    try:
        differs = difference(own, json.loads(journal.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"{journal}: cannot be read ({error}): remove {folder} to track anew") from error
    if differs:
        raise ParameterError(
            f"{folder} belongs to another run ({differs}): give the same inputs and options to go on with that one, or "
            "remove the folder"
        )


def _kept(run: Run, folder: Path) -> list[Stored]:
    """Return the pieces that are complete, in the order of their seeds, up to the first gap or damage."""
    pieces: list[Stored] = []
    first = run.seed_range.start
    for path in sorted(folder.glob("*.trx")):
        try:
            piece = Stored(path)
            piece.check()
        except InputError as error:
            if sidecar.sidecar_path(path).exists():
                run.log.warn(f"{error}; it and what comes after it is tracked anew")
            break
        if piece.record["piece"]["first_seed"] != first:
            break
        first += piece.record["result"]["seeds"]
        pieces.append(piece)
    results = [piece.record["result"] for piece in pieces]
    run.kept = first - run.seed_range.start, sum(one["streamlines"] for one in results)
    run.kept_reasons = sum((_counted(Stop, one["stop_reasons"]) for one in results), run.kept_reasons)
    run.kept_verdicts = sum((_counted(Verdict, one["dropped"]) for one in results), run.kept_verdicts)
    if pieces:
        run.log.note(f"{folder}: the run goes on after {run.kept[0]:,} of {len(run.seed_range):,} seeds")
    return pieces


def _counted(kind: type[IntEnum], counts: dict[str, int]) -> np.ndarray:
    """Return the counts of stop reasons or verdicts by their number."""
    return np.array([counts.get(one.name.lower(), 0) for one in kind], np.int64)


def _track_rest(run: Run, folder: Path, pieces: list[Stored]) -> None:
    """Track the seeds that are left, and append their pieces."""
    count = FEWEST
    while run.done[0] < len(run.seed_range) and run.left != 0:
        begun = time.perf_counter()
        first = run.seed_range.start + run.done[0]
        pieces.append(_track_piece(run, range(first, min(first + count, run.seed_range.stop)), folder))
        ratio = SECONDS / max(time.perf_counter() - begun, 1e-3)
        count = int(min(max(count * min(ratio, FASTER), FEWEST), MOST))
    run.warn()


def _track_piece(run: Run, seeds: range, folder: Path) -> Stored:
    """Track some seeds to a tractogram of their own."""
    path, counts, tally = folder / f"{seeds.start:010}.trx", Counts(), run.engine.tally
    before = replace(tally, counts=tally.counts.copy())
    with (
        WriterThread(path, run.plan.space, force=True, step_mm=run.step_mm) as writer,
        closing(run.tracked(seeds)) as batches,
    ):
        for batch in batches:
            counts.add(batch)
            writer.put(batch)
    stats: dict[str, Any] = {
        "seeds": tally.seeds - before.seeds, "stop_reasons": stop_reasons(tally.stop_reasons - before.stop_reasons),
        "dropped": dropped(tally.verdicts - before.verdicts),
    }  # fmt: skip
    record = run.record(counts.summary(run.step_mm) | stats) | {"piece": {"first_seed": seeds.start}}
    sidecar.write_json(sidecar.sidecar_path(path), record)
    return Stored(path)


def _finish(run: Run, pieces: Sequence[Stored], output: Path) -> TrackResult:
    """Write the streamlines of all pieces to the output, and its record."""
    run.log.watcher.stage("write")
    run.counts, run.sample = Counts(), []
    seconds = write(pieces, output, run.plan.space, run.step_mm, run.count, force=True)
    return run.recorded(run.result(output, (), seconds), force=True)
