"""Names that users of other programs try get a line that says what to do here."""

import re
import runpy
import shutil
import subprocess

import click
import pytest
from click.testing import CliRunner
from commands import one_line
from places import ROOT

from tistreamlines.cli.hints import ADVICE, HINTS, PROGRAMS, refuse_foreign
from tistreamlines.cli.track import track as command
from tistreamlines.errors import ParameterError

PARAMETERS = command.get_params(click.Context(command))
EQUIVALENTS = runpy.run_path(str(ROOT / "docs" / "equivalents.py"))
ALIKE, DIPY_NAMES = EQUIVALENTS["ALIKE"], EQUIVALENTS["DIPY_NAMES"]
KNOWN = {name for parameter in PARAMETERS for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("-backtrack",), ("-backtrack is not an option", "write --backtrack")),
        (("--avoid", "roi.nii.gz"), ("write --exclude",)),
        (("-include=roi.nii.gz",), ("-include is not an option", "write --include")),
        (("-select", "1000"), ("write --select",)),
        (("-seed_unidirectional",), ("write --one-way",)),
        (("-angle", "45"), ("--max-angle",)),
        (("-step", "0.5"), ("--step-size",)),
        (("-cutoff", "0.1"), ("write --cutoff", "--pmf-threshold")),
        (("-samples", "4"), ("write --samples",)),
        (("-seed_image", "wm.nii.gz"), ("--seed-mask",)),
        (("-seeds", "1000"), ("--nseeds",)),
        (("-maxlength", "100"), ("--max-length",)),
        (("-nthreads", "2"), ("--threads",)),
        (("--max_angle", "45"), ("write --max-angle",)),
        (("-force",), ("write --force",)),
        (("-odf", "a.nii.gz"), ("write --odf",)),
        (("--seed=thalamus.nii.gz",), ("--seed-mask FILE", "--rng-seed")),
        (("--targetmasks=list.txt",), ("--targets, once for each mask",)),
        (("--os2t",), ("write --seeds-to-targets SEEDS FILE",)),
        (("--xfm=a.mat",), ("--xfm is not an option", "scanner space")),
        (("--loopcheck",), ("not checked for loops",)),
        (("-mask", "brain.nii.gz"), ("-mask is not an option", "write --mask with", "--limit-mask")),
    ],
)
def test_what_to_do_instead(run, tmp_path, arguments, words):
    one_line(run("track", "dwi.nii", "bval", "bvec", "-o", tmp_path / "a.trx", *arguments), 2, *words)


def test_advice_about_tracking_is_not_given_where_an_option_means_something_else(run, tmp_path):
    call = ("fixels", "fod.mif", tmp_path / "out")
    one_line(run(*call, "-mask", "mask.mif"), 2, "-mask is not an option", "write --mask\n")
    one_line(run(*call, "-fmls_integral", "0.1"), 2, "write --fmls-integral\n")
    one_line(run(*call, "-nthreads", "2"), 2, "write --threads\n")


def test_hints_name_options_that_are_there():
    named = {name for text in (*ADVICE.values(), *DIPY_NAMES.values()) for name in re.findall(r"--[a-z-]+", text)}
    assert len(named) > 15
    assert named <= KNOWN | {"--version"}
    known = {"--seeds", "--seed-image", "--seed-gmwmi", "--mask", "--cutoff"}
    assert not {f"--{name}" for name in ADVICE} & (KNOWN - known)
    assert {f"--{name}" for name in ALIKE} <= KNOWN


def test_the_programs_differ_in_no_advice():
    """A name that two programs have means the same in both."""
    advice: dict[str, set[str]] = {}
    for hint in HINTS:
        for name in {name for program in PROGRAMS for name in hint.of(program)}:
            advice.setdefault(name, set()).add(hint.advice)
    assert all(len(texts) == 1 for texts in advice.values())


@pytest.mark.skipif(shutil.which("tckgen") is None, reason="tckgen is not installed: install mrtrix3")
def test_every_option_of_tckgen_gets_advice():
    usage = subprocess.run(["tckgen", "__print_full_usage__"], capture_output=True, text=True, check=True).stdout
    theirs = {line.split()[1].replace("_", "-") for line in usage.splitlines() if line.startswith("OPTION")}
    assert len(theirs) > 30
    newer = {"sgm-truncation"}  # of its development version
    assert theirs | newer == {*ALIKE, *(name for hint in HINTS for name in hint.of("tckgen"))}


def test_our_own_options_and_typing_errors_are_left_alone():
    words = ["a", "-o", "b.trx", "-qv", "-v", "--seeds", "x", "--no-such", "-1", "-", "--", "--avoid"]
    refuse_foreign(words, KNOWN)
    assert "Did you mean" in CliRunner().invoke(command, ["--max-angl", "3"]).output
    with pytest.raises(ParameterError):
        refuse_foreign(["--avoid"], KNOWN)
