"""Vertices within an angle of each direction, and patches of vertices."""

import numpy as np
import pytest

from tistreamlines.space.cones import (
    ascending,
    cone_lists,
    cone_lists_by_patches,
    cones,
    divide_sphere,
    members,
    patches_touched,
)
from tistreamlines.space.sphere import load_sphere

SPHERES = [("default", True), ("full", False), ("small", True)]


@pytest.mark.parametrize(("sphere", "symmetric"), SPHERES)
@pytest.mark.parametrize("angle", [5.0, 20.0, 61.0, 90.0])
def test_a_cone_has_the_vertices_within_the_angle(sphere, symmetric, angle):
    vertices, cosine = load_sphere(sphere)[0], np.cos(np.radians(angle))
    inside = cones(vertices, cosine, symmetric=symmetric, closed=True)
    headings = vertices if symmetric else np.stack([vertices, -vertices], axis=1).reshape(-1, 3)
    cosines = headings @ vertices.T
    cosines = np.abs(cosines) if symmetric else cosines
    clear = np.abs(cosines - cosine) > 1e-6
    np.testing.assert_array_equal(inside[clear], (cosines > cosine)[clear])
    for numbers, used in (cone_lists(inside), cone_lists_by_patches(inside, divide_sphere(vertices), 3)):
        assert numbers.dtype == used.dtype == np.int32
        assert numbers.shape == (*used.shape, 32) and len(used) == len(headings)
        assert (numbers[used < 0] < 0).all()
        assert np.maximum(numbers, ~numbers).max() < 32 * -(-len(vertices) // 32)
        for cone, within in zip(numbers.reshape(len(used), -1), inside, strict=True):
            assert sorted(cone[cone >= 0]) == list(np.flatnonzero(within))


def test_a_chunk_lies_in_the_patch_that_it_names():
    vertices = load_sphere("full")[0]
    chunks = divide_sphere(vertices).reshape(-1, 32)
    numbers, used = cone_lists_by_patches(cones(vertices, 0.9, symmetric=False, closed=True), chunks.ravel(), 2)
    assert used.shape[1] % 2 == 0 and (used[:, ::2] >= 0).sum() == (used[:, 1::2] >= 0).sum()
    named = np.where(used[..., None] >= 0, np.maximum(chunks, ~chunks)[np.maximum(used, 0)], -1)
    np.testing.assert_array_equal(np.where(used[..., None] >= 0, np.maximum(numbers, ~numbers), -1), named)


@pytest.mark.parametrize(("sphere", "symmetric"), SPHERES)
def test_each_bit_is_a_patch_with_vertices_in_the_cone(sphere, symmetric):
    vertices = load_sphere(sphere)[0]
    order = divide_sphere(vertices)
    inside = cones(vertices, np.cos(np.radians(30)), symmetric=symmetric, closed=False)
    patches = patches_touched(inside, order)
    assert patches.dtype == np.int32
    for bits, within in zip(patches, inside, strict=True):
        expected = {int(np.flatnonzero(order == vertex)[0]) // 32 for vertex in np.flatnonzero(within)}
        assert {patch for patch in range(32) if int(bits) >> patch & 1} == expected


@pytest.mark.parametrize(("sphere", "symmetric"), SPHERES)
def test_each_bit_is_a_vertex_of_the_patch_in_the_cone(sphere, symmetric):
    vertices = load_sphere(sphere)[0]
    order = ascending(divide_sphere(vertices)).reshape(-1, 32)
    inside = cones(vertices, np.cos(np.radians(40)), symmetric=symmetric, closed=False)
    words = members(inside, order.ravel())
    assert words.dtype == np.int32 and words.shape == (len(inside), len(order))
    for word_row, row in zip(words.view(np.uint32), inside, strict=True):
        vertices_of = [order[patch, k] for patch, word in enumerate(word_row) for k in range(32) if int(word) >> k & 1]
        assert sorted(vertices_of) == list(np.flatnonzero(row))


@pytest.mark.parametrize("sphere", [name for name, _ in SPHERES])
def test_vertices_of_a_patch_ascend(sphere):
    order = divide_sphere(load_sphere(sphere)[0]).reshape(-1, 32)
    sorted_ = ascending(order.ravel()).reshape(-1, 32)
    real = np.maximum(sorted_, ~sorted_)
    assert (np.diff(real, axis=1) > 0).all()
    for before, after in zip(order, sorted_, strict=True):
        assert set(before) == set(after)


def test_the_last_of_32_patches_has_the_highest_bit():
    assert patches_touched(np.ones((2, 1024), bool), np.arange(1024)).tolist() == [-1, -1]


def test_a_vertex_at_just_the_greatest_angle_is_in_a_closed_cone_alone():
    points = load_sphere("default")[0].astype(np.float32)
    a, b = points[20], points[31]
    edge = abs((a[0] * b[0] + a[1] * b[1]) + a[2] * b[2])
    for closed in (True, False):
        assert cones(points, edge, symmetric=True, closed=closed)[20, 31] == closed


def test_a_cone_without_a_vertex_has_no_chunk():
    vertices = load_sphere("default")[0]
    nothing = cones(vertices, 1.01, symmetric=True, closed=False)
    for numbers, used in (cone_lists(nothing), cone_lists_by_patches(nothing, divide_sphere(vertices), 1)):
        assert (numbers < 0).all() and (used == -1).all() and used.shape == (362, 1)


@pytest.mark.parametrize(("sphere", "symmetric"), SPHERES)
def test_patches_are_compact(sphere, symmetric):
    """A cone of 20 degrees touches few of them."""
    vertices = load_sphere(sphere)[0]
    numbers = divide_sphere(vertices)
    assert len(numbers) % 32 == 0 and set(np.maximum(numbers, ~numbers)) == set(range(len(numbers)))
    assert (numbers >= 0).sum() == len(vertices) and (numbers[: len(vertices)] >= 0).all()
    cone = cones(vertices, np.cos(np.radians(20)), symmetric=symmetric, closed=True)
    _, used = cone_lists_by_patches(cone, numbers, 1)
    assert (used >= 0).sum(axis=1).mean() < 3
