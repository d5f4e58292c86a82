"""``-vv``: which process does what, and how long it takes."""

import re

import pytest
from commands import python
from small_runs import write_inputs

import tistreamlines as ts

EVENT = re.compile(r"^\d\d:\d\d:\d\d\.\d{3} process (\d+): (.*)$", re.MULTILINE)


def words_of(folder, **more):
    named = write_inputs(folder) | {"output": folder / "out.tck", **more}
    return [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", value)]


def track(words, option):
    done = python("-m", "tistreamlines", "track", *words, "--force", option)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.nightly
def test_processes_say_what_they_compile(tmp_path, monkeypatch):
    """Nightly, since all is compiled."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    cold = track(words_of(tmp_path), "-vv")
    (run, first), *others = EVENT.findall(cold.stderr)
    assert first == "begins"
    line = r"run_advance of \w+\.py: compiled by Numba: \d+\.\d\d s"
    compiled = [number for number, what in others if re.fullmatch(line, what)]
    starts = re.findall(r"starts process (\d+), which compiles", cold.stderr)
    assert compiled in ([run], [number for number in starts if number in compiled])


def test_processes_say_what_they_do(tmp_path):
    """Of a warm run, and one that is less verbose."""
    words = words_of(tmp_path)
    ts.track(**write_inputs(tmp_path))  # compiles
    warm, brief = (track(words, option) for option in ("-vv", "-v"))
    (_, first), *_ = EVENT.findall(warm.stderr)
    assert first == "begins"
    assert re.search(r"^Stages: Reading \d+\.\d\d s, .*Tracking \d+\.\d\d s", warm.stderr, re.MULTILINE)
    assert re.search(r"(tistreamlines_\w{24})-run_advance-\w{24}\.bin: from the cache", warm.stderr)
    assert "compiled by" not in warm.stderr
    assert not EVENT.findall(brief.stderr)
    assert "Stages" not in brief.stderr
    lines = re.sub(r"\d+\.\d+ s", "", EVENT.sub("", warm.stderr).partition("Stages: ")[0]).split("\n")
    assert [line for line in lines if line] == re.sub(r"\d+\.\d+ s", "", brief.stderr).splitlines()


def test_quiet_runs_say_nothing(tmp_path):
    done = python("-m", "tistreamlines", "track", *words_of(tmp_path), "-q")
    assert (done.returncode, done.stderr) == (0, "")
