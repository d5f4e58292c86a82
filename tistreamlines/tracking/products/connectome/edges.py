"""A parcellation of a connectome with the sums of its edges, and the files that are made of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ....aliases import Array, Json
from ....io import sidecar
from ....io.matrices import beside, write_matrix, write_nodes, write_pairs
from ..files import first_of
from .matrix import EdgeSums, Matrix, Measure
from .options import written
from .parcellation import Parcellation


class Edges:
    """A parcellation, and the sums of its edges; workers receive both, but not the measures, whose functions stay here.

    Parameters
    ----------
    parcellation : its nodes.
    path : file of the first matrix.
    sums : of its edges.
    """

    def __init__(self, parcellation: Parcellation, path: Path, sums: EdgeSums) -> None:
        self.parcellation, self.path, self.sums = parcellation, path, sums
        self.pairs: list[Array] = []  # the nodes of both ends of the streamlines of each batch, if they are written

    def matrix(self, measures: Mapping[str, Measure]) -> Matrix:
        """Return the matrix of all streamlines so far."""
        parcellation = self.parcellation
        return Matrix(
            str(parcellation.path), parcellation.nodes, parcellation.names,
            *self.sums.matrices(measures, parcellation.volumes), self.sums.unassigned, self.sums.streamlines,
        )

    def write(
        self, matrix: Matrix, measures: Mapping[str, Measure], *, force: bool
    ) -> tuple[Json, list[dict[str, str]]]:
        """Write the matrices of all measures, their errors and the nodes; return what the record says of them."""
        details = {
            "labels": matrix.labels, "nodes": len(matrix.nodes), "streamlines": matrix.streamlines,
            "unassigned": matrix.unassigned,
        }
        files = []
        for path, name, kind in written(self.path, measures):
            holds, values = "standard error", matrix.errors[name]
            if kind == "values":
                holds, values = measures[name].words, matrix.values[name]
            write_matrix(path, values, force=force)
            files.append(sidecar.described(path) | {"measure": name, "holds": holds})
        path = beside(self.path, "_nodes", ".tsv")
        write_nodes(path, matrix.nodes, matrix.names, self.parcellation.volumes, force=force)
        return details, files

    def write_pairs(self, force: bool) -> None:
        """Write the labels of the two nodes of each streamline, 0 for none."""
        labels = np.append(0, self.parcellation.nodes)
        pairs = [labels[nodes] for nodes in self.pairs] or [np.zeros((0, 2), int)]
        write_pairs(beside(self.path, "_pairs", ".tsv"), np.concatenate(pairs), force=force)

    def doubts(self, matrix: Matrix) -> list[str]:
        """Return why the matrix may be wrong."""
        nameless = self.parcellation.nameless
        missing = [name for name, volume in zip(matrix.names, self.parcellation.volumes, strict=True) if not volume]
        out = []
        if len(nameless):
            out.append(f"{matrix.labels}: {len(nameless)} labels are not in the lookup table "
                       f"({first_of(nameless.tolist())}), and count as no node: check that the table belongs to it")
        if missing:
            out.append(f"{matrix.labels}: {len(missing)} of {len(matrix.nodes)} nodes have no voxel "
                       f"({first_of(missing)}), and their rows are 0")
        if matrix.streamlines and matrix.unassigned > matrix.streamlines / 2:
            out.append(f"{matrix.labels}: {matrix.unassigned:,} of {matrix.streamlines:,} streamlines have an end "
                       "without a node: check that the parcellation lies in the space of the tracked image")
        return out
