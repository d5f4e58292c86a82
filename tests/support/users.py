"""Forks of a process that become other users, as which root can call functions."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

ANNA, BERT, GROUP = 54_321, 54_322, 54_333  # users without names, and a group that both are in
OTHER = 65_534
FOLDERS = {"group": (OTHER, GROUP, 0o2775), "everyone": (0, 0, 0o777), "sticky": (0, 0, 0o1777)}  # owner, group, mode


def _refusal() -> str | None:
    """Why functions cannot be called as other users here; None if they can."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "only root can become other users"
    packages = Path(np.__file__).resolve().parents[1]  # models read tables of directions there
    closed = [folder for folder in (packages, *packages.parents) if not folder.stat().st_mode & stat.S_IXOTH]
    return f"other users cannot open {closed[0]}, which holds the packages: chmod 755" if closed else None


only_root = pytest.mark.skipif(_refusal() is not None, reason=str(_refusal()))


def as_user(user: int, call: Callable[[], object], umask: int = 0o022, group: int | None = GROUP) -> str:
    """Call a function in a fork of this process as another user; return its error, or nothing.

    The fork can import nothing more if the user may not read Python's own folder: call the function as root before.
    """
    reader, writer = os.pipe()
    process = os.fork()
    if not process:
        words = "no end"
        try:
            os.setgroups([] if group is None else [group])
            os.setgid(user)
            os.setuid(user)
            os.umask(umask)
            call()
            words = ""
        except BaseException as error:
            words = f"{type(error).__name__}: {error}"
        finally:
            os.write(writer, json.dumps(words).encode())
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        words = json.loads(file.read())
    os.waitpid(process, 0)
    return words


def folder_of(parent: Path, kind: str) -> Path:
    """Make a folder to which Anna and Bert may write, but which belongs to neither."""
    folder = parent / kind
    folder.mkdir()
    owner, group, mode = FOLDERS[kind]
    os.chown(folder, owner, group)
    folder.chmod(mode)
    return folder
