"""Names that users of other programs try get a line that says what to do here."""

import re

import pytest
from click.testing import CliRunner
from test_cli_getters import one_line

from tistreamlines.cli.hints import HINTS, refuse_foreign
from tistreamlines.cli.track import track as command
from tistreamlines.errors import ParameterError

KNOWN = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--act", "5tt.mif"), ("--act is not an option", "--stopping act")),
        (("--avoid", "roi.nii.gz"), ("write --exclude",)),
        (("-include=roi.nii.gz",), ("-include is not an option", "write --include")),
        (("-select", "1000"), ("write --select",)),
        (("-seed_unidirectional",), ("write --one-way",)),
        (("-angle", "45"), ("--max-angle",)),
        (("-step", "0.5"), ("--step-size",)),
        (("-cutoff", "0.1"), ("--pmf-threshold",)),
        (("-seed_image", "wm.nii.gz"), ("--seed-mask",)),
        (("-seeds", "1000"), ("--nseeds",)),
        (("-maxlength", "100"), ("--max-length",)),
        (("-nthreads", "2"), ("--threads",)),
        (("--max_angle", "45"), ("write --max-angle",)),
        (("-force",), ("write --force",)),
        (("-odf", "a.nii.gz"), ("write --odf",)),
    ],
)  # fmt: skip
def test_what_to_do_instead(run, tmp_path, given, words):
    one_line(run("track", "dwi.nii", "bval", "bvec", "-o", tmp_path / "a.trx", *given), 2, *words)


def test_hints_name_options_that_are_there():
    named = {name for text in HINTS.values() for name in re.findall(r"--[a-z-]+", text)}
    assert len(named) > 15
    assert named <= KNOWN
    assert not {f"--{name}" for name in HINTS} & (KNOWN - {"--seeds", "--seed-image"})


def test_our_own_options_and_typing_errors_are_left_alone():
    refuse_foreign(["a", "-o", "b.trx", "-qv", "-v", "--seeds", "x", "--no-such", "-1", "-", "--", "--act"], KNOWN)
    assert "Did you mean" in CliRunner().invoke(command, ["--max-angl", "3"]).output
    with pytest.raises(ParameterError):
        refuse_foreign(["--act"], KNOWN)


@pytest.mark.parametrize("name", ["dwi.mif", "dwi.MIF.gz", "dwi.mih"])
def test_mrtrix_images(run, tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"mrtrix image\n")
    done = run("track", path, path, path, "-o", tmp_path / "a.trx", "--arch", "cpu")
    one_line(done, 1, f"mrconvert {name} dwi.nii.gz", "-export_grad_fsl dwi.bvec dwi.bval")
