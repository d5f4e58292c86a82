"""Compiled kernels on a Vulkan device."""

from __future__ import annotations

import base64
import ctypes as c
import struct
from typing import Any

from ...aliases import Json
from ..driven.memory import Buffer
from . import api
from .api import structure
from .gpu import ARGUMENTS, Gpu


class Kernel:
    """A kernel whose code the device has.

    Parameters
    ----------
    gpu : the device; the caller holds its lock, here and in :meth:`launch`.
    told : what was compiled; see :func:`..driven.ahead.compiled`.
    """

    def __init__(self, gpu: Gpu, told: Json) -> None:
        self._gpu, self._places = gpu, told["places"]
        self._tasks = [(self._pipeline(base64.b64decode(one["code"])), one["groups"], one["threads"]) for one in told["tasks"]]

    def _pipeline(self, code: bytes) -> int:
        gpu, held, out = self._gpu, c.create_string_buffer(code, len(code)), c.c_uint64()
        shader = gpu.made("vkCreateShaderModule", structure(api.ShaderInfo, size=len(code), code=held))
        info = structure(api.PipelineInfo, stage_kind=18, stage=0x20, shader=shader, entry=b"main", layout=gpu.layout)
        gpu.call("vkCreateComputePipelines", gpu.handle, 0, 1, c.byref(info), None, c.byref(out))
        gpu.vk["vkDestroyShaderModule"](gpu.handle, shader, None)
        return out.value

    def launch(self, queue: Buffer, teams: int, arguments: list[tuple[str, Any]]) -> None:
        """Let the device run the kernel, with arguments in order: format characters of :mod:`struct`, and values."""
        gpu = self._gpu

        def record(commands: int, slot: int) -> None:
            start = slot * ARGUMENTS
            room = (c.c_char * ARGUMENTS).from_address(gpu.arguments.mapped + start)
            for place, (kind, value) in zip(self._places, arguments, strict=True):
                struct.pack_into(kind, room, place, value)
            offset = c.c_uint32(start)
            gpu.vk["vkCmdFillBuffer"](commands, queue.handle, 0, 4, 0)
            gpu.vk["vkCmdBindDescriptorSets"](
                commands, 1, gpu.layout, 0, 1, c.byref(gpu.bound), 1, c.byref(offset)
            )
            for pipeline, groups, threads in self._tasks:
                gpu.barrier(commands)
                gpu.vk["vkCmdBindPipeline"](commands, 1, pipeline)
                gpu.vk["vkCmdDispatch"](commands, min(groups, -(-32 * teams // threads)), 1, 1)

        gpu.submit(record)
