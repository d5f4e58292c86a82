"""Finer labels of hippocampus, amygdala and thalamus, which modules of FreeSurfer leave in a subject's folder."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

ASEG = "aseg"
HIPPOCAMPI_FROM, THALAMI_FROM = ("subfields", ASEG), ("nuclei", ASEG)  # values of options
SUBFIELDS = re.compile(r"lh(\.hippo[a-zA-Z]*Labels-[a-zA-Z0-9]*\.v[0-9]+\.?[a-zA-Z0-9]*\.mg[hz])")
NUCLEI = re.compile(r"ThalamicNuclei\.v([0-9]+)\.?[a-zA-Z0-9]*\.mg[hz]")
COARSE = "FSvoxelSpace"  # in the names of images in larger voxels
PREFERRED = (".CA.", ".FS60.")  # in the names of images whose subfields are grouped by layers
AMYGDALA = "Amyg"  # in the names of images that also have the amygdala


def subfields_in(folder: Path) -> tuple[Path, ...]:
    """Return the images of the left and the right hippocampus in a folder, or nothing."""
    pairs = [match[1] for name in _names(folder) if (match := SUBFIELDS.fullmatch(name))]
    pairs = [ending for ending in pairs if (folder / f"rh{ending}").is_file()]
    if not pairs:
        return ()
    ending = min(pairs, key=lambda name: (_rank(name), len(name), name))
    return folder / f"lh{ending}", folder / f"rh{ending}"


def nuclei_in(folder: Path) -> tuple[Path, ...]:
    """Return the image of the thalami in a folder by the newest version of the module, or nothing."""
    images = [(-int(match[1]), len(name), name) for name in _names(folder) if (match := NUCLEI.fullmatch(name))]
    return (folder / min(images)[2],) if images else ()


def _names(folder: Path) -> Iterable[str]:
    return (path.name for path in folder.iterdir() if COARSE not in path.name)


def _rank(name: str) -> int:
    return next((number for number, code in enumerate(PREFERRED) if code in name), len(PREFERRED))
