"""The kernels of a module, as Taichi reads them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..taichi.runtime import Runtime


@contextmanager
def kernels_of(runtime: Runtime, text: str, exact: bool) -> Iterator[dict[str, tuple[Callable[..., object], dict[str, object]]]]:
    """Let Taichi read a module; give its kernels, and what stands for their arguments, by their names."""
    from ..taichi.front_end import quick_front_end

    ti, module = runtime.ti, runtime.module(text, exact)
    values = {ti.f32: 0.0, ti.i32: 0, ti.u32: 0}
    with runtime.turn(exact), quick_front_end(runtime.compiler):
        arrays = {ti.f32: ti.ndarray(ti.f32, 1), ti.i32: ti.ndarray(ti.i32, 1)}
        kernels = {}
        for name in [name for name in vars(module) if name.startswith("run_")]:
            kinds = {n: p.annotation for n, p in inspect.signature(getattr(module, name)).parameters.items()}
            taken = {n: arrays[k.dtype] if isinstance(k, ti.types.ndarray) else values[k] for n, k in kinds.items()}
            kernels[name] = getattr(module, name), taken
        yield kernels
