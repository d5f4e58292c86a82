"""The plan of a run on the head, and what is known of a run before its values are read."""

from __future__ import annotations

from tables import noting

import tistreamlines as ts
from tistreamlines.run.log import Log, Watcher
from tistreamlines.run.plan import Plan, make_plan
from tistreamlines.run.series import Series
from tistreamlines.run.spec import Spec, parts_of
from tistreamlines.tracking.engine.kernels import KernelParts
from tistreamlines.tracking.selection.criteria import Criteria


def plan_of(head, note=lambda _: None, **named):
    series = dict(zip(("dwi", "bvals", "bvecs"), head.series, strict=True))
    options = {"mask": head.mask, "cache_dir": head.cache} | named
    return make_plan(series, ts.Parameters.given(options), noting(note))


def described(series: Series, parameters: ts.Parameters) -> tuple[Plan, KernelParts, Spec]:
    """Return the plan of a run, and what its kernels are made of, and what it does, by the headers alone."""
    specs: list[Spec] = []
    plan = make_plan(series, parameters, Log(Watcher()), lambda describe: specs.append(describe()))
    parts = parts_of(specs[0], Criteria())
    assert parts is not None
    return plan, parts, specs[0]
