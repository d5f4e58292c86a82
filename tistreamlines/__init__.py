"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU, from one source.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .errors import DeviceError, InputError, OutputError, TrackingError
from .outcome import Stop
from .parameters import ParameterError, Parameters
from .pipeline import Watcher, track
from .tractogram import Batch, Space

if TYPE_CHECKING:
    from .api import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter, Tracker

__version__ = "0.1.0"
__all__ = [
    "Batch",
    "BootDirectionGetter",
    "DeviceError",
    "InputError",
    "OutputError",
    "ParameterError",
    "Parameters",
    "ProbDirectionGetter",
    "PttDirectionGetter",
    "Space",
    "Stop",
    "Tracker",
    "TrackingError",
    "Watcher",
    "track",
]

# imported when first asked for
_IN_API = ("BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker")


def __getattr__(name: str) -> Any:
    if name not in _IN_API:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(".api", __name__), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_IN_API})
