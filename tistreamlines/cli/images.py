"""``tistreamlines 5tt`` and ``fixels``: commands that make images for tracking."""

from __future__ import annotations

import click
from click.core import ParameterSource

from ..devices import ARCHS
from ..errors import ParameterError
from ..fit.lobes import Thresholds
from ..io.maps import FORMATS
from ..io.segmentations import TISSUES
from ..option import MODEL, OUTPUT, RUNNING, flag
from ..space.harmonics import BASES
from ..surfaces.modules import HIPPOCAMPI_FROM, THALAMI_FROM
from .options import CountType, GroupedCommand, group_option, parameter_options, quiet_option
from .printing import tell, warnings_afterwards

SYMMETRIC = [name for name, basis in BASES.items() if not basis.full]
folder, fractions, lobe = map(group_option, ("Subject's folder", "Tissue fractions", "Lobes"))


@click.command("5tt", cls=GroupedCommand)
@click.argument("segmentation", required=False)
@group_option(OUTPUT)("-o", "--output", required=True, metavar="FILE", help="Image to write, .nii or .nii.gz.")
@parameter_options(["force"])
@group_option(OUTPUT)("--crop", is_flag=True,
        help="Cut the grid to the brain, with a voxel around it.  [default: the grid of the input]")
@group_option("Segmentation")("--sgm-amyg-hipp", is_flag=True,
        help="Take the amygdalae and hippocampi as subcortical grey matter, not as cortex.  [default: off]")
@folder("--template", metavar="FILE", help="Image whose grid the result has.  [default: that of the labels]")
@folder("--voxel-size", type=click.FLOAT, metavar="MM",
        help="Side of the voxels, which cover the grid of the labels.  [default: the grid of the labels]")
@folder("--hippocampi", type=click.Choice(HIPPOCAMPI_FROM), help="Image that hippocampi and amygdalae are taken from.  "
        "[default: subfields by FreeSurfer's module if there are any, else aseg]")
@folder("--thalami", type=click.Choice(THALAMI_FROM), help="Image that thalami are taken from.  "
        "[default: nuclei by FreeSurfer's module if there are any, else aseg]")
@folder("--white-stem", is_flag=True,
        help="Take the brain stem as white matter.  [default: pathological tissue, in which streamlines may end]")
@fractions("--pve-wm", metavar="FILE", help="Share of white matter in each voxel, from 0 to 1. FAST numbers it 2.")
@fractions("--pve-gm", metavar="FILE", help="Share of grey matter in each voxel. FAST numbers it 1.")
@fractions("--pve-csf", metavar="FILE", help="Share of cerebrospinal fluid in each voxel. FAST numbers it 0.")
@fractions("--tissues", metavar="FOLDER",
        help="FODs of tistreamlines fod --model msmt, whose tissues stand in for these fractions. They do not tell "
        "cortical from subcortical grey matter: without --sgm, all of it counts as cortical.")
@fractions("--sgm", metavar="FILE",
        help="Subcortical grey matter: a mask, shares from 0 to 1, or labels of FreeSurfer, which FSL's "
        "FIRST writes, too.  [default: none, with a warning]")
@quiet_option
@click.pass_context
def five_tissues(context: click.Context, output: str, quiet: bool, **_: object) -> None:
    """Make a five-tissue-type (5TT) image, for anatomically constrained tractography.

    SEGMENTATION has labels of FreeSurfer, .mgz, .nii or .nii.gz: aseg, aparc+aseg, or a segmentation of FastSurfer or
    SynthSeg. They are grouped as by MRtrix3's 5ttgen freesurfer. It may also be a subject's folder of FreeSurfer, whose
    surfaces and labels are combined as by 5ttgen hsvs. In its place, --pve-wm, --pve-gm and --pve-csf are the fractions
    of three tissues, such as those of FSL's FAST, or --tissues names a folder of FODs.

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


@click.command("fixels", cls=GroupedCommand)
@click.argument("fod")
@click.argument("folder")
@group_option(MODEL)("--sh-basis", type=click.Choice(SYMMETRIC, case_sensitive=False),
        help="Basis of the coefficients. The default of DIPY is descoteaux07_legacy; MRtrix3 uses tournier07.  "
        "[default: tournier07 of a .mif; required otherwise]")
@group_option(MODEL)("--sh-frame", type=click.Choice(("scanner", "voxel"), case_sensitive=False),
        help="Axes of the coefficients: voxel axes (voxel), as in DIPY, or scanner axes (scanner), as in MRtrix3.  "
        "[default: scanner for tournier07, voxel for descoteaux07]")
@group_option(MODEL)("--mask", metavar="FILE",
        help="Voxels that may have fixels: those of at least 0.5.  [default: all that have a FOD]")
@lobe("--fmls-peak-value", type=click.FLOAT, default=Thresholds.peak_value, metavar="VALUE",
        help=f"Drop lobes whose peak has a lower amplitude.  [default: {Thresholds.peak_value:g}]")
@lobe("--fmls-integral", type=click.FLOAT, default=Thresholds.integral, metavar="VALUE",
        help=f"Drop lobes whose integral is lower.  [default: {Thresholds.integral:g}]")
@lobe("--fmls-no-thresholds", is_flag=True, help="Drop no lobe: both thresholds are 0.  [default: off]")
@lobe("--fmls-merge-ratio", type=click.FLOAT, default=Thresholds.merge_ratio, metavar="RATIO",
        help="Two lobes are one where the amplitude between them exceeds this part of the lower peak, from 0 to 1. "
        f"With 1, lobes are never merged, and with 0 always.  [default: {Thresholds.merge_ratio:g}]")
@lobe("--maxnum", type=CountType(), metavar="NUMBER",
        help="Greatest number of fixels of a voxel: those of the highest peaks.  [default: no limit]")
@lobe("--dirpeak", is_flag=True, help="The direction of a fixel is that of its peak.  [default: the mean of its lobe]")
@group_option(OUTPUT)("--peak-amp", is_flag=True, help="Also write amplitudes of peaks, peak_amp.  [default: off]")
@group_option(OUTPUT)("--disp", is_flag=True,
        help="Also write dispersions, disp: density over amplitude of the peak.  [default: off]")
@group_option(OUTPUT)("--format", type=click.Choice(FORMATS, case_sensitive=False), default=FORMATS[0],
        help=f"Format of the images. MRtrix3 reads all.  [default: {FORMATS[0]}]")
@parameter_options(["force"])
@group_option(RUNNING)("--arch", type=click.Choice(("auto", *ARCHS), case_sensitive=False), default="cpu",
        help="Where lobes are found. The files are the same.  [default: cpu]")
@parameter_options(("compiler", "threads"))
@quiet_option
@click.pass_context
def fixels(context: click.Context, folder: str, fmls_no_thresholds: bool, quiet: bool, **_: object) -> None:
    """Find the fixels of fibre orientation distributions (FODs).

    FOD is an image of spherical harmonics, such as MRtrix3's dwi2fod writes. FOLDER is made in MRtrix3's format of
    fixels: an index, directions along the scanner's axes, and apparent fibre densities (afd). A fixel is a lobe of the
    FOD of a voxel, as MRtrix3's fod2fixel finds it.
    """
    from ..run.fixels import fixels as run

    options = {name: value for name, value in context.params.items() if name not in ("fmls_no_thresholds", "quiet")}
    if fmls_no_thresholds:
        for name in ("fmls_peak_value", "fmls_integral"):
            if context.get_parameter_source(name) is not ParameterSource.DEFAULT:
                raise ParameterError(f"--fmls-no-thresholds and {flag(name)} exclude each other: give one of them")
            options[name] = 0.0
    with warnings_afterwards():
        result = run(**options)
    if not quiet:
        voxels = int((result.index[..., 0] > 0).sum())
        tell(f"{click.format_filename(folder)}: {len(result):,} fixels in {voxels:,} voxels")
