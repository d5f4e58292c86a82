"""Products of tractograms that are there: the matrices and maps that a run would have made of their streamlines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from ..backends import compiler_told, take_compiler
from ..devices import choose
from ..devices.threads import readers_awaited
from ..errors import InputError, ParameterError, listed
from ..io import sidecar, tractograms
from ..io.drafts import all_or_none
from ..io.in_memory import refuse_arrays, source_of
from ..option import ImageLike, flag
from ..options.definitions import map_options
from ..options.parameters import Parameters
from ..options.signatures import check_keywords, list_keywords
from ..space.batch import Batch, Space
from ..tracking.products.batch_work import program_on
from ..tracking.products.density.map import MAPS
from ..tracking.products.grid import Extent, around
from ..tracking.registry import PRODUCTS
from .hashes import doubts_of_places, hashing
from .log import Watcher
from .outputs import Outputs, check_names, reserved, taken_by
from .products import Products, makers_of, products_of
from .record import OURS, inputs_of, versions
from .setup import bar_or

if TYPE_CHECKING:
    from ..options.objects import ProductOptions
    from .reporting import Shown

    class MapOptions(ProductOptions, total=False):
        """Options of products, and of how they are made."""

        arch: str
        compiler: str
        threads: int | None
        memory_limit: float | None
        report: str | PathLike[str] | None


RUNNING = {"arch": "cpu", "compiler": "auto", "threads": None, "memory_limit": None, "report": None}
NO_GRID = Space(np.eye(4), (1, 1, 1))  # for products that need none


@list_keywords(RUNNING)
def map_tractogram(
    tractogram: str | PathLike[str], *, image: ImageLike | None = None, force: bool = False,
    watcher: Watcher | None = None, progress: bool = False, **products: Unpack[MapOptions],
) -> dict[str, Any]:
    """Make matrices and maps of the streamlines of any program, in one pass, and write them.

    Parameters
    ----------
    tractogram : str or Path
        A .trx, .trk or .tck, in RASmm, or the folder of a .trx that is not packed. It is read in batches, so its size
        does not matter.
    image : str, Path or nibabel image, optional
        The background of the page's pictures, such as FA or T1; without it, the density of the streamlines.
    force : bool
        Overwrite existing files.
    watcher : Watcher, optional
        Receives the stages, and the iterations of SIFT2. Warnings are returned.
    progress : bool
        As for :func:`track`.
    arch : str
        Where the streamlines of ``density`` and ``ends`` are counted, their lengths measured for ``connectome``, and
        their weights found by ``sift2``: 'cpu', the default, 'cuda', 'amdgpu', 'vulkan', 'metal', or 'auto' for the
        first of these with a GPU. The files are the same. Nodes of ends, and maps of another ``density_kind`` than
        count, are made on the CPU in any case.
    compiler, threads : str, int
        As for :func:`track`.
    memory_limit : float, optional
        Greatest memory, GB, of the visits, streamlines and fixels of ``sift2`` on the device, or with 'cpu' in main
        memory, and of a map. Visits beyond it go to a file without a name in the folder of the weights; a larger map is
        refused. By default, the only limit is that a map has to fit the free memory.
    report : str or Path, optional
        Page about the streamlines, .html.
    **products
        Options of the products, such as ``connectome``, ``density``, and ``sample`` with ``sample_table``, as for
        :func:`track`. Maps of a .tck, which has no grid, need ``density_grid``, or ``density_voxel`` for a grid that
        covers the streamlines.

    Returns
    -------
    dict
        ``streamlines``, their number, and ``products``, what was made: a map as an array, matrices as objects with
        ``values`` and ``errors``, a table as a dict of columns. Blocks of the jackknife are those of seeds, if a .trx
        has their numbers (``seed_number``), else every 32nd streamline is in the same one.

    Raises
    ------
    ParameterError
        If no option names a file, or if options cannot be combined.
    InputError
        If the tractogram or another input is missing or damaged.
    OutputError
        If an output exists, or cannot be written.
    DeviceError
        If the device is unavailable, or lacks the memory.
    TypeError
        If a keyword is not an option of the products.

    Notes
    -----
    MRtrix3's ``tckmap`` makes the same maps, ``tck2connectome`` the same matrices, ``tcksample`` the same values, and
    ``tcksift2`` the same weights.

    Examples
    --------
    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> result = ts.track(
    ...     peaks=peaks, stop_map=np.ones((20, 5, 5)), affine=np.diag([2, 2, 2, 1]), seeds=[[20, 4, 4]] * 3,
    ...     output="lines.trk", dg="det", step_size=1, arch="cpu",
    ... )
    >>> maps = ts.map_tractogram("lines.trk", density="count.nii.gz")
    >>> maps["streamlines"]
    3
    >>> int(maps["products"]["density"].max())
    3
    """
    check_keywords("map_tractogram", products, (*RUNNING, *map_options()))
    path, chosen = tractograms.check_tractogram(tractogram), Parameters.given({**RUNNING, **products})
    outputs = Outputs.of(None, chosen)
    _check(chosen, outputs, image)
    seeded = [flag(name) for name in outputs.products if PRODUCTS[name].needs_seeds]
    if seeded and not tractograms.has_seeds(path):
        raise InputError(f"{path}: has no seeds, which {seeded[0]} needs: give a .trx that tistreamlines track has "
                         f"written, or give {seeded[0]} to track")
    files = {"tractogram": path, **chosen.inputs()} | ({} if image is None else {"image": source_of("image", image)})
    refuse_arrays(files)
    check = partial(check_names, outputs, taken_by(files.values()), force=force)
    with readers_awaited(), bar_or(watcher, progress=progress) as display, reserved(outputs, check):
        display.stage("load")
        read = makers_of(chosen)
        take_compiler(chosen.compiler)
        # the device is there, or an error says why not before the tractogram is read
        hashes, device, space = hashing(files), choose(chosen.arch), _grid(path, chosen, outputs)
        places = doubts_of_places(files)
        needs_step = any(PRODUCTS[name].needs_step for name in outputs.products)
        step = tractograms.step_of_tractogram(path) if needs_step else 1.0
        pictured = outputs.report is not None or outputs.products.keys() & set(MAPS) or step is None
        extent = _extent(path) if pictured else Extent()
        longest = extent.longest
        of_maps = _covering(path, extent, chosen) if space is None else space, longest
        # what maps need to know must not change other products
        makers = products_of(chosen, NO_GRID, longest if step is None else step, read, of_maps=of_maps)
        if makers.follows:
            display.stage("fixels")
            makers.follow(progress=display.fixels)
        shown = None
        if outputs.report is not None:
            from .reporting import Shown

            shown = Shown(extent, longest, image, chosen.threads)
        if not device.on_host:
            makers.move_to(program_on(device))
        makers.watch_weighing(display.weighing)
        display.stage("map")
        count, empty = _add(path, makers, shown)
        if makers.weighs:
            display.stage("weigh")
            makers.per_streamline()
        display.stage("write")
        with all_or_none([path for path in (*makers.files, outputs.record) if path is not None]):
            makers.write(force=force)
            warnings = [*tractograms.doubts_of_tractogram(path), *places, *_empty(path, empty, count), *makers.doubts]
            record = {
                "made_by": OURS, "versions": versions(), "streamlines": count, "warnings": warnings,
                "parameters": {name: chosen.as_dict()[name] for name in (*map_options(), "report")},
                "inputs": inputs_of(files, hashes()), "device": device.as_dict(),
            } | compiler_told(device) | makers.details
            if outputs.record is not None:
                sidecar.write_record(outputs.record, record, force=force)
        if shown is not None and outputs.report is not None:
            shown.write(outputs.report, record, makers.values, force=force)
    return {"streamlines": count, "products": makers.values, "warnings": warnings}


def _check(chosen: Parameters, outputs: Outputs, image: object) -> None:
    """Raise a ParameterError if no option names a file, or an option has no input."""
    if not outputs.products and outputs.report is None:
        able = (name for name, row in PRODUCTS.items() if not row.of_dropped)
        raise ParameterError(f"no option names a product: give {listed(map(flag, (*able, 'report')))}")
    if chosen.sample is not None and chosen.sample_table is None:
        raise ParameterError("--sample needs a file for the values here: give --sample-table")
    if image is not None and outputs.report is None:
        raise ParameterError("--image is shown by --report: give both, or leave it out")


def _extent(path: Path) -> Extent:
    """Read the file once for its extent and its longest step."""
    extent = Extent()
    for batch in _batches(path):
        extent.add(batch)
    return extent


def _grid(path: Path, chosen: Parameters, outputs: Outputs) -> Space | None:
    """Return the grid of the file, which maps have unless another one is given; None if it has to be made."""
    if not (maps := [name for name in outputs.products if name in MAPS]):
        return NO_GRID
    space = tractograms.grid_of_tractogram(path)
    if space is None and chosen.density_grid is None and chosen.density_voxel is None:
        raise ParameterError(f"{flag(maps[0])} of a {path.suffix} needs --density-grid or --density-voxel, since the "
                             "file has no grid")
    return NO_GRID if space is None and chosen.density_voxel is None else space


def _covering(path: Path, extent: Extent, chosen: Parameters) -> Space:
    """Return the grid of voxels of the wanted size around all streamlines."""
    if not np.isfinite(extent.low).all():
        raise InputError(f"{path}: has no streamline that a grid could cover; give --density-grid")
    assert chosen.density_voxel is not None
    return around(extent.low.astype(np.float32), extent.high.astype(np.float32), chosen.density_voxel)


def _empty(path: Path, empty: int, count: int) -> list[str]:
    """Say that there are no streamlines, or that some have no points."""
    if not count:
        return [f"{path}: has no streamlines, so what is made of it is empty"]
    if not empty:
        return []
    return [f"{path}: {empty:,} of {count:,} streamlines have no points: they keep their places, and count for nothing"]


def _add(path: Path, makers: Products, shown: Shown | None) -> tuple[int, int]:
    """Add all streamlines; return how many there are, and how many of them have no points."""
    first = empty = 0
    for batch in _batches(path):
        if not batch.seed_number.any():  # the file has no numbers of seeds
            batch = replace(batch, seed_number=np.arange(first, first + len(batch), dtype=np.uint32))
        makers.add(batch)
        if shown is not None:
            shown.add(batch)
        first += len(batch)
        empty += int(np.count_nonzero(batch.lengths == 0))
    return first, empty


def _batches(path: Path) -> Iterator[Batch]:
    """Read the streamlines, without batches that have none."""
    return (batch for batch in tractograms.stored_batches(path) if len(batch))
