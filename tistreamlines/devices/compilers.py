"""The compilers of Taichi's language: Taichi itself, and the forks of it that are maintained.

One of them serves a process.  Helping processes take the same one, which an environment variable names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib.util import find_spec

from ..errors import DeviceError, ParameterError, listed
from ..installed import version_of
from .host import ON_HOST

VARIABLE = "TISTREAMLINES_COMPILER"
AUTO = "auto"


@dataclass(frozen=True)
class Compiler:
    """A compiler of Taichi's language.

    Parameters
    ----------
    name, title : as ``--compiler`` takes it, and for messages.
    package : on PyPI.
    prefix : of the environment variables that it reads.
    family : whose name is in the variable that keeps it from printing its version when it is imported.
    archs : those that it compiles for.
    """

    name: str
    title: str
    package: str
    prefix: str
    family: str
    archs: tuple[str, ...]

    @property
    def module(self) -> str:
        """The module to import."""
        return self.package.replace("-", "_")

    @property
    def installed(self) -> bool:
        """Whether it can be imported; it is not imported to find out."""
        return find_spec(self.module) is not None

    @property
    def version(self) -> str:
        """Its version."""
        return version_of(self.package)

    def variable(self, name: str) -> str:
        """Return the name of an environment variable that it reads, such as TI_VISIBLE_DEVICE."""
        return f"{self.prefix}_{name}"


COMPILERS = {
    compiler.name: compiler for compiler in (
        Compiler("taichi", "Taichi", "taichi", "TI", "TAICHI", ("cuda", "vulkan", "metal")),
        Compiler("quadrants", "Quadrants", "quadrants", "QD", "QUADRANTS", ("cuda", "amdgpu", "vulkan", "metal")),
        Compiler("forge", "Taichi Forge", "taichi-forge", "TI", "TAICHI", ("cuda", "vulkan")),
    )
}


def compilers_for(arch: str) -> list[str]:
    """Return the names of the compilers that are installed and compile for an arch."""
    return [compiler.name for compiler in COMPILERS.values() if compiler.installed and arch in compiler.archs]


_given = os.environ.get(VARIABLE)  # by the user, or by the process that has started this one


def take_compiler(name: str) -> None:
    """Choose the compiler of this process and of those that it starts.

    Raises
    ------
    ParameterError
        If it is not installed.
    """
    if name != AUTO and not COMPILERS[name].installed:
        raise ParameterError(
            f"--compiler {name}: {COMPILERS[name].package} is not installed: pip install {COMPILERS[name].package}, or "
            f"give one of {listed([AUTO, *(compiler.name for compiler in COMPILERS.values() if compiler.installed)])}"
        )
    wanted = _given if name == AUTO else name
    if wanted is None:
        os.environ.pop(VARIABLE, None)
    elif os.environ.get(VARIABLE) != wanted:  # other threads may read the variables
        os.environ[VARIABLE] = wanted


def compiler_for(arch: str) -> Compiler:
    """Return the compiler that was chosen, or else the first one that is installed and compiles for an arch.

    Raises
    ------
    DeviceError
        If there is none.
    """
    compiler = _find_compiler(arch)
    if isinstance(compiler, str):
        raise DeviceError(f"{arch}: {compiler}")
    return compiler


def compiler_lack(arch: str) -> str:
    """Return why no compiler can be taken for an arch, and what to do; '' if one can, or if none is needed."""
    compiler = _find_compiler(arch) if arch not in ON_HOST else ""
    return compiler if isinstance(compiler, str) else ""


def _find_compiler(arch: str) -> Compiler | str:
    named = os.environ.get(VARIABLE, AUTO)
    if named not in (AUTO, *COMPILERS):
        return f"{VARIABLE}={named}: give {listed([AUTO, *COMPILERS])}"
    able = [compiler for compiler in COMPILERS.values() if arch in compiler.archs]
    for compiler in able:
        if named in (AUTO, compiler.name) and compiler.installed:
            return compiler
    if named != AUTO and COMPILERS[named] not in able:
        return f"{COMPILERS[named].title} does not compile for it: give another --compiler, or another arch"
    packages = [compiler.package for compiler in able if named in (AUTO, compiler.name)]
    which = f"{'one of ' * (len(packages) > 1)}{', '.join(packages)}"
    return f"no compiler for it is installed: pip install {which}; or use another arch"
