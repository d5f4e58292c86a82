"""``tistreamlines join``."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import click

from ..option import OUTPUT
from ..options.definitions import joined_options
from ..run.parts import join as run
from .options import VERBOSITY, GroupedCommand, given, grouped, parameter_options
from .printing import tell

HELP = """Join the parts of a run to the tractogram that one run would have written.

PARTS are the .trx files of tistreamlines track --part 1/N to N/N, in any order, each with its .json beside it. The
output can have any format. The parts are kept.
"""


@click.command("join", cls=GroupedCommand, help=HELP)
@click.argument("parts", nargs=-1, required=True, metavar="PARTS...")
@grouped(OUTPUT)(
    "-o", "--output", required=True, metavar="FILE", help="Tractogram to write: .trx, .trk or .tck."
)
@parameter_options(("force", "json_stats", "report", *joined_options()))
@grouped(VERBOSITY)("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")
@click.pass_context
def join(context: click.Context, parts: tuple[str, ...], output: str, quiet: bool, **_: Any) -> None:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        made = run([Path(part) for part in parts], output, **given(context))
    for one in told:
        click.echo(f"Warning: {one.message}", err=True)
    if not quiet:
        tell(
            f"{click.format_filename(output)}: {made['streamlines']:,} streamlines from {made['seeds']:,} seeds, "
            f"{made['mean_mm']:.1f} mm on average ({made['mean_points']:.1f} points); {len(parts)} parts"
        )
