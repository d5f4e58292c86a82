"""Common parts of getters: the state of a half, codes of steps, reading at a point, steps along vertices."""

from ...linker.lang import *
from ...linker.maths import floored, reciprocal_root
from ...linker.rng import PARTICLE, philox
from ..halves import *
from ..interpolate import Volume, interpolate_row, prefetch_row
from ..lanes import interpolate_stop, normalised
from ..orientation.peaks import NONE, direction
from ..orientation.pmf import toward


# Getters whose steps go in any direction carry the heading of a half.
class Heading(Record):
    """The state of a half: the direction of its last step, or its initial direction."""

    d: vec3


class InitialDirection(Record):
    """Team memory of the initial direction."""

    kept: Ints

    @staticmethod
    def sizes(getter):
        return {"kept": 1}


class HeadingScratch(Record):
    """Team memory."""

    row: Reals
    peaks: InitialDirection

    @staticmethod
    def sizes(getter):
        return {"row": 32 * getter.row.row_chunks}


@stage
def load_heading(state: Heading, scratch: HeadingScratch, code: i32, held: Reals, place: i32, stride: i32):
    """Restore the direction of the last step."""
    state.d = vec3(held[place], held[place + stride], held[place + 2 * stride])


@stage
def store_heading(state: Heading, scratch: HeadingScratch, held: Reals, place: i32, stride: i32):
    """Store the direction of the last step."""
    for i in each(3):
        held[place + stride * i] = where(i == 0, state.d[0], where(i == 1, state.d[1], state.d[2]))


# Codes of directions: points of a grid on the octahedron around the sphere (Meyer et al. 2010), to within 1.3e-4 radians.
# The octahedron unfolds into a plane, where a point has two coordinates of HALF bits.
HALF = 15  # bits of a coordinate on the octahedron
EDGE = 16383  # its greatest value: the grid has a point on each axis, and is the same in opposite directions
SPACING = 1 / 16383


@func
def fold_half(x: real, y: real) -> real:
    """First coordinate of a point of the octahedron's lower half, folded outwards into the plane, or back."""
    return where(x < 0.0, absolute(y) - 1.0, 1.0 - absolute(y))


@func
def encode_direction(d: vec3) -> i32:
    """Code of a direction."""
    scale = reciprocal_root((absolute(d[0]) + absolute(d[1])) + absolute(d[2]))
    x = d[0] * (scale * scale)
    y = d[1] * (scale * scale)
    i = i32(floored(real(EDGE) * where(d[2] < 0.0, fold_half(x, y), x) + 0.5)) + EDGE
    j = i32(floored(real(EDGE) * where(d[2] < 0.0, fold_half(y, x), y) + 0.5)) + EDGE
    return (minimum(maximum(i, 0), 2 * EDGE) << HALF) | minimum(maximum(j, 0), 2 * EDGE)


@func
def decode_direction(code: i32) -> vec3:
    """Direction of a code."""
    x = real((code >> HALF) - EDGE) * SPACING
    y = real((code & ((1 << HALF) - 1)) - EDGE) * SPACING
    z = (1.0 - absolute(x)) - absolute(y)
    return normalised(vec3(where(z < 0.0, fold_half(x, y), x), where(z < 0.0, fold_half(y, x), y), z))


@func
def encode_directions(item: i32, directions: Reals, codes: Ints):
    """Codes of given directions, whose x, y and z follow each other."""
    codes[item] = encode_direction(vec3(directions[3 * item], directions[3 * item + 1], directions[3 * item + 2]))


# Codes of steps that are drawn again from them: the number of the try that was accepted, and what a recovery drew it with.
# A recovery adds to the third word of the random numbers' counter, so that steps that are taken again draw other numbers.
@func
def counter_offset(c2: u32) -> i32:
    """The amount that a recovery has added to the third word of the counter."""
    return i32(c2 >> u32(PARTICLE))


@func
def try_code(number: i32, bits: i32, c2: u32) -> i32:
    """Code of the try with this number, which has so many bits, drawn with this third word of the counter."""
    return number | (counter_offset(c2) << bits)


@func
def try_number(code: i32, bits: i32) -> u32:
    """Number of the try."""
    return u32(code & ((1 << bits) - 1))


@func
def recovery_of(code: i32, bits: i32) -> i32:
    """The amount that a recovery had added when the try was drawn."""
    return code >> bits


@func
def counter_of_try(code: i32, bits: i32, c2: u32) -> u32:
    """The third word of the counter with which the try was drawn."""
    return (c2 & u32((1 << PARTICLE) - 1)) | (u32(recovery_of(code, bits)) << u32(PARTICLE))


@func
def draw_alone(c0: u32, c1: u32, c2: u32, number: u32, key: Ints) -> words:
    """Random words of one try; where c0 is a lane value, of one in each lane."""
    none = c0 & u32(0)
    return philox(c0, c1 | none, c2 | none, number, u32(key[0]), u32(key[1]))


# Values from the voxels' rows at a point, read before the stopping rule is asked.
@func
def read_row(volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch):
    """Interpolate all channels of the row."""
    interpolate_row(volume, p, scratch.row)


@func
def read_stop(volume: Volume, p: vec3, code: i32, method: Method, scratch: Scratch):
    """Interpolate the channels of the stopping rule alone."""
    interpolate_stop(volume, p, scratch.row)


# Steps along vertices of the sphere: the code of a step is its direction, and the next step starts from that.  Getters
# that step differently have parts of their own instead of these.
read_all = Hole("reads the whole orientation function at a point")
initial_directions = Hole("the getter's peaks at a seed")
next_direction = Hole("the getter's choice of a direction")
pick = Hole("stage: the getter's choice of a vertex in the cone; NONE if no sample counts")


class Vertex(Record):
    """The state of a half beside the code of its last direction, or of its first one: nothing."""


@func
def begin_by_row(volume: Volume, p: vec3, method: Method, scratch: Scratch, c0: u32, key: Ints) -> i32:
    """Find the initial directions at a point; return their number (``scratch.peaks.kept`` lists the vertices)."""
    read_all(volume, p, method, scratch)
    return initial_directions(method, scratch)


@func
def read_whole_row(volume: Volume, p: vec3, method: Method, scratch: Scratch):
    """Interpolate all channels of the row into the team's memory."""
    interpolate_row(volume, p, scratch.row)


@stage
def set_out_along(position: Position, side: i32, first: i32, run: Run) -> i32:
    """Start along the initial direction, a backward half opposite to the forward half's first step if there is one."""
    return where(first == NONE, position.code, first) ^ side


@func
def choose_direction(position: Position, run: Run) -> i32:
    """Code of the next direction at the point whose row is in the scratch; NONE, or AGAIN for another draw."""
    return next_direction(run.method, run.scratch, direction(run.method.sphere, position.code), position.attempt, position.c0, position.c1, position.c2, run.rules.key)


@stage
def choose_in_cone(position: Position, run: Run) -> i32:
    """The same of getters that need only the samples within the greatest angle to the last direction."""
    barrier()
    number = pick(run.volume, position.p, position.code, run.method, run.scratch, position.c0, position.c1, position.c2, run.rules.key)
    return toward(run.method.sphere, number, direction(run.method.sphere, position.code))


@stage
def move_along(position: Position, run: Run) -> vec3:
    """The point one step on in a coded direction."""
    return step_from(position.p, direction(run.method.sphere, position.code), run.rules)


@stage
def prefetch_along(p: vec3, code: i32, volume: Volume, method: Method, rules: Rules):
    """Ask caches for the rows around the point that a step straight on would lead to, since most steps lead close to it."""
    prefetch_row(volume, step_from(p, direction(method.sphere, code), rules))
