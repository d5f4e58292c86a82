"""AMD's GPUs as far as they show without one: kernels are compiled for them, and loaded by a stand-in of HIP's library.

Quadrants asks the driver for the architecture, compiles, links with ld.lld, and hands the code object to the driver.
The stand-in (``hip_driver.c``) stores it. It runs no kernel, so the device fails its test. What stays untried is AMD's
own driver and hardware.
"""

from __future__ import annotations

import os
import re
import shutil
import struct
import subprocess
import sys
from typing import Any

import pytest
from commands import importing
from nights import at_night
from places import SUPPORT
from small_runs import words_of, write_inputs
from synthetic import boot_case

from tistreamlines.backends.taichi.hip_objects import PREFIX, object_folder
from tistreamlines.backends.taichi.trial import ORDER, SMALL, TEAMWORK, WORDS
from tistreamlines.devices import amd, choose, host
from tistreamlines.devices.compilers import COMPILERS, VARIABLE

NEEDS = "(Debian: gcc, libc6-dev, lld-19)"
WAVEFRONTS = {"gfx1100": 32, "gfx90a": 64}
MACHINES = {"gfx1100": 0x41, "gfx90a": 0x3F}  # EF_AMDGPU_MACH of LLVM's AMDGPUUsage
EM_AMDGPU, OS_AMDHSA, MACHINE_FLAGS = 224, 64, 0xFF
KERNELS = ("start", "enlist", "advance", "pack")
ELF = {"type": (16, "H"), "machine": (18, "H"), "flags": (48, "I")}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory):
    """The environment of a process for which one AMD GPU is there, by the name of its architecture."""
    compiler = shutil.which("cc")
    if sys.platform != "linux" or compiler is None:
        pytest.skip(f"needs Linux and a C compiler {NEEDS}")
    if not COMPILERS["quadrants"].installed:
        pytest.skip("quadrants is not installed")
    linkers = filter(None, map(shutil.which, ("ld.lld", *(f"ld.lld-{version}" for version in range(22, 18, -1)))))
    if (linker := next((linker for linker in linkers if amd._linker_refusal(linker) is None), None)) is None:
        pytest.skip(f"no ld.lld that is new enough {NEEDS}")
    folder = tmp_path_factory.mktemp("hip")
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", folder / amd.LIBRARY, SUPPORT / "hip_driver.c"], check=True
    )
    (folder / "ld.lld").symlink_to(linker)

    def environment(gfx: str, **more: str) -> dict[str, str]:
        usual = {name: value for name, value in os.environ.items() if name not in {*amd.HIDING, VARIABLE}}
        path, libraries = f"{folder}:{usual.get('PATH', '')}", f"{folder}:{usual.get('LD_LIBRARY_PATH', '')}"
        stub = {"STUB_GFX": gfx, "STUB_WAVEFRONT": str(WAVEFRONTS[gfx])}
        return usual | {"PATH": path, "LD_LIBRARY_PATH": libraries.rstrip(":")} | stub | more

    return environment


def started(*arguments: object, **how: Any) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, **how)


# ---------------------------------------------------------------------------------------------------- what is compiled
def compile_kernels(*names: str) -> None:
    """Test the device, and launch kernels of the engine, for boot; in a process of its own."""
    from tistreamlines.backends.taichi.program import TaichiProgram
    from tistreamlines.backends.taichi.trial import judged
    from tistreamlines.kernels import growth, streamlines
    from tistreamlines.kernels.products.points import pack

    device = choose("amdgpu")
    print(judged(device).kind, judged(device).faults == (TEAMWORK, ORDER, SMALL, WORDS))
    known = vars(growth) | vars(streamlines) | {"pack": pack}
    program = TaichiProgram(device, boot_case().source([known[name] for name in names]), exact=True)
    for name, signature in program.signatures.items():
        arrays = {n: program.empty(64, kind) for n, kind in signature if kind in ("reals", "ints")}
        program.run(name, 5, dict.fromkeys((n for n, _ in signature), 0) | arrays)


# by day the shortest kernel; to compile all takes longer
COMPILED = [("gfx1100", ("enlist",)), *at_night(*(((gfx, KERNELS),) for gfx in WAVEFRONTS))]


@pytest.fixture(scope="module", params=COMPILED, ids=["a kernel", *WAVEFRONTS])
def objects(request, stand_in, tmp_path_factory):
    """Name of an architecture, kernels, and the code objects that were loaded for them."""
    (gfx, names), folder, cache = request.param, tmp_path_factory.mktemp("objects"), tmp_path_factory.mktemp("cache")
    environment = stand_in(gfx, STUB_OBJECTS=str(folder), XDG_CACHE_HOME=str(cache))
    done = started("-c", importing(__file__) + "test_amdgpu.compile_kernels(*sys.argv[1:])", *names, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.splitlines()[-1] == "block True"  # and nothing is computed
    return gfx, names, [path.read_bytes() for path in sorted(folder.glob("*.elf"))]


@pytest.mark.skipif(sys.platform == "win32", reason="nothing compiles for AMD's devices on Windows")
def test_what_earlier_processes_have_linked_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("QD_TMP_DIR", raising=False)
    assert object_folder("cuda") is None
    (left := tmp_path / f"{PREFIX}left").mkdir()
    (recent := tmp_path / f"{PREFIX}recent").mkdir()
    os.utime(left, (0, 0))
    folders = [object_folder("amdgpu") for _ in range(2)]
    assert {str(path) for path in tmp_path.iterdir()} == {str(recent), *folders}
    (place := tmp_path / "a b").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    assert object_folder("amdgpu") is None  # Quadrants would not quote it
    assert not list(place.iterdir())


def field(raw: bytes, name: str) -> int:
    """A number of an ELF file's header."""
    place, kind = ELF[name]
    return struct.unpack_from(f"<{kind}", raw, place)[0]


def kernels(raw: bytes) -> set[str]:
    """Kernels of a code object: the names that have a descriptor, as the loader looks them up."""
    return {name.decode() for name in re.findall(rb"\0(\w+)\.kd(?=\0)", raw)}


@pytest.mark.nightly
def test_code_objects_are_for_the_devices_architecture(objects):
    gfx, _, codes = objects
    for raw in codes:
        assert raw[:7] == b"\x7fELF\x02\x01\x01"  # 64 bits, little endian
        assert (raw[7], field(raw, "type"), field(raw, "machine")) == (OS_AMDHSA, 3, EM_AMDGPU)
        assert field(raw, "flags") & MACHINE_FLAGS == MACHINES[gfx]


def test_every_kernel_is_there(objects):
    names = set().union(*map(kernels, objects[2]))
    launched = {f"run_{name}" for name in ("trial", *objects[1])} | {"copy"}
    for name in launched:  # what goes before the loop, and the loop
        for task in ("0_serial", "1_range_for"):
            assert [n for n in names if re.fullmatch(rf"{name}_c\d+_0_kernel_{task}", n)], name


def test_wavefronts_have_64_threads(objects):
    """Quadrants makes them so on any device, which is why a team is a block: see ``team_kind``."""
    widths = {width for raw in objects[2] for width in re.findall(rb"\.wavefront_size(.)", raw, re.DOTALL)}
    assert widths == {bytes([64])}


def test_products_are_not_fused(objects, tmp_path):
    """In the kernel that tests the device; a disassembler that is too old for an architecture does not serve."""
    gfx, _, codes = objects
    tool = shutil.which("llvm-objdump")
    if tool is None:
        pytest.skip("no llvm-objdump (Debian: llvm)")
    (trial,) = [raw for raw in codes if any(name.startswith("run_trial") for name in kernels(raw))]
    (tmp_path / "trial.elf").write_bytes(trial)
    done = subprocess.run([tool, "-d", f"--mcpu={gfx}", tmp_path / "trial.elf"], capture_output=True, text=True)
    if done.returncode or "v_mul_f32" not in done.stdout:
        pytest.skip(f"llvm-objdump does not know {gfx}")
    assert not re.findall(r"v_\w*(?:fma|mac|mad)\w*_f32", done.stdout)
    assert "s_barrier" in done.stdout and "ds_read" in done.stdout


# ----------------------------------------------------------------------------------------------------- what users see
def test_the_device_is_listed(stand_in):
    done = started("-m", "tistreamlines", "devices", env=stand_in("gfx90a"))
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("amdgpu ")]
    words = r"amdgpu +0 +Stand-in 0 +.*HIP 7\.0\.51831\)? +17\.2 GB +discrete +quadrants [\d.]+ +(ready|chosen by .*) *"
    assert re.fullmatch(words, line)


@pytest.mark.nightly
def test_a_device_that_computes_nothing_is_refused_in_one_line(stand_in, tmp_path):
    """Nightly, since Quadrants compiles anew in two processes; by day, the faults are found above."""
    environment = stand_in("gfx1100", XDG_CACHE_HOME=str(tmp_path / "cache"), TMPDIR=str(tmp_path))
    command = ["-m", "tistreamlines", "track", *words_of(write_inputs(tmp_path)), "--arch", "amdgpu"]
    done = started(*command, "-o", tmp_path / "a.trx", env=environment)
    assert done.returncode == 1, done.stderr
    faults = ", ".join((TEAMWORK, ORDER, SMALL, WORDS))
    assert re.fullmatch(
        rf"Error: amdgpu: Stand-in 0 \(.*\) computes wrong results in a test of {faults}: use another arch\n",
        done.stderr,
    )
    assert not (tmp_path / "a.trx").exists()
    done = started("-m", "tistreamlines", "devices", "--test", env=environment)
    assert done.returncode == 1
    assert re.search(rf" amdgpu: .*fails the test: {faults}", " ".join(done.stdout.split()))


def test_without_hip_there_is_one_line(run, head, tmp_path):
    if host.load(amd.LIBRARY) is not None:
        pytest.skip(f"{amd.LIBRARY} is here")
    done = run("track", *head.series, "--mask", head.mask, "--arch", "amdgpu", "-o", tmp_path / "a.trx")
    assert done.code == 1
    assert re.fullmatch(r"Error: arch 'amdgpu' cannot run here: .*: .*use another arch\n", done.err)
    assert not list(tmp_path.iterdir())
