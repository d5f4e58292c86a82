"""``tistreamlines verify``."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import click

from ..aliases import Json
from ..devices import ARCHS, NUMBERED, ON_HOST
from ..errors import ParameterError, listed
from ..io import sidecar
from ..io.drafts import check_target
from ..options.definitions import join_options, options, product_options
from ..options.parameters import Parameters
from ..run.needs import STOP_MASK, follows_series, needs_series
from ..run.record import versions
from ..tracking.registry import METHODS
from ..tracking.sources import FITTED, SOURCES
from . import verification as verifying
from .options import CountType, GroupedCommand, check_series, group_option, options_of, parameter_options, verbosity
from .printing import print_table
from .progress import Display

SEEDS = 200
COLUMNS = ("dg", "arch", "device", "compiler", "chunk", "threads", "streamlines", "points", "seconds", "sha256", "bits")
# parameters that differ between the runs, and files that the runs do not write
VARIED = (
    "nseeds", "dg", "like", "arch", "devices", "threads", "chunk_size", "json_stats", "select", "max_seeds",
    "time_limit", "bids_out", "report", "resume", "save_5tt", *join_options(), *product_options(),
)
SHARED = [name for name in options() if name not in VARIED]
option = group_option("Comparison")


@click.command("verify", cls=GroupedCommand, context_settings={"max_content_width": 110})
@click.argument("series", nargs=-1, metavar="[DWI BVALS BVECS]")
@option("--nseeds", type=CountType(1, 2**32 - 1), default=SEEDS, metavar="SEEDS", show_default=False,
        help="Number of random seeds. On a GPU, 20,000 and more are practical; a Vulkan device in software is about "
        f"10,000 times slower.  [default: {SEEDS} seeds]")
@option("--arch", "archs", multiple=True, type=click.Choice(sorted(ARCHS), case_sensitive=False),
        help="An arch to test; can be given several times.  [default: all available ones, including software devices]")
@option("--devices", metavar="all|0,1,...",
        help=f"Also track on several GPUs of {listed(NUMBERED)} together; as for track.  [default: on one device "
        "each]")
@option("--compilers", "every_compiler", is_flag=True,
        help="Track on each GPU with every compiler that is installed.  [default: with one of them, as for track]")
@option("--dg", "getters", multiple=True, type=click.Choice(tuple(METHODS), case_sensitive=False),
        help="A direction getter to test; can be given several times.  [default: on the phantom all those that allow "
        "the other options, otherwise as for track]")
@option("--time-limit", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
        help="Stop a run that takes longer, and count it as failed.  [default: no limit]")
@option("--json", "json_file", metavar="FILE",
        help="Write the table as JSON, with complete hashes.  [default: not written]")
@parameter_options(SHARED)
@verbosity
@click.pass_context
def verify(
    context: click.Context, series: tuple[str, ...], time_limit: float | None, json_file: str | None, quiet: bool,
    verbose: int, **_: object,
) -> int:
    """Track the same seeds on every arch and check that the streamlines are bit-identical.

    DWI BVALS BVECS are as for track. Without them, and without orientations from a file, a small phantom is tracked
    with every direction getter. On the CPU, chunks of 137 and 5000 seeds and several numbers of threads are also
    tested. The defaults are those of track --like dipy. Each run has a separate process and is compared with the first
    run of the same getter. For two runs that differ, the first different streamline and step are printed; steps are
    counted from the seed. The exit code is 0 if all runs are identical and 1 if not, or if a run failed; with --fast,
    differences do not count.
    """
    check_series(series)
    params = context.params
    shared = _parameters(context)
    if params["every_compiler"] and "compiler" in shared:
        raise click.UsageError("--compilers runs all of them: leave --compiler out")
    getters = _getters(params["getters"], shared, bool(series))
    if json_file is not None:
        check_target(Path(json_file), force=params["force"])
    variants = verifying.variants(params["archs"], params["devices"], params["every_compiler"])
    chosen = {dg: [replace(variant, dg=dg) for variant in variants] for dg in getters}
    with Display(quiet=quiet, verbose=verbose) as display:
        runs = _run(series, shared, chosen, time_limit, display)
    outcomes = {run.outcome for run in runs}
    if json_file is not None:
        sidecar.write_json(json_file, _record(series, shared, runs), force=params["force"])
    if not quiet:
        print_table(COLUMNS, map(_row, runs), ("streamlines", "points", "seconds"))
        click.echo("\n".join(_findings(runs)))
    return int("failed" in outcomes or ("differs" in outcomes and params["exact"]))


def _run(
    series: tuple[str, ...], shared: Json, chosen: dict[str, list[verifying.Variant]],
    time_limit: float | None, display: Display,
) -> list[verifying.VerifiedRun]:
    """Run all variants of each getter in a temporary folder, on a small phantom if nothing is given."""
    from ..phantom.phantom import make_phantom, save_phantom

    runs: list[verifying.VerifiedRun] = []
    with tempfile.TemporaryDirectory(prefix="tistreamlines-") as name:
        folder = Path(name)
        common = {"cache_dir": str(folder / "cache")}  # the FA map is fitted only once
        if not series and _on_phantom(shared):
            display.stage("Generating a phantom")
            phantom = make_phantom((30, 36, 28), voxel_mm=5.0, n_b0=2, n_dirs=32)
            series = tuple(map(str, save_phantom(phantom, folder)))
            common["mask"] = str(folder / "mask.nii.gz")
        marks = {STOP_MASK: common["mask"]} if "mask" in common else {}  # for rules that end at a mask
        paths: dict[str, str] = dict(zip(verifying.SERIES, series, strict=bool(series)))
        for dg, variants in chosen.items():
            (folder / dg).mkdir()
            needed = {name: file for name, file in marks.items() if Parameters.given(shared | {"dg": dg}).applies(name)}
            runs += verifying.compare(
                paths, common | needed | shared, variants, folder / dg, time_limit=time_limit,
                report=lambda variant: display.stage(str(variant)),
            )
    return runs


def _record(series: tuple[str, ...], shared: Json, runs: list[verifying.VerifiedRun]) -> Json:
    """Return the content of the --json file."""
    return {
        "equal": all(run.outcome in ("reference", "equal") for run in runs),
        "series": "phantom" if not series and _on_phantom(shared) else list(series),
        "parameters": shared,
        "runs": [run.as_dict() for run in runs],
        "versions": versions(),
    }


def _parameters(context: click.Context) -> Json:
    """Return the parameters that all runs share."""
    stated = options_of(context)
    shared = {name: value for name, value in stated.items() if name in SHARED and name != "force"} | {"like": "dipy"}
    if "seeds" not in shared or "nseeds" in stated:
        shared["nseeds"] = context.params["nseeds"]
    return shared


def _on_phantom(shared: Json) -> bool:
    """Whether the phantom is tracked if no series is given, that is, unless orientations come from a file."""
    return not set(SOURCES) & set(shared)


def _getters(named: tuple[str, ...], shared: Json, given_series: bool) -> list[str]:
    """Return the named getters, or those that allow the given options, of which there is one.

    Their parameters are checked before any run starts. On the phantom, all getters are tried, otherwise that of track.
    """
    able, refused = list[str](), list[ParameterError]()
    on_phantom = not given_series and _on_phantom(shared)
    for stated in [{"dg": dg} for dg in named or METHODS] if named or on_phantom else [{}]:
        try:
            chosen = Parameters.given(shared | stated)
            lacks_series = not given_series and not on_phantom and needs_series(chosen)
            if lacks_series or (chosen.source == FITTED and not follows_series(chosen)):
                raise ParameterError(needs_series(chosen))
            able.append(chosen.dg)
        except ParameterError as error:
            refused.append(error)
    if refused and (named or not able):
        raise refused[0]
    return list(dict.fromkeys(able))


def _row(run: verifying.VerifiedRun) -> tuple[str, ...]:
    where = run.variant
    chunk = "automatic" if where.chunk_size is None else f"{where.chunk_size:,}"
    threads = "" if where.arch not in ON_HOST else "all" if where.threads is None else str(where.threads)
    counts = ("", "", "", "") if run.outcome == "failed" else (
        f"{run.streamlines:,}", f"{run.points:,}", f"{run.seconds:.2f}", run.sha256[:16],
    )
    return where.dg or "", where.arch, run.device, run.compiled_by, chunk, threads, *counts, run.outcome


def _findings(runs: list[verifying.VerifiedRun]) -> list[str]:
    """Describe each run that failed or differs; if there is none, say so."""
    first = {run.variant.dg: run.variant for run in runs if run.outcome == "reference"}
    lines = [f"{run.variant} failed: {run.error}" for run in runs if run.outcome == "failed"]
    different = [run for run in runs if run.outcome == "differs"]
    lines += [f"{run.variant} differs from {first[run.variant.dg]} at {run.difference}" for run in different]
    getters = "" if len(first) == 1 else f" of each of {', '.join(map(str, first))}"
    return lines or [f"All {len(runs) // len(first)} runs{getters} gave the same bits."]
