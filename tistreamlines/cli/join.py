"""``tistreamlines join``."""

from __future__ import annotations

from pathlib import Path

import click

from ..option import OUTPUT
from ..options.definitions import joined_options
from ..run.parts import join as run
from .options import GroupedCommand, given, grouped, parameter_options, quiet_option
from .printing import tell, warnings_afterwards

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
@quiet_option
@click.pass_context
def join(context: click.Context, parts: tuple[str, ...], output: str, quiet: bool, **_: object) -> None:
    with warnings_afterwards():
        counts = run([Path(part) for part in parts], output, **given(context))
    if not quiet:
        tell(
            f"{click.format_filename(output)}: {counts['streamlines']:,} streamlines from {counts['seeds']:,} seeds, "
            f"{counts['mean_mm']:.1f} mm on average ({counts['mean_points']:.1f} points); {len(parts)} parts"
        )
