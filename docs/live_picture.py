"""Draw the picture of live tracking that moves, of the page in Chromium without a window.

    python docs/live_picture.py

The brain is that of the tutorial: a click into the corpus callosum, a drag, sliders, and spheres that streamlines have
to pass or may not enter.
"""

from __future__ import annotations

import io
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from material import BRAIN, ROOT
from PIL import Image, ImageDraw

sys.path.insert(0, str(ROOT / "tests" / "support"))
from browser import Page

SIZE, GREYS, COLOURS = (900, 560), 20, 44
TARGET = Path(__file__).parent / "images" / "live.png"
BOX = "(() => { const { x, y, width, height } = scene.getBoundingClientRect(); return [x, y, width, height]; })()"
SET = (
    "(() => {{ const input = document.getElementById('controls').elements[{!r}]; input.value = {!r};"
    "input.dispatchEvent(new Event('input', {{bubbles: true}})); }})()"
)
ARROW = ((0, 0), (0, 15), (4, 12), (7, 18), (9, 17), (6, 11), (11, 11))
SHIFT, ALT = 8, 1


class Film:
    """Frames of a page, with the mouse drawn into them."""

    def __init__(self, page: Page) -> None:
        self.page, self.frames, self.seconds = page, list[Image.Image](), list[float]()
        self.place = (0.0, 0.0)

    def mouse(self, kind: str, x: float, y: float, modifiers: int = 0) -> None:
        """Move, press or release the mouse at a share of the slices' width and height."""
        left, top, width, height = self.page.value(BOX)
        self.place = left + x * width, top + y * height
        buttons = {"button": "left", "buttons": int(kind != "mouseReleased"), "clickCount": 1}
        where = {"x": self.place[0], "y": self.place[1], "modifiers": modifiers}
        self.page.call("Input.dispatchMouseEvent", type=kind, **where, **buttons)

    def after(self, act: Callable[[], object], seconds: float) -> None:
        """Do something, and take a frame of the streamlines that come of it."""
        before = self.page.value("liveTimes.length")
        act()
        self.page.until(f"liveTimes.length > {before} && document.body.dataset.idle === 'true'")
        with tempfile.TemporaryDirectory() as folder:
            self.page.picture(path := Path(folder) / "frame.png")
            frame = Image.open(io.BytesIO(path.read_bytes())).convert("RGB")
        x, y = self.place
        ImageDraw.Draw(frame).polygon([(x + a, y + b) for a, b in ARROW], fill="white", outline="black")
        self.frames.append(frame)
        self.seconds.append(seconds)

    def save(self, path: Path) -> None:
        """Write the film as a PNG that moves, in few colours, which are the same in all frames."""
        pixels = np.concatenate([np.asarray(frame).reshape(-1, 3) for frame in self.frames])
        is_grey = np.ptp(pixels.astype(int), axis=1) < 40
        parts = ((pixels[is_grey], GREYS), (pixels[~is_grey], COLOURS))  # else few pixels of lines have no colour
        colours = [Image.fromarray(part[None]).quantize(count).getpalette()[: 3 * count] for part, count in parts]
        palette = Image.new("P", (1, 1))
        palette.putpalette([number for part in colours for number in part])
        frames = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in self.frames]
        times = [round(1000 * seconds) for seconds in self.seconds]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, optimize=True)


@contextmanager
def opened() -> Iterator[Page]:
    """Open the page on the brain."""
    command = [sys.executable, "-m", "tistreamlines", "view", "--live", "dwi.nii.gz", "--mask", "mask.nii.gz"]
    command += ["--dg", "prob", "--arch", "cpu", "--min-length", "20", "--no-browser", "--stay", "-q"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=BRAIN) as server,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        try:
            assert server.stdout is not None
            address = server.stdout.readline().strip()
            with Page(Path(folder), *SIZE) as page:
                page.open(address)
                page.until("document.body?.dataset.answered")
                yield page
        finally:
            server.terminate()


def main() -> None:
    """Film the page."""
    with opened() as page:
        film = Film(page)
        film.mouse("mouseMoved", 0.26, 0.6)
        film.after(lambda: film.mouse("mousePressed", 0.262, 0.6), 1.5)
        for step in range(1, 6):
            film.after(lambda at=step: film.mouse("mouseMoved", 0.262, 0.6 + 0.027 * at), 0.35)
        film.mouse("mouseReleased", 0.262, 0.735)
        film.after(lambda: page.value(SET.format("radius", "6")), 1.0)
        for angle in ("15", "35", "50", "25"):
            film.after(lambda value=angle: page.value(SET.format("max_angle", value)), 0.8)
        for x, y, key in ((0.195, 0.79, SHIFT), (0.262, 0.62, ALT)):
            film.after(lambda a=x, b=y, k=key: film.mouse("mousePressed", a, b, k), 1.6)
            film.mouse("mouseReleased", x, y, key)
        film.save(TARGET)
        if page.problems:
            raise SystemExit(str(page.problems))


if __name__ == "__main__":
    main()
