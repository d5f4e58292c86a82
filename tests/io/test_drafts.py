"""Locks on outputs: in folders of other users, with what others have left or planted there, and after a kill."""

import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
from users import ANNA, BERT, FOLDERS, GROUP, OTHER, as_user, folder_of, only_root

from tistreamlines.io import drafts

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no locks here")


def reserve(path: Path) -> None:
    with drafts.reserved(path):
        assert drafts.lock_of(path).exists()


def left(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


@only_root
@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("user", [0, ANNA])
@pytest.mark.parametrize("umask", [0o002, 0o022, 0o077])
def test_a_folder_of_another_user(public_folder, kind, user, umask):
    folder = folder_of(public_folder, kind)
    assert not as_user(user, partial(reserve, folder / "a.json"), umask)
    assert not left(folder)


@only_root
@pytest.mark.parametrize("squashed", [OTHER, ANNA])
def test_a_disk_that_gives_files_another_owner(public_folder, monkeypatch, squashed):
    """As NFS, where files of root belong to nobody: the process takes itself for root, and its files are another's."""
    folder = folder_of(public_folder, "sticky")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    drafts.lock_of(folder / "a.json").touch()
    os.chown(drafts.lock_of(folder / "a.json"), squashed, -1)
    assert not as_user(squashed, partial(reserve, folder / "a.json"))
    assert not left(folder)


@only_root
@pytest.mark.parametrize("kind", FOLDERS)
@pytest.mark.parametrize("mode", [0o664, 0o644, 0o600])
def test_a_lock_that_another_users_run_has_left(public_folder, kind, mode):
    """It is used where it can be opened and removed, and named where it cannot."""
    folder = folder_of(public_folder, kind)
    lock = drafts.lock_of(folder / "a.json")
    lock.touch()
    os.chown(lock, ANNA, GROUP)
    lock.chmod(mode)
    words = as_user(BERT, partial(reserve, folder / "a.json"), 0o002)
    if kind == "sticky" or mode == 0o600:
        assert "ForeignLock" in words and str(ANNA) in words
        assert left(folder) == {lock.name}
    else:
        assert not words
        assert not left(folder)


@only_root
@pytest.mark.parametrize("kind", FOLDERS)
def test_another_users_run_that_goes_on(public_folder, kind):
    folder = folder_of(public_folder, kind)
    lock = drafts.lock_of(folder / "a.json")
    with drafts.reserved(folder / "a.json"):
        words = as_user(BERT, partial(reserve, folder / "a.json"))
        assert "BlockingIOError" in words
        assert left(folder) == {lock.name}
    assert not left(folder)


@only_root
@pytest.mark.parametrize("kind", ["pipe", "link", "loose link", "folder"])
def test_what_a_stranger_has_planted(public_folder, kind):
    folder = folder_of(public_folder, "sticky")
    lock, precious = drafts.lock_of(folder / "a.json"), public_folder / "precious"
    precious.write_text("precious")
    os.chown(precious, ANNA, -1)

    def plant() -> None:
        target = public_folder / "nothing" if kind == "loose link" else precious
        {"pipe": os.mkfifo, "folder": os.mkdir}.get(kind, lambda path: path.symlink_to(target))(lock)

    assert not as_user(BERT, plant)
    for user in (ANNA, 0):
        assert f"it is a {kind.split()[-1]}, not a file" in as_user(user, partial(reserve, folder / "a.json"))
    assert precious.read_text() == "precious"
    assert not (public_folder / "nothing").exists()
    assert left(folder) == {lock.name}


def test_another_try_of_this_process_forgets_no_lock(tmp_path):
    """A signal still finds the file."""
    path = tmp_path / "a.json"
    with drafts.reserved(path):
        for _ in range(2):
            with pytest.raises(BlockingIOError):
                reserve(path)
        assert drafts.lock_of(path).is_file()
        drafts.discard()
        assert not left(tmp_path)


HELD = """
import os, signal, sys
from pathlib import Path
from tistreamlines.io import drafts
path = Path(sys.argv[1])
with drafts.reserved(path), drafts.hidden_folder(path) as draft:
    (draft / "half").touch()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed(tmp_path):
    """Drafts of other files stay, also of those with a similar name."""
    path = tmp_path / "a[1].json"
    killed = subprocess.run([sys.executable, "-c", HELD, path], check=False)
    assert killed.returncode == -9
    assert len(left(tmp_path)) == 2
    others = {f"{name}.part" for name in (".a1.json.0123abcd", ".a[1].jsonx.0123abcd", ".a[1].json.0123abc")}
    for name in others:
        (tmp_path / name).mkdir()
    with drafts.reserved(path):
        assert left(tmp_path) == {drafts.lock_of(path).name, *others}
    assert left(tmp_path) == others


def test_drafts_that_are_links_lead_nowhere(tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "file").touch()
    (tmp_path / ".a.json.0123abcd.part").symlink_to("precious")
    with drafts.reserved(tmp_path / "a.json"):
        pass
    assert (tmp_path / "precious" / "file").exists()
