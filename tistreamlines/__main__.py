"""The command, as ``tistreamlines`` and as ``python -m tistreamlines``."""

import gc

from .cli import interrupts

OBJECTS = 200_000  # made between two searches for cycles; imports make as many, and hardly any cycles


def main() -> None:
    """Heed signals, and only then import what the command needs."""
    gc.set_threshold(OBJECTS)
    interrupts.heed(_command)


def _command() -> None:
    from .cli.main import main as command

    command()


if __name__ == "__main__":
    main()
