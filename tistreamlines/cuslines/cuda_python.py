"""cuslines' CUDA backend: arch cuda."""

from tistreamlines.cuslines._trackers import GPUTracker
from tistreamlines.cuslines.tracker import BootDirectionGetter, ProbDirectionGetter, PttDirectionGetter

__all__ = ["BootDirectionGetter", "GPUTracker", "ProbDirectionGetter", "PttDirectionGetter"]
