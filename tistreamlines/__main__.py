"""The command, as ``tistreamlines`` and as ``python -m tistreamlines``."""

from .cli import interrupts


def main() -> None:
    """Heed signals, and only then import what the command needs."""
    interrupts.heed(_command)


def _command() -> None:
    from .cli.main import main as command

    command()


if __name__ == "__main__":
    main()
