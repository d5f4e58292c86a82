"""Time clicks in the page of live tracking: from the click to the picture, in Chromium without a window.

    python benchmarks/live.py DATA [--clicks 200] [--seeds 1000] [--arch cpu] [--json FILE] [OPTIONS]

DATA has dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. The page begins with OPTIONS of ``tistreamlines track``. Each
click is at a random place of the brain in the axial slice, 0.1 s after the last picture; the browser draws in software
where there is no GPU. "ms" is the time from the click to the picture, "answer" the part of it in which the page waits
for streamlines, and "track" the part in which the program tracks. "program" and "browser" are CPU times, also in ms.
With --sliders, each slider then moves to another value: "first" and "again" are the times of the first picture with it
and of the next one.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import numpy as np
from records import ROOT, write_record

sys.path.insert(0, str(ROOT / "tests" / "support"))
from browser import Page

BOX = "(() => { const { x, y, width, height } = scene.getBoundingClientRect(); return [x, y, width, height]; })()"
PAUSE = 0.1  # seconds between a picture and the next click
AXIAL = (0.15, 0.36, 0.58, 0.93)  # of the canvas with three slices: from left to right, from top to bottom
SET = (
    "(() => {{ const input = document.getElementById('controls').elements[{!r}]; input.value = {!r};"
    "input.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
)
NEXT = (  # waits in the page, since questions from here take its time
    "new Promise((done) => {{ const look = () => liveTimes.length > {} && document.body.dataset.idle === 'true'"
    " ? done() : setTimeout(look, 10); look(); }})"
)
SLIDERS = {"max_angle": 35, "cutoff": 0.15, "fa_threshold": 0.2, "step_size": 0.6, "max_length": 150, "dg": "det"}


def timed(page: Page, server: int, act: Callable[[], object]) -> dict[str, float]:
    """Do something, and wait for its picture; return the times and the number of streamlines."""
    time.sleep(PAUSE)
    before, families = page.value("liveTimes.length"), {"program": [server], "browser": family(page.pid)}
    used = {name: cpu_ms(pids) for name, pids in families.items()}
    act()
    page.value(NEXT.format(before))
    times, answer = page.value("[liveTimes.at(-1), {...document.body.dataset}]")
    spent = {name: cpu_ms(pids) - used[name] for name, pids in families.items()}
    return times | {"track": float(answer["seconds"]) * 1000, **spent, "streamlines": int(answer["streamlines"])}


def clicks(page: Page, server: int, count: int) -> list[dict[str, float]]:
    """Click at random places; return the times of each click."""
    x, y, width, height = page.value(BOX)
    left, right, top, bottom = AXIAL
    rng = random.Random(1)
    places = [(x + width * rng.uniform(left, right), y + height * rng.uniform(top, bottom)) for _ in range(count)]
    return [timed(page, server, partial(page.press, *place)) for place in places]


def sliders(page: Page, server: int) -> dict[str, dict[str, float]]:
    """Move each slider that there is, and click; return the milliseconds of the two pictures."""
    known, times = page.value("Object.keys(JSON.parse(facts.textContent).sliders)"), {}
    for name, value in SLIDERS.items():
        if name in known or name == "dg":
            first = timed(page, server, partial(page.value, SET.format(name, str(value))))
            again = clicks(page, server, 1)[0]
            times[name] = {"first": round(first["ms"], 1), "again": round(again["ms"], 1)}
    return times


def family(pid: int) -> list[int]:
    """Return a process and all that come from it."""
    parents = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parents[int(folder.name)] = int(Path(folder, "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # it has ended
            continue
    pids = [pid]
    for each in pids:  # which grows
        pids += [child for child, parent in parents.items() if parent == each]
    return pids


def cpu_ms(pids: Iterable[int]) -> float:
    """Return the CPU time of processes so far, ms; clocks of Linux tick every 10 ms."""
    ticks = [sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13])) for pid in pids]
    return 1000 * sum(ticks) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--arch", default="cpu")
    parser.add_argument("--sliders", action="store_true")
    parser.add_argument("--json", type=Path)
    options, more = parser.parse_known_args()
    series = [options.data / f"dwi.{ending}" for ending in ("nii.gz", "bval", "bvec")]
    words = [*series, "--mask", options.data / "mask.nii.gz", "--arch", options.arch, *more]
    command = [sys.executable, "-m", "tistreamlines", "view", "--live", *map(str, words)]
    command += ["--no-browser", "--stay", "-q"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with Page(Path(folder)) as page:
                page.open(address)
                page.until("document.body?.dataset.answered")
                page.value(f"liveSeeds({options.seeds})")
                clicks(page, server.pid, 5)
                rows = clicks(page, server.pid, options.clicks)
                load = os.getloadavg()[0]
                moved = sliders(page, server.pid) if options.sliders else {}
                problems = page.problems
        finally:
            server.terminate()
    figures = {
        name: {f"{share}%": round(float(np.percentile([row[name] for row in rows], share)), 1) for share in (50, 95)}
        for name in rows[0]
    }
    for name in ("program", "browser"):  # whose clocks are coarse
        figures[name] = {"mean": round(float(np.mean([row[name] for row in rows])), 1)}
    print(json.dumps(figures | {"sliders": moved}, indent=1), *problems)
    if options.json:
        write_record(
            options.json, clicks=options.clicks, options=[Path(word).name for word in more], **figures, sliders=moved,
            load=round(load, 2), problems=problems,
        )


if __name__ == "__main__":
    main()
