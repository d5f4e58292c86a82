"""Options at their extremes, and names and files of any kind: one line each, before anything is computed or written."""

import hashlib
import json
import os
import shutil
import threading
from pathlib import Path

import numpy as np
import pytest
from commands import one_line
from prob_plans import plan_of
from tables import noting

import tistreamlines as ts
from tistreamlines.errors import InputError, ParameterError
from tistreamlines.io import gradients
from tistreamlines.io.gradients import drain
from tistreamlines.run.log import Log
from tistreamlines.run.plan import make_plan
from tistreamlines.space.sphere import most_peaks
from tistreamlines.tracking.seeding.files import load_seeds

pytestmark = pytest.mark.filterwarnings("error::RuntimeWarning", "ignore:The legacy:PendingDeprecationWarning")
needs_pipes = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names on this system")


class TestNumbers:
    @pytest.mark.parametrize(
        "options",
        [
            ("--memory-limit", 1e308), ("--min-signal", 1e39), ("--stop-threshold", -1e39, "--stop-map", "map.nii"),
            ("--data-support-exponent", 1e308, "--dg", "ptt"), ("--data-support-exponent", 200, "--dg", "ptt"),
            ("--probe-length", 1e39, "--dg", "ptt"), ("--step-size", 1e-300), ("--step-size", "1e-300vox"),
            ("--step-size", 1e-6), ("--step-size", 1e300), ("--step-size", "100vox"), ("--mask", ""),
        ],
    )
    def test_one_line(self, track, tmp_path, options):
        one_line(track(tmp_path / "a.trx", *options), 2, options[0], ": give")
        assert not list(tmp_path.iterdir())

    def test_the_smallest_step_still_leads_somewhere(self, head):
        plan = plan_of(head, dg="boot", step_size=1e-4)
        far = np.float32(max(plan.space.shape))
        assert far - np.float32(1e-4 / max(plan.space.voxel_sizes)) < far

    def test_a_step_is_refused_with_kept_tables_too(self, head, tmp_path):
        plan_of(head, dg="boot", cache_dir=tmp_path)
        with pytest.raises(ParameterError, match="too small for this image"):
            plan_of(head, dg="boot", cache_dir=tmp_path, step_size=1e-9)

    def test_peaks_a_hair_apart(self):
        assert [most_peaks(362, angle) for angle in (0, 1e-300, 1e-7, 1e-3, 1)] == [362] * 5
        assert most_peaks(362, 60) == 8

    def test_powers_of_the_data_support(self):
        assert 2.0 ** ts.Parameters(data_support_exponent=100).data_support_exponent < np.finfo(np.float32).max
        with pytest.raises(ParameterError, match="above 0 up to 100"):
            ts.Parameters(data_support_exponent=128)

    def test_threads_that_the_system_does_not_start(self, track, tmp_path, monkeypatch):
        start = threading.Thread.start

        def start_others(thread):
            if thread.name.startswith("kernels"):
                raise RuntimeError("can't start new thread")
            start(thread)

        monkeypatch.setattr(threading.Thread, "start", start_others)
        one_line(track(tmp_path / "a.trx", "--threads", 3999), 1, "--threads 3999", "give fewer")
        assert not list(tmp_path.iterdir())


class TestSeeds:
    @pytest.mark.parametrize("value", [1e39, -1e308, 2e6])
    def test_farther_than_any_image(self, track, tmp_path, value):
        """One in twenty may lie outside, but is to be a number for the devices."""
        np.savetxt(tmp_path / "seeds.txt", [[0, 0, 0]] * 20 + [[0, value, 0]])
        one_line(track(tmp_path / "a.trx", "--seeds", tmp_path / "seeds.txt"), 1, "seeds.txt: seed 20", f"{value}")

    def test_an_archive_under_the_name_of_an_array(self, tmp_path):
        with (tmp_path / "seeds.npy").open("wb") as file:
            np.savez(file, seeds=np.zeros((2, 3)))
        with pytest.raises(InputError, match=r"seeds\.npy: cannot be read .*; "):
            load_seeds(tmp_path / "seeds.npy")


class TestNames:
    @pytest.mark.parametrize("name", ["a\0b", "a" * 300], ids=["NUL", "long"])
    def test_no_system_takes_them(self, track, run, head, tmp_path, name):
        target = tmp_path / "a.trx"
        for position in range(3):
            series = [name if i == position else path for i, path in enumerate(head.series)]
            one_line(run("track", *series, "-o", target), 1, "check the path")
        for option in ("--mask", "--seed-mask", "--stop-map", "--seeds"):
            one_line(track(target, option, name), 1, "check the path")
        one_line(track(tmp_path / f"{name}.trx"), 1, "cannot be written", "give another name")
        one_line(track(target, "--json-stats", tmp_path / name), 1, "cannot be written", "give another name")
        assert not list(tmp_path.iterdir())

    def test_a_folder_is_no_file(self, track):
        one_line(track("."), 1, "is a folder; name a file in it")

    def test_no_room_for_the_hidden_folder(self, track, tmp_path):
        """Told at once, not when all is computed."""
        one_line(track(tmp_path / f"{'a' * 245}.trx"), 1, "give another name")
        one_line(track(tmp_path / "a.trx", "--json-stats", tmp_path / ("a" * 250)), 1, "give another name")

    @pytest.mark.parametrize("name", ["a\0b", "a" * 300], ids=["NUL", "long"])
    def test_a_cache_of_such_a_name_is_not_kept(self, head, tmp_path, name):
        notes = []
        series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
        chosen = ts.Parameters.given({"mask": head.mask, "cache_dir": str(tmp_path / name)})
        assert make_plan(series, chosen, noting(notes.append)).prepared.arrays["volume_rows"].any()
        assert ["cannot be written" in note for note in notes] == [True]

    def test_bytes_that_are_no_text(self, run, head, tmp_path):
        odd = os.fsdecode(b"dwi-\xff.nii.gz")
        try:
            shutil.copy(head.series[0], tmp_path / odd)
        except (OSError, UnicodeError):
            pytest.skip("this file system takes names of text alone")
        target = tmp_path / os.fsdecode(b"out-\xff.trx")
        named = ("--mask", head.mask, "--arch", "cpu", "--nseeds", 300)
        done = run("track", tmp_path / odd, *head.series[1:], "-o", target, *named)
        assert done.code == 0, done.err
        assert "out-" in done.out
        record = json.loads(target.with_suffix(".json").read_text(encoding="utf-8"))
        assert os.fsencode(record["inputs"]["dwi"]["path"]).endswith(b"dwi-\xff.nii.gz")


class TestOutputsOverInputs:
    def test_refused(self, run, head, tmp_path):
        """Also by another name, and with --force."""
        paths = [Path(shutil.copy(path, tmp_path)) for path in head.series]
        bvecs = paths[2].rename(tmp_path / "b.json")
        (tmp_path / "seeds.tck").write_text("0 0 0")
        (tmp_path / "link").symlink_to(paths[1])
        before = {path: path.read_bytes() for path in tmp_path.iterdir()}
        for output, *options in (
            ["a.trx", "--json-stats", paths[0]], ["a.trx", "--json-stats", tmp_path / "link"],
            ["a.trx", "--json-stats", tmp_path / ".." / tmp_path.name / "dwi.bval"], ["b.trx"],
            ["seeds.tck", "--seeds", tmp_path / "seeds.tck"],
        ):
            arguments = (*paths[:2], bvecs, "-o", tmp_path / output, "--force", *options)
            one_line(run("track", *arguments), 1, "is an input, and is not replaced")
        assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@needs_pipes
class TestPipes:
    def fed(self, path, content):
        os.mkfifo(path)
        threading.Thread(target=path.write_bytes, args=(content,), daemon=True).start()
        return path

    def test_gradients_are_read_once(self, head, tmp_path):
        contents = [Path(path).read_bytes() for path in head.series]
        series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
        chosen = ts.Parameters.given({"mask": head.mask})
        expected = make_plan(series, chosen, Log())
        for name, content in zip(("bvals", "bvecs"), contents[1:], strict=True):
            series[name] = drain(self.fed(tmp_path / name, content))
        plan = make_plan(series, chosen, Log())
        assert plan.hashes == expected.hashes
        assert plan.hashes["bvals"] == hashlib.sha256(contents[1]).hexdigest()
        assert np.array_equal(plan.prepared.arrays["volume_rows"], expected.prepared.arrays["volume_rows"])

    def test_an_error_names_the_pipe(self, run, head, tmp_path):
        series = (head.series[0], self.fed(tmp_path / "pipe", b"0 1000 1000"), head.series[2])
        one_line(run("track", *series, "-o", tmp_path / "a.trx"), 1, "pipe: 3 b-values, but")

    def test_nobody_writes(self, run, head, tmp_path, monkeypatch):
        """To open such a pipe would take for ever."""
        monkeypatch.setattr(gradients, "PATIENCE", 0.05)
        os.mkfifo(tmp_path / "pipe")
        series = (head.series[0], tmp_path / "pipe", head.series[2])
        one_line(run("track", *series, "-o", tmp_path / "a.trx"), 1, "pipe: nobody writes")

    def test_more_than_gradients_take(self, run, head, tmp_path, monkeypatch):
        monkeypatch.setattr(gradients, "MOST", 10)
        series = (head.series[0], self.fed(tmp_path / "pipe", bytes(20)), head.series[2])
        one_line(run("track", *series, "-o", tmp_path / "a.trx"), 1, "pipe: more than 10 bytes")

    @pytest.mark.parametrize("option", ["dwi", "--mask", "--seed-mask", "--stop-map", "--seeds", "--peaks"])
    def test_what_is_no_file_is_refused(self, run, head, tmp_path, option):
        """Nothing is written to the pipe, and the device never ends: whoever opened them would wait."""
        os.mkfifo(tmp_path / "pipe.nii")
        for path in (tmp_path / "pipe.nii", "/dev/zero"):
            series = [path if option == "dwi" else head.series[0], *head.series[1:]]
            more = () if option == "dwi" else (option, path)
            done = run("track", *series, "-o", tmp_path / "a.trx", "--arch", "cpu", *more)
            one_line(done, 1, str(path), "is a pipe or a device")

    def test_a_pipe_in_the_place_of_the_record(self, track, tmp_path):
        os.mkfifo(tmp_path / "a.json")
        one_line(track(tmp_path / "a.trx", "--force"), 1, "is a pipe or a device")
