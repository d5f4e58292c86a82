"""The streamlines of a chunk: they begin at the initial directions of its seeds, and are judged when they have ended."""

from ..linker.lang import *
from ..linker.rng import SEEDING, STREAM, philox
from .halves import *
from .interpolate import Volume, inside
from .orientation.peaks import NONE
from .selection.regions import DISORDER, EXCLUDE, MISSED_INCLUDE, MORE, all_beyond, verdict_on
from .stop_reasons import EXCLUDED, GROWING, NOT_GROWN, OUT_OF_TURN, REJECTED, SEED_OUTSIDE_LIMIT

begin = Hole("the getter's initial directions at a seed; ``scratch.peaks.kept`` lists their codes, halved; its first number may be the code of a given direction before")
ONE_WAY = Constant("1: there are no backward halves, 2: forward halves take one of both senses at random, 0: both halves grow")


@func
def start(item: i32, seeds: Seeds, rules: Rules, volume: Volume, method: Method, scratch: Scratch):
    """Find the initial directions of seed ``item``."""
    p = vec3(seeds.points[3 * item], seeds.points[3 * item + 1], seeds.points[3 * item + 2])
    count = 0
    if inside(volume.shape, p) == 1:
        if DIRECTED:
            scratch.peaks.kept[0] = seeds.peaks[item * seeds.most]
            barrier()
        count = minimum(begin(volume, p, method, scratch, u32(item) + rules.first_seed, rules.key), seeds.most)
        for i in each(count):
            seeds.peaks[item * seeds.most + i] = 2 * scratch.peaks.kept[i]
    seeds.counts[item] = count


@func
def enlist(item: i32, slot: Ints, seeds: Seeds, halves: Halves, rules: Rules):
    """Create a streamline for each direction of seed ``item``, the first one with number ``slot[item]``."""
    for i in each(seeds.counts[item]):
        streamline = slot[item] + i
        halves.seed[streamline] = item
        halves.branch[streamline] = i
        initial = seeds.peaks[item * seeds.most + i]
        if ONE_WAY == 2:
            number = u32(item) + rules.first_seed
            w = philox(number, u32(0), u32(i + 1), u32(SEEDING << STREAM), u32(rules.key[0]), u32(rules.key[1]))
            initial = initial ^ i32(w[0] & u32(1))
        halves.initial[streamline] = initial
        if TAKES_BACK:
            halves.first[streamline] = NONE
        for side in range(2):
            half = 2 * streamline + side
            halves.state[2 * half] = 0
            halves.state[2 * half + 1] = GROWING
            if ONE_WAY:
                halves.state[2 * half + 1] = where(side == 1, NOT_GROWN, GROWING)
            if CROPS:
                halves.cropped[half] = 0
            if HAS_BITS:
                for k in range(WORDS):
                    halves.visited[WORDS * half + k] = 0
                if MORE:
                    for k in range(MORE + 1):
                        halves.more[(MORE + 1) * half + k] = 0
            for axis in range(3):
                halves.point[POINT * half + axis] = seeds.points[3 * item + axis]
            if FOR_RULE + FOR_RECOVERY:
                for k in range(FOR_RULE + FOR_RECOVERY):
                    halves.point[POINT * half + 3 + CARRIED + k] = 0.0


@func
def judge(item: i32, halves: Halves, filter: Filter, verdict: Ints):
    """Say of streamline ``item``, whose halves have ended, what the regions make of it."""
    a = WORDS * 2 * item
    b = a + WORDS
    visited = halves.visited[a] | halves.visited[b]
    answer = SEED_OUTSIDE_LIMIT
    if (visited & EXCLUDE) != 0:
        answer = where((visited & DISORDER) != 0, OUT_OF_TURN, EXCLUDED)
    elif (halves.state[4 * item + 1] != REJECTED) & (halves.state[4 * item + 3] != REJECTED):
        answer = verdict_on(filter, visited, halves.visited[a + 1], halves.visited[b + 1])
        if MORE:
            if all_beyond(filter, halves.more, (MORE + 1) * 2 * item, (MORE + 1) * (2 * item + 1)) == 0:
                answer = MISSED_INCLUDE
    verdict[item] = answer
