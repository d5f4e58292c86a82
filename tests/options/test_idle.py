"""No option is without effect in silence: it changes a run, or is refused in one line."""

from __future__ import annotations

import idle
import pytest

from tistreamlines.options.definitions import options

# a quarter of them, for time; the class fuzz-idle of tests.attack tries all
KINDS = (*tuple(idle.kinds())[::6], "det of peaks, a surface")


def test_every_option_has_a_value(tmp_path):
    assert set(idle.values(tmp_path)) == set(options())
    assert set(idle.SAME_STREAMLINES) < set(options())


@pytest.mark.parametrize("kind", KINDS)
def test_an_option_alone_does_something_or_is_refused(kind, tmp_path):
    given, without, done = idle.kinds()[kind], [], 0
    for name, value in idle.values(tmp_path).items():
        if name in given or name in idle.SAME_STREAMLINES:
            continue
        found = idle.effect(kind, name, value)
        if found == "nothing":
            without.append(name)
        assert "\n" not in found, found
        done += found in ("streamlines", "tables")
    assert done > 10
    assert not without
