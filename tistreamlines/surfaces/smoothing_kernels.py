"""The kernels of :mod:`.smoothing`, which loads a copy of this file, hence the whole name of a module."""

from tistreamlines.backends.numba.compiler import compiled

ROUNDS = 8  # in which a neighbourhood grows


@compiled
def falling(x):
    """Return exp(-x) for x >= 0 by sums and products, so that all processors agree; the error is below 1e-5."""
    x = min(x, 60.0) / 256.0
    value = 1.0 - x * (1.0 - x / 2.0 * (1.0 - x / 3.0 * (1.0 - x / 4.0 * (1.0 - x / 5.0))))
    for _ in range(8):
        value *= value
    return value


@compiled
def neighbourhood(vertex, incident, adjacent, seen, queue):
    """List the triangles up to ROUNDS edges away from those of a vertex; ``seen`` says which vertex met each last."""
    count = 0
    for place in range(incident[0][vertex], incident[0][vertex + 1]):
        queue[count] = incident[1][place]
        seen[queue[count]] = vertex
        count += 1
    first = 0
    for _ in range(ROUNDS):
        last = count
        for item in range(first, last):
            triangle = queue[item]
            for place in range(adjacent[0][triangle], adjacent[0][triangle + 1]):
                other = adjacent[1][place]
                if seen[other] != vertex:
                    seen[other] = vertex
                    queue[count] = other
                    count += 1
        first = last
    return count


@compiled
def way_to(centres, triangle, vertices, vertex):
    """Return the way from a vertex to the centre of a triangle."""
    return (
        centres[triangle, 0] - vertices[vertex, 0],
        centres[triangle, 1] - vertices[vertex, 1],
        centres[triangle, 2] - vertices[vertex, 2],
    )


@compiled
def move(vertices, vertex, total, x, y, z, out):
    """Move a vertex by the mean of ways whose weighted sum is x, y, z, and whose weights sum to ``total``."""
    scale = 1.0 / total if total > 0.0 else 0.0
    out[vertex, 0] = vertices[vertex, 0] + scale * x
    out[vertex, 1] = vertices[vertex, 1] + scale * y
    out[vertex, 2] = vertices[vertex, 2] + scale * z


@compiled
def mean_centres(vertices, centres, areas, graph, sharpness, out):
    """Move each vertex to the mean of the centres of triangles near it; ``sharpness`` is of the weight, 1/mm^2."""
    incident, adjacent, seen, queue = graph
    for vertex in range(vertices.shape[0]):
        count = neighbourhood(vertex, incident, adjacent, seen, queue)
        total = x = y = z = 0.0
        for item in range(count):
            triangle = queue[item]
            dx, dy, dz = way_to(centres, triangle, vertices, vertex)
            weight = areas[triangle] * falling(sharpness * (dx * dx + dy * dy + dz * dz))
            total += weight
            x += weight * dx
            y += weight * dy
            z += weight * dz
        move(vertices, vertex, total, x, y, z, out)


@compiled
def mean_predictions(vertices, centres, areas, normals, graph, sharpness, out):
    """Move each vertex to the mean of where the planes of triangles near it predict it.

    ``sharpness`` is that of the weight by distance, and of that by how far a plane is, 1/mm^2.
    """
    incident, adjacent, seen, queue = graph
    for vertex in range(vertices.shape[0]):
        count = neighbourhood(vertex, incident, adjacent, seen, queue)
        total = x = y = z = 0.0
        for item in range(count):
            triangle = queue[item]
            dx, dy, dz = way_to(centres, triangle, vertices, vertex)
            height = dx * normals[triangle, 0] + dy * normals[triangle, 1] + dz * normals[triangle, 2]
            near = sharpness[0] * (dx * dx + dy * dy + dz * dz) + sharpness[1] * (height * height)
            weight = areas[triangle] * falling(near)
            total += weight
            x += weight * height * normals[triangle, 0]
            y += weight * height * normals[triangle, 1]
            z += weight * height * normals[triangle, 2]
        move(vertices, vertex, total, x, y, z, out)
