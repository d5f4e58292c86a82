"""Every n-th point of a streamline, counted from its seed, and its ends, as MRtrix3's ``Downsampler`` keeps them."""

from ...linker.lang import *

FAR = 3.0e38  # beyond any squared distance


@func
def find_seed(item: i32, points: Reals, offsets: Ints, seeds: Reals, seed: Ints):
    """Find the first of the points of a streamline that are nearest to its seed."""
    first = 3 * offsets[item]
    least = FAR
    nearest = 0
    for k in range(offsets[item + 1] - offsets[item]):
        x = points[first + 3 * k] - seeds[3 * item]
        y = points[first + 3 * k + 1] - seeds[3 * item + 1]
        z = points[first + 3 * k + 2] - seeds[3 * item + 2]
        squared = (x * x + y * y) + z * z
        if squared < least:
            least = squared
            nearest = k
    seed[item] = nearest


@func
def thin(item: i32, points: Reals, offsets: Ints, seed: Ints, every: i32, places: Ints, out: Reals):
    """Copy the points of a streamline that are kept to ``out``, from point ``places[item]`` on."""
    first = 3 * offsets[item]
    last = offsets[item + 1] - offsets[item] - 1
    beside = seed[item] - (seed[item] // every) * every  # the first of the points between the ends
    place = 3 * places[item]
    k = 0
    going = 1
    while going == 1:
        out[place] = points[first + 3 * k]
        out[place + 1] = points[first + 3 * k + 1]
        out[place + 2] = points[first + 3 * k + 2]
        place = place + 3
        going = where(k < last, 1, 0)
        ahead = where(k < beside, beside, k + every)
        k = minimum(ahead, last)
