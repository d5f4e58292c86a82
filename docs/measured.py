"""Tables of what was measured, from the files in ``benchmarks/results``."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from readme_tables import fastest_table, files_table, throughput_table
from suite.compare import committed
from truth.means import SCAN, means

from tistreamlines.fit.models import MODELS
from tistreamlines.option import flag
from tistreamlines.options.definitions import options
from tistreamlines.options.parameters import Parameters
from tistreamlines.tracking.registry import METHODS

RESULTS = Path(__file__).resolve().parents[1] / "benchmarks" / "results"
# what benchmarks/tables.sh writes: a test fails where the kernels have changed since
LOOPS, COMMANDS = "suite-*.json", "*-files-to-file.json"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Write a Markdown table."""
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


COLUMNS = {
    "bval": "b", "snr": "SNR", "directions": "directions", "voxel_mm": "mm", "way": "way", "VC": "VC %", "IC": "IC %",
    "NC": "NC %", "valid_bundles": "bundles %", "overlap": "overlap %", "overreach": "overreach %", "r": "r",
    "peak_error": "peaks off by °", "fibres_missed": "fibres missed %", "peaks_spurious": "spurious peaks %",
    "mm": "mean mm", "median_mm": "median mm", "coherence": "coherence",
}


def truth(file: str, *leave_out: str) -> str:
    """Scores of tractograms of known bundles, means over geometries and seeds, without some columns."""
    rows = []
    for scan, way, scores in means(json.loads((RESULTS / file).read_text(encoding="utf-8"))["rows"]):
        cells = {name: f"{value:.{2 if name in ('r', 'coherence') else 1}f}" for name, value in scores.items()}
        rows.append(dict(zip(SCAN, scan, strict=True)) | {"way": way} | cells)
    names = [name for name in COLUMNS if name not in leave_out and any(name in row for row in rows)]
    return table([COLUMNS[name] for name in names], [[row.get(name, "") for name in names] for row in rows])


def changed_defaults() -> str:
    """Defaults that are not DIPY's, and the scores of both, means over all phantoms."""
    scored = json.loads((RESULTS / "two-cores-truth.json").read_text(encoding="utf-8"))["rows"]

    def scores(way: str) -> str:
        mine = [row for row in scored if row["way"] == way and "VC" in row]
        valid, r = (sum(row[name] for row in mine) / len(mine) for name in ("VC", "r"))
        return f"{valid:.1f} %, {r:.3f}"

    rows = []
    measured = {row["way"] for row in scored}
    for dg in (name for name, row in METHODS.items() if row.models and f"{name}-like-dipy" in measured):
        ours, theirs = (_defaults(Parameters(dg=dg, like=like)) for like in (None, "dipy"))
        changed = [name for name in options() if name != "like" and ours[name] != theirs[name]]
        if changed:
            words = (
                ", ".join(f"`{flag(name)} {_number(chosen[name])}`" for name in changed) for chosen in (ours, theirs)
            )
            rows.append((f"`{dg}`", *words, scores(dg), scores(f"{dg}-like-dipy")))
    return table(("`--dg`", "Defaults here", "DIPY's", "VC, r here", "VC, r with DIPY's"), rows)


def _defaults(chosen: Parameters) -> dict[str, Any]:
    """Return the options by name, with the order of the model for a series of many directions."""
    values = {name: getattr(chosen, name) for name in options()}
    assert chosen.model is not None
    return values | {"sh_order": chosen.sh_order or MODELS[chosen.model].order}


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def speed() -> str:
    """Throughput of each arch beside the fastest peer on the same data."""
    return throughput_table(committed(RESULTS, LOOPS))


def files_to_file() -> str:
    """Seconds of whole commands, from files to a tractogram."""
    return files_table(committed(RESULTS, COMMANDS))


def fastest_commands() -> str:
    """Seconds of our fastest command beside the fastest of other programs."""
    return fastest_table(committed(RESULTS, COMMANDS))


def parity() -> str:
    """Differences between tistreamlines and DIPY, in per cent of DIPY's values."""
    rows = []
    for run in json.loads((RESULTS / "parity-dipy.json").read_text(encoding="utf-8")):
        apart = [run["differences"][name] for name in ("streamlines", "mean_points")]
        cells = [f"{difference['percent']:+.2f} ± {difference['standard_error']:.2f}" for difference in apart]
        density = run["density_correlation"]
        cells += [f"{density['ours_with_dipy']:.4f}", f"{density['dipy_run_to_run']:.4f}"]
        rows.append([run["data"], f"`{run['dg']}`, {run['model']}", f"{run['seeds']:,}", *cells])
    head = ("data", "getter, model", "seeds", "streamlines (%)", "mean points (%)", "density", "DIPY twice")
    return table(head, rows)


def _tutorial() -> dict[str, Any]:
    return json.loads((RESULTS / "two-cores-tutorial.json").read_text(encoding="utf-8"))


def tutorial_printed(name: str, lines: int | None = None) -> str:
    """What a command of the tutorial printed, or its last lines, as a block."""
    printed = _tutorial()["printed"][name].splitlines()
    return "\n".join(["```text", *printed[-(lines or len(printed)) :], "```"])


def tutorial_map() -> str:
    """What the tutorial prints of its density map."""
    numbers = _tutorial()
    lines = (
        f"at most {numbers['density']['most']} streamlines in a voxel",
        f"at least 10 streamlines in {numbers['cubic_centimetres']:.1f} cm3",
    )
    return "\n".join(["```text", *lines, "```"])


def tutorial_again() -> str:
    """How well two runs of the tutorial agree."""
    same = _tutorial()["two_seeds"]
    correlation, dice = same["correlation"], same["dice_of_voxels_with_10"]
    return (
        f"The two maps correlate by {correlation:.3f}, and the voxels with at least 10 streamlines have a Dice\n"
        f"coefficient of {dice:.2f} (`two-cores-tutorial.json`). If two runs differ more than you can accept, select\n"
        "more streamlines."
    )
