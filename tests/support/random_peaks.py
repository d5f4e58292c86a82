"""Peaks and directions at random."""

import numpy as np

SHAPE = (3, 4, 5)


def random_directions(count, seed=1):
    vectors = np.random.default_rng(seed).normal(size=(count, 3))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)


def some_peaks(count=3):
    """Peaks of random lengths, the last one of each second voxel absent: (x, y, z, count, 3)."""
    peaks = random_directions(np.prod(SHAPE) * count).reshape(*SHAPE, count, 3)
    peaks = peaks * np.random.default_rng(2).uniform(0.1, 2, (*SHAPE, count, 1))
    peaks[::2, ..., -1, :] = 0
    return peaks
