"""``tistreamlines benchmark``."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from ..aliases import Json
from ..benchmarks.cases import CASES, METHODS, Case
from ..devices import NUMBERED, ON_HOST, choose_several, list_devices
from ..errors import OutputError, listed
from ..tracking import registry
from .options import CountType, GroupedCommand, check_series, group_option, verbosity
from .printing import tell
from .progress import Display

if TYPE_CHECKING:
    from ..benchmarks.targets import Target

Chosen = TypeVar("Chosen")
DEFAULT = tuple(name for name in METHODS if name in registry.METHODS)
SUITE = "python benchmarks/suite, in a copy of the repository"  # of the developers
option = group_option("Benchmark")


def names(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Return the names of an option, which are separated by commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


def _refuse(context: click.Context, parameter: click.Parameter, value: str | None) -> None:
    if value:
        raise click.UsageError(f"{parameter.opts[0]} is an option of the developers' benchmark: {SUITE}")


@click.command("benchmark", cls=GroupedCommand, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI BVALS BVECS]")
@option("--mask", metavar="FILE", help="Brain mask of DWI.  [default: DIPY's median_otsu]")
@option("--cases", metavar="NAMES", callback=names,
        help=f"Images to track, separated by commas: {', '.join(CASES)}.  [default: demo; phantom if there is a GPU]")
@option("--archs", metavar="NAMES", callback=names,
        help="Archs to time, separated by commas, or none.  [default: all available ones, including software devices]")
@option("--devices", metavar="all|0,1,...",
        help=f"GPUs that share the seeds in the runs on {listed(NUMBERED)}; as for track.  [default: one]")
@option("--peers", metavar="NAMES", callback=names,
        help="Other programs to time, separated by commas: dipy, dipy-threads, or none.  [default: both]")
@option("--dg", "methods", metavar="NAMES", callback=names,
        help=f"Direction getters, separated by commas: {', '.join(METHODS)}.  [default: {', '.join(DEFAULT)}]")
@option("--nseeds", type=CountType(1), default=10_000, metavar="SEEDS", show_default=False,
        help="Number of random seeds.  [default: 10000 seeds]")
@option("--repeat", type=CountType(1), default=3, metavar="K",
        help="Number of timed runs; fewer if together they take over 20 s. Of several, the first is not counted.")
@option("--threads", type=CountType(1), metavar="N", help="CPU threads.  [default: all]")
@option("--time-limit", type=click.FloatRange(0, min_open=True), default=600.0, metavar="SECONDS",
        help="Stop a run that takes longer, and report it.")
@option("--skip-cpu", is_flag=True, help="Do not time tistreamlines on the CPU.")
@option("--out", default="benchmark", metavar="FOLDER", help="Folder for the reports; it is created if missing.")
@option("--sweeps", hidden=True, expose_value=False, callback=_refuse)
@option("--files-to-file", hidden=True, expose_value=False, callback=_refuse)
@option("--against", hidden=True, expose_value=False, callback=_refuse)
@option("--fetch", is_flag=True, hidden=True, expose_value=False, callback=_refuse)
@verbosity
@click.pass_context
def benchmark(context: click.Context, out: str, quiet: bool, verbose: int, **_: object) -> None:
    """Time tistreamlines on every device here, beside DIPY, on the same data, and compare their streamlines.

    DWI BVALS BVECS are as for track; without them a phantom is tracked. Each run has a separate process and a time
    limit; the report lists the runs that failed. Writes results.json, report.md and report.html.
    """
    from ..benchmarks import report, suite, tables
    from ..benchmarks.targets import TARGETS
    from ..io.sidecar import write_json

    schedule = suite.Schedule(**fields_of(context.params, CASES, TARGETS, f" ({SUITE}, has more)"))
    file = create_folder(out) / "results.json"
    with Display(quiet=quiet, verbose=verbose) as display:
        results = suite.benchmark(schedule, display.stage, command_line("tistreamlines"), partial(write_json, file))
    report.write(results, file.parent)
    if not quiet:
        tell(report.markdown(tables.sections(results)))


def fields_of(params: Json, cases: Mapping[str, Case], targets: Mapping[str, Target], hint: str = "") -> Json:
    """Return the fields of the schedule that the options describe.

    Parameters
    ----------
    params : dict
        The options by name.
    cases, targets : mappings of Case and Target
        Those that can be named.
    hint : str
        The text after these names in a message about another name.
    """
    check_series(params["series"])
    ours, peers = ({name: t for name, t in targets.items() if t.kind == kind} for kind in ("arch", "peer"))
    archs = params["archs"] or [name for name, target in ours.items() if not target.missing()]
    timed = [t for t in choose_names(ours, archs, "--archs") if not (params["skip_cpu"] and t.name in ON_HOST)]
    timed += choose_names(peers, params["peers"] or list(peers), "--peers", hint)
    for target in timed:
        if params["devices"] is not None and target.name in NUMBERED:
            choose_several(target.name, params["devices"])
    return {
        "cases": _cases(params, cases, {target.name for target in timed}, hint),
        "methods": choose_names(METHODS, params["methods"] or DEFAULT, "--dg"), "targets": timed,
    } | {name: params[name] for name in ("nseeds", "threads", "repeat", "time_limit", "devices")}


def choose_names(known: Mapping[str, Chosen], names: Sequence[str], option_name: str, hint: str = "") -> list[Chosen]:
    """Return what an option names."""
    if names == ("none",) and option_name in ("--archs", "--peers", "--sweeps"):
        return []
    for name in names:
        if name not in known:
            raise click.UsageError(f"{option_name} does not know {name!r}: choose from {', '.join(known)}{hint}")
    return [known[name] for name in names]


def _cases(params: Json, known: Mapping[str, Case], targets: set[str], hint: str) -> list[Case]:
    if series := params["series"]:
        if params["cases"]:
            raise click.UsageError("give DWI, BVALS and BVECS or --cases, not both")
        name = Path(series[0]).name.removesuffix(".gz").removesuffix(".nii")
        return [Case(name, series[0], paths=series, mask=params["mask"])]
    hardware = {device.arch for device in list_devices() if device.available and device.on_gpu}
    default = "phantom" if hardware & targets else "demo"
    return choose_names(known, params["cases"] or (default,), "--cases", hint)


def command_line(program: str) -> str:
    """Return the command of this process, for the record."""
    return shlex.join([*program.split(), *sys.argv[1:]])


def create_folder(name: str) -> Path:
    """Create the folder of --out if it is missing."""
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{name}: cannot be created ({error.strerror}): give --out another folder") from error
    return folder
