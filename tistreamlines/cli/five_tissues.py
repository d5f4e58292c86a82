"""``tistreamlines 5tt``."""

from __future__ import annotations

import click

from ..io.five_tissues import TISSUES
from ..option import OUTPUT
from .options import GroupedCommand, grouped, parameter_options, quiet_option
from .printing import tell, warnings_afterwards

fractions = grouped("Tissue fractions")


@click.command("5tt", cls=GroupedCommand)
@click.argument("segmentation", required=False)
@grouped(OUTPUT)("-o", "--output", required=True, metavar="FILE", help="Image to write, .nii or .nii.gz.")
@parameter_options(["force"])
@grouped(OUTPUT)("--crop", is_flag=True,
        help="Cut the grid to the brain, with a voxel around it.  [default: the grid of the input]")
@grouped("Segmentation")("--sgm-amyg-hipp", is_flag=True,
        help="Take the amygdalae and hippocampi as subcortical grey matter.  [default: cortical grey matter]")
@fractions("--pve-wm", metavar="FILE", help="Share of white matter in each voxel, from 0 to 1. FAST numbers it 2.")
@fractions("--pve-gm", metavar="FILE", help="Share of grey matter in each voxel. FAST numbers it 1.")
@fractions("--pve-csf", metavar="FILE", help="Share of cerebrospinal fluid in each voxel. FAST numbers it 0.")
@fractions("--sgm", metavar="FILE",
        help="Subcortical grey matter: a mask, shares from 0 to 1, or labels of FreeSurfer, which FSL's "
        "FIRST writes, too.  [default: none, with a warning]")
@quiet_option
@click.pass_context
def five_tissues(context: click.Context, output: str, quiet: bool, **_: object) -> None:
    """Make a five-tissue-type (5TT) image, for anatomically constrained tractography.

    SEGMENTATION has labels of FreeSurfer, .mgz, .nii or .nii.gz: aseg, aparc+aseg, or a segmentation of FastSurfer or
    SynthSeg. They are grouped as by MRtrix3's 5ttgen freesurfer. In its place, --pve-wm, --pve-gm and --pve-csf are the
    fractions of three tissues, such as those of FSL's FAST.

    The image has five volumes: cortical grey matter, subcortical grey matter, white matter, cerebrospinal fluid and
    pathological tissue. They sum to 1 in the brain, as MRtrix3's 5ttcheck demands.
    """
    import numpy as np

    from ..run.five_tissues import five_tissues as run

    with warnings_afterwards():
        image = run(**{name: value for name, value in context.params.items() if name != "quiet"})
    if not quiet:
        voxel_ml = abs(float(np.linalg.det(np.asarray(image.affine)[:3, :3]))) / 1000
        volumes = image.get_fdata(dtype=np.float32).sum(axis=(0, 1, 2), dtype=np.float64) * voxel_ml
        parts = ", ".join(f"{ml:,.1f} ml of {name}" for name, ml in zip(TISSUES, volumes, strict=True) if ml)
        tell(f"{click.format_filename(output)}: {parts}")
