"""``tistreamlines track``."""

from __future__ import annotations

from typing import Any

import click

from ..methods.registry import citations as references
from ..run.parameters import Parameters
from ..run.pipeline import track as run
from .options import GroupedCommand, GroupedOption, given, parameter_options, verbosity
from .printing import tell
from .progress import Display

HELP = """Track streamlines through a diffusion series, or through orientations that another program computed.

DWI is a 4-D NIfTI file, BVALS and BVECS are its gradients in FSL's layout; volumes of at most b=50 s/mm2 are b0s. The
others are one shell for boot; of several, the other getters' models are fitted to the lowest. With orientations from a
file, --stop-map, and --seed-mask or --seeds, no series is needed. Lengths are in mm, angles in degrees, points in
RASmm. The tractogram appears whole or not at all, and what was done is told in a JSON file of the same name beside it.
"""


@click.command("track", cls=GroupedCommand, help=HELP, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI BVALS BVECS]")
@click.option(
    "-o", "--output", metavar="FILE", cls=GroupedOption, group="Output",
    help="Tractogram to write: .trx, .trk or .tck.  [required]",
)  # fmt: skip
@parameter_options()
@click.option(
    "--citations", is_flag=True, cls=GroupedOption, group="Messages",
    help="Print the references of the direction getter and the model, and do nothing else.",
)  # fmt: skip
@verbosity
@click.pass_context
def track(
    context: click.Context, series: tuple[str, ...], output: str | None, citations: bool, quiet: bool, verbose: bool,
    **_: Any,
) -> None:  # fmt: skip
    if citations:
        chosen = Parameters.given(given(context))
        click.echo("\n".join(references(chosen.dg, chosen.model)))
        return
    if len(series) not in (0, 3):
        raise click.UsageError("give DWI, BVALS and BVECS; or none of them, with orientations from a file")
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output'.")
    with Display(quiet=quiet, verbose=verbose) as display:
        dwi, bvals, bvecs = series or (None, None, None)
        stats = run(dwi, bvals, bvecs, output, watcher=display, **given(context))
    if not quiet:
        tell(summary(stats, output))


def summary(stats: dict[str, Any], output: str) -> str:
    """Say in a line what came of a run."""
    seconds = stats["seconds"]
    rate = stats["streamlines"] / max(seconds["track"], 1e-9)
    return (
        f"{click.format_filename(output)}: {stats['streamlines']:,} streamlines from {stats['seeds']:,} seeds, "
        f"{stats['mean_mm']:.1f} mm on average ({stats['mean_points']:.1f} points); "
        f"{seconds['total']:.1f} s in all, tracking {seconds['track']:.1f} s "
        f"({rate:,.0f} streamlines/s) on {stats['arch']}: {stats['device']}"
    )
