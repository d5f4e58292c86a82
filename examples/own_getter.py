"""A direction getter of one's own: probabilistic, with directions near the last step weighted more.

A direction at angle a to the last step has the weight cos(a)^2 besides its probability, so streamlines turn less than
with ``prob``. Importing this module registers it: then ``dg="forward"`` works like any other. Run it without arguments
on a small phantom in a temporary folder, or on your own series:

    python own_getter.py dwi.nii.gz dwi.bval dwi.bvec brain.trx
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import tistreamlines as ts
from tistreamlines.kernels.getters.prob import draw
from tistreamlines.kernels.orientation.peaks import VERTEX_CHUNKS
from tistreamlines.kernels.orientation.pmf import Pmf, PmfScratch, sample, toward
from tistreamlines.linker.lang import *
from tistreamlines.linker.lang import Func
from tistreamlines.linker.rng import philox, uniform
from tistreamlines.option import MODEL, option
from tistreamlines.phantom.phantom import make_phantom, save_phantom
from tistreamlines.tracking.getters.pmf import PmfGetter, PmfOptions, pmf_tables
from tistreamlines.tracking.registry import METHODS, Method
from tistreamlines.tracking.sources import FUNCTIONS

FORWARD = Constant("whether directions near the last step weigh more")


@func
def next_direction(
    method: Pmf, scratch: PmfScratch, heading: vec3, attempt: i32, c0: u32, c1: u32, c2: u32, key: Ints
) -> i32:
    """Code of a direction drawn by its weighted probability, or NONE."""
    barrier()
    low = method.threshold * sample(method, scratch, heading, method.rule.cos_angle)
    if FORWARD == 1:
        for chunk in range(VERTEX_CHUNKS):
            c = chunk * 32
            x = at(method.sphere.vertices, c)
            y = at(method.sphere.vertices, c + 32 * VERTEX_CHUNKS)
            z = at(method.sphere.vertices, c + 64 * VERTEX_CHUNKS)
            cosine = (x * heading[0] + y * heading[1]) + z * heading[2]
            value = at(scratch.pmf, c)
            # as probability() does, so that the weight makes no direction likely that was not
            put(scratch.pmf, c, where(value >= low, value * (cosine * cosine), 0.0))
        low = 0.0
    w = philox(c0, c1, c2, u32(0), u32(key[0]), u32(key[1]))
    number = draw(scratch.pmf, VERTEX_CHUNKS, low, uniform(w[0]))
    return toward(method.sphere, number, heading)


@dataclass(frozen=True)
class ForwardOptions(PmfOptions):
    """The options of prob, and one more."""

    forward_weight: bool = option(True, MODEL, "Weight directions by the square of the cosine to the last step.",
                                  off="no_forward_weight")


@dataclass(frozen=True, kw_only=True, eq=False)
class ForwardGetter(PmfGetter):
    """What the kernels are linked with: the function that chooses a direction, and the constant FORWARD."""

    next_direction: Func = next_direction
    forward: int


def describe(scheme, options):
    """Return the getter and its rows, which are those of all getters of orientation functions."""
    return pmf_tables(scheme, options).described(ForwardGetter, forward=int(options.forward_weight))


ts.register("forward", Method(
    title="probabilistic, straight on", use="streamlines should turn little", follows=FUNCTIONS, describe=describe,
    options=ForwardOptions, defaults=METHODS["prob"].defaults, models=METHODS["prob"].models,
    references=METHODS["prob"].references,
))


def main(arguments):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if arguments:
            *series, output = arguments
        else:
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=48)
            series, output = save_phantom(phantom, folder), folder / "brain.trx"
        for weight in (True, False):
            result = ts.track(
                *series, output, dg="forward", forward_weight=weight, nseeds=2000, cache_dir=folder / "cache",
                force=True, min_length=20,
            )
            weighting = "weighted" if weight else "not weighted"
            print(f"{weighting}: {result.n_streamlines} streamlines of {result.mean_mm:.0f} mm on average")


if __name__ == "__main__":
    main(sys.argv[1:])
