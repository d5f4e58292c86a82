"""MRtrix3's image format, which is not supported."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError

ENDINGS = (".mif", ".mif.gz", ".mih")


def refuse_mif(path: Path) -> None:
    """Raise an InputError for an image in MRtrix3's format, with the command that converts it."""
    ending = next((ending for ending in ENDINGS if path.name.lower().endswith(ending)), None)
    if ending is not None:
        stem = path.name[: -len(ending)]
        raise InputError(
            f"{path}: MRtrix3's format is not supported; run mrconvert {path.name} {stem}.nii.gz, and for a series add "
            f"-export_grad_fsl {stem}.bvec {stem}.bval"
        )
