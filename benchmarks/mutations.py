"""Count the faults that the tests catch: ``python benchmarks/mutations.py --count 50 --seed 1 --jobs 2``.

A mutation changes one operator, number, condition or statement of the package, half of them in kernels. Each runs in a
copy of the checkout: first the tests of the same folder, then all, until a test fails that passes without the mutation.
``--of OTHER`` draws the mutations in another checkout, and leaves out those of functions that this checkout has not, or
has with other code; names do not count. So the suites of two versions meet the same faults. Every copy has a cache of
its own, which begins with the programs that the tests compile without a mutation: all tests run once before, or they
passed in a run whose programs are in the folder of ``--cache``.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from records import ROOT, shape

PACKAGE = "tistreamlines"
# Code for hardware that a machine of tests lacks, and code that only developers call
UNREACHED = ("backends/cuda", "backends/taichi/hip_objects", "benchmarks/", "viewer/")
LEFT_OUT = ("tests/repository/test_tables.py",)  # which fails with any change of a kernel
UNENDED = ("no end in time",)  # in place of the tests that fail
COMPARED = {ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "=="}
COMPUTED = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*", ast.Mod: "*"}


@dataclass(frozen=True)
class Mutation:
    """A change of one place in a function."""

    path: str
    line: int
    function: str
    code: str  # of the function, as :func:`records.shape` has it
    kind: str
    ordinal: int  # among the changes of this kind in the function
    start: int  # of the text that is replaced, in bytes of the file
    stop: int
    replacement: str

    @property
    def place(self) -> tuple[str, str, int]:
        """Where it is in any checkout that has the function, under whatever name."""
        return self.code, self.kind, self.ordinal

    def apply(self, root: Path) -> str:
        """Change the file below a root, and return the line of before and of after."""
        file = root / self.path
        source = file.read_bytes()
        changed = source[: self.start] + self.replacement.encode() + source[self.stop :]
        ast.parse(changed)
        file.write_bytes(changed)
        before, after = (text.decode().splitlines()[self.line - 1].strip() for text in (source, changed))
        return f"{before}  ->  {after}"


def mutations_of(root: Path) -> list[Mutation]:
    """Return all mutations of the package below a root."""
    files = sorted((root / PACKAGE).rglob("*.py"))
    names = [file.relative_to(root).as_posix() for file in files]
    kept = [name for name in names if not any(part in name for part in UNREACHED)]
    return [mutation for name in kept for mutation in _of_file(root, name)]


def _of_file(root: Path, name: str) -> Iterator[Mutation]:
    source = (root / name).read_bytes()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset

    for function in (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)):
        counts: dict[str, int] = {}
        changes = [change for node in _code(function) for change in _changes(node, source, span)]
        code = shape(ast.parse(textwrap.dedent(source[starts[function.lineno - 1] : span(function)[1]].decode())))
        for kind, start, stop, replacement in changes:
            ordinal = counts[kind] = counts.get(kind, -1) + 1
            line = source.count(b"\n", 0, start) + 1
            yield Mutation(name, line, function.name, code, kind, ordinal, start, stop, replacement)


def _code(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Return the nodes of a function's statements, without annotations and functions within."""
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop(0)
        if isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef, ast.JoinedStr, ast.Raise)):
            continue
        yield node
        unread = node.annotation if isinstance(node, ast.AnnAssign) else None
        queue.extend(child for child in ast.iter_child_nodes(node) if child is not unread)


def _changes(node: ast.AST, source: bytes, span) -> Iterator[tuple[str, int, int, str]]:
    """Return the kind, the bytes and the new text of each change of a node."""
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        yield "comparison", *_between(source, span(node.left), span(node.comparators[0])), COMPARED[type(node.ops[0])]
    elif isinstance(node, ast.BinOp) and type(node.op) in COMPUTED:
        yield "arithmetic", *_between(source, span(node.left), span(node.right)), COMPUTED[type(node.op)]
    elif isinstance(node, ast.BoolOp):
        other = "or" if isinstance(node.op, ast.And) else "and"
        yield "connective", *_between(source, span(node.values[0]), span(node.values[1])), other
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "negation", span(node)[0], span(node.operand)[0], ""
    elif isinstance(node, ast.If):
        yield "condition", *span(node.test), f"not ({source[slice(*span(node.test))].decode()})"
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield "number", *span(node), repr(node.value + 1 if type(node.value) is int else node.value * 1.5 or 1.0)
    elif isinstance(node, ast.AugAssign) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)  # a call for its effect
    ):
        yield "statement", *span(node), "pass"


def _between(source: bytes, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
    """Return where the operator between two operands stands."""
    word = re.search(rb"[^\s()]+", source[left[1] : right[0]])
    assert word is not None
    return left[1] + word.start(), left[1] + word.end()


def chosen(mutations: list[Mutation], count: int, seed: int) -> list[Mutation]:
    """Return mutations drawn from the kernels and from the rest, each half of the count, a function once."""
    draw = random.Random(seed)
    mutations = draw.sample(mutations, len(mutations))
    mutations = list({(mutation.path, mutation.function): mutation for mutation in mutations}.values())
    of_kernels = [mutation for mutation in mutations if "kernels" in mutation.path]
    of_host = [mutation for mutation in mutations if "kernels" not in mutation.path]
    return of_kernels[: count // 2] + of_host[: count - count // 2]


@dataclass
class Suite:
    """The tests of a checkout, the time that they may take, and what fails without any mutation."""

    root: Path
    tests: list[str]
    workers: int
    seconds: float
    cache: Path | None = None
    failing: tuple[str, ...] = ()

    def copy(self, folder: Path) -> Path:
        """Copy what git knows of the checkout into a folder, which all users may read, and return its root."""
        folder.chmod(0o755)
        root = folder / "checkout"
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=self.root, capture_output=True, text=True, check=True)
        for name in filter(None, listed.stdout.split("\0")):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(self.root / name, root / name)
        if (shared := self.root.parent / "shared").exists():
            (folder / "shared").symlink_to(shared)
        if self.cache is not None and self.cache.exists():
            shutil.copytree(self.cache, folder / "cache")
        return root

    def fails(self, root: Path, *tests: str, first: bool = True) -> tuple[str, ...]:
        """Run tests of a copy, and return which fail: the first one, or all."""
        command = [sys.executable, "-m", "pytest", "-q", "-n", str(self.workers), "-p", "no:cacheprovider", "--tb=no"]
        command += ["-x"] * first + list(tests)
        command += [f"--{'deselect' if '::' in test else 'ignore'}={test}" for test in (*LEFT_OUT, *self.failing)]
        path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
        environment = os.environ | {"PYTHONPATH": path, "XDG_CACHE_HOME": str(root.parent / "cache")}
        with tempfile.TemporaryFile("w+") as printed:
            process = subprocess.Popen(
                command, cwd=root, env=environment, stdout=printed, stderr=subprocess.STDOUT, start_new_session=True
            )
            try:
                process.wait(self.seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                return UNENDED
            printed.seek(0)
            text = printed.read()
        failing = re.findall(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", text, re.MULTILINE)
        if process.returncode not in (0, 5) and not failing:
            return (text.strip().splitlines()[-1],)
        return tuple(failing)

    def meets(self, mutation: Mutation) -> tuple[str, float, str]:
        """Return what the mutation changes, the seconds until a test fails or all end, and that test."""
        with tempfile.TemporaryDirectory() as folder:
            root = self.copy(Path(folder))
            change = mutation.apply(root)
            start = time.perf_counter()
            failing = self.fails(root, *near) if (near := _near(root, mutation)) else ()
            failing = failing or self.fails(root, *self.tests)
            return change, time.perf_counter() - start, failing[0] if failing else ""


def _near(root: Path, mutation: Mutation) -> list[str]:
    """Return the folders of tests that concern the file of a mutation most."""
    folders = Path(mutation.path).parts[1:-1]
    names = [Path(*folders)]
    if folders[:1] == ("kernels",):  # the tests of kernels are those of their concept
        names = [Path("kernels"), Path("tracking", *(folders[1:] or ("getters",)))]
    return [f"tests/{name.as_posix()}" for name in names if name.parts and (root / "tests" / name).is_dir()]


def main() -> None:
    """Draw mutations, run the tests with each, and print a line for each and how many were caught."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="mutations at a time")
    parser.add_argument("--workers", type=int, default=2, help="processes of pytest for each")
    parser.add_argument("--seconds", type=float, default=3600, help="the longest that the tests of one may take")
    parser.add_argument("--root", type=Path, default=ROOT, help="checkout whose tests run")
    parser.add_argument("--of", type=Path, help="checkout in which the mutations are drawn")
    parser.add_argument("--tests", nargs="*", default=["tests"], help="folders of tests")
    parser.add_argument("--cache", type=Path, help="XDG_CACHE_HOME of a run of all tests, which have passed")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutations")
    parser.add_argument("--list", action="store_true", help="print the mutations alone")
    options = parser.parse_args()

    drawn = chosen(mutations_of(options.of or options.root), options.count, options.seed)
    if options.of is not None:
        here = {mutation.place: mutation for mutation in reversed(mutations_of(options.root))}
        drawn = [here.get(mutation.place) for mutation in drawn]
    numbers = options.only or range(len(drawn))
    mutations = [(k, mutation) for k, mutation in enumerate(drawn) if mutation and k in numbers]
    if options.list:
        for number, mutation in mutations:
            print(f"{number}\t{mutation.path}:{mutation.line}\t{mutation.function}\t{mutation.kind}")
        return

    suite = Suite(options.root, options.tests, options.workers * options.jobs, options.seconds)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        suite.cache = options.cache
        if suite.cache is None:
            suite.failing = suite.fails(suite.copy(Path(folder)), *options.tests, first=False)
            if suite.failing == UNENDED:
                sys.exit(f"the tests do not end within {options.seconds:g} s without a mutation: give more --seconds")
            print(f"{len(suite.failing)} tests fail without a mutation", *suite.failing, sep="\n", flush=True)
            suite.cache = Path(folder) / "cache"
        suite.workers = options.workers
        caught = 0
        outcomes = pool.map(suite.meets, (mutation for _, mutation in mutations))
        for (number, mutation), (change, seconds, test) in zip(mutations, outcomes, strict=True):
            caught += bool(test)
            place = f"{mutation.path}:{mutation.line}"
            print(number, place, mutation.kind, change, f"{seconds:.0f} s", test or "NOT CAUGHT", sep="\t", flush=True)
    print(f"{caught} of {len(mutations)} caught")


if __name__ == "__main__":
    main()
