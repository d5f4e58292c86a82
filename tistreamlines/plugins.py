"""Modules outside this package that add direction getters and stopping rules.

They are imported where they are installed with an entry point of the group ``tistreamlines``, or by the user. Processes
that help a run import them as well, results in the cache depend on their source, and tables in the cache may name their
kernels. Nothing that a file names is ever imported.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .errors import TrackingError

if TYPE_CHECKING:
    from importlib.metadata import Distribution, EntryPoint

GROUP = "tistreamlines"  # of entry points
MAIN, ITS_COPY = "__main__", "__mp_main__"  # a script that helping processes import, as those of multiprocessing do
_importing: list[str] = []  # the script that is imported now
_digests: dict[str, str] = {}  # of the source of each module, when it was noted


class PluginWarning(UserWarning):
    """A module of another package cannot be used; the rest can."""


def note(names: Iterable[str]) -> None:
    """Note modules that register rows, or that hold their kernels; their source is read anew."""
    for name in map(module_name, names):
        if not is_of_package(name):
            _digests[name] = _digest(name)


def module_name(name: str) -> str:
    """Return the name of a module in all processes; a script is the main module of the process that was started."""
    return MAIN if name == ITS_COPY else name


def is_of_package(name: str) -> bool:
    """Whether a module is one of this package."""
    return name.split(".")[0] == __name__.split(".")[0]


def is_known(name: str) -> bool:
    """Whether a module was noted, or one of the same package was."""
    return name.split(".")[0] in {module.split(".")[0] for module in _digests}


def digests() -> dict[str, str]:
    """Return a hash of the source of each module that was noted, as it was then."""
    return dict(sorted(_digests.items()))


def importable(name: str) -> bool:
    """Whether another process can import a module; it cannot import names typed at a prompt."""
    return name != MAIN or _file(MAIN) is not None


def code_that_imports() -> str:
    """Return code with which a helping process imports these modules too, or nothing."""
    if _importing:
        raise TrackingError(
            f"{_importing[0]} starts a run while a helping process imports it: start runs under "
            "if __name__ == '__main__':"
        )
    places = {name: str(_file(name) or "") for name in _digests if importable(name)}
    return f"from {__name__} import import_all\nimport_all({places!r})\n" if places else ""


def import_all(places: dict[str, str]) -> None:
    """Import modules, by name; a script by its file, which sees that it is not started itself."""
    for name, place in places.items():
        if name == MAIN:
            import runpy

            copy = ModuleType(ITS_COPY)
            sys.modules[MAIN] = sys.modules[ITS_COPY] = copy
            _importing.append(place)
            copy.__dict__.update(runpy.run_path(place, run_name=ITS_COPY))
            _importing.clear()
        else:
            importlib.import_module(name)


def import_installed() -> None:
    """Import the modules that installed packages name in the group of entry points."""
    for entry in _entries():
        try:
            entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # of another package, which must not keep this one from working
            _digests.pop(entry.value.partition(":")[0].strip(), None)  # no helping process imports it either
            fault = f"the plugin {entry.name} ({entry.value}) cannot be imported: {_one_line(error)}"
            warnings.warn(fault, PluginWarning, stacklevel=2)


def _entries() -> Iterator[EntryPoint]:
    """Yield the entry points of the group; a package whose own are damaged hides none of another's."""
    from importlib.metadata import distributions

    packages = list(distributions())
    for number, package in enumerate(packages):
        try:
            entries = [entry for entry in package.entry_points if entry.group == GROUP]
            if entries and not _is_hidden(package.metadata["Name"], packages[:number]):
                yield from entries
        except Exception as error:  # importlib.metadata raises many types
            place = getattr(package, "_path", "a package")  # of its metadata
            fault = f"the entry points of {place} cannot be read: {_one_line(error)}"
            warnings.warn(fault, PluginWarning, stacklevel=3)


def _is_hidden(name: str, before: Iterable[Distribution]) -> bool:
    """Whether a package of this name comes before on the path, so that it is the one that is imported.

    This reads the metadata of all of them, which takes 30 ms, so it is asked only of packages with such entry points.
    """
    for package in before:
        with suppress(Exception):  # importlib.metadata raises many types
            if package.metadata["Name"] == name:
                return True
    return False


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def culprit(error: BaseException) -> str | None:
    """Return the noted module outside this package that raised an error, if there is one."""
    from traceback import walk_tb

    names = [frame.f_globals.get("__name__", "") for frame, _ in walk_tb(error.__traceback__)]
    return next((name for name in reversed(names) if not is_of_package(name) and is_known(name)), None)


def _file(name: str) -> Path | None:
    place = getattr(sys.modules.get(name), "__file__", None)
    return None if place is None or not Path(place).is_file() else Path(place).absolute()


def _digest(name: str) -> str:
    """Return a hash of a module, or of all of its package; one that never repeats if it has no file."""
    top, place = _file(name.split(".")[0]), _file(name)
    if place is None:
        return os.urandom(16).hex()
    package = top is not None and top.name == "__init__.py"
    files = sorted(top.parent.rglob("*.py")) if package and top is not None else [place]
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes()
        digest.update(f"{file.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()
