"""The command line's direction getters: their defaults, orientations from a file, references."""

import json

import numpy as np
import pytest
from commands import one_line
from written import STEP, read, save

from tistreamlines.cli.progress import Display
from tistreamlines.fit.models import MODELS
from tistreamlines.space.sphere import load_sphere
from tistreamlines.tracking.references import REFERENCES
from tistreamlines.tracking.registry import METHODS, citations


@pytest.fixture(scope="module")
def maps(head, tmp_path_factory):
    """A file of samples on the sphere, a stop map and a region."""
    folder = tmp_path_factory.mktemp("maps")
    phantom, vertices = head.phantom, load_sphere("default")[0]
    along = (np.abs(vertices[:, 1]) ** 20).astype(np.float32)
    pmf = np.where(phantom.mask[..., None], along, 0)
    mask = phantom.mask.astype(np.float32)
    volumes = {"pmf": pmf, "stop-map": mask, "seed-mask": mask}
    return {name: save(folder / f"{name}.nii.gz", volume, head) for name, volume in volumes.items()}


class TestGetters:
    def without_series(self, run, maps, output, *options):
        files = [word for name, path in maps.items() for word in (f"--{name}", path)]
        return run("track", *files, "-o", output, "--arch", "cpu", "--nseeds", 100, *options)

    @pytest.mark.parametrize(("dg", "options"), [("prob", ()), ("det", ("--dg", "det"))])
    def test_without_a_series(self, run, head, maps, tmp_path, dg, options):
        done = self.without_series(run, maps, tmp_path / "a.tck", *options)
        assert done.code == 0, done.err
        sidecar = json.loads((tmp_path / "a.json").read_text())
        assert set(sidecar["inputs"]) == {"pmf", "stop_map", "seed_mask"}
        recorded = sidecar["parameters"]
        assert (recorded["dg"], recorded["min_separation_angle"]) == (dg, 25)
        assert (recorded["max_angle"], recorded["pmf_threshold"]) == ((25, 0.2) if dg == "prob" else (20, 0.1))
        assert (recorded["model"], recorded["boot_rule"]) == (None, None)
        steps = np.concatenate([np.diff(s, axis=0) for s in read(tmp_path / "a.tck")])
        axis = head.phantom.affine[:3, 1] / STEP / 2
        assert np.abs(steps @ axis / STEP).min() > np.cos(np.radians(30))
        if dg == "det":
            assert len({tuple(np.abs(step).round(3)) for step in steps}) == 1

    def test_csd_by_default(self, track, tmp_path):
        written = ("--json-stats", tmp_path / "s.json", "--cache-dir", tmp_path / "cache")  # which is empty
        done = track(tmp_path / "a.trx", "--dg", "prob", "-v", *written)
        assert done.code == 0, done.err
        assert "Fitting the model" in done.err
        assert json.loads((tmp_path / "s.json").read_text())["seconds"]["fit"] > 0
        recorded = json.loads((tmp_path / "a.json").read_text())["parameters"]
        assert [recorded[name] for name in ("model", "sh_order", "fa_response", "pmf_rows")] == ["csd", None, 0.7, "sh"]
        assert len(read(tmp_path / "a.trx")) > 200

    def test_wrong_use(self, run, track, maps, tmp_path):
        output, line = tmp_path / "a.trx", one_line
        line(track(output, "--dg", "prob", "--boot-rule", "dipy"), 2, "--boot-rule", "--dg boot")
        line(track(output, "--det-rule", "max"), 2, "--det-rule", "--dg det")
        line(track(output, "--sh", "a.nii.gz"), 2, "--sh-basis")
        line(self.without_series(run, maps, output, "--peaks", "a.nii.gz"), 2, "--pmf", "--peaks")
        line(self.without_series(run, maps, output, "--dg", "boot"), 2, "--pmf", "--dg prob")
        line(run("track", "-o", output), 2, "DWI, BVALS and BVECS")
        line(run("track", "--pmf", maps["pmf"], "-o", output), 2, "--stop-map")
        line(self.without_series(run, maps, output, "--sphere", "small"), 1, "pmf.nii.gz", "--sphere default")
        line(run("track", "dwi.nii", "-o", output), 1, "dwi.nii: no such file")
        assert not list(tmp_path.iterdir())

    def test_citations(self, run):
        for dg, getter in METHODS.items():
            shown = run("track", "--citations", "--dg", dg)
            assert shown.code == 0
            assert shown.out.splitlines() == citations(dg, getter.defaults.get("model"))
        shown = run("track", "--citations", "--pmf", "a.nii.gz", "--dg", "det").out
        assert REFERENCES["Basser 2000"] in shown
        assert not any(REFERENCES[name] in shown for name in MODELS["csd"].references)
        assert run("track", "--citations", "--dg", "boot", "--model", "csd").code == 2


def test_a_terminal_sees_the_share_fitted(monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with Display() as display:
        display.stage("fit")
        display.fitted(0.5)
        task = display._picture.task
        assert (task.percentage, task.description) == (50, "Fitting the model")
        begun = task.start_time
        display.stage("prepare")
        assert (task.total, task.start_time, task.description) == (None, begun, "Preparing")
