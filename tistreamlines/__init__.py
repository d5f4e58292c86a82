"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU, from one source.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .cuslines.tracker import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter, Tracker
    from .errors import DeviceError, InputError, OutputError, ParameterError, TrackingError
    from .io.tractogram import Batch, Space
    from .kernels.stop_reasons import Stop
    from .run.parameters import Parameters
    from .run.pipeline import Watcher, track

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

# DIPY and Taichi want to know of a home, which a user of a container may not have: one that holds nothing
if os.path.expanduser("~") == "~":  # noqa: PTH111  (pathlib is more than this module may load)
    os.environ["HOME"] = os.devnull

# Names are imported when first asked for: the command heeds signals before anything else is loaded.
_HOMES = {
    "cuslines.direction_getters": ("BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter"),
    "cuslines.tracker": ("Tracker",),
    "errors": ("DeviceError", "InputError", "OutputError", "ParameterError", "TrackingError"),
    "io.tractogram": ("Batch", "Space"),
    "kernels.stop_reasons": ("Stop",),
    "run.parameters": ("Parameters",),
    "run.pipeline": ("Watcher", "track"),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
