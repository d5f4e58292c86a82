"""Rewrites the syntax tree of one kernel function as the text of a face."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from ..kernels import lang
from .face import Face
from .records import BOOL, INT, INTS, KINDS, NOTHING, REAL, REALS, VEC, WORD, WORDS, flat_fields, is_record

ELEMENT = {REALS: REAL, INTS: INT, VEC: REAL, WORDS: WORD}
RESULTS = {
    "real": REAL, "floor": REAL, "from_bits": REAL, "i32": INT, "bits": INT, "u32": WORD, "umulhi": WORD, "lane": INT,
    "vec3": VEC, "words": WORDS, "put": NOTHING, "collect": NOTHING, "barrier": NOTHING,
}  # fmt: skip
FLOAT_OPERATIONS = (ast.Mult, ast.Add, ast.Sub)


def annotation(note: str, scope: dict[str, Any], fill: Mapping[str, Any]) -> Any:
    """What an annotation's text stands for; a hole stands for what fills it."""
    value = eval(note, scope)  # contains names of the language only
    return fill[note] if isinstance(value, lang.Hole) else value


@cache
def tree_of(function: lang.Twin) -> ast.FunctionDef:
    """Syntax tree of a kernel function."""
    source = textwrap.dedent(inspect.getsource(function.function))
    tree = ast.parse(source).body[0]
    assert isinstance(tree, ast.FunctionDef)
    return tree


class Rewriter:
    """Rewrites one function, statement by statement, and keeps track of the kind of each expression."""

    def __init__(
        self, function: lang.Twin, face: Face, fill: Mapping[str, Any],
        visit: Callable[[lang.Twin], list[tuple[str, str]]],
    ) -> None:  # fmt: skip
        self.face, self.fill, self.visit = face, fill, visit
        self.tree = tree_of(function)
        self.scope = vars(inspect.getmodule(function.function))
        self.records: dict[str, type] = {}
        self.parameters: list[tuple[str, str]] = []
        for argument in self.tree.args.args:
            note = annotation(ast.unparse(argument.annotation), self.scope, self.fill)
            if is_record(note):
                self.records[argument.arg] = note
                self.parameters += flat_fields(argument.arg, note)
            else:
                self.parameters.append((argument.arg, KINDS[note]))
        self.env: dict[str, str] = dict(self.parameters)

    # -- names

    def lookup(self, name: str) -> Any:
        value = self.scope.get(name)
        return self.fill[name] if isinstance(value, (lang.Hole, lang.Constant)) else value

    def run(self) -> str:
        """Rewrite the function, without the parameters that it does not use."""
        body = self.block(self.tree.body[1:] if ast.get_docstring(self.tree) else self.tree.body)
        used = {word for line in body for word in re.findall(r"[A-Za-z_]\w*", line)}
        self.parameters = [(name, kind) for name, kind in self.parameters if name in used]
        shown = list(self.face.hidden) + [self.face.parameter(n, k) for n, k in self.parameters]
        lines = [*self.face.decorator.splitlines(), f"def {self.tree.name}({', '.join(shown)}):"]
        return "\n".join(lines + body) + "\n"

    # -- statements

    def block(self, statements: list[ast.stmt]) -> list[str]:
        lines = [line for s in statements for line in self.statement(s)]
        return ["    " + line for line in lines or ["pass"]]

    def statement(self, node: ast.stmt) -> list[str]:
        if isinstance(node, ast.Assign):
            return self.assign(node)
        if isinstance(node, ast.Expr):
            return [self.text(node.value)]
        if isinstance(node, ast.If):
            return self.branch(node)
        if isinstance(node, ast.While):
            return [f"while {self.text(node.test)}:", *self.block(node.body)]
        if isinstance(node, ast.For):
            return self.loop(node)
        if isinstance(node, ast.Return) and node.value is not None:
            text, kind = self.expression(node.value)
            return [f"return {self.guarded(node.value, text) if kind == REAL else text}"]
        raise SyntaxError(f"{self.tree.name}: the kernel language has no {type(node).__name__}")

    def assign(self, node: ast.Assign) -> list[str]:
        target = node.targets[0]
        text, kind = self.expression(node.value)
        if isinstance(target, ast.Name):
            accumulates = isinstance(node.value, ast.BinOp) and ast.unparse(node.value.left) == target.id
            if kind == REAL and isinstance(node.value, ast.BinOp) and not accumulates:
                text = self.guarded(node.value, text)
            self.env[target.id] = kind
            return [f"{target.id} = {text}"]
        return [f"{self.text(target)} = {self.guarded(node.value, text) if kind == REAL else text}"]

    def branch(self, node: ast.If) -> list[str]:
        known = self.known(node.test)
        if known is not None:
            chosen = node.body if known else node.orelse
            return [line for s in chosen for line in self.statement(s)]
        lines = [f"if {self.text(node.test)}:", *self.block(node.body)]
        if node.orelse:
            lines += ["else:", *self.block(node.orelse)]
        return lines

    def known(self, test: ast.expr) -> Any:
        """Value of a test that depends on constants alone; None for other tests."""
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        values = {n: self.fill[n] for n in names if isinstance(self.scope.get(n), lang.Constant) and n not in self.env}
        if not names or names != set(values):
            return None
        return eval(compile(ast.Expression(test), self.tree.name, "eval"), {}, values)

    def loop(self, node: ast.For) -> list[str]:
        target, call = node.target, node.iter
        assert isinstance(target, ast.Name) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        self.env[target.id] = INT
        count, style = self.text(call.args[0]), call.func.id
        if style == "each" and self.face.each:
            opening = self.face.each(target.id, count)
            body = self.block(node.body)
            pad = "    " * (len(opening) - 1 - sum(not line.rstrip().endswith(":") for line in opening))
            return opening + [pad + line for line in body]
        header = self.face.unroll(count) if style == "unrolled" else f"range({count})"
        return [f"for {target.id} in {header}:", *self.block(node.body)]

    # -- expressions

    def text(self, node: ast.expr) -> str:
        return self.expression(node)[0]

    def guarded(self, node: ast.expr, text: str) -> str:
        needs = isinstance(node, ast.BinOp) and isinstance(node.op, FLOAT_OPERATIONS)
        return self.face.guard(text) if needs and self.face.guard else text

    def expression(self, node: ast.expr) -> tuple[str, str]:
        method = getattr(self, f"on_{type(node).__name__}", None)
        if method is None:
            raise SyntaxError(f"{self.tree.name}: the kernel language has no {type(node).__name__}")
        return method(node)

    def on_Constant(self, node: ast.Constant) -> tuple[str, str]:
        if isinstance(node.value, float):
            return self.face.literal(node.value), REAL
        return repr(node.value), INT

    def on_Name(self, node: ast.Name) -> tuple[str, str]:
        if node.id in self.env:
            return node.id, self.env[node.id]
        value = self.lookup(node.id)
        if isinstance(value, float):
            return self.face.literal(value), REAL
        if isinstance(value, (int, tuple)):
            return repr(int(value) if isinstance(value, int) else value), INT
        raise NameError(f"{self.tree.name}: {node.id} has no value yet")

    def on_Attribute(self, node: ast.Attribute) -> tuple[str, str]:
        flat = ast.unparse(node).replace(".", "_")
        return flat, self.env[flat]

    def on_Subscript(self, node: ast.Subscript) -> tuple[str, str]:
        text, kind = self.expression(node.value)
        return f"{text}[{self.text(node.slice)}]", ELEMENT[kind]

    def on_UnaryOp(self, node: ast.UnaryOp) -> tuple[str, str]:
        text, kind = self.expression(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and kind == REAL:
            return self.face.literal(-node.operand.value), REAL
        return f"({ast.unparse(ast.UnaryOp(node.op, ast.Name('_')))[:-1]}{text})", kind

    def on_BinOp(self, node: ast.BinOp) -> tuple[str, str]:
        left, lk = self.expression(node.left)
        right, rk = self.expression(node.right)
        if REAL in (lk, rk):
            left, right = self.guarded(node.left, left), self.guarded(node.right, right)
        symbol = ast.unparse(ast.BinOp(ast.Name("a"), node.op, ast.Name("b")))[2:-2]
        kind = next(k for k in (REAL, WORD, BOOL, INT) if k in (lk, rk))
        text = self.face.logic(left, symbol, right) if kind == BOOL else f"({left} {symbol} {right})"
        if kind == WORD and self.face.wrap_words:
            text = self.face.spell["u32"](text)
        return text, kind

    def on_Compare(self, node: ast.Compare) -> tuple[str, str]:
        symbol = ast.unparse(ast.Compare(ast.Name("a"), node.ops, [ast.Name("b")]))[2:-2]
        return f"({self.text(node.left)} {symbol} {self.text(node.comparators[0])})", BOOL

    def arguments(self, node: ast.Call, callee: lang.Twin) -> list[str]:
        """Texts of the arguments that the callee uses."""
        out: list[str] = []
        taken = {name for name, _ in self.visit(callee)}
        scope = vars(inspect.getmodule(callee.function))
        for argument, parameter in zip(node.args, tree_of(callee).args.args, strict=True):
            if self.record_of(argument) is not None:
                # the argument may be a record that extends the parameter's
                record = annotation(ast.unparse(parameter.annotation), scope, self.fill)
                path = ast.unparse(argument).replace(".", "_")
                fields = flat_fields("", record)
                out += [path + name for name, _ in fields if parameter.arg + name in taken]
            elif parameter.arg in taken:
                text = self.argument(argument)
                out.append(self.face.handed(text) if text.isdigit() else text)
        return out

    def argument(self, node: ast.expr) -> str:
        text, kind = self.expression(node)
        return self.guarded(node, text) if kind == REAL else text

    def record_of(self, node: ast.expr) -> type | None:
        """Record that a name or an attribute chain stands for, or None."""
        if isinstance(node, ast.Name):
            return self.records.get(node.id)
        if isinstance(node, ast.Attribute):
            outer = self.record_of(node.value)
            if outer is not None:
                note = lang.fields_of(outer)[node.attr]
                return note if is_record(note) else None
        return None

    def on_Call(self, node: ast.Call) -> tuple[str, str]:
        assert isinstance(node.func, ast.Name)
        callee = self.lookup(node.func.id)
        if isinstance(callee, lang.Twin):
            tree = tree_of(callee)
            note = ast.unparse(tree.returns) if tree.returns else "None"
            kind = KINDS[annotation(note, vars(inspect.getmodule(callee.function)), self.fill)]
            hidden = [h.split(":")[0] for h in self.face.hidden]
            inner = ([] if callee.__name__ in self.face.replaced else hidden) + self.arguments(node, callee)
            return f"{callee.__name__}({', '.join(inner)})", kind
        name = node.func.id
        kind = RESULTS.get(name) or self.kind_of_call(name, node.args)
        return self.face.spell[name](*[self.argument(a) for a in node.args]), kind

    def kind_of_call(self, name: str, args: list[ast.expr]) -> str:
        kinds = [self.expression(a)[1] for a in args]
        if name in ("at", "take", "spread"):
            return ELEMENT[kinds[0]]
        values = kinds[1:] if name == "where" else kinds
        return next(k for k in (REAL, WORD, INT, BOOL) if k in values)
