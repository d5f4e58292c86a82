"""The plan of a run on the head."""

from __future__ import annotations

from tables import noting

import tistreamlines as ts
from tistreamlines.run.plan import make_plan


def plan_of(head, note=lambda _: None, **named):
    series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
    return make_plan(series, ts.Parameters.given({"mask": head.mask, **named}), noting(note))
