"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU, from one source.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

from .errors import DeviceError, InputError, OutputError, TrackingError
from .outcome import Stop
from .parameters import ParameterError, Parameters
from .track import Watcher, track
from .tractogram import Batch, Space

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "DeviceError",
    "InputError",
    "OutputError",
    "ParameterError",
    "Parameters",
    "Space",
    "Stop",
    "TrackingError",
    "Watcher",
    "track",
]
