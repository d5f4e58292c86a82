"""Tracking from files, in Python: seeds, cache, batches, the writer's thread."""

import dataclasses
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from linked import contents
from plans import plan_of

import tistreamlines as ts
from tistreamlines.io import cache as caching
from tistreamlines.io import nifti
from tistreamlines.io.cache import Cache
from tistreamlines.io.writer import SINKS, WriterThread
from tistreamlines.run import ends
from tistreamlines.run.ends import Counts
from tistreamlines.space.batch import Batch, Space
from tistreamlines.tracking.seeding.files import seeds_in_file
from tistreamlines.tracking.seeding.seeds import Draw, RandomSeeds

AFFINE = np.diag([2.0, 2, 3, 1])


def batch_of(*lengths):
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(int)
    n = len(lengths)
    zeros = np.zeros((n, 3)), np.arange(n), np.zeros(n), np.ones((n, 2))
    return Batch(np.random.default_rng(0).random((offsets[-1], 3)), offsets, *zeros)


@pytest.fixture(scope="module")
def settings(head):
    return {"mask": head.mask, "arch": "cpu", "nseeds": 300, "cache_dir": head.cache}


class TestTrack:
    def test_batches_are_what_the_file_holds(self, head, settings, tmp_path):
        from trx import trx_file_memmap

        result = ts.track(*head.series, tmp_path / "a.trx", **settings)
        batches = list(ts.stream(*head.series, **settings, chunk_size=64))
        assert len(batches) == 5
        assert result.n_streamlines == sum(map(len, batches)) > 100
        points = np.concatenate([b.points for b in batches])
        file = trx_file_memmap.load(str(tmp_path / "a.trx"))
        assert np.array_equal(np.asarray(file.streamlines._data), points)
        file.close()
        lengths = np.concatenate([b.lengths for b in batches])
        assert result.median_points == np.median(lengths)
        assert result.mean_points == pytest.approx(lengths.mean())
        assert result.points == len(points)

    def test_keys_change_seeds_and_draws(self, head, settings):
        def first(**keys):
            return next(ts.stream(*head.series, **settings, **keys))

        plain = first()
        assert not np.array_equal(first(seed_seed=1).seeds[:20], plain.seeds[:20])
        other = first(rng_seed=1)
        assert np.array_equal(np.unique(other.seeds, axis=0)[:5], np.unique(plain.seeds, axis=0)[:5])
        assert not np.array_equal(other.points[:500], plain.points[:500])

    def test_taking_no_more_batches_is_fine(self, head, settings):
        batches = ts.stream(*head.series, **settings, chunk_size=16)
        assert len(next(batches))
        batches.close()

    def test_errors_come_at_once(self, head, tmp_path):
        with pytest.raises(ts.OutputError, match="no folder"):
            ts.track(*head.series, tmp_path / "missing" / "a.trx")
        with pytest.raises(ts.ParameterError, match="needs an output"):
            ts.track(*head.series, json_stats=tmp_path / "a.json")
        with pytest.raises(TypeError, match="max_angel"):
            ts.track(*head.series, max_angel=3)


class TestSeeds:
    region = np.array([[0, 0, 0], [3, 1, 2], [5, 5, 5]], np.int32)

    def test_a_seed_depends_on_its_number_alone(self):
        seeds = RandomSeeds(self.region, Draw(1000, 7))
        whole = seeds.points(0, 1000)
        parts = np.concatenate([seeds.points(first, 137) for first in range(0, 1000, 137)])
        assert np.array_equal(parts, whole)
        assert np.array_equal(RandomSeeds(self.region, Draw(10, 7, threads=1)).points(0, 10), whole[:10])
        assert not np.array_equal(RandomSeeds(self.region, Draw(10, 7 + (1 << 32))).points(0, 10), whole[:10])

    def test_they_fill_the_voxels_evenly(self):
        points = RandomSeeds(self.region, Draw(30_000, 1)).points(0, 30_000)
        nearest = np.rint(points).astype(int)
        counts = [(nearest == voxel).all(axis=1).sum() for voxel in self.region]
        assert sum(counts) == 30_000
        assert np.abs(np.array(counts) - 10_000).max() < 400
        offsets = points - nearest
        assert np.abs(offsets.mean(axis=0)).max() < 0.01
        assert np.allclose(offsets.std(axis=0), 12**-0.5, atol=0.005)

    def test_reach_covers_what_seeds_touch(self):
        seeds = RandomSeeds(self.region, Draw(500, 3))

        def touched(points):
            low = np.floor(points).astype(int)
            return {tuple(low_ + corner) for low_ in low for corner in np.ndindex(2, 2, 2)}

        assert touched(seeds.points(0, 500)) <= touched(seeds.reach())

    def test_points_in_mm(self):
        space = Space(AFFINE, (4, 4, 4))
        points = np.array([[2.0, 2, 3]] * 9 + [[100, 0, 0]])  # one of ten may lie outside
        seeds = seeds_in_file(points, space, "seeds.txt")
        assert np.allclose(seeds.points(0, 1), [[1, 1, 1]])
        with pytest.raises(ts.InputError, match=r"seeds\.txt.*RASmm"):
            seeds_in_file(points[8:], space, "seeds.txt")


class TestPlan:
    @pytest.mark.parametrize(
        ("options", "field", "value"),
        [
            ({"model": "opdt"}, "opdt", 1),
            ({"boot_rule": "dipy"}, "until_fit", 0),
            ({"negative_odf": "none"}, "negative_peak", 0),
            ({"angular_weight": 0.5}, "angular", 1),
            ({"sh_order": 2}, "coefficients", 6),
        ],
    )
    def test_options_reach_the_kernels(self, head, options, field, value):
        assert getattr(plan_of(head).prepared.getter, field) != value
        assert getattr(plan_of(head, **options).prepared.getter, field) == value

    def test_so_do_numbers(self, head):
        scalars = plan_of(head, max_angle=30, sphere="small", fa_threshold=0.3, min_signal=2).prepared.scalars
        assert scalars["method_rule_cos_angle"] == pytest.approx(np.cos(np.radians(30)))
        assert scalars["method_sphere_count"] == 181
        assert scalars["stopping_threshold"] == 0.3
        assert scalars["method_min_signal"] == 2

    def test_tables_do_not_depend_on_random_seeds(self, head):
        few, many = plan_of(head, nseeds=1, seed_seed=3), plan_of(head, nseeds=10**6)
        assert np.array_equal(few.prepared.arrays["volume_index"], many.prepared.arrays["volume_index"])


class TestCache:
    def plan(self, head, folder, **changes):
        return plan_of(head, cache_dir=folder, **changes)

    def test_the_second_run_reads_no_image(self, head, tmp_path, monkeypatch):
        first = self.plan(head, tmp_path)
        monkeypatch.setattr(nifti, "open_dwi", None)
        second = self.plan(head, tmp_path, nseeds=5, max_steps=9, rng_seed=4)
        assert second.seeds.count == 5
        assert np.array_equal(second.space.affine, first.space.affine)
        assert contents(second.prepared) == contents(first.prepared)
        assert second.prepared.scalars == first.prepared.scalars
        assert second.prepared.scratch == first.prepared.scratch
        for name, array in first.prepared.arrays.items():
            assert np.array_equal(second.prepared.arrays[name], array)
            assert second.prepared.arrays[name].dtype == array.dtype

    def test_other_inputs_or_rules_are_other_entries(self, head, tmp_path):
        self.plan(head, tmp_path)
        assert len(list(tmp_path.glob("tables-*"))) == len(list(tmp_path.glob("fa-*"))) == 1
        self.plan(head, tmp_path, model="opdt")
        self.plan(head, tmp_path, fa_threshold=0.2)
        assert len(list(tmp_path.glob("tables-*"))) == 3
        assert len(list(tmp_path.glob("fa-*"))) == 1
        self.plan(head, tmp_path, mask=None)
        assert len(list(tmp_path.glob("fa-*"))) == 2

    def test_the_same_content_is_the_same_file(self, head, tmp_path, monkeypatch):
        self.plan(head, tmp_path / "now")
        later = time.localtime(time.time() + 3600)
        monkeypatch.setattr(time, "localtime", lambda _=None: later)
        self.plan(head, tmp_path / "later")
        now, later = ([*(tmp_path / folder).glob("tables-*")] for folder in ("now", "later"))
        assert now[0].read_bytes() == later[0].read_bytes()

    def test_a_damaged_file_is_made_again(self, head, tmp_path):
        first = self.plan(head, tmp_path)
        (path,) = tmp_path.glob("tables-*")
        whole = path.read_bytes()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]
        for damaged in (whole[:middle], flipped, b""):
            path.write_bytes(damaged)
            notes = []
            again = self.plan(head, tmp_path, note=notes.append)
            assert path.read_bytes() == whole
            for name, array in first.prepared.arrays.items():
                assert np.array_equal(again.prepared.arrays[name], array)
            (note,) = notes
            assert "cannot be used" in note
            assert str(path) in note

    @pytest.mark.parametrize("fault", ["no folder", "full disk"])
    def test_a_run_goes_on_without_a_cache(self, head, tmp_path, monkeypatch, fault):
        if fault == "no folder":
            (tmp_path / "file").touch()
            folder = tmp_path / "file" / "cache"
        else:
            folder = tmp_path

            def full(*_, **__):
                raise OSError(28, "No space left on device")

            monkeypatch.setattr("tistreamlines.io.cache.np.savez", full)
        notes = []
        plan = self.plan(head, folder, note=notes.append)
        assert plan.prepared.arrays["volume_rows"].any()
        (note,) = notes  # however much could not be kept
        assert "--cache-dir" in note
        assert "cannot be written" in note
        assert not list(tmp_path.glob(".*"))

    def test_a_folder_that_is_only_read_still_serves(self, head, tmp_path, monkeypatch):
        self.plan(head, tmp_path)
        monkeypatch.setattr(nifti, "open_dwi", None)
        monkeypatch.setattr("tistreamlines.io.cache.hidden_folder", None)  # nothing is written
        self.plan(head, tmp_path)

    def test_two_threads_of_one_process_may_keep_the_same(self, tmp_path, monkeypatch):
        """Drafts named by the process were one file."""
        both, real, notes = threading.Barrier(2, timeout=20), np.savez, []

        def slow(*arguments, **named):
            real(*arguments, **named)
            both.wait()

        monkeypatch.setattr("tistreamlines.io.cache.np.savez", slow)
        arguments = "fa", {}, {"numbers": np.arange(3)}, {}
        threads = [threading.Thread(target=Cache(tmp_path, notes.append).store, args=arguments) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        (path,) = tmp_path.iterdir()
        assert not notes
        assert np.array_equal(Cache(tmp_path).load("fa", {}, lambda arrays, _: arrays["numbers"]), [0, 1, 2])
        (tmp_path / "other").touch()
        assert path.stat().st_mode == (tmp_path / "other").stat().st_mode  # others may read a folder that is shared

    def test_every_source_and_version_is_a_cause(self, tmp_path, monkeypatch):
        """Also what the tables are made with at several removes: voxels' order, the seeds' FA, frames of files."""
        source = Path(ts.__file__).parent
        package = shutil.copytree(source, tmp_path / "tistreamlines", ignore=shutil.ignore_patterns("*.pyc"))
        monkeypatch.setattr(caching, "__file__", str(package / "io" / "cache.py"))
        whole = caching.code_versions.__wrapped__()
        assert {"python", "numpy", "scipy", "dipy", "nibabel", "numba", "llvmlite"} < set(whole)
        forgotten = "options/parameters.py", "io/nifti.py", "kernels/getters/shared.py", "backends/numba/simd.py"
        for name in forgotten:
            caching.source_hash.cache_clear()
            before = caching.code_versions.__wrapped__()["code"]
            with (package / name).open("a") as file:
                file.write("#\n")
            caching.source_hash.cache_clear()
            assert caching.code_versions.__wrapped__()["code"] != before, name
        monkeypatch.setattr(caching, "version_of", lambda name: "0")
        assert caching.code_versions.__wrapped__()["numba"] != whole["numba"]
        caching.source_hash.cache_clear()  # of the copy

    def test_only_kernels_are_imported(self, tmp_path):
        from tistreamlines.tracking.tables.packing import _decode

        with pytest.raises(ValueError, match="no kernels and no parts"):
            _decode({"kernel": "os:system"}, {})


class TestWriterThread:
    space = Space(AFFINE, (4, 4, 4))

    def threads(self):
        return [thread for thread in threading.enumerate() if thread.name.startswith("writer")]

    def test_an_error_in_the_thread_is_raised(self, tmp_path, monkeypatch):
        def broken(*_):
            raise OSError(28, "No space left on device")

        monkeypatch.setattr("tistreamlines.io.trx.TrxSink.append", broken)
        with (
            pytest.raises(ts.OutputError, match="No space left"),
            WriterThread(tmp_path / "a.trx", self.space) as writer,
        ):
            for _ in range(10):
                writer.put(batch_of(3, 4))
        assert not self.threads()
        assert not list(tmp_path.iterdir())

    def test_an_error_outside_leaves_nothing(self, tmp_path):
        with pytest.raises(KeyboardInterrupt), WriterThread(tmp_path / "a.trx", self.space) as writer:
            writer.put(batch_of(3, 4))
            raise KeyboardInterrupt
        assert not self.threads()
        assert not list(tmp_path.iterdir())

    @pytest.mark.skipif(sys.platform == "win32", reason="no signal to a thread")
    @pytest.mark.parametrize("suffix", [".trx", ".trk", ".tck"])
    def test_a_signal_while_the_file_is_finished_leaves_nothing(self, tmp_path, monkeypatch, suffix):
        sink = SINKS[suffix]

        def finish(self):
            time.sleep(0.2)  # till the main thread waits
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            while writer._tasks:  # till the main thread gives up
                time.sleep(0.01)
            time.sleep(0.2)  # a thread that is not waited for is still at work then
            return whole(self)

        whole = sink.finish
        monkeypatch.setattr(sink, "finish", finish)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            with pytest.raises(KeyboardInterrupt), WriterThread(tmp_path / f"a{suffix}", self.space) as writer:
                writer.put(batch_of(3, 4))
        finally:
            signal.signal(signal.SIGINT, before)
        assert not self.threads()
        assert not list(tmp_path.iterdir())

    def test_a_finished_file_is_hidden_until_the_end(self, tmp_path):
        with WriterThread(tmp_path / "a.trk", self.space) as writer:
            writer.put(batch_of(3, 4))
            writer.finish()
            (hidden,) = tmp_path.iterdir()
            assert hidden.name.startswith(".a.trk.")
        assert [path.name for path in tmp_path.iterdir()] == ["a.trk"]

    def test_no_streamlines(self, tmp_path):
        with WriterThread(tmp_path / "a.tck", self.space):
            pass
        assert (tmp_path / "a.tck").exists()


class TestCounts:
    @pytest.mark.parametrize("lengths", [[], [5], [2, 9], [3, 3, 8, 40], [7, 1, 2]])
    def test_against_numpy(self, lengths):
        counts = Counts()
        for length in lengths:
            counts.add(batch_of(length))
        assert counts.streamlines == len(lengths)
        assert counts.points == sum(lengths)
        assert counts.median == (np.median(lengths) if lengths else 0)
        assert counts.mean == pytest.approx(np.mean(lengths) if lengths else 0)

    def test_batches_that_are_counted_together(self, monkeypatch):
        monkeypatch.setattr(ends, "TOGETHER", 2)
        counts, batches = Counts(), [batch_of(*lengths) for lengths in ([4], [], [2, 9, 9], [1], [30, 2], [], [5])]
        for number, batch in enumerate(batches, 1):
            counts.add(batch)
            if number in (3, 4):
                assert counts.points == sum(len(part.points) for part in batches[:number])
        whole = ts.Batch.concatenate(batches)
        np.testing.assert_array_equal(counts.histogram, np.bincount(whole.lengths))
        np.testing.assert_array_equal(counts.ends, np.bincount(whole.stop_reasons.ravel(), minlength=len(counts.ends)))
        assert counts.streamlines == len(whole)

    def test_parameters_are_frozen(self):
        with pytest.raises(dataclasses.FrozenInstanceError):
            ts.Parameters().nseeds = 3  # type: ignore[misc]
