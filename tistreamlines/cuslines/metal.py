"""cuslines' Metal backend: arch metal."""

from tistreamlines.cuslines._trackers import MetalGPUTracker
from tistreamlines.cuslines.tracker import BootDirectionGetter as MetalBootDirectionGetter
from tistreamlines.cuslines.tracker import ProbDirectionGetter as MetalProbDirectionGetter
from tistreamlines.cuslines.tracker import PttDirectionGetter as MetalPttDirectionGetter

__all__ = ["MetalBootDirectionGetter", "MetalGPUTracker", "MetalProbDirectionGetter", "MetalPttDirectionGetter"]
