"""cuslines' CUDA backend: arch cuda."""

from tistreamlines.api import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter
from tistreamlines.cuslines._trackers import GPUTracker

__all__ = ["BootDirectionGetter", "GPUTracker", "ProbDirectionGetter", "PttDirectionGetter"]
