"""Streamlines of this package beside those of DIPY, on the phantom."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dipy.core.gradients import gradient_table
from dipy.data import default_sphere
from dipy.reconst.shm import CsaOdfModel

from tistreamlines import dipy as ours

TURN = np.array([[0.8, -0.6, 0.0], [0.6, 0.8, 0.0], [0.0, 0.0, 1.0]])


class Case:
    """The phantom's white matter in a rotated space with voxels of 3, 4 and 5 mm, and options for coarse steps."""

    def __init__(self, phantom: Any) -> None:
        gtab = gradient_table(phantom.bvals, bvecs=phantom.bvecs)
        self.data, self.model = phantom.data, CsaOdfModel(gtab, sh_order_max=4)
        self.sh = np.nan_to_num(self.model.fit(phantom.data, mask=phantom.mask).shm_coeff) * phantom.mask[..., None]
        self.white = np.minimum(np.sum([bundle.membership for bundle in phantom.bundles], axis=0), 1.0) * phantom.mask
        rest, left = phantom.mask - self.white, np.arange(len(self.white))[:, None, None] < len(self.white) // 2
        self.tissues = self.white, rest * left, rest * ~left
        self.affine = np.eye(4)
        self.affine[:3] = np.column_stack([TURN * [3.0, 4.0, 5.0], [-7.0, 11.0, 20.0]])
        rng, voxels = np.random.default_rng(4), np.argwhere(self.white > 0.5)
        self.voxels = voxels[rng.integers(len(voxels), size=1000)] + rng.uniform(-0.4, 0.4, (1000, 3))
        self.seeds = self.seeds_in(self.affine)
        self.common = {"sh": self.sh, "sphere": default_sphere, "step_size": 2.0, "max_angle": 35,
                       "random_seed": 1_000_007}

    def seeds_in(self, affine: np.ndarray) -> np.ndarray:
        """The seeds in the space of an affine."""
        return self.voxels @ affine[:3, :3].T + affine[:3, 3]

    @property
    def sc(self) -> Any:
        return ours.ThresholdStoppingCriterion(self.white, 0.4)

    def lines(self, name: str, module: Any = ours, **options: Any) -> list[Any]:
        """All streamlines of a function, those of a single point left out."""
        options = {"sc": self.sc, "seeds": self.seeds, "affine": self.affine} | self.common | options
        if module is ours:
            options = {"arch": "cpu"} | options
        seeds, sc, affine = (options.pop(key) for key in ("seeds", "sc", "affine"))
        grown = getattr(module, name)(seeds, sc, affine, **options)
        return [line for line in grown if len(line[0] if options.get("save_seeds") else line) > 1]


def agree(lines, dipys, errors=3.0, share=0.03):
    """As many streamlines, as long and at the same place, within the spread of random draws."""
    assert len(lines) == pytest.approx(len(dipys), rel=share)
    assert len(dipys) > 300
    steps = [np.array([len(line) for line in tractogram], float) for tractogram in (lines, dipys)]
    middles = [np.array([line.mean(axis=0) for line in tractogram]) for tractogram in (lines, dipys)]
    for a, b in (steps, middles):
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < errors * error).all()


def same(lines, dipys):
    """Nearly all streamlines are the same: float32 and float64 part where two directions are nearly equal.

    On a whole sphere, a streamline may begin with either of two opposite vertices, and so be turned round.
    """
    assert len(lines) == len(dipys) > 150
    pairs = zip(lines, dipys, strict=True)
    close = [len(a) == len(b) and any(np.allclose(a, c, atol=2e-3) for c in (b, b[::-1])) for a, b in pairs]
    assert np.mean(close) > 0.97


def identical(lines, others):
    return len(lines) == len(others) and all(np.array_equal(a, b) for a, b in zip(lines, others, strict=True))
