"""The computer of a benchmark: processor, memory, devices, versions and commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

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


def commit() -> str:
    """Return the commit of the source tree, "" outside of one; it ends with -dirty if files are changed."""
    root = Path(__file__).resolve().parents[2]
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
            check=True, timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip()
