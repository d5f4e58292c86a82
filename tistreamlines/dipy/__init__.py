"""Drop-in for DIPY: its tracking functions, LocalTracking, direction getters and stopping criteria.

A script that tracks with DIPY changes the module that it imports from::

    from tistreamlines.dipy import ThresholdStoppingCriterion, probabilistic_tracking

instead of ``dipy.tracking.tracker`` and ``dipy.tracking.stopping_criterion``. Names, arguments and defaults are those
of DIPY 1.12. Keywords of :class:`.keywords.More` select devices and regions of interest. The criteria and direction
getters are DIPY's own classes, which also keep the arrays that they are made of, so that they work with DIPY's
functions too.
"""

from .criteria import ActStoppingCriterion, BinaryStoppingCriterion, CmcStoppingCriterion, ThresholdStoppingCriterion
from .direction_getters import (
    BootDirectionGetter,
    ClosestPeakDirectionGetter,
    DeterministicMaximumDirectionGetter,
    ProbabilisticDirectionGetter,
    PTTDirectionGetter,
)
from .local_tracking import LocalTracking
from .tracker import (
    bootstrap_tracking,
    closestpeak_tracking,
    deterministic_tracking,
    eudx_tracking,
    pft_tracking,
    probabilistic_tracking,
    ptt_tracking,
)

__all__ = [
    "ActStoppingCriterion", "BinaryStoppingCriterion", "BootDirectionGetter", "ClosestPeakDirectionGetter",
    "CmcStoppingCriterion", "DeterministicMaximumDirectionGetter", "LocalTracking", "PTTDirectionGetter",
    "ProbabilisticDirectionGetter", "ThresholdStoppingCriterion", "bootstrap_tracking", "closestpeak_tracking",
    "deterministic_tracking", "eudx_tracking", "pft_tracking", "probabilistic_tracking", "ptt_tracking",
]
