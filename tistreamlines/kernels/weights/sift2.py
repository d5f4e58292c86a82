"""SIFT2: weights with which the density of streamlines in each fixel comes near that of fibres (Smith et al. 2015).

The weight of a streamline is the exponential of its coefficient.  In an iteration, each coefficient changes by a step of its own
that is best while all other streamlines keep to theirs, apart from a share in the change of each fixel that they have in common;
then the densities are summed anew.  Each lane has a streamline.  Sums over streamlines are sums of whole numbers, so that they
depend neither on their order nor on the device.
"""

from __future__ import annotations

from ...linker.lang import *
from ...linker.maths import exp, reciprocal_root
from .visits import FIXEL_BITS, FIXEL_MASK, MOST_UNITS

NUMBERS = 6  # of a fixel
ROUNDS = 100  # of Newton's method
ENOUGH = 0.001  # change of a step after which it is found
FRACTION = 256.0  # parts of a unit of length, in sums
LOWEST, HIGHEST = -80.0, 10.0  # coefficients whose exponentials are computed
SUMS = 4  # words of a fixel
# sums of all streamlines are kept in many places, so that threads do not wait for each other, of five words each: the squares
# of coefficients and their roughness, each as a whole number and parts of one, and how many coefficients are above the least
TALLIES, TALLY = 1024, 5
TALLY_PARTS, TALLY_MOST = 65536.0, 131072.0
ATOMIC = Constant("1: several threads add to one array")
EXCLUDES = Constant("1: a fixel that drives a streamline beyond the greatest coefficient takes no part any more")


class Model(Record):
    """What the fixels say, and the rules.

    ``fixels``, NUMBERS for each: the density of streamlines less that of fibres; the first density of streamlines; the weight
    of the voxel over that, 0 if the fixel takes no part; that weight alone, which is below 0 then; the mean coefficient of its streamlines, and
    the exponential of that.  Densities of streamlines are proportional to lengths: ``unit`` is that of a unit of length.
    ``tikhonov`` and ``variation``, factors of the regularisation; ``step``, greatest change of a coefficient; ``least`` and
    ``most``, bounds of coefficients.  ``count``, number of fixels.
    """

    fixels: Reals
    count: i32
    unit: real
    tikhonov: real
    variation: real
    step: real
    least: real
    most: real


class Weighed(Record):
    """Streamlines, 32 to a team: ``begin`` and ``depth`` of a team's visits in ``words``.

    As bits, which hosts can read: ``share``, 1 over their lengths, weighted as their voxels are, or 0; their coefficients,
    before and ``after`` a step; ``roughness``, how far these are from those of their fixels.  ``excluded``, of each fixel, 1 if
    it takes no part from the next step on.
    """

    begin: Ints
    depth: Ints
    words: Ints
    share: Ints
    coefficients: Ints
    after: Ints
    roughness: Ints
    excluded: Ints


class Moments(Record):
    """Local variables: sums over the visits of a lane that the cost of the densities follows from, for any step."""

    pq: real
    pr: real
    qq: real
    qr: real
    rr: real
    rough: real


class Search(Record):
    """Local variables of Newton's method: the step, its last change, and the derivatives of the regularisation."""

    d: real
    change: real
    first: real
    second: real


@stage
def sum_moments(sums: Moments, item: i32, f: real, model: Model, weighed: Weighed):
    """Sum over the visits: the fixel's difference p after a step is p + q (e^d - 1) + r d."""
    e = exp(maximum(f, LOWEST))
    sums.pq = lanes(0.0)
    sums.pr = lanes(0.0)
    sums.qq = lanes(0.0)
    sums.qr = lanes(0.0)
    sums.rr = lanes(0.0)
    sums.rough = lanes(0.0)
    for k in range(weighed.depth[item]):
        word = at(weighed.words, weighed.begin[item] + 32 * k)
        place = NUMBERS * (word & FIXEL_MASK)
        units = real((word >> FIXEL_BITS) & MOST_UNITS)
        length = units * model.unit
        p = take(model.fixels, place)
        c = length * take(model.fixels, place + 2)
        q = length * e
        r = (take(model.fixels, place + 1) - length) * e
        cq = c * q
        cr = c * r
        sums.pq = sums.pq + cq * p
        sums.pr = sums.pr + cr * p
        sums.qq = sums.qq + cq * q
        sums.qr = sums.qr + cq * r
        sums.rr = sums.rr + cr * r
        below = f - take(model.fixels, place + 4)
        above = e - take(model.fixels, place + 5)
        apart = where(below <= 0.0, below, above)
        sums.rough = sums.rough + (units * absolute(take(model.fixels, place + 3))) * (apart * apart)


@stage
def sum_variation(search: Search, item: i32, t: real, e: real, model: Model, weighed: Weighed):
    """Derivatives of how far a coefficient ``t``, whose exponential is ``e``, is from those of the fixels."""
    search.first = lanes(0.0)
    search.second = lanes(0.0)
    for k in range(weighed.depth[item]):
        word = at(weighed.words, weighed.begin[item] + 32 * k)
        place = NUMBERS * (word & FIXEL_MASK)
        s = real((word >> FIXEL_BITS) & MOST_UNITS) * maximum(take(model.fixels, place + 3), 0.0)
        below = t - take(model.fixels, place + 4)
        mean = take(model.fixels, place + 5)
        low = below <= 0.0
        search.first = search.first + s * where(low, below, e * (e - mean))
        search.second = search.second + s * where(low, 1.0, e * (2.0 * e - mean))


@func
def quotient(a: real, b: real) -> real:
    """``a / |b|``, 0 where b is 0 or too small."""
    square = b * b
    return where(square > 1.0e-36, a * reciprocal_root(maximum(square, 1.0e-36)), 0.0)


@func
def best_step(item: i32, f: real, model: Model, weighed: Weighed) -> real:
    """The step of each lane's coefficient, by Newton's method; also notes how far it is from those of its fixels."""
    sums = Moments()
    search = Search()
    sum_moments(sums, item, f, model, weighed)
    share = from_bits(at(weighed.share, 32 * item))
    put(weighed.roughness, 32 * item, bits(sums.rough * share))
    search.d = lanes(0.0)
    search.change = lanes(1.0)
    going = 1.0
    turn = 0
    while (going > 0.0) & (turn < ROUNDS):
        t = minimum(f + search.d, HIGHEST)
        x = exp(maximum(minimum(search.d, HIGHEST), LOWEST))
        sum_variation(search, item, t, exp(maximum(t, LOWEST)), model, weighed)
        scale = model.variation * share
        along = (sums.pq + sums.qq * (x - 1.0)) + sums.qr * search.d
        beside = (sums.pr + sums.qr * (x - 1.0)) + sums.rr * search.d
        first = ((x * along + beside) + model.tikhonov * t) + scale * search.first
        curve = ((sums.qq * (x * x) + 2.0 * (sums.qr * x)) + sums.rr) + x * along
        second = (curve + model.tikhonov) + scale * search.second
        change = 0.0 - quotient(first, second)
        change = minimum(maximum(change, 0.0 - model.step), model.step)
        settled = absolute(search.change) <= ENOUGH
        out = ((search.d >= model.step) & (change > 0.0)) | ((search.d <= 0.0 - model.step) & (change < 0.0))
        change = where(settled | out, 0.0, change)
        search.d = search.d + change
        search.d = where(out, minimum(maximum(search.d, 0.0 - model.step), model.step), search.d)
        search.change = change
        going = team_max(where(absolute(change) > ENOUGH, 1.0, 0.0))
        turn = turn + 1
    return minimum(maximum(search.d, 0.0 - model.step), model.step)


@func
def without_one(item: i32, beyond: i32, model: Model, weighed: Weighed) -> real:
    """Exclude a fixel of each lane for which ``beyond`` is 1; return the mean coefficient of its other fixels.

    It is the one whose lack of streamlines costs most.
    """
    worst = lanes(-1)
    most = lanes(0.0)
    for k in range(weighed.depth[item]):
        word = at(weighed.words, weighed.begin[item] + 32 * k)
        place = NUMBERS * (word & FIXEL_MASK)
        p = take(model.fixels, place)
        cost = ((p * p) * take(model.fixels, place + 2)) * real((word >> FIXEL_BITS) & MOST_UNITS)
        more = (p < 0.0) & (cost > most)
        worst = where(more, word & FIXEL_MASK, worst)
        most = where(more, cost, most)
    total = lanes(0.0)
    weights = lanes(0.0)
    for k in range(weighed.depth[item]):
        word = at(weighed.words, weighed.begin[item] + 32 * k)
        place = NUMBERS * (word & FIXEL_MASK)
        s = real((word >> FIXEL_BITS) & MOST_UNITS) * maximum(take(model.fixels, place + 3), 0.0)
        s = where((word & FIXEL_MASK) == worst, 0.0, s)
        total = total + s * take(model.fixels, place + 4)
        weights = weights + s
    chosen = (beyond == 1) & (worst >= 0)
    # lanes that exclude none write behind the last fixel
    weighed.excluded[where(chosen, worst, model.count)] = 1
    return where(worst >= 0, quotient(total, weights), 0.0)


@func
def reweigh(item: i32, model: Model, weighed: Weighed):
    """Take a step with the coefficients of 32 streamlines."""
    f = from_bits(at(weighed.coefficients, 32 * item))
    d = best_step(item, f, model, weighed)
    after = maximum(f + d, model.least)
    if EXCLUDES:
        beyond = where(after > model.most, 1, 0)
        if team_max(real(beyond)) > 0.0:
            after = where(beyond == 1, without_one(item, beyond, model, weighed), after)
    put(weighed.after, 32 * item, bits(minimum(after, model.most)))


@func
def sum_up(item: i32, weighed: Weighed, factors: Reals, least: real, bits_apart: i32, sums: Ints):
    """Add the weighted lengths of 32 streamlines to their fixels, and their coefficients, weighted by length.

    Of each sum, the low ``bits_apart`` bits of its terms are added in one word and the others in another.
    """
    f = from_bits(at(weighed.coefficients, 32 * item))
    put(factors, 32 * item, where(f > least, exp(minimum(maximum(f, LOWEST), HIGHEST)), 0.0))
    barrier()
    mask = (1 << bits_apart) - 1
    begin = weighed.begin[item]
    for i in each(32 * weighed.depth[item]):
        word = weighed.words[begin + i]
        units = real((word >> FIXEL_BITS) & MOST_UNITS)
        if units > 0.0:
            place = SUMS * (word & FIXEL_MASK)
            which = 32 * item + (i & 31)
            density = i32(floor((units * factors[which]) * FRACTION + 0.5))
            mean = i32(floor((units * maximum(from_bits(weighed.coefficients[which]), LOWEST)) * FRACTION + 0.5))
            if ATOMIC:
                add(sums, place, density & mask)
                add(sums, place + 1, density >> bits_apart)
                add(sums, place + 2, mean & mask)
                add(sums, place + 3, mean >> bits_apart)
            else:
                sums[place] = sums[place] + (density & mask)
                sums[place + 1] = sums[place + 1] + (density >> bits_apart)
                sums[place + 2] = sums[place + 2] + (mean & mask)
                sums[place + 3] = sums[place + 3] + (mean >> bits_apart)


@func
def count_visits(item: i32, weighed: Weighed, counts: Ints):
    """Add the lengths of 32 streamlines in each fixel, and the number of their visits."""
    begin = weighed.begin[item]
    for i in each(32 * weighed.depth[item]):
        word = weighed.words[begin + i]
        units = (word >> FIXEL_BITS) & MOST_UNITS
        if units > 0:
            place = 2 * (word & FIXEL_MASK)
            if ATOMIC:
                add(counts, place, units)
                add(counts, place + 1, 1)
            else:
                counts[place] = counts[place] + units
                counts[place + 1] = counts[place + 1] + 1


@func
def average(item: i32, values: Reals, masks: Reals, weighed: Weighed):
    """Find the share of each of 32 streamlines, and, as ``after``, the mean of the values of its fixels, by length and masks."""
    total = lanes(0.0)
    length = lanes(0.0)
    for k in range(weighed.depth[item]):
        word = at(weighed.words, weighed.begin[item] + 32 * k)
        s = real((word >> FIXEL_BITS) & MOST_UNITS) * take(masks, word & FIXEL_MASK)
        total = total + s * take(values, word & FIXEL_MASK)
        length = length + s
    put(weighed.share, 32 * item, bits(quotient(lanes(1.0), length)))
    put(weighed.after, 32 * item, bits(quotient(total, length)))


@func
def tally(item: i32, weighed: Weighed, least: real, totals: Ints):
    """Add what 32 streamlines contribute to the cost of the regularisation, and how many have a weight above the least."""
    place = TALLY * (item - item // TALLIES * TALLIES)
    for i in each(32):
        f = from_bits(weighed.coefficients[32 * item + i])
        if from_bits(weighed.share[32 * item + i]) > 0.0:
            square = minimum(f * f, TALLY_MOST)
            rough = minimum(from_bits(weighed.roughness[32 * item + i]), TALLY_MOST)
            whole = i32(square)
            part = i32((square - real(whole)) * TALLY_PARTS)
            rest = i32(rough)
            piece = i32((rough - real(rest)) * TALLY_PARTS)
            above = where(f > least, 1, 0)
            if ATOMIC:
                add(totals, place, whole)
                add(totals, place + 1, part)
                add(totals, place + 2, rest)
                add(totals, place + 3, piece)
                add(totals, place + 4, above)
            else:
                totals[place] = totals[place] + whole
                totals[place + 1] = totals[place + 1] + part
                totals[place + 2] = totals[place + 2] + rest
                totals[place + 3] = totals[place + 3] + piece
                totals[place + 4] = totals[place + 4] + above
