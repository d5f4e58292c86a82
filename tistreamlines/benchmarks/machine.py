"""What results were found on: processor, memory, devices, versions, commit."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

from ..backends.devices import list_devices, usable_cores
from ..run.record import versions


def machine() -> dict[str, Any]:
    """Processor, memory, devices and versions."""
    found = [device for device in list_devices() if device.available]
    cpu = next((device for device in found if device.arch == "cpu"), None)
    return {
        "cpu": cpu.name if cpu else platform.processor(), "cores": usable_cores(),
        "memory_bytes": cpu.memory_bytes if cpu else None, "system": f"{platform.system()} {platform.machine()}",
        "devices": [
            {"arch": d.arch, "name": d.name, "driver": d.driver, "memory_bytes": d.memory_bytes, "software": d.software}
            for d in found
        ],
        "versions": versions(),
    }  # fmt: skip


def commit() -> str:
    """Commit of the source tree, "" outside one; a changed tree says so."""
    root = Path(__file__).resolve().parents[2]
    try:
        said = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
            check=True, timeout=20,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return said.stdout.strip()
