"""Faults of devices: what the message of a compiler or a driver means."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager

from ..errors import DeviceError, DeviceMemoryError, LostDeviceError

# parts of the messages that compilers raise, or pass on from CUDA and HIP ("CUDA Error NAME: ... while calling ...")
MEMORY = (
    "out of memory", "out_of_memory", "OUT_OF_MEMORY", "ailed to allocate", "Allocation failed", "bad_alloc",
    "Vulkan error -1 of", "Vulkan error -2 of",
)
LOST = (
    "DEVICE_LOST", "evice lost", "Vulkan error -4 of", "CUDA_ERROR_ILLEGAL_ADDRESS", "CUDA_ERROR_LAUNCH_FAILED", "CUDA_ERROR_LAUNCH_TIMEOUT",
    "CUDA_ERROR_ILLEGAL_INSTRUCTION", "CUDA_ERROR_MISALIGNED_ADDRESS", "CUDA_ERROR_INVALID_PC",
    "CUDA_ERROR_INVALID_ADDRESS_SPACE", "CUDA_ERROR_HARDWARE_STACK_ERROR", "CUDA_ERROR_ECC_UNCORRECTABLE",
    "CUDA_ERROR_CONTEXT_IS_DESTROYED", "CUDA_ERROR_DEINITIALIZED", "CUDA_ERROR_UNKNOWN", "hipErrorIllegalAddress",
    "hipErrorLaunchFailure", "hipErrorLaunchTimeOut", "hipErrorECCNotCorrectable", "hipErrorContextIsDestroyed",
    "hipErrorDeinitialized", "hipErrorUnknown",
)
ADVICE = (
    "check its temperature, power and driver (NVIDIA: nvidia-smi, AMD: rocm-smi, dmesg), and start the run again; "
    "--resume keeps what it has tracked"
)


def refuse_fork(process: int, arch: str) -> None:
    """Raise DeviceError in a process that was forked from the one that has opened a device."""
    if process != os.getpid():
        raise DeviceError(
            f"{arch}: this process was forked from one that uses a GPU, which does not work in a fork: make processes with "
            "multiprocessing's method 'spawn', or track there with --arch cpu"
        )


def no_memory(what: str, error: BaseException) -> DeviceMemoryError:
    """Return the error that says what needed memory, and what may help."""
    reason = (str(error).splitlines() or ["no reason given"])[0]
    return DeviceMemoryError(
        f"the device has no memory for {what} ({reason}): give a lower --memory-limit or --chunk-size, a tighter "
        "mask or a higher stop threshold"
    )


def understood(error: RuntimeError) -> DeviceError | None:
    """Return the error of the device that a compiler's message tells of; None for another message."""
    text = str(error)
    if any(part in text for part in LOST):
        return LostDeviceError(f"the device was lost while it computed ({text.splitlines()[0]}): {ADVICE}")
    return no_memory("a chunk of seeds", error) if any(part in text for part in MEMORY) else None


@contextmanager
def explained() -> Generator[None, None, None]:
    """Turn the messages of a compiler into errors of the device."""
    try:
        yield
    except RuntimeError as error:
        if (meant := understood(error)) is None:
            raise
        raise meant from error
