"""The kernels of :mod:`.sift`, which loads a copy of this file, hence the whole name of a module.

A visit is a word: the fixel in its low 24 bits, the length in the others. ``fixels``, (n, 4), has of each fixel the
length of its streamlines, in units, its fibre density, how much it counts, and nothing: a row is half a line of the
cache. Sums are of 64 bits, in the order of the streamlines or fixels.
"""

from __future__ import annotations

from tistreamlines.backends.numba.compiler import compiled

FIXEL_BITS, FIXEL_MASK, MOST_UNITS = 24, (1 << 24) - 1, 255  # as in kernels/weights/visits.py
LANES = 32
LENGTH, FIBRES, MASK = 0, 1, 2  # columns of fixels
KEPT, NEXT, SPARE, REMOVED, REASON = 0, 1, 2, 3, 4  # places in the counts of a pass
SUM, TOTAL, OF_USE, OF_USE_GONE, IDLE, IDLE_GONE = 0, 1, 2, 3, 4, 5  # places in its sums
# why a pass ends
ALL_TRIED, NOT_LINEAR, TOO_LITTLE, NUMBER, RATIO, MU = 0, 1, 2, 3, 4, 5


@compiled
def count_visits(order, begin, depth, words, masks, counts, fixels):
    """Count the visits of each streamline to fixels that count, and sum up the lengths in each fixel."""
    for team in range(len(depth)):
        for lane in range(LANES):
            number = order[LANES * team + lane]
            if number < 0:
                continue
            for level in range(depth[team]):
                word = words[begin[team] + LANES * level + lane]
                fixel = word & FIXEL_MASK
                units = (word >> FIXEL_BITS) & MOST_UNITS
                if units > 0:
                    fixels[fixel, LENGTH] += units
                    if masks[fixel] > 0.0:
                        counts[number] += 1


@compiled
def lay_out(order, begin, depth, words, masks, offsets, visits, contributions):
    """Put the visits of each streamline to fixels that count side by side, and sum up their lengths times masks."""
    for team in range(len(depth)):
        for lane in range(LANES):
            number = order[LANES * team + lane]
            if number < 0:
                continue
            place = offsets[number]
            total = 0.0
            for level in range(depth[team]):
                word = words[begin[team] + LANES * level + lane]
                units = (word >> FIXEL_BITS) & MOST_UNITS
                mask = masks[word & FIXEL_MASK]
                if units > 0 and mask > 0.0:
                    visits[place] = word
                    place += 1
                    total += mask * units
            contributions[number] = total


@compiled
def sum_costs(fixels, mu, out):
    """Sum up the cost of all fixels, and its derivative by mu."""
    cost = 0.0
    slope = 0.0
    for fixel in range(len(fixels)):
        length = fixels[fixel, LENGTH]
        excess = mu * length - fixels[fixel, FIBRES]
        cost += fixels[fixel, MASK] * excess * excess
        slope += 2.0 * fixels[fixel, MASK] * length * excess
    out[0] = cost
    out[1] = slope


@compiled
def change_of_cost(visits, first, last, fixels, mu, other, slope):
    """Return by how much the cost changes without a streamline, whose removal makes ``other`` of mu.

    ``slope`` tells it of the fixels that the streamline does not visit. In one that it visits, it is e^2 - 2 d m l
    besides. Here, d is the excess density, m the new mu, and l the length of the visit. With the length L of all
    streamlines, e is (m - mu) L - m l.
    """
    step = other - mu
    change = slope * step
    for place in range(first, last):
        word = visits[place]
        fixel = word & FIXEL_MASK
        less = other * ((word >> FIXEL_BITS) & MOST_UNITS)
        length = fixels[fixel, LENGTH]
        excess = mu * length - fixels[fixel, FIBRES]
        shift = step * length - less
        change += fixels[fixel, MASK] * (shift * shift - 2.0 * excess * less)
    return change


@compiled
def find_gradients(span, visits, offsets, contributions, kept, fixels, model, gradients, shares):
    """Find the change of cost without each streamline of a span, and the same by its contribution; 0 without one.

    ``model`` has the sums of fibre densities and of lengths, both times masks, and the slope of the cost by mu.
    """
    densities, total, slope = model[0], model[1], model[2]
    mu = densities / total
    for item in range(span[0], span[1]):
        contribution = contributions[item]
        gradients[item] = shares[item] = 0.0
        if kept[item] and 0.0 < contribution < total:
            other = densities / (total - contribution)
            change = change_of_cost(visits, offsets[item], offsets[item + 1], fixels, mu, other, slope)
            gradients[item] = change
            shares[item] = change / contribution


@compiled
def remove_in_turn(order, spare, visits, rows, kept, fixels, ends, counts, sums):
    """Remove streamlines in order as long as each lowers the cost enough; see :func:`.sift.sift`.

    ``rows`` has the offsets of visits, gradients, contributions and lengths. ``spare`` are streamlines without a
    contribution, of which some go along, so that as great a part of their length is removed.

    ``ends`` has the number of streamlines, the ratio and mu at which the pass ends, 0 for none; the cost and the slope
    at its begin; and whether a streamline has to lower the cost by half of the cost of its own length.
    """
    offsets, gradients, contributions, lengths = rows
    number, ratio, most, cost, slope, strict = ends
    counts[REASON] = ALL_TRIED
    while True:
        mu = sums[SUM] / sums[TOTAL]
        if counts[KEPT] == number:
            counts[REASON] = NUMBER
            return
        if most > 0.0 and mu > most:
            counts[REASON] = MU
            return
        if counts[SPARE] < len(spare) and sums[OF_USE_GONE] * sums[IDLE] > sums[IDLE_GONE] * sums[OF_USE]:
            item = spare[counts[SPARE]]
            counts[SPARE] += 1
            sums[IDLE_GONE] += lengths[item]
        else:
            if counts[NEXT] == len(order):
                return
            item = order[counts[NEXT]]
            other = sums[SUM] / (sums[TOTAL] - contributions[item])
            first, last = offsets[item], offsets[item + 1]
            change = change_of_cost(visits, first, last, fixels, mu, other, slope)
            length_cost = 0.0
            for place in range(first, last):
                word = visits[place]
                density = mu * ((word >> FIXEL_BITS) & MOST_UNITS)
                length_cost += fixels[word & FIXEL_MASK, MASK] * density * density
            if not change < gradients[item] - change:
                counts[REASON] = NOT_LINEAR
                return
            if ratio > 0.0 and not -change * (sums[OF_USE] - sums[OF_USE_GONE]) > ratio * cost * lengths[item]:
                counts[REASON] = RATIO
                return
            if strict and not change < -0.5 * length_cost:
                counts[REASON] = TOO_LITTLE
                return
            for place in range(first, last):
                word = visits[place]
                fixels[word & FIXEL_MASK, LENGTH] -= (word >> FIXEL_BITS) & MOST_UNITS
            counts[NEXT] += 1
            sums[TOTAL] -= contributions[item]
            sums[OF_USE_GONE] += lengths[item]
        kept[item] = 0
        counts[KEPT] -= 1
        counts[REMOVED] += 1
