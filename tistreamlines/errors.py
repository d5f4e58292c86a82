"""Errors that the user can correct, in the spelling of the command line and in that of Python.

Messages are written with the names of the command line (``--sh-order is 3: give an even order``), and the command line
prints them so.  In Python ``str(error)`` names the keyword instead (``sh_order is 3: give an even order``).
"""

import re
from collections.abc import Iterable

# flags that switch a parameter off
_NEGATED = {"fast": "exact=False"} | {
    f"no-{name.replace('_', '-')}": f"{name}=False" for name in (
        "backtrack", "connectome_pairs", "connectome_zero_diagonal", "crop_at_gmwmi", "normalise", "sgm_amyg_hipp",
    )
}
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
    text = _FLAG.sub(lambda match: _NEGATED.get(match[1], match[1].replace("-", "_")), text)
    return _ARGUMENT.sub(lambda match: match[0].lower(), text)


def listed(words: Iterable[object]) -> str:
    """Join alternatives: 'a', 'a or b', 'a, b or c'."""
    *first, last = map(str, words)
    return f"{', '.join(first)} or {last}" if first else last


class TrackingError(Exception):
    """A problem that the user can correct: one line with the file or option, its value and what to do.

    Examples
    --------
    All errors of this package that a user can correct are of this kind:

    >>> import tistreamlines as ts
    >>> try:
    ...     ts.Parameters(step_size="0mm")
    ... except ts.TrackingError as error:
    ...     print(error)
    step_size is '0mm': give a length above 0, e.g. 0.5vox, 0.9mm or 0.9
    """

    def __str__(self) -> str:
        """Return the message with Python's names of options."""
        return python_names(self.on_command_line)

    @property
    def on_command_line(self) -> str:
        """The message with the command line's names of options."""
        return super().__str__()


class InputError(TrackingError):
    """An input file or value is missing, damaged or does not match the other inputs.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> try:
    ...     ts.track("missing.nii.gz", "missing.bval", "missing.bvec", nseeds=100)
    ... except ts.InputError as error:
    ...     print(error)
    missing.bval: no such file; check the path
    """


class OutputError(TrackingError):
    """An output file cannot be written.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> try:
    ...     ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.vtk")
    ... except ts.OutputError as error:
    ...     print(error)
    brain.vtk: unknown suffix '.vtk'; end the name with .trx, .trk, .tck, .npz
    """


class BusyError(OutputError):
    """Another run is writing the same output."""


class DeviceError(TrackingError):
    """The requested device is not available or cannot do the work.

    Examples
    --------
    On the GPU of a Mac, or else on the CPU:

    >>> import numpy as np
    >>> import tistreamlines as ts
    >>> peaks = np.zeros((20, 5, 5, 3))
    >>> peaks[..., 0] = 1  # along x
    >>> inputs = {"peaks": peaks, "stop_map": np.ones((20, 5, 5)), "affine": np.eye(4), "seeds": [[10, 2, 2]]}
    >>> try:
    ...     result = ts.track(**inputs, dg="det", arch="metal")
    ... except ts.DeviceError:
    ...     result = ts.track(**inputs, dg="det", arch="cpu")
    >>> len(result)
    1
    """


class DeviceMemoryError(DeviceError):
    """The device has too little memory for the requested arrays."""


class LostDeviceError(DeviceError):
    """The device has failed or was reset while it computed, and answers no more in this process."""


class ParameterError(TrackingError, ValueError):
    """The value of an option is invalid, or two options cannot be combined.

    Examples
    --------
    >>> import tistreamlines as ts
    >>> try:
    ...     ts.Parameters(max_angle=200)
    ... except ts.ParameterError as error:
    ...     print(error)
    max_angle is 200.0: give a number above 0 up to 90
    """
