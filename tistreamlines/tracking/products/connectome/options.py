"""Options of connectomes, and the files that they name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ....errors import ParameterError
from ....io.tables import beside
from ....option import OUTPUT, listed, of_each, option, pairs_of, values_of
from ..samples.sampler import names_of
from .matrix import MEASURES, Measure, mean_sample, written
from .parcellation import END_VOXEL, RADIAL, REVERSE

if TYPE_CHECKING:
    from ....option import ImageLike, OneOrMore, PathLike, TableLike


@dataclass(frozen=True)
class ConnectomeOptions:
    """Options of connectomes, a part of :class:`tistreamlines.Parameters`."""

    connectome: OneOrMore[tuple[ImageLike, PathLike]] | None = option(
        None, OUTPUT, "Write the matrix of how many streamlines join two nodes of the parcellation LABELS to FILE, "
        ".csv, .tsv or .npy, with its standard errors and its nodes in files beside it. Without --output, no "
        "streamline is written.", unit="LABELS FILE", absent="not written", affects="run",
    )
    connectome_assignment: str = option(
        RADIAL, OUTPUT, "To which node of --connectome an end belongs: that of the nearest voxel within a radius, that "
        "of its own voxel, or the first one on the way back to the middle.",
        choices=(RADIAL, END_VOXEL, REVERSE), requires=("connectome",), affects="run",
    )
    connectome_radius: float | None = option(
        None, OUTPUT, "How far a node of --connectome is looked for.", unit="mm", low=0, above=True,
        absent="4 with --connectome-assignment radial, any distance with reverse", requires=("connectome",),
        affects="run",
    )
    connectome_measure: OneOrMore[str] | None = option(
        None, OUTPUT, f"What --connectome says of two nodes: {', '.join(MEASURES)}. The first one is written to its "
        "FILE, each other one to a file beside it.", unit="MEASURE", absent="count", requires=("connectome",),
        affects="run",
    )
    connectome_sample: OneOrMore[ImageLike] | None = option(
        None, OUTPUT, "Write the mean of this map over the streamlines of each edge, too, to *_NAME_mean beside FILE, "
        "where NAME is that of the map. A streamline has the mean along it, as MRtrix3's tcksample -stat_tck mean "
        "computes it: weighted by length, and with 0 outside the map. The map can have any grid.", unit="MAP",
        absent="none", requires=("connectome",), affects="run",
    )
    connectome_nodes: OneOrMore[TableLike] | None = option(
        None, OUTPUT, "Lookup table whose nodes are the rows of --connectome, in its order: of FreeSurfer, MRtrix3, "
        "FSL (.xml) or BIDS (.tsv). One for all parcellations, or one for each.", unit="FILE",
        absent="the labels from 1 to the greatest one", requires=("connectome",), affects="run",
    )
    connectome_pairs: bool = option(
        False, OUTPUT, "Also write the two nodes of each streamline, 0 for none, to a file beside each matrix of "
        "--connectome (_pairs.tsv): a line for each streamline, in the order of the tractogram.",
        requires=("connectome",), affects="run",
    )
    weights: str | None = option(
        None, OUTPUT, "Weigh the streamlines in --connectome, --density and --ends: sift2 for the weights of --sift2, "
        "or a text file of weights in the order of the streamlines, as tcksift2 writes it. All measures and maps are "
        "those of weighted streamlines, as with -tck_weights_in of tck2connectome and tckmap. With sift2 alone, track "
        "writes weights by what it tracks beside the tractogram, NAME_weights.txt.", unit="sift2 or FILE",
        absent="each streamline counts the same", affects="run",
    )
    connectome_zero_diagonal: bool = option(
        False, OUTPUT, "Set the diagonal of --connectome to 0: streamlines with both ends in the same node do not "
        "count.", requires=("connectome",), affects="run",
    )


@dataclass(frozen=True)
class ConnectomeInputs(ConnectomeOptions):
    """Options of connectomes, and those of a run that they need."""

    sift2: object = None
    groups: bool = False


def tables_of(options: ConnectomeOptions) -> Sequence[TableLike | None]:
    """Return the lookup table of each parcellation, or None."""
    return of_each(
        "connectome", len(values_of(options.connectome)), "connectome_nodes", values_of(options.connectome_nodes),
        "one table for all parcellations",
    )


def measures_of(options: ConnectomeOptions) -> dict[str, Measure]:
    """Return the measures that are asked for, those of sampled maps at the end."""
    names = values_of(options.connectome_measure) or ("count",)
    if wrong := [name for name in names if name not in MEASURES]:
        raise ParameterError(f"--connectome-measure is {wrong[0]!r}: give {listed(MEASURES)}")
    maps = names_of(values_of(options.connectome_sample))
    sampled = {f"{name}_mean": mean_sample(name, place) for place, name in enumerate(maps)}
    return {name: MEASURES[name] for name in names} | sampled


def files(options: ConnectomeOptions) -> tuple[Path, ...]:
    """Return all files that are written."""
    out = []
    for _, path in pairs_of(options.connectome):
        out += [file for file, *_ in written(path, measures_of(options))] + [beside(path, "_nodes", ".tsv")]
        out += [beside(path, "_pairs", ".tsv")] * options.connectome_pairs
    return tuple(out)
