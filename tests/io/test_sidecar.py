"""The JSON file beside a tractogram."""

import hashlib
import json
from enum import IntEnum
from pathlib import Path

import numpy as np
import pytest

from tistreamlines.errors import InputError, OutputError
from tistreamlines.io.sidecar import sha256, sidecar_path, write_json


class Reason(IntEnum):
    ANGLE = 3


class TestSidecar:
    def test_path(self):
        assert sidecar_path("a/sub.01.trx") == Path("a/sub.01.json")

    def test_json(self, tmp_path):
        content = {
            "steps": np.int64(3),
            "size": np.float32(0.5),
            "fast": np.bool_(True),
            "affine": np.eye(2),
            "path": Path("dwi.nii.gz"),
            "reasons": {Reason.ANGLE: 4, np.uint8(7): 1},
            "nested": [(1, np.nan), {2, 1}],
        }
        write_json(tmp_path / "out.json", content)
        assert json.loads((tmp_path / "out.json").read_text()) == {
            "steps": 3,
            "size": 0.5,
            "fast": True,
            "affine": [[1, 0], [0, 1]],
            "path": "dwi.nii.gz",
            "reasons": {"ANGLE": 4, "7": 1},
            "nested": [[1, None], [1, 2]],
        }
        assert [file.name for file in tmp_path.iterdir()] == ["out.json"]

    def test_failure_keeps_the_old_file(self, tmp_path):
        write_json(tmp_path / "out.json", {"a": 1})
        with pytest.raises(TypeError):
            write_json(tmp_path / "out.json", {"a": object()})
        assert json.loads((tmp_path / "out.json").read_text()) == {"a": 1}

    def test_no_force(self, tmp_path):
        write_json(tmp_path / "out.json", {"a": 1}, force=False)
        with pytest.raises(OutputError, match=r"out\.json: exists already"):
            write_json(tmp_path / "out.json", {"a": 2}, force=False)

    def test_sha256(self, tmp_path):
        (tmp_path / "data").write_bytes(b"x" * 3_000_000)
        assert sha256(tmp_path / "data") == hashlib.sha256(b"x" * 3_000_000).hexdigest()
        with pytest.raises(InputError, match="absent"):
            sha256(tmp_path / "absent")
