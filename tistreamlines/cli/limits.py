"""Limits of the system that are too low for any run: told at once, since libraries wait for ever or end the process."""

from __future__ import annotations

from ..errors import TrackingError

# MB of addresses with which no command gets beyond its libraries; OpenBLAS waits for ever with a little less
LEAST, TRACKING = 600, 900
TRACKERS = ("track", "fixels", "demo", "verify", "benchmark")


def check_limits(command: str) -> None:
    """Raise a TrackingError if the limit of memory (ulimit -v) is lower than what the libraries of a command take."""
    try:
        import resource
    except ImportError:  # not on Windows
        return
    limit, needed = resource.getrlimit(resource.RLIMIT_AS)[0], TRACKING if command in TRACKERS else LEAST
    if limit != resource.RLIM_INFINITY and limit < needed * 1_000_000:
        raise TrackingError(
            f"the limit of memory is {limit / 1e6:,.0f} MB, but the libraries of tistreamlines {command} take more "
            f"than {needed} MB: raise it (ulimit -v)"
        )
