"""The linker: what kernels may say, what it makes of them, and what would happen if it were wrong."""

from __future__ import annotations

import ast
import importlib
import inspect
import os
import pkgutil
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from dialects import DIALECTS, program, reals, run
from link_kernels import combine, plus, through, times
from places import ROOT, SUPPORT

import tistreamlines.kernels
from tistreamlines.backends.numba import dialect as _numba
from tistreamlines.backends.numba.cache import Function
from tistreamlines.backends.numba.program import TOGETHER, entry_text
from tistreamlines.backends.taichi import linking as _taichi
from tistreamlines.linker import interpreted as _python
from tistreamlines.linker import lang
from tistreamlines.linker.lang import (
    Constant,
    Hole,
    Ints,
    Reals,
    Record,
    func,
    i32,
    lanes,
    put,
    real,
    rolled,
    stage,
    unrolled,
)
from tistreamlines.linker.link import link
from tistreamlines.linker.store import load

FLAG = Constant("a branch that the test takes or not")


@func
def branching(item: i32, out: Reals):
    """Writes another number for each side of the flag."""
    if FLAG:
        out[item] = 1.0
    else:
        out[item] = 2.0


@func
def lane_sums(item: i32, out: Reals):
    """Sum the same number a few times in every lane."""
    total = lanes(0.0)
    for k in unrolled(3):
        total = total + real(k) * 0.1
    put(out, 0, total)


@func
def lane_sums_in_a_loop(item: i32, out: Reals):
    """The same, in a loop that is not unrolled."""
    total = lanes(0.0)
    for k in rolled(3):
        total = total + real(k) * 0.1
    put(out, 0, total)


class Count(Record):
    """Local variables of ``counting``."""

    total: real
    turns: i32


again = Hole("a stage that may be left out")


@stage
def add(count: Count, value: real, times: i32):
    """Add a value several times, with variables of its own."""
    total = value * real(times)
    count.total = count.total + total
    count.turns = count.turns + 1


@stage
def sum_of(count: Count, more: real) -> real:
    """A stage with a value."""
    count.turns = count.turns + 10
    return count.total + more


@func
def counting(item: i32, values: Reals, out: Reals):
    """What stages make of a record of local variables, and that they leave the caller's other variables alone."""
    count = Count()
    total = 100.0
    add(count, values[item], 2)
    if item == 1:
        add(count, total, 3)
    again(count, 0.5, item)
    sum_of(count, total)  # what it returns is left out
    out[3 * item] = sum_of(count, total)
    out[3 * item + 1] = total
    out[3 * item + 2] = real(count.turns)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_stage_changes_the_callers_record_and_nothing_else(dialect):
    values = {"values": np.array([1.0, 2.0, 3.0]), "out": reals(9)}
    kept = run(dialect, counting, 3, values, {"again": add})["out"].reshape(3, 3)
    assert np.array_equal(kept, [[102.0, 100.0, 22.0], [404.5, 100.0, 23.0], [107.0, 100.0, 22.0]])
    left_out = run(dialect, counting, 3, values | {"out": reals(9)}, {"again": None})["out"].reshape(3, 3)
    assert np.array_equal(left_out, kept - np.outer([0.0, 0.5, 1.0], [1, 0, 0]) - [0, 0, 1])


# ------------------------------------------------------------------------------------------------------ dialect
def kernel_functions() -> list[lang.Func]:
    """Every kernel function of the package, each once."""
    functions: dict[str, lang.Func] = {}
    root = tistreamlines.kernels
    for info in pkgutil.walk_packages(root.__path__, root.__name__ + "."):
        for value in vars(importlib.import_module(info.name)).values():
            if isinstance(value, lang.Func):
                key = f"{value.function.__module__}.{value.__name__}"
                functions[key] = value
    return [functions[k] for k in sorted(functions)]


ALLOWED = (
    ast.FunctionDef, ast.arguments, ast.arg, ast.Assign, ast.Expr, ast.If, ast.While, ast.For, ast.Return, ast.Name,
    ast.Attribute, ast.Subscript, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Call, ast.operator,
    ast.unaryop, ast.cmpop, ast.expr_context,
)


def faults(function: lang.Func) -> list[str]:
    """What a kernel function says that the dialect does not have."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(function.function))).body[0]
    assert isinstance(tree, ast.FunctionDef)
    tree.decorator_list = []
    scope = vars(inspect.getmodule(function.function))
    out = [f"{type(n).__name__}" for n in ast.walk(tree) if not isinstance(n, ALLOWED)]
    out += _signature_faults(tree)
    returns = [n for n in ast.walk(tree) if isinstance(n, ast.Return)]
    if returns and (len(returns) > 1 or tree.body[-1] is not returns[0]):
        out.append("a return that is not the last statement")
    if any(isinstance(n, ast.Name) and n.id == function.__name__ for n in ast.walk(tree)):
        out.append("recursion")
    return out + _name_faults(tree, scope)


def _signature_faults(tree: ast.FunctionDef) -> list[str]:
    a = tree.args
    out = [f"{x.arg} has no annotation" for x in a.args if x.annotation is None]
    if a.defaults or a.kwonlyargs or a.posonlyargs or a.vararg or a.kwarg:
        out.append("arguments other than plain positional ones")
    if ast.get_docstring(tree) is None:
        out.append("no docstring")
    return out


def _name_faults(tree: ast.FunctionDef, scope: dict) -> list[str]:
    local = {x.arg for x in tree.args.args} | stored(tree)
    body = [n for statement in tree.body for n in ast.walk(statement)]
    out = []
    for node in body:
        if isinstance(node, ast.Call) and (node.keywords or not isinstance(node.func, ast.Name)):
            out.append(f"a call that is not of a plain name with positional arguments: {ast.unparse(node)}")
        if isinstance(node, ast.Assign) and len(node.targets) > 1:
            out.append("a chained assignment")
        if isinstance(node, ast.Name) and node.id not in local and not _known(node.id, scope):
            out.append(f"the name {node.id}")
    return out


def stored(tree: ast.FunctionDef) -> set[str]:
    return {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _known(name: str, scope: dict) -> bool:
    value = scope.get(name)
    if isinstance(value, (lang.Func, lang.Constant, lang.Hole, int, float)):
        return True
    if isinstance(value, type) and issubclass(value, lang.Record):
        return True  # makes a record of local variables
    return name == "range" or (callable(value) and value is getattr(lang, name, None))


def test_there_are_kernels_to_lint():
    assert len(kernel_functions()) > 35


@pytest.mark.parametrize("function", kernel_functions(), ids=lambda f: f.__name__)
def test_kernels_keep_to_the_dialect(function):
    assert faults(function) == []


def early(item: i32, out: Reals):
    """Two exits."""
    if item > 3:
        return 1.0
    return 2.0


def augmented(item: i32, out: Reals, *rest):
    """An augmented assignment, numpy, and a loose signature."""
    out[item] += np.sqrt(2.0)


def guarded(item: i32, out, scale=1.0):
    out[item] = scale and (1.0 if item > 2 else unknown)  # noqa: F821


def chosen(item: i32, out: Reals):
    """A conditional expression."""
    out[item] = 1.0 if item > 2 else 2.0


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (early, ["not the last"]),
        (augmented, ["AugAssign", "the name np", "plain positional", "not of a plain name"]),
        (guarded, ["BoolOp", "IfExp", "out has no annotation", "plain positional", "no docstring", "the name unknown"]),
    ],
)
def test_the_lint_finds_faults(function, words):
    text = "; ".join(faults(lang.Func(function)))
    assert all(word in text for word in words), text


def from_three(n: lang.i32, out: lang.Ints):
    for k in range(3, n):
        out[k] = k


def test_a_loop_that_begins_elsewhere_than_at_0_does_not_link():
    with pytest.raises(SyntaxError, match=r"from_three: range\(3, n\) does not count from 0"):
        link([lang.Func(from_three)], _python.dialect(), {})


def test_what_the_dialect_lacks_does_not_link():
    with pytest.raises(SyntaxError, match="chosen: the kernel language has no IfExp"):
        link([lang.Func(chosen)], _python.dialect(), {})


def mixed(item: i32, out: Reals):
    """A real times a whole number."""
    out[item] = 0.5 * item


def test_reals_and_whole_numbers_are_not_mixed():
    """Numba would go on with 64 bits."""
    with pytest.raises(SyntaxError, match="mixes reals and whole numbers"):
        link([lang.Func(mixed)], _python.dialect(), {})


def between(item: i32, out: Reals):
    """A comparison of three values."""
    if 0 < item < 5:
        out[item] = 1.0


def test_a_comparison_has_two_values():
    """The third would be left out."""
    with pytest.raises(SyntaxError, match="between: 0 < item < 5 compares more than two values"):
        link([lang.Func(between)], _python.dialect(), {})


# ------------------------------------------------------------------------------------------------------ linking
@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_holes_and_constants_are_filled(dialect):
    a = np.array([2.0, 5.0, 7.0])
    for function, scale, expected in ((plus, 3, [21, 36]), (times, 3, [30, 105]), (plus, 4, [28, 48])):
        fill = {"operation": function, "scale": scale}
        assert run(dialect, combine, 2, {"a": a, "out": reals(2)}, fill)["out"].tolist() == expected


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_records_are_spread(dialect):
    values = {"nested_pair_first": 3.0, "nested_pair_second": 4.0, "nested_table": np.array([0.5, 0.25])}
    values["out"] = reals(2)
    assert run(dialect, through, 2, values)["out"].tolist() == [43.5, 43.25]


@pytest.mark.parametrize("dialect", ["python", "numba32"])
def test_branches_on_constants_are_cut(dialect):
    for flag, expected in ((0, 2.0), (1, 1.0)):
        assert run(dialect, branching, 1, {"out": reals(1)}, {"flag": flag})["out"][0] == expected
    kind = _python.dialect() if dialect == "python" else _numba.dialect(int(dialect[-2:]))
    assert "2.0" not in link([branching], kind, {"flag": 1}).text


def test_literals_have_the_dialects_precision():
    single = run("numba32", lane_sums, 1, {"out": reals(32)})["out"]
    expected = np.float32(0) + np.float32(0.1) + np.float32(2) * np.float32(0.1)
    assert np.array_equal(single, np.full(32, expected, np.float32))
    double = run("numba64", lane_sums, 1, {"out": reals(32)})["out"]
    assert np.array_equal(double, np.full(32, 0.1 + 2 * 0.1))


def test_gpus_do_not_know_how_often_a_rolled_loop_runs():
    """So their compilers cannot unroll it."""
    for kind, count in (("warp", "3 + _zero"), ("subgroup", "3 + _zero"), ("block", "3")):
        text = link([lane_sums_in_a_loop], _taichi.dialect("vulkan", True, kind), {}).text
        assert f"for k in range({count}):" in text
    sums = [run("numba32", kernel, 1, {"out": reals(32)})["out"] for kernel in (lane_sums, lane_sums_in_a_loop)]
    assert np.array_equal(*sums)


@func
def chained(item: i32, x: Reals, out: Reals):
    """Sums and products that feed one another, and a running sum."""
    total = x[0] * x[1] - x[2]
    for k in range(2):
        total = total + x[k] * (x[k + 1] + x[3])
    out[0] = (x[0] - x[1]) * (total + 0.5)


def test_sums_and_products_are_guarded_but_running_sums():
    texts = {arch: link([chained], _taichi.dialect(arch, True), {}).text for arch in ("cuda", "vulkan")}
    bodies = {arch: text[text.index("def chained") :] for arch, text in texts.items()}
    assert bodies["cuda"].count("- _nil)") == 3 and bodies["cuda"].count("* _one ") == 4
    assert bodies["vulkan"].count("_guard(") == 7
    assert "* _one" not in link([chained], _taichi.dialect("cuda", False), {}).text


@pytest.mark.parametrize("zero", [0.0, 1e-3])
def test_the_guards_of_cuda_are_a_zero_and_a_one(zero):
    """With others, the result is another one."""
    text = link([chained], _taichi.dialect("cuda", True), {}).text
    body = ast.parse(text[text.index("@ti.func\ndef chained") :]).body[0]
    body.decorator_list = []
    for argument in body.args.args:
        argument.annotation = None
    space: dict = {}
    exec(compile(ast.Module([body], []), "chained", "exec"), space)
    x, out = np.array([0.3, -1.7, 0.9, 2.1], np.float64), np.zeros(1)
    values = {"_zero": 0, "_nil": zero, "_one": 1 + zero, "_lane": 0, "_pool": None, "item": 0, "x": x, "out": out}
    space["chained"](*[values[argument.arg] for argument in body.args.args])
    total = x[0] * x[1] - x[2]
    for k in range(2):
        total += x[k] * (x[k + 1] + x[3])
    assert (out[0] == (x[0] - x[1]) * (total + 0.5)) == (zero == 0)


@pytest.mark.parametrize("make", [_python.dialect(), _numba.dialect(32), _numba.dialect(64)], ids=lambda f: f.name)
def test_texts_differ_where_the_constants_do(make):
    first, second = (link([combine], make, {"operation": plus, "scale": scale}).text for scale in (3, 4))
    differing = [(a, b) for a, b in zip(first.splitlines(), second.splitlines(), strict=True) if a != b]
    assert len(differing) == 1
    assert differing[0][0].replace("3", "4") == differing[0][1]
    assert link([combine], make, {"operation": plus, "scale": 3}).text == first


@pytest.mark.parametrize("make", [_python.dialect(), _numba.dialect()], ids=lambda f: f.name)
def test_the_text_for_a_root_is_that_of_it_alone(make):
    """So its compiled code serves whatever else is linked with it."""
    fill = {"operation": plus, "scale": 3, "flag": 1}
    alone = {root.__name__: link([root], make, fill).text for root in (branching, combine, lane_sums)}
    together = link([combine, lane_sums, branching], make, fill)
    assert {name: together.text_for(name) for name in alone} == alone
    assert "def plus(" in alone["combine"] and "def plus(" not in alone["branching"]


def test_equal_functions_of_two_modules_are_compiled_once():
    fills = [{"operation": plus, "scale": 3}, {"operation": plus, "scale": 4}, {"operation": times, "scale": 3}]
    plain, scaled, other = (load(link([combine], _numba.dialect(), fill).text) for fill in fills)
    assert plain.plus is scaled.plus
    assert len({plain.combine, scaled.combine, other.combine}) == 3
    double = load(link([combine], _numba.dialect(64), fills[0]).text)
    assert double.combine is not plain.combine


def test_two_functions_of_one_name_do_not_link():
    namesake = lang.Func(lambda: None)
    namesake.__name__ = "plus"
    with pytest.raises(ValueError, match="two kernel functions are called plus"):
        link([plus, namesake], _python.dialect(), {})


def test_a_missing_constant_is_named():
    with pytest.raises(KeyError, match="scale"):
        link([combine], _python.dialect(), {"operation": plus})


def test_the_linked_module_can_be_stepped_through():
    module = program("python", [combine], {"operation": plus, "scale": 3}).module
    assert "def combine(item, a, out):" in inspect.getsource(module.combine)
    assert Path(module.combine.__code__.co_filename).is_file()


def test_numbas_cache_never_mixes_two_linkings(tmp_path):
    """Numba's own cache tells functions apart by file, name and bytecode, but not by the globals they call."""
    script = textwrap.dedent(
        """
        import sys
        sys.path[:0] = sys.argv[1:]
        import numpy as np
        from link_kernels import combine, plus, times
        from linked import Linked
        from tistreamlines.backends.numba import cache
        from tistreamlines.backends.numba.program import NumbaProgram
        from tistreamlines.linker.parts import Source
        cache.compile_process = lambda *_: None
        for function, scale in ((plus, 3), (times, 3), (times, 4)):
            program = NumbaProgram(Source([combine], [Linked(operation=function, scale=scale)]), threads=1)
            out = np.zeros(1, np.float32)
            program.run("combine", 1, {"a": np.array([2, 5], np.float32), "out": out})
            print(out[0])
        print("numba" in sys.modules)
        """
    )
    command = [sys.executable, "-c", script, str(SUPPORT), str(ROOT)]
    environment = os.environ | {"XDG_CACHE_HOME": str(tmp_path)}
    for compiles in (True, False):  # the second process finds all three
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        *sums, imported = done.stdout.split()
        assert [float(total) for total in sums] == [21, 30, 40]
        assert imported == str(compiles)


@pytest.mark.parametrize(("count", "threads"), [(0, 2), (1, 2), (100, 2), (1000, 3), (5, 64)])
def test_cpu_threads_take_all_items_once_from_a_queue(count, threads):
    took, claimed = [], iter(range(0, 2**30, TOGETHER))
    names = {
        "compiled": lambda function: function, "note": lambda item, first, out: out.append((item, first)),
        "claim": lambda queue, number: next(queue) if number == TOGETHER else None,
    }
    # an argument of the name that a loop's own variable might have
    exec(entry_text("note", [("item", "int"), ("first", "int"), ("out", "ints")]), names)
    for _ in range(threads):
        names["run_note"](count, claimed, 7, took)
    assert took == [(item, 7) for item in range(count)]


def test_no_two_cpu_threads_take_the_same_items():
    loop = entry_text("work", [("item", "int"), ("taken", "ints")])
    text = f"""
from tistreamlines.backends.numba.memory import claim
from tistreamlines.backends.numba.compiler import compiled

@compiled
def work(item, taken):
    taken[item] += 1

{loop}"""
    call, taken, queue = Function(text, "run_work"), np.zeros(1_000_000, np.int32), np.zeros(1, np.int64)
    threads = [threading.Thread(target=call, args=(len(taken), queue, taken)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (taken == 1).all()


class Reach(Record):
    """A record of which little is used."""

    near: Reals
    far: Reals
    unread: Ints


@func
def nearest(reach: Reach, item: i32, scale: real) -> real:
    """Reads one field, and not its scale."""
    return reach.near[item]


@func
def reaching(item: i32, reach: Reach, out: Reals):
    """Hands the whole record on."""
    out[item] = nearest(reach, item, reach.far[item] + 1.0)


def test_functions_take_what_they_use_and_no_more():
    linked = link([reaching], _python.dialect(), {})
    assert [name for name, _ in linked.signatures["nearest"]] == ["reach_near", "item"]
    assert [name for name, _ in linked.signatures["reaching"]] == ["item", "reach_near", "out"]
    values = {"reach_near": np.array([3.0, 4.0]), "out": reals(2)}
    assert run("numba32", reaching, 2, values)["out"].tolist() == [3.0, 4.0]


def test_a_forked_process_has_threads_of_its_own():
    """A pool that a fork copies has no threads: its work would never be done."""
    values = {"a": np.arange(101.0), "out": reals(100)}
    fill = {"operation": plus, "scale": 1}
    expected = run("numba32", combine, 100, values, fill)["out"]
    script = textwrap.dedent(
        """
        import os, sys
        sys.path[:0] = [sys.argv[1], sys.argv[2]]
        import numpy as np
        from dialects import reals, run
        from link_kernels import combine, plus
        def total():
            values = {"a": np.arange(101.0), "out": reals(100)}
            return run("numba32", combine, 100, values, {"operation": plus, "scale": 1})["out"].sum()
        before = total()
        child = os.fork()
        if not child:
            os._exit(0 if total() == before else 1)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert expected.sum() == sum(range(100)) + sum(range(1, 101))
    done = subprocess.run([sys.executable, "-c", script, str(SUPPORT), str(ROOT)], timeout=60, check=False)
    assert done.returncode == 0
