"""Drop-in for cuslines: its tracker, direction getters and module names, on arrays in memory.

Code that was written for cuslines, such as pyAFQ, uses this package instead of cuslines after::

    import sys

    import tistreamlines.cuslines

    sys.modules["cuslines"] = tistreamlines.cuslines

Then ``from cuslines import Tracker`` and ``from cuslines.numba import CPUTracker`` import the classes of this package.
``Tracker`` runs on the arch that ``auto`` chooses. The trackers of ``cuda_python``, ``metal``, ``webgpu`` (here:
vulkan) and ``numba`` (here: cpu) run on their own arch, with every direction getter, or fail with the reason. They
differ from :class:`.tracker.Tracker` in one point: ``generate_sft`` returns streamlines in voxels, as in cuslines.
"""

# Imports are absolute, so that the modules that are loaded again under the name "cuslines" share these classes.
from tistreamlines.cuslines._trackers import Tracker, backend
from tistreamlines.cuslines.tracker import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter

__all__ = ["BACKEND", "BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker"]

BACKEND: str | None  # cuslines' name of the arch; devices are searched when it is first read


def __getattr__(name: str) -> str | None:
    if name != "BACKEND":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return backend()
