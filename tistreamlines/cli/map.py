"""``tistreamlines map``."""

from __future__ import annotations

import click

from ..devices import ARCHS
from ..option import OUTPUT, RUNNING
from ..options.definitions import mapped_options
from ..run.mapping import map_tractogram
from .options import GroupedCommand, given, grouped, parameter_options, verbosity
from .printing import tell
from .progress import Display

HELP = """Make matrices, maps and tables of the streamlines of a tractogram.

TRACTOGRAM is a .trx (or its folder), .trk or .tck of any program, in RASmm. The options and files are those of
tistreamlines track, which makes the same while it tracks.
"""


@click.command("map", cls=GroupedCommand, help=HELP)
@click.argument("tractogram")
@parameter_options(("force", *mapped_options()), shorten="sift2_")
@grouped(OUTPUT)(
    "--report", metavar="FILE",
    help="Write a page about the streamlines, .html: pictures of them and of their density, a histogram of their "
    "lengths, what was made of which files, and connectomes. Beside it are a picture for MultiQC, *_mqc.png, and the "
    "numbers, *_stats.json.  [default: not written]",
)
@grouped(OUTPUT)(
    "--image", metavar="IMAGE",
    help="Image behind the streamlines in the pictures of --report, such as FA or T1.  [default: their density]",
)
@grouped(RUNNING)(
    "--arch", type=click.Choice(("auto", *ARCHS), case_sensitive=False), default="cpu",
    help="Where --density and --ends are counted, and lengths measured for --connectome. The files are the same. Nodes "
    "of ends, and maps of another --density-kind than count, are made on the CPU in any case.  [default: cpu]",
)
@parameter_options(("compiler", "threads", "memory_limit"))
@verbosity
@click.pass_context
def map(context: click.Context, tractogram: str, image: str | None, quiet: bool, verbose: int, **_: object) -> None:
    with Display(quiet=quiet, verbose=verbose) as display:
        record = map_tractogram(tractogram, image=image, watcher=display, **given(context))
    for warning in record["warnings"]:
        click.echo(f"Warning: {warning}", err=True)
    if not quiet:
        tell(f"{click.format_filename(tractogram)}: {record['streamlines']:,} streamlines")
        if (weighed := record["products"].get("sift2")) is not None:
            tell(str(weighed))
