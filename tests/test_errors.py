"""Messages name options as the command line spells them there, and as Python does everywhere else."""

from __future__ import annotations

import importlib
import pickle
import sys
import traceback

import pytest

import tistreamlines as ts
from tistreamlines import errors
from tistreamlines.cli import main
from tistreamlines.errors import DeviceError, InputError, OutputError, ParameterError, TrackingError, python_names
from tistreamlines.options import parameters

KINDS = (TrackingError, InputError, OutputError, DeviceError, ParameterError)
MESSAGE = "--sh-order is 3: give an even order, or DWI, BVALS and BVECS with --fast"
PYTHONS = "sh_order is 3: give an even order, or dwi, bvals and bvecs with exact=False"


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_has_both_spellings(kind):
    error = kind(MESSAGE)
    assert str(error) == PYTHONS
    assert error.on_command_line == MESSAGE
    assert traceback.format_exception_only(error)[-1].strip().endswith(PYTHONS)


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_survives_pickling(kind):
    again = pickle.loads(pickle.dumps(kind(MESSAGE)))
    assert type(again) is kind
    assert (str(again), again.on_command_line) == (PYTHONS, MESSAGE)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--mask: no such file", "mask: no such file"),
        ("give --dg prob or det (--max-angle)", "give dg prob or det (max_angle)"),
        ("use --fast, or another arch", "use exact=False, or another arch"),
        ("'--sh' needs --sh-basis.", "'sh' needs sh_basis."),
        ("Axes of BVECS, or BVECS.", "Axes of bvecs, or bvecs."),
        # what only looks like an option
        ("/data/--mask/a--b.nii: no such file", "/data/--mask/a--b.nii: no such file"),
        ("/data/DWI/BVECS.txt: 3 by 64", "/data/DWI/BVECS.txt: 3 by 64"),
        ("DWI: no such file", "DWI: no such file"),
        ("mrconvert dwi.mif out.nii.gz -export_grad_fsl a b", "mrconvert dwi.mif out.nii.gz -export_grad_fsl a b"),
        ("a -- b --- c", "a -- b --- c"),
    ],
)
def test_names_are_translated_and_paths_are_not(text, expected):
    assert python_names(text) == expected


def test_every_option_has_its_keyword():
    for name, option in parameters.options().items():
        assert python_names(f"give {parameters.flag(name)}") == f"give {name}"
        if option.off:
            assert python_names(f"give --{option.off}") == f"give {name}=False"
    assert set(errors._NEGATED) == {option.off for option in parameters.options().values() if option.off}


def test_python_and_the_command_line_each_speak_their_own(capsys, tmp_path):
    with pytest.raises(ts.ParameterError, match=r"^sh_order is 3: ") as raised:
        ts.track("dwi.nii.gz", "bvals", "bvecs", "out.trx", sh_order=3)
    assert "--" not in str(raised.value)
    with pytest.raises(SystemExit) as ended:
        main.main(["track", "dwi.nii.gz", "bvals", "bvecs", "--output", str(tmp_path / "out.trx"), "--sh-order", "3"])
    assert ended.value.code == main.WRONG_USE
    assert capsys.readouterr().err.startswith("Error: --sh-order is 3: ")


def test_a_library_that_cannot_be_imported_is_one_line(monkeypatch, run):
    def fails(*_):
        raise ImportError("libx.so: failed to map segment from shared object")

    monkeypatch.setattr("tistreamlines.cli.main.cli.main", lambda *_, **__: fails())
    done = run("devices")
    assert done.code == 1
    assert done.err.startswith("Error: a library cannot be imported (libx.so: failed to map")
    assert done.err.count("\n") == 1


def test_so_is_llvm(monkeypatch):
    """Whose library llvmlite opens by itself, with an OSError."""

    class Unmapped:
        @staticmethod
        def find_spec(name, *_):
            if name == "llvmlite.binding":
                raise OSError("Could not find/load shared object file 'libllvmlite.so'. This could mean ...")

    monkeypatch.setattr(sys, "meta_path", [Unmapped, *sys.meta_path])
    for name in [name for name in sys.modules if name.startswith("llvmlite")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "tistreamlines.backends.llvm", raising=False)
    with pytest.raises(DeviceError, match=r"LLVM cannot be loaded \(Could not find/load .*raise the limit"):
        importlib.import_module("tistreamlines.backends.llvm")
