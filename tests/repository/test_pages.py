"""Commands and numbers of the pages: each command can be run as written, and numbers are those of today's code."""

import importlib.util
import json
import re
import sys
from itertools import pairwise

import pytest
from places import DATA, ROOT

BRAIN = DATA / "sherbrooke_1p8mm"
needs_brain = pytest.mark.skipif(not BRAIN.is_dir(), reason="no real data at ../shared/data/sherbrooke_1p8mm")
NUMBERS = json.loads((ROOT / "benchmarks" / "results" / "two-cores-tutorial.json").read_text(encoding="utf-8"))
COUNTS = re.compile(r"([\d,]+ streamlines from [\d,]+ seeds, [\d.]+ mm on average|Dropped: .*|Ends: .*)")


def script(name):
    """A script of docs/, which imports ``commands`` of docs/; the tests have a module of that name, too."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    commands_of_tests = sys.modules.pop("commands", None)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        if commands_of_tests is not None:
            sys.modules["commands"] = commands_of_tests
    return module


def test_every_block_of_commands_is_run():
    """A block in the language of a shell has commands, and none of their input files is unknown."""
    pages = script("commands")
    blocks = sum(len(re.findall(r"^```(?:bash|sh)?\n.", (ROOT / page).read_text(encoding="utf-8"), re.M))
                 for page in pages.PAGES)
    steps = [step for page in pages.PAGES for step in pages.steps(page)]
    assert len(steps) > blocks > 40
    known, lost = set(pages.NAMES), []
    for page in pages.PAGES:
        outputs = set()
        for step in pages.steps(page):
            words = step.command.replace("=", " ").split()
            outputs |= {word for option, word in pairwise(words) if option in ("-o", "--resume")}
            outputs |= set() if words[0] == "tistreamlines" else set(words)  # other programs make files, too
            first = [word for word in words[2:4] if re.fullmatch(r"[\w+.-]+\.(nii\.gz|mif|mgz|tck|trx)", word)]
            lost += [(step.page, word) for word in first if word not in known | outputs and not step.reason]
    assert not lost, lost


def test_a_page_is_run(tmp_path):
    """A command that works, and one that fails."""
    pages = script("commands")
    folder = tmp_path / "pages"
    commands = ("tistreamlines track --dg prob --citations", "false")
    failed = pages.follow([pages.Step("page.md", "a", command) for command in commands], folder, tmp_path)
    assert [(step.command, code) for step, code, _ in failed] == [("false", 1)]


def test_the_picture_is_of_the_run_of_the_numbers():
    (name, digest), = NUMBERS["pictures"].items()
    assert script("tutorial").digest(ROOT / "docs" / "images" / name) == digest


@pytest.mark.nightly
@needs_brain
def test_numbers_of_the_tutorial_are_of_todays_code(tmp_path):
    """The first command and the demo, as they are written; those of other machines have other times.

    Nightly, since these are whole runs of a brain and of the demo.
    """
    files = {name: str(BRAIN / name) for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz")}
    printed = script("tutorial").run_the_page(files, tmp_path, frozenset({"brain"}))
    assert COUNTS.findall(printed["brain"]) == COUNTS.findall(NUMBERS["printed"]["brain"])
    record = json.loads((tmp_path / "tistreamlines-demo" / "streamlines.json").read_text(encoding="utf-8"))
    for name in ("streamlines", "points", "mean_mm", "stop_reasons", "dropped"):
        assert record["result"][name] == NUMBERS["demo"][name], "run docs/tutorial.py, and docs/generate.py"


def test_a_number_that_is_stale_is_found():
    old = "brain.trx: 34,338 streamlines from 20,000 seeds, 60.8 mm on average (68.7 points); 33.8 s in all"
    assert COUNTS.findall(old) == ["34,338 streamlines from 20,000 seeds, 60.8 mm on average"]
