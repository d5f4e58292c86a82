"""The compilers of Taichi's language: which one is taken, and that all give the same bits."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from commands import python

import tistreamlines as ts
from tistreamlines.backends.taichi import runtime
from tistreamlines.devices import Device, compilers, list_devices
from tistreamlines.devices.compilers import COMPILERS, VARIABLE, Compiler, compiler_for, take_compiler
from tistreamlines.errors import DeviceError, ParameterError
from tistreamlines.phantom.phantom import save_phantom

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
PRESENT = {one.arch for one in list_devices() if one.available}
FORKS = [name for name in COMPILERS if name != "taichi"]


@pytest.fixture
def there(monkeypatch):
    """Say which compilers are installed."""
    monkeypatch.setenv(VARIABLE, "auto")
    monkeypatch.setattr(compilers, "_given", "auto")

    def install(*names):
        monkeypatch.setattr(Compiler, "installed", property(lambda one: one.name in names))

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


@pytest.mark.parametrize("name", FORKS)
def test_it_runs_beside_taichi(name):
    """Taichi's arrays, which other code has made, stay; the compilers may take turns, and their bits are the same."""
    for one in (name, "taichi"):
        if not COMPILERS[one].installed:
            pytest.skip(f"{COMPILERS[one].package} is not installed")
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    done = python("-c", BESIDE, name, Path(__file__).parents[1] / "support", timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    refused, mine, *digests = done.stdout.splitlines()[-7:]
    assert f"with compiler {name}" in refused
    assert mine == "[3 3 3 3]"
    assert len(digests) == 5 and len(set(digests)) == 1


def test_variables_have_its_prefix():
    assert [one.variable("ARCH") for one in COMPILERS.values()] == ["TI_ARCH", "QD_ARCH", "TI_ARCH"]


@pytest.mark.parametrize(
    ("dg", "options"), [("prob", {"stopping": "act", "pft": True, "include": "0,0,0,30"})]
)
def test_all_give_the_same_bits(head, tmp_path, dg, options):
    """Getters, rules, regions and particles; ``test_trial`` has ptt, on another driver."""
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    if len(compilers.compilers_for("vulkan")) < 2:
        pytest.skip("only one compiler is installed")
    save_phantom(head.phantom, tmp_path)
    maps = {f"pve_{name}": tmp_path / f"pve_{name}.nii.gz" for name in head.phantom.tissues}
    used = {"act": maps, "cmc": maps, "binary": {"stop_mask": head.mask}}
    options = options | used.get(options.get("stopping"), {})
    given = [(f"--{name.replace('_', '-')}", value) for name, value in options.items()]
    flags = [word for pair in given for word in pair if word is not True]
    done = python(
        "-m", "tistreamlines", "verify", *head.series, "--mask", head.mask, "--compilers", "--arch", "vulkan",
        "--dg", dg, "--nseeds", 30, "--json", tmp_path / "report.json", *flags, timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    told = json.loads((tmp_path / "report.json").read_text())
    assert [run["compiler"] for run in told["runs"]] == compilers.compilers_for("vulkan")
    assert told["equal"] and told["runs"][0]["streamlines"] > 5


@pytest.mark.parametrize("name", FORKS)
def test_it_gives_the_cpus_bits(head, tmp_path, name):
    """In a process of its own, as a command; the record names it."""
    if not COMPILERS[name].installed:
        pytest.skip(f"{COMPILERS[name].package} is not installed")
    if "vulkan" not in PRESENT:
        pytest.skip("no Vulkan device")
    given = {"mask": head.mask, "nseeds": 60, "dg": "prob", "like": "dipy"}
    ts.track(*head.series, tmp_path / "cpu.trk", arch="cpu", **given)
    done = python(
        "-m", "tistreamlines", "track", *head.series, "--mask", head.mask, "--nseeds", "60", "--dg", "prob", "--like",
        "dipy", "-o", str(tmp_path / "gpu.trk"), "--arch", "vulkan", "--compiler", name, timeout=600,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert (tmp_path / "gpu.trk").read_bytes() == (tmp_path / "cpu.trk").read_bytes()
    told = json.loads((tmp_path / "gpu.json").read_text())
    assert told["compiler"] == f"{COMPILERS[name].package} {COMPILERS[name].version}"
    assert "Calling non-" not in done.stderr
