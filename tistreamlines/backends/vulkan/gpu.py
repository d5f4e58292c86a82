"""A Vulkan device of this process: its memory, its kernels, and the queue of its work, in order.

All that is submitted has a number, and the device counts how far it has come, so the host can wait for a copy while the
kernels that were launched after it still run.
"""

from __future__ import annotations

import atexit
import base64
import ctypes as c
import os
import re
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from ...devices import Device
from ...devices.gpu import Structure, open_vulkan, structure, vulkan_instance
from ...errors import DeviceError
from ..driven.memory import Arguments, Buffer, Compiled, Functions, Launch, Memory
from . import api

ARGUMENTS = 4096  # bytes of a kernel's arguments, at most
SLOTS = 256  # submissions that are not finished, at most
TEMPORARY = 1 << 20  # bytes that the tasks of a kernel exchange; Taichi's kernels use a few
PLACES = (0, 2)  # where Taichi's kernels find their arguments, and what tasks exchange
INT64 = "f40"  # a flag among Vulkan's features


def _features(flag: int) -> tuple[Structure, Structure, Structure]:
    """Return the features that programs need, each with this flag; each structure points to the one before it."""
    timeline = structure(api.TimelineFeature, able=flag)
    address = structure(api.AddressFeature, able=flag, next=timeline)
    return timeline, address, structure(api.Features2, next=address, **{INT64: flag})


@cache
def able(device: Device) -> bool:
    """Whether a device has what programs need: memory with addresses, a timeline, and 64-bit integers.

    MoltenVK was not tried.
    """
    version = [int(number) for number in re.findall(r"\d+", device.capability)]  # of 'Vulkan 1.3.230'
    if sys.platform == "darwin" or version < [1, 2]:
        return False
    timeline, address, features = _features(0)
    with vulkan_instance() as (library, handles), suppress(AttributeError):  # a loader may be older than the driver
        Functions(library, ())["vkGetPhysicalDeviceFeatures2"](handles[device.index], c.byref(features))
    return bool(timeline.able and address.able and getattr(features, INT64)) and hasattr(library, "vkWaitSemaphores")


class Gpu(Memory[int]):
    """A device. Threads call its methods one at a time, in a :meth:`turn`; :meth:`put` and :meth:`wait` need none.

    Attributes
    ----------
    submitted : number of the last submission; such numbers are marks.
    """

    def __init__(self, device: Device) -> None:
        library, _, handles = open_vulkan()  # for as long as the process lives: drivers end with it
        super().__init__(device, Functions(library, api.QUICK, api.LONG))
        self.physical, self.submitted, self._finished = handles[device.index], 0, 0
        family = self._family()
        self._open(family)
        self._semaphore = self.make("vkCreateSemaphore", structure(api.SemaphoreInfo, next=structure(api.SemaphoreType, type=1)))
        self._types = self._memory_types()
        self._commands = self._command_buffers(family)
        self.arguments = self.buffer(SLOTS * ARGUMENTS, host=True)
        self.layout, self.bound = self._descriptors(self.buffer(TEMPORARY))
        atexit.register(self._end)

    # ------------------------------------------------------------------------------------------------------------- opening
    def _failure(self, code: int) -> str:
        return f"Vulkan error {code}" if code < 0 else ""

    def make(self, name: str, info: c.Structure) -> int:
        """Return the handle that a function makes."""
        out = c.c_uint64()
        self.call(name, self.handle, c.byref(info), None, c.byref(out))
        return out.value

    def _family(self) -> int:
        """Return the number of the first family of queues that computes."""
        count = c.c_uint32()
        self.functions["vkGetPhysicalDeviceQueueFamilyProperties"](self.physical, c.byref(count), None)
        families = (c.c_uint32 * (6 * count.value))()
        self.functions["vkGetPhysicalDeviceQueueFamilyProperties"](self.physical, c.byref(count), c.byref(families))
        return next(number for number in range(count.value) if families[6 * number] & api.COMPUTE)

    def _open(self, family: int) -> None:
        queue = structure(api.QueueInfo, family=family, count=1, priorities=c.c_float(1.0))
        info = structure(api.DeviceInfo, next=_features(1)[-1], queue_count=1, queues=queue)
        handle, out = c.c_void_p(), c.c_void_p()
        self.call("vkCreateDevice", self.physical, c.byref(info), None, c.byref(handle))
        self.handle = handle.value
        self.functions["vkGetDeviceQueue"](self.handle, family, 0, c.byref(out))
        self._queue = out.value

    def _memory_types(self) -> list[int]:
        raw = (c.c_uint32 * 260)()  # VkPhysicalDeviceMemoryProperties
        self.functions["vkGetPhysicalDeviceMemoryProperties"](self.physical, c.byref(raw))
        return [raw[1 + 2 * number] for number in range(raw[0])]

    def _command_buffers(self, family: int) -> c.Array[c.c_void_p]:
        reset = 2  # each by itself, when it begins anew
        pool = self.make("vkCreateCommandPool", structure(api.CommandPoolInfo, flags=reset, family=family))
        out = (c.c_void_p * SLOTS)()
        info = structure(api.CommandsInfo, pool=pool, count=SLOTS)
        self.call("vkAllocateCommandBuffers", self.handle, c.byref(info), c.byref(out))
        return out

    def _descriptors(self, temporary: Buffer) -> tuple[int, c.c_uint64]:
        """Return the layout of all pipelines, and the one set: a kernel's arguments, and what its tasks exchange."""
        kinds, buffers = (api.UNIFORM_DYNAMIC, api.STORAGE), (self.arguments, temporary)
        bindings = (api.SetBinding * 2)(*[api.SetBinding(place, kind, 1, 0x20) for place, kind in zip(PLACES, kinds, strict=True)])
        layout = c.c_uint64(self.make("vkCreateDescriptorSetLayout", structure(api.SetLayoutInfo, count=2, bindings=bindings)))
        sizes = (c.c_uint32 * 4)(kinds[0], 1, kinds[1], 1)
        pool = self.make("vkCreateDescriptorPool", structure(api.PoolInfo, most=1, count=2, sizes=sizes))
        bound = c.c_uint64()
        info = structure(api.SetInfo, pool=pool, count=1, layouts=layout)
        self.call("vkAllocateDescriptorSets", self.handle, c.byref(info), c.byref(bound))
        for place, kind, buffer, size in zip(PLACES, kinds, buffers, (ARGUMENTS, TEMPORARY), strict=True):
            held = api.SetBuffer(buffer.handle, 0, size)
            write = structure(api.SetWrite, set=bound.value, binding=place, count=1, type=kind, buffers=held)
            self.functions["vkUpdateDescriptorSets"](self.handle, 1, c.byref(write), 0, None)
        return self.make("vkCreatePipelineLayout", structure(api.LayoutInfo, set_count=1, sets=layout)), bound

    def kernel(self, compiled: Compiled) -> Launch:
        """See :meth:`..driven.memory.Memory.kernel`."""
        places = compiled["places"]
        tasks = [(self._pipeline(task["code"]), task["groups"], task["threads"]) for task in compiled["tasks"]]

        def launch(queue: Buffer, teams: int, arguments: Arguments) -> None:
            def record(commands: int, slot: int) -> None:
                start = slot * ARGUMENTS
                held = (c.c_char * ARGUMENTS).from_address(self.arguments.mapped + start)
                for place, (kind, value) in zip(places, arguments, strict=True):
                    struct.pack_into(kind, held, place, value)
                bound, offset = c.byref(self.bound), c.c_uint32(start)
                self.functions["vkCmdFillBuffer"](commands, queue.handle, 0, 4, 0)
                self.functions["vkCmdBindDescriptorSets"](commands, 1, self.layout, 0, 1, bound, 1, c.byref(offset))
                for pipeline, groups, threads in tasks:
                    self.barrier(commands)
                    self.functions["vkCmdBindPipeline"](commands, 1, pipeline)
                    self.functions["vkCmdDispatch"](commands, min(groups, -(-32 * teams // threads)), 1, 1)

            self.submit(record)

        return launch

    def _pipeline(self, encoded: str) -> int:
        code, out = base64.b64decode(encoded), c.c_uint64()
        words = c.create_string_buffer(code, len(code))
        shader = self.make("vkCreateShaderModule", structure(api.ShaderInfo, size=len(code), code=words))
        info = structure(api.PipelineInfo, stage_kind=18, stage=0x20, shader=shader, entry=b"main", layout=self.layout)
        self.call("vkCreateComputePipelines", self.handle, 0, 1, c.byref(info), None, c.byref(out))
        self.functions["vkDestroyShaderModule"](self.handle, shader, None)
        return out.value

    def _end(self) -> None:
        if self.process == os.getpid():
            self.functions["vkDeviceWaitIdle"](self.handle)

    # -------------------------------------------------------------------------------------------------------------- memory
    def _allocated(self, size: int, host: bool) -> Buffer:
        handle = self.make("vkCreateBuffer", structure(api.BufferInfo, size=size, usage=api.BUFFER_USAGE))
        needs, memory = api.MemoryNeeds(), 0
        self.functions["vkGetBufferMemoryRequirements"](self.handle, handle, c.byref(needs))
        flags = structure(api.MemoryFlags, flags=2)  # programs query its address
        info = structure(api.MemoryInfo, next=flags, size=needs.size, type=self._type(needs.types, host))
        try:
            memory = self.make("vkAllocateMemory", info)
            self.call("vkBindBufferMemory", self.handle, handle, memory, 0)
        except DeviceError:
            self._destroy(Buffer(handle, memory, size))
            raise
        buffer = Buffer(handle, memory, size)
        buffer.address = self.functions["vkGetBufferDeviceAddress"](self.handle, c.byref(structure(api.BufferAddress, buffer=handle)))
        if host:
            out = c.c_void_p()
            self.call("vkMapMemory", self.handle, memory, 0, api.WHOLE, 0, c.byref(out))
            buffer.mapped = out.value or 0
        return buffer

    def _type(self, allowed: int, host: bool) -> int:
        """Return the number of the first type of memory that is allowed and has most of the wanted properties."""
        seen = api.VISIBLE | api.COHERENT
        for wanted in (seen | api.CACHED, seen) if host else (api.LOCAL, 0):
            for number, flags in enumerate(self._types):
                if allowed >> number & 1 and flags & wanted == wanted:
                    return number
        raise DeviceError(f"{self.device.arch}: {self.device.name} has no memory that the host can read: use another arch")

    def _destroy(self, buffer: Buffer) -> None:
        self.functions["vkDestroyBuffer"](self.handle, buffer.handle, None)
        self.functions["vkFreeMemory"](self.handle, buffer.memory, None)

    def forget(self, buffer: Buffer) -> None:
        """See :meth:`..driven.memory.Memory.forget`."""
        buffer.used = self.submitted
        super().forget(buffer)

    def clear(self, buffer: Buffer) -> None:
        """Let the device fill a buffer with zeros."""
        self.submit(lambda to, _: self.functions["vkCmdFillBuffer"](to, buffer.handle, 0, api.WHOLE, 0))

    # --------------------------------------------------------------------------------------------------------------- queue
    def submit(self, record: Callable[[int, int], object]) -> int:
        """Hand the device what ``record`` writes to a command buffer with a slot's number; return the submission's number."""
        number = self.submitted + 1
        slot = number % SLOTS
        if number > SLOTS:
            self.wait(number - SLOTS)
        commands = self._commands[slot]
        once = structure(api.BeginInfo, flags=1)
        self.call("vkBeginCommandBuffer", commands, c.byref(once))
        record(commands, slot)
        self.barrier(commands)
        self.call("vkEndCommandBuffer", commands)
        values = structure(api.SemaphoreValues, signal_count=1, signals=c.c_uint64(number))
        info = structure(
            api.SubmitInfo, next=values, command_count=1, commands=c.c_void_p(commands), signal_count=1,
            signals=c.c_uint64(self._semaphore),
        )
        self.call("vkQueueSubmit", self._queue, 1, c.byref(info), 0)
        self.submitted = number
        return number

    def fetch(self, source: Buffer, target: Buffer, size: int) -> int:
        """Copy bytes between the starts of two buffers, after all that was submitted; return the submission's number."""
        return self._send(source, target, 0, size)

    def _send(self, source: Buffer, target: Buffer, start: int, size: int) -> int:
        """Copy bytes of a buffer to another one, from ``start`` on; return the submission's number."""
        handles, region = (source.handle, target.handle), structure(api.BufferCopy, target=start, size=size)
        return self.submit(lambda to, _: self.functions["vkCmdCopyBuffer"](to, *handles, 1, c.byref(region)))

    def barrier(self, commands: int) -> None:
        """Let what follows see all that was written before."""
        both, reads = api.ALL_COMMANDS | api.HOST, api.MEMORY_READ | api.MEMORY_WRITE
        seen = structure(api.MemoryBarrier, source=api.MEMORY_WRITE, target=reads)
        self.functions["vkCmdPipelineBarrier"](commands, both, both, 0, 1, c.byref(seen), 0, None, 0, None)

    def sync(self) -> None:
        """Wait until all submissions are finished."""
        self.wait(self.submitted)

    def is_done(self, mark: int | None) -> bool:
        """Whether a submission is finished."""
        if mark is not None and mark > self._finished:
            value = c.c_uint64()
            self.call("vkGetSemaphoreCounterValue", self.handle, self._semaphore, c.byref(value))
            self._finished = max(self._finished, value.value)
        return mark is None or mark <= self._finished

    def wait(self, mark: int | None) -> None:
        """Wait for a submission."""
        if mark is None or mark <= self._finished:
            return
        info = structure(
            api.SemaphoreWait, count=1, semaphores=c.c_uint64(self._semaphore), values=c.c_uint64(mark)
        )
        self.call("vkWaitSemaphores", self.handle, c.byref(info), api.FOREVER)
        self._finished = max(self._finished, mark)
