"""What replays begin with: a small series, peaks along y, and tractograms, each written to an empty folder."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import nibabel as nib
import numpy as np
from commands import Command, Outcome
from small_runs import SHAPE, write_inputs

from tistreamlines.phantom.phantom import Phantom, make_phantom

__all__ = ["SHAPE", "Scene", "lines_along_y", "plain"]


@lru_cache
def head() -> Phantom:
    """A head of 18 x 22 x 17 voxels of 8 mm, with two b0s and 32 directions."""
    return make_phantom((18, 22, 17), voxel_mm=8.0, n_b0=2, n_dirs=32)


@dataclass(frozen=True)
class Scene:
    """An empty folder, and the command line."""

    folder: Path
    run: Command

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def image(
        self, name: str, values: Any, affine: Any = None, change: Callable[[Any], None] = lambda image: None
    ) -> Path:
        """Write an image, of voxels of 2 mm without an affine, after a change of it."""
        image = nib.Nifti1Image(np.asarray(values), np.diag([2.0, 2, 2, 1]) if affine is None else affine)
        change(image)
        nib.save(image, self / name)
        return self / name

    def series(self, bvals: Any = None, bvecs: Any = None, data: Any = None, affine: Any = None) -> list[object]:
        """Write the series, its gradients and its mask, with parts in place of its own; return arguments of track."""
        phantom = head()
        affine = phantom.affine if affine is None else affine
        data = phantom.data if data is None else data
        self.image("dwi.nii", data, affine)
        self.image("mask.nii", phantom.mask.astype(np.uint8), affine)
        np.savetxt(self / "dwi.bval", np.atleast_2d(phantom.bvals if bvals is None else bvals), fmt="%g")
        np.savetxt(self / "dwi.bvec", np.asarray(phantom.bvecs if bvecs is None else bvecs).T, fmt="%.8f")
        names = [self / name for name in ("dwi.nii", "dwi.bval", "dwi.bvec")]
        return [*names, "--mask", self / "mask.nii", "--arch", "cpu", "--nseeds", 60, "--min-length", 0]

    def peaks(self) -> list[object]:
        """Write peaks, a stop map and seeds; return arguments of track."""
        options = write_inputs(self.folder)
        return [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]

    def track(self, arguments: Sequence[object], *more: object, output: str = "out.tck") -> Outcome:
        """Track, which has to succeed, to a file and its record."""
        (self / output).with_suffix(".json").unlink(missing_ok=True)
        outcome = self.run("track", *arguments, *more, "-o", self / output, "--force")
        assert outcome.code == 0, outcome.err
        return outcome

    def tracked(self, arguments: Sequence[object], *more: object, output: str = "out.tck") -> Any:
        """Track, and return the streamlines as nibabel reads them."""
        self.track(arguments, *more, output=output)
        return nib.streamlines.load(self / output).streamlines

    def lines(self, name: str, streamlines: Sequence[Any], affine: Any = None, **data: Any) -> Path:
        """Write a tractogram as nibabel does."""
        affine = np.diag([2.0, 2, 2, 1]) if affine is None else affine
        header = None
        if name.endswith(".trk"):
            header = {
                "voxel_to_rasmm": affine, "dimensions": SHAPE, "voxel_sizes": nib.affines.voxel_sizes(affine),
                "voxel_order": "".join(nib.aff2axcodes(affine)),
            }
        tractogram = nib.streamlines.Tractogram(
            [np.asarray(line, np.float32) for line in streamlines], affine_to_rasmm=np.eye(4), **data
        )
        nib.streamlines.save(tractogram, str(self / name), header=header)
        return self / name

    def map(self, *arguments: object) -> Outcome:
        """Map a tractogram, which has to succeed."""
        outcome = self.run("map", *arguments, "--force")
        assert outcome.code == 0, outcome.err
        return outcome

    def refused(self, *arguments: object, words: Sequence[str] = ()) -> str:
        """Run a command that has to end with one line, which holds the words; return the line."""
        outcome = self.run(*arguments)
        assert outcome.code == 1, outcome
        errors = [line for line in outcome.err.splitlines() if not line.startswith(("Note: ", "Warning: "))]
        assert len(errors) == 1, outcome.err
        assert errors[0].startswith("Error: ")
        assert "unexpected" not in errors[0]
        for word in words:
            assert word in errors[0], errors[0]
        return errors[0]


def lines_along_y(count: int = 6, points: int = 9) -> list[np.ndarray]:
    """Straight streamlines between two slabs of voxels of 2 mm, RASmm."""
    y = np.linspace(5.0, 29.0, points)
    return [np.column_stack([np.full(points, 6.0 + 3 * k), y, np.full(points, 8.0 + k)]) for k in range(count)]


def plain(streamlines: Any) -> list[list[list[float]]]:
    """Streamlines as lists, which compare by value."""
    return [np.round(np.asarray(line, np.float64), 3).tolist() for line in streamlines]
