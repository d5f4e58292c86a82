"""The report of a run, from made-up streamlines: pictures, numbers, and a page that loads nothing."""

import base64
import re
import shutil
import subprocess
from dataclasses import dataclass
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

import tistreamlines as ts
from tistreamlines.report import scene as scenes
from tistreamlines.report.charts import bins
from tistreamlines.report.content import changed_options, command
from tistreamlines.report.page import Pictures, RunFacts, html
from tistreamlines.report.scene import PictureFrame, ReportScene, SlicePeaks, StreamlineSample
from tistreamlines.report.views import density_pictures, peaks_picture, streamline_pictures
from tistreamlines.viewer.matrix import UNKNOWN, connectomes, encode_matrix

# the first axis points down, the second to the left, the third to the front, a little tilted
TILTED = np.array([[0.0, -2.5, 0, 40], [0.1, 0, 3, -30], [-2, 0, 0.15, 20], [0, 0, 0, 1]])
SHAPE = (20, 24, 16)


def batch(*lines):
    """Streamlines of some points."""
    n = len(lines)
    offsets = np.cumsum([0, *map(len, lines)])
    numbers, ends = np.arange(n), np.zeros((n, 2))
    return ts.Batch(np.concatenate(lines), offsets, np.zeros((n, 3)), numbers, numbers * 0, ends)


def scene(space, lines, background=None):
    density = np.zeros(space.shape, int)
    for line in lines:
        density[tuple(np.unique(np.rint(space.to_voxel(line)).astype(int), axis=0).T)] += 1
    return ReportScene(space, density, background, batch(*lines), len(lines))


def test_the_frame_is_that_of_the_scanner_up_to_a_tilt():
    space = ts.Space(TILTED, SHAPE)
    frame, rng = PictureFrame(space), np.random.default_rng(0)
    assert frame.order == (1, 2, 0)
    assert frame.signs.tolist() == [-1, 1, -1]
    voxels = rng.integers(0, SHAPE, (50, 3))
    places = frame.within(voxels)
    assert np.array_equal(frame.voxels(places), voxels)
    values = rng.random(SHAPE)
    assert np.array_equal(frame.volume(values)[tuple(places.T)], values[tuple(voxels.T)])
    assert np.allclose(frame.places(space.to_ras(voxels)), places * frame.sides, atol=1e-4)
    # steps along the scanner's axes keep their axis and their sense
    steps = np.diff(frame.places(np.concatenate([np.zeros((1, 3)), np.eye(3)])), axis=0)[0]
    assert np.argmax(np.abs(steps)) == 0 and steps[0] > 0.99


def test_streamlines_have_the_place_and_the_colour_of_their_direction():
    space = ts.Space(np.diag([-2.0, 2, 2, 1]), (40, 40, 40))
    along = np.linspace(0, 20, 30)[:, None]
    lines = [[-70, 10, 40] + along * [1, 0, 0], [-20, 50, 20] + along * [0, 1, 0], [-40, 20, 30] + along * [0, 0, 1]]
    drawn = scene(space, lines, np.ones(space.shape, np.uint8))
    axial = streamline_pictures(drawn)[0].astype(int)
    red, green, blue = np.moveaxis(axial, 2, 0)
    row, column = np.argwhere((red > 150) & (green < 60)).mean(axis=0) / axial.shape[:2]
    assert column < 0.4 and row > 0.5  # to the left and at the back
    row, column = np.argwhere((green > 150) & (red < 60)).mean(axis=0) / axial.shape[:2]
    assert column > 0.6 and row < 0.4
    assert np.any((blue > 100) & (red < 60))
    # only the slices' voxels with streamlines are coloured
    shapes = [picture.shape for picture in streamline_pictures(drawn)]
    assert [picture.shape for picture in density_pictures(drawn)] == shapes


def test_a_sample_is_even_and_the_density_is_that_of_all(monkeypatch):
    monkeypatch.setattr(scenes, "MOST", 50)
    space = ts.Space(np.diag([2.0, 2, 2, 1]), (20, 20, 20))
    kept, rng = StreamlineSample(space, 30.0), np.random.default_rng(0)
    ends = rng.uniform(0, 38, (333, 2, 3)).astype(np.float32)
    for first in range(0, 333, 37):
        kept.add(batch(*ends[first : first + 37]))
    drawn = kept.scene(None)
    sample = drawn.sample.points.reshape(-1, 2, 3)
    assert drawn.streamlines == 333
    stride = int(np.flatnonzero((ends == sample[1]).all(axis=(1, 2)))[0])
    assert 25 <= len(sample) <= 50
    assert np.array_equal(sample, ends[::stride])
    total = drawn.density
    starts = tuple(np.floor(ends[:, 0] / 2 + 0.5).astype(int).T)
    assert total[starts].min() >= 1


def test_directions_lie_in_their_voxels():
    space = ts.Space(np.diag([-2.0, 2, 2, 1]), (30, 20, 10))
    drawn = scene(space, [np.array([[-58.0, 0, 8], [0, 38, 8]])])
    places = np.array([[2, 3, 4], [27, 16, 4]])
    picture = peaks_picture(drawn, SlicePeaks(places, np.array([[1.0, 0, 0], [0, 1, 0]]), np.zeros(2, int)))
    red, green, _ = np.moveaxis(picture.astype(int), 2, 0)
    # the first voxel is to the right and at the back, since the first axis points left
    assert np.argwhere(red - green > 80).mean(axis=0)[1] > picture.shape[1] / 2
    assert np.argwhere(green - red > 80).mean(axis=0)[0] < picture.shape[0] / 2


def test_lengths_are_counted_in_round_bins():
    counts, width = bins(np.bincount([2, 3, 3, 101]), 0.9)
    assert (width, counts.sum(), counts[0], counts[-1]) == (2.0, 4, 3, 1)
    assert (len(counts) - 1) * width <= 90 < len(counts) * width
    assert bins(np.zeros(1, int), 0.5)[0].sum() == 0


@dataclass(frozen=True)
class Matrix:
    labels: str
    nodes: np.ndarray
    names: tuple
    values: dict
    errors: dict
    unassigned: int
    streamlines: int


def connectome(n, measures=("count",)):
    rng = np.random.default_rng(n)
    counts = rng.poisson(rng.lognormal(2, 3, (n, n))).astype(float)
    counts += counts.T
    errors = np.where(counts > 0, np.sqrt(counts), np.nan)
    names = tuple(f"node {k}" for k in range(n))
    return Matrix("a.nii.gz", np.arange(1, n + 1), names, dict.fromkeys(measures, counts),
                  dict.fromkeys(measures, errors), 5, 100)


def test_a_matrix_is_coded_to_one_in_ten_thousand():
    matrices = connectome(30)
    for matrix in (matrices.values["count"], matrices.errors["count"]):
        code = encode_matrix(matrix)
        codes = np.frombuffer(base64.b64decode(code["codes"]), "<u2")
        # as the script reads them
        values = code["low"] * np.exp((codes - 1.0) / 65532 * np.log(code["high"] / code["low"]))
        values = np.where(codes == 0, 0, np.where(codes == UNKNOWN, np.nan, values))
        assert np.allclose(values, matrix[np.triu_indices(30)], rtol=2e-4, equal_nan=True)


def test_a_page_has_room_for_400_nodes_but_not_for_any_number_of_measures():
    single, several = connectomes([connectome(400), connectome(400, tuple("abcdefgh"))], weighted=False)
    assert [len(single["measures"]), single["missing"]] == [1, []]
    assert several["measures"] and several["missing"]
    assert "errors" in several["measures"][0]


@pytest.mark.parametrize(("measures", "weighted", "counted"), [
    (("count",), False, "count"), (("count",), True, None), (("mean-length",), False, None),
    (("count", "unweighted-count"), True, "unweighted-count"), (("radius2_count",), True, "radius2_count"),
    (("sift_radius2_count",), False, "sift_radius2_count"), (("sift_radius2_count",), True, None),
])
def test_the_number_of_streamlines_is_a_measure_without_weights(measures, weighted, counted):
    (shown,) = connectomes([connectome(3, measures)], weighted=weighted)
    assert shown["counted"] == counted
    halves = connectome(3, measures)
    parts = Matrix(**vars(halves) | {"values": {name: values / 2 + 0.25 for name, values in halves.values.items()}})
    (shown,) = connectomes([parts], weighted=weighted)
    assert shown["counted"] is None, "parts of streamlines, of probabilities, are no whole numbers"


class Elements(HTMLParser):
    """The elements of a page, with their attributes."""

    def __init__(self, page):
        super().__init__()
        self.elements = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def kept():
    """The record of a run that was not made."""
    chosen = ts.Parameters(nseeds=500, dg="prob", include=["1,2,3,4"], force=True)
    result = {
        "arch": "cpu", "device": "any", "seeds": 500, "streamlines": 2, "points": 60, "mean_points": 30.0,
        "median_points": 30.0, "mean_mm": 20.0, "median_mm": 20.0, "stop_reasons": {}, "seconds": {"track": 0.1},
        "written_stop_reasons": {"end_point": 3, "no_direction": 1}, "dropped": {"too_short": 7},
    }
    paths = {name: {"path": f"/a b/<i>{name}.nii", "sha256": 64 * "0"} for name in ("dwi", "bvals", "bvecs")}
    return {
        "versions": {"tistreamlines": "1"}, "source": "x", "inputs": paths, "parameters": chosen.as_dict(),
        "step_mm": 0.9, "result": result, "warnings": ["<b>doubt</b>"], "chosen": {"sh_order": 8},
    }


def test_the_page_runs_only_its_own_script_and_loads_nothing(kept):
    matrix = connectome(12)
    odd = "</script><script>alert(1)</script>"
    matrix = Matrix(**vars(matrix) | {"names": (odd, *matrix.names[1:])})
    space = ts.Space(np.diag([2.0, 2, 2, 1]), (10, 10, 10))
    shown = scene(space, [np.array([[4.0, 4, 4], [12, 12, 12]])])
    run = RunFacts(kept, "<u>out.trx", np.bincount([30, 30]), ("a & b",), {"connectome": (matrix,)})
    page = html(run, shown, Pictures(streamline_pictures(shown), density_pictures(shown), None, "There are none."))
    elements = Elements(page).elements
    names = [tag for tag, _ in elements]
    assert names.count("script") == 2 and not {"u", "i b", "iframe"} & set(names)
    assert "There are none." in page and "a &amp; b" in page and "&lt;b&gt;doubt" in page
    assert odd not in page
    for tag, attributes in elements:
        loaded = [attributes[name] for name in ("src", "href", "srcset") if name in attributes]
        assert all(address.startswith("data:") for address in loaded), tag
    policy = next(attributes["content"] for _, attributes in elements if attributes.get("http-equiv"))
    assert "default-src 'none'" in policy and "script-src 'sha256-" in policy
    assert re.search(r"7</td><td class=\"number\">77.8%", page)  # of 9, 7 were dropped
    assert len(page) < 200_000


def test_the_command_has_what_differs_from_the_defaults(kept):
    assert set(changed_options(kept)) == {"nseeds", "dg", "include", "force"}
    line = command(kept, "out.trx")
    assert line.startswith("tistreamlines track '/a b/<i>dwi.nii'")
    assert "-o out.trx" in line and "--nseeds 500" in line and "--dg prob" in line and "--include 1,2,3,4" in line
    plain = SimpleNamespace(**ts.Parameters().as_dict())
    assert changed_options({"parameters": vars(plain)}) == {}
    long = {"max_length": 400.0}
    for chosen in (long, {"max_steps": 500} | long, {"dg": "ifod2", "max_length": "80vox"}):
        assert changed_options({"parameters": ts.Parameters(**chosen).as_dict()}) == chosen


def test_nothing_to_show_is_shown():
    space = ts.Space(np.eye(4), (5, 6, 7))
    empty = ReportScene(space, np.zeros(space.shape, int), None, ts.Batch.concatenate([]), 0)
    assert len(streamline_pictures(empty)) == len(density_pictures(empty)) == 3
    assert max(max(picture.shape) for picture in density_pictures(empty)) <= scenes.LONGEST


def test_a_browser_has_nothing_to_complain_of(kept, tmp_path):
    """The script runs under the policy of the page, fills each matrix, and writes nothing to the console."""
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    space = ts.Space(np.diag([2.0, 2, 2, 1]), (10, 10, 10))
    shown = scene(space, [np.array([[4.0, 4, 4], [12, 12, 12]])])
    pictures = Pictures(streamline_pictures(shown), density_pictures(shown), None, "There are none.")
    run = RunFacts(kept, None, np.bincount([30, 30]), (), {"connectome": (connectome(84), *[connectome(12)] * 4)})
    (tmp_path / "page.html").write_text(html(run, shown, pictures), encoding="utf-8")
    done = subprocess.run(
        [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
         "--enable-logging=stderr", "--v=0", "--virtual-time-budget=1000", "--dump-dom", tmp_path / "page.html"],
        capture_output=True, text=True, timeout=60,
    )
    assert "CONSOLE" not in done.stderr
    most = re.findall(r'<span class="most">([\d,]+)</span>', done.stdout)
    assert len(most) == 5
    assert "Other connectomes: 1" in done.stdout, "those after the first ones are folded"
    assert float(most[0].replace(",", "")) == pytest.approx(connectome(84).values["count"].max(), rel=1e-3)


def weighted_page(kept, weights, value):
    """A page about three nodes, all of whose edges have a value."""
    matrix = connectome(3)
    matrix = Matrix(**vars(matrix) | {"values": {"count": np.full((3, 3), value)}})
    shown = scene(ts.Space(np.diag([2.0, 2, 2, 1]), (10, 10, 10)), [np.array([[4.0, 4, 4], [12, 12, 12]])])
    pictures = Pictures(streamline_pictures(shown), density_pictures(shown), None)
    record = {**kept, "parameters": {**kept["parameters"], "weights": weights}}
    return html(RunFacts(record, None, np.bincount([30, 30]), (), {"connectome": (matrix,)}), shown, pictures)


@pytest.mark.parametrize(("weights", "counted"), [("sift2", "null"), (None, '"count"')])
def test_a_page_knows_whether_streamlines_are_weighted(kept, weights, counted):
    assert f'"counted":{counted}' in weighted_page(kept, weights, 2.0)


@pytest.mark.nightly
@pytest.mark.parametrize(("weights", "told"), [("sift2", "count: 0.722"), (None, "count: 2")])
def test_sums_of_weights_are_no_whole_numbers(kept, tmp_path, weights, told):
    """The text of the edge that a click chooses; nightly, since a browser is started for it."""
    pytest.importorskip("websockets", reason="needs websockets")
    from browser import CHROMIUM, Page

    if CHROMIUM is None:
        pytest.skip("chromium is not installed")
    page = weighted_page(kept, weights, float(told.split()[1]))
    (tmp_path / "page.html").write_text(page, encoding="utf-8")
    with Page(tmp_path / "profile") as page:
        page.open((tmp_path / "page.html").as_uri())
        page.until("document.querySelector('.matrix canvas')?.width > 300")
        page.value("document.querySelector('.matrix canvas').scrollIntoView({block: 'center'})")
        page.press(*page.value("(() => { const r = document.querySelector('.matrix canvas').getBoundingClientRect();"
                               "return [r.x + r.width / 2, r.y + r.height / 2]; })()"))
        lines = page.value("[...document.querySelectorAll('.told p')].map((line) => line.textContent)")
    assert [line for line in lines if line.startswith("count")] == [told]
    assert not [line for line in lines if "streamlines" in line]


@pytest.mark.nightly
def test_names_of_nodes_cover_no_cell(kept, tmp_path):
    """Each cell has one colour, at 12 nodes and at 84 that are enlarged; the names lie beside them.

    Nightly, since a browser draws two pages whose pixels are compared.
    """
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    space = ts.Space(np.diag([2.0, 2, 2, 1]), (10, 10, 10))
    shown = scene(space, [np.array([[4.0, 4, 4], [12, 12, 12]])])
    pictures = Pictures(streamline_pictures(shown), density_pictures(shown), None)
    for n, clicks in ((12, 0), (84, 3)):
        matrix = connectome(n)
        full = {"count": matrix.values["count"] + 1 + np.add.outer(np.arange(n), np.arange(n))}
        products = {"connectome": (Matrix(**vars(matrix) | {"values": full}),)}
        run = RunFacts(kept, None, np.bincount([30, 30]), (), products)
        page = re.sub("<meta http-equiv[^>]*>", "", html(run, shown, pictures))
        alone = (
            "<style>canvas{position:fixed;inset:0;width:600px!important;height:600px!important;border:0!important;"
            "border-radius:0!important;z-index:9;background:#123!important}</style><script>setTimeout(() => {for (let "
            f"k = 0; k < {clicks}; k++) document.querySelector('.in').click()}}, 100)</script></body>"
        )
        (tmp_path / "page.html").write_text(page.replace("</body>", alone), encoding="utf-8")
        subprocess.run(
            [chromium, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path / 'profile'}",
             f"--screenshot={tmp_path / 'shot.png'}", "--window-size=600,600", "--hide-scrollbars",
             "--virtual-time-budget=2000", tmp_path / "page.html"], capture_output=True, timeout=60, check=True,
        )
        picture = np.asarray(Image.open(tmp_path / "shot.png").convert("RGB")).astype(int)
        height, width = picture.shape[:2]
        beside = picture[height - 1, 0]
        margin = int(np.argmax(np.abs(picture[height - 1] - beside).sum(axis=1) > 0))
        assert 20 < margin < 0.4 * width, "there is room for names"
        assert (np.abs(picture[margin:, :margin] - beside).sum(axis=2) > 100).sum() > 100, "and they are there"
        cells = picture[margin:, margin:]
        side, first = len(cells) * 2**clicks / n, (n - n / 2**clicks) / 2
        for row in range(int(first) + 1, int(first + n / 2**clicks) - 1):
            for column in range(int(first) + 1, int(first + n / 2**clicks) - 1):
                low = [round((k - first) * side) + 2 for k in (row, column)]
                inner = cells[low[0] : low[0] + int(side) - 4, low[1] : low[1] + int(side) - 4].reshape(-1, 3)
                assert np.ptp(inner, axis=0).max() <= 2, (n, row, column)
