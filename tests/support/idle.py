"""Small runs of every kind, a value for every option, and whether the option does anything in such a run.

An option changes the streamlines, or the kernels or rows that they are tracked with, or it is refused in one line.
"""

from __future__ import annotations

import atexit
import hashlib
import shutil
import tempfile
from functools import cache, reduce
from pathlib import Path
from typing import Any
from unittest.mock import patch

import nibabel as nib
import numpy as np
from dipy.core.sphere import HemiSphere
from dipy.data import get_sphere
from dipy.reconst.shm import OpdtModel
from linked import contents
from meshes import footer, icosphere, save_freesurfer
from sample_files import save_samples
from synthetic import gradients, signals

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import TrackingError
from tistreamlines.linker.parts import filling
from tistreamlines.option import flag
from tistreamlines.run import api, pipeline, setup
from tistreamlines.run.log import Log, Watcher
from tistreamlines.run.plan import make_plan
from tistreamlines.tracking.growth.growth import lay_out_halves
from tistreamlines.tracking.parts import Selection
from tistreamlines.tracking.selection.regions import ROLES

SHAPE = (8, 9, 7)
# options of speed, of memory and of what is kept, which must not change a streamline
SAME_STREAMLINES = {
    "arch": "cpu is asked for here, and the bits are the same on every device",
    "compiler": "the bits are those of any other, and none is needed on the cpu",
    "devices": "how many share the work does not matter",
    "threads": "the order of sums does not depend on it",
    "chunk_size": "seeds are numbered over all chunks",
    "memory_limit": "it bounds the chunks",
    "cache_dir": "what is kept equals what is computed",
    "shared_cache": "it says whose files are read from that folder",
    "like": "it changes nothing where the defaults are DIPY's",
    "exact": "it allows the compiler more; that it changes nothing with ptt is a note",
    "force": "it changes files",
    "bids_out": "it is the name of a file",
    "json_stats": "it is a file",
    "report": "it is a file",
    "save_5tt": "it is a file",
    "density": "it is a file",
    "density_voxel": "it is the grid of that file",
    "density_grid": "it is the grid of that file",
    "density_kind": "it is what that file has",
    "density_sample": "it is what that file has",
    "ends": "it is a file",
    "waytotal": "it is a file",
    "rejected": "it is a file",
    "connectome": "it is a file",
    "seed_matrix": "it is a file",
    "voxel_matrix": "it is a file",
    "sift2": "it is a file",
    "sample": "its values are held with the streamlines",
    "groups": "is of a tractogram",
    "sample_points": "its values are held with the points",
    "sample_table": "it is a file",
    "points": "it is the type of the points of a file",
    "resume": "it keeps pieces of the same streamlines",
    "csd_shells": "the series has one shell, which is the highest of all",
    "preset": "it leaves out what the options of a run stand in the way of, and says so",
}


@cache
def data() -> dict[str, Any]:
    """Arrays of a small bundle that turns, with a crossing and noise, on a grid that is turned in the scanner."""
    x, y, z = np.indices(SHAPE)
    turn = 0.5 + 0.2 * x
    along = np.stack([np.cos(turn), np.sin(turn), 0.1 * (z - 3)], axis=-1)
    along /= np.linalg.norm(along, axis=-1, keepdims=True)
    across = np.stack([np.cos(turn + 1.4), np.sin(turn + 1.4), 0 * turn], axis=-1)
    share = np.clip(1.1 - 0.14 * np.abs(y - 4), 0.05, 1)
    gtab, rng = gradients(), np.random.default_rng(3)
    crossing = ((z < 3) & (x > 3))[..., None]
    clean = np.where(crossing, 0.6 * signals(gtab, along, share) + 0.4 * signals(gtab, across, share),
                     signals(gtab, along, share))
    series = np.maximum(clean + rng.normal(0, 30, clean.shape), 2).astype(np.float32)
    sphere = HemiSphere.from_sphere(get_sphere(name="repulsion724"))
    fit = OpdtModel(gtab, sh_order_max=4).fit(series)
    odf = np.asarray(fit.odf(sphere), np.float32)
    affine = np.eye(4)
    affine[:2, :2] = 2 * np.array([[0.8, -0.6], [0.6, 0.8]])
    affine[2, 2] = 2
    # the share of grey matter grows to one side, that of fluid to another
    white = np.clip(share - 0.1 * (x < 2), 0, 1).astype(np.float32)
    grey = ((1 - white) * (y > 4)).astype(np.float32)
    peaks = np.concatenate([along, 0.7 * across * crossing], axis=-1).astype(np.float32)
    centre = affine[:3] @ [4, 4, 3, 1]
    seeds = affine[:3, :3] @ rng.uniform([1, 2, 1], [6, 6, 5], (25, 3)).T
    return {
        "dwi": series, "bvals": gtab.bvals, "bvecs": gtab.bvecs, "affine": affine, "sh": fit.shm_coeff, "odf": odf,
        "pmf": np.maximum(odf, 0), "peaks": peaks, "mask": (y > 1) & (x < 6), "white": white, "grey": grey,
        "fluid": (1 - white - grey).astype(np.float32), "stop": share.astype(np.float32), "seed": share > 0.6,
        "seeds": seeds.T, "directed": np.hstack([seeds.T, np.tile(affine[:3, :3] @ [0.7, 0.7, 0], (25, 1)) / 2]),
        "ball": [*centre, 5.0], "other ball": [*(affine[:3] @ [3, 5, 3, 1]), 3.0],
    }


@cache
def samples(turned: bool) -> Path:
    """A folder of bedpostX with the bundle's samples; another one if ``turned``."""
    d, rng = data(), np.random.default_rng(turned)
    peaks = d["peaks"].reshape(*SHAPE, 1, 2, 3) + 0.2 * rng.normal(size=(*SHAPE, 6, 2, 3))
    peaks /= np.linalg.norm(peaks, axis=-1, keepdims=True)
    affine = d["affine"]
    fractions = rng.uniform([0.4, 0], [1, 0.6], (*SHAPE, 6, 2)) * d["stop"][..., None, None]
    folder = Path(tempfile.mkdtemp(prefix="samples-"))
    atexit.register(shutil.rmtree, folder, True)
    return save_samples(folder / "a.bedpostX", peaks @ (affine[:3, :3] / 2).T, fractions, affine)


@cache
def surface(radius: float) -> Path:
    """A ball of triangles around the middle of the bundle, in FreeSurfer's coordinates."""
    folder, shift = Path(tempfile.mkdtemp(prefix="surfaces-")), np.array([1.0, 0.5, -0.5])
    atexit.register(shutil.rmtree, folder, True)
    ball = icosphere(1, radius, data()["ball"][:3] - shift)
    return save_freesurfer(folder / "lh.white", *ball, footer(shift))


def fods() -> Any:
    """The bundle's functions as an image."""
    return nib.Nifti1Image(data()["sh"], data()["affine"])


def tissues_of(d: dict[str, Any]) -> Any:
    """The five tissues of the bundle, of which half of the grey matter is subcortical."""
    deep = np.indices(SHAPE)[2] < 3
    parts = d["grey"] * ~deep, d["grey"] * deep, d["white"], d["fluid"], 0 * d["white"]
    return np.stack(parts, axis=-1).astype(np.float32)


def kinds() -> dict[str, dict[str, Any]]:
    """Runs by name."""
    d = data()
    series = {name: d[name] for name in ("dwi", "bvals", "bvecs")}
    tissues = {"pve_wm": d["white"], "pve_gm": d["grey"], "pve_csf": d["fluid"]}
    sh = {"sh": d["sh"], "sh_basis": "descoteaux07_legacy"}
    stop, region = {"stop_map": d["stop"]}, {"seed_mask": d["seed"]}
    runs = {
        "boot": series | {"nseeds": 30},
        "boot with maps": series | stop | {"seeds": d["seeds"]},
        "boot, act, particles": series | tissues | region | {"stopping": "act", "pft": True, "seeds_per_voxel": 1},
        "prob": series | {"dg": "prob", "model": "csa", "nseeds": 30},
        "det of csd, selected": series | {"dg": "det", "select": 20, "mask": d["mask"]},
        "ptt": series | {"dg": "ptt", "nseeds": 20},
        "prob of sh, cmc": sh | tissues | {"dg": "prob", "stopping": "cmc", "seed_image": d["stop"], "nseeds": 30},
        "prob of sh beside a series": series | sh | {"dg": "prob", "nseeds": 30},
        "prob of sh beside an idle series": series | sh | stop | region | {"dg": "prob", "nseeds": 30},
        "prob of sh, directed": sh | stop | {"dg": "prob", "seeds": d["directed"]},
        "det of sh, regions": sh | stop | {
            "dg": "det", "det_rule": "closest", "include": [d["ball"]], "seed_sphere": [d["ball"]], "nseeds": 60,
        },
        "det of peaks, binary": {
            "peaks": d["peaks"], "dg": "det", "stopping": "binary", "stop_mask": d["seed"], "seed_mask": d["seed"],
            "seed_grid": 1,
        },
        "fact, act5": region | {
            "peaks": 0.35 * d["peaks"], "dg": "fact", "act": tissues_of(d), "step_size": "0.5vox", "nseeds": 60,
            "keep": "all",
        },
        "prob of peaks, selected": stop | region | {"peaks": d["peaks"], "dg": "prob", "select": 20},
        "ptt of an odf": stop | region | {"odf": d["odf"], "dg": "ptt", "nseeds": 20},
        "bedpostx": region | {"bedpostx": str(samples(False)), "nseeds": 60},
        "ptt of a pmf, act, a grid of seeds": tissues | region | {
            "pmf": d["pmf"], "dg": "ptt", "stopping": "act", "seed_grid": 1,
        },
        "ifod2, act5": sh | region | {"dg": "ifod2", "act": tissues_of(d), "nseeds": 60, "keep": "all"},
        "det of peaks, a surface": stop | {
            "peaks": d["peaks"], "dg": "det", "seed_surface": [str(surface(4.0))], "nseeds": 60,
        },
        "sd_stream, act5": sh | region | {
            "sh": d["sh"] / 2, "dg": "sd_stream", "act": tissues_of(d), "step_size": "0.5vox", "nseeds": 60,
            "keep": "all",
        },
        "prob of sh, dynamic seeds": sh | stop | {
            "dg": "prob", "seed_dynamic": fods(), "nseeds": 60, "seed_round": 20,
        },
    }
    shortest: dict[str, Any] = {name: {"min_length": 0} for name in runs} | {"prob of sh, directed": {"max_steps": 12}}
    common = {"affine": d["affine"], "arch": "cpu", "max_steps": 9}
    return {name: common | shortest[name] | kind for name, kind in runs.items()}


def values(folder: Path) -> dict[str, Any]:
    """A value for each option that is neither its default nor what a kind has."""
    d, nodes = data(), folder / "nodes.txt"
    nodes.write_text("1 one\n")
    images = {
        "mask": d["mask"] & (np.indices(SHAPE)[2] > 1), "seed_mask": d["mask"] & (np.indices(SHAPE)[0] < 4),
        "seed_image": d["white"], "sample": d["white"],
        "seed_gmwmi": np.stack([d["grey"], 0 * d["grey"], d["white"], d["fluid"], 0 * d["grey"]], axis=-1),
        "stop_map": d["stop"] - 0.3 * (np.indices(SHAPE)[2] < 3), "stop_mask": d["mask"],
        "act": tissues_of(d), "sgm": 0.5 * d["grey"], "save_5tt": folder / "5tt.nii",
        "include_map": d["grey"], "exclude_map": d["fluid"], "pve_wm": d["white"], "pve_gm": d["grey"],
        "pve_csf": d["fluid"], "pve": np.stack([d["white"], d["grey"], d["fluid"]], axis=-1),
        "sh": d["sh"], "odf": d["odf"], "pmf": d["pmf"], "peaks": d["peaks"], "bedpostx": str(samples(True)),
        "seed_dynamic": fods(),
    }
    words = {
        "stopping": "binary", "dg": "det", "model": "opdt", "sphere": "small", "pmf_rows": "sampled",
        "det_rule": "closest", "peaks_between": "linear", "like": "dipy", "probe_rule": "paper", "boot_rule": "dipy",
        "negative_odf": "none", "csd_shells": "highest", "preset": "mrtrix-basic",
        "sh_basis": "tournier07", "seed_dynamic_basis": "tournier07",
        "sh_frame": "scanner", "peaks_frame": "voxel", "bvecs_frame": "fsl",
        "too_long": "truncate", "keep": "valid-ends", "sgm_truncation": "exit", "arch": "cpu", "compiler": "taichi",
        "devices": "0",
        "part": "1/2", "json_stats": str(folder / "stats.json"), "bids_out": str(folder / "bids"),
        "report": str(folder / "page.html"),
        "cache_dir": str(folder / "cache"), "density": str(folder / "d.nii.gz"), "density_grid": d["mask"],
        "density_kind": "direction", "density_sample": d["mask"], "ends": str(folder / "e.nii.gz"),
        "points": "float16", "sample_table": str(folder / "s.csv"), "connectome": (d["mask"], str(folder / "c.csv")),
        "connectome_assignment": "reverse", "connectome_measure": ["length"], "connectome_sample": [d["mask"]],
        "connectome_nodes": [nodes],
        "waytotal": str(folder / "waytotal"), "rejected": str(folder / "r.nii"),
        "weights": str(nodes), "sift2": (d["sh"], str(folder / "w.txt")),
        "sift2_basis": "tournier07", "sift2_act": tissues_of(d), "sift2_proc_mask": d["mask"],
        "sift2_csv": str(folder / "i.csv"), "sift2_mu": str(folder / "mu.txt"),
        "sift2_coeffs": str(folder / "coeffs.txt"),
        "seed_matrix": (d["mask"], str(folder / "s.dot")), "seed_matrix_targets": [d["mask"]],
        "voxel_matrix": (d["mask"], str(folder / "v.npz")),
        "seeds_to_targets": (d["mask"], str(folder / "t.csv")), "targets": [d["mask"]],
    }
    flags = ("pft", "one_way", "stop_when_included", "asymmetric", "force", "resume", "shared_cache",
             "use_f", "random_fibre", "modified_euler", "sample_points", "groups", "endpoints_only",
             "connectome_pairs", "connectome_zero_diagonal", "backtrack", "crop_at_gmwmi", "sgm_amyg_hipp",
             "sift2_linear", "sift2_fd_scale_gm", "sift2_remove_untracked", "sift2_no_dilate_lut",
             "sift2_make_null_lobes")
    regions = {name: [d["other ball"]] for name in ROLES}
    numbers = {
        "nseeds": 17, "seed_round": 30,
        "seeds_per_voxel": 2, "seed_grid": 2, "seed_seed": 5, "rng_seed": 5, "select": 7, "max_seeds": 5,
        "time_limit": 1e-9, "stop_threshold": 0.75, "fa_threshold": 0.75, "pft_back": 1.0, "pft_front": 2.0,
        "pft_particles": 7, "pft_max_trial": 1, "pft_min_wm": 0.9, "sh_order": 2, "shells": 2000, "sm_lambda": 0.1,
        "min_signal": 400.0, "fa_response": 0.5, "relative_peak_threshold": 0.9, "min_separation_angle": 90.0,
        "max_directions": 1, "pmf_threshold": 0.95, "probe_length": 4.0, "probe_radius": 1.0, "probe_quality": 4,
        "probe_count": 3, "data_support_exponent": 3.0, "angular_weight": 0.7, "max_angle": 5.0, "step_size": "0.3mm",
        "max_steps": 2, "min_length": 18.0, "max_length": 4.0, "threads": 1, "chunk_size": 7, "memory_limit": 0.5,
        "peak_width": 30.0, "density_voxel": 0.7, "csd_lambda": 0.1, "response": [1.7e-3, 5e-4, 5e-4, 1000.0],
        "min_f": 0.45, "cutoff": 0.3, "power": 3.0, "trials": 1, "samples": 3,
        "sift2_reg_tikhonov": 0.1, "sift2_reg_tv": 0.2, "sift2_min_td_frac": 0.2, "sift2_min_iters": 2,
        "sift2_max_iters": 5, "sift2_min_factor": 0.1, "sift2_max_factor": 2.0, "sift2_max_coeff_step": 0.5,
        "sift2_min_cf_decrease": 0.1, "sift2_fd_thresh": 0.1,
        "compress": 0.5, "downsample": 2, "connectome_radius": 2.0,
        "seed_matrix_min_length": 3.0, "voxel_matrix_min_length": 3.0,
    }
    return images | words | dict.fromkeys(flags, True) | {"exact": False, "normalise": False} | regions | numbers | {
        **{f"response_{name}": str(folder / f"{name}.txt") for name in ("wm", "gm", "csf")},
        "seeds": d["seeds"][::2], "seed_sphere": [d["other ball"]], "seed_surface": [str(surface(3.0))],
        "seeds_per_vertex": 2, "surface_direction": "inward", "surface_space": "scanner",
    }


class Differs(Exception):
    """A run has other kernels or rows than the run without the option, or judges its input otherwise."""


def digest(result: ts.TrackResult) -> str:
    """Hash of points, seeds and the number of seeds."""
    batch = ts.Batch.concatenate(result.batches)
    parts = batch.points, batch.offsets, batch.seeds, np.array(result.seeds)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()


@cache
def tracked_with(kind: str) -> dict[str, Any]:
    """What a kind is tracked with."""
    seen: dict[str, Any] = {}

    def start(*arguments: Any, **more: Any) -> Any:
        seen.update(_linked(*arguments))
        return pipeline.start(*arguments, **more)

    with patch.object(api, "start", start):
        ts.track(**kinds()[kind])
    return seen


@cache
def plain(kind: str) -> tuple[str, dict[str, Any]]:
    """Hash of the streamlines of a kind, of which it must have some, and all its options."""
    result = ts.track(**kinds()[kind])
    assert result.n_streamlines > 5, kind
    return digest(result), result.record["parameters"]


def _linked(series: Any, parameters: ts.Parameters, watcher: Any) -> dict[str, Any]:
    """Constants, holes and rows of a run."""
    log = Log(Watcher())
    plan = make_plan(series, parameters, log)
    rows = np.ascontiguousarray(plan.prepared.arrays["volume_rows"])
    filters = setup.selection_of(parameters, log).filters(plan.space)
    selection = reduce(lambda demands, each: each.demand(demands), filters, Selection())
    layout = lay_out_halves(plan.prepared, choose("cpu"), plan.settings, selection)[0]
    linked = contents(plan.prepared) | filling(layout.parts) | {"rows": hashlib.sha256(rows.tobytes()).hexdigest()}
    if parameters.source == "model":  # the mask has a say in which axes the gradients are taken along
        linked["coherence"] = plan.tables.frames["bvecs"]["coherence"]
    return linked


def effect(kind: str, name: str, value: Any) -> str:
    """Say what an option does in a run of a kind: 'streamlines', 'tables', 'nothing', or the line that refuses it.

    'default' stands for a value that the run has anyway, 'a warning' for one that tells of no effect.
    """
    expected = tracked_with(kind)

    def start(*arguments: Any, **more: Any) -> Any:
        if _linked(*arguments) != expected:
            raise Differs
        return pipeline.start(*arguments, **more)

    try:
        with patch.object(api, "start", start):
            result = ts.track(**kinds()[kind] | {name: value})
    except Differs:
        return "tables"
    except TrackingError as error:
        return f"Error: {error.on_command_line}"
    streamlines, parameters = plain(kind)
    if digest(result) != streamlines:
        return "streamlines"
    if isinstance(value, str) and parameters[name] == value:
        return "default"
    warned = any(f"{flag(name)} changes nothing" in text for text in result.record["warnings"])
    return "a warning" if warned else "nothing"
