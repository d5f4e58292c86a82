"""What tests of regions share: runs on the head, and regions that a good part of its streamlines visit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from region_runs import whole

import tistreamlines as ts


@pytest.fixture(scope="module")
def tracked(head, tmp_path_factory):
    """Track the head: ``tracked(**options)``; fits are kept from call to call."""
    cache = tmp_path_factory.mktemp("cache")

    def call(**options: Any) -> ts.TrackResult:
        seeds = {} if {"nseeds", "select", "seeds"} & options.keys() else {"nseeds": 500}
        known = {"mask": head.mask, "dg": "prob", "arch": "cpu", "cache_dir": cache, "min_length": 0}
        return ts.track(*head.series, **known | seeds | options)

    return call


# spheres of the head (RASmm), which a good part of its streamlines visit
@pytest.fixture(scope="module")
def spots(tracked) -> list[list[float]]:
    points = whole(tracked()).points
    middle = points.mean(axis=0)
    return [[*map(float, middle + shift), 20.0] for shift in ([0, 0, 0], [0, 0, 30], [0, -30, 0], [30, 0, 0])]


@pytest.fixture(scope="module")
def mask_on_another_grid(head, spots, tmp_path_factory) -> Path:
    """A ball on a turned grid of 3 mm."""
    turn = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])
    affine = np.eye(4)
    affine[:3, :3] = 3.0 * turn
    affine[:3, 3] = np.array(spots[0][:3]) - affine[:3, :3] @ [20, 20, 20]
    ball = np.linalg.norm(np.indices((41, 41, 41)) - 20, axis=0) <= 6
    path = tmp_path_factory.mktemp("regions") / "ball.nii.gz"
    nib.save(nib.Nifti1Image(ball.astype(np.uint8), affine), path)
    return path
