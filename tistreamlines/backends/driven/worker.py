"""The process that compiles kernels for GPUs, with Taichi; see :mod:`.ahead`."""

from __future__ import annotations

import json
import sys

from ...devices import choose
from ...helpers import answers


def main() -> None:
    """Compile the module that standard input gives."""
    output = answers()
    arch, text, exact = json.load(sys.stdin)
    if arch == "cuda":
        from ..cuda.compiling import compiled
    else:
        from ..vulkan.compiling import compiled
    kernels = json.dumps(compiled(choose(arch), text, exact)).encode()
    with output:
        output.write(kernels)
