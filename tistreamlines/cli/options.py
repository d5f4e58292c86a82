"""Command-line options, generated from the definitions in ``options/definitions.py``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from functools import cache, partial
from typing import TypeVar

import click
from click.core import ParameterSource

from ..aliases import Json
from ..option import Option, bounds, companions, flag, whole
from ..options.definitions import absent, applies_with, defaults, kind, options
from .hints import refuse_foreign

Function = TypeVar("Function", bound=Callable[..., object])
Decorator = Callable[[Function], Function]
VERBOSITY = "Messages"
FACTS = ("dg", "model", "source", "stopping")  # choices on which it may depend whether an option has an effect
_SPOKEN = ("degrees", "seeds", "steps")  # units that are shown after a default


class CountType(click.IntRange):
    """A whole number of an option that is not one of tracking, such as 10k."""

    def convert(self, value: int | str, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the number; fail if the text means none."""
        number = whole(value) if isinstance(value, str) else value
        if number is None:
            self.fail(f"{value!r} is no whole number, such as 5000, 5k or 5M", param, ctx)
        return super().convert(number, param, ctx)

    def _describe_range(self) -> str:
        """Return the bounds for the help; click writes 'x<=None' where there are none."""
        return "" if self.min is None and self.max is None else super()._describe_range()


class Word(click.Choice):  # type: ignore[type-arg]
    """The words of an option of tracking, for its help; Parameters reads the user's word."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the word as it is given."""
        return value


class GroupedOption(click.Option):
    """An option that the help lists under a heading, or only the help of all options if it is not ``common``."""

    group, common = VERBOSITY, True


@cache
def group_option(group: str, common: bool = True) -> Callable[..., Decorator]:
    """Return a decorator like ``click.option``, for options of one group."""
    return partial(click.option, cls=type("GroupedOption", (GroupedOption,), {"group": group, "common": common}))


class GroupedCommand(click.Command):
    """A command that lists its options by group, and gives advice on options of other programs.

    If some of its options are not common, ``--help`` leaves them out and ``--help-all`` has them.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after a check for options of other programs."""
        known = {name for parameter in self.get_params(ctx) for name in (*parameter.opts, *parameter.secondary_opts)}
        refuse_foreign(args, known)
        try:
            return super().parse_args(ctx, args)
        except click.BadOptionUsage as error:
            for parameter in self.get_params(ctx):
                if error.option_name in parameter.opts and parameter.metavar:
                    message = f"{error.message.rstrip('.')}: {error.option_name} {parameter.metavar}"
                    raise click.BadOptionUsage(error.option_name, message, ctx) from error
            raise

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """Add ``--help-all`` where ``--help`` leaves options out."""
        known = super().get_params(ctx)
        return known if all(map(_is_common, known)) else [*known, HELP_ALL]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write one section for each group, in order of first appearance."""
        groups: dict[str, list[tuple[str, str]]] = {}
        left_out = 0
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is None or not isinstance(parameter, click.Option):
                continue
            if ctx.meta.get(EVERY) or _is_common(parameter):
                groups.setdefault(getattr(parameter, "group", VERBOSITY), []).append(row)
            else:
                left_out += 1
        for group, rows in groups.items():
            with formatter.section(group):
                formatter.write_dl(rows)
        if left_out:
            formatter.write_paragraph()
            formatter.write_text(f"{left_out} more options: {ctx.command_path} --help-all")


def _is_common(parameter: click.Parameter) -> bool:
    return getattr(parameter, "common", True)


def _help_all(ctx: click.Context, _: click.Parameter, asked: bool) -> None:
    """Print the help of all options and exit."""
    if asked and not ctx.resilient_parsing:
        ctx.meta[EVERY] = True
        click.echo(ctx.get_help(), color=ctx.color)
        ctx.exit()


EVERY = "tistreamlines.help_all"  # in a context's notes
HELP_ALL = click.Option(
    ["--help-all"], is_flag=True, is_eager=True, expose_value=False, callback=_help_all,
    help="Show all options and exit.",
)


def parameter_options(
    names: Iterable[str] | None = None, shorten: str = "", group: str | None = None, facts: Collection[str] = FACTS
) -> Decorator:
    """Add tracking parameters to a command as options.

    Parameters
    ----------
    names : iterable of str, optional
        Parameters to add, which the help then shows; by default all, of which it shows the common ones.
    shorten : str
        A prefix of names: options that begin with it also have a name without it.
    group : str, optional
        Heading of these options; by default that of each.
    facts : collection of str
        The choices that the command has, of those on which the effect of an option may depend.
    """
    known = options()
    chosen = list(known if names is None else names)

    def decorate(function: Function) -> Function:
        for name in reversed(chosen):
            option = known[name]
            add = group_option(group or option.group, names is not None or option.common)
            short = (flag(name.removeprefix(shorten)),) if shorten and name.startswith(shorten) else ()
            flags = f"{flag(name)}/{flag(option.off)}" if option.off else flag(name)
            function = add(*short, flags, name, **_settings(name, option, facts))(function)
        return function

    return decorate


def options_of(context: click.Context) -> Json:
    """Return the parameters that the user gave on the command line, by name."""
    known = options()
    return {
        name: value
        for name, value in context.params.items()
        if name in known and context.get_parameter_source(name) is not ParameterSource.DEFAULT
    }


def check_series(series: tuple[str, ...]) -> None:
    """Raise a UsageError if only some of DWI, BVALS and BVECS are given."""
    if len(series) not in (0, 3):
        raise click.UsageError("give all of DWI, BVALS and BVECS, or none of them")


message_option = group_option(VERBOSITY)
quiet_option = message_option("-q", "--quiet", is_flag=True, help="Print only warnings and errors.")


def verbosity(function: Function) -> Function:
    """Add the options -v and -q."""
    words = "Print stages, times and tracebacks; -vv: what processes do."
    return message_option("-v", "--verbose", count=True, help=words)(quiet_option(function))


def explanation(name: str, option: Option, facts: Collection[str] = FACTS) -> str:
    """Return the help of an option: its meaning, companions among some choices, bounds and default."""
    notes = [f"with {companions(fact, words)}" for fact, words in applies_with(name).items() if fact in facts]
    if kind(name) in ("list", "pairs"):
        notes.append("can be given several times")
    if bounds(option) != "a number":
        notes.append(bounds(option).removeprefix("a number "))
    return f"{option.help}  [{'; '.join([*notes, f'default: {_default(name, option)}'])}]"


def _default(name: str, option: Option) -> str:
    default = defaults()[name]
    if kind(name) == "flag":
        return name if default else "off"
    if default is None:
        return absent(name)
    shown = f"{default:.10g}" if isinstance(default, (int, float)) else str(default)
    spoken = option.unit in _SPOKEN or (option.unit == "mm" and kind(name) == "float")
    return f"{shown} {option.unit}" if spoken else shown


def _settings(name: str, option: Option, facts: Collection[str]) -> dict[str, object]:
    common = {"help": explanation(name, option, facts), "show_default": False}
    if kind(name) == "flag":
        return {**common, "is_flag": True, "default": defaults()[name]}
    if option.choices:
        return {**common, "type": Word(tuple(option.choices)), "default": None}
    metavar = option.unit.upper().replace(" ", "_")
    if kind(name) == "pairs":
        return {**common, "nargs": 2, "default": None, "metavar": option.unit, "multiple": True}
    # Parameters reads numbers, such as 10M
    return {**common, "type": click.STRING, "default": None, "metavar": metavar, "multiple": kind(name) == "list"}
