"""Write a series of the Human Connectome Project's size, made up volume by volume, and time how long it takes to read.

    python benchmarks/hcp_series.py FOLDER [--shape 145 174 145] [--gzip] [--read] [--json FILE]

The series is the generated head of three tissues with 18 b0s and three shells of 90 directions, b = 1000, 2000 and
3000, as uint16 in the order of a scanner: ``dwi.nii``, ``dwi.bval``, ``dwi.bvec`` and ``mask.nii.gz``. With ``--gzip``,
there is ``dwi.nii.gz`` too: one member of level 6, as most programs write it. Files that are there stay as they are.

``--read`` reads each in a process of its own, thrice, and prints the least seconds, CPU seconds and greatest memory.
Beside it is what the bytes need: the file is read and unpacked by one thread, and as many float32 are written once.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import zlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nibabel as nib
import numpy as np
from records import write_record

from tistreamlines.devices import usable_cores
from tistreamlines.phantom.phantom import Head, affine_of
from tistreamlines.phantom.shells import S0, SHELLS, Tissues, spread_shells

SIDE_MM, SNR, LEVEL = 181.25, 30.0, 6
LONGEST = 16  # bits
BLOCK = 1 << 24  # bytes
NAMES = ("dwi.nii", "dwi.nii.gz")
READ = ("read_signals", "floor")  # what is timed


def write_series(folder: Path, shape: tuple[int, int, int]) -> None:
    """Write the series volume by volume, its gradients and its mask."""
    folder.mkdir(parents=True, exist_ok=True)
    head, (bvals, bvecs), affine = Head.of(shape), spread_shells(SHELLS, seed=1), affine_of(shape, SIDE_MM / shape[0])
    tissues, noise = Tissues.of(head), np.float32(S0["wm"] / SNR)
    header = nib.Nifti1Header()
    header.set_data_dtype(np.uint16)
    header.set_data_shape((*shape, len(bvals)))
    header.set_sform(affine, "scanner")
    header.set_xyzt_units("mm", "sec")
    header["vox_offset"], header["magic"] = 352, b"n+1"
    header["pixdim"][1:4] = SIDE_MM / shape[0]

    def volume(number: int) -> bytes:
        signal, rng = np.zeros(shape, np.float32), np.random.default_rng((1, number))
        signal[head.mask] = tissues.signals(bvals[number : number + 1], bvecs[number : number + 1])[:, 0]
        parts = [rng.standard_normal(signal.shape, np.float32) * noise for _ in range(2)]
        magnitude = np.hypot(signal + parts[0], parts[1]) * head.mask
        return magnitude.round().clip(0, (1 << LONGEST) - 1).astype("<u2").tobytes(order="F")

    with (folder / "partial.nii").open("wb") as file, ThreadPoolExecutor(usable_cores()) as pool:
        file.write(header.binaryblock.ljust(352, b"\0"))
        file.writelines(pool.map(volume, range(len(bvals))))
    np.savetxt(folder / "dwi.bval", bvals[None], "%g")
    np.savetxt(folder / "dwi.bvec", bvecs.T, "%.8f")
    nib.save(nib.Nifti1Image(head.mask.astype(np.uint8), affine), folder / "mask.nii.gz")
    (folder / "partial.nii").rename(folder / "dwi.nii")


def compress(folder: Path) -> None:
    """Write dwi.nii.gz."""
    packer = zlib.compressobj(LEVEL, wbits=31)
    with (folder / "dwi.nii").open("rb") as file, (folder / "partial.nii.gz").open("wb") as out:
        while block := file.read(BLOCK):
            out.write(packer.compress(block))
        out.write(packer.flush())
    (folder / "partial.nii.gz").rename(folder / "dwi.nii.gz")


def timed(path: Path, what: str) -> dict[str, float]:
    """Read a series in this process; return seconds, CPU seconds and the greatest memory in MB."""
    from tistreamlines.io import ahead, images

    opened = images.open_image(path)
    count = int(np.prod(opened.image.shape))
    begun, before = time.perf_counter(), time.process_time()
    if what == "read_signals":
        images.read_signals(opened.path, opened.image)
    else:
        content = path.read_bytes()
        if path.suffix == ".gz":
            ahead.quick_zlib().decompress(content, 31)
        np.empty(count, np.float32).fill(1)
    return {
        "seconds": time.perf_counter() - begun, "cpu_seconds": time.process_time() - before,
        "memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def measured(path: Path, what: str) -> dict[str, object]:
    """Return the least seconds and memory of three processes."""
    command = [sys.executable, __file__, str(path.parent), "--alone", path.name, "--what", what]
    texts = [subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout for _ in range(3)]
    rows = [json.loads(text.splitlines()[-1]) for text in texts]
    least = {name: round(min(row[name] for row in rows), 3) for name in rows[0]}
    return {"file": path.name, "bytes": path.stat().st_size, "what": what, **least}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", type=int, nargs=3, default=(145, 174, 145))
    parser.add_argument("--gzip", action="store_true")
    parser.add_argument("--read", action="store_true")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--alone", help=argparse.SUPPRESS)
    parser.add_argument("--what", choices=READ, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        print(json.dumps(timed(options.folder / options.alone, options.what)))
        return
    if not (options.folder / "dwi.nii").exists():
        write_series(options.folder, tuple(options.shape))
    if options.gzip and not (options.folder / "dwi.nii.gz").exists():
        compress(options.folder)
    if not options.read:
        return
    paths = [path for name in NAMES if (path := options.folder / name).exists()]
    rows = [measured(path, what) for path in paths for what in READ]
    for row in rows:
        print(json.dumps(row))
    if options.json:
        write_record(options.json, rows=rows)


if __name__ == "__main__":
    main()
