"""``tistreamlines join``."""

from __future__ import annotations

from pathlib import Path

import click

from ..run.parts import join as run
from .printing import tell

HELP = """Join the parts of a run to the tractogram that one run would have written.

PARTS are the .trx files of tistreamlines track --part 1/N to N/N, in any order, each with its .json beside it. The
output can have any format. The parts are kept.
"""


@click.command("join", help=HELP)
@click.argument("parts", nargs=-1, required=True, metavar="PARTS...")
@click.option("-o", "--output", required=True, metavar="FILE", help="Tractogram to write: .trx, .trk or .tck.")
@click.option("--force", is_flag=True, help="Overwrite existing files.  [default: off]")
@click.option(
    "--json-stats", metavar="FILE", help="Write counts, lengths, stop reasons and run times (seconds) as JSON.  "
    "[default: not written]",
)  # fmt: skip
@click.option(
    "--density", metavar="FILE", help="Write the density map of all parts, as for track.  [default: not written]",
)  # fmt: skip
@click.option(
    "--density-voxel", type=click.FLOAT, metavar="MM",
    help="Side of its voxels.  [default: those of the image that was tracked]",
)  # fmt: skip
@click.option(
    "--density-grid", metavar="FILE", help="Image whose grid it has.  [default: that of the image that was tracked]",
)  # fmt: skip
@click.option("-q", "--quiet", is_flag=True, help="Print only errors.")
def join(
    parts: tuple[str, ...], output: str, force: bool, json_stats: str | None, density: str | None,
    density_voxel: float | None, density_grid: str | None, quiet: bool,
) -> None:  # fmt: skip
    made = run(
        [Path(part) for part in parts], output, force=force, json_stats=json_stats, density=density,
        density_voxel=density_voxel, density_grid=density_grid,
    )  # fmt: skip
    if not quiet:
        tell(
            f"{click.format_filename(output)}: {made['streamlines']:,} streamlines from {made['seeds']:,} seeds, "
            f"{made['mean_mm']:.1f} mm on average ({made['mean_points']:.1f} points); {len(parts)} parts"
        )
