"""The rooms of the package: who may import whom, and what importing costs."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from commands import python
from places import ROOT

import tistreamlines
from tistreamlines.devices import ARCHS

PACKAGE = Path(tistreamlines.__file__).parent
MAP = ROOT / "ARCHITECTURE.md"
COMPILERS = {"taichi", "numba", "llvmlite"}
ASIDE = ("__init__", "__main__", "aliases", "errors", "installed", "option", "plugins", "helpers", "distributed")
SOURCES = sorted(PACKAGE.rglob("*.py"))


def mapped(within: str = "") -> dict[str, str]:
    """What each room, or each folder of one, is for, from the bottom to the top, as ARCHITECTURE.md has it."""
    return dict(re.findall(rf"^\| `{within}([a-z_]+)/` \| (.*) \|$", MAP.read_text(encoding="utf-8"), re.MULTILINE))


ROOMS, PARTS = mapped(), mapped("tracking/")
BELOW = ("aliases", "errors", "installed", "option", "plugins", "helpers")
ABOVE = ("__init__", "__main__", "distributed")
RANKS = {room: rank for rank, room in enumerate((*BELOW, *ROOMS, *ABOVE))}
PART_RANKS = {part: rank for rank, part in enumerate(("parts", *PARTS, "references", "registry"))}


def room_of(path: Path) -> str:
    """The folder or module of the top floor that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


class Imports(ast.NodeVisitor):
    """Collects the modules that a file imports, also in functions and for the type checker."""

    def __init__(self, path: Path) -> None:
        self.package = ("tistreamlines", *path.relative_to(PACKAGE).parts[:-1])
        self.modules: set[str] = set()
        self.visit(tree_of(path))

    def visit_Import(self, node: ast.Import) -> None:
        self.modules |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) + 1 - node.level] if node.level else ()
        module = ".".join((*base, *(node.module or "").split("."))).strip(".")
        self.modules |= {f"{module}.{alias.name}" for alias in node.names}


@cache
def imports_of(path: Path) -> set[str]:
    """Modules that a file imports."""
    return Imports(path).modules


def package_imports(path: Path) -> list[list[str]]:
    """Modules of this package that a file imports, as parts below the package."""
    return [module.split(".")[1:] for module in imports_of(path) if module.startswith("tistreamlines.")]


def test_the_map_names_every_room():
    """ARCHITECTURE.md has a line for each, which is the first sentence of the room's own description."""
    there = {room_of(path) for path in SOURCES} - set(ASIDE)
    assert there == set(ROOMS)
    assert {path.parent.name for path in (PACKAGE / "tracking").glob("*/__init__.py")} == set(PARTS)
    for room, line in (ROOMS | {f"tracking/{part}": line for part, line in PARTS.items()}).items():
        docstring = ast.get_docstring(tree_of(PACKAGE / room / "__init__.py"))
        assert docstring is not None
        assert docstring.split("\n\n")[0].replace("\n", " ") == line


def test_imports_point_downwards():
    pairs = {(path, other) for path in SOURCES for other, *_ in package_imports(path)}
    assert not [
        f"{path} must not import {other}" for path, other in pairs
        if not other.startswith("__version") and other != room_of(path) and RANKS[other] >= RANKS[room_of(path)]
    ]


def test_imports_within_tracking_point_downwards():
    for part in PARTS:
        files = (PACKAGE / "tracking" / part).rglob("*.py")
        others = {inner[0] for path in files for room, *inner in package_imports(path) if room == "tracking"} - {part}
        assert not [f"{part} must not import {other}" for other in others if PART_RANKS[other] >= PART_RANKS[part]]


def module_of(path: Path) -> str:
    """Name of a file below the package; of a folder for its ``__init__``."""
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")


def imports_within(room: str) -> dict[str, set[str]]:
    """The modules of a room, and which of them each imports."""
    files = {module_of(path): path for path in (PACKAGE / room).rglob("*.py")}
    imports: dict[str, set[str]] = {}
    for name, path in files.items():
        names = [[".".join(parts[:end]) for end in range(len(parts), 1, -1)] for parts in package_imports(path)]
        nearest = {next((module for module in modules if module in files), name) for modules in names}
        imports[name] = nearest - {name}
    return imports


def test_modules_of_a_room_have_an_order():
    """No module imports a module that imports it, also not by way of others or within a function."""
    for room in ROOMS:
        waiting = imports_within(room)
        while waiting:
            ready = {name for name, needed in waiting.items() if not needed & waiting.keys()}
            assert ready, f"these import each other: {sorted(waiting)}"
            waiting = {name: needed for name, needed in waiting.items() if name not in ready}


def test_private_names_stay_in_their_room():
    assert not [
        (path, other, names) for path in SOURCES for other, *names in package_imports(path)
        if other != room_of(path) and not other.startswith("__") and any(name.startswith("_") for name in names)
    ]


def test_only_backends_know_compilers():
    others = [path for path in SOURCES if room_of(path) != "backends" and not path.name.endswith("_kernels.py")]
    assert not [path for path in others if {module.split(".")[0] for module in imports_of(path)} & COMPILERS]


def imported(module, *before):
    """Modules that an import loads besides some others."""
    code = f"import {', '.join(['sys', *before])}; known = {{*sys.modules}}; {module}; print(*{{*sys.modules}} - known)"
    return python("-c", code).stdout.split()


def test_import_is_light():
    """Few modules and no heavy one, which on any machine takes a fraction of what numpy's own import does."""
    modules = imported("from tistreamlines import track", "numpy")
    heavy = {"taichi", "numba", "llvmlite", "dipy", "nibabel", "scipy", "matplotlib", "rich", "click", "trx"}
    assert not heavy & {name.split(".")[0] for name in modules}
    assert 20 < len(modules) < 350


def test_a_command_begins_without_what_only_some_runs_need():
    modules = imported("import tistreamlines.cli.track", "numpy")
    assert not {"tistreamlines.fit.model_fits", "tistreamlines.run.bars"} & {*modules}
    heavy = {"taichi", "numba", "llvmlite", "dipy", "nibabel", "scipy", "rich"}
    assert not heavy & {name.split(".")[0] for name in modules}


def test_what_heeds_signals_is_lighter_still():
    modules = imported("import tistreamlines.__main__")
    assert [name for name in modules if name.startswith("tistreamlines")]
    assert not {name.split(".")[0] for name in modules} & {"numpy", "click", "pathlib", "socket", "asyncio"}


def test_one_door_opens_engines():
    """A run, the drop-ins, the benchmarks and the workers get what grows streamlines from a session."""
    calls = {
        module_of(path): node.func.id
        for path in SOURCES
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Engine", "Several")
    }
    assert set(calls) == {"workers.session"}


def named_archs(node: ast.AST) -> set[str]:
    """Archs that a comparison names: those it compares with, or those of a tuple, a list or a set there."""
    sides = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
    words = [word for side in sides for word in getattr(side, "elts", [side])]
    return {word.value for word in words if isinstance(word, ast.Constant) and word.value in ARCHS}


def test_only_backends_and_devices_tell_archs_apart_by_name():
    """Elsewhere, a property of the device is asked (``on_host``, ``on_gpu``), or a list of archs (``NUMBERED``)."""
    others = [path for path in SOURCES if room_of(path) not in ("backends", "devices")]
    assert not [path for path in others if any(map(named_archs, ast.walk(tree_of(path))))]


def test_both_type_checkers_read_the_same_files():
    tools = pytest.importorskip("tomllib").loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]
    pyright, pyrefly = tools["pyright"], tools["pyrefly"]
    names = {
        "include": "project-includes", "exclude": "project-excludes", "extraPaths": "search-path",
        "pythonVersion": "python-version",
    }
    assert {name: pyrefly[name] for name in names.values()} == {other: pyright[name] for name, other in names.items()}
