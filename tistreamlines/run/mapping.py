"""Products of tractograms that are there: the matrices and maps that a run would have made of their streamlines."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, ParameterError
from ..io import sidecar
from ..io.in_memory import InMemory
from ..io.tractograms import check_tractogram, grid_of_tractogram, stored_batches
from ..option import flag, listed
from ..options.definitions import product_options
from ..options.parameters import Parameters
from ..space.batch import Batch, Space
from ..tracking.products.density import around
from ..tracking.products.density_map import MAPS
from ..tracking.registry import PRODUCTS
from .inputs import hashing
from .outputs import check_names, reserved
from .products import Products, asked, products_of, record_path
from .record import OURS, versions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..options.keywords import ProductOptions

LONGEST_MM = 1000.0  # step of a streamline, beyond which the file is taken to be damaged


def map_tractogram(
    tractogram: str | PathLike[str], *, force: bool = False, **products: Unpack[ProductOptions]
) -> dict[str, Any]:  # fmt: skip
    """Make matrices and maps of the streamlines of any program, in one pass, and write them.

    Parameters
    ----------
    tractogram : str or Path
        A .trx, .trk or .tck, in RASmm. It is read in batches, so its size does not matter.
    force : bool
        Overwrite existing files.
    **products
        Options of what is made, such as ``connectome`` and ``density``, as for :func:`track`. Maps of a .tck, which has
        no grid, need ``density_grid``, or ``density_voxel`` for a grid that covers the streamlines.

    Returns
    -------
    dict
        ``streamlines``, their number, and ``products``, what was made: a map as an array, matrices as objects with
        ``values`` and ``errors``. Blocks of the jackknife are those of seeds, if a .trx has their numbers
        (``seed_number``), else every 32nd streamline is in the same one.

    Raises
    ------
    ParameterError
        If nothing is asked for, or if options cannot be combined.
    InputError
        If the tractogram or another input is missing or damaged.
    OutputError
        If an output exists, or cannot be written.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> made = ts.map_tractogram("brain.tck", connectome=("labels.nii.gz", "brain.csv"))  # doctest: +SKIP
    >>> made["products"]["connectome"][0].values["count"]  # doctest: +SKIP
    """
    if unknown := set(products) - set(product_options()):
        raise TypeError(f"map_tractogram() got an unexpected keyword argument {min(unknown)!r}")
    path, chosen = check_tractogram(tractogram), Parameters.given(products)
    if not (outputs := asked(chosen)):
        raise ParameterError(f"nothing is asked for: give {listed(map(flag, PRODUCTS))}")
    inputs = chosen.inputs()
    if wrong := [name for name, one in inputs.items() if isinstance(one, InMemory) and one.affine is None]:
        raise ParameterError(f"{wrong[0]} is an array: give a nibabel image, or the path of one")
    files = [path, *(Path(one) for one in inputs.values() if not isinstance(one, InMemory))]
    taken = dict.fromkeys(files, "is an input")
    with reserved(None, lambda: check_names(None, None, taken, force=force, products=outputs), outputs):
        for name in outputs:
            PRODUCTS[name].check(chosen)
        hashes = hashing({"tractogram": path, **inputs})
        made = _products(path, chosen, outputs)
        count = _add(made, path)
        made.write(force=force)
        paths = {"tractogram": path, **inputs}
        record = {
            "made_by": OURS, "versions": versions(), "streamlines": count, "warnings": made.doubts,
            "parameters": {name: chosen.as_dict()[name] for name in product_options()},
            "inputs": {name: {"path": str(paths[name]), "sha256": one} for name, one in hashes().items()},
        }  # fmt: skip
        beside = record_path(None, outputs)
        assert beside is not None
        sidecar.write_record(beside, record | made.told, force=force)
    return {"streamlines": count, "products": made.values, "warnings": made.doubts}


def _products(path: Path, chosen: Parameters, outputs: Mapping[str, Any]) -> Products:
    """Return the products; for those on a grid, the file is read once more, for its longest step and its extent."""
    if not (maps := [name for name in outputs if name in MAPS]):
        return products_of(chosen, Space(np.eye(4), (1, 1, 1)), 1.0)
    space, voxel = grid_of_tractogram(path), chosen.density_voxel
    if space is None and voxel is None and chosen.density_grid is None:
        raise ParameterError(f"{flag(maps[0])} of a {path.suffix} needs --density-grid or --density-voxel, since the "
                             "file has no grid")  # fmt: skip
    longest, low, high = 1e-3, np.full(3, np.inf, np.float32), np.full(3, -np.inf, np.float32)
    for batch in stored_batches(path):
        longest = max(longest, _longest(path, batch))
        if space is None and voxel is not None:
            low, high = np.minimum(low, batch.points.min(axis=0)), np.maximum(high, batch.points.max(axis=0))
    if space is None and voxel is not None:
        if not (low <= high).all():
            raise InputError(f"{path}: has no streamline that a grid could cover; give --density-grid")
        space = around(low, high, voxel)
    space = Space(np.eye(4), (1, 1, 1)) if space is None else space
    return products_of(chosen, space, longest * (1 + 1e-6))


def _add(made: Products, path: Path) -> int:
    """Add all streamlines; return how many there are."""
    count = 0
    for batch in _numbered(path):
        _longest(path, batch)
        made.add(batch)
        count += len(batch)
    return count


def _numbered(path: Path) -> Generator[Batch, None, None]:
    """Read the streamlines, with their numbers in place of those of seeds where the file has none."""
    first = 0
    for batch in stored_batches(path):
        if not batch.seed_number.any():
            batch.seed_number[:] = np.arange(first, first + len(batch), dtype=np.uint32)
        first += len(batch)
        yield batch


def _longest(path: Path, batch: Batch) -> float:
    """Return the longest step of some streamlines, mm; raise an InputError if it cannot be one."""
    longest = batch.longest_step
    if longest > LONGEST_MM:
        raise InputError(f"{path}: has a step of {longest:.4g} mm; correct or write the file again")
    return longest
