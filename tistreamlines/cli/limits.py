"""Limits of the system that are too low for any run: an error at once, since libraries wait for ever or end the
process."""

from __future__ import annotations

import os
import threading

from ..errors import TrackingError

# MB of addresses with which no command gets beyond its libraries; OpenBLAS waits for ever with a little less
LEAST, TRACKING = 600, 900
TRACKERS = ("track", "regrow", "fixels", "demo", "verify", "benchmark")
FILES = 14  # open at once while a small tractogram is written
BLAS_VARIABLES = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "OMP_NUM_THREADS")
BLAS_MOST, OWN = 64, 3  # threads that OpenBLAS, of NumPy or SciPy, starts at most; and those of this program at least


def check_files() -> None:
    """Raise a TrackingError if so few files may be open (ulimit -n) that libraries cannot be imported."""
    limit = _limit("RLIMIT_NOFILE")
    if limit is not None and limit < FILES:
        raise TrackingError(f"the limit of open files is {limit}, and {FILES} are needed: raise it (ulimit -n)")


def check_limits(command: str) -> None:
    """Raise a TrackingError if the libraries of a command take more memory or threads than the system gives them."""
    limit, needed = _limit("RLIMIT_AS"), TRACKING if command in TRACKERS else LEAST
    if limit is not None and limit < needed * 1_000_000:
        raise TrackingError(
            f"the limit of memory is {limit / 1e6:,.0f} MB, but the libraries of tistreamlines {command} take more "
            f"than {needed} MB: raise it (ulimit -v)"
        )
    _check_threads()


def keep_blas_single() -> None:
    """Have OpenBLAS start no threads, unless the user sets their number: this program shares tasks among its threads.

    Small tasks are slower with more: on two busy cores, a fit of 15 coefficients to 1000 values takes 0.17 s instead of
    0.003.
    """
    if not any(map(os.environ.get, BLAS_VARIABLES)):
        from ..devices.threads import note_single_blas

        os.environ[BLAS_VARIABLES[0]] = "1"
        note_single_blas()


def is_unlimited() -> bool:
    """Return whether this process may take all memory of the computer."""
    return _limit("RLIMIT_AS") is None


def _limit(name: str) -> int | None:
    """Return a limit of this process, or None if it has none."""
    try:
        import resource
    except ImportError:  # on Windows
        return None
    limit = resource.getrlimit(getattr(resource, name))[0]
    return None if limit == resource.RLIM_INFINITY else limit


def _check_threads() -> None:
    """Start as many threads as the libraries will: OpenBLAS interrupts a process in which it cannot start its own."""
    needed, end = OWN + 2 * (_blas_threads() - 1), threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(needed):
            thread = threading.Thread(target=end.wait, daemon=True)
            thread.start()
            started.append(thread)
    except RuntimeError as error:
        raise TrackingError(
            f"the system starts {len(started)} threads, but libraries need {needed}: raise the limit of processes "
            f"(ulimit -u), or set {BLAS_VARIABLES[0]}=1"
        ) from error
    finally:
        end.set()
        for thread in started:
            thread.join()


def _blas_threads() -> int:
    """Return the greatest number of threads of OpenBLAS."""
    numbers = (os.environ.get(name, "") for name in BLAS_VARIABLES)
    known = [max(1, int(number)) for number in numbers if number.isdecimal()][:1]
    cores = [len(os.sched_getaffinity(0))] if hasattr(os, "sched_getaffinity") else []
    return min(BLAS_MOST, *known, *cores)
