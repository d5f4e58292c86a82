"""The file of a benchmark's results, and the commit and the kernels that it measures."""

from __future__ import annotations

import ast
import hashlib
import json
import subprocess
import sys
from pathlib import Path

from tistreamlines.benchmarks.suite import machine

ROOT = Path(__file__).resolve().parents[1]


def write_record(path: Path, **entries: object) -> None:
    """Write what was measured, with the command, without the machine's folders, the commit, and the machine."""
    words = [word if not Path(word).is_absolute() else Path(word).name for word in sys.argv[1:]]
    command = f"python benchmarks/{Path(sys.argv[0]).name} {' '.join(words)}".strip()
    content = {"command": command, "commit": commit(), "machine": machine(), **entries}
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def commit() -> str:
    """Return the commit of the source tree, "" outside of one; it ends with -dirty if files are changed."""
    try:
        described = subprocess.run(
            ["git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=12"], capture_output=True, text=True,
            check=True, timeout=20,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return described.stdout.strip()


APART = (  # kernels that no command of the tables runs
    "fit/msmt_kernels.py", "fit/basis_kernels.py", "fit/linear_kernels.py", "fit/lobe_kernels.py",
    "fit/iterations_kernels.py",
    "tracking/products/points/compression_kernels.py", "tracking/products/connectome/shares_kernels.py",
    "tracking/products/connectome/edges_kernels.py", "io/numbers_kernels.py", "kernels/products/rejections.py",
    "kernels/weights/lengths.py", "kernels/weights/trimming.py", "kernels/getters/fod.py", "kernels/getters/ifod2.py",
    "kernels/stopping/act5.py", "kernels/stopping/five_tissues.py", "kernels/recovery/backtracking.py",
    "surfaces/enclosed_kernels.py", "surfaces/smoothing_kernels.py",
    "tracking/weights/sift_kernels.py", "tracking/weights/comparison_kernels.py",
    "tracking/weights/fixel_draw_kernels.py", "tracking/weights/visits_kernels.py",
    "tracking/seeding/directed_kernels.py",
)


def kernels(package: Path = ROOT / "tistreamlines", fits: bool = True) -> str:
    """Return a fingerprint of the kernels' code, to which names, comments, docstrings and files' places add nothing.

    Parameters
    ----------
    package : the folder of the package.
    fits : whether the kernels that fit models count: whole commands run them, loops of trackers do not.
    """
    left_out = {package / path for path in APART} | (set() if fits else {*package.glob("fit/*_kernels.py")})
    files = sorted({*(package / "kernels").rglob("*.py"), *package.rglob("*_kernels.py")} - left_out)
    shapes = sorted(shape(ast.parse(file.read_bytes())) for file in files)
    return hashlib.sha256("\n".join(shapes).encode()).hexdigest()[:16]


def shape(tree: ast.AST) -> str:
    """Return the syntax of code without texts and imports, with a number for each name.

    Names of variables count within their function, all others within the code.
    """
    for node in list(ast.walk(tree)):
        if isinstance(body := getattr(node, "body", None), list):
            node.body = [line for line in body if not _says_nothing(line)]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    _number(tree, {}, {})
    return _written(tree)


def _written(part: object) -> str:
    """Return code as text that is the same in all versions of Python, which have more and more empty fields."""
    if isinstance(part, ast.AST):
        fields = [f"{name}={_written(value)}" for name, value in ast.iter_fields(part) if value not in (None, [])]
        return f"{type(part).__name__}({', '.join(fields)})"
    return f"[{', '.join(map(_written, part))}]" if isinstance(part, list) else repr(part)


def _number(node: ast.AST, names: dict[str, str], variables: dict[str, str]) -> None:
    """Replace the names in a node by numbers."""
    if isinstance(node, ast.FunctionDef):
        inner = [*ast.walk(node)]
        stored = [part.id for part in inner if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]
        arguments = [part.arg for part in inner if isinstance(part, ast.arg)]
        variables = {name: f"variable {k}" for k, name in enumerate(dict.fromkeys([*arguments, *stored]))}
    for field in ("id", "arg", "attr", "name"):
        if isinstance(name := getattr(node, field, None), str):
            new = variables.get(name) if field in ("id", "arg") else None
            setattr(node, field, new or names.setdefault(name, str(len(names))))
    for child in ast.iter_child_nodes(node):
        _number(child, names, variables)


def _says_nothing(line: ast.stmt) -> bool:
    """Whether a statement is an import or a text that nothing reads."""
    return isinstance(line, (ast.Import, ast.ImportFrom)) or (
        isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)
    )
