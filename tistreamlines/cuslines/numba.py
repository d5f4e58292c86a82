"""cuslines' Numba backend: arch cpu, with every direction getter."""

from tistreamlines.api import BootDirectionGetter as CPUBootDirectionGetter
from tistreamlines.api import ProbDirectionGetter as CPUProbDirectionGetter
from tistreamlines.api import PttDirectionGetter as CPUPttDirectionGetter
from tistreamlines.cuslines._trackers import CPUTracker

__all__ = ["CPUBootDirectionGetter", "CPUProbDirectionGetter", "CPUPttDirectionGetter", "CPUTracker"]
