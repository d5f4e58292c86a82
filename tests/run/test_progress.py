"""What a user sees of a run while it goes on, and that the seconds of its stages are those of the whole."""

import contextlib
import io
import json
import re
import time

import nibabel as nib
import numpy as np
import pytest
from commands import python
from fods import random_fods
from nights import at_night
from small_runs import SHAPE, write_inputs

import tistreamlines as ts
from tistreamlines.cli.progress import Display
from tistreamlines.fit import lobes
from tistreamlines.run import progress
from tistreamlines.run.progress import STAGES, Bar

# a notebook of one cell, run by a kernel as Jupyter starts it; prints what the cell shows
NOTEBOOK = """
import json, sys
import nbclient, nbformat
cell = nbformat.v4.new_code_cell(sys.argv[1])
book = nbformat.v4.new_notebook(cells=[cell])
nbclient.NotebookClient(book, timeout=300, kernel_name="python3").execute()
print(json.dumps(cell.outputs))
"""
CELL = """
import json, time
import tistreamlines as ts
from tistreamlines.run import progress
progress.REFRESH = 0.05
result = ts.track(**json.loads({options!r}), progress=True)
print(result.n_streamlines)
"""


class Told(ts.Watcher):
    """A watcher that remembers."""

    def __init__(self):
        self.stages, self.shares = [], []

    def stage(self, name):
        self.stages.append(name)

    def fixels(self, share):
        self.shares.append(share)


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in"))


@pytest.fixture(scope="module")
def fod(tmp_path_factory):
    """An image of FODs on the grid of the peaks."""
    path = tmp_path_factory.mktemp("fod") / "fod.nii"
    values = random_fods(int(np.prod(SHAPE)), order=4)[0].reshape(*SHAPE, -1)
    nib.save(nib.Nifti1Image(values, np.diag([2.0, 2, 2, 1])), path)
    return path


def weighed(fod, folder):
    return {"sift2": (fod, folder / "w.txt"), "sift2_basis": "tournier07"}


# ------------------------------------------------------------------------------------------------- stages
@pytest.mark.parametrize("output", ["a.trx", *at_night(None, "a.tck")])
def test_the_seconds_of_the_stages_are_those_of_the_whole(options, fod, tmp_path, output):
    begun, watcher = time.perf_counter(), Told()
    path = None if output is None else tmp_path / output
    result = ts.track(output=path, **options, **weighed(fod, tmp_path), watcher=watcher)
    whole, seconds = time.perf_counter() - begun, result.seconds
    stages = {name: took for name, took in seconds.items() if name not in ("total", "kernels")}
    assert sum(stages.values()) == pytest.approx(seconds["total"], abs=1e-6)
    assert 0.8 * whole < seconds["total"] <= whole
    assert set(watcher.stages) >= stages.keys() - {"fit"} >= {"load", "prepare", "compile", "fixels", "track", "weigh"}
    assert set(watcher.stages) <= STAGES.keys()


def test_sift2_prepares_in_a_stage_of_its_own(options, fod, tmp_path, monkeypatch):
    """Of a run, of its seeds, and of a tractogram that is there; its share rises to 1."""
    monkeypatch.setattr(lobes, "VOXELS", 500)
    runs = {
        "track": lambda watcher: ts.track(
            output=tmp_path / "a.trx", **options, **weighed(fod, tmp_path), watcher=watcher
        ),
        "map": lambda watcher: ts.map_tractogram(
            tmp_path / "a.trx", **weighed(fod, tmp_path), force=True, watcher=watcher
        ),
        "seeds": lambda watcher: ts.track(
            sh=fod, sh_basis="tournier07", dg="ifod1", stop_mask=options["stop_map"], seed_dynamic="tracked", nseeds=50,
            arch="cpu", watcher=watcher,
        ),
    }
    for name, run in runs.items():
        watcher = Told()
        run(watcher)
        before = {"track": "compile", "map": "load", "seeds": "compile"}[name]
        assert watcher.stages[watcher.stages.index("fixels") - 1] == before, name
        assert len(watcher.shares) > 5, name
        assert watcher.shares == sorted(watcher.shares), name
        assert watcher.shares[-1] == 1, name


# ------------------------------------------------------------------------------------------------- logs
@pytest.fixture
def log(monkeypatch, capsys):
    """What is written to standard error, which is no terminal, with a minute of a tenth of a second."""
    monkeypatch.setattr(progress, "MINUTE", 0.1)
    return lambda: capsys.readouterr().err


@pytest.mark.parametrize("kind", [lambda: Display(verbose=True), Bar])
def test_a_log_gets_a_line_a_minute(log, kind):
    begun = time.perf_counter()
    with kind() as shown:
        shown.stage("compile")
        time.sleep(0.35)
        shown.stage("fixels")
        shown.fixels(0.25)
        time.sleep(0.35)
        shown.stage("track")
        shown.progress(3, 4, 1000)
        time.sleep(0.35)
    most = (time.perf_counter() - begun) / 0.1
    lines = log().splitlines()
    for pattern in (
        r"Compiling, once for these options: \d+ s so far", r"Finding fixels: 25%, \d+ s so far",
        r"Tracking: 75%, [\d,]+ streamlines/s, \d+ s so far",
    ):
        assert any(re.match(pattern, line) for line in lines), lines
    assert 3 <= sum("so far" in line for line in lines) <= most, lines
    assert isinstance(shown, Display) == any(re.fullmatch(r"Compiling: \d\.\d s", line) for line in lines)


@pytest.mark.parametrize("kind", [Display, lambda: Display(quiet=True, verbose=True), lambda: Bar(quiet=True)])
def test_one_that_asks_for_nothing_gets_none(log, kind):
    with kind() as shown:
        shown.stage("track")
        shown.progress(3, 4, 1000)
        time.sleep(0.3)
    assert log() == ""


# ------------------------------------------------------------------------------------------------- Python
def calls(options, folder):
    result = ts.track(**options, output=folder / "a.trx")
    return {
        "track": lambda **more: ts.track(**options, **more).n_streamlines,
        "stream": lambda **more: sum(map(len, ts.stream(**options, **more))),
        "estimate": lambda **more: ts.estimate(**options, **more).seeds,
        "map": lambda **more: ts.map_tractogram(result.path, ends=folder / "e.nii", force=True, **more)["streamlines"],
    }


def test_every_function_shows_its_progress(options, tmp_path, monkeypatch):
    """Each stage waits until its line is printed, since a stage may take less than the time between two lines."""
    monkeypatch.setattr(progress, "MINUTE", 0.001)
    begin = Bar.stage

    def begin_and_wait(bar, name):
        begin(bar, name)
        deadline = time.monotonic() + 30
        while f"{STAGES[name]}: " not in shown.getvalue() and time.monotonic() < deadline:
            time.sleep(0.001)

    monkeypatch.setattr(Bar, "stage", begin_and_wait)
    for name, call in calls(options, tmp_path).items():
        with contextlib.redirect_stderr(io.StringIO()) as shown:
            assert call(progress=True) == call() > 0
        assert re.search(r"^(Reading|Preparing|Compiling|Tracking).*: .*so far$", shown.getvalue(), re.MULTILINE), name
        with pytest.raises(ts.ParameterError, match="progress and watcher exclude each other"):
            call(progress=True, watcher=ts.Watcher())


class Lines:
    """A stream of which little is known, such as one that also writes to a log."""

    def __init__(self):
        self.text, self.flushed = "", ""

    def write(self, text):
        self.text += text

    def flush(self):
        self.flushed = self.text


def test_a_stream_without_more_than_it_needs_gets_whole_lines(monkeypatch):
    shown = Lines()
    monkeypatch.setattr("sys.stderr", shown)
    with Bar() as bar:
        bar.print("a line")
        assert shown.flushed == "a line\n"


@pytest.mark.parametrize("closed", [True, False])
def test_without_a_stream_nothing_is_printed(monkeypatch, closed):
    stream = io.StringIO()
    stream.close()
    monkeypatch.setattr("sys.stderr", stream if closed else None)
    with Bar() as bar:
        bar.print("a line")


def test_a_stream_that_is_left_early_ends_the_bar(options, monkeypatch):
    monkeypatch.setattr(progress, "MINUTE", 0.02)
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        batches = ts.stream(**options, chunk_size=10, progress=True)
        next(batches)
        batches.close()
        before = shown.getvalue()
        time.sleep(0.2)
        assert shown.getvalue() == before


def test_a_terminal_sees_a_bar(options, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as on a terminal
    with contextlib.redirect_stderr(io.StringIO()) as shown:
        ts.track(**options, progress=True)
    assert "elapsed" in shown.getvalue()
    assert "\x1b[" in shown.getvalue()


@pytest.mark.nightly
def test_a_notebook_sees_a_bar(options):
    """In one output that is renewed, which needs no widgets; nothing is written to standard error.

    Nightly, since Jupyter's kernel takes long to start.
    """
    for name in ("nbclient", "ipykernel"):
        pytest.importorskip(name, reason=f"needs {name}, which runs a notebook")
    done = python("-W", "ignore", "-c", NOTEBOOK, CELL.format(options=json.dumps(options)), timeout=300)
    assert done.returncode == 0, done.stderr
    outputs = json.loads(done.stdout)
    shown = [output for output in outputs if output["output_type"] == "display_data"]
    assert len(shown) == 1, outputs
    assert "elapsed" in "".join(shown[0]["data"]["text/html"])
    assert re.search("Tracking|Writing|Finishing", "".join(shown[0]["data"]["text/plain"]))
    (printed,) = [output["text"] for output in outputs if output["output_type"] == "stream"]
    assert "".join(printed).strip() == "120"
