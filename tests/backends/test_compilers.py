"""The compilers of Taichi's language: which one is taken, and that all give the same bits."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import python
from nights import at_night
from present import PRESENT
from small_runs import words_of, write_inputs

from tistreamlines.backends.taichi import runtime
from tistreamlines.devices import Device, compilers
from tistreamlines.devices.compilers import COMPILERS, VARIABLE, Compiler, compiler_for, take_compiler
from tistreamlines.errors import DeviceError, ParameterError

# tracks with a compiler while other code runs Taichi; then with both compilers in turn, and on the CPU
BESIDE = """
import os, sys
name, support = sys.argv[1:]
sys.path.insert(0, support)
os.environ.pop("TISTREAMLINES_COMPILER", None)
import taichi as ti
ti.init(arch=ti.cpu, log_level=ti.ERROR)
mine = ti.ndarray(ti.i32, 4)
mine.fill(3)
from taichi_runs import digest, run, said
from tistreamlines.backends import take_compiler
from tistreamlines.backends.taichi import trial
without, within = trial.drives, lambda _: False  # Taichi's runtime
trial.drives = within
print(said(lambda: digest(list(run("vulkan")))))
take_compiler(name)
first = digest(list(run("vulkan")))
print(mine.to_numpy())
ti.reset()
print(first)
for arch, compiler, trial.drives in (
    ("vulkan", "taichi", within), ("vulkan", name, without), ("vulkan", "taichi", without), ("cpu", name, without)
):
    take_compiler(compiler)
    print(digest(list(run(arch))))
"""
FORKS = [name for name in COMPILERS if name != "taichi"]


@pytest.fixture
def there(monkeypatch):
    """Say which compilers are installed."""
    monkeypatch.setenv(VARIABLE, "auto")
    monkeypatch.setattr(compilers, "_given", "auto")

    def install(*names):
        monkeypatch.setattr(Compiler, "installed", property(lambda compiler: compiler.name in names))

    return install


@pytest.mark.parametrize(
    ("installed", "arch", "taken"),
    [
        (("taichi", "quadrants", "forge"), "vulkan", "taichi"), (("quadrants", "forge"), "cuda", "quadrants"),
        (("forge",), "vulkan", "forge"), (("forge", "quadrants"), "metal", "quadrants"),
        (("taichi", "quadrants", "forge"), "amdgpu", "quadrants"),
    ],
)
def test_the_first_that_is_installed_and_can_compile_is_taken(there, installed, arch, taken):
    there(*installed)
    assert compiler_for(arch).name == taken


def test_the_users_choice_holds_for_one_run(there):
    there("taichi", "forge")
    take_compiler("forge")
    assert compiler_for("cuda").name == "forge"
    with pytest.raises(DeviceError, match="metal: Taichi Forge does not compile for it"):
        compiler_for("metal")
    take_compiler("auto")
    assert compiler_for("cuda").name == "taichi"


def test_what_is_missing_is_one_line(there, monkeypatch):
    there("taichi")
    with pytest.raises(ParameterError, match=r"quadrants is not installed: pip install quadrants, .* auto or taichi$"):
        take_compiler("quadrants")
    there()
    with pytest.raises(DeviceError, match="no compiler for it is installed: pip install one of taichi, quadrants,"):
        compiler_for("vulkan")
    with pytest.raises(DeviceError, match="no compiler for it is installed: pip install quadrants;"):
        compiler_for("amdgpu")
    monkeypatch.setenv(VARIABLE, "gcc")
    with pytest.raises(DeviceError, match="TISTREAMLINES_COMPILER=gcc: give auto, taichi, quadrants or forge"):
        compiler_for("vulkan")


def test_others_who_run_a_compiler_are_not_disturbed_by_a_change_to_it(there, monkeypatch):
    """Also while another compiler runs here, without a program that is in use."""
    there("taichi", "quadrants")
    ours = SimpleNamespace(alive=True, programs=(), compiler=COMPILERS["taichi"], device=None)
    monkeypatch.setattr(runtime, "_runtime", ours)
    monkeypatch.setitem(sys.modules, "quadrants", SimpleNamespace())
    monkeypatch.setattr(runtime, "state_of", lambda _: SimpleNamespace(prog=object()))
    device = Device("vulkan", 0, "GPU", "", None, False, True, "")
    with pytest.raises(DeviceError, match="Quadrants runs in this process already, started by other code"):
        runtime._refuse_to_disturb(device, COMPILERS["quadrants"])
    runtime._refuse_to_disturb(device, COMPILERS["taichi"])


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORKS)
def test_it_runs_beside_taichi(name):
    """Taichi's arrays, which other code has made, stay; the compilers may take turns, and their bits are the same.

    Nightly, since two compilers start anew five times.
    """
    for compiler in (name, "taichi"):
        if not COMPILERS[compiler].installed:
            pytest.skip(f"{COMPILERS[compiler].package} is not installed")
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    done = python("-c", BESIDE, name, Path(__file__).parents[1] / "support", timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, mine, *digests = done.stdout.splitlines()[-7:]
    assert f"with compiler {name}" in refused
    assert mine == "[3 3 3 3]"
    assert len(digests) == 5 and len(set(digests)) == 1


def test_variables_have_its_prefix():
    assert [compiler.variable("ARCH") for compiler in COMPILERS.values()] == ["TI_ARCH", "QD_ARCH", "TI_ARCH"]


@pytest.mark.skipif("vulkan" not in PRESENT, reason="no Vulkan device")
@pytest.mark.parametrize("name", at_night(*FORKS))
def test_it_gives_the_cpus_bits(run, tmp_path, name):
    """In a process of its own, as a command; the record names it. ``test_conformance.py`` has all getters and rules."""
    if not COMPILERS[name].installed:
        pytest.skip(f"{COMPILERS[name].package} is not installed")
    words = [*words_of(write_inputs(tmp_path)), "--max-steps", "20"]
    assert run("track", *words, "-o", tmp_path / "cpu.trk", "--arch", "cpu").code == 0
    done = python(
        "-m", "tistreamlines", "track", *words, "-o", tmp_path / "gpu.trk", "--arch", "vulkan", "--compiler", name
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "gpu.trk").read_bytes() == (tmp_path / "cpu.trk").read_bytes()
    record = json.loads((tmp_path / "gpu.json").read_text())
    assert record["compiler"] == f"{COMPILERS[name].package} {COMPILERS[name].version}"
    assert "Calling non-" not in done.stderr
