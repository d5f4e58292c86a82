"""The page of ``tistreamlines view --live`` in a browser: clicks, drags, sliders, regions, undo, sizes and colours."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, unquote

import nibabel as nib
import numpy as np
import pytest
from PIL import Image
from scipy.ndimage import binary_dilation

pytest.importorskip("ipyniivue", reason="needs ipyniivue")
pytest.importorskip("websockets", reason="needs websockets")
from browser import CHROMIUM, Page

pytestmark = [
    pytest.mark.nightly, pytest.mark.skipif(CHROMIUM is None, reason="needs chromium"),
    pytest.mark.filterwarnings("error::DeprecationWarning"),
]

ODD = "</script><b>x"  # a region of one voxel
REGIONS = ("left half", "right half", ODD)


def served(head, *more: str) -> Iterator[str]:
    """Serve a page; yield its address."""
    words = ["view", "--live", *head.series, "--mask", head.mask, "--dg", "prob", "--arch", "cpu", "--min-length", "0"]
    command = [sys.executable, "-m", "tistreamlines", *words, *more, "--no-browser", "--stay", "-q"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.terminate()


@pytest.fixture(scope="module")
def parcels(head, tmp_path_factory) -> Path:
    """Write a parcellation, and beside it names.txt; return its path."""
    mask, parcels = nib.load(head.mask), tmp_path_factory.mktemp("parcels") / "halves.nii.gz"
    values = np.asarray(mask.dataobj).astype(np.int16)
    values[values.shape[0] // 2 :] *= 2
    values[tuple(np.argwhere(values)[0])] = 3
    nib.save(nib.Nifti1Image(values, mask.affine), parcels)
    parcels.with_name("names.txt").write_text("".join(f"{k} {name}\n" for k, name in enumerate(REGIONS, 1)))
    return parcels


@pytest.fixture(scope="module")
def address(head, parcels) -> Iterator[str]:
    yield from served(head, "--parcellation", str(parcels), "--parcellation-names", str(parcels.with_name("names.txt")))


@pytest.fixture(scope="module")
def odd_address(head, tmp_path_factory) -> Iterator[str]:
    """Serve an image whose axes have another order and other senses."""
    mask, path = nib.load(head.mask), tmp_path_factory.mktemp("image") / "odd.nii.gz"
    values = np.asarray(mask.dataobj) * np.indices(mask.shape).sum(axis=0).astype(np.float32)
    image = nib.Nifti1Image(values, mask.affine).as_reoriented(np.array([[2, -1], [0, 1], [1, -1]]))
    nib.save(image, path)
    yield from served(head, "--image", str(path))


@pytest.fixture(scope="module")
def tilted_address(head, tmp_path_factory) -> Iterator[str]:
    """Serve an image whose axes are oblique."""
    mask, path = nib.load(head.mask), tmp_path_factory.mktemp("image") / "tilted.nii.gz"
    values = np.asarray(mask.dataobj) * (20 + 80 * (np.indices(mask.shape) // 4 % 2).sum(axis=0)).astype(np.float32)
    turn = nib.affines.from_matvec(nib.eulerangles.euler2mat(x=0.35, y=-0.2, z=0.1))
    nib.save(nib.Nifti1Image(values, turn @ mask.affine), path)
    yield from served(head, "--image", str(path))


@pytest.fixture(scope="module")
def page(address, tmp_path_factory) -> Iterator[Page]:
    with Page(tmp_path_factory.mktemp("profile")) as page:
        page.open(address)
        page.until("document.body?.dataset.answered")
        yield page
        assert page.problems == []


def text(page: Page, name: str) -> str:
    return page.value(f"document.getElementById({name!r}).textContent")


def after(page: Page, act) -> str:
    """Do something, wait for the next picture, and return the command."""
    count = page.value("liveTimes.length")
    act()
    page.until(f"liveTimes.length > {count} && document.body.dataset.idle === 'true'")
    return text(page, "command")


def undo_all(page: Page) -> None:
    """Undo all changes."""
    page.value("while (!undo.disabled) undo.click()")
    page.until("document.body.dataset.idle === 'true'")


def slide(page: Page, name: str, value: object) -> None:
    """Move a slider, or choose."""
    page.value(
        f"(() => {{ const input = document.getElementById('controls').elements[{name!r}]; input.value = {value!r};"
        "input.dispatchEvent(new Event('input', {bubbles: true}));"
        "input.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


def scene(page: Page) -> tuple[float, float, float, float]:
    box = "document.getElementById('scene').getBoundingClientRect()"
    return tuple(page.value(f"(() => {{ const r = {box}; return [r.x, r.y, r.width, r.height]; }})()"))


def seeds(command: str) -> list[float]:
    return [float(x) for x in command.split("--seed-sphere ")[1].split()[0].split(",")]


def test_a_click_places_seeds_and_a_drag_moves_them(page):
    x, y, width, height = scene(page)
    first = after(page, lambda: page.press(x + 0.2 * width, y + 0.25 * height))
    second = after(page, lambda: page.press(x + 0.25 * width, y + 0.3 * height))
    assert seeds(first) != seeds(second)
    end = (x + 0.28 * width, y + 0.3 * height)
    dragged = after(page, lambda: page.press(x + 0.2 * width, y + 0.3 * height, to=end))
    assert seeds(dragged) not in (seeds(first), seeds(second))
    assert " streamlines of 1,000 seeds" in text(page, "counts")


def test_a_click_lies_in_the_slice_that_is_shown(page):
    """Also after a click into another slice, which has moved it."""
    x, y, width, height = scene(page)

    def clicked(right: float, down: float) -> list[float]:
        return seeds(after(page, lambda: page.press(x + right * width, y + down * height)))

    for first, second in itertools.permutations([(0.22, 0.28), (0.71, 0.24), (0.25, 0.76)], 2):
        crosshair = clicked(*first)
        moved = clicked(*second)
        unmoved = [before for before, now in zip(crosshair[:3], moved, strict=False) if before == now]
        assert len(unmoved) == 1, (crosshair, moved)


def test_sliders_and_choices_track_anew(page):
    assert "--max-angle 12" in after(page, lambda: slide(page, "max_angle", 12))
    assert "--nseeds 100" in after(page, lambda: slide(page, "nseeds", 2))
    assert seeds(after(page, lambda: slide(page, "radius", 8)))[3] == 8
    assert "--dg det" in after(page, lambda: slide(page, "dg", "det"))
    assert "--dg prob" in after(page, lambda: slide(page, "dg", "prob"))


def test_regions_come_by_keys_and_go(page):
    x, y, width, height = scene(page)
    included = after(page, lambda: page.press(x + 0.22 * width, y + 0.28 * height, modifiers=8))
    assert included.count("--include ") == 1
    excluded = after(page, lambda: page.press(x + 0.15 * width, y + 0.2 * height, modifiers=1))
    assert (excluded.count("--include "), excluded.count("--exclude ")) == (1, 1)
    gone = after(page, lambda: page.value("document.querySelector('#spheres button').click()"))
    assert (gone.count("--include "), gone.count("--exclude ")) == (0, 1)
    back = after(page, lambda: page.value("document.getElementById('undo').click()"))
    assert (back.count("--include "), back.count("--exclude ")) == (1, 1)


def column(page: Page, which: str) -> list[str]:
    """Return the texts of a column of the edges."""
    return page.value(f"[...edges.querySelectorAll('td:{which}')].map((cell) => cell.textContent)")


def test_regions_have_names_and_edges_their_counts(page):
    undo_all(page)
    find = "search.value = {!r}; search.dispatchEvent(new Event('input')); names.children.length"
    assert [page.value(find.format(text)) for text in ("", "half RIGHT", "none")] == [3, 1, 1]
    assert "no such region" in text(page, "names")
    page.value(find.format("left"))
    seeded = after(page, lambda: page.value("names.querySelector('button[title^=Seeds]').click()"))
    assert ":1 " in seeded.split("--seed-mask ")[1] and "--seed-sphere" not in seeded
    assert {"left half"} < {*column(page, "first-child"), *column(page, "nth-child(2)")} <= {*REGIONS, "none"}
    count = int(text(page, "counts").split()[0].replace(",", ""))
    assert sum(int(cell.replace(",", "")) for cell in column(page, "last-child")) == count > 100
    page.value(find.format("right"))
    excluded = after(page, lambda: page.value("names.querySelector('button[title^=Exclude]').click()"))
    assert "halves.nii.gz:2" in excluded and "right half" in text(page, "spheres")
    assert page.value("names.querySelector('[aria-pressed=true]').textContent") == "out"
    assert {*column(page, "first-child"), *column(page, "nth-child(2)")} <= {"left half", "none"}
    for _ in range(2):
        command = after(page, lambda: page.value("document.getElementById('undo').click()"))
    assert "halves.nii.gz" not in command and "--seed-sphere" in command


def test_names_that_are_written_anew_are_listed(page, parcels):
    undo_all(page)
    page.value("search.value = 'half'; search.dispatchEvent(new Event('input'))")
    listed = "[...names.querySelectorAll('span')].map((span) => span.textContent)"
    table = parcels.with_name("names.txt")
    assert page.value(listed) == ["left half", "right half"]
    known = table.read_text()
    table.write_text(known.replace("right half", "dexter half"))
    after(page, lambda: slide(page, "max_angle", 20))
    assert page.value(listed) == ["left half", "dexter half"]
    seeded = after(page, lambda: page.value("names.querySelector('[title$=\"dexter half\"]').click()"))
    assert "halves.nii.gz:2" in seeded
    table.write_text(known)
    undo_all(page)
    after(page, lambda: slide(page, "max_angle", 20))
    assert page.value(listed) == ["left half", "right half"]
    undo_all(page)


def test_edges_are_asked_for_while_they_are_shown(page):
    undo_all(page)
    keep = "WebSocket.prototype.send = function (text) { texts.push(text); sends.call(this, text); }"
    page.value(f"sends = WebSocket.prototype.send; texts = []; {keep}; joined.open = false")
    after(page, lambda: slide(page, "max_angle", 20))
    after(page, lambda: page.value("joined.open = true"))
    assert page.value("texts.map((text) => JSON.parse(text).edges)") == [False, True]
    assert column(page, "last-child")
    page.value("WebSocket.prototype.send = sends")
    undo_all(page)


def test_names_of_regions_are_text(page):
    undo_all(page)
    page.value("search.value = '<b>'; search.dispatchEvent(new Event('input'))")
    after(page, lambda: page.value("names.querySelector('button[title^=Seeds]').click()"))
    after(page, lambda: page.value("names.querySelector('button[title^=Exclude]').click()"))
    shown = "[...document.querySelectorAll('#names span, #spheres li > span')].map((span) => span.textContent)"
    assert page.value(shown) == [f"Seeds {ODD}", f"Exclude {ODD}", ODD]
    assert page.value("document.querySelectorAll('b').length") == 0
    undo_all(page)


def test_an_answer_takes_no_button_away(page):
    """Neither between the press of a mouse and its release, nor the focus."""
    def mouse(kind: str) -> None:
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    undo_all(page)
    page.value("regions.open = true; search.value = ''; search.dispatchEvent(new Event('input'))")
    for angle, chosen in ((20, "#names button[title='Exclude right half']"), (30, "#spheres button")):
        page.value(f"document.querySelector({chosen!r}).scrollIntoView({{block: 'center'}})")
        box = f"document.querySelector({chosen!r}).getBoundingClientRect()"
        x, y = page.value(f"(() => {{ const r = {box}; return [r.x + r.width / 2, r.y + r.height / 2]; }})()")
        mouse("mousePressed")
        assert page.value(f"document.activeElement === document.querySelector({chosen!r})")
        after(page, lambda angle=angle: slide(page, "max_angle", angle))
        assert page.value(f"document.activeElement === document.querySelector({chosen!r})")
        assert ("--exclude " in after(page, lambda: mouse("mouseReleased"))) == (angle == 20)
    assert page.value("document.querySelectorAll('#names [aria-pressed=true]').length") == 0
    undo_all(page)
    page.value("regions.open = false")


def test_a_link_has_the_state(page, address, tmp_path):
    link, command = page.value("location.href"), text(page, "command")
    with Page(tmp_path / "profile") as other:
        other.open(link)
        other.until("document.body?.dataset.answered")
        assert text(other, "command") == command
        assert other.problems == []


def test_a_state_that_does_not_fit_is_ignored(page, address, tmp_path):
    undo_all(page)
    state = json.loads(unquote(page.value("location.hash")[1:]))
    fitting = {"include": [[0, 0, 0, 90]], "region": "left half", "options": {"max_angle": 40}}
    wrong = [
        {"seed": [1, 2, 3, "4"]}, {"include": 5}, {"include": [[1, 2]]}, {"exclude": [None]},
        {"exclude": ["no region"]}, {"region": ["left half"]}, {"region": "no region"}, {"options": 5},
        {"options": {"max_angle": "40"}}, {"options": {"toString": 40}}, {"nseeds": "many"}, {"dg": "no getter"},
        {"more": 5},
    ]
    with Page(tmp_path / "profile") as other:
        def opened(known: object) -> object:
            other.open("about:blank")
            other.open(f"{address}#{quote(json.dumps(known))}")
            other.until("document.body?.dataset.answered")
            assert other.value("problem.hidden")
            return json.loads(unquote(other.value("location.hash")[1:]))

        assert opened(state | fitting) == state | fitting
        for known in (5, None, *(state | fitting | changes for changes in wrong)):
            assert opened(known) == state, known
        assert other.problems == []


def coloured(page: Page) -> int:
    """Return how many pixels of the slices have a colour, as lines, balls and the crosshair have."""
    return page.value(
        "(() => { const { width, height } = slices;"
        "const data = slices.getContext('2d').getImageData(0, 0, width, height).data;"
        "let count = 0; for (let i = 0; i < data.length; i += 4)"
        "count += Math.abs(data[i] - data[i + 1]) + Math.abs(data[i + 2] - data[i + 1]) > 60; return count; })()"
    )


def test_slices_show_streamlines_and_every_view_has_them(page):
    x, y, width, height = scene(page)
    after(page, lambda: (slide(page, "nseeds", 3), page.press(x + 0.2 * width, y + 0.25 * height)))
    many = coloured(page)
    after(page, lambda: slide(page, "nseeds", 2))
    assert many > 1.3 * coloured(page) > 500
    for view in ("4", "3", "4", "0", "1", "2", "3"):
        slide(page, "view", view)
        page.until(f"slices.hidden === {json.dumps(view == '4')}")
        assert view == "4" or coloured(page) > 500
    wide, tall = page.value("[slices.width, slices.height]")
    page.resize(800, 700)
    page.until(f"slices.width < {wide} && slices.height < {tall}")
    page.resize(1200, 800)
    page.until(f"slices.width === {wide}")


def test_memory_of_the_page_stays_flat(page):
    """Bytes of objects and of buffers, after many streamlines."""
    def held() -> float:
        page.call("HeapProfiler.collectGarbage")
        usage = page.call("Runtime.getHeapUsage")
        return (usage["usedSize"] + usage.get("backingStorageSize", 0)) / 1e6

    def ask(count: int) -> None:
        x, y, width, height = scene(page)
        for number in range(count):
            place = x + (0.16 + 0.001 * (number % 60)) * width, y + 0.28 * height
            after(page, lambda at=place: page.press(*at))

    undo_all(page)
    ask(60)
    before = held()
    ask(300)
    assert held() - before < 8


# the page then takes the browser for one that has a GPU
UNNAMED = (
    "const known = WebGL2RenderingContext.prototype.getExtension; WebGL2RenderingContext.prototype.getExtension ="
    "function (name) { return name === 'WEBGL_debug_renderer_info' ? null : known.call(this, name); };"
)


def coloured_pixels(page: Page, path: Path) -> int:
    """Return how many pixels of the scene have a colour, whoever draws it."""
    page.picture(path)
    values = np.asarray(Image.open(path).convert("RGB"), int)
    x, y, width, height = map(round, scene(page))
    return int((np.ptp(values[y : y + height, x : x + width], axis=-1) > 60).sum())


def test_with_a_gpu_niivue_draws(address, tmp_path):
    with Page(tmp_path / "profile", 700, 500) as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=UNNAMED)
        page.open(address)
        page.until("document.body?.dataset.answered")
        assert page.value("slices.hidden")
        after(page, lambda: slide(page, "radius", 9))
        many = coloured_pixels(page, tmp_path / "many.png")
        after(page, lambda: slide(page, "nseeds", 2))
        assert many > coloured_pixels(page, tmp_path / "few.png") > 300
        assert page.problems == []


def coloured_places(page: Page, path: Path) -> np.ndarray:
    """Return where the scene has the colours of streamlines, (height, width)."""
    page.picture(path)
    x, y, width, height = map(round, scene(page))
    values = np.asarray(Image.open(path).convert("RGB"), int)[y : y + height, x : x + width]
    return np.ptp(values, axis=-1) > 120


def test_streamlines_near_an_oblique_slice_are_the_same_with_a_gpu(tilted_address, tmp_path):
    places, link = [], tilted_address
    for number, script in enumerate((UNNAMED, "")):
        with Page(tmp_path / f"profile-{number}", 900, 600) as page:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=script)
            page.open(link)
            page.until("document.body?.dataset.answered")
            if not number:
                after(page, lambda page=page: slide(page, "radius", 20))
                link = page.value("location.href")
            slide(page, "view", "0")
            page.until("document.body.dataset.idle === 'true'")
            page.value("new Promise((resolve) => setTimeout(resolve, 1000))")
            places.append(coloured_places(page, tmp_path / f"{number}.png"))
            assert page.value("slices.hidden") == (number == 0)
    for first, second in (places, places[::-1]):
        assert first.sum() > 800
        assert (first & binary_dilation(second, iterations=3)).sum() > 0.7 * first.sum()


# the first answer comes twice, so that two pictures are wanted at once
TWICE = (
    "const send = WebSocket.prototype.send; WebSocket.prototype.send = function (text) {"
    "WebSocket.prototype.send = send; const receive = this.onmessage;"
    "this.onmessage = (message) => { this.onmessage = receive; receive(message); receive(message); };"
    "send.call(this, text); };"
)


def test_two_answers_at_once_make_one_mesh_of_streamlines(address, tmp_path):
    with Page(tmp_path / "profile", 700, 500) as page:
        page.call("Page.addScriptToEvaluateOnNewDocument", source=UNNAMED + TWICE)
        page.open(address)
        page.until("globalThis.liveTimes?.length === 2 && document.body.dataset.idle === 'true'")
        many = coloured_pixels(page, tmp_path / "many.png")
        after(page, lambda: slide(page, "min_length", 100))
        assert text(page, "counts").startswith("0 streamlines")
        assert coloured_pixels(page, tmp_path / "none.png") < many / 3
        assert page.value("slices.hidden") and page.problems == []


# the answer to a request is followed at once by an error of the next one, whose own answer never comes
OVERTAKEN = (
    "(() => { const send = WebSocket.prototype.send; WebSocket.prototype.send = function (text) {"
    "const receive = this.onmessage, sent = [text]; WebSocket.prototype.send = function (more) { sent.push(more); };"
    "this.onmessage = (message) => { receive(message); this.onmessage = receive; WebSocket.prototype.send = send;"
    "window.wrong = JSON.parse(sent.at(-1)).id; window.sentCount = sent.length;"
    "receive({ data: JSON.stringify({ id: wrong, error: 'out of the image' }) }); };"
    "send.call(this, text); }; })()"
)


def test_an_error_stays_when_an_earlier_picture_follows(page):
    count = page.value("liveTimes.length")
    page.value(OVERTAKEN)
    page.value("['9', '10'].forEach((value) => { const { radius } = controls.elements; radius.value = value;"
               "radius.dispatchEvent(new Event('input', {bubbles: true})); })")
    page.until(f"liveTimes.length > {count}")
    assert page.value("[sentCount, problem.hidden, problem.textContent]") == [2, False, "out of the image"]
    assert page.value("Number(document.body.dataset.answered) === wrong && document.body.dataset.idle === 'true'")
    after(page, lambda: slide(page, "radius", 3))
    assert page.value("problem.hidden && Number(document.body.dataset.answered) === wrong + 1")


@pytest.mark.parametrize("which", ["odd_address", "tilted_address"])
def test_painted_slices_are_those_of_niivue(which, request, tmp_path):
    """Grey values agree, in each slice, where neither has lines, letters or a crosshair.

    They differ at the border of the head, which NiiVue draws sharper.
    """
    def grey(name: str) -> np.ndarray:
        page.picture(tmp_path / name)
        return np.asarray(Image.open(tmp_path / name).convert("RGB"), float)[y : y + height, x : x + width]

    with Page(tmp_path / "profile") as page:
        page.open(request.getfixturevalue(which))
        page.until("document.body?.dataset.answered")
        x, y, width, height = map(round, scene(page))
        after(page, lambda: page.press(x + 0.2 * width, y + 0.3 * height))
        for wider in (1, 0):  # NiiVue draws, too
            page.resize(1200 + wider, 800)
            page.until(f"slices.width === {width + wider}")
        painted = grey("painted.png")
        page.value("document.getElementById('slices').style.visibility = 'hidden'")
        drawn = grey("drawn.png")
        assert page.problems == []
    for rows, columns in ((0, 0), (0, 1), (1, 0)):
        part = np.s_[rows * height // 2 : (rows + 1) * height // 2, columns * width // 2 : (columns + 1) * width // 2]
        first, second = painted[part], drawn[part]
        is_plain = (np.ptp(first, axis=-1) < 8) & (np.ptp(second, axis=-1) < 8) & (first[..., 0] + second[..., 0] > 40)
        assert is_plain.sum() > 3000
        assert np.corrcoef(first[is_plain][:, 0], second[is_plain][:, 0])[0, 1] > 0.85
        assert np.abs(first - second)[is_plain].mean() < 15


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 400])
def test_sizes_and_colours(page, tmp_path, width, scheme):
    page.resize(width, 800)
    page.dark(scheme)
    assert page.value("document.documentElement.scrollWidth") <= width
    page.picture(tmp_path / "page.png")
    kept = Path(tmp_path.parent / f"{width}-{scheme}.png")
    shutil.copy(tmp_path / "page.png", kept)
    assert kept.stat().st_size > 10_000
    page.resize(1200, 800)

