"""The kernel of :mod:`.filters`; it loads a copy of this file, hence the whole name of a module."""

from tistreamlines.backends.numba.compiler import compiled


@compiled
def judge_lengths(state, fewest, most, verdicts, found):
    """Find the verdicts on streamlines by their steps: accepted, without a step, too short, too long."""
    for i in range(state.shape[0]):
        steps = state[i, 0, 0] + state[i, 1, 0]
        if steps > most:
            found[i] = verdicts[3]
        elif steps >= fewest:
            found[i] = verdicts[0]
        else:
            found[i] = verdicts[1 if steps == 0 else 2]
