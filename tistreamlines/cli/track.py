"""``tistreamlines track``."""

from __future__ import annotations

from typing import Any

import click

from ..track import track as run
from .options import GroupedCommand, GroupedOption, given, parameter_options, verbosity
from .progress import Display

HELP = """Track streamlines through a diffusion series.

DWI is a 4-D NIfTI file, BVALS and BVECS are its gradients in FSL's layout; volumes of at most b=50 s/mm2 are b0s, and
the others are one shell. Lengths are in mm, angles in degrees, points in RASmm. The tractogram appears whole or not at
all, and what was done is told in a JSON file of the same name beside it.
"""


@click.command("track", cls=GroupedCommand, help=HELP, context_settings={"max_content_width": 110})
@click.argument("dwi")
@click.argument("bvals")
@click.argument("bvecs")
@click.option(
    "-o", "--output", required=True, metavar="FILE", cls=GroupedOption, group="Output",
    help="Tractogram to write: .trx, .trk or .tck.",
)  # fmt: skip
@parameter_options()
@verbosity
@click.pass_context
def track(
    context: click.Context, dwi: str, bvals: str, bvecs: str, output: str, quiet: bool, verbose: bool, **_: Any
) -> None:
    with Display(quiet=quiet, verbose=verbose) as display:
        stats = run(dwi, bvals, bvecs, output, watcher=display, **given(context))
    if not quiet:
        click.echo(summary(stats, output))


def summary(stats: dict[str, Any], output: str) -> str:
    """Say in a line what came of a run."""
    seconds = stats["seconds"]
    rate = stats["streamlines"] / max(seconds["track"], 1e-9)
    return (
        f"{output}: {stats['streamlines']:,} streamlines from {stats['seeds']:,} seeds, "
        f"{stats['mean_mm']:.1f} mm on average ({stats['mean_points']:.1f} points); "
        f"{seconds['total']:.1f} s in all, tracking {seconds['track']:.1f} s "
        f"({rate:,.0f} streamlines/s) on {stats['arch']}: {stats['device']}"
    )
