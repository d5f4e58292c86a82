"""``tistreamlines devices``."""

from __future__ import annotations

import json

import click

from ..backends.devices import Device, choose, list_devices


@click.command("devices", help="Show what can run here, and why the rest cannot.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON instead of a table.  [default: a table]")
def devices(as_json: bool) -> None:
    found = list_devices()
    automatic = choose("auto")
    if as_json:
        rows = [{**device.as_dict(), "auto": device == automatic} for device in found]
        click.echo(json.dumps(rows, indent=2))
        return
    _print_table(found, automatic)


def _print_table(found: list[Device], automatic: Device) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("arch", "device", "driver", "memory", "kind", "state"):
        table.add_column(heading, justify="right" if heading == "memory" else "left", overflow="fold")
    for device in found:
        memory = "" if device.memory_bytes is None else f"{device.memory_bytes / 1e9:.1f} GB"
        sort = "" if not device.available else "software" if device.software else device.kind
        table.add_row(device.arch, device.name, device.driver, memory, sort, _state(device, automatic))
    console = Console(highlight=False)
    if not console.is_terminal:  # a pipe has no width to wrap at
        console = Console(highlight=False, width=400)
    console.print(table)


def _state(device: Device, automatic: Device) -> str:
    if device == automatic:
        return "chosen by --arch auto"
    if device.available:
        return f"ready; {device.reason}" if device.reason else "ready"
    return f"cannot run: {device.reason}"
