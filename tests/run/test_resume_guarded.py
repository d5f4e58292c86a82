"""The folder of a run that can go on: what others leave there, in place of files or among them, changes no result."""

import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

import pytest
from small_runs import change, soon, write_inputs

import tistreamlines as ts
from tistreamlines.run import resume

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no pipes, owners and locks here")


class Stopped(Exception):
    pass


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("in")) | {"resume": True}


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """The bytes of an undisturbed run."""
    output = tmp_path_factory.mktemp("whole") / "a.trx"
    ts.track(output=output, **options | {"resume": False})
    return output.read_bytes()


def unfinished(output, options):
    """Track until the fourth piece; return the folder with the first three."""
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Stopped):
        patch.setattr(resume, "FEWEST", 20)
        patch.setattr(resume, "MOST", 20)
        real, left = resume._track_piece, [3]

        def stop(*arguments):
            left[0] -= 1
            if left[0] < 0:
                raise Stopped
            return real(*arguments)

        patch.setattr(resume, "_track_piece", stop)
        ts.track(output=output, **options)
    return output.with_name(f"{output.name}.unfinished")


@pytest.fixture(scope="module")
def begun(options, tmp_path_factory):
    return unfinished(tmp_path_factory.mktemp("begun") / "a.trx", options)


@pytest.fixture(scope="module")
def other(options, tmp_path_factory):
    """As many pieces of a run with another angle."""
    return unfinished(tmp_path_factory.mktemp("other") / "a.trx", options | {"max_angle": 4})


@pytest.fixture
def folder(begun, tmp_path):
    copy = shutil.copytree(begun, tmp_path / "a.trx.unfinished")
    copy.chmod(0o700)
    return copy


def goes_on(folder, options, whole):
    """Give the same command again; the bytes must be those of an undisturbed run, and nothing may be left."""
    with soon():
        ts.track(output=folder.parent / "a.trx", **options)
    assert (folder.parent / "a.trx").read_bytes() == whole
    assert {path.name for path in folder.parent.iterdir()} >= {"a.json", "a.trx"}
    assert not folder.exists()


def refused(folder, options, match):
    with soon(), pytest.raises(ts.TrackingError, match=match) as caught:
        ts.track(output=folder.parent / "a.trx", **options)
    assert "\n" not in str(caught.value)
    assert not (folder.parent / "a.trx").exists()


def pieces(folder):
    return sorted(folder.glob("*.trx"))


class TestPieces:
    @pytest.mark.parametrize(("number", "less"), [(0, 2), (1, -2), (2, 2)])
    def test_a_record_with_other_seeds(self, folder, options, whole, number, less):
        """Else two seeds would be tracked twice, or not at all."""
        record = pieces(folder)[number].with_suffix(".json")
        seeds = json.loads(record.read_text())["result"]["seeds"]
        change(record, ("result", "seeds"), seeds - less, renewed=False)
        with pytest.warns(UserWarning, match="has been changed since it was written.* tracked anew"):
            goes_on(folder, options, whole)

    def test_pieces_of_another_run(self, folder, other, options, whole):
        for suffix in (".trx", ".json"):
            shutil.copy(pieces(other)[1].with_suffix(suffix), folder)
        with pytest.warns(UserWarning, match=r"is of another run .*max_angle is 4.*tracked anew"):
            goes_on(folder, options, whole)

    def test_pieces_of_another_run_without_its_journal(self, tmp_path, other, options, whole):
        folder = shutil.copytree(other, tmp_path / "a.trx.unfinished")
        (folder / "run.json").unlink()
        with pytest.warns(UserWarning, match=r"run.json: is missing") as caught:
            goes_on(folder, options, whole)
        assert any("is of another run" in str(warning.message) for warning in caught)

    def test_a_tractogram_of_another_run(self, folder, other, options, whole):
        for path in pieces(other):
            shutil.copy(path, folder)
        with pytest.warns(UserWarning, match=r"is not the tractogram that .* describes.*tracked anew"):
            goes_on(folder, options, whole)

    def test_pieces_that_changed_places(self, folder, options, whole):
        first, two, _ = pieces(folder)
        for suffix in (".trx", ".json"):
            shutil.copy(first.with_suffix(suffix), folder / "kept")
            shutil.copy(two.with_suffix(suffix), first.with_suffix(suffix))
            shutil.move(folder / "kept", two.with_suffix(suffix))
        with pytest.warns(UserWarning, match=r"it has other seeds.*tracked anew"):
            goes_on(folder, options, whole)

    def test_a_record_of_an_earlier_version(self, folder, options, whole):
        record = pieces(folder)[1].with_suffix(".json")
        record.write_text(json.dumps({k: v for k, v in json.loads(record.read_text()).items() if k != "checksum"}))
        with pytest.warns(UserWarning, match=r"has no checksum.*tracked anew"):
            goes_on(folder, options, whole)

    @pytest.mark.parametrize("suffix", [".trx", ".json"])
    @pytest.mark.parametrize("kind", ["pipe", "link"])
    def test_what_is_no_file(self, folder, options, whole, suffix, kind):
        path = pieces(folder)[1].with_suffix(suffix)
        path.rename(folder.parent / "own")
        os.mkfifo(path) if kind == "pipe" else path.symlink_to(folder.parent / "own")
        with pytest.warns(UserWarning, match=rf"it is a {kind}, not a file.*tracked anew"):
            goes_on(folder, options, whole)


class TestFolder:
    @pytest.mark.parametrize("name", ["run.json", "lock"])
    @pytest.mark.parametrize("kind", ["pipe", "folder", "link"])
    def test_what_is_no_file(self, folder, options, name, kind, tmp_path):
        path, precious = folder / name, tmp_path / "precious"
        precious.write_text("precious")
        path.unlink(missing_ok=True)
        {"pipe": os.mkfifo, "folder": os.mkdir, "link": lambda path: path.symlink_to(precious)}[kind](path)
        refused(folder, options, rf"{name}: cannot be .*it is a {kind}, not a file")
        assert precious.read_text() == "precious"

    @pytest.mark.parametrize(
        "content", ["", "[]", "{", '{"made_by": "tistreamlines", "run": {}}', "[" * 100_000, '{"made_by": 3}', "\0"]
    )
    def test_a_journal_that_is_none(self, folder, options, content):
        (folder / "run.json").write_text(content)
        refused(folder, options, r"run\.json: .*remove .*a\.trx\.unfinished to track anew")

    def test_a_journal_that_was_edited(self, folder, options):
        change(folder / "run.json", ("run", "--max-angle"), 4.0, renewed=False)
        refused(folder, options, r"run\.json: has been changed since it was written")

    def test_a_link_in_its_place(self, begun, options, tmp_path):
        place = tmp_path / "a.trx.unfinished"
        place.symlink_to(begun)
        refused(place, options, r"is a link or a file")

    def test_other_users_can_write_to_it(self, folder, options):
        folder.chmod(0o777)
        refused(folder, options, "other users can write to it")

    @pytest.mark.skipif(os.name == "nt" or os.geteuid() != 0, reason="only root gives files to others")
    @pytest.mark.parametrize("what", ["folder", "run.json", "piece"])
    def test_it_belongs_to_another_user(self, folder, options, what, whole):
        path = {"folder": folder, "run.json": folder / "run.json", "piece": pieces(folder)[1]}[what]
        os.chown(path, 65534, -1)
        if what == "piece":
            with pytest.warns(UserWarning, match=r"it belongs to another user.*tracked anew"):
                goes_on(folder, options, whole)
        else:
            refused(folder, options, "other users|another user")

    def test_only_its_user_can_use_it(self, options, tmp_path):
        assert unfinished(tmp_path / "a.trx", options).stat().st_mode & 0o777 == 0o700

    @pytest.mark.parametrize("name", ["[ab].trx", "*.trx", "?.trx"])
    def test_drafts_of_other_runs_stay(self, options, tmp_path, name, whole):
        """Those of an earlier run with the same output are of a process that was killed."""
        *others, earlier = (tmp_path / f".{output}.0123abcd.part" for output in ("a.trx", "b.trx", name))
        for draft in (*others, earlier):
            draft.mkdir()
        ts.track(output=tmp_path / name, **options)
        assert (tmp_path / name).read_bytes() == whole
        assert all(draft.is_dir() for draft in others)
        assert not earlier.exists()

    def test_what_a_killed_process_left_is_removed(self, folder, options, whole):
        """Also the draft of the whole, which is written there."""
        left = Path(tempfile.mkdtemp(dir=folder, prefix=".a.trx.", suffix=".part"))
        (left / "a").touch()
        goes_on(folder, options, whole)
        assert {path.name for path in folder.parent.iterdir()} == {"a.json", "a.trx"}
