"""Attack the command line: ``python -m tests.attack --tries 1000 --out benchmarks/results/attack-two-cores.json``.

Each class of tries has a share of them, with the seeds 0, 1, 2 and so on. One try again, told in full:
``python -m tests.attack --only CLASS --first SEED --tries 1 --tell``. The exit code is 0 if nothing failed.

A try is a fork of this process: some of them before anything is imported, some once the libraries are, and most after a
first run, with the kernels in memory.
"""

from __future__ import annotations

import argparse
import importlib
import json
import multiprocessing
import os
import platform
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import (
    caches,
    cohorts,
    damage,
    five_tissues,
    fixel_folders,
    fod_runs,
    fods,
    folders,
    fuzz,
    helpers,
    kills,
    limits,
    live_server,
    mixes,
    names,
    node_tables,
    pages,
    plugins,
    probabilities,
    products,
    sizes,
    surroundings,
    targets,
    together,
    tractograms,
    trx_members,
    weights,
)
from .material import MAP, ROOT, RUNS, SEEDED, TARGETS, in_this_process, targets_of, track
from .room import Room

BARE, LIBRARIES, WARM = range(3)  # what the process that is forked has done before
IMPORTED = ("dipy.core.gradients", "dipy.io", "dipy.reconst.shm", "nibabel", "numba", "rich.progress", "scipy.spatial")


@dataclass(frozen=True)
class Class:
    """A class of tries: what has to be done before, its share, and a try."""

    state: int
    share: int
    attempt: Callable[[random.Random, Room], list[str]]


CLASSES = {
    "damage-packed": Class(WARM, 150, damage.packed),
    "damage-plain": Class(WARM, 150, damage.plain),
    "damage-record": Class(WARM, 30, damage.record),
    "damage-tables": Class(WARM, 80, damage.tables),
    "damage-kernels": Class(LIBRARIES, 70, damage.kernels),
    "fuzz-options": Class(WARM, 200, fuzz.options),
    "fuzz-kinds": Class(WARM, 70, fuzz.kinds),
    "fuzz-headers": Class(WARM, 70, fuzz.headers),
    "fuzz-mif": Class(WARM, 70, fuzz.mif_headers),
    "fuzz-tables": Class(WARM, 50, fuzz.tables),
    "fuzz-arrays": Class(WARM, 20, fuzz.arrays),
    "fuzz-strides": Class(WARM, 20, fuzz.strides),
    "fuzz-seed-files": Class(WARM, 30, fuzz.seed_files),
    "fuzz-gradients": Class(WARM, 30, fuzz.gradients),
    "fuzz-rules": Class(WARM, 30, fuzz.rules),
    "fuzz-idle": Class(WARM, 60, fuzz.idle),
    "kill-call": Class(LIBRARIES, 60, kills.at_call),
    "kill-time": Class(BARE, 30, kills.at_time),
    "kill-resume": Class(LIBRARIES, 25, kills.resumed),
    "around-variables": Class(BARE, 30, surroundings.variables),
    "around-strangers": Class(BARE, 15, surroundings.strangers),
    "around-limits": Class(BARE, 25, surroundings.limits),
    "around-streams": Class(BARE, 25, surroundings.streams),
    "folders": Class(WARM, 60, folders.owners),
    "caches-results": Class(WARM, 80, caches.results),
    "caches-kernels": Class(LIBRARIES, 50, caches.compiled),
    "helpers": Class(BARE, 20, helpers.planted),
    "together-processes": Class(LIBRARIES, 8, together.processes),
    "together-threads": Class(LIBRARIES, 12, together.threads),
    "cohort-tables": Class(WARM, 60, cohorts.tables),
    "cohort-kills": Class(BARE, 15, cohorts.kills),
    "resume": Class(WARM, 60, mixes.resume),
    "join": Class(WARM, 60, mixes.join),
    "records": Class(WARM, 60, mixes.records),
    "product-labels": Class(WARM, 60, products.parcellations),
    "product-tables": Class(WARM, 50, node_tables.lookup_tables),
    "product-probabilities": Class(WARM, 30, probabilities.soft_parcellations),
    "product-files": Class(WARM, 10, products.files_that_are_none),
    "product-options": Class(WARM, 80, products.names_and_options),
    "product-targets": Class(WARM, 40, targets.masks_and_names),
    "tissues": Class(WARM, 40, five_tissues.inputs),
    "tissues-subject": Class(WARM, 40, five_tissues.subject),
    "fods": Class(WARM, 10, fods.inputs),
    "fixel-folders": Class(WARM, 20, fixel_folders.inputs),
    "fods-of-series": Class(WARM, 30, fod_runs.inputs),
    "sizes-packed": Class(WARM, 15, sizes.packed),
    "sizes-files": Class(WARM, 15, sizes.long_files),
    "sizes-grids": Class(WARM, 15, sizes.grids),
    "names": Class(WARM, 40, names.odd),
    "plugins": Class(BARE, 20, plugins.raising),
    "limits": Class(BARE, 20, limits.low),
    "live-server": Class(WARM, 15, live_server.strangers),
    "lines-contents": Class(WARM, 40, tractograms.contents),
    "lines-damaged": Class(WARM, 40, tractograms.damaged),
    "lines-headers": Class(WARM, 30, tractograms.headers),
    "lines-members": Class(WARM, 30, tractograms.members),
    "lines-counts": Class(WARM, 30, tractograms.counts),
    "lines-foreign": Class(WARM, 60, trx_members.foreign),
    "view-values": Class(WARM, 30, pages.values),
    "weights-files": Class(WARM, 40, weights.files),
    "weights-lines": Class(WARM, 30, weights.streamlines),
}


def attempt(task: tuple[str, int, Path]) -> dict[str, Any]:
    """Make one try; return its class, its seed, what was done and what was wrong."""
    name, seed, material = task
    folder = Path(tempfile.mkdtemp(prefix="attack-"))
    room = None
    try:
        room = Room(folder / "room", material)
        faults = CLASSES[name].attempt(random.Random(f"{name} {seed}"), room)
    except Exception as error:  # a fault of the try itself, which must not pass for a success
        faults = [f"the try failed: {type(error).__name__}: {error}"]
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    did = [_plain(text) for text in (room.did if room else [])]
    return {"class": name, "seed": seed, "did": did, "faults": list(dict.fromkeys(map(_plain, faults)))}


def _plain(text: str) -> str:
    """Text without folders of this machine and without what cannot be printed, not too long."""
    text = re.sub(r"/\S*attack-\w+/room", "ROOM", text).replace(str(ROOT), "ROOT")
    text = re.sub(r"/(?:home|root|tmp|work)/[^\s'\"]*/", ".../", text)
    text = text.encode("ascii", "backslashreplace").decode()
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)
    return text if len(text) < 400 else f"{text[:300]} ... {text[-80:]}"


def prepare(state: int, material: Path) -> None:
    """Bring this process to a state."""
    if state == LIBRARIES:
        for name in IMPORTED:
            importlib.import_module(name)
    if state == WARM:
        os.environ["XDG_CACHE_HOME"] = str(material / "cache")
        back = Path.cwd()
        os.chdir(material / "in")
        handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        for run in RUNS:  # of one thread, so that no thread of this process is lost in a fork
            for number in ("1", "2"):
                in_this_process([*track(run, f"../out/{run}-{number}.trx"), "--threads", "1", "-q", "--force"])
        in_this_process([*MAP, "../out/warm.csv", "--ends", "../out/warm.nii.gz", "-q", "--force"])
        in_this_process([*SEEDED, "../out/seeded.csv", *targets_of(*TARGETS), "-q", "--force"])
        for number, handler in handlers.items():
            signal.signal(number, handler)
        os.chdir(back)


def run_all(chosen: dict[str, int], first: int, jobs: int, material: Path) -> list[dict[str, Any]]:
    """Make so many tries of each class, those that need the least prepared first."""
    results: list[dict[str, Any]] = []
    for state in (BARE, LIBRARIES, WARM):
        tasks = [
            (name, seed, material)
            for name, count in chosen.items() if CLASSES[name].state == state
            for seed in range(first, first + count)
        ]
        if tasks or state != WARM:
            prepare(state, material)
        if tasks:
            with multiprocessing.get_context("fork").Pool(jobs) as pool:
                for result in pool.imap_unordered(attempt, tasks):
                    results.append(result)
                    tell(result)
    return results


def tell(result: dict[str, Any]) -> None:
    """Print a try that failed, and how to repeat it."""
    for fault in result["faults"]:
        print(f"{result['class']}, seed {result['seed']}: {fault}  ({'; '.join(result['did'])})", flush=True)


def table(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Sum tries up by class."""
    rows = []
    for name in CLASSES:
        tries = [result for result in results if result["class"] == name]
        failed = sorted((result for result in tries if result["faults"]), key=lambda result: result["seed"])
        if tries:
            rows.append(
                {
                    "class": name, "tries": len(tries), "first_seed": min(result["seed"] for result in tries),
                    "failures": len(failed),
                    "failed": [{key: result[key] for key in ("seed", "did", "faults")} for result in failed],
                }
            )
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.attack", description="Attack the command line.")
    parser.add_argument("--tries", type=int, default=1000, help="tries over all classes, or of the one chosen")
    parser.add_argument("--only", choices=sorted(CLASSES), action="append", help="a class; may be given several times")
    parser.add_argument("--first", type=int, default=0, help="first seed of each class")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="tries at once")
    parser.add_argument("--material", type=Path, help="folder that keeps what tries begin with for the next time")
    parser.add_argument("--out", type=Path, help="JSON file for the table")
    parser.add_argument("--tell", action="store_true", help="tell of each try what was done")
    options = parser.parse_args()
    command = " ".join(["python -m tests.attack", *sys.argv[1:]])  # which tries set to their own
    names = options.only or list(CLASSES)
    whole = sum(CLASSES[name].share for name in names)
    chosen = {name: max(1, round(options.tries * CLASSES[name].share / whole)) for name in names}
    begun = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="attack-material-") as folder:
        material = (options.material or Path(folder) / "material").absolute()
        if not (material / "clean.json").exists():
            subprocess.run([sys.executable, "-m", f"{__package__}.material", str(material)], cwd=ROOT, check=True)
        results = run_all(chosen, options.first, options.jobs, material)
    rows = table(results)
    for row in rows:
        print(f"{row['class']:20} {row['tries']:5} tries from seed {row['first_seed']}  {row['failures']:4} failures")
    failures = sum(row["failures"] for row in rows)
    print(f"{'all':20} {len(results):5} tries in {time.perf_counter() - begun:.0f} s  {failures:4} failures")
    if options.tell:
        for result in results:
            print(f"{result['class']}, seed {result['seed']}: {'; '.join(result['did'])}")
    if options.out:
        options.out.write_text(json.dumps(report(rows, command, time.perf_counter() - begun), indent=1) + "\n")
    return 1 if failures else 0


def report(rows: list[dict[str, Any]], command: str, seconds: float) -> dict[str, Any]:
    """The table with the command and the machine."""
    from tistreamlines.run.record import versions

    return {
        "what": "seeded tries at breaking the command line",
        "command": command,
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"cores": os.cpu_count(), "system": platform.platform()},
        "versions": versions(),
        "tries": sum(row["tries"] for row in rows),
        "failures": sum(row["failures"] for row in rows),
        "seconds": round(seconds),
        "classes": rows,
    }


if __name__ == "__main__":
    sys.exit(main())
