"""Operations of a team of 32 threads on a GPU: the text at the beginning of every Taichi module."""

from __future__ import annotations

import re

WIDE_KIND = "wide warp"  # a warp whose reals have 64 bits

HEADER = '''"""Made by tistreamlines from its kernel language; see tistreamlines/linker/link.py."""
import taichi as ti

SharedArray = ti.simt.block.SharedArray
REALS = ti.types.ndarray(dtype=ti.f32, ndim=1)
INTS = ti.types.ndarray(dtype=ti.i32, ndim=1)


@ti.func
def _guard(x, zero):
    # not an exclusive or: two of them undo each other, and a compiler may bring them together (x * 1.0)
    return ti.bit_cast(ti.bit_cast(x, ti.i32) | zero, ti.f32)


class Slice(SharedArray):
    """A team's part of an array in the block's shared memory."""

    _is_wrapped_kernel = True  # else compilers warn of a class that is not their own

    def __init__(self, whole, start):
        self.whole, self.start, self.shape, self.dtype = whole, start, whole.shape, whole.dtype

    def subscript(self, *indices):
        return self.whole.subscript(self.start + indices[0])

'''

TRANSFERS = '''"""Copies between the host and the device."""
import taichi as ti

ARRAY = ti.types.ndarray(ndim=1)


@ti.kernel
def copy(n: ti.i32, values: ARRAY, out: ARRAY):
    for i in range(n):
        out[i] = values[i]
'''

# For devices without 64-bit integers.
HALVES = '''
@ti.func
def _high_word(a, b):
    low = ti.u32(0xFFFF)
    half = ti.u32(16)
    first = (a >> half) * (b & low) + (((a & low) * (b & low)) >> half)
    second = (a & low) * (b >> half) + (first & low)
    return (a >> half) * (b >> half) + (first >> half) + (second >> half)

'''
# Team operations, as :func:`operations` completes them.  Minima, maxima and sums of integers are not rounded, so any order gives the same bits.
SHARED_OPERATIONS = '''
def share(x):
    ti.simt.block.sync()
    _pool[_lane] = x
    ti.simt.block.sync()

def team_value(x, number):
    _share(x, _pool, _lane)
    r = _pool[number]  # read here: Taichi reads an element that is returned where the caller uses it
    return r

def team_min(x):
    _share(x, _pool, _lane)
    r = _pool[0]
    for l in range(1, 32):
        r = ti.min(r, _pool[l])
    return r

def raised(x, step):
    _share(x, _pool, _lane)
    return ti.select(_lane >= step, _pool[ti.max(_lane - step, 0)], 0.0)

def team_scan(n):
    _share(ti.cast(n, ti.f32), _pool, _lane)
    r = 0.0
    for l in range(_lane + 1):
        r = r + _pool[l]
    return ti.cast(r, ti.i32)

'''
WARP_REDUCTION = '''
def team_min(x):
    r = x
    for o in ti.static((16, 8, 4, 2, 1)):
        r = ti.min(r, ti.bit_cast(ti.simt.warp.shfl_xor_i32(ti.u32(0xFFFFFFFF), ti.bit_cast(r, ti.i32), o), ti.f32))
    return r

'''
WARP_VOTES = '''
def team_first(holds):
    flags = ti.simt.warp.ballot(ti.cast(holds, ti.i32))
    return ti.math.popcnt((flags & -flags) - 1)

def marks_before(marks):
    # one turn for each mark of the lane with most of them, which has hardly ever more than two
    number = 0
    rest = marks
    flags = ti.simt.warp.ballot(ti.cast(rest != 0, ti.i32))
    while flags != 0:
        number += ti.math.popcnt(flags & ((1 << _lane) - 1))
        rest = rest & (rest - 1)
        flags = ti.simt.warp.ballot(ti.cast(rest != 0, ti.i32))
    return number

'''
WARP_OPERATIONS = WARP_REDUCTION + WARP_REDUCTION.replace("min", "max") + WARP_VOTES
# Of reals of 64 bits, whose halves are exchanged.
WIDE_WARP = '''
@ti.func
def _joined(low, high):
    return ti.bit_cast((ti.cast(ti.bit_cast(high, ti.u32), ti.u64) << ti.u64(32)) | ti.cast(ti.bit_cast(low, ti.u32), ti.u64), ti.f64)

''' + "".join(f'''
@ti.func
def _{name}(x, number):
    word = ti.bit_cast(ti.cast(x, ti.f64), ti.u64)
    low = ti.simt.warp.{shuffle}(ti.u32(0xFFFFFFFF), ti.cast(word & ti.u64(0xFFFFFFFF), ti.i32), number)
    high = ti.simt.warp.{shuffle}(ti.u32(0xFFFFFFFF), ti.cast(word >> ti.u64(32), ti.i32), number)
    return _joined(low, high)

''' for name, shuffle in (("across", "shfl_xor_i32"), ("of_lane", "shfl_sync_i32"), ("below", "shfl_up_i32")))
WIDE_REDUCTION = '''
def team_min(x):
    r = ti.cast(x, ti.f64)
    for o in ti.static((16, 8, 4, 2, 1)):
        r = ti.min(r, _across(r, o))
    return r

'''
SUBGROUP_OPERATIONS = '''
@ti.func
def _subgroup_barrier():
    ti.simt.block.mem_sync()
    ti.simt.subgroup.barrier()
    ti.simt.block.mem_sync()

@ti.func
def _real(x):
    # Taichi forgets the type of what a subgroup operation returns; its bits know it
    return ti.bit_cast(ti.bit_cast(x, ti.i32), ti.f32)

def team_scan(n):
    return ti.simt.subgroup.inclusive_add(n)

'''
SCANNED_MARKS = '''
def marks_before(marks):
    number = ti.math.popcnt(marks)
    return _team_scan(number, _pool, _lane) - number

'''
# An atomic counter would be simpler, but on Vulkan it orders all memory accesses around it.
COLLECT = '''
def collect(items: ti.template(), count: ti.template(), marks, limit):
    place = _marks_before(marks, _pool, _lane)
    rest = marks
    while rest != 0:
        lowest = rest & (0 - rest)
        bit = (ti.bit_cast(ti.cast(lowest, ti.f32), ti.i32) >> 23) - 127
        if place < limit:
            items[place] = ti.cast(_lane + 32 * bit, ti.f32)
        place += 1
        rest = rest ^ lowest
    if _lane == 31:
        count[0] = ti.min(place, limit)

'''

# Operations that are a single expression. Taichi takes what a shuffle of reals returns for an integer.
TEAM_SPELL = {
    "warp": {
        "team_any": "ti.simt.warp.any_nonzero(ti.u32(0xFFFFFFFF), ti.cast({}, ti.i32))",
        "team_last": "(31 - ti.math.clz(ti.simt.warp.ballot(ti.cast({}, ti.i32))))",
        "team_value": "ti.bit_cast(ti.simt.warp.shfl_sync_i32(ti.u32(0xFFFFFFFF), ti.bit_cast({}, ti.i32), {}), ti.f32)",
        "raised": "ti.select(_lane >= {1}, ti.bit_cast(ti.simt.warp.shfl_up_i32("
        "ti.u32(0xFFFFFFFF), ti.bit_cast({0}, ti.i32), {1}), ti.f32), 0.0)",
    },
    "subgroup": {
        "team_min": "_real(ti.simt.subgroup.reduce_min({}))",
        "team_max": "_real(ti.simt.subgroup.reduce_max({}))",
        "team_any": "ti.simt.subgroup.reduce_max(ti.cast({}, ti.i32))",
        "team_first": "ti.simt.subgroup.reduce_min(ti.select({}, _lane, 32))",
        "team_last": "ti.simt.subgroup.reduce_max(ti.select({}, _lane, -1))",
        # a maximum, since Quadrants has no bitwise reductions
        "team_value": "_real(ti.simt.subgroup.reduce_max("
        "ti.select(_lane == {1}, ti.bit_cast({0}, ti.i32), ti.i32(-0x80000000))))",
        # lanes ask for different lanes, which a broadcast does not allow: ``vulkan.spirv`` replaces it by a shuffle
        "raised": "ti.select(_lane >= {1}, "
        "_real(ti.simt.subgroup.broadcast({0}, ti.cast(ti.max(_lane - {1}, 0), ti.u32))), 0.0)",
    },
    "block": {
        "team_max": "(-_team_min(-({}), _pool, _lane))",
        "team_any": "ti.select(_team_min(ti.cast(ti.select({}, 0, 1), ti.f32), _pool, _lane) < 1.0, 1, 0)",
        "team_first": "ti.cast(_team_min(ti.cast(ti.select({}, _lane, 32), ti.f32), _pool, _lane), ti.i32)",
        "team_last": "(-ti.cast(_team_min(ti.cast(ti.select({}, -_lane, 1), ti.f32), _pool, _lane), ti.i32))",
    },
}

TEAM_SPELL[WIDE_KIND] = TEAM_SPELL["warp"] | {
    "team_value": "_of_lane({}, {})", "raised": "ti.select(_lane >= {1}, _below({0}, {1}), ti.f64(0.0))",
}

BARRIERS = {
    "warp": "ti.simt.warp.sync(ti.u32(0xFFFFFFFF))",
    # Taichi's subgroup barrier orders no memory; the memory barrier beside it does
    "subgroup": "_subgroup_barrier()",
    "block": "ti.simt.block.sync()",
}
BARRIERS[WIDE_KIND] = BARRIERS["warp"]
OPERATIONS = {"warp": WARP_OPERATIONS, WIDE_KIND: WIDE_REDUCTION + WIDE_REDUCTION.replace("min", "max") + WARP_VOTES, "subgroup": SUBGROUP_OPERATIONS + SCANNED_MARKS, "block": SHARED_OPERATIONS + SCANNED_MARKS}


def operations(kind: str) -> str:
    """Return the functions of a kind of team. Each takes an array for values of all lanes and the lane's number besides."""
    parameters, flags = r"\n@ti.func\ndef _\1(\2, _pool: ti.template(), _lane):", re.MULTILINE
    text = re.sub(r"^def ([a-z]\w*)\((.*)\):", parameters, OPERATIONS[kind] + COLLECT, flags=flags)
    return (WIDE_WARP if kind == WIDE_KIND else "") + text


def team_kind(arch: str, subgroup: int | None) -> str:
    """Return what a team is: a warp, a subgroup of 32 threads, or, if subgroups have another size, a whole block.

    For AMD's devices, Quadrants makes wavefronts of 64 threads, also of those that can have 32: a team is a block there.
    """
    if arch == "cuda":
        return "warp"
    return "subgroup" if arch == "vulkan" and subgroup == 32 else "block"
