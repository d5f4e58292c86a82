"""``tistreamlines fod``."""

from __future__ import annotations

import click

from ..fit.response import FEWEST_FIBRES
from ..option import MODEL, OUTPUT
from ..run.fod_files import FORMATS
from ..run.fods import SYMMETRIC, FodResult
from ..run.fods import fit_fods as run
from .options import GroupedCommand, group_option, options_of, parameter_options, verbosity
from .printing import tell
from .progress import Display

SERIES = "Series and mask"
OWN = ("model", "mask", "lmax", "format", "sh_basis", "report")  # options whose help is not that of track


@click.command("fod", cls=GroupedCommand)
@click.argument("series", nargs=-1, metavar="DWI [BVALS BVECS]")
@group_option(OUTPUT)("-o", "--output", "folder", required=True, metavar="FOLDER", help="Folder to write.")
@parameter_options(["force"])
@group_option(OUTPUT)("--format", type=click.Choice(FORMATS, case_sensitive=False), default=FORMATS[0],
        help=f"Format of the images. MRtrix3 reads both.  [default: {FORMATS[0]}]")
@group_option(OUTPUT)("--sh-basis", type=click.Choice(SYMMETRIC, case_sensitive=False), default=SYMMETRIC[0],
        help="Basis of the coefficients: tournier07, which MRtrix3 reads, along the scanner's axes, or one of DIPY's, "
        "along the voxel axes, with --format nii.gz.  [default: tournier07]")
@group_option(OUTPUT)("--report", metavar="FILE",
        help="Write a page, .html: responses, their voxels, tissues, shapes of FODs in a slice, residuals.")
@group_option(SERIES)("--mask", metavar="FILE",
        help="Voxels to fit: those of at least 0.5.  [default: DIPY's median_otsu of the mean b0]")
@group_option(SERIES)("--shells", metavar="B,B,...",
        help="b-values of the shells that are used, besides the b0s.  [default: all]")
@group_option(SERIES)("--bvecs-frame", metavar="auto|voxel|fsl",
        help="Axes of BVECS: those of the voxels, as DIPY reads them, or FSL's, with x flipped if the determinant of "
        "the affine is positive. auto chooses the one with which fibres agree better between voxels.  [default: auto]")
@group_option(MODEL)("--model", type=click.Choice(("csd",), case_sensitive=False),
        help="csd fits fibres alone, to one shell.  [default: csd]")
@group_option(MODEL)("--lmax", metavar="ORDERS",
        help="Order of the spherical harmonics, even.  [default: 8, or the highest that the directions determine]")
@group_option(MODEL)("--response", metavar="auto|fa|tournier|FILE|NUMBERS",
        help="Response of csd: from voxels of high FA (fa), from those most like a single fibre, as MRtrix3's "
        "dwi2response tournier finds them, or MRtrix3's text of zonal harmonics, or DIPY's eigenvalues and b0 signal. "
        f"auto is fa, or tournier where fewer than {FEWEST_FIBRES} voxels have a high FA.  [default: auto]")
@group_option(MODEL)("--fa-response", metavar="FA",
        help="FA above which a voxel counts as a single fibre with --response auto or fa.  [default: 0.7]")
@group_option(MODEL)("--csd-lambda", metavar="auto|WEIGHT",
        help="Weight of csd's constraint that FODs are not negative; DIPY's is 1. auto chooses it from the data.  "
        "[default: auto]")
@parameter_options(["threads"])
@verbosity
@click.pass_context
def fod(context: click.Context, series: tuple[str, ...], folder: str, quiet: bool, verbose: int, **_: object) -> None:
    """Fit fibre orientation distributions (FODs) to a diffusion series.

    DWI is a 4-D image; BVALS and BVECS are its gradients in FSL's format. They can be left out if they lie beside DWI,
    or in it, as in MRtrix3's .mif. FOLDER is made with wmfod.mif, the FODs as spherical harmonics, with the responses,
    the mask, the voxels that could not be fitted (failed), what the fit leaves over (residual), and a record, fod.json.
    MRtrix3's programs and tistreamlines track go on from wmfod.mif. If the run fails, nothing is written.
    """
    if len(series) not in (1, 3):
        raise click.UsageError("give DWI, BVALS and BVECS, or DWI alone with its gradients beside it")
    dwi, bvals, bvecs = (*series, None, None)[:3]
    options = {name: context.params[name] for name in OWN if context.params[name] is not None} | options_of(context)
    with Display(quiet=quiet, verbose=verbose) as display:
        result = run(dwi, bvals, bvecs, folder, watcher=display, **options)
    if not quiet:
        tell(summary(result))


def summary(result: FodResult) -> str:
    """Describe the result of a run: which model was fitted, in how many voxels, and how long it took."""
    numbers, fit = result.record["result"], result.fit
    orders = ", ".join(f"{name} of {values.shape[-1]} coefficients" for name, values in fit.coefficients.items())
    failed = f", {numbers['failed']:,} of them without FODs" if numbers["failed"] else ""
    return (
        f"{click.format_filename(str(result.folder))}: {result.record['parameters']['model']} in "
        f"{numbers['voxels']:,} voxels{failed}: {orders}; {numbers['seconds']['total']:.1f} s"
    )
