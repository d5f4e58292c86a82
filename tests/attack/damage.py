"""Files that are damaged: flipped bits, cuts, holes, and bytes behind the end."""

from __future__ import annotations

import random
from pathlib import Path

from .material import track
from .room import COMPILING, Room, number_up_to

ENDS = 400  # bytes at each end that are hit more often: headers and checks are there
# file -> the clean run that reads it, and the argument in whose place it is given
INPUTS = {
    "dwi.nii.gz": ("boot", "dwi.nii.gz"), "mask.nii.gz": ("boot", "mask.nii.gz"), "dwi.nii": ("boot", "dwi.nii.gz"),
    "mask.nii": ("boot", "mask.nii.gz"), "dwi.bval": ("boot", "dwi.bval"), "dwi.bvec": ("boot", "dwi.bvec"),
    "peaks.nii.gz": ("det", "peaks.nii.gz"), "stop.nii.gz": ("det", "stop.nii.gz"),
    "peaks.nii": ("det", "peaks.nii.gz"), "stop.nii": ("det", "stop.nii.gz"),
    "seeds.npy": ("det", "seeds.npy"), "seeds.txt": ("det", "seeds.npy"), "mask.mif": ("boot", "mask.nii.gz"),
    "peaks.mif": ("det", "peaks.nii.gz"), "stop.mif": ("det", "stop.nii.gz"), "stop.mif.gz": ("det", "stop.nii.gz"),
    "dwi.mif.gz": ("boot", "dwi.nii.gz"),
}
TEXT = (".bval", ".bvec", ".txt")


def packed(rng: random.Random, room: Room) -> list[str]:
    """Damage a compressed image, whose check sum tells."""
    return _input(rng, room, [name for name in INPUTS if name.endswith(".gz")])


def plain(rng: random.Random, room: Room) -> list[str]:
    """Damage an image, a table or seeds that have no check sum."""
    return _input(rng, room, [name for name in INPUTS if not name.endswith(".gz")])


def _input(rng: random.Random, room: Room, names: list[str]) -> list[str]:
    name = rng.choice(names)
    run, original = INPUTS[name]
    path = room.inputs / name
    whole = path.read_bytes()
    how = damage(rng, path)
    room.did.append(f"{how} {name}")
    arguments = [name if argument == original else argument for argument in track(run, "../out/a.trx")]
    outcome = room.run(arguments)
    return room.faults(outcome, run if _must_tell(path, how, whole) else None)


def _must_tell(path: Path, how: str, whole: bytes) -> bool:
    """Whether the file shows that it is damaged, or says the same as before."""
    if path.suffix in TEXT:
        return path.read_bytes().split() == whole.split()
    return path.suffix == ".gz" or how.startswith("cut")


def record(rng: random.Random, room: Room) -> list[str]:
    """Damage the record of an older tractogram that is to be replaced."""
    for suffix in (".trx", ".json"):
        (room.out / f"a{suffix}").write_bytes((room.material / "out" / f"det{suffix}").read_bytes())
    path = room.out / rng.choice(("a.trx", "a.json"))
    room.did.append(f"{damage(rng, path)} {path.name}")
    return room.faults(room.track("det", "--force"), "det")


def tables(rng: random.Random, room: Room) -> list[str]:
    """Damage what --cache-dir keeps."""
    run = rng.choice(("boot", "det"))
    path = rng.choice(sorted(path for path in room.copy("tables").iterdir()))
    room.did.append(f"{damage(rng, path)} {path.name.split('-')[0]}")
    return room.faults(room.track(run, "--cache-dir", "../tables"), run)


def kernels(rng: random.Random, room: Room) -> list[str]:
    """Damage compiled kernels, or the text that they are compiled from."""
    path = rng.choice(sorted(path for path in room.copy("cache").rglob("*.*") if path.is_file()))
    room.did.append(f"{damage(rng, path)} {path.name}")
    return room.faults(room.track("det", limit=COMPILING), "det")


def damage(rng: random.Random, path: Path) -> str:
    """Damage a file; say how."""
    content = bytearray(path.read_bytes())
    place = _place(rng, len(content))
    end = min(len(content), place + number_up_to(rng, 1024))
    how = rng.choice(("flip", "flip", "flip", "cut", "hole", "gap", "more"))
    if how == "flip":
        bits = [(_place(rng, len(content)), rng.randrange(8)) for _ in range(number_up_to(rng, 4))]
        for byte, bit in bits:
            content[byte] ^= 1 << bit
        how = "flip " + ", ".join(f"bit {bit} of byte {byte}" for byte, bit in bits) + " of"
    elif how == "cut":
        del content[place:]
        how = f"cut at byte {place}"
    elif how == "hole":
        content[place:end] = bytes(end - place)
        how = f"zeros from byte {place} to {end} of"
    elif how == "gap":
        del content[place:end]
        how = f"without bytes {place} to {end}"
    else:
        content += rng.randbytes(number_up_to(rng, 1024))
        how = "bytes behind the end of"
    path.write_bytes(content)
    return how


def _place(rng: random.Random, size: int) -> int:
    near = min(size, ENDS)
    return rng.choice((rng.randrange(size), rng.randrange(size), rng.randrange(near), size - 1 - rng.randrange(near)))
