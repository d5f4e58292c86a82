"""``python benchmarks/suite``: ``tistreamlines benchmark`` with more peers, sweeps, and whole commands."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import click

if not __package__:  # started by the name of the folder
    sys.path[0] = str(Path(__file__).resolve().parents[1])

from suite import comparison, report, schedule, tables
from suite.compare import committed, compare
from suite.targets import TARGETS
from tistreamlines.benchmarks.cases import CASES, Case
from tistreamlines.benchmarks.report import markdown
from tistreamlines.cli.benchmark import benchmark as built_in
from tistreamlines.cli.benchmark import choose_names, command_line, create_folder, fields_of, names
from tistreamlines.cli.options import GroupedCommand, group_option
from tistreamlines.cli.printing import tell
from tistreamlines.cli.progress import Display
from tistreamlines.errors import InputError, TrackingError

HELP = """Time tistreamlines and other programs on the same data, and compare their streamlines.

The options are those of tistreamlines benchmark, and more. The other programs (peers) are DIPY, cuslines and MRtrix3's
tckgen, as far as they are installed. The exit code is 1 if --against finds a difference, else 0.
"""
STANFORD = Case(schedule.STANFORD)  # named, and not downloaded yet
option = group_option("Suite")


@click.command("python benchmarks/suite", cls=GroupedCommand, help=HELP)
@option("--sweeps", metavar="NAMES", callback=names, help="Settings to vary in further runs, separated by commas: "
        f"{', '.join(schedule.SWEEPS)}, or none.  [default: none]")
@option("--files-to-file", "whole", metavar="NAMES", callback=names,
        help="Time only whole commands, from the files of a series to a tractogram, by what the caches hold, separated "
        f"by commas: {', '.join(schedule.KINDS)} (see the speed page).  [default: time the tracking]")
@option("--against", metavar="FOLDER", help="Compare with earlier results: a folder with their JSON files.")
@option("--fetch", is_flag=True, help="Allow the case stanford to download DIPY's Stanford HARDI data.")
@click.pass_context
def command(
    context: click.Context, against: str | None, fetch: bool, out: str, quiet: bool, verbose: bool, **_: object
) -> int:
    params = context.params
    earlier = [] if against is None else committed(against)
    if against is not None and not earlier:
        raise InputError(f"{against}: contains no benchmark results (JSON): give --against a folder that does")
    fields = fields_of(params, CASES | {STANFORD.name: STANFORD}, TARGETS)
    choose_names(schedule.KINDS, params["whole"], "--files-to-file")
    if params["whole"] and any(method.model == "asymmetric" for method in fields["methods"]):
        raise click.UsageError("--files-to-file has no command for prob-asymmetric: leave it out of --dg")
    if STANFORD in fields["cases"] and not fetch:
        raise click.UsageError("the case stanford has to be downloaded: add --fetch")
    fields["cases"] = [schedule.stanford() if case is STANFORD else case for case in fields["cases"]]
    sweeps = choose_names(schedule.SWEEPS, params["sweeps"], "--sweeps")
    folder = create_folder(out)
    with Display(quiet=quiet, verbose=verbose) as display:
        results = comparison.benchmark(
            schedule.FullSchedule(**fields, sweeps=sweeps, whole=params["whole"]), display.stage,
            command_line("python benchmarks/suite"), partial(report.write_json, folder=folder),
        )
    report.write(results, folder)
    if not quiet:
        tell(markdown(tables.sections(results)))
    findings = compare(results, *earlier) if against else []
    for finding in findings:
        click.echo(str(finding), err=True)
    return int(bool(findings))


command.params += [parameter for parameter in built_in.params if not getattr(parameter, "hidden", False)]

if __name__ == "__main__":
    try:
        sys.exit(command(prog_name="python benchmarks/suite", standalone_mode=False))
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except TrackingError as error:
        sys.exit(f"Error: {error.on_command_line}")
