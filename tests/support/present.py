"""The devices of this machine, listed once for all test files: to open Vulkan takes a third of a second."""

from tistreamlines.devices import list_devices

AVAILABLE = [device for device in list_devices() if device.available]
PRESENT = {device.arch for device in AVAILABLE}
SOFTWARE = [device for device in AVAILABLE if device.arch == "vulkan" and device.software]
