"""``tistreamlines batch``: tables and templates, the bytes of each subject, its failures, and which one may track.

Some tests replace the processes of subjects by small programs, which send the messages of a run.
"""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from itertools import pairwise

import numpy as np
import pytest
from commands import one_line
from small_runs import words_of, write_inputs

import tistreamlines as ts
from tistreamlines.cli import supervision
from tistreamlines.cli.cohort import read_subjects
from tistreamlines.run.log import Log

NAMES = ("sub-01", "sub-02", "sub-03")
# A subject that never ends by itself, and notes its number.
ENDLESS = "import os, sys; open('pids', 'a').write(f'{os.getpid()}\\n'); print('{}', flush=True); os.read(0, 1)"
# A subject with all stages, which notes the times of some of them.
STAGES = """
import json, sys, time
def tell(**message): print(json.dumps(message), flush=True)
def note(what): open("times", "a").write(f"{time.monotonic()} {sys.argv[-1]} {what}\\n")
note("begins")
tell(stage="load"); tell(share=0.5)
tell(stage="wait"); sys.stdin.readline()
note("tracks"); tell(stage="track"); time.sleep(0.3); note("tracked")
tell(stage="write"); time.sleep(0.3); note("ends")
sys.exit("Error: no record")
"""


@pytest.fixture
def cohort(tmp_path, monkeypatch):
    """Three subjects and their table, in the current folder; return a template, and the options of each."""
    monkeypatch.chdir(tmp_path)
    options = {}
    for name in NAMES:
        (tmp_path / name).mkdir()
        options[name] = write_inputs(tmp_path / name)
    np.save("sub-02/seeds.npy", np.load("sub-02/seeds.npy")[:50])
    (tmp_path / "participants.tsv").write_text("participant_id\tage\n" + "".join(f"{name}\tn/a\n" for name in NAMES))
    words = [word.replace(f"{tmp_path}/sub-01", "{participant_id}") for word in words_of(options["sub-01"])]
    return ["track", *words, "--arch", "cpu", "-o", "out/{participant_id}/a.trx"], options


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """Let a program take the place of each subject's process; return the subjects of a table."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("id\n" + "".join(f"{name}\n" for name in NAMES))

    def replaced(program):
        command = [sys.executable, "-c", program]
        monkeypatch.setattr(supervision, "module", lambda _, *words: [*command, words[-1]])
        return read_subjects(tmp_path / "a.tsv", ("track", "{id}.nii.gz", "-o", "{id}.trx"))

    return replaced


def outcomes(subjects, *, jobs=2, fail_fast=False):
    """How the subjects end, in the order in which they do."""
    ends = []
    supervisor = supervision.Supervisor(jobs, fail_fast=fail_fast, tell=lambda *_: None)
    supervisor.run(subjects, lambda subject, outcome: ends.append((subject.name, outcome)))
    return ends


# ------------------------------------------------------------------------------------------------ tables and templates
@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.tsv", b"", ("has no subjects",)),
        ("a.tsv", b"id\tdwi\n\n", ("has no subjects",)),
        ("a.tsv", b"id\tdwi\n1\ta.nii\n2\n", ("a.tsv, line 3", "1 cells", "2 columns")),
        ("a.tsv", b"id\tid\n1\t2\n", ("two columns 'id'",)),
        ("a.tsv", b"id\tdwi\n1\tn/a\n", ("line 2 (1)", "no value", "dwi")),
        ("a.tsv", b"id\tdwi\n1\t\n", ("line 2 (1)", "no value", "dwi")),
        ("a.tsv", "id\tdwi\n1\té\n".encode("latin-1"), ("not in UTF-8", "byte 10")),
        ("a.tsv", "id\tdwi\n1\ta\n".encode("utf-16"), ("not in UTF-8",)),
        ("a.tsv", b"id\tdwi\n1\ta\0b\n", ("NUL",)),
        ("a.csv", b'id,dwi\n1,"a' + b"b" * 200_000, ("a.csv, line", "cannot be read")),
        ("a.txt", b"id dwi\n1 a\n", ("unknown suffix", ".tsv")),
        ("none.tsv", None, ("no such file",)),
    ],
)
def test_a_table_that_cannot_be_used(run, tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    one_line(run("batch", tmp_path / name, "--", "track", "{dwi}", "-o", "{id}.trx"), 1, *words)


@pytest.mark.parametrize(
    ("template", "words"),
    [
        ((), ("the command is missing",)),
        (("map", "{dwi}"), ("'map'", "track")),
        (("track", "{bval}", "-o", "{id}.trx"), ("{bval} is no column", "id, dwi")),
        (("track", "{dwi}", "-o", "a.trx"), ("lines 2 and 3 (1, 2)", "a.trx", "{id}")),
        (("track", "{dwi}", "-o", "{id}.trx", "--json-stats", "a.json"), ("both write", "a.json")),
        (("track", "{dwi}", "-o", "./{id}.trx", "--max-angle", "200"), ("line 2 (1)", "--max-angle is 200")),
        (("track", "{dwi}", "-o", "{id}.trx", "--maximum", "2"), ("line 2 (1)", "--maximum")),
        (("track", "{dwi}", "-o", "{id}.trx", "--dry-run"), ("--dry-run",)),
        (("track", "{dwi}", "x", "-o", "{id}.trx"), ("BVALS",)),
        (("track", "{dwi}"), ("-o",)),
        (("track", "{dwi}", "-o", "-x{id}", "--jobs", "2"), ("--jobs",)),
    ],
)
def test_a_command_that_cannot_be_used(run, tmp_path, template, words):
    """Nothing begins: the first row with an error ends it."""
    (tmp_path / "a.tsv").write_text("id\tdwi\n1\ta.nii\n2\tb.nii\n")
    one_line(run("batch", tmp_path / "a.tsv", "--", *template), 2, *words)


def test_options_without_the_dashes_before_them(run, tmp_path):
    outcome = run("batch", tmp_path / "a.tsv", "track", "{dwi}", "--mask", "{mask}")
    assert outcome.code == 2
    assert "after --" in outcome.err.splitlines()[-1]


@pytest.mark.parametrize(("suffix", "tab"), [(".tsv", "\t"), (".csv", ",")])
def test_dry_run_prints_commands_for_a_shell(run, tmp_path, suffix, tab):
    """With a mark of UTF-8, lines of Windows and an empty last one, as spreadsheets write them."""
    rows = (("id", "a folder", "mask"), ("é", "x y", "m.nii"), ("2", "$(z)'", "n/a"))
    text = "\r\n".join(map(tab.join, rows)) + "\r\n\r\n"
    (tmp_path / f"a{suffix}").write_bytes(b"\xef\xbb\xbf" + text.encode())
    template = ("tistreamlines", "track", "{a folder}/{{dwi}}.nii", "--mask", "m", "-o", "{id}.trx")
    shown = run("batch", tmp_path / f"a{suffix}", "--dry-run", "--resume", "--", *template)
    assert shown.code == 0, shown.err
    assert [shlex.split(line) for line in shown.out.splitlines()] == [
        ["tistreamlines", "track", f"{folder}/{{dwi}}.nii", "--mask", "m", "-o", f"{name}.trx", "--resume"]
        for name, folder in (("é", "x y"), ("2", "$(z)'"))
    ]


# ------------------------------------------------------------------------------------------------------------ subjects
def test_subjects_fail_alone_and_those_that_are_done_are_left_out(run, cohort, tmp_path):
    """Bytes are those of a run in Python; a repaired subject, another option and a new input are seen."""
    template, options = cohort
    (tmp_path / "sub-03" / "stop.nii.gz").rename("kept")
    first = run("batch", "participants.tsv", "--", *template)
    assert first.code == 3
    assert "sub-01" in first.out
    assert [line for line in first.err.splitlines() if "Error" in line] == [
        "Error: sub-03: sub-03/stop.nii.gz: no such file; check the path"
    ]
    for name in NAMES[:2]:
        ts.track(output=tmp_path / "alone.trx", **options[name], force=True)
        assert (tmp_path / "out" / name / "a.trx").read_bytes() == (tmp_path / "alone.trx").read_bytes()
    log = (tmp_path / "out" / "sub-01" / "a.trx.log").read_text()
    assert log.startswith("$ tistreamlines track ")
    assert "120 streamlines" in log
    (tmp_path / "kept").rename("sub-03/stop.nii.gz")
    again = run("batch", "participants.tsv", "--", *template)
    assert again.code == 0, again.err
    rows = {line.split()[0]: line.split()[1:] for line in again.out.splitlines()[1:]}
    assert rows.pop("sub-03")[0] == "done"
    assert rows == {"sub-01": ["done", "before", "120"], "sub-02": ["done", "before", "50"]}
    other = run("batch", "participants.tsv", "-q", "--", *template, "--max-angle", "40")
    assert (other.code, other.out) == (3, "")
    assert other.err.count("--max-angle was ") == 3
    os.utime("sub-01/seeds.npy")  # which is no change
    np.save("sub-02/seeds.npy", np.load("sub-02/seeds.npy")[:40])
    changed = run("batch", "participants.tsv", "-q", "--", *template)
    assert changed.code == 3
    assert "sub-02/seeds.npy has changed" in changed.err
    assert changed.err.count("\n") == 1


def test_files_of_a_run_that_is_not_complete_are_named(run, cohort, tmp_path):
    """Whether some are missing, as after a kill, or the tractogram is cut off; then the command goes on."""
    words = ("batch", "participants.tsv", "-q", "--", *cohort[0], "--density", "out/{participant_id}/n.nii.gz")
    assert run(*words).code == 0
    first, second, third = (tmp_path / "out" / name for name in NAMES)
    (first / "a.trx").unlink()
    (first / "a.json").unlink()
    (second / "a.trx").write_bytes((whole := (second / "a.trx").read_bytes())[:-40])
    kept = (third / "a.trx").read_bytes()
    again = run(*words)
    assert again.code == 3
    there = "out/sub-02/n.nii.gz, out/sub-02/a.trx, out/sub-02/a.json"
    assert sorted(again.err.splitlines()) == [
        f"Error: {name}: {lack}, so the run is not complete, or its files are damaged; remove {files}, or add --force"
        for name, lack, files in (
            ("sub-01", "out/sub-01/a.trx is missing", "out/sub-01/n.nii.gz"),
            ("sub-02", "out/sub-02/a.json does not describe them", there),
        )
    ]
    for path in (first / "n.nii.gz", *map(tmp_path.joinpath, there.split(", "))):
        path.unlink()
    assert run(*words).code == 0
    assert ((second / "a.trx").read_bytes(), (third / "a.trx").read_bytes()) == (whole, kept)


def test_one_tracks_while_the_next_one_is_read(programs, tmp_path):
    assert [outcome.message for _, outcome in outcomes(programs(STAGES))] == ["no record"] * 3
    rows = [line.split() for line in (tmp_path / "times").read_text().splitlines()]
    times = {(name, what): float(at) for at, name, what in rows}
    names = [name for (name, what), _ in sorted(times.items(), key=lambda row: row[1]) if what == "tracks"]
    for before, after in pairwise(names):
        assert times[before, "tracked"] < times[after, "tracks"] + 0.05
    assert times[names[1], "begins"] < times[names[0], "tracked"]
    assert times[names[1], "tracks"] < times[names[0], "ends"]


def test_how_a_process_has_failed(programs):
    if os.name != "nt":
        for number, name in ((9, "SIGKILL"), (40, "signal 40")):
            killed = programs(f"import os; os.kill(os.getpid(), {number})")
            assert {outcome.message for _, outcome in outcomes(killed)} == {f"it was ended by {name}"}
    assert {outcome.message for _, outcome in outcomes(programs("import sys; sys.exit('odd\\n')"))} == {
        "it has ended with code 1: odd"
    }


def test_fail_fast_begins_no_other_subject(programs):
    ends = dict(outcomes(programs("import sys; sys.exit(1)"), jobs=1, fail_fast=True))
    assert [ends[name].state for name in NAMES] == ["failed", "not started", "not started"]


@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
@pytest.mark.parametrize("group", [False, True])
def test_ctrl_c_ends_all_processes(tmp_path, group):
    """Whether a terminal sends it to all of them, or somebody to the first."""
    (tmp_path / "a.tsv").write_text("id\n1\n2\n3\n")
    code = (
        f"import sys\nfrom tistreamlines.cli import supervision\nfrom tistreamlines.__main__ import main\n"
        f"supervision.module = lambda *_: [sys.executable, '-c', {ENDLESS!r}]\nmain()\n"
    )
    command = [sys.executable, "-c", code, "batch", "a.tsv", "--", "track", "{id}.nii.gz", "-o", "{id}.trx"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True, start_new_session=True) as process:
        try:
            started = wait_for_lines(tmp_path / "pids", 2)
            os.killpg(process.pid, signal.SIGINT) if group else process.send_signal(signal.SIGINT)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert err == "Interrupted: the files of 0 of 3 subjects are there; give the same command to go on\n"
    for number in started:
        with pytest.raises(ProcessLookupError):
            os.kill(int(number), 0)


def wait_for_lines(path, count, seconds=60):
    """The lines of a file, once there are so many."""
    last = time.monotonic() + seconds
    while time.monotonic() < last:
        if path.exists() and len(lines := path.read_text().splitlines()) >= count:
            return lines
        time.sleep(0.02)
    raise TimeoutError(path)


def test_the_time_of_waiting_is_none_of_the_run():
    class Slow(ts.Watcher):
        def await_device(self):
            time.sleep(0.5)

    log = Log(Slow())
    log.await_device()
    assert log.durations()["total"] < 0.4


def test_a_run_waits_for_its_turn_and_ends_with_its_parent():
    code = (
        "from tistreamlines.cli.turns import TurnDisplay\n"
        "display = TurnDisplay(quiet=False, verbose=0)\ndisplay.progress(1, 2, 3)\ndisplay.await_device()\n"
        "display.stage('track')\nprint('printed')\ndisplay.await_device()\nimport time\ntime.sleep(60)\n"
    )
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert json.loads(process.stdout.readline()) == {"share": 0.5, "streamlines": 3}
            assert json.loads(process.stdout.readline()) == {"stage": "wait"}
            process.stdin.write("\n")
            process.stdin.flush()
            assert json.loads(process.stdout.readline()) == {"stage": "track"}
            assert json.loads(process.stdout.readline()) == {"stage": "wait"}
            process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == (-signal.SIGTERM if os.name != "nt" else signal.SIGTERM)
