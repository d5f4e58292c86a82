"""cuslines' WebGPU backend: arch vulkan."""

from tistreamlines.api import BootDirectionGetter as WebGPUBootDirectionGetter
from tistreamlines.api import ProbDirectionGetter as WebGPUProbDirectionGetter
from tistreamlines.api import PttDirectionGetter as WebGPUPttDirectionGetter
from tistreamlines.cuslines._trackers import WebGPUTracker

__all__ = ["WebGPUBootDirectionGetter", "WebGPUProbDirectionGetter", "WebGPUPttDirectionGetter", "WebGPUTracker"]
