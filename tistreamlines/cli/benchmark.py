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
from ..benchmarks.cases import CASES, KINDS, METHODS, SWEEPS, Case, TimedMethod
from ..benchmarks.compare import committed, compare
from ..devices import NUMBERED, ON_HOST, choose_several
from ..errors import InputError, OutputError
from ..option import listed
from ..tracking import registry
from .options import CountType, GroupedCommand, check_series, grouped, verbosity
from .printing import tell
from .progress import Display

if TYPE_CHECKING:
    from ..benchmarks.targets import Target

Chosen = TypeVar("Chosen")
OR_NONE = ("--archs", "--peers", "--sweeps")  # options whose value may be none
DEFAULT = tuple(name for name in METHODS if name in registry.METHODS)
option = grouped("Benchmark")

HELP = """Time tistreamlines on every device here and other programs on the same data, and compare their streamlines.

DWI BVALS BVECS are as for track; without them a phantom is tracked. The other programs (peers) are DIPY, cuslines and
MRtrix3's tckgen, as far as they are installed. Each run has its own process and a time limit; the report lists the runs
that failed. Writes results.json, report.md and report.html. The exit code is 1 if --against finds a difference, else 0.
"""


def _named(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",") if name.strip()) if value else ()


@click.command("benchmark", cls=GroupedCommand, help=HELP, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI BVALS BVECS]")
@option("--mask", metavar="FILE", help="Brain mask of DWI.  [default: DIPY's median_otsu]")
@option("--cases", metavar="NAMES", callback=_named,
        help=f"Images to track, separated by commas: {', '.join(CASES)}.  [default: demo; phantom if there is a GPU]")
@option("--archs", metavar="NAMES", callback=_named,
        help="Archs to time, separated by commas, or none.  [default: all available ones, including software devices]")
@option("--devices", metavar="all|0,1,...",
        help=f"GPUs that share the seeds in the runs on {listed(NUMBERED)}; as for track.  [default: one]")
@option("--peers", metavar="NAMES", callback=_named,
        help="Other programs to time, separated by commas, or none.  [default: all that are installed]")
@option("--dg", "methods", metavar="NAMES", callback=_named,
        help=f"Direction getters, separated by commas: {', '.join(METHODS)}.  [default: {', '.join(DEFAULT)}]")
@option("--nseeds", type=CountType(1), default=10_000, metavar="SEEDS", show_default=False,
        help="Number of random seeds.  [default: 10000 seeds]")
@option("--sweeps", metavar="NAMES", callback=_named,
        help=f"Settings to vary in further runs, separated by commas: {', '.join(SWEEPS)}, or none.  [default: none]")
@option("--files-to-file", "whole", metavar="NAMES", callback=_named,
        help="Time only whole commands, from the files of a series to a tractogram, by what the caches hold, separated "
        f"by commas: {', '.join(KINDS)} (see the speed page).  [default: time the tracking]")
@option("--repeat", type=CountType(1), default=3, metavar="K",
        help="Number of timed runs; fewer if together they take over 20 s. Of several, the first is not counted.")
@option("--threads", type=CountType(1), metavar="N", help="CPU threads.  [default: all]")
@option("--time-limit", type=click.FloatRange(0, min_open=True), default=600.0, metavar="SECONDS",
        help="Stop a run that takes longer, and report it.")
@option("--skip-cpu", is_flag=True, help="Do not time tistreamlines on the CPU.")
@option("--fetch", is_flag=True, help="Allow the case stanford to download DIPY's Stanford HARDI data.")
@option("--against", metavar="FOLDER", help="Compare with earlier results: a folder with their JSON files.")
@option("--out", default="benchmark", metavar="FOLDER", help="Folder for the reports; it is created if missing.")
@verbosity
@click.pass_context
def benchmark(
    context: click.Context, series: tuple[str, ...], against: str | None, out: str, quiet: bool, verbose: int,
    **_: object,
) -> int:
    from ..benchmarks import report, suite
    from ..benchmarks.schedule import Schedule

    check_series(series)
    params = context.params
    earlier = _earlier(against)
    methods = _chosen(METHODS, params["methods"] or DEFAULT, "--dg")
    targets = _targets(params)
    for target in targets:
        if params["devices"] is not None and target.name in NUMBERED:
            choose_several(target.name, params["devices"])
    schedule = Schedule(
        _cases(params, targets), methods, targets, paths=series,
        sweeps=_chosen(SWEEPS, params["sweeps"], "--sweeps"), whole=_whole(params["whole"], methods),
        **{name: params[name] for name in ("nseeds", "threads", "repeat", "time_limit", "mask", "devices")},
    )
    folder = _folder(out)
    with Display(quiet=quiet, verbose=verbose) as display:
        command = shlex.join(["tistreamlines", *sys.argv[1:]])
        results = suite.benchmark(schedule, display.stage, command, partial(report.write_json, folder=folder))
    report.write(results, folder)
    if not quiet:
        tell(report.markdown(results))
    findings = compare(results, *earlier) if against else []
    for finding in findings:
        click.echo(str(finding), err=True)
    return int(bool(findings))


def _chosen(known: Mapping[str, Chosen], names: Sequence[str], option_name: str) -> list[Chosen]:
    if names == ("none",) and option_name in OR_NONE:
        return []
    for name in names:
        if name not in known:
            raise click.UsageError(f"{option_name} does not know {name!r}: choose from {', '.join(known)}")
    return [known[name] for name in names]


def _whole(kinds: tuple[str, ...], methods: list[TimedMethod]) -> tuple[str, ...]:
    _chosen(KINDS, kinds, "--files-to-file")
    if kinds and any(method.model == "asymmetric" for method in methods):
        raise click.UsageError("--files-to-file has no command for prob-asymmetric: leave it out of --dg")
    return kinds


def _targets(params: Json) -> list[Target]:
    """Return the targets of --archs and --peers; without names, all available archs and all peers."""
    from ..benchmarks.targets import TARGETS

    ours, others = ({name: t for name, t in TARGETS.items() if t.kind == kind} for kind in ("arch", "peer"))
    archs = params["archs"] or [name for name, target in ours.items() if not target.missing()]
    timed = [t for t in _chosen(ours, archs, "--archs") if not (params["skip_cpu"] and t.name in ON_HOST)]
    return timed + _chosen(others, params["peers"] or list(others), "--peers")


def _cases(params: Json, targets: list[Target]) -> list[Case]:
    from ..devices import list_devices

    if series := params["series"]:
        if params["cases"]:
            raise click.UsageError("give DWI, BVALS and BVECS or --cases, not both")
        return [Case(Path(series[0]).name.removesuffix(".gz").removesuffix(".nii"), series[0])]
    hardware = {d.arch for d in list_devices() if d.available and d.on_gpu}
    default = "phantom" if hardware & {target.name for target in targets} else "demo"
    cases = _chosen(CASES, params["cases"] or (default,), "--cases")
    if any(case.fetched for case in cases) and not params["fetch"]:
        raise click.UsageError("the case stanford has to be downloaded: add --fetch")
    return cases


def _earlier(folder: str | None) -> list[Json]:
    earlier = [] if folder is None else committed(folder)
    if folder is not None and not earlier:
        raise InputError(f"{folder}: contains no benchmark results (JSON): give --against a folder that does")
    return earlier


def _folder(name: str) -> Path:
    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{name}: cannot be created ({error.strerror}): give --out another folder") from error
    return folder
