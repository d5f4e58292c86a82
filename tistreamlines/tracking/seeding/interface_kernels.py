"""The kernels of :mod:`.interface`, which loads a copy of this file, hence the whole name of a module.

Points are in RASmm; ``tissues`` are cortical and deep grey matter, white matter, fluid and pathology, ``to_voxel``
leads from RASmm to their voxels, and ``longest`` is the longest step, half the shortest side of a voxel. ``excess`` is
grey minus white matter, and a point is ``known`` where the tissues add up to at least a half.
"""

import math

from tistreamlines.backends.numba.compiler import compiled

NEAR = 0.01  # greatest difference of grey and white matter at the interface
MOST_STEPS = 10
LEAST_SUM = 0.5
GROWTH = 1.5  # of each step from just inside the white matter to the grey matter
FLAT = 1e-12  # 1/mm^2, square of a gradient that only rounding makes differ from 0


@compiled
def coordinate(to_voxel, axis, x, y, z, size):
    """The voxels between which a point lies along an axis, its share of the way, and whether it is in the image.

    Beyond the centres of the outermost voxels, both are the outermost one.
    """
    place = to_voxel[axis, 0] * x + to_voxel[axis, 1] * y + to_voxel[axis, 2] * z + to_voxel[axis, 3]
    inside = -0.5 <= place <= size - 0.5
    low = int(min(max(place, 0.0), size - 1.0)) if inside else 0
    high = low + 1 if 0.0 <= place < size - 1.0 else low
    return low, high, place - low if high > low else 0.0, inside


@compiled
def tissues_at(tissues, to_voxel, x, y, z):
    """The five tissues at a point, trilinear; 0 outside the image."""
    low_i, high_i, i, inside_i = coordinate(to_voxel, 0, x, y, z, tissues.shape[0])
    low_j, high_j, j, inside_j = coordinate(to_voxel, 1, x, y, z, tissues.shape[1])
    low_k, high_k, k, inside_k = coordinate(to_voxel, 2, x, y, z, tissues.shape[2])
    cortex = nuclei = white = fluid = pathology = 0.0
    if inside_i and inside_j and inside_k:
        for a in range(2):
            at_i, share_i = (high_i, i) if a else (low_i, 1.0 - i)
            for b in range(2):
                at_j, share_j = (high_j, j) if b else (low_j, 1.0 - j)
                for c in range(2):
                    at_k, share_k = (high_k, k) if c else (low_k, 1.0 - k)
                    share = share_i * share_j * share_k
                    cortex += share * tissues[at_i, at_j, at_k, 0]
                    nuclei += share * tissues[at_i, at_j, at_k, 1]
                    white += share * tissues[at_i, at_j, at_k, 2]
                    fluid += share * tissues[at_i, at_j, at_k, 3]
                    pathology += share * tissues[at_i, at_j, at_k, 4]
    return cortex, nuclei, white, fluid, pathology


@compiled
def excess_at(tissues, to_voxel, x, y, z):
    """The excess at a point, its gradient, 1/mm, and whether the point is known."""
    low_i, high_i, i, inside_i = coordinate(to_voxel, 0, x, y, z, tissues.shape[0])
    low_j, high_j, j, inside_j = coordinate(to_voxel, 1, x, y, z, tissues.shape[1])
    low_k, high_k, k, inside_k = coordinate(to_voxel, 2, x, y, z, tissues.shape[2])
    excess = total = along_i = along_j = along_k = 0.0
    if inside_i and inside_j and inside_k:
        for a in range(2):
            at_i, share_i, sign_i = (high_i, i, 1.0) if a else (low_i, 1.0 - i, -1.0)
            for b in range(2):
                at_j, share_j, sign_j = (high_j, j, 1.0) if b else (low_j, 1.0 - j, -1.0)
                for c in range(2):
                    at_k, share_k, sign_k = (high_k, k, 1.0) if c else (low_k, 1.0 - k, -1.0)
                    grey = float(tissues[at_i, at_j, at_k, 0]) + float(tissues[at_i, at_j, at_k, 1])
                    white = float(tissues[at_i, at_j, at_k, 2])
                    rest = float(tissues[at_i, at_j, at_k, 3]) + float(tissues[at_i, at_j, at_k, 4])
                    value = grey - white
                    excess += share_i * share_j * share_k * value
                    total += share_i * share_j * share_k * (grey + white + rest)
                    along_i += sign_i * share_j * share_k * value
                    along_j += share_i * sign_j * share_k * value
                    along_k += share_i * share_j * sign_k * value
    along_x = to_voxel[0, 0] * along_i + to_voxel[1, 0] * along_j + to_voxel[2, 0] * along_k
    along_y = to_voxel[0, 1] * along_i + to_voxel[1, 1] * along_j + to_voxel[2, 1] * along_k
    along_z = to_voxel[0, 2] * along_i + to_voxel[1, 2] * along_j + to_voxel[2, 2] * along_k
    return excess, along_x, along_y, along_z, total >= LEAST_SUM


@compiled
def step_by(excess, along_x, along_y, along_z, known, longest):
    """The step along the gradient to where the excess would be 0, and its length; 0 where there is none."""
    square = along_x * along_x + along_y * along_y + along_z * along_z
    share = -excess / square if known and square > FLAT else 0.0
    length = abs(share) * math.sqrt(square)
    if length > longest:
        share, length = share * (longest / length), longest
    return share * along_x, share * along_y, share * along_z, length


@compiled
def interface_near(tissues, to_voxel, longest, x, y, z):
    """The point of the interface, just on the grey side, that a descent leads to, and whether there is one."""
    excess, along_x, along_y, along_z, known = excess_at(tissues, to_voxel, x, y, z)
    steps, going = 0, True
    while going:
        step_x, step_y, step_z, length = step_by(excess, along_x, along_y, along_z, known, longest)
        x, y, z, steps = x + step_x, y + step_y, z + step_z, steps + 1
        excess, along_x, along_y, along_z, known = excess_at(tissues, to_voxel, x, y, z)
        going = known and length > 0.0 and abs(excess) > NEAR and steps < MOST_STEPS
    success = known and abs(excess) <= NEAR
    if success:
        cortex, nuclei, white, fluid, pathology = tissues_at(tissues, to_voxel, x, y, z)
        most = max(cortex, nuclei, white)
        success = white > 0.0 and fluid < max(most, pathology) and (pathology < most or pathology <= fluid)
    if not success or excess >= 0.0:
        return x, y, z, success
    step_x, step_y, step_z, length = step_by(excess, along_x, along_y, along_z, known, longest)
    success, going = False, length > 0.0
    while going:
        step_x, step_y, step_z, length = GROWTH * step_x, GROWTH * step_y, GROWTH * step_z, GROWTH * length
        x, y, z = x + step_x, y + step_y, z + step_z
        excess, _, _, _, known = excess_at(tissues, to_voxel, x, y, z)
        success = known and 0.0 <= excess < NEAR
        going = not success and length < longest
    return x, y, z, success


@compiled
def shift_point(tissues, to_voxel, x, y, z, across, up):
    """A point moved in the plane of the interface, by ``across`` and ``up`` mm along two axes of the plane."""
    _, a, b, c, _ = excess_at(tissues, to_voxel, x, y, z)
    length = math.sqrt(a * a + b * b + c * c)
    if length == 0.0:
        return x, y, z
    a, b, c = a / length, b / length, c / length
    across_x, across_y, across_z = b, -a, 0.0  # at right angles to z
    length = math.sqrt(a * a + b * b)
    if length == 0.0:  # the normal is along z
        across_x, across_y, across_z, length = -c, 0.0, a, abs(c)
    across_x, across_y, across_z = across_x / length, across_y / length, across_z / length
    up_x, up_y, up_z = b * across_z - c * across_y, c * across_x - a * across_z, a * across_y - b * across_x
    return x + across * across_x + up * up_x, y + across * across_y + up * up_y, z + across * across_z + up * up_z


@compiled
def find_seeds(tissues, to_voxel, longest, points, shifts, success):
    """Move each point to the interface, along that by its shift, and to the interface again."""
    for n in range(points.shape[0]):
        x, y, z, there = interface_near(tissues, to_voxel, longest, points[n, 0], points[n, 1], points[n, 2])
        if there:
            x, y, z = shift_point(tissues, to_voxel, x, y, z, shifts[n, 0], shifts[n, 1])
            x, y, z, there = interface_near(tissues, to_voxel, longest, x, y, z)
        points[n, 0], points[n, 1], points[n, 2] = x, y, z
        success[n] = there


@compiled
def move_seeds(tissues, to_voxel, longest, points, success):
    """Move each point with more grey than white matter to the interface; one with more fluid than both is not found."""
    for n in range(points.shape[0]):
        x, y, z = points[n, 0], points[n, 1], points[n, 2]
        cortex, nuclei, white, fluid, _ = tissues_at(tissues, to_voxel, x, y, z)
        there = fluid <= white + cortex + nuclei
        if there and white <= cortex + nuclei:
            x, y, z, there = interface_near(tissues, to_voxel, longest, x, y, z)
        points[n, 0], points[n, 1], points[n, 2] = x, y, z
        success[n] = there
