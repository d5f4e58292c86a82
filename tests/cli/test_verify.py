"""``verify``: equal runs, planted differences, crashes."""

import hashlib
import json
import re
import tempfile

import numpy as np
import pytest
from getters import ON_A_SERIES, WITH_PEAKS
from present import PRESENT

import tistreamlines as ts
from tistreamlines.cli import verification as verifying
from tistreamlines.cli.verification import Variant, first_difference
from tistreamlines.errors import ParameterError
from tistreamlines.helpers import helper
from tistreamlines.space.batch import Batch

SEEDS = 60


@pytest.fixture
def verify(run, head, tmp_path, monkeypatch):
    """Compare given variants on the head; return the outcome and the JSON."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def call(chosen=None, *options):
        if chosen is not None:
            monkeypatch.setattr(verifying, "variants", lambda *_: list(chosen))
        report = tmp_path / "report.json"
        done = run(
            "verify", *head.series, "--mask", head.mask, "--nseeds", SEEDS, "--json", report, "--force", *options
        )
        return done, json.loads(report.read_text())

    yield call
    assert {path.name for path in tmp_path.iterdir()} <= {"report.json"}, "the temporary folder is still there"


def batches(head, **parameters):
    return list(ts.stream(*head.series, mask=head.mask, arch="cpu", nseeds=SEEDS, like="dipy", **parameters))


class TestVariants:
    def test_all(self):
        variants = verifying.variants()
        assert variants[0] == Variant("cpu")
        assert {v.arch for v in variants} == PRESENT
        assert {v.chunk_size for v in variants if v.arch == "cpu"} == {None, 137, 5000}

    def test_named(self):
        assert {v.arch for v in verifying.variants(["cpu"])} == {"cpu"}
        assert len(verifying.variants(["cpu"])) >= 3

    @pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
    def test_one_alone_is_run_twice(self):
        assert verifying.variants(["vulkan"]) == [Variant("vulkan")] * 2

    @pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
    def test_devices_together(self):
        assert verifying.variants(["vulkan"], "all") == [Variant("vulkan"), Variant("vulkan", devices="all")]

    def test_each_compiler(self, monkeypatch):
        monkeypatch.setattr(verifying, "compilers_for", lambda arch: ["a", "b"] * (arch == "vulkan"))
        variants = verifying.variants(["cpu", "vulkan"], None, True)
        assert variants[-2:] == [Variant("vulkan", compiler="a"), Variant("vulkan", compiler="b")]
        assert variants[0] == Variant("cpu")
        assert variants[-1].parameters()["compiler"] == "b"
        monkeypatch.setattr(verifying, "compilers_for", lambda arch: ["a"] * (arch == "vulkan"))
        with pytest.raises(ParameterError, match=r"two compilers for it: pip install"):
            verifying.variants(["cpu", "vulkan"], None, True)

    def test_the_cpu_has_no_devices(self):
        with pytest.raises(ts.DeviceError, match="threads"):
            verifying.variants(["cpu"], "all")

    def test_a_missing_arch(self, run):
        absent = next(arch for arch in ("metal", "cuda") if arch not in PRESENT)
        done = run("verify", "--arch", absent)
        assert done.code == 1
        assert "cannot run here" in done.err


class TestEqual:
    def test_cpu(self, verify, head):
        done, report = verify(None, "--arch", "cpu")
        assert done.code == 0, done.out + done.err
        assert "gave the same bits" in done.out
        assert report["equal"]
        runs = report["runs"]
        assert len(runs) >= 3
        assert {row["dg"] for row in runs} == {"boot"}
        (batch,) = batches(head)
        digest = hashlib.sha256(batch.points.tobytes() + batch.lengths.astype("<u4").tobytes()).hexdigest()
        assert {row["sha256"] for row in runs} == {digest}
        assert digest[:16] in done.out
        assert {row["points"] for row in runs} == {len(batch.points)}
        assert {row["outcome"] for row in runs} == {"reference", "equal"}

    @pytest.mark.nightly
    @pytest.mark.skipif(len(PRESENT) == 1, reason="no GPU, no software Vulkan device")
    def test_every_arch_on_the_phantom_that_it_makes(self, run, monkeypatch):
        self.compare_archs(run, monkeypatch, ["det"], "--dg", "det", "--nseeds", 8)

    @pytest.mark.nightly
    @pytest.mark.skipif(len(PRESENT) == 1, reason="no GPU, no software Vulkan device")
    def test_every_getter_too(self, run, monkeypatch):
        """Nightly, since compilers of GPUs take long with each getter."""
        apart = ("--min-separation-angle", 45)  # as the benchmark has it, whose kernels serve
        self.compare_archs(run, monkeypatch, WITH_PEAKS, *apart, "--nseeds", 20)

    def compare_archs(self, run, monkeypatch, getters, *options):
        # chunks and threads of the CPU are varied in test_cpu, and with each getter in test_seeding
        chosen = [Variant("cpu"), *map(Variant, sorted(PRESENT - {"cpu"}))]
        monkeypatch.setattr(verifying, "variants", lambda *_: list(chosen))
        done = run("verify", *options, *(word for arch in sorted(PRESENT) for word in ("--arch", arch)))
        assert done.code == 0, done.out + done.err
        assert done.out.count("reference") == len(getters)
        for dg in getters:
            for arch in PRESENT:
                assert re.search(rf"^{dg} +{arch} ", done.out, re.MULTILINE)


class TestGetters:
    @pytest.fixture
    def ran(self, run, monkeypatch, tmp_path):
        """Call verify without running anything; return the outcome and the getters that would have run."""

        def call(*arguments):
            variants = []

            def compare(series, parameters, chosen, *_, **__):
                variants.extend(chosen)
                words = ["reference", *["equal"] * (len(chosen) - 1)]
                return list(map(verifying.VerifiedRun, chosen, words))

            monkeypatch.setattr(verifying, "compare", compare)
            monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
            done = run("verify", "--arch", "cpu", *arguments)
            return done, list(dict.fromkeys(variant.dg for variant in variants))

        return call

    def test_all_on_the_phantom(self, ran):
        done, getters = ran()
        assert getters == list(ON_A_SERIES)
        assert f"of each of {', '.join(ON_A_SERIES)} gave the same bits" in done.out

    def test_those_that_the_options_allow(self, ran):
        assert ran("--boot-rule", "cuslines")[1] == ["boot"]
        assert ran("--model", "csd")[1] == [dg for dg in ON_A_SERIES if dg != "boot"]
        assert ran("--det-rule", "closest")[1] == ["det"]
        assert "--bedpostx" in ran("--dg", "bedpostx")[0].err

    def test_as_for_track_on_a_series(self, ran, head):
        assert ran(*head.series)[1] == ["boot"]

    def test_those_named(self, ran, head):
        assert ran("--dg", "det", "--dg", "boot")[1] == ["det", "boot"]
        done, getters = ran(*head.series, "--dg", "prob")
        assert getters == ["prob"]
        assert "runs gave the same bits" in done.out

    def test_orientations_from_a_file(self, ran, head):
        maps = ("--stop-map", head.mask, "--seed-mask", head.mask)
        assert ran("--pmf", "a.nii", *maps)[1] == ["prob"]
        assert ran("--pmf", "a.nii", "--dg", "det", *maps)[1] == ["det"]

    @pytest.mark.parametrize(
        "options",
        [
            ("--dg", "prob", "--boot-rule", "dipy"), ("--det-rule", "max", "--boot-rule", "dipy"),
            ("--pmf", "a.nii"), ("--pmf", "a.nii", "--dg", "boot"), ("--dg", "pft"),
        ],
    )
    def test_wrong_use(self, ran, options):
        assert ran(*options)[0].code == 2


class TestDifferences:
    @staticmethod
    def from_the_seed(batch, seed, direction, half):
        """Points of a half-streamline."""
        (row,) = np.flatnonzero((batch.seed_number == seed) & (batch.direction_number == direction))
        points = batch.points[batch.offsets[row] : batch.offsets[row + 1]]
        start = np.linalg.norm(points - batch.seeds[row], axis=1).argmin()
        return points[start:] if half == "forward" else points[start::-1]

    planted = (
        Variant("cpu"), Variant("cpu", others={"rng_seed": 1}), Variant("cpu", others={"max_angle": 100}),
        Variant("cpu", 7),
    )

    @pytest.mark.nightly
    def test_other_draws_and_a_run_that_fails(self, verify, head):
        """A failure does not stop the rest."""
        done, report = verify(self.planted)
        assert done.code == 1
        first, second = report["runs"][:2]
        assert [row["outcome"] for row in report["runs"]] == ["reference", "differs", "failed", "equal"]
        assert "exit code 1: --max-angle is 100" in done.out
        assert first["sha256"] != second["sha256"]
        planted = second["difference"]
        (a,), (b,) = batches(head), batches(head, rng_seed=1)
        keys = [set(zip(x.seed_number.tolist(), x.direction_number.tolist(), strict=True)) for x in (a, b)]
        assert (planted["seed"], planted["direction"]) in keys[0] & keys[1]
        half, step = planted["half"], planted["step"]
        for word in (f"seed {planted['seed']}", f"direction {planted['direction']}", f"step {step} {half}"):
            assert word in done.out
        ways = [self.from_the_seed(x, planted["seed"], planted["direction"], half) for x in (a, b)]
        assert np.array_equal(ways[0][:step], ways[1][:step])
        for way, point in zip(ways, planted["points"], strict=True):
            assert way[step].tolist() == point
        points = [set(map(tuple, x.points.tolist())) for x in (a, b)]
        assert tuple(planted["points"][0]) in points[0] - points[1]
        assert tuple(planted["points"][1]) in points[1] - points[0]

    @pytest.mark.nightly
    def test_do_not_count_when_fast(self, verify):
        chosen = [Variant("cpu", others={"exact": True, "rng_seed": seed}) for seed in (0, 1)]  # compiled already
        done, report = verify(chosen, "--fast")
        assert done.code == 0
        assert not report["equal"]
        assert "differs from cpu" in done.out


class TestFailures:
    def test_a_crash(self, verify, monkeypatch):
        words = "import os, sys; print('last words', file=sys.stderr); os.abort()"
        monkeypatch.setattr(verifying, "module_command", lambda *_: helper(words))
        done, report = verify([Variant("cpu")])
        assert done.code == 1
        assert report["runs"][0]["outcome"] == "failed"
        assert "last words" in done.out

    def test_time_limit(self, verify):
        done, _ = verify([Variant("cpu")], "--time-limit", 0.05)
        assert done.code == 1
        assert "stopped after 0.05 s" in done.out

    def test_wrong_use(self, run, head):
        assert run("verify", head.series[0]).code == 2
        assert run("verify", "--max-angle", 100).code == 2
        assert run("verify", "--arch", "opencl").code == 2
        assert run("verify", "--seeds", "a.npy", "--nseeds", 3).code == 2

    def test_no_report_over_another_file(self, run, tmp_path):
        (tmp_path / "a.json").write_text("{}")
        assert run("verify", "--json", tmp_path / "a.json").code == 1


def test_help(run):
    shown = " ".join(run("verify", "--help").out.split())
    for word in ("[DWI BVALS BVECS]", "--nseeds", "default: 200 seeds", "--time-limit", "--json", "--fast", "--mask"):
        assert word in shown
    assert f"chunks of {' and '.join(map(str, verifying.CHUNK_SIZES))} seeds" in shown
    for name in ("--chunk-size", "--json-stats"):
        assert name not in shown


SEED = [0.5, 0.25, 0]


def batch(*halves):
    """Streamlines along x through SEED with so many steps backward and forward."""
    points = [np.array(SEED) + [[k, 0, 0] for k in range(-back, ahead + 1)] for back, ahead in halves]
    n = len(halves)
    offsets = np.concatenate([[0], np.cumsum([len(p) for p in points])])
    return Batch(
        np.concatenate(points), offsets, np.tile(SEED, (n, 1)), 10 + np.arange(n), np.zeros(n), np.ones((n, 2))
    )


class TestFirstDifference:
    halves = ((2, 3), (4, 1), (3, 5))

    def difference(self, other):
        return first_difference([batch(*self.halves)], [other])

    def test_none(self):
        assert self.difference(batch(*self.halves)) is None

    @pytest.mark.parametrize(
        ("streamline", "point", "half", "step"), [(0, 5, "forward", 3), (1, 1, "backward", 3), (2, 3, "forward", 0)]
    )
    def test_a_bit(self, streamline, point, half, step):
        other = batch(*self.halves)
        other.points.view(np.uint32)[other.offsets[streamline] + point, 1] ^= 1
        first = self.difference(other)
        assert (first.streamline, first.seed, first.half, first.step) == (streamline, 10 + streamline, half, step)
        assert first.points[0] != first.points[1]

    def test_minus_zero_is_another_bit(self):
        other = batch(*self.halves)
        other.points[8, 2] = -0.0
        assert self.difference(other).streamline == 1

    def test_a_longer_backward_half(self):
        first = self.difference(batch((2, 3), (5, 1), (3, 5)))
        assert (first.streamline, first.half, first.step) == (1, "backward", 5)
        assert first.points[0] is None
        assert "no point against (-4.5 0.25 0) mm" in str(first)

    def test_the_first_of_several(self):
        other = batch((2, 3), (4, 2), (3, 4))
        other.points[0, 0] += 1
        assert self.difference(other).streamline == 0

    def test_a_streamline_that_only_one_has(self):
        first = self.difference(batch(*self.halves[:2]))
        assert (first.streamline, first.seed, first.step) == (2, 12, None)
        assert "only one run has" in str(first)

    def test_nothing_at_all(self):
        empty = Batch(np.empty((0, 3)), np.array([0]), *(np.empty(s) for s in ((0, 3), 0, 0, (0, 2))))
        assert self.difference(empty).streamline == 0

    def test_in_a_later_batch(self):
        other = batch(*self.halves)
        other.points[-1, 0] += 1
        first = first_difference(*([whole[:2], whole[2:]] for whole in (batch(*self.halves), other)))
        assert (first.streamline, first.seed, first.half, first.step) == (2, 12, "forward", 5)
        assert first_difference([batch(*self.halves)[:2]], [batch(*self.halves)[:2], other[2:]]).streamline == 2
