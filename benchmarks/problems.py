"""Data that a script tracks with several methods."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from tistreamlines.benchmarks.cases import Case, TimedMethod
from tistreamlines.benchmarks.problem import Problem, save_problem


@contextmanager
def problems_of(data: Path) -> Generator[Callable[[TimedMethod, int], Problem], None, None]:
    """Fit a series once, for scripts that track it with several methods.

    Parameters
    ----------
    data : Path
        Folder with dwi.nii.gz, dwi.bval, dwi.bvec and mask.nii.gz.

    Yields
    ------
    callable
        Returns the :class:`Problem` of a method and a number of seeds. Its files are deleted at the end of the block.
    """
    with tempfile.TemporaryDirectory() as folder:
        paths = tuple(str(data / name) for name in ("dwi.nii.gz", "dwi.bval", "dwi.bvec"))
        save_problem(Case("dwi", paths=paths, mask=str(data / "mask.nii.gz")), Path(folder))
        yield partial(Problem, Path(folder))
