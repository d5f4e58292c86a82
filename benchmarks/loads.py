"""How long one load takes on a GPU: each address comes from the load before it.

    python benchmarks/loads.py [--archs cuda,vulkan] [--out FILE]

One team follows a chain through an array that the first cache holds, and through one that only the second one holds:
alone, with a barrier after each load, and with a store after each. The time of a load is the difference between a long
and a short chain.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from records import write_record

SIZES = {"first cache": 1 << 12, "second cache": 1 << 24}  # bytes
SHORT, LONG = 1_000, 101_000  # loads
KERNEL = """
import taichi as ti

INTS = ti.types.ndarray(dtype=ti.i32, ndim=1)


@ti.kernel
def follow(loads: ti.i32, chain: INTS, out: INTS):
    ti.loop_config(block_dim=32)
    for lane in range(32):
        place = lane
        for turn in range(loads):
            place = chain[place]
            {then}
        out[lane] = place
"""
THEN = {"alone": "pass", "barrier": "ti.simt.block.sync()", "store": "out[32 + lane + 32 * (turn & 7)] = place"}


def measured(arch: str) -> Iterator[dict[str, Any]]:
    """Time a load of each kind on an arch, in a process that starts Taichi for it."""
    import taichi as ti

    from tistreamlines.linker.store import load

    ti.init(arch=getattr(ti, arch), log_level=ti.ERROR, offline_cache=False)
    for then, line in THEN.items():
        kernel = load(KERNEL.format(then=line), fresh=True).follow
        for where, size in SIZES.items():
            count = size // 4
            chain, out = ti.ndarray(ti.i32, count), ti.ndarray(ti.i32, 512)
            apart = 32 if where == "first cache" else 32 * 1001  # the next address lies far away
            chain.from_numpy(((np.arange(count) + apart) % count).astype(np.int32))
            seconds = {}
            for loads in (SHORT, LONG):
                kernel(loads, chain, out)
                ti.sync()
                begun = time.perf_counter()
                kernel(loads, chain, out)
                ti.sync()
                seconds[loads] = time.perf_counter() - begun
            nanoseconds = (seconds[LONG] - seconds[SHORT]) / (LONG - SHORT) * 1e9
            yield {"arch": arch, "then": then, "from": where, "nanoseconds": round(nanoseconds, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--archs", default="cuda,vulkan")
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.alone:
        for row in measured(options.alone):
            print(json.dumps(row), flush=True)
        return
    rows = []
    for arch in options.archs.split(","):
        command = [sys.executable, __file__, "--alone", arch]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        rows += [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
    for row in rows:
        print(f"{row['arch']:>8} {row['then']:>8} {row['from']:>13} {row['nanoseconds']:7.1f} ns a load")
    if options.out:
        write_record(options.out, rows=rows)


if __name__ == "__main__":
    main()
