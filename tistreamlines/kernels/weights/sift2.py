"""SIFT2: weights with which the density of streamlines in each fixel comes near that of fibres (Smith et al. 2015).

The weight of a streamline is the exponential of its coefficient.  In an iteration, each coefficient takes the step that minimises
the cost under the assumption that the other streamlines in its fixels take about the same step; then the densities of all fixels are
summed again.  Each lane has a streamline.  Sums over streamlines are sums of whole numbers, so that they depend neither on their
order nor on the device.
"""

from ...linker.lang import *
from ...linker.maths import exp, reciprocal_root
from .visits import fixel_of, units_of

NUMBERS = 6  # of a fixel
ROUNDS = 100  # of Newton's method
ENOUGH = 0.001  # change of a step after which it is found
FRACTION = 256.0  # parts of a unit of length, in sums
LOWEST, HIGHEST = -80.0, 10.0  # coefficients whose exponentials are computed
SUMS = 4  # words of a fixel: two for the density of its streamlines, two for their coefficients
# The costs of the regularisation are summed in TALLIES places, so that threads do not wait for each other.  Each place
# has TALLY words: two for squared coefficients, two for the roughness, and the number of coefficients above the least
# one.
TALLIES, TALLY = 1024, 5
TALLY_PARTS, TALLY_MOST = 65536.0, 131072.0  # the second word counts parts of one; greater numbers count as equal
ATOMIC = Constant("1: several threads add to one array")
EXCLUDES = Constant("1: a fixel that drives a streamline beyond the greatest coefficient takes no part any more")


class FixelModel(Record):
    """The fixels, and the rules.

    ``fixels`` has NUMBERS for each fixel:

    0. the density of its streamlines, less that of its fibres;
    1. the density that its streamlines had at first, when all weights were 1;
    2. how much its voxel counts, divided by number 1; 0 if the fixel is excluded from the optimisation;
    3. how much its voxel counts; minus that if the fixel is excluded;
    4. the mean coefficient of its streamlines;
    5. the exponential of number 4.

    ``unit`` is the density of a streamline of weight 1 that visits a fixel for a unit of length.  ``tikhonov`` and ``variation``
    are the factors of the regularisation, ``step`` is the greatest change of a coefficient, ``least`` and ``most`` are the bounds of
    coefficients, and ``count`` is the number of fixels.
    """

    fixels: Reals
    count: i32
    unit: real
    tikhonov: real
    variation: real
    step: real
    least: real
    most: real


class StreamlineWeights(Record):
    """Streamlines, 32 to a team.

    The visits of a team begin at ``begin`` in ``words``; each of its lanes has ``depth``.  Each streamline has a ``share``, which is
    1 / (sum of its lengths, times how much their voxels count), or 0 without a visit; a coefficient, before and ``after`` a step;
    and a ``roughness``, the mean squared difference from the mean coefficients of its fixels: of coefficients where its own is the
    lower one, else of their exponentials.  These are bits of reals, since hosts read whole numbers only.  ``excluded`` is 1 for each fixel that is excluded from the next step on.
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


@func
def visit_at(item: i32, k: i32, weighed: StreamlineWeights) -> i32:
    """Visit ``k`` of each lane's streamline."""
    return at(weighed.words, weighed.begin[item] + 32 * k)


@func
def add_to(sums: Ints, place: i32, value: i32):
    """Add to a sum, which other threads add to at the same time if ATOMIC."""
    if ATOMIC:
        add(sums, place, value)
    else:
        sums[place] = sums[place] + value


@stage
def sum_moments(sums: Moments, item: i32, f: real, model: FixelModel, weighed: StreamlineWeights):
    """Sum over the visits: the fixel's difference p after a step is p + q (e^d - 1) + r d."""
    e = exp(maximum(f, LOWEST))
    sums.pq = lanes(0.0)
    sums.pr = lanes(0.0)
    sums.qq = lanes(0.0)
    sums.qr = lanes(0.0)
    sums.rr = lanes(0.0)
    sums.rough = lanes(0.0)
    for k in range(weighed.depth[item]):
        visit = visit_at(item, k, weighed)
        place = NUMBERS * fixel_of(visit)
        units = real(units_of(visit))
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
def sum_variation(search: Search, item: i32, t: real, e: real, model: FixelModel, weighed: StreamlineWeights):
    """Derivatives of how far a coefficient ``t``, whose exponential is ``e``, is from those of the fixels."""
    search.first = lanes(0.0)
    search.second = lanes(0.0)
    for k in range(weighed.depth[item]):
        visit = visit_at(item, k, weighed)
        place = NUMBERS * fixel_of(visit)
        s = real(units_of(visit)) * maximum(take(model.fixels, place + 3), 0.0)
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
def best_step(item: i32, f: real, model: FixelModel, weighed: StreamlineWeights) -> real:
    """The step of each lane's coefficient, by Newton's method; also notes how far it is from those of its fixels."""
    sums = Moments()
    search = Search()
    sum_moments(sums, item, f, model, weighed)
    share = from_bits(at(weighed.share, 32 * item))
    put(weighed.roughness, 32 * item, bits(sums.rough * share))
    search.d = lanes(0.0)
    search.change = lanes(1.0)
    going = 1
    turn = 0
    while (going == 1) & (turn < ROUNDS):
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
        going = team_any(absolute(change) > ENOUGH)
        turn = turn + 1
    return minimum(maximum(search.d, 0.0 - model.step), model.step)


@func
def without_one(item: i32, beyond: i32, model: FixelModel, weighed: StreamlineWeights) -> real:
    """Exclude a fixel of each lane for which ``beyond`` is 1; return the mean coefficient of its other fixels.

    It is the one whose lack of streamlines costs most.
    """
    worst = lanes(-1)
    most = lanes(0.0)
    for k in range(weighed.depth[item]):
        visit = visit_at(item, k, weighed)
        place = NUMBERS * fixel_of(visit)
        p = take(model.fixels, place)
        cost = ((p * p) * take(model.fixels, place + 2)) * real(units_of(visit))
        more = (p < 0.0) & (cost > most)
        worst = where(more, fixel_of(visit), worst)
        most = where(more, cost, most)
    total = lanes(0.0)
    weights = lanes(0.0)
    for k in range(weighed.depth[item]):
        visit = visit_at(item, k, weighed)
        place = NUMBERS * fixel_of(visit)
        s = real(units_of(visit)) * maximum(take(model.fixels, place + 3), 0.0)
        s = where(fixel_of(visit) == worst, 0.0, s)
        total = total + s * take(model.fixels, place + 4)
        weights = weights + s
    chosen = (beyond == 1) & (worst >= 0)
    # lanes that exclude none write behind the last fixel
    weighed.excluded[where(chosen, worst, model.count)] = 1
    return where(worst >= 0, quotient(total, weights), 0.0)


@func
def reweigh(item: i32, model: FixelModel, weighed: StreamlineWeights):
    """Take a step with the coefficients of 32 streamlines."""
    f = from_bits(at(weighed.coefficients, 32 * item))
    d = best_step(item, f, model, weighed)
    after = maximum(f + d, model.least)
    if EXCLUDES:
        beyond = where(after > model.most, 1, 0)
        if team_any(beyond == 1) == 1:
            after = where(beyond == 1, without_one(item, beyond, model, weighed), after)
    put(weighed.after, 32 * item, bits(minimum(after, model.most)))


@func
def sum_up(item: i32, weighed: StreamlineWeights, factors: Reals, least: real, bits_apart: i32, sums: Ints):
    """Add the weighted lengths of 32 streamlines to their fixels, and their coefficients, weighted by length.

    Of each sum, the low ``bits_apart`` bits of its terms are added in one word and the others in another.
    """
    f = from_bits(at(weighed.coefficients, 32 * item))
    put(factors, 32 * item, where(f > least, exp(minimum(maximum(f, LOWEST), HIGHEST)), 0.0))
    barrier()
    mask = (1 << bits_apart) - 1
    begin = weighed.begin[item]
    for i in each(32 * weighed.depth[item]):
        visit = weighed.words[begin + i]
        units = real(units_of(visit))
        if units > 0.0:
            place = SUMS * fixel_of(visit)
            which = 32 * item + (i & 31)
            density = i32(floor((units * factors[which]) * FRACTION + 0.5))
            mean = i32(floor((units * maximum(from_bits(weighed.coefficients[which]), LOWEST)) * FRACTION + 0.5))
            add_to(sums, place, density & mask)
            add_to(sums, place + 1, density >> bits_apart)
            add_to(sums, place + 2, mean & mask)
            add_to(sums, place + 3, mean >> bits_apart)


@func
def count_visits(item: i32, weighed: StreamlineWeights, counts: Ints):
    """Add the lengths of 32 streamlines in each fixel, and the number of their visits."""
    begin = weighed.begin[item]
    for i in each(32 * weighed.depth[item]):
        visit = weighed.words[begin + i]
        units = units_of(visit)
        if units > 0:
            place = 2 * fixel_of(visit)
            add_to(counts, place, units)
            add_to(counts, place + 1, 1)


@func
def average(item: i32, values: Reals, masks: Reals, weighed: StreamlineWeights):
    """Find the share of each of 32 streamlines, and, as ``after``, the mean of the values of its fixels, by length and masks."""
    total = lanes(0.0)
    length = lanes(0.0)
    for k in range(weighed.depth[item]):
        visit = visit_at(item, k, weighed)
        s = real(units_of(visit)) * take(masks, fixel_of(visit))
        total = total + s * take(values, fixel_of(visit))
        length = length + s
    put(weighed.share, 32 * item, bits(quotient(lanes(1.0), length)))
    put(weighed.after, 32 * item, bits(quotient(total, length)))


@func
def add_parts(totals: Ints, place: i32, value: real):
    """Add a number from 0 on, at most TALLY_MOST, to two words: its whole number, and the parts of one that are left."""
    kept = minimum(value, TALLY_MOST)
    whole = i32(kept)
    add_to(totals, place, whole)
    add_to(totals, place + 1, i32((kept - real(whole)) * TALLY_PARTS))


@func
def tally(item: i32, weighed: StreamlineWeights, least: real, totals: Ints):
    """Add what 32 streamlines contribute to the cost of the regularisation, and how many have a weight above the least."""
    place = TALLY * (item - item // TALLIES * TALLIES)
    for i in each(32):
        f = from_bits(weighed.coefficients[32 * item + i])
        if from_bits(weighed.share[32 * item + i]) > 0.0:
            add_parts(totals, place, f * f)
            add_parts(totals, place + 2, from_bits(weighed.roughness[32 * item + i]))
            add_to(totals, place + 4, where(f > least, 1, 0))
