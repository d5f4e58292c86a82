"""Weights of streamlines that nobody should give, and streamlines without points or with points that repeat."""

from __future__ import annotations

import random
from typing import Any

from .material import LABELS
from .products import DONE, EITHER, REFUSED
from .room import Room
from .tractograms import lines_of

# what becomes of some weights, written as text -> exit codes
ODD: dict[str, tuple[int, ...]] = {
    "inf": REFUSED, "-inf": REFUSED, "nan": REFUSED, "-1": REFUSED, "-1e-300": REFUSED, "1e300": REFUSED,
    "1e400": REFUSED, "1e31": REFUSED, "one": REFUSED, "1.5.2": REFUSED, "0x10": REFUSED, "1e-400": DONE,
    "5e-324": DONE, "1e-30": DONE, "-0": DONE, "0": DONE, "1e9": DONE, "1e25": EITHER, "": REFUSED, "1 1": REFUSED,
    "²": REFUSED, "1_0": EITHER, "9" * 400: REFUSED, "\x00": REFUSED,
}
KINDS = ("count", "direction", "length", "mean-length")
GRID = ("--density-grid", "stop.nii.gz")


def files(rng: random.Random, room: Room) -> list[str]:
    """Give a weight, all weights or a file that is odd; maps and matrices are from 0 on and finite."""
    lines = lines_of(room)
    _write(room, "odd.tck", lines)
    weights = [f"{10 ** rng.uniform(-3, 1):.9g}" for _ in lines]
    how = rng.choice(("odd", "odd", "size", "bytes", "zeros"))
    codes = DONE
    if how == "odd":
        text = rng.choice(sorted(ODD))
        weights[rng.randrange(len(weights))], codes = text, ODD[text]
        room.did.append(f"a weight of {text[:20]!r}")
    elif how == "size":
        size = rng.uniform(-40, 40)
        weights = [f"{float(weight) * 10**size:.9g}" for weight in weights]
        codes = DONE if -26 < size < 26 else EITHER
        room.did.append(f"weights of the size 1e{size:.1f}")
    elif how == "zeros":
        weights = ["0"] * len(weights)
    text = rng.choice(("\n", " ", ",", "\r\n")).join(weights)
    content = text.encode() if how != "bytes" else bytes(rng.randrange(256) for _ in range(rng.randrange(2000)))
    (room.inputs / "w.txt").write_bytes(content)
    outcome = room.run(_map(rng, "odd.tck", ""))
    faults = room.faults(outcome, codes=codes if how != "bytes" else EITHER, name="c.csv")
    return faults + (_below_zero(room) if outcome.code == 0 else [])


def streamlines(rng: random.Random, room: Room) -> list[str]:
    """Put streamlines without points among others, and repeat points: only the places of streamlines change."""
    import numpy as np

    lines = lines_of(room)
    weights = [f"{10 ** rng.uniform(-3, 1):.9g}" for _ in lines]
    seed = rng.randrange(2**32)
    for end, changed in (("", False), ("2", True)):
        pairs_of = [(line, weight) for line, weight in zip(lines, weights, strict=True)]
        if changed:
            for _ in range(rng.randrange(4)):
                place, count = rng.choice((0, len(pairs_of), rng.randrange(len(pairs_of)))), rng.choice((1, 2, 40))
                pairs_of[place:place] = [(lines[0][:0], "3")] * count
                room.did.append(f"{count} streamlines without points before {place}")
            for _ in range(rng.randrange(5)):
                k = rng.randrange(len(pairs_of))
                line, weight = pairs_of[k]
                again = np.random.default_rng(seed).integers(1, 4, len(line))
                pairs_of[k] = np.repeat(line, again, axis=0), weight
                room.did.append(f"points of streamline {k} repeat")
        _write(room, f"odd{end}.tck", [line for line, _ in pairs_of])
        (room.inputs / f"w{end}.txt").write_text("\n".join(weight for _, weight in pairs_of))
        command = _map(random.Random(seed), f"odd{end}.tck", end)
        outcome = room.run(command)
        if faults := room.faults(outcome, codes=DONE, name=f"c{end}.csv"):
            return faults
    # but for rounding: units depend on the sum of all weights
    pairs = zip(_values(room, ""), _values(room, "2"), strict=True)
    return [f"another {name}" for (name, values), (_, other) in pairs if not np.allclose(values, other, 1e-6, 1e-9)]


def _map(rng: random.Random, name: str, end: str) -> list[str]:
    """Return a command that makes weighted matrices and maps."""
    measure = rng.choice(("count", "length", "inverse-length"))
    kind, threads = rng.choice(KINDS), rng.choice("12")
    return ["map", name, "--weights", f"w{end}.txt", "--connectome", LABELS, f"../out/c{end}.csv",
            "--connectome-measure", measure, "--ends", f"../out/e{end}.nii", "--density", f"../out/d{end}.nii",
            "--density-kind", kind, *GRID, "--threads", threads]


def _values(room: Room, end: str) -> list[tuple[str, Any]]:
    """Return what was written, by the name of the file."""
    import nibabel as nib
    import numpy as np

    maps = [(f"{name}{end}.nii", np.asarray(nib.load(room.out / f"{name}{end}.nii").dataobj)) for name in "de"]
    return [(f"c{end}.csv", np.loadtxt(room.out / f"c{end}.csv", delimiter=",")), *maps]


def _below_zero(room: Room) -> list[str]:
    """What is wrong with the values that were written."""
    import numpy as np

    held = _values(room, "")
    wrong = [name for name, values in held if not np.isfinite(values).all()]
    return [f"{name} is not finite" for name in wrong] + [
        f"{name} is below 0" for name, values in held if (values < 0).any() and name not in wrong
    ]


def _write(room: Room, name: str, lines: list[Any]) -> None:
    """Write a .tck, also streamlines without points, which libraries leave out."""
    import numpy as np

    rows = [np.concatenate([line, np.full((1, 3), np.nan)]) for line in lines]
    points = np.concatenate([*rows, np.full((1, 3), np.inf)]).astype("<f4")
    head = f"mrtrix tracks\ndatatype: Float32LE\ncount: {len(lines)}\nfile: . 128\nEND\n".encode()
    (room.inputs / name).write_bytes(head.ljust(128, b"\n") + points.tobytes())
