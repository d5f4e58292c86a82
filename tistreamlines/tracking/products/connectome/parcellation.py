"""Parcellations: images of labels or probabilities, and the nodes to which the ends of streamlines belong."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from ....aliases import Array
from ....backends.numba.cache import Function, text_of
from ....errors import InputError, ParameterError
from ....io.images import AnyPath, OpenImage, open_image
from ....io.segmentations import Probabilities, read_labels, read_probabilities
from ....kernels.products.nodes import NodeSearch, Parcels, nearest_node, node_along, node_at_end
from ....linker.records import Arguments, spread
from ....option import TableLike
from ....space.batch import Batch, Space
from ..batch_work import program_of
from ..grid import affine_of, grid_of
from .shares import Shares, shares_of

RADIAL, END_VOXEL, REVERSE = "radial", "end-voxel", "reverse"
RADIUS = 4.0  # mm, as tck2connectome's
GREATEST = 10_000  # label that may be the number of a row
MOST_VOXELS = 1_000_000  # around that of an end
EMPTY = np.zeros(0, np.int32)
_list_nodes = Function(text_of(Path(__file__).with_name("edges_kernels.py")), "list_nodes")


class Parcellation:
    """An image of labels, or of the probabilities of a node in each volume; ends of streamlines find their nodes in it.

    The rows are those of the lookup table; without one, labels from 1 to the greatest one, as tck2connectome has them.
    Volumes count from 1 on, and have their numbers as labels. An end in an image of probabilities belongs to no node,
    but to a distribution over nodes, that of a voxel with a probability above 0.

    Parameters
    ----------
    image : path of the image, or what stands in for it.
    table : path of a lookup table, or None.
    rule : RADIAL, END_VOXEL or REVERSE.
    radius : how far a node is looked for, mm; 0 for any distance, with REVERSE.

    Raises
    ------
    InputError
        If the image has other axes, a value that is no label or no probability, none above 0, or a label too great for
        a row; if the table is none, or has too many nodes.
    ParameterError
        If the radius reaches too many voxels.

    Attributes
    ----------
    nodes : (n,) int64, the label of each row.
    names : of the rows.
    volumes : (n,) number of voxels of each; with probabilities, their sum.
    nameless : (k,) labels of the image that are not in the table.
    voxels : (k,) int32, those that have a node, as numbers of a C-contiguous array.
    voxel_nodes : (k,) the node of each of them, from 1 on.
    shares : the distributions over nodes, of an image of probabilities.
    doubts : why it may be wrong.
    """

    shares: Shares | None = None
    doubts: tuple[str, ...] = ()

    def __init__(self, image: AnyPath, table: TableLike | None, rule: str, radius: float) -> None:
        opened = open_image(image)
        whole = read_probabilities(opened) if is_soft(opened) else read_labels(opened)
        self.path, self.space = whole.path, whole.space
        if isinstance(whole, Probabilities):
            self.nodes, self.names, row = _rows_of(np.arange(1, len(whole.voxels) + 1), table, self.path)
            self.shares, in_voxels = shares_of(whole, row)
            self.volumes, self.doubts = self.shares.volumes(len(self.nodes)), whole.doubts
            voxels = np.flatnonzero(in_voxels).astype(np.int32)
            present = np.flatnonzero(list(map(len, whole.voxels))) + 1
            self.nameless: Array = present[row[present] == 0]
            nodes = in_voxels[voxels].astype(narrowest_type(int(in_voxels.max())))
        else:
            labels = whole.values.ravel()
            self.nodes, self.names, row = _rows_of(labels, table, self.path)
            most, listed = np.count_nonzero(labels), np.zeros(2, np.int64)
            voxels, nameless = np.empty(most, np.int32), np.empty(most, np.int32)
            nodes, self.volumes = np.empty(most, narrowest_type(len(self.nodes))), np.zeros(len(self.nodes), np.int64)
            _list_nodes(labels, row, voxels, nodes, self.volumes, nameless, listed)
            voxels, nodes = voxels[: listed[0]], nodes[: listed[0]]
            self.nameless = np.unique(nameless[: listed[1]])
        if not len(voxels):
            raise InputError(f"{self.path}: has no label of {table}; check that the table belongs to it")
        self.rule, self.radius = rule, radius
        self.voxels, self.voxel_nodes = voxels, nodes
        grid = grid_of(np.linalg.inv(self.space.affine), self.space.shape)
        self._grid = spread("parcels", Parcels(**vars(grid), back=affine_of(self.space.affine), nodes=EMPTY))
        self._grid |= spread("search", _search(self.space, radius if rule == RADIAL else 0.0))

    def take_voxels(self) -> tuple[Array, Array]:
        """Return the voxels and their nodes, which are kept no longer: of a hundred parcellations they are large."""
        taken = self.voxels, self.voxel_nodes
        del self.voxels, self.voxel_nodes
        return taken

    def volume(self, voxels: Array, nodes: Array) -> Arguments:
        """Return what kernels take of an image on this grid: nodes, or other whole numbers, of some voxels, (k,)."""
        whole = np.zeros(math.prod(self.space.shape), np.int32)
        whole[voxels] = nodes
        return self._grid | {"parcels_nodes": whole}

    def of_words(self, words: Array, volume: Arguments) -> Array:
        """Return the node of each end, (n, 2), of streamlines whose rows begin with the bits of both points; else 0.

        With ``shares``, this is the number of a distribution, here and in :class:`.node_lookup.NodeLookup`.
        """
        kernel = "nearest_node" if self.rule == RADIAL else "node_at_end"
        return _run(kernel, len(words), volume | {"ends": words.ravel(), "width": words.shape[1]})

    def along(self, batch: Batch, volume: Arguments) -> Array:
        """Return the first node that is met from each end of the streamlines of a batch, (n, 2); 0 for none."""
        steps = np.linalg.norm(np.diff(batch.points, axis=0, append=batch.points[-1:]), axis=1).astype(np.float64)
        return _run("node_along", len(batch), volume | {
            "points": batch.points.astype(np.float64).ravel(), "offsets": batch.offsets.astype(np.int32),
            "steps": steps, "radius": float(self.radius),
        })


def _run(kernel: str, count: int, values: Arguments) -> Array:
    """Return what a kernel finds for both ends of so many streamlines, (n, 2)."""
    nodes = np.zeros(2 * count, np.int32)
    program = program_of(nearest_node, node_at_end, node_along, bits=64)
    program.run(kernel, 2 * count, values | {"nodes": nodes})
    return nodes.reshape(-1, 2)


def narrowest_type(greatest: int) -> type[np.int16] | type[np.int32]:
    """Return the type of whole numbers up to this one."""
    return np.int16 if greatest <= np.iinfo(np.int16).max else np.int32


def is_soft(opened: OpenImage) -> bool:
    """Tell whether a parcellation is one of probabilities: it has four axes, and several volumes."""
    return len(opened.image.shape) == 4 and opened.image.shape[3] > 1


def _rows_of(labels: Array, table: TableLike | None, path: Path) -> tuple[Array, tuple[str, ...], Array]:
    """Return label and name of each row, and the row of each label, from 1 on; 0 for none."""
    from ....io.node_tables import read_nodes

    named, greatest = None if table is None else read_nodes(table), int(labels.max())
    if named is None and greatest > GREATEST:
        raise InputError(f"{path}: has labels up to {greatest:,}, each with a row; give the lookup table whose "
                         "nodes are the rows (--connectome-nodes), or convert the labels")
    nodes = np.array(list(named or range(1, greatest + 1)), np.int64)
    names = tuple((named or {int(label): str(label) for label in nodes}).values())
    if len(nodes) > GREATEST:
        raise InputError(f"{table}: has {len(nodes):,} nodes; give a table of at most {GREATEST:,}")
    row, present = np.zeros(greatest + 1, np.int32), nodes <= greatest
    row[nodes[present]] = 1 + np.flatnonzero(present)
    return nodes, names, row


def _search(space: Space, radius: float) -> NodeSearch:
    """Return the voxels around that of an end, from near to far, in the order in which tck2connectome looks at them."""
    beside = float(np.linalg.norm(space.voxel_sizes)) / 2  # of an end from the centre of its voxel, at most
    axes = space.affine[:3, :3]
    sides = np.ceil((radius + beside) * np.linalg.norm(np.linalg.inv(axes), axis=1))
    if (voxels := math.prod((2 * sides + 1).tolist())) > MOST_VOXELS:
        raise ParameterError(f"--connectome-radius {radius:g} reaches {voxels:.2g} voxels, and a node is looked for in "
                             f"at most {MOST_VOXELS:,}: give a smaller one")
    most = sides.astype(int)
    high, deep, across = np.mgrid[-most[2] : most[2] + 1, -most[1] : most[1] + 1, -most[0] : most[0] + 1]
    offsets = np.stack([across, deep, high], axis=-1).reshape(-1, 3)
    reach = np.linalg.norm(offsets @ axes.T, axis=1)
    # the last digits must not make equal distances differ
    order = np.argsort(np.round(reach, 6), kind="stable")
    order = order[reach[order] < radius + beside]
    beyond = reach[order] ** 2 * (1 - 1e-6)
    return NodeSearch(
        offsets=offsets[order].astype(np.int32).ravel(), beyond=beyond, count=len(order), radius=float(radius)
    )
