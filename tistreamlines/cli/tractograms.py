"""``tistreamlines join``, ``regrow``, ``map``, ``sift`` and ``view``: commands about tractograms that are there."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..devices import ARCHS
from ..option import OUTPUT, REGIONS, RUNNING, flag
from ..options.definitions import join_options, map_options
from ..space.harmonics import BASES
from .options import (
    VERBOSITY,
    CountType,
    GroupedCommand,
    group_option,
    options_of,
    parameter_options,
    quiet_option,
    verbosity,
)
from .printing import report_line, tell, warnings_afterwards
from .progress import Display

if TYPE_CHECKING:
    from ..viewer.scene import Scene

# of track and map
NODE_OPTIONS = (
    "connectome_nodes", "connectome_measure", "connectome_sample", "connectome_assignment", "connectome_radius",
)
content, node = group_option("Input"), group_option("Connectome")
target, counted = group_option("End of the selection"), group_option("Fixels that count")


@click.command("join", cls=GroupedCommand)
@click.argument("parts", nargs=-1, required=True, metavar="PARTS...")
@group_option(OUTPUT)("-o", "--output", required=True, metavar="FILE", help="Tractogram to write: .trx, .trk or .tck.")
@parameter_options(("force", "json_stats", "report", *join_options()))
@quiet_option
@click.pass_context
def join(context: click.Context, parts: tuple[str, ...], output: str, quiet: bool, **_: object) -> None:
    """Join the parts of a run to the tractogram that one run would have written.

    PARTS are the .trx files of tistreamlines track --part 1/N to N/N, in any order, each with its .json beside it. The
    output can have any format. The parts are kept.
    """
    from ..run.parts import join as run

    with warnings_afterwards():
        counts = run([Path(part) for part in parts], output, **options_of(context))
    if not quiet:
        tell(
            f"{click.format_filename(output)}: {counts['streamlines']:,} streamlines from {counts['seeds']:,} seeds, "
            f"{counts['mean_mm']:.1f} mm on average ({counts['mean_points']:.1f} points); {len(parts)} parts"
        )
        _tell_report(context)


@click.command("regrow", cls=GroupedCommand)
@click.argument("recipe")
@group_option(OUTPUT)("-o", "--output", required=True, metavar="FILE", help="Tractogram to write: .trx, .trk or .tck.")
@group_option(REGIONS)("--edge", nargs=2, multiple=True, metavar="NODE NODE",
        help="Only streamlines that join these two nodes of a parcellation, for which track was given --connectome and "
        "--groups. A node has the name that the parcellation gives it, or the whole name of its group.  "
        "[can be given several times]")
@group_option(REGIONS)("--node", multiple=True, metavar="NODE",
        help="Only streamlines with an end in this node.  [can be given several times, for any of several nodes]")
@group_option(REGIONS)("--include", multiple=True, metavar="REGION",
        help="Only streamlines with a point in this mask or sphere x,y,z,r.  [can be given several times, for all of "
        "several regions]")
@group_option(REGIONS)("--exclude", multiple=True, metavar="REGION",
        help="Only streamlines without a point in this mask or sphere.  [can be given several times]")
@group_option(REGIONS)("--rows", metavar="FIRST:LAST",
        help="Only streamlines of these rows of RECIPE, which are counted from 0; LAST is left out.")
@parameter_options(("force",))
@parameter_options(("arch", "compiler", "threads", "chunk_size", "memory_limit", "cache_dir"))
@verbosity
@click.pass_context
def regrow(
    context: click.Context, recipe: str, output: str, edge: tuple[tuple[str, str], ...], node: tuple[str, ...],
    rows: str | None, quiet: bool, verbose: int, **_: object,
) -> None:
    """Track streamlines of a run again from their numbers, with the same bits on any device.

    RECIPE is the .npz file of tistreamlines track -o FILE.npz. The .json record beside it has the options and the
    inputs of the run. An input, or a version of this program, that would change a bit is an error.
    """
    from ..run.regrow import regrow as run
    from .track import summary

    with Display(quiet=quiet, verbose=verbose) as display:
        result = run(
            recipe, output, edge=edge or None, node=node or None, rows=None if rows is None else _slice(rows),
            watcher=display, **options_of(context),
        )
    if not quiet:
        tell(summary(result).partition("\n")[0])


def _slice(text: str) -> slice:
    """Return the rows of a text FIRST:LAST, either of which may be missing."""
    try:
        first, last = (int(word) if word else None for word in text.split(":"))
    except ValueError:
        raise click.UsageError(f"--rows is {text!r}: give FIRST:LAST, e.g. 0:1000") from None
    return slice(first, last)


@click.command("map", cls=GroupedCommand)
@click.argument("tractogram")
@parameter_options(("force", *map_options()), shorten="sift2_")
@group_option(OUTPUT)("--report", metavar="FILE",
        help="Write a page about the streamlines, .html: pictures of them and of their density, a histogram of their "
        "lengths, what was made of which files, and connectomes. Beside it are a picture for MultiQC, *_mqc.png, and "
        "the numbers, *_stats.json.  [default: not written]")
@group_option(OUTPUT)("--image", metavar="IMAGE",
        help="Image behind the streamlines in the pictures of --report, such as FA or T1.  [default: their density]")
@group_option(RUNNING)("--arch", type=click.Choice(("auto", *ARCHS), case_sensitive=False), default="cpu",
        help="Where --density and --ends are counted, lengths measured for --connectome, and weights found by --sift2. "
        "The files are the same. Nodes of ends, and maps of another --density-kind than count, are made on the CPU in "
        "any case.  "
        "[default: cpu]")
@parameter_options(("compiler", "threads", "memory_limit"))
@verbosity
@click.pass_context
def map(context: click.Context, tractogram: str, image: str | None, quiet: bool, verbose: int, **_: object) -> None:
    """Make matrices, maps and tables of the streamlines of a tractogram.

    TRACTOGRAM is a .trx (or its folder), .trk or .tck of any program, in RASmm. The options and files are those of
    tistreamlines track, which makes the same while it tracks.
    """
    from ..run.mapping import map_tractogram

    with Display(quiet=quiet, verbose=verbose) as display:
        record = map_tractogram(tractogram, image=image, watcher=display, **options_of(context))
    for warning in record["warnings"]:
        click.echo(f"Warning: {warning}", err=True)
    if not quiet:
        tell(f"{click.format_filename(tractogram)}: {record['streamlines']:,} streamlines")
        if (weighed := record["products"].get("sift2")) is not None:
            tell(str(weighed))
        _tell_report(context)


@click.command("sift", cls=GroupedCommand)
@click.argument("tractogram")
@click.argument("fod")
@group_option(OUTPUT)("-o", "--output", required=True, metavar="FILE", help="Tractogram to write: .trx, .trk or .tck.")
@parameter_options(["force"])
@group_option(OUTPUT)("--selection", metavar="FILE",
        help="File with a line for each streamline of TRACTOGRAM: 1 if it is kept, else 0.  [default: not written]")
@group_option(OUTPUT)("--csv", metavar="FILE",
        help="Table of the iterations, with the columns of tcksift -csv.  [default: not written]")
@group_option(OUTPUT)("--mu-file", metavar="FILE",
        help="File for the proportionality coefficient mu.  [default: not written; the record has it]")
@target("--number", type=CountType(min=1), metavar="NUMBER", help="End when so many streamlines are left.")
@target("--ratio", type=click.FLOAT, metavar="RATIO",
        help="End when the share of the cost by which it falls is less than RATIO times the share of the length of all "
        "streamlines that is removed for it.")
@target("--mu", type=click.FLOAT, metavar="MU",
        help="End when the proportionality coefficient is greater. Without any of these, streamlines are removed until "
        "no removal lowers the cost enough.")
@counted("--sh-basis", type=click.Choice([name for name, basis in BASES.items() if not basis.full]),
        help="Basis of the harmonics of FOD.  [default: tournier07 of a .mif; required otherwise]")
@counted("--act", metavar="FILE",
        help="Five-tissue-type (5TT) image, or a segmentation or a folder as for track --act: a voxel counts with the "
        "square of its share of white matter.  [default: each voxel counts alike]")
@counted("--proc-mask", metavar="FILE", help="How much each voxel counts; an image on any grid.  [default: 1]")
@counted("--fd-scale-gm", is_flag=True,
        help="Lower fibre densities where there is grey matter; needs --act.  [default: off]")
@counted("--fd-thresh", type=click.FLOAT, default=0.0, metavar="DENSITY",
        help="Fixels with less fibre density do not count.  [default: 0]")
@counted("--remove-untracked", is_flag=True,
        help="Fixels that no streamline visits do not count.  [default: off]")
@counted("--no-dilate-lut", is_flag=True,
        help="A streamline visits a fixel only where its direction lies within the lobe; by default, other directions "
        "belong to a lobe nearby.  [default: off]")
@counted("--make-null-lobes", is_flag=True,
        help="Each voxel has one more fixel, of fibre density 0, for directions outside all lobes; needs "
        "--no-dilate-lut.  [default: off]")
@group_option(RUNNING)("--arch", type=click.Choice(("auto", *ARCHS), case_sensitive=False), default="cpu",
        help="Where fixels are found, and which of them streamlines visit. The files are the same.  [default: cpu]")
@parameter_options(("compiler", "threads"))
@verbosity
@click.pass_context
def sift(context: click.Context, tractogram: str, output: str, quiet: bool, verbose: int, **_: object) -> None:
    """Select streamlines so that their density comes near that of fibres (SIFT).

    TRACTOGRAM is a .trx (or its folder), .trk or .tck of any program, in RASmm. FOD is an image of fibre orientation
    distributions, or the folder of their fixels. Streamlines are removed one after the other where they are too dense,
    as with MRtrix3's tcksift.
    """
    from ..run.sift import sift as run

    options = {name: value for name, value in context.params.items() if name not in ("quiet", "verbose")}
    with Display(quiet=quiet, verbose=verbose) as display:
        result = run(**options, watcher=display)
    for warning in result.warnings:
        click.echo(f"Warning: {warning}", err=True)
    if not quiet:
        tell(f"{click.format_filename(output)}: {result}")


@click.command("view", cls=GroupedCommand)
@click.argument("file", metavar="FILE")
@content("--image", metavar="IMAGE", help="Image that is shown with the streamlines, such as FA or T1.")
@content("--map", "maps", multiple=True, metavar="MAP",
        help="Colour the streamlines by this map, such as FA, at each point or by its mean along them. The map can "
        "have any grid.  [can be given several times]")
@content("--weights", metavar="FILE",
        help="Colour the streamlines by a number of each, in the order of the tractogram, as tcksift2 writes them. "
        "Values of --connectome are those of weighted streamlines.")
@content("--group", "groups", multiple=True, metavar="NAME",
        help="Show this group of a .trx at first; all by default.  [can be given several times]")
@node("--connectome", metavar="LABELS",
        help="Show the matrix of how many streamlines join two nodes of this parcellation. A click on an edge or a "
        "node shows its streamlines alone.")
@node("--connectome-nodes", multiple=True, metavar="FILE",
        help="Lookup table whose nodes are the rows, as for tistreamlines map.  [default: the labels from 1 on]")
@node("--connectome-measure", multiple=True, metavar="MEASURE",
        help="Values of the matrix, as for tistreamlines map: length, mean-length, inverse-length, inverse-volume.  "
        "[can be given several times; default: count, which is always there]")
@node("--connectome-sample", multiple=True, metavar="MAP",
        help="The matrix also has the mean of this map over the streamlines of each edge.  [can be given several "
        "times]")
@parameter_options(("connectome_assignment", "connectome_radius"), group="Connectome")
@group_option(OUTPUT)("-o", "--output", metavar="PAGE", help="Write the page to a .html file, instead of serving it.")
@parameter_options(["force"])
@group_option("Running")("--no-browser", is_flag=True, help="Print the address of the page, and open no browser.")
@group_option(VERBOSITY)("-q", "--quiet", is_flag=True, help="Print only errors, and the address with --no-browser.")
@click.pass_context
def view(
    context: click.Context, file: str, output: str | None, force: bool, no_browser: bool, quiet: bool, **_: object
) -> None:
    """Show a tractogram in the browser: a sample of its streamlines over an image, and the density of all.

    FILE is a .trx (or its folder), .trk or .tck of any program, in RASmm. At most 20,000 of its streamlines are drawn,
    at even intervals; the density and the matrix count all of them. Their colours are directions, maps, weights, groups
    or values of the file. The page is served to this computer alone until Ctrl-C, or written to a file that needs no
    server. It loads nothing from the network. The viewer is NiiVue, which pip install 'tistreamlines[view]' brings.
    """
    from ..io.tractograms import check_tractogram, doubts_of_tractogram
    from ..io.writer import check_target, completed
    from ..viewer.niivue import module_text, page_of

    target = None if output is None else _page(output)
    tractogram = check_tractogram(file)
    module_text()  # a missing one is an error before the work
    if target is not None:
        check_target(target, force=force)
    for doubt in doubts_of_tractogram(tractogram):
        click.echo(f"Warning: {doubt}", err=True)
    scene = _scene(context, tractogram)
    page = page_of(scene)
    if target is None:
        _serve(page, browser=not no_browser, quiet=quiet)
        return
    with completed(target, force=force) as draft:
        draft.write_bytes(page)
    if not quiet:
        count = f"{scene.shown:,} of {scene.total:,} streamlines"
        tell(f"{click.format_filename(target)}: {count}, {len(page) / 1e6:.1f} MB")


def _scene(context: click.Context, tractogram: Path) -> Scene:
    """Return what ``view`` shows; print warnings."""
    from ..io.placement import placement_doubts
    from ..io.tractograms import groups_of_tractogram, stored_batches
    from ..viewer.extras import ExtraMaker
    from ..viewer.scene import scene_of

    options = context.params
    nodes = {name: value for name, value in options_of(context).items() if name in NODE_OPTIONS}
    labels, weights, image = options["connectome"], options["weights"], options["image"]
    if labels is None and nodes:
        raise click.UsageError(f"{flag(next(iter(nodes)))} needs --connectome")
    extras = ExtraMaker(
        tractogram.name, maps=options["maps"], weights=weights, groups=partial(groups_of_tractogram, tractogram),
        shown=options["groups"], labels=labels, nodes=nodes,
    )
    points = partial(stored_batches, tractogram)
    scene = scene_of(tractogram.name, partial(points, values=True), image, extras, points)
    images = [file for file in (image, labels, *options["maps"]) if file is not None]
    for text in (*placement_doubts(images), *scene.extras.doubts):
        click.echo(f"Warning: {text}", err=True)
    return scene


def _tell_report(context: click.Context) -> None:
    """Name the page that --report has written."""
    if (page := context.params["report"]) is not None:
        tell(report_line(Path(page)))


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
