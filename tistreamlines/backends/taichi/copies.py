"""Copies between the host and the device, by kernels that are given NumPy arrays."""

from __future__ import annotations

from typing import Any

import numpy as np


def to_device(kernels: Any, array: Any, values: np.ndarray) -> None:
    """Copy values to the front of an array on the device; the caller holds the lock, here and below.

    Parameters
    ----------
    kernels : module
        The kernels that copy.
    """
    copy = kernels.upload_reals if values.dtype.kind == "f" else kernels.upload_ints
    copy(len(values), values, array)


def to_host(kernels: Any, array: Any, out: np.ndarray) -> None:
    """Wait for the device and copy the front of an array of int32 to the host."""
    kernels.download_ints(len(out), array, out)
