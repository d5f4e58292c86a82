"""Drop-in for cuslines: its tracker, direction getters and module names, on arrays in memory.

What was written for cuslines runs here, pyAFQ for one::

    import sys

    import tistreamlines.cuslines

    sys.modules["cuslines"] = tistreamlines.cuslines

Then ``from cuslines import Tracker`` and ``from cuslines.numba import CPUTracker`` give these.  ``Tracker`` runs on the
arch that is found; those of ``cuda_python``, ``metal``, ``webgpu`` (here: vulkan) and ``numba`` (here: cpu, with all
direction getters) run on their own or say why they cannot.  What differs from :class:`tistreamlines.Tracker`: the
tractogram of ``generate_sft`` is in voxels, as cuslines' is.
"""

# Absolute imports: under the name "cuslines" the modules of this folder are loaded once more, and share these classes.
from typing import Any

from tistreamlines.cuslines._trackers import Tracker
from tistreamlines.cuslines.tracker import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter

__all__ = ["BACKEND", "BootDirectionGetter", "ProbDirectionGetter", "PttDirectionGetter", "Tracker"]

BACKEND: str | None  # cuslines' word for the arch that is found, which is looked for when first asked


def __getattr__(name: str) -> Any:
    if name != "BACKEND":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from tistreamlines.cuslines._trackers import backend

    return backend()
