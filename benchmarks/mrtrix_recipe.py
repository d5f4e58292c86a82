"""Time a subject's whole recipe beside MRtrix3's commands for the same, and compare the matrices.

    python benchmarks/mrtrix_recipe.py FOLDER [--shape 72 87 72] [--select 100k] [--atlases 4] [--turns 2] [--json FILE]

FOLDER gets the series of three shells, the five tissues and the parcellations of ``subject.py``. Both follow QSIRecon's
recipe ``mrtrix_multishell_msmt_ACT``: responses, FODs of three tissues, their normalisation, iFOD2 from dynamic seeds
with five tissues, SIFT2, and four matrices of each parcellation. With MRtrix3, these are seven kinds of commands; here,
one. In each turn, tracking and what follows has other random numbers. All cores are used. "cpu" are seconds of all
threads, which other programs on the computer change less than the seconds that pass.

The correlation of two matrices is that of their entries above the diagonal.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from records import write_record
from subject import PRESET, write_subject

from tistreamlines.devices import usable_cores

MEASURES = {  # of the preset -> options of tck2connectome
    "count": ("-tck_weights_in", "weights.txt"),
    "inverse-volume": ("-tck_weights_in", "weights.txt", "-scale_invnodevol"),
    "unweighted-count": (),
    "unweighted-mean-length": ("-scale_length", "-stat_edge", "mean"),
}
Row = dict[str, object]


def timed(name: str, words: list[object], folder: Path, turn: int = 1) -> Row:
    """Run a command; return its seconds and those of all its threads."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = os.environ | {"MRTRIX_RNG_SEED": str(1000 * turn), "MRTRIX_NTHREADS": str(usable_cores())}
    subprocess.run([str(word) for word in words], check=True, cwd=folder, env=environment)
    seconds, after = time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    row: Row = {"command": name, "turn": turn, "seconds": round(seconds, 2), "cpu": round(cpu, 2)}
    print(json.dumps(row), flush=True)
    return row


def fit(folder: Path) -> list[Row]:
    """Fit FODs with MRtrix3."""
    tissues = ("wm", "gm", "csf")
    fods = [[f"{tissue}.txt", f"{tissue}.mif"] for tissue in tissues]
    pairs = [[f"{tissue}.mif", f"{tissue}_norm.mif"] for tissue in tissues]
    quiet, mask = ("-quiet", "-force"), ("-mask", "../mask.nii.gz")
    steps = {
        "mrconvert": ["../dwi.nii", "-fslgrad", "../dwi.bvec", "../dwi.bval", "dwi.mif"],
        "dwi2response": ["dhollander", "dwi.mif", *(f"{tissue}.txt" for tissue in tissues), *mask],
        "dwi2fod": ["msmt_csd", "dwi.mif", *itertools.chain(*fods), *mask],
        "mtnormalise": [*itertools.chain(*pairs), *mask],
    }
    return [timed(name, [name, *words, *quiet], folder) for name, words in steps.items()]


def track(folder: Path, select: int, atlases: list[Path], turn: int) -> list[Row]:
    """Track with MRtrix3, weigh the streamlines and make the matrices."""
    lengths, tissues = ("-minlength", 30, "-maxlength", 250), ("-act", "../5tt.nii.gz")
    quiet = ("-quiet", "-force")
    rows = [
        timed("tckgen", [
            "tckgen", "wm_norm.mif", "tracks.tck", "-algorithm", "iFOD2", *tissues, "-backtrack", "-crop_at_gmwmi",
            "-seed_dynamic", "wm_norm.mif", "-select", select, *lengths, "-power", 0.33, *quiet,
        ], folder, turn),
        timed("tcksift2", ["tcksift2", "tracks.tck", "wm_norm.mif", "weights.txt", *tissues, *quiet], folder, turn),
    ]
    for atlas, (measure, words) in itertools.product(atlases, MEASURES.items()):
        names = [atlas, matrix_of(folder, atlas, measure, turn), "-assignment_radial_search", 2, "-symmetric"]
        rows.append(timed("tck2connectome", ["tck2connectome", "tracks.tck", *names, *words, *quiet], folder, turn))
    return rows


def matrix_of(folder: Path, atlas: Path, measure: str, turn: int) -> Path:
    """The file of a matrix, by the name that our command gives it."""
    measure = "" if measure == "count" else f"_{measure}"
    return folder.absolute() / f"{atlas.name.removesuffix('.nii.gz')}-{turn}{measure}.csv"


def ours(folder: Path, select: int, atlases: list[Path], turn: int) -> Row:
    """Run our command."""
    words: list[object] = [
        sys.executable, "-m", "tistreamlines", "track", "../dwi.nii", "../dwi.bval", "../dwi.bvec", "--mask",
        "../mask.nii.gz", "--preset", PRESET, "--act", "../5tt.nii.gz", "--arch", "cpu", "--select", select,
        "--rng-seed", turn, "--seed-seed", turn, "--force", "-q", "-o", "tracks.tck",
    ]
    for atlas in atlases:
        words += ["--connectome", atlas, folder.absolute() / f"{atlas.name.removesuffix('.nii.gz')}-{turn}.csv"]
    return timed("tistreamlines track", words, folder, turn)


def entries(path: Path) -> np.ndarray:
    """Return the entries of a matrix above its diagonal."""
    text = path.read_text(encoding="ascii")
    matrix = np.loadtxt(text.splitlines(), delimiter="," if "," in text else None)
    matrix = np.maximum(matrix, matrix.T)
    return matrix[np.triu_indices(len(matrix), 1)]


def correlations(folders: dict[str, Path], atlases: list[Path], turns: int) -> list[Row]:
    """Compare the matrices of all runs."""
    rows, runs = list[Row](), list(itertools.product(folders, range(1, turns + 1)))
    for atlas, measure in itertools.product(atlases, MEASURES):
        matrices = {run: entries(matrix_of(folders[run[0]], atlas, measure, run[1])) for run in runs}
        values_of: dict[str, list[float]] = {}
        for first, second in itertools.combinations(runs, 2):
            kind = " and ".join(sorted((first[0], second[0])))
            values_of.setdefault(kind, []).append(float(np.corrcoef(matrices[first], matrices[second])[0, 1]))
        row: Row = {"atlas": atlas.name.removesuffix(".nii.gz"), "measure": measure}
        rows.append(row | {kind: round(float(np.mean(values)), 5) for kind, values in values_of.items()})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shape", type=int, nargs=3, default=(72, 87, 72))
    parser.add_argument("--select", type=int, default=100_000)
    parser.add_argument("--atlases", type=int, default=4)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    atlases = [path.absolute() for path in write_subject(options.folder, tuple(options.shape), options.atlases)]
    folders = {name: options.folder / name for name in ("ours", "theirs")}
    for folder in folders.values():
        folder.mkdir(exist_ok=True)
    turns = range(1, options.turns + 1)
    rows = [ours(folders["ours"], options.select, atlases, turn) for turn in turns]
    rows += fit(folders["theirs"])
    for turn in turns:
        rows += track(folders["theirs"], options.select, atlases, turn)
    matrices = correlations(folders, atlases, options.turns)
    if options.json:
        what = {"select": options.select, "shape": options.shape, "atlases": len(atlases)}
        write_record(options.json, rows=rows, matrices=matrices, **what)


if __name__ == "__main__":
    main()
