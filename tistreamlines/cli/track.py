"""``tistreamlines track``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ..options.parameters import Parameters
from ..options.preset_options import with_preset
from ..run.api import estimate
from ..run.api import track as run
from ..run.result import TrackResult
from ..tracking.registry import PRODUCTS
from ..tracking.registry import citations as references
from .options import VERBOSITY, GroupedCommand, group_option, options_of, parameter_options, verbosity
from .printing import report_line, tell
from .progress import Display

TURNS = "TISTREAMLINES_TURNS"  # the variable with which `batch` starts a run
IN_PLACE = (*PRODUCTS, "bids_out")  # options that name what is written without --output


@click.command("track", cls=GroupedCommand, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI [BVALS BVECS]]")
@group_option("Output")("-o", "--output", metavar="FILE",
        help="Tractogram to write: .trx, .trk, .tck; or numbers, .npz.  [required, unless an option names another "
        "file, such as --density or --connectome]")
@parameter_options()
@group_option("Running")("--dry-run", is_flag=True,
        help="Track a pilot of 2,000 seeds or a second, and print the streamlines, bytes, memory and time of the whole "
        "run. Nothing is written, and no --output is needed.")
@group_option(VERBOSITY)("--citations", is_flag=True,
        help="Print the references of the direction getter and the model, and exit.")
@verbosity
@click.pass_context
def track(
    context: click.Context, series: tuple[str, ...], output: str | None, dry_run: bool, citations: bool, quiet: bool,
    verbose: int, **_: object,
) -> None:
    """Track streamlines through a diffusion series, or through orientations that another program computed.

    DWI is a 4-D image; BVALS and BVECS are its gradients in FSL's format. They can be left out if they lie beside DWI,
    as dwi.bval and dwi.bvec or as bvals and bvecs, or in it, as in MRtrix3's .mif. Volumes with b <= 50 s/mm2 are b0s.
    Of several shells, models are fitted to the highest one up to b = 3500, csd also to lower ones, and FA to the one
    nearest to b = 1000 (--shells). Images are NIfTI or MRtrix3's .mif, .mif.gz or .mih. No series is needed if you give
    orientations from a file, --stop-map, and --seed-mask or --seeds. Lengths are in mm, angles in degrees, points in
    RASmm. Streamlines shorter than 5 voxels are dropped (--min-length). A JSON file with the same name as the
    tractogram records the parameters, inputs and results. If the run fails, no tractogram is written.
    """
    if citations:
        chosen = Parameters.given(options_of(context))
        click.echo("\n".join(references(chosen.dg, chosen.model)))
        return
    check_use(context)
    options = options_of(context)
    if (expansion := with_preset(options)).preset and not quiet:
        click.echo(str(expansion), err=True)
    with _display(quiet=quiet, verbose=verbose) as display:
        dwi, bvals, bvecs = (*series, None, None, None)[:3]
        if dry_run:
            expected = estimate(dwi, bvals, bvecs, output, watcher=display, **options)
            rows = expected.spec.table() | expected.table()
            text = "\n".join(f"{name:24}{value}" for name, value in rows.items())
        else:
            text = summary(run(dwi, bvals, bvecs, output, watcher=display, keep_streamlines=False, **options))
    if dry_run or not quiet:
        tell(text)


def check_use(context: click.Context) -> None:
    """Raise a UsageError if the number of arguments is wrong, or if no file is to be written."""
    series = context.params["series"]
    if len(series) not in (0, 1, 3):
        advice = "give DWI, BVALS and BVECS, or DWI alone with its gradients beside it, or orientations from a file"
        if any(word.lstrip("-").replace(".", "").isdigit() for word in series):
            advice += "; the numbers of an option are joined by commas, as in --seed-sphere 10,-20,5,3"
        raise click.UsageError(advice)
    if context.params["output"] is None and not any(context.params[name] for name in ("dry_run", *IN_PLACE)):
        raise click.UsageError("Missing option '-o' / '--output'.")


def _display(*, quiet: bool, verbose: int) -> Display:
    """Return what shows the messages of a run, or sends them to the cohort that it belongs to."""
    if os.environ.pop(TURNS, None) is None:
        return Display(quiet=quiet, verbose=verbose)
    from .turns import TurnDisplay

    return TurnDisplay(quiet=quiet, verbose=verbose)


def summary(result: TrackResult) -> str:
    """Describe the result of a run: what was tracked, how many streamlines were dropped and why, and how they ended."""
    table = result.table()
    weighed, page = result.products.get("sift2"), result.parameters.report
    return (
        f"{click.format_filename(result.place)}: {result.n_streamlines:,} streamlines from {result.seeds:,} seeds, "
        f"{result.mean_mm:.1f} mm on average ({result.mean_points:.1f} points); "
        f"{result.seconds['total']:.1f} s in all, tracking {result.seconds['track']:.1f} s "
        f"({result.streamlines_per_second:,.0f} streamlines/s) on {result.arch}: {result.device}\n"
        f"Dropped: {table['dropped']}\n"
        f"Ends: {table['ends of streamlines']}" + (f"\n{weighed}" if weighed is not None else "")
        + ("" if page is None else f"\n{report_line(Path(page))}")
    )
