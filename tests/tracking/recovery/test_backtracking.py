"""Backtracking: how far a half goes back, against MRtrix3's rule, and what comes of it."""

import nibabel as nib
import numpy as np
import pytest
from dialects import DIALECTS, ints
from dialects import run as run_kernel
from head import make_head, make_maze, tracked

import tistreamlines as ts
from tistreamlines.errors import ParameterError, TrackingError
from tistreamlines.kernels.halves import Halves
from tistreamlines.kernels.recovery import backtracking
from tistreamlines.kernels.recovery.backtracking import KEPT, plan_return
from tistreamlines.kernels.stop_reasons import VALID
from tistreamlines.linker.lang import Ints, func, i32

ENDS = 60  # failures of a half


@func
def plans(item: i32, taken: Ints, kept: Ints, halves: Halves):
    """One failure after the other of half ``item``."""
    for k in range(ENDS):
        kept[item * ENDS + k] = plan_return(item, taken[item * ENDS + k], halves)


class Tckgen:
    """What ``gen_track_unidir`` and ``truncate_track`` keep of a track that has the seed alone before."""

    def __init__(self, samples: int) -> None:
        self.samples, self.longest, self.step, self.count = samples, 1, 1, 0

    def kept(self, points: int) -> int:
        """Points that are left of so many; 0 if it is given up."""
        if points > self.longest:
            self.longest, self.step, self.count = points, 1, 1
        elif self.count == 3:
            self.step, self.count = self.step + 1, 1
        else:
            self.count += 1
        if self.samples == 1:
            return 0 if self.step >= self.longest else self.longest - self.step
        removed = (self.longest % self.samples or self.samples) + (self.step - 1) * self.samples
        return 0 if removed >= points else self.longest - removed


@pytest.mark.parametrize("samples", [1, 3, 4])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_half_goes_back_as_tckgens(dialect, samples):
    """The seed of MRtrix3's track has the index 0, so that points are steps and the seed."""
    rng, halves = np.random.default_rng(2), 40
    taken = np.zeros((halves, ENDS), np.int32)
    expected = np.full((halves, ENDS), -1)
    for half in range(halves):
        theirs, steps = Tckgen(samples), int(rng.integers(0, 90))
        for k in range(ENDS):
            taken[half, k] = steps
            points = theirs.kept(steps + 1)
            expected[half, k] = points - 1
            if not points:
                break
            steps = points - 1 + int(rng.integers(0, 4)) + int(30 * (rng.uniform() < 0.05))
    point = 3 + KEPT
    kept = run_kernel(
        dialect, plans, halves,
        {"taken": taken.ravel(), "kept": ints(taken.size), "halves_point": np.zeros(halves * point)},
        {"arc": samples, "point": point, "carried": 0, "for_rule": 0},
    )["kept"].reshape(expected.shape)
    over = np.cumsum(expected == -1, axis=1) > 0
    np.testing.assert_array_equal(np.where(over, -1, kept), expected)
    assert (kept[over & (np.cumsum(over, axis=1) == 1)] == -1).all()


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """See the module of this name."""
    return make_head(tmp_path_factory.mktemp("backtrack"))


@pytest.mark.parametrize("dg", ["ifod2", "ptt"])
def test_more_streamlines_end_validly(head, dg):
    """Those that ended validly without it are the same, since they draw the same numbers."""
    runs = (tracked(head, backtrack=value, dg=dg, nseeds=200) for value in (False, True))
    plain, better = (ts.Batch.concatenate(list(run.batches)) for run in runs)
    assert set(better.stop_reasons.ravel().tolist()) <= {int(reason) for reason in VALID}
    before, after = (
        {(seed, line.tobytes()) for seed, line in zip(batch.seed_number, batch, strict=True)}
        for batch in (plain, better)
    )
    assert before < after


def test_from_where_steps_are_followed_again_makes_no_difference(tmp_path, monkeypatch):
    """In a maze, halves go back below the point that is kept in team memory, and pass it again on another way."""
    maze, batches = make_maze(tmp_path), []
    for steps in (backtracking.STEPS_BEFORE, 4):
        monkeypatch.setattr(backtracking, "STEPS_BEFORE", steps)
        run = tracked(
            maze, dg="prob", max_steps=300, nseeds=400, backtrack=True, crop_at_gmwmi=True, keep="all", min_length=0,
        )
        assert run.stop_reasons["entered_cortex"] > 50 and run.stop_reasons["invalid_end"] > 50
        batches.append(ts.Batch.concatenate(list(run.batches)))
    np.testing.assert_array_equal(batches[0].points, batches[1].points)


@pytest.mark.parametrize("dg", ["ifod2", "ptt"])
def test_what_counts_on_the_device_is_where_the_points_are(head, tmp_path, dg):
    """Products repeat the steps on the device, the host does so to lay points out."""
    tracked(
        head, output=tmp_path / "t.trx", density=tmp_path / "a.nii.gz", ends=tmp_path / "ends.nii.gz", downsample=1,
        dg=dg, nseeds=100, backtrack=True, crop_at_gmwmi=True,
    )
    ts.map_tractogram(tmp_path / "t.trx", density=tmp_path / "b.nii.gz", ends=tmp_path / "ends-b.nii.gz")
    for a, b in (("a", "b"), ("ends", "ends-b")):
        assert (tmp_path / f"{a}.nii.gz").read_bytes() == (tmp_path / f"{b}.nii.gz").read_bytes()


@pytest.mark.nightly
def test_where_a_half_that_has_gone_back_enters_a_region(head, tmp_path):
    """Its points are known when it has ended: the first one in the region is not the last one of the half."""
    options = {"dg": "ifod2", "nseeds": 200, "backtrack": True, "crop_at_gmwmi": True, "keep": "all", "min_length": 0,
               "downsample": 1}
    plain = tracked(head, **options)
    lines = ts.Batch.concatenate(list(plain.batches))
    ball = [*map(float, np.median(lines.points, axis=0)), 12.0]
    result = tracked(head, **options, exclude=[ball], rejected=tmp_path / "a.nii")
    expected, inner = np.zeros(plain.space.shape), 0
    for line, seed in zip(lines, lines.seeds, strict=True):
        begin = int(np.linalg.norm(line - seed, axis=1).argmin())
        way = line[[*range(begin, len(line)), *range(begin, -1, -1)]]
        inside = np.linalg.norm(way - ball[:3], axis=1) <= ball[3]
        if inside.any():
            inner += not inside[len(line) - begin - 1]
            place = nib.affines.apply_affine(np.linalg.inv(plain.space.affine), way[inside.argmax()])
            expected[tuple(np.rint(place).astype(int))] += 1
    np.testing.assert_array_equal(result.products["rejected"][..., 0], expected)
    assert 20 < inner < result.dropped["excluded"] == expected.sum() < len(lines)


@pytest.mark.parametrize("stopping", ["act", "cmc"])
def test_with_the_rules_of_dipy(head, stopping):
    """Fewer streamlines are lost to fluid, and both halves of those that are kept end validly."""
    tissues = nib.load(head / "5tt.nii.gz")
    values = tissues.get_fdata(dtype=np.float32)
    maps = {name: nib.Nifti1Image(values[..., k], tissues.affine)
            for name, k in (("include_map", 0), ("exclude_map", 3))}
    plain, better = (
        tracked(head, act=None, stopping=stopping, dg="prob", keep="valid-ends", backtrack=value, nseeds=300, **maps)
        for value in (False, True)
    )
    assert better.dropped["invalid_ends"] < plain.dropped["invalid_ends"] and better.n_streamlines > plain.n_streamlines


@pytest.mark.parametrize("dg", ["det", "sd_stream"])
def test_what_draws_no_step_has_no_other_way(head, dg):
    with pytest.raises(ParameterError, match="draw no random numbers"):
        tracked(head, dg=dg, backtrack=True)


def test_particles_are_another_way(head):
    with pytest.raises((ParameterError, TrackingError), match="exclude each other"):
        tracked(head, act=None, stopping="act", backtrack=True, pft=True)

