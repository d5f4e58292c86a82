"""``tistreamlines view``."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import click

from ..option import OUTPUT
from .options import VERBOSITY, GroupedCommand, grouped, parameter_options
from .printing import tell

HELP = """Show a tractogram in the browser: a sample of its streamlines over an image, and the density of all.

FILE is a .trx (or its folder), .trk or .tck of any program, in RASmm. At most 20,000 of its streamlines are drawn, at
even intervals; the density counts all of them, in the voxels of the image or of 2 mm. The page is served to this
computer alone until Ctrl-C, or written to a file that needs no server. It loads nothing from the network. The viewer is
NiiVue, which pip install 'tistreamlines[view]' brings.
"""


@click.command("view", cls=GroupedCommand, help=HELP)
@click.argument("file", metavar="FILE")
@grouped("Input")("--image", metavar="IMAGE", help="Image that is shown with the streamlines, such as FA or T1.")
@grouped(OUTPUT)("-o", "--output", metavar="PAGE", help="Write the page to a .html file, in place of serving it.")
@parameter_options(["force"])
@grouped("Running")("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
@grouped(VERBOSITY)("-q", "--quiet", is_flag=True, help="Print only errors, and the address with --no-browser.")
def view(file: str, image: str | None, output: str | None, force: bool, no_browser: bool, quiet: bool) -> None:
    from ..io.placement import placement_doubts
    from ..io.tractograms import check_tractogram, doubts_of_tractogram, stored_batches
    from ..io.writer import check_target, completed
    from ..viewer.niivue import module_text, page_of
    from ..viewer.scene import scene_of

    target = None if output is None else _page(output)
    tractogram = check_tractogram(file)
    module_text()  # that it is missing is told before the work
    if target is not None:
        check_target(target, force=force)
    for doubt in doubts_of_tractogram(tractogram):
        click.echo(f"Warning: {doubt}", err=True)
    scene = scene_of(tractogram.name, partial(stored_batches, tractogram), image)
    for text in placement_doubts([] if image is None else [image]):
        click.echo(f"Warning: {text}", err=True)
    page = page_of(scene)
    if target is None:
        _serve(page, browser=not no_browser, quiet=quiet)
        return
    with completed(target, force=force) as draft:
        draft.write_bytes(page)
    if not quiet:
        count = f"{scene.shown:,} of {scene.total:,} streamlines"
        tell(f"{click.format_filename(target)}: {count}, {len(page) / 1e6:.1f} MB")


def _page(name: str) -> Path:
    if Path(name).suffix.lower() not in (".html", ".htm"):
        raise click.UsageError(f"--output {name}: end the name of the page with .html")
    return Path(name)


def _serve(page: bytes, *, browser: bool, quiet: bool) -> None:
    import webbrowser

    from ..viewer.serve import PageServer

    with PageServer(page) as server:
        opened = browser and webbrowser.open(server.address)
        if not (opened and quiet):
            click.echo(f"{server.address}" + ("" if quiet else "  (Ctrl-C ends it)"))
        server.serve_forever()
