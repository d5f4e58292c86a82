"""Peaks of an ODF sampled on a sphere (DIPY's ``peak_directions``) and the choice of the closest one.

A local maximum is not below any neighbour, so each vertex is first compared with three neighbours that surround it.
Only the few vertices that pass are compared with all.
"""

from ...linker.lang import *

VERTEX_CHUNKS = Constant("number of the sphere's vertices, rounded up, in units of 32")
CANDIDATES = Constant("maximum number of local maxima, far more than an ODF has")
NEIGHBOURS = Constant("maximum number of neighbours of a vertex")
AROUND_BITS = Constant("bits of a neighbour's number in a word of ``around``, 30 // AROUND_BITS to a word")
SYMMETRIC = Constant("1: the sphere is a hemisphere, and a direction stands for its opposite too")
NEGATIVE_PEAK = Constant("1: an ODF without a positive sample has one peak, vertex 0, as in DIPY 1.12; 0: it has none")
NONE = -1
AGAIN = -2
LEAVES = -3  # where a getter finds that a step would leave the image


class Sphere(Record):
    """Sampled directions: vertices as x..., y..., z... of VERTEX_CHUNKS * 32 each, neighbours likewise by rank.

    Neighbours come two to a word, the first in its low half; the last of an odd number has a word to itself.  A vertex
    with fewer neighbours repeats one; a padding vertex is its own neighbour, so it is never a peak.  ``around`` has a word for
    each vertex, with the neighbours that are spread most evenly around it: three, or two on a sphere of many vertices.
    """

    vertices: Reals
    neighbours: Ints
    around: Ints
    count: i32

    @staticmethod
    def sizes(part):
        vertices = 32 * part.ball.vertex_chunks
        pairs = -(-part.ball.neighbours // 2)
        return {"vertices": 3 * vertices, "neighbours": vertices * pairs, "around": vertices}


class PeakRule(Record):
    """Which local maxima are peaks."""

    relative_threshold: real
    cos_separation: real
    cos_angle: real


class PeakScratch(Record):
    """Team memory of the search: candidates (vertices, as reals), the peaks kept, and the number of candidates."""

    candidates: Reals
    kept: Ints
    counter: Ints

    @staticmethod
    def sizes(getter):
        return {"candidates": getter.candidates, "kept": getter.most_peaks, "counter": 1}


@func
def vertex(sphere: Sphere, i: i32) -> vec3:
    """Unit vector of a vertex."""
    return vec3(sphere.vertices[i], sphere.vertices[i + 32 * VERTEX_CHUNKS], sphere.vertices[i + 64 * VERTEX_CHUNKS])


@func
def vertices_from(sphere: Sphere, c: i32) -> vec3:
    """Unit vectors of 32 vertices, from number ``c`` on."""
    return vec3(at(sphere.vertices, c), at(sphere.vertices, c + 32 * VERTEX_CHUNKS), at(sphere.vertices, c + 64 * VERTEX_CHUNKS))


@func
def dot(a: vec3, b: vec3) -> real:
    """Scalar product."""
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


@func
def alike(a: vec3, b: vec3) -> real:
    """Cosine of the angle between two directions; on a hemisphere, of the smaller one between their axes."""
    cosine = dot(a, b)
    if SYMMETRIC:
        cosine = absolute(cosine)
    return cosine


@func
def near_maxima(odf: Reals, sphere: Sphere, base: real, threshold: real) -> i32:
    """Mark the vertices that reach the threshold above ``base`` and are not below those of ``sphere.around``.

    These are the local maxima and few others.  Bit k of lane l stands for vertex l + 32 k.
    """
    marks = lanes(0)
    for chunk in range(VERTEX_CHUNKS):
        value = at(odf, chunk * 32)
        word = at(sphere.around, chunk * 32)
        largest = take(odf, word & ((1 << AROUND_BITS) - 1))
        for k in unrolled(30 // AROUND_BITS - 1):
            largest = maximum(largest, take(odf, (word >> ((k + 1) * AROUND_BITS)) & ((1 << AROUND_BITS) - 1)))
        near = (value >= largest) & (value - base >= threshold) & (value >= 0.0)
        marks = marks | where(near, 1 << chunk, 0)
    last = 1 << (VERTEX_CHUNKS - 1)  # padding, which is not below itself, has no mark
    return where(lane() + 32 * (VERTEX_CHUNKS - 1) < sphere.count, marks, marks & (last - 1))


@func
def collect_maxima(odf: Reals, sphere: Sphere, rule: PeakRule, scratch: PeakScratch, low: real, high: real):
    """List the local maxima that reach the relative threshold.

    A local maximum is not below any neighbour and above at least one (DIPY's ``local_maxima``).
    """
    base = maximum(low, 0.0)
    barrier()
    marks = near_maxima(odf, sphere, base, rule.relative_threshold * (high - base))
    maxima = lanes(0)
    while team_any(marks != 0) == 1:
        # each lane looks at its first marked vertex, the number of which is in the exponent of a power of two
        lowest = marks & (0 - marks)
        i = lane() + 32 * maximum((bits(real(lowest)) >> 23) - 127, 0)
        value = take(odf, i)
        largest = lanes(-3.0e38)
        smallest = lanes(3.0e38)
        for pair in unrolled(NEIGHBOURS // 2):
            both = take(sphere.neighbours, pair * (32 * VERTEX_CHUNKS) + i)
            first = take(odf, both & 0xFFFF)
            other = take(odf, both >> 16)
            largest = maximum(largest, maximum(first, other))
            smallest = minimum(smallest, minimum(first, other))
        if NEIGHBOURS % 2 == 1:
            last = take(odf, take(sphere.neighbours, (NEIGHBOURS // 2) * (32 * VERTEX_CHUNKS) + i))
            largest = maximum(largest, last)
            smallest = minimum(smallest, last)
        maxima = maxima | where((value >= largest) & (value > smallest), lowest, 0)
        marks = marks ^ lowest
    collect(scratch.candidates, scratch.counter, maxima, CANDIDATES)
    barrier()


@func
def best_candidate(odf: Reals, scratch: PeakScratch, count: i32) -> i32:
    """Largest remaining candidate, the lowest vertex among equals; NONE if none remains."""
    best = NONE
    best_value = -1.0
    for i in range(count):
        candidate = i32(scratch.candidates[i])
        if candidate >= 0:
            value = odf[candidate]
            better = value > best_value
            if value == best_value:
                better = candidate < best
            if better:
                best = candidate
                best_value = value
    return best


@func
def keep_separated(odf: Reals, sphere: Sphere, rule: PeakRule, scratch: PeakScratch) -> i32:
    """Keep the candidates in descending order without those too close to a larger one; return their number.

    DIPY's ``remove_similar_vertices``.
    """
    count = scratch.counter[0]
    kept = 0
    best = best_candidate(odf, scratch, count)
    while best >= 0:
        scratch.kept[kept] = best
        kept = kept + 1
        if count > 1:
            d = vertex(sphere, best)
            barrier()
            for i in each(count):
                candidate = i32(scratch.candidates[i])
                if candidate >= 0:
                    if (candidate == best) | (alike(vertex(sphere, maximum(candidate, 0)), d) > rule.cos_separation):
                        scratch.candidates[i] = -1.0
            barrier()
            best = best_candidate(odf, scratch, count)
        else:
            best = NONE
    return kept


@func
def find_peaks(odf: Reals, sphere: Sphere, rule: PeakRule, scratch: PeakScratch, low: real, high: real) -> i32:
    """Find the peaks of an ODF whose least and greatest samples are known; ``kept`` lists them, largest first.

    DIPY 1.12 sorts a list of values padded with zeros, so a zero for vertex 0 precedes values that are all negative.
    """
    count = 0
    if high >= 0.0:
        collect_maxima(odf, sphere, rule, scratch, low, high)
        count = keep_separated(odf, sphere, rule, scratch)
    elif NEGATIVE_PEAK:
        if high > low:
            scratch.kept[0] = 0
            count = 1
    return count


@func
def closest_peak(sphere: Sphere, rule: PeakRule, scratch: PeakScratch, count: i32, heading: vec3) -> i32:
    """Code of the peak closest to the heading, or NONE if none is within the angle (DIPY's ``closest_peak``).

    A code is twice the vertex, plus one where the direction is the opposite of the vertex.
    """
    code = NONE
    best = 0.0
    for i in range(count):
        candidate = scratch.kept[i]
        cosine = dot(vertex(sphere, candidate), heading)
        size = cosine
        if SYMMETRIC:
            size = absolute(cosine)
        if size > best:
            best = size
            code = 2 * candidate + where(cosine < 0.0, 1, 0)
    if best < rule.cos_angle:
        code = NONE
    return code


@func
def direction(sphere: Sphere, code: i32) -> vec3:
    """Unit vector of a direction code."""
    d = vertex(sphere, code >> 1)
    sign = where((code & 1) == 1, -1.0, 1.0)
    return vec3(sign * d[0], sign * d[1], sign * d[2])
