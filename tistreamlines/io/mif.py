"""MRtrix's image format, which is not read."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError

ENDINGS = (".mif", ".mif.gz", ".mih")


def refuse_mif(path: Path) -> None:
    """Raise InputError for an image in MRtrix's format; it says how to convert it."""
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is not None:
        stem = path.name[: -len(ending)]
        raise InputError(
            f"{path}: MRtrix's format is not read; convert it: mrconvert {path.name} {stem}.nii.gz, and for a series "
            f"-export_grad_fsl {stem}.bvec {stem}.bval"
        )
