"""The page of ``tistreamlines view``: its sample, its density, what it loads, and what a browser makes of it."""

from __future__ import annotations

import gzip
import re
import sys
import threading
import urllib.error
import urllib.request

import nibabel as nib
import numpy as np
import pytest
from commands import one_line

from tistreamlines.errors import InputError
from tistreamlines.io.tractograms import batch_of, stored_batches
from tistreamlines.io.writer import TractogramWriter
from tistreamlines.space.batch import Space
from tistreamlines.viewer import niivue
from tistreamlines.viewer.niivue import page_of
from tistreamlines.viewer.scene import Sample, scene_of
from tistreamlines.viewer.serve import PageServer

LINES, SPACE = 1000, Space(np.diag([2.0, 2.0, 2.0, 1.0]), (20, 20, 20))


def bundle(count=LINES):
    """Bent streamlines from left to right; their y tells which one it is."""
    x = np.linspace(2, 36, 30)
    lines = [np.column_stack([x, np.full(30, 4 + 30 * i / count), 10 + 6 * np.sin(x / 6)]) for i in range(count)]
    return batch_of(np.concatenate(lines).astype(np.float32), np.full(count, 30))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A tractogram in each format, with an image."""
    folder = tmp_path_factory.mktemp("view")
    for suffix in ("trx", "trk", "tck"):
        with TractogramWriter(folder / f"bundle.{suffix}", SPACE) as writer:
            writer.write(bundle())
    image = np.random.default_rng(0).random(SPACE.shape, np.float32)
    nib.save(nib.Nifti1Image(image, SPACE.affine), folder / "fa.nii.gz")
    return folder


@pytest.fixture(scope="module")
def page(files):
    pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    path = files / "bundle.trx"
    return page_of(scene_of("a <bundle>.trx", lambda: stored_batches(path), str(files / "fa.nii.gz")))


@pytest.mark.parametrize("suffix", ["trx", "trk", "tck"])
def test_every_format_is_read(files, suffix):
    lines = [line for batch in stored_batches(files / f"bundle.{suffix}") for line in batch]
    assert len(lines) == LINES
    for line, expected in zip(lines, bundle(), strict=True):
        np.testing.assert_allclose(line, expected, atol=1e-4)


def test_a_sample_is_even_and_bounded():
    sample, whole = Sample(100, segment_mm=10), bundle()
    for first in range(0, LINES, 137):
        sample.add(whole[first : first + 137])
    kept = sample.batch()
    assert (sample.every, sample.total, len(kept)) == (16, LINES, 63)
    np.testing.assert_allclose([line[0, 1] for line in kept], [4 + 30 * i / LINES for i in range(0, LINES, 16)])
    assert len(kept.points) < 63 * 20  # points on almost straight lines are left out, the ends are not
    np.testing.assert_allclose([line[-1] for line in kept], [line[-1] for line in whole[::16]])
    few = Sample(20_000, most_points=200, segment_mm=10)
    few.add(whole)
    assert 0 < len(few.batch().points) <= 200


def test_the_density_counts_all_and_lies_on_the_image(files):
    scene = scene_of("bundle", lambda: stored_batches(files / "bundle.tck"), str(files / "fa.nii.gz"))
    density = nib.Nifti1Image.from_bytes(gzip.decompress(scene.density))
    np.testing.assert_array_equal(density.affine, SPACE.affine)
    assert np.asarray(density.dataobj).sum(axis=1).max() == LINES  # all cross each plane of x once
    assert (scene.total, scene.shown, scene.every) == (LINES, LINES, 1)
    alone = scene_of("bundle", lambda: [bundle()])
    assert nib.Nifti1Image.from_bytes(gzip.decompress(alone.density)).header.get_zooms() == (2, 2, 2)


def test_no_streamline_is_one_line():
    with pytest.raises(InputError, match="has no streamlines"):
        scene_of("empty.trx", lambda: [])
    points = batch_of(bundle().points[:3], np.ones(3, int))
    with pytest.raises(InputError, match="has no streamline of several points"):
        scene_of("points.trx", lambda: [points])


def test_commands_that_cannot_be(files, run, monkeypatch):
    one_line(run("view", files / "none.trx"), 1, "no such file")
    one_line(run("view", files / "fa.nii.gz"), 1, "unknown suffix")
    monkeypatch.setattr(niivue, "find_spec", lambda name: None)
    one_line(run("view", files / "bundle.trx"), 1, "pip install 'tistreamlines[view]'")


def test_a_page_is_written_whole(files, run, page):
    out = files / "page.html"
    assert run("view", files / "bundle.trx", "--image", files / "fa.nii.gz", "-o", out).code == 0
    one_line(run("view", files / "bundle.trx", "-o", out), 1, "exists already")
    text = out.read_text()
    assert "1,000 streamlines; all are drawn over fa.nii.gz" in text
    assert set(re.findall(r'\b(?:src|href)="(.*?)"', re.sub(r"(?s)<script.*?</script>", "", text))) == {"data:,"}
    assert "a &lt;bundle&gt;.trx" in page.decode()


def test_the_server_serves_this_computer_one_page(page):
    with PageServer(page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert server.server_address[0] == "127.0.0.1"
        with urllib.request.urlopen(server.address) as answer:
            assert answer.read() == page
        for other in ("/", "/etc/passwd", server.path + "x"):
            with pytest.raises(urllib.error.HTTPError, match="404"):
                urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}{other}")
        server.shutdown()


def test_a_result_is_a_widget(files):
    ipyniivue = pytest.importorskip("ipyniivue", reason="needs ipyniivue")
    shown = niivue.widget(lambda: scene_of("bundle", lambda: [bundle()], str(files / "fa.nii.gz")))
    assert isinstance(shown, ipyniivue.NiiVue)
    assert [volume.name for volume in shown.volumes] == ["image.nii.gz", "density.nii.gz"]
    assert shown.meshes[0].fiber_color == "Local"


def test_a_widget_without_ipyniivue_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipyniivue", None)
    with pytest.raises(InputError, match=r"pip install 'tistreamlines\[view\]'"):
        niivue.widget(lambda: pytest.fail("the tractogram was read first"))
