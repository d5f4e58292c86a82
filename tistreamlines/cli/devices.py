"""``tistreamlines devices``."""

from __future__ import annotations

import json

import click

from ..aliases import Json
from ..backends import compiler_told, shares_memory
from ..devices import NUMBERED, Device, choose, list_devices
from .printing import print_table

LINE = 100  # characters of a line below the table
HEADINGS = ("arch", "number", "device", "driver", "memory", "kind", "compiler", "state")


@click.command("devices")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.  [default: a table]")
@click.option("--test", is_flag=True,
        help="Run a small kernel on each GPU and check its results; tracking runs the same test first.  [default: list "
        "what the drivers report]")
def devices(as_json: bool, test: bool) -> int:
    """List the devices that can track here, and why the others cannot. --devices of track takes their numbers.

    The exit code is 0, or 1 if a device fails --test.
    """
    from ..backends.taichi.trial import try_device

    automatic = choose("auto")
    rows = []
    for device in list_devices():
        tried = try_device(device) if test and device.available and not device.on_host else {}
        rows.append((device, device == automatic, tried))
    if as_json:
        click.echo(json.dumps([_record(*row) for row in rows], indent=2))
    else:
        print_table(HEADINGS, [_row(*row) for row in rows], ("number", "memory"))
        click.echo()
        for row in rows:
            if reasons := _state(*row)[1:]:
                click.echo(click.wrap_text(f"{row[0].arch}: {'; '.join(reasons)}", LINE, "", "    "))
    return int(any(tried.get("faults") for _, _, tried in rows))


def _record(device: Device, automatic: bool, tried: Json) -> Json:
    return {**device.as_dict(), "auto": automatic, **_compiler(device), **({"test": tried} if tried else {})}


def _row(device: Device, automatic: bool, tried: Json) -> tuple[str, ...]:
    memory = "" if device.memory_bytes is None else f"{device.memory_bytes / 1e9:.1f} GB"
    sort = "" if not device.available else "software" if device.software else device.kind
    number = str(device.index) if device.available and device.arch in NUMBERED else ""
    compiler, state = _compiler(device).get("compiler", ""), _state(device, automatic, tried)[0]
    return device.arch, number, device.name, device.driver, memory, sort, compiler, state


def _compiler(device: Device) -> dict[str, str]:
    return compiler_told(device) if device.available else {}


def _state(device: Device, automatic: bool, tried: Json) -> list[str]:
    """Return whether a device can track, in few words, and then the reasons and what a test has found."""
    if not device.available:
        return ["cannot run", device.reason]
    words = ["chosen by --arch auto" if automatic else "ready"]
    if device.reason and not automatic:
        words.append(device.reason)
    if tried.get("lied"):
        width = f"not {device.subgroup} wide, as the driver claims"
        words.append(f"teams exchange values in shared memory: subgroups are {width}")
    elif shares_memory(device):
        size = "have an unknown width" if device.subgroup is None else f"are {device.subgroup} wide"
        words.append(f"teams exchange values in shared memory: subgroups {size}")
    if tried:
        words.append(f"fails the test: {', '.join(tried['faults'])}" if tried["faults"] else "passes the test")
    return words
