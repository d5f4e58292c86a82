"""``tistreamlines fod``."""

from __future__ import annotations

import click

from ..devices import ARCHS
from ..option import MODEL, OUTPUT, RUNNING
from ..run.fod_files import FORMATS, SYMMETRIC
from ..run.fods import FodResult, plan_fods
from ..run.fods import fit_fods as run
from ..tracking.registry import FOD_MODELS
from .options import GroupedCommand, group_option, options_of, parameter_options, verbosity
from .printing import tell
from .progress import Display

SERIES = "Series and mask"
FACTS = ("model",)  # the choice of this command on which it depends whether an option has an effect
OF_FITS = ("response_wm", "response_gm", "response_csf", "normalise", "response", "fa_response", "csd_lambda")
OWN = ("model", "mask", "lmax", "format", "sh_basis", "report")  # options whose help is not that of track


@click.command("fod", cls=GroupedCommand)
@click.argument("series", nargs=-1, metavar="DWI [BVALS BVECS]")
@group_option(OUTPUT)("-o", "--output", "folder", metavar="FOLDER",
        help="Folder to write.  [required, except with --dry-run]")
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
@parameter_options(["bvecs_frame"], group=SERIES, facts=FACTS)
@group_option(MODEL)("--model", type=click.Choice(FOD_MODELS, case_sensitive=False),
        help="csd fits white matter to one shell; msmt fits white matter, grey matter and fluid to all shells.  "
        "[default: msmt for three or more shells, b = 0 among them, else csd]")
@group_option(MODEL)("--lmax", metavar="ORDERS",
        help="Orders of the spherical harmonics, even: of white matter, or of each tissue, as 8,0,0.  [default: 8, "
        "with csd at most what the directions determine, and 0]")
@parameter_options(OF_FITS, facts=FACTS)
@group_option(RUNNING)("--arch", type=click.Choice(("auto", *ARCHS), case_sensitive=False),
        help="Where voxels are fitted. The files are the same.  [default: cpu]")
@parameter_options(["threads"])
@group_option(RUNNING)("--dry-run", is_flag=True,
        help="Read and check all inputs, and print what would be fitted to which volumes and voxels, and which files "
        "would be written. Nothing is written.")
@verbosity
@click.pass_context
def fod(
    context: click.Context, series: tuple[str, ...], folder: str | None, dry_run: bool, quiet: bool, verbose: int,
    **_: object,
) -> None:
    """Fit fibre orientation distributions (FODs) to a diffusion series.

    DWI is a 4-D image; BVALS and BVECS are its gradients in FSL's format. They can be left out if they lie beside DWI,
    or in it, as in a .mif of MRtrix3. FOLDER gets wmfod.mif, the FODs as spherical harmonics, gm.mif and csf.mif. It
    also gets the responses and their voxels, a tissue map, the mask, the voxels without a fit (failed),
    residuals, and a record, fod.json. MRtrix3's programs and tistreamlines track go on from wmfod.mif. If the run
    fails, nothing is written.
    """
    if len(series) not in (1, 3):
        raise click.UsageError("give DWI, BVALS and BVECS, or DWI alone with its gradients beside it")
    if folder is None and not dry_run:
        raise click.UsageError("Missing option '-o' / '--output'.")
    dwi, bvals, bvecs = series if len(series) == 3 else (series[0], None, None)
    options = {name: context.params[name] for name in OWN if context.params[name] is not None} | options_of(context)
    with Display(quiet=quiet, verbose=verbose) as display:
        if dry_run:
            plan = plan_fods(dwi, bvals, bvecs, folder, watcher=display, **options)
            text = "\n".join(f"{name:24}{value}" for name, value in plan.table().items())
        else:
            text = summary(run(dwi, bvals, bvecs, folder, watcher=display, **options))
    if dry_run or not quiet:
        tell(text)


def summary(result: FodResult) -> str:
    """Describe the result of a run: which model was fitted, in how many voxels, and how long it took."""
    numbers, fit = result.record["result"], result.fit
    counts = {name: values.shape[-1] for name, values in fit.coefficients.items()}
    orders = ", ".join(f"{name} of {n} coefficient{'s' if n > 1 else ''}" for name, n in counts.items())
    failed = f", {numbers['failed']:,} of them without FODs" if numbers["failed"] else ""
    return (
        f"{click.format_filename(str(result.folder))}: {result.record['parameters']['model']} in "
        f"{numbers['voxels']:,} voxels{failed}: {orders}; {numbers['seconds']['total']:.1f} s"
    )
