"""Reading of the gradients of a series, with checks: from files, from pipes, or from the series itself.

A pipe, as the shell creates for ``<(command)``, can be read only once.
"""

from __future__ import annotations

import os
import select
import stat
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..aliases import Array
from ..errors import InputError
from ..option import flag
from ..space.encoding import B0_THRESHOLD, NORM_TOLERANCE, Encoding
from ..space.harmonics import order_of
from .images import AnyPath, existing_path, mode_of, open_image, read_array, reading
from .in_memory import InMemory
from .stored_image import Image, StoredImage

LARGEST_B = 1e6  # s/mm^2
SIGNED = 0.2  # of the values: so many of harmonics and peaks are negative, and hardly any of signals
MOST = 1 << 26  # bytes read from a pipe
PATIENCE = 10.0  # seconds to wait for the first byte
TEXTS = (".bval", ".bvals", ".bvec", ".bvecs", ".txt", ".eddy_rotated_bvecs", "")  # endings of tables
# names of the files, after the name of the series or alone in its folder: as of converters, FSL and its eddy
NAMES = {
    "b-values": ("{}.bval", "{}.bvals", "bvals"),
    "directions": ("{}.bvec", "{}.bvecs", "{}.eddy_rotated_bvecs", "bvecs"),
}


def gradients_beside(dwi: str | os.PathLike[str]) -> tuple[Path, Path]:
    """Find the gradients of a series in its folder, by their names.

    Parameters
    ----------
    dwi : str or Path
        File of the series.

    Returns
    -------
    bvals, bvecs : Path
        Files in FSL's format.

    Raises
    ------
    InputError
        If there are none, or several that differ; the message says what the file seems to be instead.
    """
    if Path(dwi).is_dir() and any(Path(dwi).glob("merged_th1samples*")):
        raise InputError(f"{dwi}: is a folder of bedpostX: give it as {flag('bedpostx')} {dwi}")
    path = existing_path(dwi)
    stem = path.name.removesuffix(".gz").rpartition(".")[0] or path.name
    taken = {}
    for what, names in NAMES.items():
        files = [file for name in names if (file := path.parent / name.format(stem)).is_file()]
        others = [file for file in files[1:] if file.read_bytes() != files[0].read_bytes()]
        if others:
            raise InputError(
                f"{path}: {files[0].name} and {others[0].name} beside it differ: give BVALS and BVECS after DWI"
            )
        taken[what] = files[0] if files else None
    bvals, bvecs = taken.values()
    if bvals is not None and bvecs is not None:
        return bvals, bvecs
    missing = next(what for what, file in taken.items() if file is None)
    kind = other_kind(*open_image(path)) if bvals is bvecs else ""
    wanted = " or ".join(name.format(stem) for name in NAMES[missing])
    raise InputError(
        f"{path}: {kind or f'its {missing} are not beside it ({wanted}): give BVALS and BVECS after DWI'}"
    )


def other_kind(path: Path, image: Image) -> str:
    """Say so if an image holds harmonics or peaks, which another option takes.

    Parameters
    ----------
    path : Path
        The file.
    image : nibabel image or StoredImage
        The opened image.

    Returns
    -------
    str
        A description of the image with advice, or nothing.
    """
    count = int(np.prod(image.shape[3:], dtype=int))
    try:
        order = order_of(count)
    except ValueError:
        order = 0
    if order == 0 and count % 3:
        return ""
    values = np.nan_to_num(read_array(path, image)).reshape(-1, count)
    values = values[values.any(axis=1)]
    if order and (values[:, 0] > 0).sum() > len(values) / 2 and _are_signed(values[:, 1:]):
        return f"these look like FODs, {count} coefficients of order {order}: give them as {flag('sh')} {path}"
    if count % 3 == 0 and all(_are_signed(values[:, axis::3]) for axis in range(3)):
        return f"these look like peaks, {count // 3} a voxel: give them as {flag('peaks')} {path}"
    return ""


def _are_signed(values: Array) -> bool:
    return (values < 0).sum() > SIGNED * np.count_nonzero(values)


@dataclass(frozen=True)
class PipeContent:
    """The content of a pipe, with the name of the pipe."""

    path: str
    content: bytes

    def __fspath__(self) -> str:
        """Return the name of the pipe."""
        return self.path

    __str__ = __fspath__


def drain(path: AnyPath) -> AnyPath:
    """Read a pipe to its end; the path of any other file is returned as it is.

    Raises
    ------
    InputError
        If nothing is written to the pipe, or more than gradient files contain.
    """
    if isinstance(path, PipeContent | InMemory) or not stat.S_ISFIFO(mode_of(path)):
        return path
    try:
        # a blocking open would wait for a writer for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as pipe:
            if not select.select([pipe], [], [], PATIENCE)[0]:
                raise InputError(f"{path}: nobody writes to this pipe; check the command, or give a file")
            os.set_blocking(descriptor, True)
            content = pipe.read(MOST + 1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if len(content) > MOST:
        raise InputError(f"{path}: more than {MOST} bytes come from this pipe; give b-values or b-vectors")
    return PipeContent(os.fspath(path), content)


def read_gradients(bvals: AnyPath | None, bvecs: AnyPath | None, dwi: Path, image: Image) -> Encoding:
    """Read the gradients of an opened series, or return those that it has with it.

    Parameters
    ----------
    bvals, bvecs : str, Path, PipeContent, InMemory or None
        As of :func:`.nifti.open_dwi`.
    dwi : Path
        File of the series, for messages.
    image : nibabel image or StoredImage
        The series.

    Raises
    ------
    InputError
        If a file is missing or damaged, or if the three do not belong together.
    """
    volumes = image.shape[3]
    if bvals is None or bvecs is None:
        if not isinstance(image, StoredImage) or image.gradients is None:
            what = other_kind(dwi, image) or "has no gradients of its own; give BVALS and BVECS after it"
            raise InputError(f"{dwi}: {what}")
        bvals_path, bvecs_path, (values, vectors) = dwi, dwi, image.gradients()
    else:
        bvals_path, values = read_numbers(bvals)
        bvecs_path, vectors = read_numbers(bvecs)
    if 3 in values.shape[:2] and values.ndim == 2 and vectors.size == volumes:
        raise InputError(
            f"{bvals_path}: three numbers per volume, but {bvecs_path} has one b-value per volume; are BVALS and BVECS "
            "exchanged?"
        )
    values = np.atleast_1d(values)
    if values.ndim != 1:
        raise InputError(f"{bvals_path}: table of shape {values.shape}; give one b-value per volume")
    if vectors.shape == (3,):
        vectors = vectors[None]
    if vectors.ndim != 2 or 3 not in vectors.shape:
        raise InputError(f"{bvecs_path}: table of shape {vectors.shape}; give three numbers per volume")
    if vectors.shape[1] != 3:
        vectors = vectors.T
    for path, count, noun in ((bvals_path, len(values), "b-values"), (bvecs_path, len(vectors), "directions")):
        if count != volumes:
            raise InputError(f"{path}: {count} {noun}, but {dwi} has {volumes} volumes; give its gradients")
    _check_bvals(bvals_path, values)
    _check_bvecs(bvecs_path, vectors, values > B0_THRESHOLD)
    return Encoding.of(values, vectors)


def read_numbers(path: AnyPath) -> tuple[Path, npt.NDArray[np.float64]]:
    """Return the path of a table, and its numbers; axes of one number are left out."""
    name = Path(path) if isinstance(path, PipeContent | InMemory) else existing_path(path)
    with reading(name):
        if isinstance(path, InMemory):
            return name, np.asarray(path.values, np.float64)
        if isinstance(path, PipeContent):
            text = path.content.decode()
        elif name.suffix in TEXTS:
            text = name.read_text()
        elif name.suffix == ".npy":
            return name, np.squeeze(np.asarray(np.load(name), np.float64))
        else:
            raise ValueError(f"its name ends in {name.suffix}, not in {', '.join(TEXTS[:-1])} or .npy")
        return name, np.squeeze(np.loadtxt(StringIO(text.replace(",", " "), newline=None)))


def _check_bvals(path: Path, values: npt.NDArray[np.float64]) -> None:
    bad = np.flatnonzero(~((values >= 0) & (values <= LARGEST_B)))
    if len(bad):
        bounds = f"b-values must be between 0 and {LARGEST_B:g}"
        raise InputError(f"{path}: b-value {values[bad[0]]:g} of volume {bad[0]}; {bounds}")
    if values.min() > B0_THRESHOLD:
        raise InputError(f"{path}: no b0, the lowest b-value is {values.min():g}; one must be {B0_THRESHOLD} or less")
    if values.max() <= B0_THRESHOLD:
        raise InputError(f"{path}: the highest b-value is {values.max():g}; at least one must be above {B0_THRESHOLD}")


def _check_bvecs(path: Path, vectors: npt.NDArray[np.float64], weighted: npt.NDArray[np.bool_]) -> None:
    with np.errstate(over="ignore"):  # infinite norms are reported below
        norms = np.linalg.norm(vectors, axis=1)
    # Some converters write NaN for the direction of a b0; DIPY reads it as zero.
    bad = np.flatnonzero((weighted & ~(np.abs(norms - 1) <= NORM_TOLERANCE)) | np.isinf(norms))
    if len(bad):
        raise InputError(
            f"{path}: direction {vectors[bad[0]].round(4).tolist()} of volume {bad[0]} has length "
            f"{norms[bad[0]]:.4g}, not 1; give unit vectors (a b0 is a volume of at most b={B0_THRESHOLD})"
        )
