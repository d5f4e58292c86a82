"""``tistreamlines batch``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ..errors import OutputError, TrackingError
from ..helpers import ONE_PROCESS, may_start
from ..option import RUNNING
from .options import CountType, GroupedCommand, group_option, parameter_options, quiet_option
from .printing import print_table

if TYPE_CHECKING:
    from .cohort import Subject
    from .supervision import Outcome

RESUME = "--resume"
SOME_FAILED = 3  # the exit code
HEADINGS = ("subject", "state", "seconds", "streamlines", "message")


class _WithTemplate(GroupedCommand):
    """A command that ends with the words of another one."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after a check for the dashes before the other command."""
        if "track" in args and "--" not in args:
            raise click.UsageError("Give the command of a subject after --, as in -- track {dwi} -o {out}.", ctx)
        return super().parse_args(ctx, args)


@click.command("batch", cls=_WithTemplate, context_settings={"max_content_width": 110})
@click.argument("table")
@click.argument("command", nargs=-1, type=click.UNPROCESSED, metavar="-- track OPTIONS...")
@group_option(RUNNING)("--jobs", type=CountType(min=1), default=2, metavar="SUBJECTS", show_default=False,
        help="Subjects at a time: one of them tracks, while others are read, fitted or written.  [default: 2]")
@parameter_options(("resume",))
@group_option(RUNNING)("--fail-fast", is_flag=True, help="Begin no other subject after one has failed.")
@group_option(RUNNING)("--dry-run", is_flag=True, help="Print the command of each subject, and exit.")
@quiet_option
def batch(
    table: str, command: tuple[str, ...], jobs: int, resume: bool, fail_fast: bool, dry_run: bool, quiet: bool
) -> int:
    """Track many subjects with one command, and keep the device busy.

    TABLE is a .tsv or .csv file with headings and a row for each subject, such as participants.tsv of BIDS. The command
    after -- is that of one subject, in which {heading} stands for the cell of that column:

    \b
      tistreamlines batch participants.tsv -- track {participant_id}_dwi.nii.gz -o out/{participant_id}.trx

    A subject that fails leaves the others alone, and then the exit code is 3. Subjects whose files were written before
    by the same command are left out: give a command again to go on with the others. All messages of a subject go to a
    .log file beside its tractogram. Missing folders of outputs are made.
    """
    from .cohort import command_line, read_subjects

    more = (RESUME,) if resume and command and RESUME not in command else ()
    subjects = read_subjects(Path(table), (*command, *more))
    if dry_run:
        click.echo("\n".join(command_line(subject.words) for subject in subjects))
        return 0
    if not may_start():
        raise TrackingError(f"{ONE_PROCESS} is set, but each subject has a separate process: unset it")
    return _run(subjects, jobs, fail_fast=fail_fast, quiet=quiet)


def _run(subjects: list[Subject], jobs: int, *, fail_fast: bool, quiet: bool) -> int:
    """Run the commands of all subjects, print a table, and return the exit code."""
    from .board import Board
    from .supervision import FAILED, LEFT, Supervisor

    outcomes: dict[Subject, Outcome] = {}
    with Board(len(subjects), quiet=quiet) as board:

        def ended(subject: Subject, outcome: Outcome) -> None:
            outcomes[subject] = outcome
            board.end(subject, outcome)

        try:
            Supervisor(jobs, fail_fast=fail_fast, tell=board.tell).run(subjects, ended)
        except (KeyboardInterrupt, SystemExit):
            click.echo(
                f"Interrupted: the files of {board.complete} of {len(subjects)} subjects are there; give the same "
                "command to go on", err=True,
            )
            raise
    if not quiet:
        try:
            print_table(HEADINGS, (_cells(subject, outcomes[subject]) for subject in subjects), HEADINGS[2:4])
        except OutputError as error:
            click.echo(f"Warning: {error.on_command_line}", err=True)
    return SOME_FAILED if {FAILED, LEFT} & {outcome.state for outcome in outcomes.values()} else 0


def _cells(subject: Subject, outcome: Outcome) -> tuple[str, ...]:
    """Return a row of the table."""
    seconds, streamlines = (
        "" if value is None else form.format(value)
        for form, value in (("{:.1f}", outcome.seconds), ("{:,}", outcome.streamlines))
    )
    return subject.name, outcome.state, seconds, streamlines, outcome.message
