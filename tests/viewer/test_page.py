"""The page of ``tistreamlines view`` in a browser: colours, groups, slab, connectome, pictures, keys and sizes.

Nightly but for one test of all scripts, since a browser without a GPU loads and draws a page for a second or more in
each of them, and they fail only where these scripts or NiiVue change.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest

pytest.importorskip("ipyniivue", reason="needs ipyniivue")
pytest.importorskip("websockets", reason="needs websockets")
from base64 import b64decode

from browser import CHROMIUM, Page
from PIL import Image
from viewed import LINES, write_files

from tistreamlines.io.tractograms import groups_of_tractogram, stored_batches
from tistreamlines.viewer.extras import ExtraMaker
from tistreamlines.viewer.niivue import page_of
from tistreamlines.viewer.scene import scene_of

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium")
SMALL = 600, 300
SCHEMES = {"light": (255, 255, 255), "dark": (0, 0, 0)}


@pytest.fixture(scope="module")
def address(tmp_path_factory) -> str:
    folder = write_files(tmp_path_factory.mktemp("page"))
    path = folder / "bundle.trx"
    extras = ExtraMaker(
        path.name, maps=[str(folder / "x.nii.gz")], weights=str(folder / "weights.txt"),
        groups=partial(groups_of_tractogram, path), labels=str(folder / "labels.nii.gz"),
    )
    scene = scene_of(path.name, partial(stored_batches, path, values=True), str(folder / "x.nii.gz"), extras)
    (folder / "page.html").write_bytes(page_of(scene))
    return (folder / "page.html").as_uri()


@pytest.fixture(scope="module")
def whole(address, tmp_path_factory) -> Iterator[Page]:
    with Page(tmp_path_factory.mktemp("profile"), *SMALL) as page:
        page.call("Emulation.setFocusEmulationEnabled", enabled=True)
        yield page
        assert page.problems == []


@pytest.fixture
def page(whole, address) -> Page:
    """The page as it begins, without the image."""
    load(whole, address, 1000, 700)
    change(whole, "opacity", 0)
    return whole


@pytest.fixture
def small(whole, address) -> Page:
    """The page as it begins, which is drawn sooner than a larger one."""
    load(whole, address, *SMALL)
    return whole


def load(page: Page, address: str, width: int, height: int) -> None:
    """Open a page anew, and wait for its picture."""
    page.resize(width, height)
    page.open("about:blank")
    page.open(address)
    page.until("document.body?.dataset.ready")


def change(page: Page, name: str, value: object, of: str = "document.getElementById('controls').elements") -> None:
    """Choose, move a slider or type."""
    page.value(
        f"(() => {{ const input = {of}[{name!r}]; input.value = {str(value)!r};"
        "for (const kind of ['input', 'change']) input.dispatchEvent(new Event(kind, {bubbles: true})); })()"
    )


def scaled(page: Page, kind: str, value: object) -> None:
    """Change the scale of the streamlines: its map, or a value of its ends."""
    change(page, "0", value, f"document.querySelectorAll('#colour-scale {kind}')")


def click(page: Page, selector: str) -> None:
    page.value(f"document.querySelector({selector!r}).click()")


def pixels(page: Page) -> np.ndarray:
    """The pixels of the scene, (h, w, 3)."""
    box = page.value("(() => { const r = document.getElementById('scene').getBoundingClientRect();"
                     "return {x: r.x, y: r.y, width: r.width, height: r.height, scale: 1}; })()")
    taken = page.call("Page.captureScreenshot", format="png", clip=box)["data"]
    return np.asarray(Image.open(io.BytesIO(b64decode(taken))).convert("RGB")).astype(int)


def drawn(page: Page) -> int:
    return int(page.value("document.body.dataset.drawn"))


def near(page: Page, colour: tuple[int, int, int]) -> int:
    """How many pixels have about this colour."""
    return int((np.abs(pixels(page) - colour).max(axis=-1) < 40).sum())


def lit(page: Page) -> int:
    return int((pixels(page).max(axis=-1) > 60).sum())


def text(page: Page, selector: str) -> str:
    return page.value(f"document.querySelector({selector!r}).textContent")


@pytest.mark.nightly
def test_colours_are_those_of_the_choice_and_of_its_scale(page):
    """The map is x: from the first colour at the left to the last one at the right."""
    assert page.value("document.getElementById('controls').elements.colour.value") == "0"
    dark, bright = (68, 1, 84), (253, 231, 37)
    assert min(near(page, dark), near(page, bright)) > 100
    scaled(page, ".least", 100)
    assert near(page, bright) > 100, "a scale whose ends are exchanged changes nothing"
    scaled(page, ".greatest", 1000)
    scaled(page, ".least", 500)
    assert near(page, dark) > 2000 and near(page, bright) == 0
    scaled(page, ".greatest", 501)
    scaled(page, ".least", -500)
    scaled(page, "select", "gray")
    assert near(page, (128, 128, 128)) > 2000
    change(page, "colour", "single")
    change(page, "single", "#ff0000")
    assert near(page, (230, 0, 0)) > 2000
    change(page, "colour", "ends")
    assert near(page, (230, 0, 0)) > 2000, "all go from left to right"
    change(page, "colour", "0")
    assert near(page, (128, 128, 128)) > 2000, "the scale of a set of values is kept"


@pytest.mark.nightly
def test_a_scale_of_a_narrow_window_has_all_its_colours(page):
    """The ends of 100000.1 to 100001.8, which four digits do not tell apart; and ends that the user makes equal."""
    place = page.value("[...document.querySelectorAll('[name=colour] option')].find((o) => o.text === 'narrow').value")
    change(page, "colour", place)
    ends = "[...document.querySelectorAll('#colour-scale input')].map((input) => Number(input.value))"
    low, high = page.value(ends)
    assert 100000 < low < 100000.2 and 100001.7 < high < 100002
    dark, bright, black = (68, 1, 84), (253, 231, 37), (0, 0, 0)
    assert min(near(page, dark), near(page, bright)) > 100
    empty = near(page, black)
    scaled(page, ".greatest", low)
    change(page, "tubes", 0)  # draws the colours anew
    assert near(page, black) == empty, "no line is black, which stands for no number"
    assert min(near(page, dark), near(page, bright)) > 100


@pytest.mark.nightly
def test_groups_go_and_come(page):
    change(page, "colour", "group")
    assert drawn(page) == LINES
    click(page, "#group-0")
    assert drawn(page) == LINES - 50, "that of 'high'"
    before = lit(page)
    click(page, "#no-groups")
    assert drawn(page) == 0 and lit(page) < before / 2
    click(page, "#group-1")
    assert drawn(page) == 100 and text(page, "#drawn") == "Streamlines shown: 100 of 300"
    change(page, "2", "#00ff00", "document.querySelectorAll('#groups input[type=color]')")
    assert near(page, (0, 230, 0)) == 0
    change(page, "1", "#00ff00", "document.querySelectorAll('#groups input[type=color]')")
    assert near(page, (0, 230, 0)) > 500
    click(page, "#all-groups")
    assert drawn(page) == LINES


@pytest.mark.nightly
def test_a_slab_cuts_in_three_dimensions_and_slices_have_its_thickness(page):
    """The slab across the streamlines follows the crosshair; that along them, in slices, is thinner."""
    change(page, "colour", "single")
    change(page, "view", 4)
    full = lit(page)
    change(page, "slab", 1)
    change(page, "thickness", 6)
    thin = lit(page)
    assert 0 < thin < full / 3
    before = pixels(page)
    page.value("document.activeElement.blur()")
    for _ in range(3):
        key(page, "ArrowUp")
    assert lit(page) > 0 and (pixels(page) != before).any(), "it follows the crosshair"
    change(page, "thickness", 60)
    assert lit(page) > full * 0.9
    change(page, "slab", "")
    change(page, "view", 2)
    wide = lit(page)
    change(page, "thickness", 1)
    assert lit(page) < wide / 3


@pytest.mark.nightly
def test_tubes_are_lines_with_a_width(page):
    change(page, "colour", "single")
    lines = lit(page)
    click(page, "[name=tubes]")
    assert lit(page) > lines
    assert near(page, (200, 160, 64)) > 300


def cell(page: Page, i: int, j: int) -> tuple[float, float]:
    """The place of a cell of the matrix of three nodes, whose names are narrow."""
    click(page, ".matrix .all")
    page.value("document.querySelector('.matrix canvas').scrollIntoView({block: 'center'})")
    x, y, size = page.value("(() => { const r = document.querySelector('.matrix canvas').getBoundingClientRect();"
                            "return [r.x, r.y, r.width]; })()")
    step = (size - 17) / 3
    return x + 17 + (j + 0.5) * step, y + 17 + (i + 0.5) * step


def test_an_edge_and_a_node_show_their_streamlines(small):
    small.press(*cell(small, 1, 0))
    assert text(small, "#edge") == "1 – 2: 150 drawn of 150 streamlines"
    assert drawn(small) == 150
    assert "150 streamlines" in text(small, ".told"), "what the pointer is at"
    small.press(*cell(small, 2, 0))
    assert drawn(small) == 150
    small.press(*cell(small, 1, 2))
    assert drawn(small) == 0 and text(small, "#edge").startswith("2 – 3: 0 drawn of 0")
    change(small, "node", 0)
    assert drawn(small) == LINES and text(small, "#edge").startswith("1: 300 drawn of 300")
    change(small, "node", 2)
    assert drawn(small) == 150
    click(small, "#all-edges")
    assert drawn(small) == LINES and text(small, "#edge") == ""


@pytest.mark.nightly
def test_the_ring_has_chords_and_nodes(page):
    click(page, "#as-ring")
    assert page.value("document.querySelectorAll('#ring path').length") == 2 + 3
    for number, label, count in ((0, "1 – 2", 150), (1, "1 – 3", 150), (3, "2", 150)):
        page.value("document.getElementById('ring').scrollIntoView({block: 'center'})")
        x, y = page.value(
            f"(() => {{ const path = document.querySelectorAll('#ring path')[{number}], length = path.getTotalLength();"
            "const at = path.getPointAtLength(0.3 * length).matrixTransform(path.getScreenCTM());"
            "return [at.x, at.y]; })()"
        )
        page.press(x, y)
        assert text(page, "#edge").startswith(f"{label}: ")
        assert drawn(page) == count and page.value("document.querySelectorAll('#ring .chosen').length") == 1
        assert label in text(page, ".told")
    key(page, "Escape")
    assert drawn(page) == LINES


@pytest.mark.nightly
def test_keys_choose_nodes_of_the_ring(page):
    """A node keeps the focus, though the ring is drawn anew; what is called a button can be reached."""
    click(page, "#as-ring")
    focused = "document.activeElement.getAttribute('aria-label')"
    page.value("document.querySelector('#ring [data-node=\"1\"]').focus()")
    assert page.value(focused) == "2" and text(page, ".told").startswith("2")
    for name, pressed, count in (("Enter", "true", 150), (" ", "false", LINES), ("Enter", "true", 150)):
        key(page, name)
        assert drawn(page) == count
        assert page.value(focused) == "2"
        assert page.value("document.activeElement.getAttribute('aria-pressed')") == pressed
    assert page.value("[...document.querySelectorAll('#ring [role=button]')].map((e) => e.tabIndex)") == [0, 0, 0]


def key(page: Page, name: str) -> None:
    page.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=name if len(name) == 1 else "")
    page.call("Input.dispatchKeyEvent", type="keyUp", key=name)


@pytest.mark.nightly
def test_a_picture_has_the_pixels_that_were_asked_for(page):
    change(page, "width", 1234)
    change(page, "height", 321)
    size, colours = page.value(
        "new Promise((resolve) => { HTMLAnchorElement.prototype.click = async function () {"
        "const image = await createImageBitmap(await (await fetch(this.href)).blob());"
        "const pen = new OffscreenCanvas(image.width, image.height).getContext('2d'); pen.drawImage(image, 0, 0);"
        "const data = pen.getImageData(0, 0, image.width, image.height).data;"
        "resolve([[image.width, image.height], data.filter((x) => x > 60 && x < 250).length]); };"
        "document.getElementById('save').click(); })"
    )
    assert size == [1234, 321] and colours > 3000
    assert page.value("document.getElementById('scene').width") < 1000, "the page is as before"
    change(page, "height", 99999)
    click(page, "#save")
    page.until("!document.getElementById('problem').hidden")
    assert "from 16 to 16384" in text(page, "#problem")


@pytest.mark.nightly
def test_keys_do_what_they_list(page):
    key(page, "?")
    assert page.value("document.getElementById('keys').open")
    listed = page.value("[...document.querySelectorAll('#keys kbd')].map((each) => each.textContent)")
    assert {"1", "s", "d", "c", "g", "x", "[", "]", "p", "?", "Esc", "arrows"} <= set(listed)
    click(page, "#keys button")
    controls = "document.getElementById('controls').elements"
    for name, control in (("s", "streamlines"), ("t", "tubes"), ("d", "density")):
        before = page.value(f"{controls}.{control}.checked")
        key(page, name)
        assert page.value(f"{controls}.{control}.checked") != before
    for name, control, value in (("3", "view", "0"), ("x", "slab", "2"), ("]", "thickness", "9"), ("c", "colour", "1")):
        key(page, name)
        assert page.value(f"{controls}.{control}.value") == value
    key(page, "g")
    assert drawn(page) == 0
    place = text(page, "#place")
    key(page, "PageUp")
    assert text(page, "#place") != place


@pytest.mark.nightly
def test_the_density_has_its_scale(page):
    click(page, "[name=streamlines]")
    black = lit(page)
    click(page, "[name=density]")
    assert lit(page) > black + 1000
    before = pixels(page)
    change(page, "0", "viridis", "document.querySelectorAll('#density-scale select')")
    assert (pixels(page) != before).any(axis=-1).sum() > 500


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_sizes_and_colours(page, tmp_path, width, scheme):
    """The picture has the width of the page; its controls have the colours of the scheme, its scene those of lines."""
    change(page, "opacity", 1)
    page.resize(width, 800)
    page.dark(scheme)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.picture(tmp_path / "page.png")
    picture = np.asarray(Image.open(tmp_path / "page.png").convert("RGB")).astype(int)
    assert picture.shape == (800, width, 3)
    side, shown = (
        picture[y : y + height, x : x + across]
        for x, y, across, height in page.value(
            "['aside', '#scene'].map((name) => { const r = document.querySelector(name).getBoundingClientRect();"
            "return [r.x, r.y, r.width, r.height].map(Math.round); })"
        )
    )
    assert np.median(np.abs(side - SCHEMES[scheme]).max(axis=-1)) < 40, "the background of the controls"
    assert (np.ptp(shown, axis=-1) > 60).sum() > 1000, "lines have colours"
