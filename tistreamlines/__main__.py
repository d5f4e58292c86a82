"""The command, as ``tistreamlines`` and as ``python -m tistreamlines``."""

import gc
import os
import sys

OBJECTS = 200_000  # made between two searches for cycles; imports make as many, and hardly any cycles
# A thread that computes in Python lets others have Python's lock after so many seconds. Beside such a thread, 16 others
# that want the lock 192 times take 0.022 s with this value, and 0.09 s with Python's own, 5 ms.
LOCK_SECONDS = 5e-4


def _leave_current_folder() -> None:
    """Import nothing from the current folder, which ``python -m`` puts first, unless the package itself is there."""
    try:
        current = os.getcwd()  # noqa: PTH109  (pathlib is imported later, from its own place)
    except FileNotFoundError:
        return
    if sys.path[:1] == [current]:
        del sys.path[0]
        if current == os.path.dirname(os.path.dirname(__file__)):  # noqa: PTH120
            sys.path.append(current)


def main() -> None:
    """Heed signals, and only then import what the command needs."""
    from .cli import interrupts
    from .cli.limits import check_files, keep_blas_single
    from .errors import TrackingError

    try:
        check_files()
    except TrackingError as error:
        sys.exit(f"Error: {error}")
    if sys.argv[1:2] in (["track"], ["regrow"]):
        keep_blas_single()
    gc.set_threshold(OBJECTS)
    sys.setswitchinterval(LOCK_SECONDS)
    interrupts.handle(_command)


def _command() -> None:
    from .helpers import keep_warnings

    keep_warnings()
    from .cli.main import main as command

    command()


if __name__ == "__main__":
    _leave_current_folder()
    main()
