"""What an option says that it affects is true: tables that differ have different keys in the cache."""

from __future__ import annotations

import hashlib
import json

import idle
import numpy as np
import pytest
from linked import contents
from nights import at_night

import tistreamlines as ts
from tistreamlines.errors import TrackingError
from tistreamlines.options.definitions import names_affecting, options
from tistreamlines.run import api, plan
from tistreamlines.run.log import Log, Watcher

KINDS = ("boot", "ptt of an odf", "det of sh, regions")
# as they were before options said it, when a list of names did
LATER = {
    "nseeds", "seed_seed", "seed_dynamic_basis", "seed_round",
    "seeds_per_voxel", "seed_grid", "step_size", "max_steps", "min_length", "max_length",
    "too_long", "one_way", "keep", "rng_seed", "include", "include_ordered", "exclude", "limit_mask", "ends_in",
    "stop_when_included", "select", "max_seeds", "time_limit", "force", "bids_out", "json_stats", "report", "density",
    "density_voxel", "density_grid", "density_kind", "density_sample", "ends", "connectome", "connectome_assignment",
    "connectome_radius", "connectome_measure", "connectome_sample", "connectome_nodes",
    "sample", "sample_points", "sample_table", "groups", "endpoints_only", "compress", "downsample", "points",
    "waytotal", "rejected", "seed_matrix", "seed_matrix_targets", "seed_matrix_min_length", "voxel_matrix",
    "seeds_to_targets", "targets",
    "voxel_matrix_min_length",
    "connectome_pairs", "connectome_zero_diagonal", "weights",
    "sift2", "sift2_basis", "sift2_act", "sift2_proc_mask", "sift2_csv", "sift2_mu", "sift2_coeffs", "sift2_linear",
    "sift2_reg_tikhonov", "sift2_reg_tv", "sift2_min_td_frac", "sift2_min_iters", "sift2_max_iters",
    "sift2_min_factor", "sift2_max_factor", "sift2_max_coeff_step", "sift2_min_cf_decrease", "sift2_fd_scale_gm",
    "sift2_fd_thresh", "sift2_remove_untracked", "sift2_no_dilate_lut", "sift2_make_null_lobes",
    "part", "resume", "arch", "devices", "exact", "threads", "chunk_size", "memory_limit", "cache_dir",
    "shared_cache", "like", "preset", "compiler", "save_5tt",
}


class Seen(Exception):
    """A run was about to start."""


def key_and_tables(monkeypatch, kind, **more):
    """The causes under which the tables of a run are cached, and a hash of the tables."""
    run, causes = {}, vars(plan)["_causes"]

    def start(series, parameters, *_, **__):
        prepared = plan.make_plan(series, parameters, Log(Watcher())).prepared
        inputs = {n: value for n, value in parameters.inputs().items() if n.split()[0] in names_affecting("tables")}
        run["key"] = json.dumps(causes(parameters, plan.hashing(series | inputs)(), anywhere=False), sort_keys=True)
        content = b"".join(np.ascontiguousarray(array).tobytes() for _, array in sorted(prepared.arrays.items()))
        parts = {name: getattr(value, "__name__", value) for name, value in contents(prepared).items()}
        run["tables"] = hashlib.sha256(content + str((parts, prepared.scalars)).encode()).hexdigest()
        raise Seen

    with monkeypatch.context() as patch:
        patch.setattr(api, "start", start)
        with pytest.raises(Seen):
            ts.track(**idle.kinds()[kind] | more)
    return run["key"], run["tables"]


def test_the_declarations_are_those_that_the_cache_has_had():
    assert names_affecting("growth", "run", "defaults") == LATER
    assert set(options()) - LATER == names_affecting("tables")


@pytest.mark.parametrize("kinds", [KINDS[1:], *at_night(*(((kind,),) for kind in KINDS))])
def test_every_option_affects_what_it_says(kinds, tmp_path, monkeypatch):
    """Beside the options of the first of these kinds that does not refuse it."""
    alone, changed = {kind: key_and_tables(monkeypatch, kind) for kind in kinds}, 0
    for name, value in idle.values(tmp_path).items():
        for kind in (kind for kind in kinds if name not in idle.kinds()[kind]):
            try:
                own_key, own_tables = key_and_tables(monkeypatch, kind, **{name: value})
            except TrackingError:  # refused beside the others
                continue
            key, tables = alone[kind]
            assert own_key != key or own_tables == tables, f"{name} changes the tables, but not their key"
            if name in LATER - {"step_size", "like"}:
                assert (own_key, own_tables) == (key, tables), name
            elif name not in ("step_size", "like"):
                assert own_key != key, name
                changed += own_tables != tables
            break
    assert changed > 5


def test_the_step_is_a_cause_where_the_tables_depend_on_it(monkeypatch):
    for kind, depends in (("boot", False), ("ptt of an odf", True)):
        key, tables = key_and_tables(monkeypatch, kind)
        own_key, own_tables = key_and_tables(monkeypatch, kind, step_size="0.3mm")
        assert (own_key != key) == (own_tables != tables) == depends
