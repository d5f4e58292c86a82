"""cuslines' Metal backend: arch metal."""

from tistreamlines.api import BootDirectionGetter as MetalBootDirectionGetter
from tistreamlines.api import ProbDirectionGetter as MetalProbDirectionGetter
from tistreamlines.api import PttDirectionGetter as MetalPttDirectionGetter
from tistreamlines.cuslines._trackers import MetalGPUTracker

__all__ = ["MetalBootDirectionGetter", "MetalGPUTracker", "MetalProbDirectionGetter", "MetalPttDirectionGetter"]
