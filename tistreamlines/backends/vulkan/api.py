"""The part of Vulkan 1.2 that programs need: its structures, through ctypes.

Names and numbers are those of the specification (docs.vulkan.org), without its prefixes.
"""

from __future__ import annotations

from ...devices.gpu import layout

WHOLE, FOREVER = (1 << 64) - 1, (1 << 64) - 1
COMPUTE, ALL_COMMANDS, HOST = 1, 0x10000, 0x4000  # of a queue's abilities; stages of a pipeline
MEMORY_READ, MEMORY_WRITE = 0x8000, 0x10000
BUFFER_USAGE = 0x20000 | 0x20 | 0x10 | 2 | 1  # its address, for kernels, uniform, copied to, copied from
LOCAL, VISIBLE, COHERENT, CACHED = 1, 2, 4, 8  # of memory
UNIFORM_DYNAMIC, STORAGE = 8, 7  # kinds of descriptors

QueueInfo = layout("flags:u32 family:u32 count:u32 priorities:ptr", 2)
DeviceInfo = layout(
    "flags:u32 queue_count:u32 queues:ptr layer_count:u32 layers:ptr extension_count:u32 extensions:ptr features:ptr", 3
)
SubmitInfo = layout(
    "wait_count:u32 waits:ptr stages:ptr command_count:u32 commands:ptr signal_count:u32 signals:ptr", 4
)
MemoryInfo = layout("size:u64 type:u32", 5)
MemoryFlags = layout("flags:u32 mask:u32", 1000060000)
SemaphoreInfo = layout("flags:u32", 9)
SemaphoreType = layout("type:u32 value:u64", 1000207002)
SemaphoreValues = layout("wait_count:u32 waits:ptr signal_count:u32 signals:ptr", 1000207003)
SemaphoreWait = layout("flags:u32 count:u32 semaphores:ptr values:ptr", 1000207004)
BufferInfo = layout("flags:u32 size:u64 usage:u32 sharing:u32 family_count:u32 families:ptr", 12)
BufferAddress = layout("buffer:u64", 1000244001)
ShaderInfo = layout("flags:u32 size:size code:ptr", 16)
PipelineInfo = layout(
    # the shader's stage is a structure of its own within this one
    "flags:u32 pad:u32 stage_kind:u32 stage_pad:u32 stage_next:ptr stage_flags:u32 stage:u32 shader:u64 entry:text "
    "specialised:ptr layout:u64 base:u64 base_index:u32", 29,
)
LayoutInfo = layout("flags:u32 set_count:u32 sets:ptr range_count:u32 ranges:ptr", 30)
SetBinding = layout("binding:u32 type:u32 count:u32 stages:u32 samplers:ptr")
SetLayoutInfo = layout("flags:u32 count:u32 bindings:ptr", 32)
PoolInfo = layout("flags:u32 most:u32 count:u32 sizes:ptr", 33)
SetInfo = layout("pool:u64 count:u32 layouts:ptr", 34)
SetWrite = layout("set:u64 binding:u32 element:u32 count:u32 type:u32 images:ptr buffers:ptr views:ptr", 35)
SetBuffer = layout("buffer:u64 start:u64 size:u64")
CommandPoolInfo = layout("flags:u32 family:u32", 39)
CommandsInfo = layout("pool:u64 level:u32 count:u32", 40)
BeginInfo = layout("flags:u32 inherited:ptr", 42)
MemoryBarrier = layout("source:u32 target:u32", 46)
BufferCopy = layout("source:u64 target:u64 size:u64")
MemoryNeeds = layout("size:u64 alignment:u64 types:u32")
Features2 = layout(" ".join(f"f{number}:u32" for number in range(55)), 1000059000)
TimelineFeature = layout("able:u32", 1000207000)
AddressFeature = layout("able:u32 replay:u32 multi:u32", 1000257000)

# functions that return at once, and those that return 64 bits
QUICK = ("vkCmd", "vkBeginCommandBuffer", "vkEndCommandBuffer", "vkQueueSubmit", "vkGetSemaphoreCounterValue")
LONG = ("vkGetBufferDeviceAddress",)
