"""Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU.

>>> import tistreamlines as ts
>>> ts.track("dwi.nii.gz", "dwi.bval", "dwi.bvec", "brain.trx", nseeds=100_000)  # doctest: +SKIP
"""

import os
from importlib import import_module

__version__ = "0.1.0"

# DIPY and Taichi need a home directory, which a user of a container may not have; this one holds nothing
if os.path.expanduser("~") == "~":  # noqa: PTH111  (pathlib is more than this module may load)
    os.environ["HOME"] = os.devnull

# Names are imported on first use, so that the command line handles signals before anything else is loaded. The stub,
# which is beside this file, has the module of each.
_STUB = __loader__.get_data(f"{__file__}i").decode().splitlines()
_HOMES = {name: home for _, home, _, name, *_ in (line.split() for line in _STUB if line.startswith("from "))}
__all__ = sorted(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]
