"""The picture must show the right colour in the right place."""

import numpy as np
import pytest

from tistreamlines.io import picture
from tistreamlines.io.picture import _segments, png


def bundle_along(axis, n=40, length=80):
    """Straight parallel streamlines along one axis, packed."""
    start = np.random.default_rng(axis).uniform(-8, 8, (n, 1, 3))
    step = np.zeros(3)
    step[axis] = 1
    points = start + (np.arange(length) - length / 2)[None, :, None] * step
    return points.reshape(-1, 3).astype(np.float32), np.arange(n + 1, dtype=np.int64) * length


def ball():
    grid = np.indices((40, 44, 36)) - np.array([20, 22, 18])[:, None, None, None]
    affine = np.diag([-2.5, 2.5, 2.5, 1.0])
    affine[:3, 3] = [50, -55, -45]
    return np.linalg.norm(grid, axis=0) < 17, affine


def pixels(path):
    from matplotlib.image import imread

    return imread(path)[..., :3]


def draw(points, offsets, path, **options):
    path.write_bytes(png(points, offsets, **options))


def panels(image):
    """The inner part of the three frames, away from captions and letters."""
    height, width = image.shape[:2]
    return [
        image[height // 4 : -height // 5, int(width * (k + 0.2) / 3) : int(width * (k + 0.9) / 3)] for k in range(3)
    ]


def dominated(image, channel):
    others = np.delete(image, channel, axis=-1).max(axis=-1)
    return image[..., channel] > np.maximum(1.6 * others, 0.2)


@pytest.mark.parametrize(
    ("axis", "across"), [(0, {0: True, 1: True}), (1, {0: False, 2: True}), (2, {1: False, 2: False})]
)
def test_direction_gives_the_colour_and_the_side_of_the_page(tmp_path, axis, across):
    """By the panels that show an axis: whether it lies across the page there."""
    mask, affine = ball()
    draw(*bundle_along(axis), tmp_path / "a.png", mask=mask, affine=affine)
    views = panels(pixels(tmp_path / "a.png"))
    for view, is_across in across.items():
        inside = dominated(views[view], axis)
        assert inside.sum() > 2000
        for other in {0, 1, 2} - {axis}:
            assert dominated(views[view], other).sum() == 0
        rows, columns = np.nonzero(inside)
        assert (np.ptp(columns) > np.ptp(rows)) == is_across


def test_left_is_left(tmp_path):
    points, offsets = bundle_along(1)
    mask, affine = ball()
    draw(points - np.float32([25, 0, 0]), offsets, tmp_path / "a.png", mask=mask, affine=affine)
    view = panels(pixels(tmp_path / "a.png"))[0]
    assert np.nonzero(dominated(view, 1))[1].mean() < 0.45 * view.shape[1]


def outlined(image):
    """Pixels of the outline's own grey; the letters are lighter."""
    return (np.abs(image - np.float32([0xB9, 0xB9, 0xC4]) / 255).max(axis=-1) < 0.04).sum()


def test_the_outline_is_drawn(tmp_path):
    mask, affine = ball()
    points, offsets = bundle_along(0, n=1, length=2)
    draw(points, offsets, tmp_path / "with.png", mask=mask, affine=affine)
    draw(points, offsets, tmp_path / "without.png")
    with_mask, without = (panels(pixels(tmp_path / f"{name}.png")) for name in ("with", "without"))
    for a, b in zip(with_mask, without, strict=True):
        assert outlined(a) > 300 > 5 * outlined(b)


def test_letters_stand_at_the_sides(tmp_path, monkeypatch):
    """They are all that differs from a picture whose letters are blanks."""
    points, offsets = bundle_along(0, n=1, length=2)
    draw(points, offsets, tmp_path / "with.png")
    monkeypatch.setattr(picture, "LETTERS", ("  ", "  ", "  "))
    draw(points, offsets, tmp_path / "without.png")
    letters = (pixels(tmp_path / "with.png") != pixels(tmp_path / "without.png")).any(axis=-1)
    for view in np.array_split(letters, 3, axis=1):
        rows, columns = np.nonzero(view)
        assert np.ptp(rows) > 0.6 * view.shape[0]
        assert np.ptp(columns) > 0.4 * view.shape[1]
        assert view.mean() < 0.05


def test_nothing_to_draw_is_still_a_picture(tmp_path):
    draw(np.empty((0, 3), np.float32), np.zeros(1, np.int64), tmp_path / "empty.png", title="none")
    assert pixels(tmp_path / "empty.png").std() > 0


def test_the_choice_is_even_and_ends_are_kept():
    points, offsets = bundle_along(0, n=1000, length=200)
    segments, owner = _segments(points, offsets, 700)
    assert owner.max() == 699
    assert len(segments) <= 91_000
    chosen = np.arange(700) * 1000 // 700
    last = np.flatnonzero(np.diff(owner, append=700))
    assert np.array_equal(segments[last, 1], points[offsets[chosen + 1] - 1])
    assert np.array_equal(segments[np.append(0, last[:-1] + 1), 0], points[offsets[chosen]])


def test_the_same_input_gives_the_same_file(tmp_path):
    for name in ("a", "b"):
        draw(*bundle_along(2), tmp_path / f"{name}.png", title="same", max_streamlines=7)
    assert (tmp_path / "a.png").read_bytes() == (tmp_path / "b.png").read_bytes()
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png"}
