"""A product of one's own: a table of how many streamlines have which length, made while they are tracked.

Importing this module registers it: then ``lengths="lengths.csv"`` works like any other option, with or without a
tractogram, and in ``ts.join``. Run it without arguments on a small phantom in a temporary folder, or on your series:

    python own_product.py dwi.nii.gz dwi.bval dwi.bvec lengths.csv
"""

import csv
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tistreamlines as ts
from tistreamlines.io.writer import completed
from tistreamlines.option import OUTPUT, PathLike, option
from tistreamlines.phantom.phantom import make_phantom, save_phantom
from tistreamlines.tracking.products.files import ProductFile
from tistreamlines.tracking.registry import Product


@dataclass(frozen=True)
class LengthsOptions:
    """The first option names the file, and the product."""

    lengths: PathLike | None = option(
        None, OUTPUT, "Write how many streamlines have which length, .csv.", unit="FILE", absent="not written",
        affects="run",
    )
    lengths_bin: float = option(
        5.0, OUTPUT, "Width of a row of --lengths.", unit="mm", low=0, above=True, requires=("lengths",), affects="run",
    )


class Lengths(ProductFile):
    """Counts the lengths of batches; they come back with their points, so that no kernel is needed."""

    def __init__(self, options, space, step_mm, threads):
        super().__init__(Path(options.lengths))
        self.step_mm, self.width, self.value = step_mm, options.lengths_bin, np.zeros(0, np.int64)

    def add(self, batch):
        """Count the streamlines of a batch; a streamline of n points has n - 1 steps."""
        rows = ((batch.lengths - 1) * self.step_mm / self.width).astype(int)
        counts = np.bincount(rows, minlength=len(self.value))
        counts[: len(self.value)] += self.value
        self.value = counts

    def write(self, *, force):
        """Write the table; the file appears when it is complete."""
        with completed(self.paths[0], force=force) as draft, draft.open("w", newline="") as file:
            rows = csv.writer(file)
            rows.writerow(["from_mm", "streamlines"])
            rows.writerows([f"{k * self.width:g}", count] for k, count in enumerate(self.value.tolist()))
        self.details = {"path": str(self.paths[0]), "bin_mm": self.width}


ts.register("lengths", Product(
    title="table of lengths", options=LengthsOptions, make=Lengths, suffixes=(".csv",),
))


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments:
            *series, output = arguments
        else:
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
            series, output = save_phantom(phantom, folder), folder / "lengths.csv"
        result = ts.track(*series, lengths=output, lengths_bin=20, nseeds=2000, force=True, cache_dir=folder / "cache")
        counts = ", ".join(f"{20 * k} mm: {count}" for k, count in enumerate(result.products["lengths"]) if count)
        print(f"{result.n_streamlines} streamlines; from {counts}")


if __name__ == "__main__":
    main(sys.argv[1:])
