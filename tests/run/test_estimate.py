"""Estimates of runs: what a pilot tells is near to what the whole run gives, and nothing is written."""

import re

import numpy as np
import pytest
from small_runs import write_inputs

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError
from tistreamlines.run.estimate import Pilot, _spread_over
from tistreamlines.tracking.seeding.files import PointSeeds
from tistreamlines.tracking.seeding.more_seeds import GridSeeds, SeedsPerVoxel
from tistreamlines.tracking.seeding.seeds import Draw

MANY = 20_000
SUFFIXES = (".trx", ".trk", ".tck")


@pytest.fixture(scope="module")
def options(head):
    """Arguments of the runs."""
    return head.options


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """A run of many seeds, and its tractogram."""
    return ts.track(output=tmp_path_factory.mktemp("whole") / "a.trx", nseeds=MANY, **options)


@pytest.fixture
def shorter(monkeypatch):
    """Pilots of 2,000 seeds, also where they take no second."""
    monkeypatch.setattr("tistreamlines.run.estimate.ENOUGH_SECONDS", 0.0)


class TestRuns:
    def test_a_pilot_tells_what_a_run_gives(self, options, whole, shorter, tmp_path):
        estimate = ts.estimate(output=tmp_path / "a.trx", nseeds=MANY, **options)
        assert (estimate.seeds, estimate.pilot_seeds) == (MANY, 2000)
        assert estimate.streamlines == pytest.approx(whole.n_streamlines, rel=0.05)
        assert estimate.points == pytest.approx(whole.points, rel=0.05)
        assert estimate.file_bytes == {".trx": pytest.approx(whole.path.stat().st_size, rel=0.05)}
        assert 0 < estimate.spread["streamlines"] < estimate.spread["points"] < 0.1
        assert abs(estimate.points / whole.points - 1) < 1.5 * estimate.spread["points"]
        assert estimate.device_bytes > 1e5
        assert estimate.process_bytes > 1e8
        assert estimate.track_seconds == pytest.approx(MANY * estimate.pilot_seconds / 2000)
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("suffix", SUFFIXES)
    def test_all_seeds_of_a_short_run_are_tracked(self, options, suffix, tmp_path):
        estimate = ts.estimate(nseeds=700, **options)
        done = ts.track(output=tmp_path / f"a{suffix}", nseeds=700, **options)
        assert (estimate.seeds, estimate.streamlines, estimate.points) == (700, done.n_streamlines, done.points)
        assert set(estimate.spread.values()) == {0.0}
        assert done.path.stat().st_size - estimate.file_bytes[suffix] in range(3000)  # headers
        assert set(estimate.file_bytes) == {*SUFFIXES, ".npz"}

    def test_of_a_run_on_a_gpu_that_can_go_on(self, tmp_path):
        """The run itself would track in another process."""
        try:
            choose("vulkan")
        except DeviceError as error:
            pytest.skip(str(error))
        (tmp_path / "out").mkdir()
        options = write_inputs(tmp_path)
        chosen = options | {"arch": "vulkan", "resume": True, "output": tmp_path / "out" / "a.trx"}
        assert ts.estimate(**chosen).streamlines == ts.track(**options).n_streamlines
        assert not list((tmp_path / "out").iterdir())

    def test_seeds_in_a_grid_are_spread(self, options, head, shorter):
        mask = head.phantom.mask & (np.indices(head.phantom.mask.shape)[2] % 4 == 0)
        grid = {"seed_grid": 2, "seed_mask": mask.astype(np.uint8), "max_angle": 30}
        done = ts.track(**grid, **options)
        estimate = ts.estimate(**grid, **options)
        assert estimate.pilot_seeds == 2000 < estimate.seeds / 5
        assert estimate.seeds == done.seeds
        assert estimate.points == pytest.approx(done.points, rel=2 * estimate.spread["points"])
        assert estimate.points == pytest.approx(done.points, rel=0.1)

    def test_a_part_has_its_share(self, options, shorter):
        estimate = ts.estimate(nseeds=3 * MANY, part="2/3", **options)
        assert estimate.seeds == MANY

    def test_a_selection_tells_the_seeds_that_it_needs(self, options, shorter):
        chosen = {"select": 5000, "min_length": 60}
        estimate, done = ts.estimate(**chosen, **options), ts.track(**chosen, **options)
        assert estimate.streamlines == done.n_streamlines == 5000
        assert estimate.seeds == pytest.approx(done.seeds, rel=0.1)
        assert estimate.points == pytest.approx(done.points, rel=0.05)
        assert estimate.spread["streamlines"] == 0 < estimate.spread["seeds"]

    def test_a_selection_that_is_out_of_reach(self, options):
        estimate = ts.estimate(select=5000, max_seeds=1000, **options)
        assert estimate.seeds == 1000
        assert estimate.streamlines < 5000

    def test_a_time_limit_ends_the_run(self, options, shorter):
        estimate = ts.estimate(nseeds=10**9, time_limit=10, **options)
        assert estimate.seeds < 10**8
        assert estimate.track_seconds == pytest.approx(10, rel=0.01)

    def test_no_streamline(self, options, shorter, monkeypatch):
        monkeypatch.setattr("tistreamlines.run.estimate.PATIENCE", 0.0)
        estimate = ts.estimate(nseeds=MANY, min_length=900, **options)
        assert estimate.streamlines == estimate.points == 0
        assert estimate.table()["streamlines"] == "none in the pilot, so less than one in 666 seeds"


class TestCommand:
    def test_it_prints_a_table_and_writes_nothing(self, track, tmp_path):
        done = track(tmp_path / "a.tck", "--dry-run")
        assert (done.code, done.err) == (0, "")
        rows = dict(re.findall(r"^(.{24})(.*)$", done.out, re.MULTILINE))
        assert {name.strip() for name in rows} == {
            "device", "seeds", "streamlines", "points", ".tck file", "memory of the process", "memory on the device",
            "reading and preparing", "tracking", "pilot", "direction getter", "numbers per voxel", "stopping rule",
            "image", "steps", "other files",
        }
        assert not list(tmp_path.iterdir())

    def test_it_prints_what_is_compiled_recorded_and_compared(self, options, track, tmp_path):
        """With tables from the cache as well, for which no kernel is compiled from headers."""
        named = ("--dg", "prob", "--sh-order", 4, "--min-length", 20, "--density", tmp_path / "a.nii.gz")
        cached = [*named, "--cache-dir", options["cache_dir"], "--nseeds", 50, "--dry-run"]
        first, second = (track(tmp_path / "a.tck", *cached) for _ in range(2))
        space = ts.track(**options, dg="prob", sh_order=4, nseeds=1).space
        sides, step = space.voxel_sizes, 0.5 * space.voxel_sizes.min()
        expected = {
            "direction getter": "prob, follows the series, csd of order 4", "numbers per voxel": "15 (sh)",
            "stopping rule": "threshold", "other files": "--density",
            "image": f"{' x '.join(map(str, space.shape))} voxels of {' x '.join(f'{side:.4g}' for side in sides)} mm",
            "steps": f"{step:.4g} mm; {int(np.ceil(20 / step - 1e-6)):,} to 1,000 in a streamline",
        }
        for done in (first, second):
            assert done.code == 0, done.err
            rows = dict(re.findall(r"^(.{24})(.*)$", done.out, re.MULTILINE))
            assert {name: rows[f"{name:24}"] for name in expected} == expected
        assert not list(tmp_path.iterdir())

    def test_it_needs_no_output_but_checks_one(self, run, track, head, tmp_path):
        common = ("track", *head.series, "--mask", head.mask, "--arch", "cpu", "--nseeds", 50)
        assert ".trk file" in run(*common, "--dry-run").out
        assert run(*common).code == 2
        (tmp_path / "a.trx").touch()
        assert "--force" in track(tmp_path / "a.trx", "--dry-run").err


class TestPilots:
    def test_numbers_are_spread_over_a_range(self):
        numbers = _spread_over(range(100, 2**32), 1000)
        assert (np.diff(numbers) > 0).all()
        assert np.array_equal((numbers - 100) * 1000 // (2**32 - 100), np.arange(1000))
        assert np.array_equal(_spread_over(range(5, 9), 4), [5, 6, 7, 8])

    def test_samples_are_the_seeds_of_their_numbers(self):
        voxels = np.argwhere(np.ones((3, 4, 5))).astype(np.int32)
        numbers = np.sort(np.random.default_rng(1).choice(480, 40, replace=False))
        grid, listed = GridSeeds(voxels, 2), PointSeeds(np.arange(1440.0).reshape(-1, 3), np.ones((480, 3)))
        for seeds in (grid, listed):
            assert np.array_equal(seeds.sample(numbers)[0], seeds.points(0, 480)[numbers])
        assert np.array_equal(listed.sample(numbers)[1], listed.along[numbers])
        each = SeedsPerVoxel(voxels, 8, Draw(0, 1))
        assert np.array_equal(np.rint(each.sample(numbers)[0]), voxels[numbers % len(voxels)])

    def test_spreads_are_those_of_repeated_pilots(self):
        rng = np.random.default_rng(2)
        every = rng.poisson(1.3, 20_000), rng.exponential(50, 20_000)
        pilots = [
            Pilot(1.0, every[0][seeds], (every[0] * every[1])[seeds])
            for seeds in (rng.choice(20_000, 500, replace=False) for _ in range(400))
        ]
        sums = np.array([pilot.streamlines.mean() for pilot in pilots])
        spread = np.mean([pilot.spread(pilot.streamlines, 20_000) for pilot in pilots])
        assert spread == pytest.approx(2 * sums.std() / sums.mean(), rel=0.1)
        means = np.array([pilot.points.sum() / pilot.streamlines.sum() for pilot in pilots])
        spread = np.mean([pilot.spread_per_streamline() for pilot in pilots])
        assert spread == pytest.approx(2 * means.std() / means.mean(), rel=0.1)
