"""Errors that the user can correct, in the spelling of the command line and in that of Python.

Messages are written with the names of the command line (``--sh-order is 3: give an even order``), and the command line
prints them so.  In Python ``str(error)`` names the keyword instead (``sh_order is 3: give an even order``).
"""

import re

_NEGATED = {"fast": "exact=False"}  # flags that switch a parameter off
# a path may contain the same letters, hence no character of a path before or after
_FLAG = re.compile(r"(?<![\w/\\.-])--([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(?![\w/\\])")
_ARGUMENT = re.compile(r"(?<![\w/\\.:-])(?:DWI|BVALS|BVECS)(?![\w/\\:-]|\.\w)")


def python_names(text: str) -> str:
    """Replace the options and arguments of the command line in a message by Python's names.

    Parameters
    ----------
    text : str
        For example ``--max-angle is 0`` or ``give DWI, BVALS and BVECS``.

    Returns
    -------
    str
        ``max_angle is 0``, ``give dwi, bvals and bvecs``; ``--fast`` becomes ``exact=False``.
    """
    text = _FLAG.sub(lambda found: _NEGATED.get(found[1], found[1].replace("-", "_")), text)
    return _ARGUMENT.sub(lambda found: found[0].lower(), text)


class TrackingError(Exception):
    """A problem that the user can correct: one line with the file or option, its value and what to do."""

    def __str__(self) -> str:
        """Return the message with Python's names of options."""
        return python_names(self.on_command_line)

    @property
    def on_command_line(self) -> str:
        """The message with the command line's names of options."""
        return super().__str__()


class InputError(TrackingError):
    """An input file or value is missing, damaged or does not match the other inputs."""


class OutputError(TrackingError):
    """An output file cannot be written."""


class BusyError(OutputError):
    """Another run is writing the same output."""


class DeviceError(TrackingError):
    """The requested device is not available or cannot do the work."""


class DeviceMemoryError(DeviceError):
    """The device has too little memory for the requested arrays."""


class LostDeviceError(DeviceError):
    """The device has failed or was reset while it computed, and answers no more in this process."""


class ParameterError(TrackingError, ValueError):
    """The value of an option is invalid, or two options cannot be combined."""
