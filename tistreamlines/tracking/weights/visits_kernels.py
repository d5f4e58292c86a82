"""The kernels of :mod:`.visits`, which loads a copy of this file, hence the whole name of a module."""

from tistreamlines.backends.numba.compiler import compiled


@compiled
def join_lines(points, offsets, first, last, ends, out, begins, counts):
    """Copy streamlines behind others, without points that lie where the one before lies.

    ``ends`` has the numbers of points and of streamlines in ``out``; ``begins`` and ``counts`` receive the first point
    of each streamline and how many it has.
    """
    place, number = ends[0], ends[1]
    for i in range(first, last):
        begin = place
        for k in range(offsets[i], offsets[i + 1]):
            x, y, z = points[k, 0], points[k, 1], points[k, 2]
            if place == begin or x != out[place - 1, 0] or y != out[place - 1, 1] or z != out[place - 1, 2]:
                out[place, 0], out[place, 1], out[place, 2] = x, y, z
                place += 1
        begins[number], counts[number] = begin, place - begin
        number += 1
    ends[0], ends[1] = place, number


@compiled
def sort_lines(begins, counts, tally, order, ordered_begins, ordered_counts):
    """Order streamlines with points by their number, the greatest first, by a counting sort; of equals, the last first.

    ``tally`` has a 0 for each number of points.
    """
    for i in range(counts.shape[0]):
        tally[counts[i]] += 1
    before = 0
    for count in range(tally.shape[0] - 1, 0, -1):
        before, tally[count] = before + tally[count], before
    for i in range(counts.shape[0] - 1, -1, -1):
        count = counts[i]
        if count:
            place = tally[count]
            order[place], ordered_begins[place], ordered_counts[place] = i, begins[i], count
            tally[count] = place + 1
