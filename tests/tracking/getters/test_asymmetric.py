"""Opposite directions kept apart, as cuslines does on a whole sphere, and the greatest turn of a step of its ptt."""

from math import radians

import numpy as np
import pytest
from dipy.core.sphere import HemiSphere, disperse_charges
from lobes import CENTRE, HALF, IMAGE, SHAPE, WHOLE, field, lobe

import tistreamlines as ts
from tistreamlines.cuslines import tracker as drop_in
from tistreamlines.cuslines.arrays import is_symmetric


def tracked(dg, dataf, sphere=WHOLE, seeds=200, **options):
    stop = np.ones(SHAPE, np.float32)
    options = {"max_angle": radians(30), "step_size": 0.2, "arch": "cpu"} | options
    tracker = drop_in.Tracker(dg, dataf, stop, 0.5, sphere.vertices, sphere.edges, **options)
    sft = tracker.generate_sft(np.tile(CENTRE, (seeds, 1)), IMAGE)
    return [np.asarray(line) for line in sft.streamlines], sft.data_per_streamline["seeds"]


def forward(lines, seeds):
    """Whether lines begin at their seeds and lead on along +x alone."""
    started = all(np.allclose(line[0], seed, atol=1e-4) for line, seed in zip(lines, seeds, strict=True))
    return len(lines) > 0 and started and all((np.diff(line[:, 0]) > 0).all() for line in lines)


class TestSymmetry:
    def test_half_a_sphere_is_symmetric_whatever_the_flag(self):
        assert is_symmetric(HALF.vertices, False)
        assert is_symmetric(HALF.vertices, True)
        assert is_symmetric(HALF.vertices @ np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0], False)

    def test_the_flag_decides_on_a_whole_one(self):
        assert not is_symmetric(WHOLE.vertices, False)
        assert is_symmetric(WHOLE.vertices, True)
        assert is_symmetric(WHOLE.vertices, False, asymmetric=False)

    def test_contradictions(self):
        start = HemiSphere(xyz=np.random.default_rng(0).normal(size=(40, 3)))
        alone = np.concatenate([disperse_charges(start, 5)[0].vertices, -start.vertices])
        for vertices, flag, asymmetric, words in (
            (HALF.vertices, False, True, "half a sphere"),
            (WHOLE.vertices, True, True, "give only one of them"),
            (alone, True, None, "80 of the 80 sphere_vertices have no opposite"),
        ):
            with pytest.raises(ts.ParameterError, match=words):
                is_symmetric(vertices, flag, asymmetric)
        assert not is_symmetric(alone, False)


class TestProb:
    def test_no_step_of_no_probability(self):
        assert forward(*tracked(drop_in.ProbDirectionGetter(), field()))

    @pytest.mark.parametrize(("sphere", "flag", "symmetric"), [(WHOLE, False, 0), (WHOLE, True, 1), (HALF, False, 1)])
    def test_the_kernels_are_told(self, sphere, flag, symmetric):
        for dg in (drop_in.ProbDirectionGetter(), drop_in.PttDirectionGetter()):
            tracker = drop_in.Tracker(
                dg, field(sphere.vertices), np.ones(SHAPE), 0.5, sphere.vertices, sphere.edges, flag, arch="cpu"
            )
            assert tracker._tables(CENTRE[None], ts.Space(IMAGE.affine, SHAPE)).getter.symmetric == symmetric

    def test_an_even_basis_is_symmetric_and_a_full_one_is_not(self):
        assert drop_in.ProbDirectionGetter(sh_basis="descoteaux07")._is_symmetric(WHOLE.vertices, False)
        full = drop_in.ProbDirectionGetter(sh_basis="descoteaux07_full")
        assert not full._is_symmetric(WHOLE.vertices, False)
        with pytest.raises(ts.ParameterError, match="half a sphere"):
            full._is_symmetric(HALF.vertices, False)


class TestPtt:
    @pytest.mark.nightly
    def test_probes_look_ahead_only(self):
        """At 30 degrees a probe of cuslines' length, two voxels, turns around and finds the fibres behind it."""
        assert forward(*tracked(drop_in.PttDirectionGetter(), field(), max_angle=radians(10)))

    def test_every_turn_is_within_cuslines_curvature(self):
        """8 sin(angle / 2) a voxel: 23.7 degrees over steps of 0.5 mm in voxels of 2.5 mm, at pyAFQ's 30 degrees."""
        axes = np.random.default_rng(0).normal(size=(np.prod(SHAPE), 3))
        axes /= np.linalg.norm(axes, axis=1, keepdims=True)
        mess = np.stack([lobe(WHOLE.vertices, axis, 0.3) + 0.2 for axis in axes]).reshape(*SHAPE, -1)
        lines, _ = tracked(drop_in.PttDirectionGetter(), mess, max_steps=60)
        allowed = np.degrees(8 * np.sin(radians(15)) * 0.2)
        turns = []
        for line in lines:
            steps = np.diff(line.astype(float), axis=0)
            lengths = np.linalg.norm(steps, axis=1)
            assert lengths.max() <= 0.5 * (1 + 1e-4)  # so that no streamline is longer than its steps
            cosines = (steps[1:] * steps[:-1]).sum(axis=1) / (lengths[1:] * lengths[:-1])
            turns.append(np.degrees(np.arccos(np.clip(cosines, -1, 1))))
        turns = np.concatenate(turns)
        assert len(turns) > 3000
        assert 0.9 * allowed < turns.max() <= allowed + 0.05
