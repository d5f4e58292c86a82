"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DeviceError, InputError, OutputError, ParameterError, TrackingError
    from .kernels.stop_reasons import Stop
    from .options.objects import (
        ACT,
        ACT5,
        CMC,
        CSA,
        CSD,
        OPDT,
        Bedpostx,
        Binary,
        Boot,
        Connectome,
        Density,
        Det,
        Ends,
        Fact,
        Ifod1,
        Ifod2,
        Mask,
        Prob,
        Ptt,
        SampleTable,
        SdStream,
        SeedMatrix,
        SeedsToTargets,
        Sift2,
        Sphere,
        Threshold,
        VoxelMatrix,
        Waytotal,
        choice,
    )
    from .options.parameters import Parameters
    from .run.api import estimate, stream, track
    from .run.estimate import Estimate
    from .run.five_tissues import five_tissues
    from .run.fixels import Fixels, fixels
    from .run.log import Watcher
    from .run.mapping import map_tractogram
    from .run.parts import join
    from .run.result import TrackResult
    from .space.batch import Batch, Space
    from .tracking.registry import register

__version__ = "0.1.0"
__all__ = [
    "ACT",
    "ACT5",
    "CMC",
    "CSA",
    "CSD",
    "OPDT",
    "Batch",
    "Bedpostx",
    "Binary",
    "Boot",
    "Connectome",
    "Density",
    "Det",
    "DeviceError",
    "Ends",
    "Estimate",
    "Fact",
    "Fixels",
    "Ifod1",
    "Ifod2",
    "InputError",
    "Mask",
    "OutputError",
    "ParameterError",
    "Parameters",
    "Prob",
    "Ptt",
    "SampleTable",
    "SdStream",
    "SeedMatrix",
    "SeedsToTargets",
    "Sift2",
    "Space",
    "Sphere",
    "Stop",
    "Threshold",
    "TrackResult",
    "TrackingError",
    "VoxelMatrix",
    "Watcher",
    "Waytotal",
    "choice",
    "estimate",
    "five_tissues",
    "fixels",
    "join",
    "map_tractogram",
    "register",
    "stream",
    "track",
]

# DIPY and Taichi need a home directory, which a user of a container may not have; this one holds nothing
if os.path.expanduser("~") == "~":  # noqa: PTH111  (pathlib is more than this module may load)
    os.environ["HOME"] = os.devnull

# Names are imported on first use, so that the command line handles signals before anything else is loaded.
_HOMES = {
    "run.estimate": ("Estimate",),
    "errors": ("DeviceError", "InputError", "OutputError", "ParameterError", "TrackingError"),
    "space.batch": ("Batch", "Space"),
    "kernels.stop_reasons": ("Stop",),
    "run.api": ("estimate", "stream", "track"),
    "run.five_tissues": ("five_tissues",),
    "run.fixels": ("Fixels", "fixels"),
    "run.mapping": ("map_tractogram",),
    "run.parts": ("join",),
    "run.log": ("Watcher",),
    "options.objects": (
        "ACT", "ACT5", "Bedpostx", "Binary", "Boot", "CMC", "CSA", "CSD", "Connectome", "Density", "Det", "Ends",
        "Fact", "Ifod1", "Ifod2", "Mask", "OPDT", "Prob", "Ptt", "SampleTable", "SdStream", "SeedMatrix",
        "SeedsToTargets", "Sift2", "Sphere", "Threshold", "VoxelMatrix", "Waytotal", "choice",
    ),
    "options.parameters": ("Parameters",),
    "run.result": ("TrackResult",),
    "tracking.registry": ("register",),
}


# These stood here before they had a module of their own, and go with version 0.2.
_MOVED = ("BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker")


def __getattr__(name: str) -> Any:
    if name in _MOVED:
        import warnings

        where = f"tistreamlines.{name} is now tistreamlines.cuslines.{name}"
        voxels = ", whose generate_sft returns voxel coordinates, as cuslines' does" if name == "Tracker" else ""
        warnings.warn(f"{where}{voxels}: import it from there", DeprecationWarning, stacklevel=2)
        return getattr(import_module(".cuslines.tracker", __name__), name)
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f".{home}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
