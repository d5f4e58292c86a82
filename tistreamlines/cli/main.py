"""The command ``tistreamlines``: its subcommands, and the exit codes of errors."""

from __future__ import annotations

import errno
import importlib
import sys
import warnings
from collections.abc import Sequence
from typing import NoReturn

import click

from .. import __version__
from ..errors import ParameterError, TrackingError
from ..io import ahead
from ..plugins import PluginWarning, culprit
from . import interrupts
from .limits import check_limits, is_unlimited
from .printing import guard_output

COMMANDS = {
    "track": "Track streamlines through a diffusion series.",
    "batch": "Track many subjects of a table.",
    "join": "Join the parts of a run to one tractogram.",
    "regrow": "Track streamlines of a run again from their numbers.",
    "map": "Make matrices, maps and tables of anyone's streamlines.",
    "sift": "Select streamlines whose density is that of the fibres.",
    "fod": "Fit fibre orientation distributions to a diffusion series.",
    "fixels": "Find the fixels of fibre orientation distributions.",
    "5tt": "Make a five-tissue-type image of a segmentation.",
    "view": "Show a tractogram in the browser.",
    "view --live": "Track in the browser from where you click.",
    "devices": "List the devices that can track here.",
    "demo": "Track a phantom and draw a picture of the streamlines.",
    "verify": "Check that every device gives bit-identical streamlines.",
    "benchmark": "Time tistreamlines on every device, beside DIPY, on the same data.",
}
# others have modules of their names
MODULES: dict[str, str] = dict.fromkeys(("join", "regrow", "map", "sift", "view"), "tractograms")
MODULES |= dict.fromkeys(("fixels", "5tt"), "images")
VIEW, LIVE = "view", "--live"  # with this flag, it is another command
MODULES |= {f"{VIEW} {LIVE}": "live"}
NAMES = {"5tt": "five_tissues", f"{VIEW} {LIVE}": "live"}  # of functions
# commands that read a series, unless the cache has what is made of it, and their archs by default
OF_SERIES, ARCH, CACHE = {"track": "auto", "fod": "cpu"}, "--arch", "--cache-dir"
DONE, COULD_NOT, WRONG_USE = 0, 1, 2
# what the user can do where the system refuses something
ADVICE = {
    errno.EMFILE: "raise the limit of open files (ulimit -n)", errno.ENFILE: "close other programs",
    errno.ENAMETOOLONG: "give a shorter name", errno.ENOSPC: "free some space", errno.EDQUOT: "free some space",
    errno.EAGAIN: "raise the limit of processes (ulimit -u)", errno.ENOMEM: "close other programs",
    errno.EACCES: "check its permissions", errno.EPERM: "check its permissions", errno.EROFS: "choose another folder",
    errno.EFBIG: "raise the limit of file sizes (ulimit -f)",
}
_formatted = warnings.formatwarning
THREADS = "raise the limit of processes (ulimit -u), or give fewer with --threads"


def _begin_early(words: list[str]) -> None:
    """Begin what takes long without Python's lock, while libraries are imported."""
    ahead.begin(words, unpacks=not any(word.startswith(CACHE) for word in words))
    words = " ".join(words).replace(f"{ARCH}=", f"{ARCH} ").split()
    arch = words[words.index(ARCH) + 1 :][:1] if ARCH in words else [OF_SERIES[words[0]]]
    if arch in (["auto"], ["cuda"]):
        from ..devices import gpu  # which other commands, such as --version, can do without

        gpu.begin_cuda()


class _Commands(click.Group):
    """Subcommands, each imported when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] == VIEW and LIVE in args:
            args = [f"{VIEW} {LIVE}", *(word for word in args[1:] if word != LIVE)]
        if args[0] in OF_SERIES and is_unlimited():
            _begin_early(args)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        check_limits(cmd_name)  # before libraries are imported
        module = importlib.import_module(f"{__package__}.{MODULES.get(cmd_name, cmd_name)}")
        return getattr(module, NAMES.get(cmd_name, cmd_name))

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command("tistreamlines", cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Streamline tractography of diffusion MRI on CUDA, Vulkan, Metal and the CPU.

    The same seeds give bit-identical streamlines on every device.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with 0 (success), 1 (failure), 2 (wrong use), 3 (some subjects failed) or 128 + n
    (signal n)."""
    sys.exit(_run(sys.argv[1:] if arguments is None else list(arguments)))


def _one_line(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Format a warning about a plugin as other messages are, and those of libraries as Python does."""
    if issubclass(category, PluginWarning):
        return f"Warning: {message}\n"
    return _formatted(message, category, filename, lineno, line)


def _run(arguments: list[str]) -> int:
    warnings.formatwarning = _one_line
    try:
        with guard_output():
            if sys.flags.optimize > 1:
                raise TrackingError("python -OO and PYTHONOPTIMIZE=2 take away docstrings, which DIPY needs: use -O")
            code = cli.main(arguments, prog_name="tistreamlines", standalone_mode=False)
        return code if isinstance(code, int) else DONE
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except ParameterError as error:
        return _failed(error.on_command_line, WRONG_USE)
    except TrackingError as error:
        return _failed(error.on_command_line, COULD_NOT)
    except MemoryError as error:
        return _failed(f"not enough memory ({error}): use a smaller mask or a smaller --chunk-size", COULD_NOT)
    except BaseException as error:
        plugin = culprit(error)
        if {"-v", "-vv", "--verbose"} & set(arguments) or not (plugin or isinstance(error, Exception)):
            raise
        return _failed(_explanation(error, plugin), COULD_NOT)


def _explanation(error: BaseException, plugin: str | None) -> str:
    """Return what is said of an error that nothing else explains; ``plugin`` is the module that raised it, if any."""
    if plugin is not None:
        return f"the plugin {plugin} raised {type(error).__name__}: {error} (-v prints the traceback)"
    if isinstance(error, ImportError):
        advice = "raise the limit of memory if there is one (ulimit -v), or install the library anew"
        return f"a library cannot be imported ({error}): {advice}"
    if isinstance(error, OSError) and error.errno in ADVICE:
        name = "" if error.filename is None else f"{click.format_filename(error.filename)}: "
        return f"{name}cannot be used ({error.strerror}): {ADVICE[error.errno]}"
    if isinstance(error, RuntimeError) and "start new thread" in str(error):
        return f"the system starts no more threads: {THREADS}"
    return f"unexpected {type(error).__name__}: {error} (-v prints the traceback)"


def _failed(message: str, code: int) -> int:
    interrupts.check()  # a library may have turned an interrupt into an error of its own
    click.echo("Error: " + " ".join(message.split()), err=True)
    return code
