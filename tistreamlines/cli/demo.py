"""``tistreamlines demo``."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from pathlib import Path

import click

from ..aliases import Json
from ..errors import OutputError
from ..io.sidecar import sidecar_path
from ..io.trx import map_points
from ..run.api import track
from ..run.outputs import Outputs, check_names, record_at
from .options import CountType, GroupedCommand, group_option, options_of, parameter_options, verbosity
from .printing import tell
from .progress import Display

TRACTOGRAM, PICTURE, REPORT = "streamlines.trx", "streamlines.png", "report.html"
DENSITY, CONNECTOME = "density.nii.gz", "connectome.csv"
SEEDS = 20_000
option = group_option("Output")


@click.command("demo", cls=GroupedCommand, context_settings={"max_content_width": 110})
@option("--output-dir", default="tistreamlines-demo", metavar="FOLDER",
        help="Folder for the output; it is created if missing.  [default: ./tistreamlines-demo]")
@option("--nseeds", type=CountType(), default=SEEDS, metavar="SEEDS",
        help=f"Number of random seeds.  [default: {SEEDS} seeds]", show_default=False)
@parameter_options(["arch", "exact", "threads", "force"])
@verbosity
@click.pass_context
def demo(context: click.Context, output_dir: str, nseeds: int, quiet: bool, verbose: int, **_: object) -> None:
    """Generate a phantom, track it, print a summary, draw a picture and write a report.

    The phantom is a small synthetic head whose bundles are known. Its diffusion series, gradients and mask, the
    tractogram, a density map, a connectome of the ends of the bundles, a picture and a page about the run are written
    to the output folder. The last lines are commands that show the streamlines in a browser, and that track where you
    click.
    """
    from ..backends import take_compiler
    from ..io.drafts import completed
    from ..io.picture import png
    from ..options.parameters import Parameters
    from ..phantom.phantom import joined_share, make_phantom, save_phantom
    from ..run.setup import devices_of

    chosen: Json = options_of(context) | {"nseeds": nseeds}
    parameters = Parameters.given(chosen)
    take_compiler(parameters.compiler)
    devices_of(parameters)  # an error of the device comes before anything is written
    folder = _folder(output_dir, force=bool(context.params["force"]))
    with Display(quiet=quiet, verbose=verbose) as display:
        display.stage("Generating the phantom")
        phantom = make_phantom()
        dwi, bvals, bvecs = save_phantom(phantom, folder)
        chosen |= {
            "mask": folder / "mask.nii.gz", "force": True, "report": folder / REPORT, "density": folder / DENSITY,
            "connectome": (folder / "nodes.nii.gz", folder / CONNECTOME), "connectome_nodes": folder / "nodes.tsv",
        }
        result = track(dwi, bvals, bvecs, folder / TRACTOGRAM, watcher=display, **chosen)
        display.stage("Drawing")
        points, offsets = map_points(folder / TRACTOGRAM)
        share = joined_share(phantom, points, offsets)
        title = f"{share.total:,} streamlines in a phantom"
        with completed(folder / PICTURE, force=True) as draft:
            draft.write_bytes(png(points, offsets, mask=phantom.mask, affine=phantom.affine, title=title))
    if not quiet:
        rows = {
            **result.table(),
            "valid connections": f"{share.share:.1%}",
            "written": ", ".join(str(folder / name) for name in (TRACTOGRAM, DENSITY, CONNECTOME, PICTURE)),
            "report": str(folder / REPORT), **_pages(folder),
        }
        tell("\n".join(f"{name:26}{value}" for name, value in rows.items()))


def _pages(folder: Path) -> dict[str, str]:
    """Return the commands that show what was tracked, and that track where one clicks; where needed, how to install."""
    shown = ("--image", "pve_wm.nii.gz", "--connectome", "nodes.nii.gz", "--connectome-nodes", "nodes.tsv")
    commands = {
        "look at it": ("view", TRACTOGRAM, *shown),
        "track where you click": ("view", "--live", "dwi.nii.gz", "dwi.bval", "dwi.bvec", "--mask", "mask.nii.gz"),
    }
    lines = {
        name: shlex.join(["tistreamlines", *(str(folder / word) if "." in word else word for word in words)])
        for name, words in commands.items()
    }
    if find_spec("ipyniivue") is None:
        lines["for these pages"] = "pip install 'tistreamlines[view]'"
    return lines


def _folder(name: str, *, force: bool) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        used = any(folder.iterdir())
    except OSError as error:
        raise OutputError(f"{folder}: cannot be used ({error.strerror}): give another --output-dir") from error
    if used and not force:
        raise OutputError(
            f"{folder} is not empty: give another --output-dir, or --force to replace the files of an earlier demo"
        )
    if used and record_at(sidecar_path(folder / TRACTOGRAM)) is None:
        raise OutputError(f"{folder}: is not empty, and holds no earlier demo to replace: give another --output-dir")
    check_names(Outputs(folder / TRACTOGRAM, report=folder / REPORT), {}, force=force)
    return folder
