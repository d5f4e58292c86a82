"""The computer of a benchmark: processor, memory, devices and versions."""

from __future__ import annotations

import platform

from ..aliases import Json
from ..backends import compiler_told
from ..devices import list_devices, usable_cores
from ..run.record import versions


def machine() -> Json:
    """Return processor, memory, devices and versions, as in the schema."""
    devices = [device for device in list_devices() if device.available]
    cpu = next((device for device in devices if device.on_host), None)
    return {
        "cpu": cpu.name if cpu else platform.processor(), "cores": usable_cores(),
        "memory_bytes": cpu.memory_bytes if cpu else None, "system": f"{platform.system()} {platform.machine()}",
        "devices": [
            {"arch": d.arch, "name": d.name, "driver": d.driver, "memory_bytes": d.memory_bytes, "software": d.software,
             **compiler_told(d)} for d in devices
        ],
        "versions": versions(),
    }
