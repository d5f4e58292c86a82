"""``tistreamlines view --live``: a page in which streamlines are tracked from where one clicks."""

from __future__ import annotations

import asyncio
import threading
import warnings
from contextlib import suppress

import click

from ..options.definitions import options
from .options import GroupedCommand, check_series, group_option, options_of, parameter_options, verbosity
from .progress import Display

RUNNING = ("arch", "compiler", "threads", "chunk_size", "memory_limit")
# no file is written, and a request has all seeds
LEFT_OUT = ("part", "select", "max_seeds", "time_limit")
NAMES = [
    name for name, option in options().items()
    if name in RUNNING or (option.affects != "run" and name not in LEFT_OUT)
]


@click.command("view --live", cls=GroupedCommand, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI [BVALS BVECS]]")
@group_option("Page")("--image", metavar="IMAGE", help="Image under the streamlines.  [default: the mean b0]")
@group_option("Page")("--parcellation", metavar="LABELS", help="Image of labels: the page lists its regions, and the "
        "edges that streamlines make among them.")
@group_option("Page")("--parcellation-names", metavar="FILE", help="Lookup table with the names of the labels, as for "
        "--connectome-nodes of tistreamlines track.")
@group_option("Page")("--stay", is_flag=True, help="Go on when the page is closed.")
@group_option("Page")("--port", type=click.IntRange(0, 65535), default=0, metavar="NUMBER",
        help="Port of this computer on which the page is served.  [default: a free one]")
@group_option("Page")("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
@parameter_options(NAMES)
@verbosity
@click.pass_context
def live(
    context: click.Context, series: tuple[str, ...], image: str | None, parcellation: str | None,
    parcellation_names: str | None, stay: bool, port: int, no_browser: bool, quiet: bool, verbose: int, **_: object,
) -> None:
    """Track from where you click: a page in the browser that shows streamlines at once.

    DWI, BVALS and BVECS and the options are those of tistreamlines track, with which the page begins. A click places
    the seeds, and sliders change the options. The page gives the command that tracks the same streamlines, with the
    same bits. It is served to this computer alone, until it is closed or until Ctrl-C.
    """
    import webbrowser

    from ..live.page import page_of
    from ..live.parcels import Parcels
    from ..live.server import LiveServer
    from ..live.tracker import Live, Silent

    if len(series) != 1:
        check_series(series)
    if parcellation_names is not None and parcellation is None:
        raise click.UsageError("--parcellation-names needs --parcellation: give both or neither")
    with Display(quiet=quiet, verbose=verbose) as display:
        parcels = None if parcellation is None else Parcels(parcellation, parcellation_names)
        tracker = Live(*series, watcher=display, **options_of(context))
        page = page_of(tracker, image, () if parcels is None else parcels.names)

    tracker.watcher = Silent()  # the page shows what later runs say

    def tell(address: str) -> None:
        click.echo(f"{address}" + ("" if quiet else "  (Ctrl-C ends it)"))
        if not no_browser:  # one without a window does not return until it is left
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    # Python warns of this if Ctrl-C ends the loop while the library opens or closes a connection
    warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
    with suppress(KeyboardInterrupt):
        asyncio.run(LiveServer(tracker, page, parcels, keep=stay, port=port).run(tell))
