"""Compiled kernels on a Vulkan device."""

from __future__ import annotations

import base64
import ctypes as c
import struct

from ..driven.kernel import Arguments, Compiled
from ..driven.memory import Buffer
from . import api
from .api import structure
from .gpu import ARGUMENTS, Gpu


class Kernel:
    """A kernel whose code the device has.

    Parameters
    ----------
    gpu : the device; the caller holds its lock, here and in :meth:`launch`.
    compiled : its code.
    """

    def __init__(self, gpu: Gpu, compiled: Compiled) -> None:
        self._gpu, self._places = gpu, compiled["places"]
        self._tasks = [(self._pipeline(task["code"]), task["groups"], task["threads"]) for task in compiled["tasks"]]

    def _pipeline(self, encoded: str) -> int:
        gpu, code, out = self._gpu, base64.b64decode(encoded), c.c_uint64()
        words = c.create_string_buffer(code, len(code))
        shader = gpu.make("vkCreateShaderModule", structure(api.ShaderInfo, size=len(code), code=words))
        info = structure(api.PipelineInfo, stage_kind=18, stage=0x20, shader=shader, entry=b"main", layout=gpu.layout)
        gpu.call("vkCreateComputePipelines", gpu.handle, 0, 1, c.byref(info), None, c.byref(out))
        gpu.vk["vkDestroyShaderModule"](gpu.handle, shader, None)
        return out.value

    def launch(self, queue: Buffer, teams: int, arguments: Arguments) -> None:
        """Let the device run the kernel."""
        gpu = self._gpu

        def record(commands: int, slot: int) -> None:
            start = slot * ARGUMENTS
            held = (c.c_char * ARGUMENTS).from_address(gpu.arguments.mapped + start)
            for place, (kind, value) in zip(self._places, arguments, strict=True):
                struct.pack_into(kind, held, place, value)
            offset = c.c_uint32(start)
            gpu.vk["vkCmdFillBuffer"](commands, queue.handle, 0, 4, 0)
            gpu.vk["vkCmdBindDescriptorSets"](commands, 1, gpu.layout, 0, 1, c.byref(gpu.bound), 1, c.byref(offset))
            for pipeline, groups, threads in self._tasks:
                gpu.barrier(commands)
                gpu.vk["vkCmdBindPipeline"](commands, 1, pipeline)
                gpu.vk["vkCmdDispatch"](commands, min(groups, -(-32 * teams // threads)), 1, 1)

        gpu.submit(record)
