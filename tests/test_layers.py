"""Who may import whom, and what importing costs."""

import ast
from pathlib import Path

import pytest
from conftest import python

import tistreamlines

PACKAGE = Path(tistreamlines.__file__).parent
COMPILERS = {"taichi", "numba", "llvmlite"}
# A module imports from lower ranks, and from its own folder. What is not named here is of the surface, like verify.
RANKS = {
    "errors": 0, "drafts": 0, "outcome": 0, "getters": 0, "option": 0.3, "harmonics": 0.6, "parameters": 1, "volume": 1,
    "polynomials": 1, "tractogram": 1, "sphere": 1, "coherence": 1, "pace": 1, "clock": 1, "room": 1, "settings": 1,
    "tally": 1, "kernels": 2, "phantom_anatomy": 2,
    "io": 3, "models": 3, "backends": 3, "phantom": 3, "picture": 3, "orientations": 4, "csd": 4, "models_pmf": 4,
    "cells": 3, "models_ptt": 4.5, "unpacking": 4, "seeds": 4, "cache": 4, "stream": 4, "census": 4, "arrays": 4.5,
    "difference": 4, "containers": 5, "engine": 5, "fits": 5, "frames": 5, "direction_getters": 6, "plan": 6,
    "pipeline": 6.5, "cuslines": 7.2, "benchmarks": 7.5, "cli": 8, "__init__": 9,
    "__main__": 9,
}  # fmt: skip
SURFACE = 7
SOURCES = sorted(path for path in PACKAGE.rglob("*.py"))


def part(path: Path) -> str:
    """First folder or module of the package that a file belongs to."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


class Imports(ast.NodeVisitor):
    """Collects the modules that a file imports, also in functions, but not those for the type checker alone."""

    def __init__(self, path: Path) -> None:
        self.package = ("tistreamlines", *path.relative_to(PACKAGE).parts[:-1])
        self.found: set[str] = set()
        self.visit(ast.parse(path.read_text(encoding="utf-8")))

    def visit_If(self, node: ast.If) -> None:
        if "TYPE_CHECKING" not in ast.unparse(node.test):
            self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.found |= {alias.name for alias in node.names}

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        base = self.package[: len(self.package) + 1 - node.level] if node.level else ()
        module = ".".join((*base, *(node.module or "").split("."))).strip(".")
        self.found |= {f"{module}.{alias.name}" for alias in node.names}


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_imports_point_downwards(path):
    own = part(path)
    for module in Imports(path).found:
        if not module.startswith("tistreamlines."):
            continue
        other = module.split(".")[1]
        if other == own or other.startswith("__version"):
            continue
        assert RANKS.get(other, SURFACE) < RANKS.get(own, SURFACE), f"{own} must not import {module}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_backends_know_compilers(path):
    if part(path) != "backends":
        assert not {module.split(".")[0] for module in Imports(path).found} & COMPILERS


def imported(module, *before):
    """Modules that an import loads besides some others."""
    code = f"import {', '.join(['sys', *before])}; known = {{*sys.modules}}; {module}; print(*{{*sys.modules}} - known)"
    return python("-c", code).stdout.split()


def test_import_is_light():
    """Few modules and no heavy one, which on any machine takes a fraction of what numpy's own import does."""
    found = imported("from tistreamlines import track", "numpy")
    heavy = {"taichi", "numba", "llvmlite", "dipy", "nibabel", "scipy", "matplotlib", "rich", "click", "trx"}
    assert not heavy & {name.split(".")[0] for name in found}
    assert 20 < len(found) < 200


def test_what_heeds_signals_is_lighter_still():
    found = imported("import tistreamlines.__main__")
    assert [name for name in found if name.startswith("tistreamlines")]
    assert not {name.split(".")[0] for name in found} & {"numpy", "click", "pathlib", "socket", "asyncio"}
