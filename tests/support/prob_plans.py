"""The plan of a run of prob on the head."""

from __future__ import annotations

import tistreamlines as ts
from tistreamlines.run.log import Log
from tistreamlines.run.plan import make_plan


def plan_of(head, clock=None, **named):
    series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
    return make_plan(series, ts.Parameters.given({"mask": head.mask, "dg": "prob", **named}), clock or Log())
