"""To which node of a parcellation an end of a streamline belongs: three rules of MRtrix3's tck2connectome.

The kernels run on the host with reals of 64 bits, as tck2connectome does, so that the same voxel is the nearest one.
"""

from ...linker.lang import *
from .density import HIGH, LOW, Grid
from .points import Affine, transform_point


class Parcels(Grid):
    """A parcellation: from RASmm to voxels, whose centres are whole numbers; ``back``; and ``nodes``, below 1 where there is none.

    There, -k - 1 says that the first of the voxels of a ``NodeSearch`` that has a node is voxel k; 0, that nobody has looked yet.
    """

    back: Affine
    nodes: Ints


class NodeSearch(Record):
    """Voxels around the one that holds an end: ``offsets``, x y z in turn, from near to far; for each, the distance between the
    centres of both, squared (``beyond``, mm^2); how many there are; and within how many mm a node is looked for.
    """

    offsets: Ints
    beyond: Reals
    count: i32
    radius: real


@func
def nearest(c: real) -> i32:
    """The voxel of a coordinate; the border between two belongs to the one that is farther from 0."""
    inside = minimum(maximum(c, LOW), HIGH)
    return i32(where(inside < 0.0, -floor(0.5 - inside), floor(inside + 0.5)))


@func
def node_in(x: i32, y: i32, z: i32, parcels: Parcels) -> i32:
    """The node of a voxel, 0 outside the image."""
    node = 0
    if (x >= 0) & (x < parcels.across) & (y >= 0) & (y < parcels.deep) & (z >= 0) & (z < parcels.high):
        node = maximum(parcels.nodes[(x * parcels.deep + y) * parcels.high + z], 0)
    return node


@func
def node_of(p: vec3, parcels: Parcels) -> i32:
    """The node of the voxel that holds a point in RASmm."""
    c = transform_point(p, parcels)
    return node_in(nearest(c[0]), nearest(c[1]), nearest(c[2]), parcels)


@func
def squared_distance(p: vec3, x: i32, y: i32, z: i32, parcels: Parcels) -> real:
    """From a point in RASmm to the centre of a voxel, mm^2."""
    centre = transform_point(vec3(real(x), real(y), real(z)), parcels.back)
    across = p[0] - centre[0]
    deep = p[1] - centre[1]
    high = p[2] - centre[2]
    return (across * across + deep * deep) + high * high


@func
def end_of(item: i32, ends: Ints, width: i32) -> vec3:
    """An end, in RASmm: the first one of streamline ``item / 2`` or, of an odd item, its last one.

    ``ends`` has ``width`` whole numbers for each streamline, which begin with the bits of both points.
    """
    place = width * (item >> 1) + 3 * (item & 1)
    return vec3(real(from_bits(ends[place])), real(from_bits(ends[place + 1])), real(from_bits(ends[place + 2])))


@func
def first_with_node(x: i32, y: i32, z: i32, parcels: Parcels, search: NodeSearch) -> i32:
    """The first of the voxels around a voxel, from near to far, that has a node; the image keeps it for other ends."""
    inside = (x >= 0) & (x < parcels.across) & (y >= 0) & (y < parcels.deep) & (z >= 0) & (z < parcels.high)
    place = where(inside, (x * parcels.deep + y) * parcels.high + z, 0)
    known = where(inside, parcels.nodes[place], 0)
    k = maximum(-known - 1, 0)
    if known == 0:
        looking = 1
        while (k < search.count) & (looking == 1):
            other = node_in(
                x + search.offsets[3 * k], y + search.offsets[3 * k + 1], z + search.offsets[3 * k + 2], parcels
            )
            looking = where(other > 0, 0, 1)
            k = k + looking
        if inside:
            parcels.nodes[place] = -k - 1
    return k


@func
def nearest_node(item: i32, ends: Ints, width: i32, parcels: Parcels, search: NodeSearch, nodes: Ints):
    """Find the node whose voxel has its centre nearest to an end, and nearer than the radius."""
    p = end_of(item, ends, width)
    c = transform_point(p, parcels)
    here_x = nearest(c[0])
    here_y = nearest(c[1])
    here_z = nearest(c[2])
    here = squared_distance(p, here_x, here_y, here_z, parcels)
    least = search.radius * search.radius
    node = 0
    k = first_with_node(here_x, here_y, here_z, parcels, search)
    while k < search.count:
        # The distance between the centres of two voxels is at most the sum of their distances from the end, and the
        # square of a sum is at most twice the sum of the squares. So no centre from here on is nearer than the node.
        if search.beyond[k] > 2.0 * (here + least):
            k = search.count
        else:
            x = here_x + search.offsets[3 * k]
            y = here_y + search.offsets[3 * k + 1]
            z = here_z + search.offsets[3 * k + 2]
            other = node_in(x, y, z, parcels)
            if other > 0:
                far = squared_distance(p, x, y, z, parcels)
                if far < least:
                    least = far
                    node = other
            k = k + 1
    nodes[item] = node


@func
def node_at_end(item: i32, ends: Ints, width: i32, parcels: Parcels, nodes: Ints):
    """Find the node of the voxel that holds an end."""
    nodes[item] = node_of(end_of(item, ends, width), parcels)


@func
def node_along(item: i32, points: Reals, offsets: Ints, steps: Reals, parcels: Parcels, radius: real, nodes: Ints):
    """Find the first node on the way from an end of a streamline to its middle, at most the radius (if any) away from it.

    ``steps`` has the distance of each point from the next one, mm.
    """
    first = offsets[item >> 1]
    count = offsets[(item >> 1) + 1] - first
    last = item & 1
    k = where(last == 1, count - 1, 0)
    left = where(last == 1, count - 1 - (count >> 1), (count + 1) >> 1)
    node = 0
    far = real(0)
    while left > 0:
        place = 3 * (first + k)
        node = node_of(vec3(points[place], points[place + 1], points[place + 2]), parcels)
        far = far + steps[first + k - last]
        k = k + 1 - 2 * last
        left = left - 1
        left = where(node > 0, 0, left)
        left = where((radius > 0.0) & (far > radius), 0, left)
    nodes[item] = node
