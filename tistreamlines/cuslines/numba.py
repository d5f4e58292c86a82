"""cuslines' Numba backend: arch cpu, with every direction getter."""

from tistreamlines.cuslines._trackers import CPUTracker
from tistreamlines.cuslines.tracker import BootDirectionGetter as CPUBootDirectionGetter
from tistreamlines.cuslines.tracker import ProbDirectionGetter as CPUProbDirectionGetter
from tistreamlines.cuslines.tracker import PttDirectionGetter as CPUPttDirectionGetter

__all__ = ["CPUBootDirectionGetter", "CPUProbDirectionGetter", "CPUPttDirectionGetter", "CPUTracker"]
