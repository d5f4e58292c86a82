"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .errors import DeviceError as DeviceError
    from .errors import InputError as InputError
    from .errors import OutputError as OutputError
    from .errors import ParameterError as ParameterError
    from .errors import TrackingError as TrackingError
    from .kernels.stop_reasons import Stop as Stop
    from .options.objects import ACT as ACT
    from .options.objects import ACT5 as ACT5
    from .options.objects import CMC as CMC
    from .options.objects import CSA as CSA
    from .options.objects import CSD as CSD
    from .options.objects import OPDT as OPDT
    from .options.objects import Bedpostx as Bedpostx
    from .options.objects import Binary as Binary
    from .options.objects import Boot as Boot
    from .options.objects import Connectome as Connectome
    from .options.objects import Density as Density
    from .options.objects import Det as Det
    from .options.objects import Ends as Ends
    from .options.objects import Fact as Fact
    from .options.objects import Ifod1 as Ifod1
    from .options.objects import Ifod2 as Ifod2
    from .options.objects import Mask as Mask
    from .options.objects import Prob as Prob
    from .options.objects import Ptt as Ptt
    from .options.objects import SampleTable as SampleTable
    from .options.objects import SdStream as SdStream
    from .options.objects import SeedMatrix as SeedMatrix
    from .options.objects import SeedsToTargets as SeedsToTargets
    from .options.objects import Sift2 as Sift2
    from .options.objects import Sphere as Sphere
    from .options.objects import Threshold as Threshold
    from .options.objects import VoxelMatrix as VoxelMatrix
    from .options.objects import Waytotal as Waytotal
    from .options.objects import choice as choice
    from .options.parameters import Parameters as Parameters
    from .run.api import estimate as estimate
    from .run.api import stream as stream
    from .run.api import track as track
    from .run.estimate import Estimate as Estimate
    from .run.five_tissues import five_tissues as five_tissues
    from .run.fixels import Fixels as Fixels
    from .run.fixels import fixels as fixels
    from .run.log import Watcher as Watcher
    from .run.mapping import map_tractogram as map_tractogram
    from .run.parts import join as join
    from .run.result import TrackResult as TrackResult
    from .space.batch import Batch as Batch
    from .space.batch import Space as Space
    from .tracking.registry import register as register

__version__ = "0.1.0"

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
# type checkers, which read only lists that are written out, take the imports above, which name all of them
__all__ = sorted(name for names in _HOMES.values() for name in names)  # pyright: ignore[reportUnsupportedDunderAll]

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
