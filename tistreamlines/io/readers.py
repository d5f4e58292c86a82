"""The formats of images: how each is opened, and the files that make up an image.

The files of a format are its module, with a function that opens an image, and a row of READERS.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError
from .mif import MRTRIX_SUFFIXES, files_of_mif, open_mif


@dataclass(frozen=True)
class Reader:
    """A format of images.

    Parameters
    ----------
    suffixes : tuple of str
        Ends of file names, in lower case; '' stands for any.
    open : callable
        Returns the image of an existing file: one of nibabel, or a :class:`tistreamlines.io.stored.StoredImage`. It
        raises an InputError for what it finds to be wrong; other errors become one that names the file.
    files : callable
        Returns the files that make up the image of a file. They need not exist.
    gradients : bool
        Whether an image of this format can bring the gradients of its volumes.
    """

    suffixes: tuple[str, ...]
    open: Callable[[Path], object]
    files: Callable[[Path], list[Path]]
    gradients: bool = False


def _open_with_nibabel(path: Path) -> object:
    import nibabel as nib

    if path.name.lower().endswith(".gii"):  # which nibabel would read whole, with other files that it names
        raise InputError(f"{path}: is GIFTI, not an image; give e.g. a NIfTI file")
    return nib.load(path)


def _pair(path: Path) -> list[Path]:
    """Return both files of an image in Analyze's style, any other file as it is."""
    return [path.with_suffix(suffix) for suffix in (".hdr", ".img")] if path.suffix in (".hdr", ".img") else [path]


READERS = (
    Reader(MRTRIX_SUFFIXES, open_mif, files_of_mif, gradients=True),
    Reader(("",), _open_with_nibabel, _pair),
)


def reader_of(path: Path) -> Reader:
    """Return the format of a file by the end of its name."""
    return next(reader for reader in READERS if path.name.lower().endswith(reader.suffixes))


def has_gradients(source: str | os.PathLike[str]) -> bool:
    """Return whether the name of a file is that of a format in which a series can have gradients of its own."""
    return reader_of(Path(source)).gradients
