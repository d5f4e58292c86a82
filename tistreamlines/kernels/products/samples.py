"""Values of a map at the points of streamlines, and what they are along each of them: mean, median, least and greatest.

As in MRtrix3's ``tcksample``: values are interpolated trilinearly, and 0 outside the map; the mean weights a point by half
the length of the segments on both sides of it, and the other statistics do not weight.
"""

from ...linker.lang import *
from ..lanes import MapVolume, length_of, map_at, point_in_map

# numbers of a streamline: the mean is left as a sum, and what it is to be divided by
TOTAL, WEIGHT, MEDIAN, LEAST, GREATEST = range(5)
NUMBERS = 5
FAR = 3.0e38  # beyond any value of a map


@func
def value_of_rank(values: Reals, first: i32, count: i32, rank: i32) -> real:
    """The value of a streamline that has this rank, from 0, once they are sorted.

    Each lane counts how many values are below that of its point, and how many are equal to it.
    """
    best = lanes(-FAR)
    for turn in range((count + 31) >> 5):
        mine = at(values, first + 32 * turn)
        below = lanes(0)
        same = lanes(0)
        for k in range(count):
            below = where(values[first + k] < mine, below + 1, below)
            same = where(values[first + k] == mine, same + 1, same)
        is_it = (below <= rank) & (rank < below + same) & (lane() + 32 * turn < count)
        best = where(is_it, mine, best)
    return team_max(best)


@func
def sample_points(item: i32, points: Reals, offsets: Ints, map: MapVolume, values: Reals, numbers: Reals):
    """Sample a map at the points of a streamline, which are in RASmm, and write the NUMBERS of the streamline.

    ``values`` has 31 elements more than there are points.
    """
    first = offsets[item]
    count = offsets[item + 1] - first
    for k in each(count):
        place = 3 * (first + k)
        values[first + k] = map_at(map, point_in_map(map, vec3(points[place], points[place + 1], points[place + 2])), 0)
    barrier()
    total = 0.0
    weight = 0.0
    plain = 0.0
    least = FAR
    greatest = -FAR
    before = 0.0
    for k in range(count):
        value = values[first + k]
        after = 0.0
        if k < count - 1:
            place = 3 * (first + k)
            after = length_of(vec3(
                points[place + 3] - points[place], points[place + 4] - points[place + 1], points[place + 5] - points[place + 2]
            ))
        total = total + value * (0.5 * (before + after))
        weight = weight + 0.5 * (before + after)
        plain = plain + value
        least = minimum(least, value)
        greatest = maximum(greatest, value)
        before = after
    if weight == 0.0:  # a single point, or several at one place
        total = plain
        weight = real(count)
    middle = value_of_rank(values, first, count, count >> 1)
    if (count & 1) == 0:
        middle = 0.5 * (value_of_rank(values, first, count, (count >> 1) - 1) + middle)
    numbers[NUMBERS * item + TOTAL] = total
    numbers[NUMBERS * item + WEIGHT] = weight
    numbers[NUMBERS * item + MEDIAN] = middle
    numbers[NUMBERS * item + LEAST] = least
    numbers[NUMBERS * item + GREATEST] = greatest
