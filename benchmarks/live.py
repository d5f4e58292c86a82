"""Time clicks in the page of live tracking: from the click to the picture, in Chromium without a window.

    python benchmarks/live.py DATA [--clicks 200] [--seeds 1000] [--arch cpu] [--json FILE] [OPTIONS]

DATA has dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz. The page begins with OPTIONS of ``tistreamlines track``. Each
click is at a random place of the axial slice; the browser draws in software where there is no GPU. "track" is the part
of that time in which the program tracks.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from records import ROOT, write_record

sys.path.insert(0, str(ROOT / "tests" / "support"))
from browser import Page

BOX = "(() => { const { x, y, width, height } = scene.getBoundingClientRect(); return [x, y, width, height]; })()"
AXIAL = (0.12, 0.38, 0.5, 0.85)  # of the canvas with three slices: from left to right, from top to bottom


def clicks(page: Page, count: int) -> list[dict[str, float]]:
    """Click at random places; return milliseconds from click to picture, and of tracking, and the streamlines."""
    x, y, width, height = page.value(BOX)
    left, right, top, bottom = AXIAL
    rng, rows = random.Random(1), []
    for _ in range(count):
        before = page.value("liveTimes.length")
        page.press(x + width * rng.uniform(left, right), y + height * rng.uniform(top, bottom))
        page.until(f"liveTimes.length > {before}")
        total, answer = page.value("[liveTimes.at(-1), {...document.body.dataset}]")
        rows.append({"ms": total, "track": float(answer["seconds"]) * 1000, "streamlines": int(answer["streamlines"])})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--clicks", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--arch", default="cpu")
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
                clicks(page, 5)
                rows = clicks(page, options.clicks)
                problems = page.problems
        finally:
            server.terminate()
    figures = {
        name: {f"{share}%": round(float(np.percentile([row[name] for row in rows], share)), 1) for share in (50, 95)}
        for name in rows[0]
    }
    print(json.dumps(figures), *problems)
    if options.json:
        write_record(options.json, clicks=options.clicks, options=more, **figures, problems=problems)


if __name__ == "__main__":
    main()
