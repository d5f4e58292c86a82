"""No option is without effect in silence: it changes a run, or is refused in one line."""

from __future__ import annotations

import idle
import pytest
from nights import at_night

from tistreamlines.options.definitions import options

# a few of them, for time; all are tried at night, and by the class fuzz-idle of tests.attack
BY_DAY = ("boot",)


def test_every_option_has_a_value(tmp_path):
    assert set(idle.values(tmp_path)) == set(options())
    assert set(idle.SAME_STREAMLINES) < set(options())


@pytest.mark.parametrize(
    "kind", [*BY_DAY, *at_night(*(kind for kind in idle.kinds() if kind not in BY_DAY))]
)
def test_an_option_alone_does_something_or_is_refused(kind, tmp_path):
    options, without, done = idle.kinds()[kind], [], 0
    for name, value in idle.values(tmp_path).items():
        if name in options or name in idle.SAME_STREAMLINES:
            continue
        effect = idle.effect(kind, name, value)
        if effect == "nothing":
            without.append(name)
        assert "\n" not in effect, effect
        done += effect in ("streamlines", "tables")
    assert done > 10
    assert not without
