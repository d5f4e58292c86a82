"""Values, files and headers that nobody should give."""

from __future__ import annotations

import gzip
import os
import random
import struct
from pathlib import Path

from .material import MIF_OFFSET, track
from .room import WRONG_USE, Room, number_up_to

NUMBERS = (
    "0", "-1", "1", "2", "0.5", "-0", "nan", "inf", "-inf", "1e308", "-1e308", "1e-300", "1e-45", "1e400", "0x10",
    "1_0", "2147483648", "4294967295", "4294967296", "18446744073709551615", "18446744073709551616", "9" * 5000, "٣",
    "½", "0.002k", "2e-6M", "1kk", "k", "1,5", "1e", "5vox", "1e-300vox", "nanvox", "infvox", "-1vox", "vox",
)
WORDS = (
    "", " ", "-", "--", "no such word", "\n", "é", "\udcff", "a\0b", "x" * 300, "x" * 100_000, "\x1b[31m", "%s{}",
    "[bold]", "FACT", "iFOD2", "dti", "Binary",
)
BALLS = (
    "30,20,20,5", "30,20,20,1e5", "1e300,0,0,1e300", "0,0,0,1e-300", "nan,0,0,1", "0,0,0,inf", "0,0,0", "0,0,0,1,2",
    ",,,", "1;2;3;4", "0 0 0 1", "-9e5,0,0,1e6",
)
NAMES = (
    "", ".", "..", "/", "../out", "../out/", ".trx", "../out/b.trx", "../out/b.TRX", "../out/b.trk", "../out/b.tck",
    "../out/b.trx.gz", "../out/b", "../out/b.json", "../out/é.trx", "../out/\udcff.trx", "../out/a\nb.trx",
    "../out/ .trx", "../out/a\0b.trx", "../out/" + "x" * 300 + ".trx", "../out/" + "x" * 245 + ".trx",
    "../out/" + "é" * 126 + ".trx", "../out/" + "y/" * 3000 + "a.trx",
    "../none/a.trx", "dwi.nii.gz", "dwi.nii.gz/a.trx", "/dev/null", "/dev/full",
    "/proc/a.trx", "~/a.trx", "../out/[bold].trx", "../out/\x1b[31m.trx", "-.trx",
)
# valid values of these make other kernels, or another machine's; they are given wrong ones alone
COMPILED = {
    "dg", "model", "sphere", "arch", "exact", "boot_rule", "negative_odf", "pmf_rows", "det_rule", "probe_rule",
    "probe_quality", "probe_count", "asymmetric", "sh_order", "angular_weight", "max_directions",
}
PLACES = {
    "boot": ("dwi.nii.gz", "dwi.bval", "dwi.bvec", "mask.nii.gz"), "det": ("peaks.nii.gz", "stop.nii.gz", "seeds.npy"),
}
SUFFIXES = ("", ".nii", ".nii.gz", ".npy", ".txt", ".bval", ".mif", ".gii", ".trx", ".img", ".hdr")
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/proc/self/mem", "/proc/self/status", "/dev/fd/0", "/dev/fd/99")
KINDS = ("input", "bytes", "empty", "text", "gzip", "device", "loop", "pipe", "folder", "json", "zip", "copy")
ARRAYS = ("f2", "f4", ">f8", "f8", "i1", "u8", "c16", "?", "O", "U3", "S2", "V4", "M8[s]", "m8[s]", "f8,f8,f8")
SHAPES = ((3,), (0, 3), (5, 3), (5, 4), (3, 5), (5, 3, 1), (), (1, 3), (5, 6))
# NIfTI-1: name -> place in the header, and how numbers are packed there
FIELDS = {
    "sizeof_hdr": (0, "i"), "dim[0]": (40, "h"), "dim[1]": (42, "h"), "dim[2]": (44, "h"), "dim[3]": (46, "h"),
    "dim[4]": (48, "h"), "dim[5]": (50, "h"), "intent_code": (68, "h"), "datatype": (70, "h"), "bitpix": (72, "h"),
    "pixdim[0]": (76, "f"), "pixdim[1]": (80, "f"), "pixdim[2]": (84, "f"), "pixdim[3]": (88, "f"),
    "vox_offset": (108, "f"), "scl_slope": (112, "f"), "scl_inter": (116, "f"), "xyzt_units": (123, "B"),
    "qform_code": (252, "h"), "sform_code": (254, "h"), "quatern_b": (256, "f"), "quatern_c": (260, "f"),
    "qoffset_x": (268, "f"), "srow_x[0]": (280, "f"), "srow_x[3]": (292, "f"), "srow_y[1]": (300, "f"),
    "srow_z[2]": (320, "f"), "magic": (344, "4s"), "extension": (348, "4s"),
}
EXTREMES = {
    "h": (0, 1, -1, 2, 3, 4, 16, 64, 128, 512, 1280, 1536, 2304, 32767, -32768),
    "i": (0, 1, 348, 540, -1, 1543569408),
    "f": (0.0, -0.0, 1.0, -1.0, 1e-38, 1e-45, 3e38, -3e38, float("nan"), float("inf"), 352.0, 353.5, 1e9),
    "B": (0, 1, 2, 3, 255),
    "4s": (b"n+1\0", b"ni1\0", b"n+2\0", b"\0\0\0\0", b"\1\0\0\0", b"abcd"),
}
MIF_VALUES = (
    "18,22,17", "18,22,17,34", "0,22,17,34", "999999999,1,1,1", "1,1,1,1", "-0,-1,-2,+3", "+3,-0,+1,+2", "+0,+1,+2",
    "+0,+0,+1", "Bit", "Int8", "CFloat64LE", "Float64BE", "UInt64LE", "variable", "0,0", "1e300,1e300", "8,8,8", "nan",
    "1,0,0,0", "0,0,0,0", ". 0", ". 999999999", "mask.nii", "../in/dwi.nii 352", "/dev/zero", "/dev/null 1", ".", "..",
)
# values that change something wherever the option has an effect, of options with which no kernels are compiled
TELLING = {
    "mask": "stop.nii.gz", "seed_mask": "stop.nii.gz", "seed_image": "stop.nii.gz", "seed_sphere": "30,20,20,30",
    "seed_gmwmi": "dwi.nii.gz",
    "seeds": "seeds.txt", "nseeds": "17", "seeds_per_voxel": "1", "seed_grid": "1", "seed_seed": "5", "rng_seed": "5",
    "select": "7", "max_seeds": "9", "time_limit": "1e-9", "part": "1/3", "stop_map": "pve_wm.nii.gz",
    "stop_threshold": "0.99", "fa_threshold": "0.6", "stop_mask": "mask.nii.gz", "pve_wm": "stop.nii.gz",
    "include_map": "stop.nii.gz", "pft_back": "4", "pft_front": "4", "pft_max_trial": "2", "bvecs_frame": "fsl",
    "sm_lambda": "0.5", "shells": "777", "min_signal": "1e4", "fa_response": "0.5", "csd_lambda": "0.1",
    "response": "1e-3,5e-4,5e-4,9",
    "relative_peak_threshold": "0.95", "min_separation_angle": "90",
    "probe_length": "3", "probe_radius": "1", "data_support_exponent": "3",
    "angular_weight": "0.7", "sh_basis": "tournier07", "sh_frame": "voxel", "pmf_rows": "sampled", "max_angle": "2",
    "step_size": "1.3mm", "max_steps": "2", "min_length": "100", "max_length": "20", "too_long": "truncate",
    "include_ordered": "30,20,20,9", "devices": "0",
}
# but these leave this material as it is: one fibre in each voxel, axes that no reading changes, the same seeds as text
BY_DATA = {"det": ("seeds", "relative_peak_threshold", "min_separation_angle", "max_angle"), "boot": ("bvecs_frame",)}
BESIDE = ((), (), ("--select", "11"), ("--max-steps", "40"), ("--min-length", "9"), ("--step-size", "3mm"))


def idle(rng: random.Random, room: Room) -> list[str]:
    """Give an option that changes the streamlines or is refused, beside others."""
    run, beside = rng.choice(("boot", "det")), rng.choice(BESIDE)
    name = rng.choice(sorted(set(TELLING) - set(BY_DATA[run])))
    flag = "--" + name.replace("_", "-")
    if flag in beside:
        beside = ()
    faults = room.faults(room.run([*track(run, "../out/b.trx"), *beside]))
    arguments = track(run, "../out/a.trx")
    if flag in arguments:
        place = arguments.index(flag)
        del arguments[place : place + 2]
    done = room.run([*arguments, *beside, flag, TELLING[name]])
    faults += room.faults(done)
    if done.code == 0 and room.digest("a.trx") == room.digest("b.trx"):
        faults.append(f"{flag} changes nothing, in silence")
    return faults


def options(rng: random.Random, room: Room) -> list[str]:
    """Give options values that they cannot take, and some that they can."""
    from tistreamlines.options import parameters

    known = parameters.options()
    words: list[str] = []
    for name in rng.sample(sorted(known), number_up_to(rng, 4)):
        kind = parameters.kind(name)
        if kind == "flag":
            words.append(parameters.flag(name) + ("" if name not in COMPILED else rng.choice(("=", "=1", "=x"))))
        else:
            words += [parameters.flag(name), _value(rng, name, kind, known[name].choices)]
    output = rng.choice(NAMES) if rng.random() < 0.3 else "../out/a.trx"
    arguments = [*track(rng.choice(("boot", "det")), output), *words]
    if rng.random() < 0.1:
        arguments.insert(rng.randrange(1, len(arguments)), rng.choice(WORDS + NUMBERS))
    return room.faults(room.run(arguments))


def _value(rng: random.Random, name: str, kind: str, choices: tuple[str, ...]) -> str:
    if kind == "path" or (name == "response" and rng.random() < 0.5):
        return rng.choice((*NAMES, *WORDS, "dwi.nii.gz", "mask.nii.gz", "seeds.npy", "dwi.bval"))
    if kind == "list":
        return rng.choice((*WORDS, *BALLS))
    if name in COMPILED:
        return rng.choice((*WORDS, "nan", "-1", "1e308"))
    fitting = NUMBERS if name != "nseeds" else [number for number in NUMBERS if not number.startswith(("2147", "4294"))]
    return rng.choice((*WORDS, *fitting, *fitting, *choices))


def gradients(rng: random.Random, room: Room) -> list[str]:
    """Put gradients beside the series as programs name them: what is clear is taken, what is not is refused."""
    clear = True
    for kind in ("bval", "bvec"):
        whole = (room.inputs / f"dwi.{kind}").read_bytes()
        (room.inputs / f"dwi.{kind}").unlink()
        names = [name for name in (f"dwi.{kind}", f"dwi.{kind}s", f"{kind}s") if rng.random() < 0.6]
        contents = [whole if rng.random() < 0.9 else whole[: rng.randrange(len(whole))] for _ in names]
        for name, content in zip(names, contents, strict=True):
            (room.inputs / name).write_bytes(content)
            room.did.append(f"{name} of {len(content)} bytes")
        clear &= set(contents) == {whole}
    arguments = [word for word in track("boot", "../out/a.trx") if word not in ("dwi.bval", "dwi.bvec")]
    outcome = room.run(arguments)
    return room.faults(outcome, "boot", codes=(0,)) if clear else room.faults(outcome, codes=(1,))


def rules(rng: random.Random, room: Room) -> list[str]:
    """Give the files of two stopping rules: the error names both options, whatever the getter."""
    files = {"--stop-map": "stop.nii.gz", "--stop-mask": "mask.nii.gz", "--act": "mask.nii.gz", "--pve": "mask.nii.gz"}
    first, other = rng.sample(sorted(files), 2)
    getter = rng.choice(("boot", "prob", "det", "ptt", "ifod1", "ifod2", "sd_stream"))
    room.did.append(f"{first} and {other} with {getter}")
    words = [first, files[first], other, files[other]]
    outcome = room.run(["track", "dwi.nii.gz", "--dg", getter, *words, "-o", "../out/a.trx"])
    silent = [] if first in outcome.err and other in outcome.err else ["names not both"]
    return room.faults(outcome, codes=(WRONG_USE,)) + silent


def kinds(rng: random.Random, room: Room) -> list[str]:
    """Give a file of another kind."""
    run = rng.choice(sorted(PLACES))
    arguments = track(run, "../out/a.trx")
    for place in rng.sample(PLACES[run], number_up_to(rng, 2)):
        arguments[arguments.index(place)] = _other(rng, room)
    return room.faults(room.run(arguments))


def _other(rng: random.Random, room: Room) -> str:
    """Name another file, which may have to be made first."""
    copy = room.inputs / f"other{rng.choice(SUFFIXES)}"
    how = rng.choice(("input", "input", *KINDS))
    if how == "input":
        return rng.choice(sorted(path.name for path in room.inputs.iterdir()))
    if how == "device":
        return rng.choice(DEVICES)
    if copy.exists() or copy.is_symlink():
        return copy.name
    if how == "loop":
        copy.symlink_to(copy)
    elif how == "pipe":
        os.mkfifo(copy)
    elif how == "folder":
        copy.mkdir()
    else:
        copy.write_bytes(_content(rng, room, how))
    return copy.name


def _content(rng: random.Random, room: Room, how: str) -> bytes:
    if how in ("json", "zip"):
        return (room.material / "out" / {"json": "det.json", "zip": "det.trx"}[how]).read_bytes()
    if how == "copy":
        return (room.inputs / rng.choice(PLACES["boot"])).read_bytes()
    if how == "text":
        numbers = rng.choice((1, 3, 34))
        lines = [" ".join(rng.choices(NUMBERS + WORDS[:8], k=numbers)) for _ in range(number_up_to(rng, 34))]
        return "\n".join(lines).encode(errors="surrogateescape")
    content = b"" if how == "empty" else rng.randbytes(number_up_to(rng, 4096))
    return gzip.compress(content) if how == "gzip" else content


def headers(rng: random.Random, room: Room) -> list[str]:
    """Set fields of an image's header to extremes."""
    run = rng.choice(sorted(PLACES))
    place = rng.choice([name for name in PLACES[run] if name.endswith(".nii.gz")])
    content = bytearray((room.inputs / place).with_suffix("").read_bytes())
    for name in rng.sample(sorted(FIELDS), number_up_to(rng, 5)):
        start, form = FIELDS[name]
        value = rng.choice(EXTREMES[form])
        content[start : start + struct.calcsize(form)] = struct.pack("<" + form, value)
        room.did.append(f"{name} of {place} is {value!r}")
    _replace(room.inputs / place, bytes(content))
    return room.faults(room.track(run))


def mif_headers(rng: random.Random, room: Room) -> list[str]:
    """Change, leave out or repeat lines of a header of MRtrix3's format."""
    run, original = rng.choice((("boot", "dwi.nii.gz"), ("boot", "mask.nii.gz"), ("det", "peaks.nii.gz"),
                                ("det", "stop.nii.gz")))
    name = original.replace(".nii.gz", rng.choice((".mif", ".mif.gz")))
    whole = (room.inputs / original.replace(".nii.gz", ".mif")).read_bytes()
    lines = whole[: whole.index(b"\nEND\n")].decode().split("\n")
    for _ in range(number_up_to(rng, 4)):
        place = rng.randrange(len(lines))
        key = lines[place].partition(":")[0]
        lines[place : place + 1] = rng.choice(([], [lines[place]] * 2, [_odd_line(rng, key, lines[place])]))
        room.did.append(f"{key} of {name} becomes {[line[:60] for line in lines[place : place + 1]]}")
    text = "\n".join([*lines, "END", ""]).encode(errors="surrogateescape")
    _replace(room.inputs / name, text.ljust(MIF_OFFSET, b"\0") + whole[MIF_OFFSET:])
    arguments = [name if argument == original else argument for argument in track(run, "../out/a.trx")]
    if name.startswith("dwi"):
        arguments = [argument for argument in arguments if argument not in ("dwi.bval", "dwi.bvec")]
    return room.faults(room.run(arguments))


def _odd_line(rng: random.Random, key: str, line: str) -> str:
    """A line with other words after its key: of other lines, or with one number replaced."""
    words = line.partition(":")[2].split(",")
    words[rng.randrange(len(words))] = rng.choice((*NUMBERS, *WORDS))
    return f"{key}: " + rng.choice((",".join(words), rng.choice(MIF_VALUES), rng.choice(WORDS)))


def tables(rng: random.Random, room: Room) -> list[str]:
    """Put odd words into b-values, directions or seeds."""
    name = rng.choice(("dwi.bval", "dwi.bvec", "seeds.txt"))
    lines = [line.split(" ") for line in (room.inputs / name).read_text().splitlines()]
    for _ in range(number_up_to(rng, 4)):
        line = rng.choice(lines)
        word = rng.choice((*NUMBERS, "", " ", "\t", "\r", "\ufeff", "#", "\0", "é", "\udcff"))
        line[rng.randrange(len(line))] = word
        room.did.append(f"{word[:20]!r} in {name}")
    text = rng.choice(("\n", "\r\n", "\r")).join(rng.choice((" ", "\t", ",", "  ")).join(line) for line in lines)
    (room.inputs / name).write_bytes(text.encode(errors="surrogateescape"))
    run = "det" if name == "seeds.txt" else "boot"
    arguments = [name if argument == "seeds.npy" else argument for argument in track(run, "../out/a.trx")]
    return room.faults(room.run(arguments))


def arrays(rng: random.Random, room: Room) -> list[str]:
    """Give seeds of odd types, shapes and values."""
    import numpy as np

    values = np.zeros(rng.choice(SHAPES), rng.choice(ARRAYS), order=rng.choice(("C", "F")))
    if values.dtype.kind == "f":
        with np.errstate(over="ignore"):
            values[...] = rng.choice((0, 1, 30, 1e4, 1e30, 1e300, np.nan, np.inf, -1e300))
    np.save(room.inputs / "seeds.npy", values, allow_pickle=True)
    room.did.append(f"seeds {values.dtype} {values.shape} of {values.flat[0] if values.size else 'nothing'}")
    return room.faults(room.track("det"))


def strides(rng: random.Random, room: Room) -> list[str]:
    """Store the stop map along other axes or in other senses: the result has to be the same."""
    import nibabel as nib
    import numpy as np

    path = room.inputs / "stop.nii.gz"
    image = nib.load(path)
    axes = rng.sample(range(3), 3)
    order = np.array([[axis, rng.choice((-1, 1))] for axis in axes])
    values = nib.orientations.apply_orientation(np.asanyarray(image.dataobj), order)
    affine = image.affine @ nib.orientations.inv_ornt_aff(order, image.shape)
    _replace(path, nib.Nifti1Image(values, affine).to_bytes())
    room.did.append(f"stop.nii.gz is stored as {order.tolist()}")
    return room.faults(room.track("det"), "det", codes=(0,))


def seed_files(rng: random.Random, room: Room) -> list[str]:
    """Write seeds as spreadsheets and other programs do: what is no table of points with decimal points is refused."""
    path = room.inputs / "seeds.txt"
    lines = [[f"{float(word):.1f}" for word in line.split(" ")] for line in path.read_text().splitlines()]
    how, between = rng.choice(("plain", "header", "decimal commas", "semicolons")), rng.choice((" ", "\t", ", "))
    words = [[word.replace(".", ",") for word in line] if how == "decimal commas" else line for line in lines]
    text = "\n".join((";" if how == "semicolons" else between).join(line) for line in words)
    path.write_text(rng.choice(("x y z\n", "x,y,z\n", "Seeds of the left\n")) + text if how == "header" else text)
    room.did.append(f"seeds.txt: {how}, {between!r}")
    arguments = ["seeds.txt" if argument == "seeds.npy" else argument for argument in track("det", "../out/a.trx")]
    outcome = room.run(arguments)
    return room.faults(outcome, "det" if how == "plain" else None, codes=(0,) if how == "plain" else (1,))


def _replace(path: Path, content: bytes) -> None:
    """Write bytes under a name, packed if the name says so."""
    os.unlink(path)  # noqa: PTH108
    path.write_bytes(gzip.compress(content, 1) if path.suffix == ".gz" else content)
