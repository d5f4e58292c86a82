"""What runs with regions give, and their kernels' state."""

from __future__ import annotations

import hashlib

import numpy as np

import tistreamlines as ts
from tistreamlines.devices import choose
from tistreamlines.errors import DeviceError


def vulkan() -> bool:
    try:
        return choose("vulkan") is not None
    except DeviceError:
        return False


def whole(result: ts.TrackResult) -> ts.Batch:
    return ts.Batch.concatenate(result.batches)


def lines_of(batch: ts.Batch) -> list[np.ndarray]:
    return [np.asarray(line) for line in batch]


def same_lines(lines: list[np.ndarray], expected: list[np.ndarray]) -> bool:
    return len(lines) == len(expected) and all(map(np.array_equal, lines, expected))


def digest(result: ts.TrackResult) -> str:
    return hashlib.sha256(whole(result).points.tobytes()).hexdigest()


def within(line: np.ndarray, sphere: list[float]) -> np.ndarray:
    return np.linalg.norm(line - np.array(sphere[:3]), axis=1) <= sphere[3]


class LoopState:
    """MRtrix3's ``ROIOrderedSet::LoopState``, written from its description."""

    def __init__(self, size: int) -> None:
        self.size, self.valid, self.next = size, True, 0

    def enter(self, regions: np.ndarray) -> None:
        if self.valid and regions.any():
            first = int(np.argmax(regions))
            if first == self.next:
                self.next += 1
            elif first != self.next - 1:
                self.valid = False

    @property
    def passed(self) -> bool:
        return self.valid and self.next == self.size
