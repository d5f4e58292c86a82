"""The part of Vulkan 1.2 that programs need: its structures, through ctypes.

Names and numbers are those of the specification (docs.vulkan.org), without its prefixes.
"""

from __future__ import annotations

import ctypes as c
from typing import TYPE_CHECKING, ClassVar

from ..faults import understood

TYPES = {"u32": c.c_uint32, "u64": c.c_uint64, "size": c.c_size_t, "f32": c.c_float, "ptr": c.c_void_p, "text": c.c_char_p}
WHOLE, FOREVER = (1 << 64) - 1, (1 << 64) - 1
COMPUTE, ALL_COMMANDS, HOST = 1, 0x10000, 0x4000  # of a queue's abilities; stages of a pipeline
MEMORY_READ, MEMORY_WRITE = 0x8000, 0x10000
BUFFER_USAGE = 0x20000 | 0x20 | 0x10 | 2 | 1  # its address, for kernels, uniform, copied to, copied from
LOCAL, VISIBLE, COHERENT, CACHED = 1, 2, 4, 8  # of memory
UNIFORM_DYNAMIC, STORAGE = 8, 7  # kinds of descriptors


class Structure(c.Structure):
    """A structure of numbers and addresses; ``number`` says what it is, where it begins with that."""

    number: ClassVar[int | None]
    kept: list[object]
    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> int: ...


def _layout(fields: str, kind: int | None = None) -> type[Structure]:
    """Make a structure of fields 'name:type'; one with a ``kind`` begins with it and with a pointer to another one."""
    listed = [tuple(field.split(":")) for field in fields.split()]
    start = [] if kind is None else [("kind", c.c_uint32), ("next", c.c_void_p)]
    members = {"_fields_": [*start, *((name, TYPES[type_]) for name, type_ in listed)], "number": kind}
    return type("Structure", (Structure,), members)


QueueInfo = _layout("flags:u32 family:u32 count:u32 priorities:ptr", 2)
DeviceInfo = _layout(
    "flags:u32 queue_count:u32 queues:ptr layer_count:u32 layers:ptr extension_count:u32 extensions:ptr features:ptr", 3
)
SubmitInfo = _layout(
    "wait_count:u32 waits:ptr stages:ptr command_count:u32 commands:ptr signal_count:u32 signals:ptr", 4
)
MemoryInfo = _layout("size:u64 type:u32", 5)
MemoryFlags = _layout("flags:u32 mask:u32", 1000060000)
SemaphoreInfo = _layout("flags:u32", 9)
SemaphoreType = _layout("type:u32 value:u64", 1000207002)
SemaphoreValues = _layout("wait_count:u32 waits:ptr signal_count:u32 signals:ptr", 1000207003)
SemaphoreWait = _layout("flags:u32 count:u32 semaphores:ptr values:ptr", 1000207004)
BufferInfo = _layout("flags:u32 size:u64 usage:u32 sharing:u32 family_count:u32 families:ptr", 12)
BufferAddress = _layout("buffer:u64", 1000244001)
ShaderInfo = _layout("flags:u32 size:size code:ptr", 16)
PipelineInfo = _layout(
    # the shader's stage is a structure of its own within this one
    "flags:u32 pad:u32 stage_kind:u32 stage_pad:u32 stage_next:ptr stage_flags:u32 stage:u32 shader:u64 entry:text "
    "specialised:ptr layout:u64 base:u64 base_index:u32", 29,
)
LayoutInfo = _layout("flags:u32 set_count:u32 sets:ptr range_count:u32 ranges:ptr", 30)
SetBinding = _layout("binding:u32 type:u32 count:u32 stages:u32 samplers:ptr")
SetLayoutInfo = _layout("flags:u32 count:u32 bindings:ptr", 32)
PoolInfo = _layout("flags:u32 most:u32 count:u32 sizes:ptr", 33)
SetInfo = _layout("pool:u64 count:u32 layouts:ptr", 34)
SetWrite = _layout("set:u64 binding:u32 element:u32 count:u32 type:u32 images:ptr buffers:ptr views:ptr", 35)
SetBuffer = _layout("buffer:u64 start:u64 size:u64")
CommandPoolInfo = _layout("flags:u32 family:u32", 39)
CommandsInfo = _layout("pool:u64 level:u32 count:u32", 40)
BeginInfo = _layout("flags:u32 inherited:ptr", 42)
MemoryBarrier = _layout("source:u32 target:u32", 46)
BufferCopy = _layout("source:u64 target:u64 size:u64")
MemoryNeeds = _layout("size:u64 alignment:u64 types:u32")
Features2 = _layout(" ".join(f"f{number}:u32" for number in range(55)), 1000059000)
TimelineFeature = _layout("able:u32", 1000207000)
AddressFeature = _layout("able:u32 replay:u32 multi:u32", 1000257000)

QUICK = ("vkCmd", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit", "vkGetSemaphoreCounterValue")  # calls that return at once
LONG = ("vkGetBufferDeviceAddress",)


def structure(layout: type[Structure], /, **values: object) -> Structure:
    """Return a structure with values; structures that it points to are kept as long as it is."""
    pointed = {name: c.addressof(value) for name, value in values.items() if isinstance(value, (c.Structure, c.Array))}
    filled = layout(**{"kind": layout.number} if layout.number is not None else {}, **values | pointed)
    filled.kept = [values[name] for name in pointed]
    return filled


def checked(code: int, what: str) -> None:
    """Raise the error that a function's code stands for."""
    if code < 0:
        error = RuntimeError(f"Vulkan error {code} of {what}")
        raise understood(error) or error
