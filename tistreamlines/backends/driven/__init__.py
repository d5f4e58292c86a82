"""GPUs that are driven without Taichi's runtime: Taichi compiles in another process, and its kernels run here.

A run whose kernels are in the cache does not import Taichi. Several runs and devices do not disturb each other, and a
lost device is an error like any other, since each code of the driver is checked. The host waits for a copy while later
kernels run. This needs the release of Taichi that was tried, since that tells where arguments are, and for Vulkan
version 1.2 with addresses of buffers, timeline semaphores and 64-bit integers. The programs of ``backends/taichi``
drive all other devices, with the same bits. ``docs/measurements.md`` says what is gained.
"""
