"""Where codes of steps lie: each has a place of its own within the array, and on a CPU first steps share few pages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from linked import Linked, layout_along_vertices

from tistreamlines.backends.numba.program import NumbaProgram, QueuedProgram
from tistreamlines.kernels.halves import HALVES_A_PAGE, IN_A_ROW, Rules, code_place
from tistreamlines.linker.lang import Ints, func, i32
from tistreamlines.linker.parts import Source
from tistreamlines.linker.records import INTS
from tistreamlines.space.sphere import round_up


@func
def write_places(item: i32, rules: Rules, out: Ints):
    """Write the place of each step of a half."""
    for step in range(rules.max_steps):
        out[item * rules.max_steps + step] = code_place(item, step, rules)


def places(paged: int, halves: int, max_steps: int) -> np.ndarray:
    out = np.zeros(halves * max_steps, np.int32)
    program = NumbaProgram(Source([write_places], [Linked(paged=paged)]), threads=1)
    program.run("write_places", halves, {"rules_max_steps": max_steps, "out": out})
    return out.reshape(halves, max_steps)


@pytest.mark.parametrize("max_steps", [1, 63, 64, 65, 500])
@pytest.mark.parametrize("streamlines", [1, 8, 9, 100])
@pytest.mark.parametrize("paged", [0, 1])
def test_each_code_has_a_place_of_its_own(paged, streamlines, max_steps):
    pages = places(paged, 2 * streamlines, max_steps)
    layout = replace(layout_along_vertices(most_directions=2), paged=paged)
    size = round_up(streamlines, layout.together) * layout.of_streamline(max_steps)["halves_codes"][1]
    assert len(np.unique(pages)) == pages.size
    assert pages.min() >= 0 and pages.max() < size


def test_first_steps_of_neighbours_share_a_page():
    pages = places(1, 4 * HALVES_A_PAGE, 500)
    page = 4 * pages // 4096
    first = page[:, :IN_A_ROW].reshape(4, -1)
    assert (first == first[:, :1]).all() and len(np.unique(first)) == 4
    assert (np.diff(pages[:, :IN_A_ROW]) == 1).all()


def test_arrays_for_kernels_begin_with_zeros():
    program = QueuedProgram(Source([write_places], [Linked(paged=1)]), queued={})
    for size in (0, 1, 5_000_000):
        array = program.empty(size, INTS)
        assert array.dtype == np.int32 and len(array) == max(size, 1) and not array.any()
        array[:] = 7
    with pytest.raises(MemoryError):
        program.empty(2**62, INTS)
