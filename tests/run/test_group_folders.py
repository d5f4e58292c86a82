"""Runs in folders that belong to nobody who writes there: of a group, of everyone, and sticky as /tmp."""

from __future__ import annotations

import json
import os
import sys
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from commands import in_own_process
from small_runs import SHAPE, write_inputs
from users import ANNA, BERT, FOLDERS, GROUP, as_user, folder_of, only_root

import tistreamlines as ts
from tistreamlines.run import resume
from tistreamlines.run.outputs import Outputs, reserved

pytestmark = [only_root, pytest.mark.skipif(sys.platform == "win32", reason="no owners and groups here")]

USERS = {"group": (ANNA, BERT), "sticky": (ANNA,)}


def inputs(folder: Path) -> dict[str, Any]:
    """Inputs that everyone can read, and the options of a run."""
    os.umask(0o022)
    (folder / "in").mkdir()
    labels = np.ones(SHAPE, np.int16)
    labels[:, SHAPE[1] // 2 :] = 2
    nib.Nifti1Image(labels, np.diag([2.0, 2.0, 2.0, 1.0])).to_filename(folder / "in" / "labels.nii.gz")
    return write_inputs(folder / "in")


def everything(options: dict[str, Any], folder: Path, name: str) -> None:
    """Every kind of output: tractograms, products, records, pages, pieces and parts."""
    stop, parcels = options["stop_map"], Path(options["stop_map"]).with_name("labels.nii.gz")
    ts.track(
        output=folder / f"{name}.trx", **options, resume=True, density=folder / f"{name}_density.nii.gz",
        connectome=(parcels, folder / f"{name}_matrix.csv"), report=folder / f"{name}.html", sample=[stop],
        json_stats=folder / f"{name}_counts.json", voxel_matrix=(stop, folder / f"{name}_voxels.npz"), groups=True,
    )
    ts.track(output=folder / f"{name}2.tck", **options, sample=[stop])
    ts.track(output=folder / f"{name}3.trk", **options)
    ts.map_tractogram(folder / f"{name}.trx", ends=folder / f"{name}_ends.nii.gz")
    ts.track(output=folder / f"{name}4.trx", **options, part="1/1")
    ts.join([folder / f"{name}4.trx"], folder / f"{name}5.trx")


def write_everything(parent: str) -> None:
    """Print what users could not do, and how files are left."""
    warnings.simplefilter("ignore")
    options = inputs(Path(parent))
    (Path(parent) / "warm").mkdir()
    everything(options, Path(parent) / "warm", "u7")
    outcomes = {}
    for kind, users in USERS.items():
        folder = folder_of(Path(parent), kind)
        words = [as_user(user, partial(everything, options, folder, f"u{user}"), 0o002) for user in users]
        kept = [(path.name, path.stat().st_uid, path.stat().st_gid, path.stat().st_mode) for path in folder.iterdir()]
        outcomes[kind] = {"words": words, "kept": kept}
    print(json.dumps(outcomes | {"names": [path.name for path in (Path(parent) / "warm").iterdir()]}))


@pytest.mark.nightly
def test_every_output_is_written(public_folder):
    """With the group of the folder, and as the user's umask lets others write; by day, two users have one run."""
    outcomes = json.loads(in_own_process(__file__, "write_everything", public_folder))
    names = outcomes.pop("names")
    assert len(names) > 20
    for kind, outcome in outcomes.items():
        assert outcome["words"] == [""] * len(USERS[kind]), kind
        expected = {name.replace("u7", f"u{user}") for user in USERS[kind] for name in names}
        assert {name for name, *_ in outcome["kept"]} == expected, kind
        for name, user, group, mode in outcome["kept"]:
            assert f"u{user}" in name
            assert mode & 0o777 == 0o664, (kind, name)
            assert group == GROUP or kind != "group"


class Stopped(Exception):
    pass


def stopped(options: dict[str, Any], folder: Path) -> None:
    """Begin a run that can go on."""

    def stop(*_: object) -> None:
        raise Stopped

    resume._track_piece = stop
    ts.track(output=folder / "begun.trx", **options, resume=True)


def go_on(options: dict[str, Any], folder: Path) -> None:
    ts.track(output=folder / "begun.trx", **options, resume=True)


def write(options: dict[str, Any], folder: Path) -> None:
    ts.track(output=folder / "a.trx", **options)


def replace(options: dict[str, Any], folder: Path) -> None:
    ts.track(output=folder / "a.trx", **options, force=True, density=folder / "a_density.nii.gz")


def write_by_turns(parent: str) -> None:
    """Print what Bert could not do with what Anna has written, and then Anna herself."""
    options = inputs(Path(parent))
    (Path(parent) / "warm").mkdir()
    write(options, Path(parent) / "warm")
    replace(options, Path(parent) / "warm")
    go_on(options, Path(parent) / "warm")
    outcomes = {}
    for kind in FOLDERS:
        folder = folder_of(Path(parent), kind)
        calls = [(ANNA, write), (BERT, write), (BERT, replace), (ANNA, stopped), (BERT, go_on), (ANNA, go_on)]
        outcomes[kind] = {
            "words": [as_user(user, partial(call, options, folder), 0o002) for user, call in calls],
            "kept": {path.name: path.stat().st_uid for path in folder.iterdir()},
        }
    print(json.dumps(outcomes))


def test_two_users_of_a_group(public_folder):
    outcomes = json.loads(in_own_process(__file__, "write_by_turns", public_folder))
    assert outcomes.keys() == FOLDERS.keys()
    for kind, outcome in outcomes.items():
        wrote, again, forced, begun, others, went_on = outcome["words"]
        assert not wrote
        assert not went_on
        assert begun == "Stopped: "
        assert "a.trx: exists already" in again
        assert f"begun.trx.unfinished: belongs to another user ({ANNA})" in others
        assert "\n" not in others + forced
        replaced = {"a.trx": BERT, "a.json": BERT, "a_density.nii.gz": BERT}
        if kind == "sticky":
            assert f"a.trx: belongs to another user ({ANNA})" in forced
            replaced = {"a.trx": ANNA, "a.json": ANNA}
        else:
            assert not forced
        assert outcome["kept"] == replaced | {"begun.trx": ANNA, "begun.json": ANNA}


def reserve(output: Path) -> None:
    with reserved(Outputs(output), lambda: None):
        pass


def test_a_lock_that_cannot_be_used_is_one_line(public_folder):
    folder = folder_of(public_folder, "group")
    lock = folder / ".a.json.lock"
    lock.touch(0o600)
    os.chown(lock, ANNA, GROUP)
    words = as_user(BERT, partial(reserve, folder / "a.trx"))
    assert words.startswith(f"OutputError: {folder}/a.json: .a.json.lock belongs to another user ({ANNA})")
    assert "\n" not in words
    assert not as_user(ANNA, partial(reserve, folder / "a.trx"))
    assert not list(folder.iterdir())
