"""cuslines as a peer: its trackers as published, and a corrected version of the CUDA tracker.

The published CUDA code passes host pointers to texture handles to its kernels, which works only if the driver maps host
memory, and its bootstrap stores one peak per thread although it may find more. ``cuda-patched`` moves the handles to
device memory and enlarges the array, in a copy of the package.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from tistreamlines.benchmarks.cases import COMMON, STOP
from tistreamlines.benchmarks.problem import Problem
from tistreamlines.benchmarks.streamlines import Track, timer_of

CHUNK = 25_000  # seeds; cuslines sizes its buffers by the first chunk, which therefore must be the largest
PROB = ("prob", "prob-asymmetric")
GPU = ("boot", *PROB, "ptt")
BACKENDS = {"cuda": GPU, "cuda-patched": GPU, "webgpu": GPU, "numba": PROB}
MODULES = {
    "cuda": ("cuda_python", "GPUTracker", "", "cuda.core"), "webgpu": ("webgpu", "WebGPUTracker", "WebGPU", "wgpu"),
    "numba": ("numba", "CPUTracker", "CPU", "numba"),
}
NARROW = ("__sh_new_dir[BDIM_Y]", "__sh_new_dir + tidy)", "direction = __sh_new_dir[tidy];")
WIDE = ("__sh_new_dir[BDIM_Y*64]", "__sh_new_dir + tidy*64)", "direction = __sh_new_dir[tidy*64];")


def missing(backend: str) -> str:
    """Return why a backend cannot run, or "" if it can."""
    if importlib.util.find_spec("cuslines") is None:
        return "cuslines is not installed: pip install cuslines"
    needed = MODULES[backend.split("-")[0]][3]
    try:
        installed = importlib.util.find_spec(needed) is not None
    except ModuleNotFoundError:
        installed = False
    return "" if installed else f"cuslines' {backend} needs {needed}, which is not installed"


def import_patched(copy: Path) -> None:
    """Have cuslines imported from a copy whose bootstrap can store all peaks; it is made if the folder has none."""
    if not (copy / "cuslines").exists():
        spec = importlib.util.find_spec("cuslines")
        assert spec and spec.origin
        shutil.copytree(Path(spec.origin).parent, copy / "cuslines")
        boot = copy / "cuslines" / "cuda_c" / "boot.cu"
        text = boot.read_text()
        for narrow, wide in zip(NARROW, WIDE, strict=True):
            text = text.replace(narrow, wide)
        boot.write_text(text)
    sys.path.insert(0, str(copy))


def _on_device(texture: Any) -> int:
    """Copy a texture's handle to device memory; return its address as an int that also has ``getPtr``."""
    runtime = importlib.import_module("cuda.bindings.runtime")

    class Place(int):
        def getPtr(self) -> int:
            return int(self)

    _, place = runtime.cudaMalloc(8)
    runtime.cudaMemcpy(place, texture.getPtr(), 8, runtime.cudaMemcpyKind.cudaMemcpyHostToDevice)
    return Place(place)


def _getter(module: ModuleType, prefix: str, problem: Problem, sphere: object) -> tuple[Any, np.ndarray]:
    """Return the direction getter and the volume that it tracks."""
    if problem.method.dg == "boot":
        options = problem.method.options
        fit = {"sh_lambda": options["sm_lambda"], "min_signal": options["min_signal"]}
        kind = getattr(module, f"{prefix}BootDirectionGetter")
        return kind.from_dipy_opdt(problem.gtab, sphere, sh_order_max=problem.method.order, **fit), problem.data
    kind = {"prob": "ProbDirectionGetter", "ptt": "PttDirectionGetter"}[problem.method.dg]
    return getattr(module, prefix + kind)(), problem.pmf


def open_gpu_tracker(backend: str, problem: Problem, copy: Path | None = None) -> Any:
    """Return cuslines' tracker, in voxels of 1 mm, the only size that it supports.

    ``copy`` is a folder for the corrected version. Compilers' caches go by the path of what is compiled, so a later
    process that is to find what this one compiles needs the same folder.
    """
    from dipy.data import default_sphere, get_sphere

    sphere = default_sphere if problem.method.sphere == "default" else get_sphere(name="repulsion724")
    name, _, patched = backend.partition("-")
    if patched:
        import_patched(copy or Path(tempfile.mkdtemp(prefix="cuslines-")))
    folder, tracker, prefix, _ = MODULES[name]
    module = importlib.import_module(f"cuslines.{folder}")
    getter, volume = _getter(module, prefix, problem, sphere)
    rules = {
        "relative_peak_thresh": COMMON["relative_peak_threshold"],
        "min_separation_angle": np.deg2rad(COMMON["min_separation_angle"]),
        "sphere_symm": problem.method.model != "asymmetric",
    }
    opened = getattr(module, tracker)(
        getter, volume.astype(np.float32), problem.fa, STOP, sphere.vertices, sphere.edges,
        max_angle=np.deg2rad(problem.method.max_angle), step_size=0.5, ngpus=1, rng_seed=0, chunk_size=CHUNK, **rules,
    ).__enter__()
    if patched:
        opened.metric_map_d = [_on_device(texture) for texture in opened.metric_map_d]
        if problem.method.dg == "ptt":
            opened.dataf_d = [_on_device(texture) for texture in opened.dataf_d]
            getter.sphere_vertices_lut_d = [_on_device(texture) for texture in getter.sphere_vertices_lut_d]
    return opened


def open_tracker(backend: str, problem: Problem) -> Track:
    """Prepare tracking with cuslines."""
    import nibabel as nib

    opened = open_gpu_tracker(backend, problem)
    image = nib.Nifti1Image(np.zeros(problem.mask.shape, np.uint8), np.eye(4))
    track = timer_of(
        lambda count: opened.generate_sft(problem.seeds[:count], image),
        # its streamlines are in mm of the image, which equal voxel coordinates here
        lambda tractogram: map(problem.space.to_ras, tractogram.streamlines),
    )
    begun = time.perf_counter()
    track(min(problem.nseeds, CHUNK))  # compiles and allocates memory
    compiled = time.perf_counter() - begun
    return lambda count, keep=True: replace(track(count, keep), compile=compiled)
