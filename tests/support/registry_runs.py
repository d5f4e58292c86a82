"""Options of runs that together have every getter, rule, recovery, kind of region and product of the registry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nibabel as nib
from small_world import AFFINE, IMAGES
from toys import FADING, STRAIGHTEST

Options = dict[str, Any]
TOYS = {"straightest": STRAIGHTEST}, {"fading": FADING}  # rows that a run needs besides


def ball(voxel: tuple[float, float, float], radius: float) -> list[float]:
    """A region: a sphere around a voxel, RASmm."""
    return [*map(float, nib.affines.apply_affine(AFFINE, voxel)), radius]


def track_options(world: Path, out: Path) -> dict[str, Options]:
    """Return the options of each run by its name, for the files of ``write_world`` and a folder for products."""
    image = {name: world / f"{name}.nii.gz" for name in IMAGES}
    series = {"dwi": image["dwi"], "bvals": world / "dwi.bval", "bvecs": world / "dwi.bvec", "mask": image["mask"]}
    series["cache_dir"] = world / "cache"
    fods = {"sh": image["fod"], "sh_basis": "tournier07", "seed_mask": image["mask"]}
    shares = {name: image[name] for name in IMAGES if name.startswith("pve")}
    inner, act5 = {"stopping": "binary", "stop_mask": image["inner"]}, {"stopping": "act5", "act": image["act"]}
    products = {
        "density": out / "density.nii", "ends": out / "ends.nii", "density_voxel": 1.1, "waytotal": out / "waytotal",
        "connectome": (image["labels"], out / "nodes.csv"), "rejected": out / "rejected.nii", "keep_streamlines": False,
    }
    middle, corner = ball((6, 6, 5), 6), ball((9, 9, 8), 3)
    return {
        "boot": {
            "dg": "boot", "stopping": "threshold", "sphere": "full", "angular_weight": 0.5, "rng_seed": 2**40 + 5,
            **series,
        },
        "boot like DIPY": {"dg": "boot", "stopping": "threshold", "like": "dipy", **series},
        "prob, particles in cmc": {"dg": "prob", "stopping": "cmc", "pft": True, **series, **shares},
        "prob of samples, regions": {
            "dg": "prob", "stopping": "threshold", "pmf_rows": "sampled", "include": [middle], "exclude": [corner],
            "ends_in": [image["mask"]], "rejected": out / "rejected.nii", **series,
        },
        "det": {"dg": "det", "stopping": "threshold", **series},
        "det, products": {"dg": "det", "stopping": "threshold", **series, **products},
        "det to the closest, ordered regions": {
            "dg": "det", "stopping": "threshold", "det_rule": "closest", "one_way": True, "limit_mask": image["inner"],
            "include_ordered": [ball((6, 6, 5), 6), ball((6, 6, 5), 20)], "nseeds": 60, **series,
        },
        "ptt, particles in act, regions": {
            "dg": "ptt", "stopping": "act", "pft": True, "include": [middle], **series, **shares,
        },
        "ptt of the paper": {"dg": "ptt", "stopping": "threshold", "probe_rule": "paper", **series},
        "ptt in a mask": {"dg": "ptt", "stopping": "binary", "stop_mask": image["inner"], **series},
        "ptt, products": {"dg": "ptt", "stopping": "threshold", **series, **products},
        "ifod1 goes back": {"dg": "ifod1", "backtrack": True, "crop_at_gmwmi": True, "nseeds": 24, **fods, **act5},
        "ifod2 in deep grey matter": {"dg": "ifod2", "sgm_truncation": "roulette", "nseeds": 24, **fods, **act5},
        "sd_stream, truncated, dynamic seeds": {
            "dg": "sd_stream", "max_length": 12, "too_long": "truncate", "seed_round": 4,
            "seed_dynamic": image["few_fods"], "seed_dynamic_basis": "tournier07",
            **{name: value for name, value in fods.items() if name != "seed_mask"}, **inner,
        },
        "sd_stream, products": {"dg": "sd_stream", **fods, **inner, **products},
        "fact": {"dg": "fact", "peaks": image["peaks"], "peaks_frame": "voxel", "seed_mask": image["mask"], **inner},
        "bedpostx": {"dg": "bedpostx", "stopping": "binary", "bedpostx": world / "bedpostX"},
        "a getter and a rule of others": {
            "dg": "straightest", "stopping": "fading", "stop_map": image["stop_map"], "stop_threshold": 0.2, **fods
        },
    }
