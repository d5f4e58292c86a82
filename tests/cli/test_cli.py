"""The command line: what it prints, writes and returns."""

import json
import re
import shlex
import sys
from importlib.util import find_spec

import nibabel as nib
import numpy as np
import pytest
from commands import python
from streamlines import lengths
from written import STEP, read, save

from tistreamlines.devices import ARCHS, Device
from tistreamlines.devices.compilers import Compiler
from tistreamlines.option import companions, flag
from tistreamlines.options.definitions import defaults, options

STATS = {
    "arch", "device", "seeds", "streamlines", "points", "mean_points", "median_points", "mean_mm", "stop_reasons",
    "seconds",
}
SECONDS = {"load", "prepare", "compile", "track", "write", "total"}


class TestHelp:
    def test_commands(self, run):
        shown = run("--help")
        assert shown.code == 0
        for name in ("track", "devices", "demo"):
            assert re.search(rf"^  {name} ", shown.out, re.MULTILINE)

    def test_track_tells_every_option_and_default(self, run):
        shown = " ".join(run("track", "--help-all").out.split())
        for name, option in options().items():
            assert flag(name) in shown
            assert option.help in shown
            assert option.absent in shown
            for fact, words in option.only.items():
                assert f"with {companions(fact, words)}" in shown
            default = defaults()[name]
            if isinstance(default, (int, float)) and not isinstance(default, bool):
                assert f"default: {default:.10g}" in shown
            elif isinstance(default, str):
                assert f"default: {default}" in shown
        for word in ("--fast", "--output", "-o", "--verbose", "--quiet", "mm", "degrees", "RASmm"):
            assert word in shown

    def test_the_help_of_track_shows_the_common_options_and_how_many_more_there_are(self, run):
        few, every = (run("track", asked) for asked in ("--help", "--help-all"))
        assert few.code == every.code == 0
        named, all_named = (re.findall(r"^  (?:-\w, )?(--[\w-]+)", shown.out, re.MULTILINE) for shown in (few, every))
        assert {"--output", "--dg", "--mask", "--nseeds", "--arch", "--help-all"} <= set(named) < set(all_named)
        known = options()
        assert set(named) & set(map(flag, known)) == {flag(name) for name, option in known.items() if option.common}
        left_out = len(all_named) - len(named)
        assert few.out.endswith(f"{left_out} more options: tistreamlines track --help-all\n")
        assert "more options" not in every.out
        assert len(few.out.splitlines()) < 215

    def test_demo(self, run):
        shown = run("demo", "--help").out
        assert "None" not in shown
        for word in ("--output-dir", "./tistreamlines-demo", "--nseeds", "20000", "--arch", "--threads", "--force"):
            assert word in shown

    def test_as_a_module(self):
        shown = python("-m", "tistreamlines", "--version")
        assert shown.returncode == 0
        assert re.fullmatch(r"tistreamlines \d+\.\d+\.\d+\n", shown.stdout)


class TestOutputs:
    @pytest.mark.parametrize("suffix", [".trx", ".trk", ".tck"])
    def test_files_and_records(self, track, head, tmp_path, suffix):
        output, stats_file = tmp_path / f"a{suffix}", tmp_path / "stats.json"
        done = track(output, "--json-stats", stats_file, "--cache-dir", tmp_path / "cache")  # which is empty
        assert done.code == 0, done.err
        assert "streamlines/s" in done.out
        streamlines = read(output)
        stats = json.loads(stats_file.read_text())
        assert set(stats) >= STATS
        assert set(stats["seconds"]) >= SECONDS
        assert stats["seeds"] == 300
        assert stats["streamlines"] == len(streamlines) > 200
        assert stats["points"] == sum(map(len, streamlines))
        assert stats["median_points"] == np.median([len(s) for s in streamlines])
        assert stats["mean_mm"] == pytest.approx(lengths(streamlines).mean(), rel=1e-4)
        assert sum(stats["stop_reasons"].values()) >= 2 * len(streamlines)
        sidecar = json.loads((tmp_path / "a.json").read_text())
        assert sidecar["result"] == stats
        assert set(sidecar["parameters"]) == set(options())
        assert sidecar["parameters"]["rng_seed"] == 0
        assert set(sidecar["inputs"]) == {"dwi", "bvals", "bvecs", "mask"}
        assert len(sidecar["inputs"]["dwi"]["sha256"]) == 64
        assert sidecar["device"]["arch"] == "cpu"
        assert {"tistreamlines", "dipy", "numba", "taichi", "numpy"} <= set(sidecar["versions"])
        assert sidecar["step_mm"] == STEP

    def test_streamlines_lie_in_the_head(self, track, head, tmp_path):
        track(tmp_path / "a.trx")
        points = np.concatenate(read(tmp_path / "a.trx"))
        voxels = np.rint(nib.affines.apply_affine(np.linalg.inv(head.phantom.affine), points)).astype(int)
        assert head.phantom.mask[tuple(voxels.T)].mean() > 0.99

    def test_chunks_and_threads_change_no_byte(self, track, tmp_path):
        for suffix in (".trx", ".trk", ".tck"):
            (tmp_path / suffix).mkdir()
            variants = [(), ("--chunk-size", 37), ("--threads", 1), ("--threads", 3, "--chunk-size", 100)]
            outputs = [tmp_path / suffix / f"{k}{suffix}" for k in range(len(variants))]
            for output, variant in zip(outputs, variants, strict=True):
                assert track(output, *variant).code == 0
            assert len({output.read_bytes() for output in outputs}) == 1

    def test_the_report_is_named(self, track, run, tmp_path):
        """By commands that write one, and not with --quiet."""
        page, line = tmp_path / "a.html", f"Report: {tmp_path / 'a.html'}, with a_mqc.png and a_stats.json\n"
        assert track(tmp_path / "a.trx", "--report", page).out.endswith(line)
        command = ("map", tmp_path / "a.trx", "--report", page, "--force")
        assert run(*command).out.endswith(line)
        assert "Report" not in track(tmp_path / "b.trx").out + run(*command, "-q").out

    def test_nothing_is_replaced_without_force(self, track, tmp_path):
        output = tmp_path / "a.tck"
        output.write_text("mine")
        refused = track(output)
        assert refused.code == 1
        assert "--force" in refused.err
        assert output.read_text() == "mine"
        assert [p.name for p in tmp_path.iterdir()] == ["a.tck"]
        assert track(output, "--force").code == 0
        assert track(output, "--force").code == 0
        assert len(read(output)) > 100

    @pytest.mark.parametrize("name", ["a.json", "stats.json"])
    def test_nor_is_a_record(self, track, tmp_path, name):
        (tmp_path / name).write_text('{"EchoTime": 0.1}')
        refused = track(tmp_path / "a.trx", "--json-stats", tmp_path / "stats.json")
        assert refused.code == 1
        assert name in refused.err

    def test_force_spares_a_foreign_json(self, track, tmp_path):
        (tmp_path / "a.json").write_text('{"EchoTime": 0.1}')
        assert track(tmp_path / "a.trx", "--force").code == 1
        assert "EchoTime" in (tmp_path / "a.json").read_text()

    def test_quiet_and_verbose(self, track, tmp_path):
        quiet = track(tmp_path / "a.trx", "-q")
        assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
        verbose = track(tmp_path / "b.trx", "-v", "--cache-dir", tmp_path / "cache")  # which is empty
        for word in ("Device: cpu", "Reading", "Preparing", "Compiling", "Tracking"):
            assert word in verbose.err

    def test_a_pipe_gets_no_bar(self, track, tmp_path):
        done = track(tmp_path / "a.trx")
        assert done.err == ""
        assert "\x1b" not in done.out


class TestOptions:
    def test_seeds_from_a_file(self, track, head, tmp_path):
        bundle = head.phantom.bundles[0]
        points = bundle.centreline[len(bundle.centreline) // 2 :][:3]
        np.savetxt(tmp_path / "seeds.txt", points)
        np.save(tmp_path / "seeds.npy", points)
        for name in ("seeds.txt", "seeds.npy"):
            done = track(tmp_path / f"{name}.trx", "--seeds", tmp_path / name)
            assert done.code == 0, done.err
        a, b = (read(tmp_path / f"{name}.trx") for name in ("seeds.txt", "seeds.npy"))
        assert len(a) == len(b) >= 1
        nearest = [np.linalg.norm(s[:, None] - points, axis=-1).min() for s in a]
        assert max(nearest) < 1e-3

    def test_seed_mask(self, track, head, tmp_path):
        region = np.zeros(head.phantom.mask.shape, np.uint8)
        region[14:17, 17:20, 13:16] = 1
        done = track(tmp_path / "a.trk", "--seed-mask", save(tmp_path / "roi.nii.gz", region, head))
        assert done.code == 0, done.err
        seeds = nib.streamlines.load(tmp_path / "a.trk").tractogram.data_per_streamline["seeds"]
        voxels = np.rint(nib.affines.apply_affine(np.linalg.inv(head.phantom.affine), seeds)).astype(int)
        assert region[tuple(voxels.T)].all()

    def test_stop_map_is_taken_as_it_is(self, track, head, tmp_path):
        half = np.zeros(head.phantom.mask.shape, np.float32)
        half[:15] = 5
        path = save(tmp_path / "half.nii.gz", half, head)
        done = track(tmp_path / "a.tck", "--stop-map", path, "--stop-threshold", 2.5)
        assert done.code == 0, done.err
        points = np.concatenate(read(tmp_path / "a.tck"))
        voxels = nib.affines.apply_affine(np.linalg.inv(head.phantom.affine), points)
        first = np.array([len(s) for s in read(tmp_path / "a.tck")])
        assert (voxels[:, 0] < 14.5 + 1e-3).mean() > 0.99
        assert len(first)

    def test_lengths(self, track, tmp_path):
        track(tmp_path / "all.tck")
        track(tmp_path / "some.tck", "--min-length", 40, "--max-length", 80)
        everything, selected = lengths(read(tmp_path / "all.tck")), lengths(read(tmp_path / "some.tck"))
        within = (everything > 40 - 1e-2) & (everything < 80 + 1e-2)
        assert 0 < within.sum() < len(everything)
        assert np.allclose(selected, everything[within])

    def test_step_angle_and_steps(self, track, tmp_path):
        track(tmp_path / "a.tck", "--step-size", "1.5", "--max-angle", 30, "--max-steps", 10)
        streamlines = read(tmp_path / "a.tck")
        steps = [np.diff(s, axis=0) for s in streamlines]
        assert np.allclose(np.linalg.norm(np.concatenate(steps), axis=1), 1.5, atol=1e-3)
        assert max(map(len, steps)) <= 20
        cosines = np.concatenate([(s[1:] * s[:-1]).sum(axis=1) / 1.5**2 for s in steps])
        assert cosines.min() > np.cos(np.radians(30)) - 1e-3

    def test_without_a_mask(self, run, head, tmp_path):
        done = run("track", *head.series, "-o", tmp_path / "a.trx", "--arch", "cpu", "--nseeds", 50)
        assert done.code == 0
        assert "median_otsu" in done.err


class TestErrors:
    def one_line(self, outcome, code, *words):
        assert outcome.code == code, outcome
        assert outcome.err.startswith("Error: ")
        assert outcome.err.count("\n") == 1
        for word in words:
            assert word in outcome.err

    def test_could_not(self, track, run, head, tmp_path):
        self.one_line(track(tmp_path / "missing" / "a.trx"), 1, "no folder")
        self.one_line(track(tmp_path / "a.vtk"), 1, ".trx, .trk, .tck")
        self.one_line(run("track", "no.nii", *head.series[1:], "-o", tmp_path / "a.trx"), 1, "no.nii")
        self.one_line(track(tmp_path / "a.trx", "--mask", head.series[0]), 1, "dwi.nii.gz")
        self.one_line(track(tmp_path / "a.trx", "--fa-threshold", 1), 1, "--fa-threshold 1")
        self.one_line(track(tmp_path / "a.trx", "--sh-order", 8), 1, "--sh-order")
        assert not list(tmp_path.iterdir())

    def test_a_missing_arch_says_why(self, track, tmp_path):
        absent = "metal" if sys.platform != "darwin" else "cuda"
        self.one_line(track(tmp_path / "a.trx", "--arch", absent), 1, absent, "cannot run here", "use")

    def test_no_region_to_seed(self, track, head, tmp_path):
        mask = np.zeros(head.phantom.mask.shape, np.uint8)
        mask[0, 0, 0] = 1
        mask = save(tmp_path / "mask.nii.gz", mask, head)
        stop_map = save(tmp_path / "stop.nii.gz", head.phantom.mask.astype(np.float32), head)
        self.one_line(track(tmp_path / "a.trx", "--mask", mask, "--stop-map", stop_map), 1, "--seed-mask")

    def test_wrong_use(self, track, tmp_path):
        self.one_line(track(tmp_path / "a.trx", "--max-angle", 91), 2, "--max-angle", "90")
        self.one_line(track(tmp_path / "a.trx", "--step-size", "-1"), 2, "--step-size")
        self.one_line(track(tmp_path / "a.trx", "--stop-threshold", 1), 2, "--stop-map")
        self.one_line(track(tmp_path / "a.trx", "--seeds", "s.npy", "--nseeds", 3), 2, "--nseeds")
        self.one_line(track(tmp_path / "a.trx", "--json-stats", tmp_path / "a.json"), 2, "--json-stats")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("words", [
        ("--nseeds", "many"), ("--arch", "opencl"), ("--dg", "pft"), ("--dg", "x"), ("--cutoff", "many"),
        ("--max-angle", "30deg"), ("--stopping", "fa"),
    ])
    def test_a_wrong_value_is_one_line(self, track, tmp_path, words):
        self.one_line(track(tmp_path / "a.trx", *words), 2, words[0], words[1], ": ")

    def test_typical_slips_are_told_what_to_do(self, run, head, tmp_path):
        dwi, bvals, bvecs = head.series
        bare, out = dwi.removesuffix(".nii.gz"), ("-o", tmp_path / "a.trx")
        self.one_line(run("track", bare, bvals, bvecs, *out), 1, "dwi: no such file (but dwi.nii.gz is there)")
        self.one_line(run("track", f"{bare}.nii", *out), 1, "dwi.nii: no such file (but dwi.nii.gz is there)")
        self.one_line(run("track", bvals, bvecs, dwi, *out), 1, "dwi.bval: is in the place of DWI")
        fods = (tmp_path / "fods.mif").write_bytes(b"") or str(tmp_path / "fods")
        self.one_line(run("track", "--sh", fods, *out), 2, "fods: no such file (but fods.mif is there)")
        self.one_line(run("track", *head.series, "--mask", dwi, *out), 1, "give an image of one volume")
        (tmp_path / "lines.tck").touch()
        files = (tmp_path / "lines.tck", "--connectome", tmp_path / "c.csv", head.folder / "nodes.nii.gz")
        self.one_line(run("map", *files), 2, "--connectome is ", "give them in the order LABELS FILE")
        self.one_line(run("join", "a.tck", "-o", tmp_path / "b.tck"), 1, "a.tck: is no part of a run")
        assert "requires 2 arguments: --connectome LABELS FILE" in run("map", *files[:3]).err
        ball = run("track", *head.series, "--seed-sphere", 10, 0, 0, 5, *out)
        assert "the numbers of an option are joined by commas" in ball.err
        called = ("track", "--sh", tmp_path / "fods.mif", "--seed-mask", head.mask, *out)
        self.one_line(run(*called), 2, "leaves no FA to stop at: give --stop-map, --stop-mask, --pve or --act")
        assert not list(tmp_path.glob("[ab].*"))

    @pytest.mark.parametrize("words", [("--nope",), ("extra",)])
    def test_usage(self, track, tmp_path, words):
        done = track(tmp_path / "a.trx", *words)
        assert done.code == 2
        assert "Usage:" in done.err

    def test_no_output_and_no_such_command(self, run, head):
        assert run("track", *head.series).code == 2
        assert run("trak").code == 2

    def test_the_unexpected_shows_where_with_v(self, track, tmp_path, monkeypatch):
        def broken(*_, **__):
            raise RuntimeError("driver\nfell over")

        monkeypatch.setattr(sys.modules["tistreamlines.workers.session"], "Engine", broken)
        self.one_line(track(tmp_path / "a.trx"), 1, "RuntimeError", "driver fell over", "-v")
        with pytest.raises(RuntimeError):
            track(tmp_path / "a.trx", "-v")
        assert not list(tmp_path.iterdir())


class TestDevices:
    def test_table(self, run):
        shown = run("devices")
        assert shown.code == 0
        for word in (*ARCHS, "--arch auto"):
            assert word in shown.out

    def test_reasons_are_below_the_table(self, run, monkeypatch):
        """In lines that a terminal shows whole."""
        reason = f"no driver ({'libraries ' * 12}are missing): install it, or use another arch"
        lost = Device("cuda", -1, "", "", None, software=False, available=False, reason=reason)
        monkeypatch.setattr(sys.modules["tistreamlines.cli.devices"], "list_devices", lambda: [lost])
        table, reasons = run("devices").out.split("\n\n", 1)
        assert "cannot run" in table and "no driver" not in table
        assert " ".join(reasons.split()) == f"cuda: {reason}"
        assert max(map(len, reasons.splitlines())) <= 100

    def test_json(self, run):
        rows = json.loads(run("devices", "--json").out)
        assert {row["arch"] for row in rows} == {*ARCHS}
        assert sum(row["auto"] for row in rows) == 1
        assert all(row["available"] or row["reason"] for row in rows)


class TestDemo:
    def test_a_missing_device_leaves_nothing(self, run, tmp_path, monkeypatch):
        monkeypatch.setattr(Compiler, "installed", False)
        done = run("demo", "--output-dir", tmp_path / "demo", "--arch", "vulkan")
        assert done.code == 1 and "'vulkan' cannot run here" in done.err
        assert not (tmp_path / "demo").exists()

    def test_table_and_files(self, run, head, tmp_path, monkeypatch):
        """Of the head, which has fewer voxels than the demo's own."""
        monkeypatch.setattr("tistreamlines.phantom.phantom.make_phantom", lambda: head.phantom)
        folder = tmp_path / "demo"
        done = run("demo", "--output-dir", folder, "--nseeds", 1000, "--arch", "cpu")
        assert done.code == 0, done.err
        table = dict(re.split(r"\s{2,}", line, maxsplit=1) for line in done.out.splitlines())
        for name in (
            "streamlines",
            "points",
            "mean length",
            "median length",
            "tracking time",
            "streamlines per second",
        ):
            assert name in table
        assert float(table["valid connections"].rstrip("%")) > 50
        assert {"dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz", "streamlines.trx", "streamlines.json",
                "density.nii.gz", "connectome.csv"} <= {path.name for path in folder.iterdir()}
        nodes = (folder / "nodes.tsv").read_text().splitlines()[1:]
        matrix = np.loadtxt(folder / "connectome.csv", delimiter=",")
        assert all(row.endswith(("_a", "_b")) for row in nodes)
        ends = np.arange(0, len(nodes), 2)
        assert matrix[ends, ends + 1].sum() > 0.7 * np.triu(matrix).sum(), "most streamlines join the ends of a bundle"
        assert "</html>" in (folder / "report.html").read_text(encoding="utf-8")
        assert table["report"].endswith("report.html")
        assert table["track where you click"].startswith(f"tistreamlines view --live {folder / 'dwi.nii.gz'} ")
        if find_spec("ipyniivue") is not None:
            assert run(*shlex.split(table["look at it"])[1:], "-o", tmp_path / "page.html").code == 0
            assert "callosum_body_front_a" in (tmp_path / "page.html").read_text(encoding="utf-8")
        assert (folder / "streamlines.png").read_bytes().startswith(b"\x89PNG")
        refused = run("demo", "--output-dir", folder)
        assert refused.code == 1
        assert "--force" in refused.err
