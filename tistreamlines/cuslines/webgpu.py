"""cuslines' WebGPU backend: arch vulkan."""

from tistreamlines.cuslines._trackers import WebGPUTracker
from tistreamlines.cuslines.tracker import BootDirectionGetter as WebGPUBootDirectionGetter
from tistreamlines.cuslines.tracker import ProbDirectionGetter as WebGPUProbDirectionGetter
from tistreamlines.cuslines.tracker import PttDirectionGetter as WebGPUPttDirectionGetter

__all__ = ["WebGPUBootDirectionGetter", "WebGPUProbDirectionGetter", "WebGPUPttDirectionGetter", "WebGPUTracker"]
