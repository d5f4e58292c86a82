"""A stopping rule of one's own: streamlines go on where FA lies in a band, and end below and above it.

Importing this module registers it: then ``stopping="band"`` works like any other. Run it without arguments on a small
phantom in a temporary folder, or on your own series:

    python own_rule.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import tistreamlines as ts
from tistreamlines.kernels.interpolate import STOP_CHANNEL, Volume
from tistreamlines.kernels.stop_reasons import Stop
from tistreamlines.linker.lang import *
from tistreamlines.option import SEEDS, option
from tistreamlines.phantom.phantom import make_phantom, save_phantom
from tistreamlines.tracking.parts import Rule
from tistreamlines.tracking.registry import StoppingRule
from tistreamlines.tracking.tables.inputs import StopTables

GROWING, END_POINT = int(Stop.GROWING), int(Stop.END_POINT)


class Band(Record):
    """Streamlines go on where FA is above ``low`` and at most ``high``."""

    low: real
    high: real


@func
def classify(stopping: Band, volume: Volume, p: vec3, row: Reals, c0: u32, c1: u32, c2: u32, key: Ints) -> i32:
    """Stop reason at the point whose interpolated row is given, or GROWING."""
    reason = END_POINT
    if (row[STOP_CHANNEL] > stopping.low) & (row[STOP_CHANNEL] <= stopping.high):
        reason = GROWING
    return reason


@dataclass(frozen=True)
class BandOptions:
    """The two ends of the band."""

    fa_low: float = option(0.15, SEEDS, "Streamlines end where FA is at or below this.", unit="FA", low=0, high=1)
    fa_high: float = option(0.9, SEEDS, "Streamlines end where FA is above this.", unit="FA", low=0, high=1)


def rule_of(options, sides):
    """Return the rule; since it depends on options alone, kernels are compiled while FA is fitted."""
    return Rule(stopping=Band(low=options.fa_low, high=options.fa_high), classify=classify)


def prepare(maps, anisotropy, options, sides):
    """Make the tables of the rule: FA, and the voxels around which streamlines can go on."""
    fa = anisotropy()
    # between a voxel below the band and one above it, interpolated FA lies in the band
    return StopTables(rule_of(options, sides), fa[..., None].astype(np.float32), fa > options.fa_low)


ts.register("band", StoppingRule(
    title="ends them where FA leaves a band", prepare=prepare, options=BandOptions, maps={}, needs_fa=lambda _: True,
    rule=rule_of,
))


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments:
            *series, output = arguments
        else:
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
            series, output = save_phantom(phantom, folder), folder / "brain.trx"
        for high in (0.9, 0.4):
            result = ts.track(
                *series, output, stopping="band", fa_high=high, nseeds=2000, cache_dir=folder / "cache", force=True,
                min_length=20,
            )
            print(f"FA up to {high}: {result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average")


if __name__ == "__main__":
    main(sys.argv[1:])
