"""Rewrites the syntax tree of one kernel function as the text of a dialect."""

from __future__ import annotations

import ast
import gc
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import TypeGuard, TypeVar, cast

from . import lang
from .dialect import Dialect
from .parts import Filling
from .records import BOOL, INT, INTS, KINDS, NOTHING, REAL, REALS, VEC, WORD, WORDS, flat_fields, is_record

Node = TypeVar("Node", ast.stmt, ast.expr)
ELEMENT = {REALS: REAL, INTS: INT, VEC: REAL, WORDS: WORD}
RESULTS = {
    "real": REAL, "floor": REAL, "from_bits": REAL, "i32": INT, "bits": INT, "u32": WORD, "umulhi": WORD, "lane": INT,
    "vec3": VEC, "words": WORDS, "team_any": INT, "team_first": INT, "team_last": INT, "team_value": REAL, "raised": REAL,
    "prefetch": NOTHING, "put": NOTHING, "add": NOTHING, "collect": NOTHING, "barrier": NOTHING,
}
SOURCE = "  # "  # before the place of a statement in the source
DEBUGGING = ("breakpoint", "print")
# Functions of modules by their first lines, by the module's text. Each is taken out once, since its tree is changed.
_parsed: dict[str, dict[int, ast.FunctionDef]] = {}
_parsing = threading.Lock()
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")  # of statements
FLOAT_OPERATIONS = (ast.Mult, ast.Add, ast.Sub)
ZEROS: dict[str, ast.expr] = {  # of a record of local variables
    REAL: ast.Constant(0.0), INT: ast.Constant(0), WORD: ast.Call(ast.Name("u32"), [ast.Constant(0)], []),
    VEC: ast.Call(ast.Name("vec3"), [ast.Constant(0.0)] * 3, []),
}


def annotation(node: ast.expr | None, function: lang.Func, filling: Filling) -> object:
    """The class of an annotation of a kernel function; for a hole, the class that fills it."""
    note = ast.unparse(node) if node else "None"
    scope = getattr(node, "scope", function.function.__globals__)
    value = eval(note, scope)  # contains names of the language only
    return filling[note.lower()] if isinstance(value, lang.Hole) else value


@cache
def tree_of(function: lang.Func) -> ast.FunctionDef:
    """Syntax tree of a kernel function, without its docstring."""
    written = inspect.unwrap(function.function)
    scope, code = function.function.__globals__, written.__code__
    source, line = "".join(inspect.findsource(written)[0]), code.co_firstlineno
    with _parsing:
        if line not in _parsed.get(source, ()):
            _parsed[source] = functions_of(source)
        tree = _parsed[source].pop(line, None)
    if tree is None:
        advice = "write it with def, and leave the file as it is meanwhile"
        raise SyntaxError(f"{function.__name__}: its file has no such function: {advice}")
    if ast.get_docstring(tree, clean=False):
        del tree.body[0]
    named = [scope.get(name) for name in code.co_names]
    named += [named_by(argument.annotation, scope) for argument in tree.args.args]
    return spread_contexts(tree, scope) if any(map(is_context, named)) else tree


def functions_of(source: str) -> dict[int, ast.FunctionDef]:
    """Return the functions of a module by their first line, that of the first decorator if there are any.

    inspect.getsource finds the end of each function by reading it token by token, which takes five times as long.
    """
    functions = dict[int, ast.FunctionDef]()
    blocks: list[Iterable[ast.stmt]] = [parse_source(source).body]
    while blocks:
        for statement in blocks.pop():
            if isinstance(statement, ast.FunctionDef):
                functions[min(node.lineno for node in (statement, *statement.decorator_list))] = statement
            blocks += [getattr(statement, name) for name in BLOCKS if hasattr(statement, name)]
    return functions


def named_by(node: ast.expr | None, scope: Mapping[str, object]) -> object:
    """Return what an expression names, if it is a name."""
    return scope.get(node.id) if isinstance(node, ast.Name) else None


def is_context(kind: object) -> TypeGuard[type[lang.Context]]:
    """Whether something is a context."""
    return is_record(kind) and issubclass(kind, lang.Context)


def spread_contexts(tree: ast.FunctionDef, scope: Mapping[str, object]) -> ast.FunctionDef:
    """Put the fields of contexts in the place of contexts, in a function of a module with these names."""
    arguments: list[ast.arg] = []
    contexts: dict[str, dict[str, ast.expr]] = {}
    for argument in tree.args.args:
        kind = named_by(argument.annotation, scope)
        parameters = parameters_of_context(kind) if is_context(kind) else [argument]
        if is_context(kind):
            contexts[argument.arg] = {field.arg: ast.Name(field.arg, ast.Load()) for field in parameters}
        arguments += parameters
    tree.args.args = arguments
    ContextSpreader(tree.name, contexts, scope).generic_visit(tree)
    return tree


def parameters_of_context(context: type[lang.Context]) -> list[ast.arg]:
    """Return a parameter for each field of a context, annotated as its module means it."""
    parameters = []
    for name, note in context.__annotations__.items():
        annotation = ast.Name(note, ast.Load())
        annotation.scope = vars(sys.modules[context.__module__])  # pyright: ignore[reportAttributeAccessIssue]
        parameters.append(ast.arg(name, annotation))
    return parameters


class ContextSpreader(ast.NodeTransformer):
    """Puts fields in the place of contexts.

    Parameters
    ----------
    name : of the function, for messages.
    contexts : the value of each field of the contexts that have a name: of parameters, and of those that the function makes.
    scope : names of the function's module.
    """

    def __init__(self, name: str, contexts: dict[str, dict[str, ast.expr]], scope: Mapping[str, object]) -> None:
        self.name, self.contexts, self.scope = name, contexts, scope

    def fields(self, node: ast.expr) -> dict[str, ast.expr] | None:
        """Return the fields of a context that an expression names or makes; None if it does neither."""
        if isinstance(node, ast.Name) and node.id in self.contexts:
            return {name: rename(value, {}) for name, value in self.contexts[node.id].items()}
        kind = named_by(node.func, self.scope) if isinstance(node, ast.Call) else None
        if not (isinstance(node, ast.Call) and is_context(kind)):
            return None
        names = kind.__annotations__
        if len(names) != len(node.args):
            raise SyntaxError(f"{self.name}: {kind.__name__} has the fields {', '.join(names)}")
        return {name: self.visit(value) for name, value in zip(names, node.args, strict=True)}

    def visit_Assign(self, node: ast.Assign) -> ast.Assign | None:
        """Leave the making of a context out: its values stand where it is handed on."""
        target, fields = node.targets[0], self.fields(node.value)
        if fields is None or not isinstance(target, ast.Name):
            self.generic_visit(node)
            return node
        self.contexts[target.id] = fields
        return None

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        fields = self.fields(node.value)
        if fields is None:
            self.generic_visit(node)
            return node
        if node.attr not in fields:
            raise SyntaxError(f"{self.name}: {ast.unparse(node.value)} has no {node.attr}")
        value = fields[node.attr]
        return ast.Name(value.id, node.ctx) if isinstance(value, ast.Name) else value

    def visit_Call(self, node: ast.Call) -> ast.Call:
        fields = [self.fields(argument) or {"": self.visit(argument)} for argument in node.args]
        node.args = [value for values in fields for value in values.values()]
        return node


def parse_source(source: str) -> ast.Module:
    """Parse Python without a garbage collection meanwhile.

    In Python 3.11, parsing fails if a collection lets another thread parse something, too
    (https://github.com/python/cpython/issues/106905).
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if collects:
            gc.enable()


def flat(node: ast.expr) -> str:
    """Flat name of a field: ``method.sphere.vertices`` becomes ``method_sphere_vertices``."""
    return f"{flat(node.value)}_{node.attr}" if isinstance(node, ast.Attribute) else name_of(node) or ast.unparse(node)


def name_of(node: ast.expr) -> str:
    """Return a name, and nothing for another expression."""
    return node.id if isinstance(node, ast.Name) else ""


@cache
def symbol_of(operator: type[ast.operator | ast.cmpop]) -> str:
    """Return how Python writes an operator of two values."""
    a, b = ast.Name("a"), ast.Name("b")
    node = ast.Compare(a, [operator()], [b]) if issubclass(operator, ast.cmpop) else ast.BinOp(a, operator(), b)
    return ast.unparse(node)[2:-2]


def rename(node: Node, meant: Mapping[str, ast.expr]) -> Node:
    """Return a copy of a statement or an expression with expressions in the place of names."""

    def copy_of(value: object) -> object:
        if isinstance(value, list):
            return [copy_of(item) for item in value]
        if isinstance(value, ast.Name) and value.id in meant:
            return meant[value.id]
        if not isinstance(value, ast.AST):
            return value
        # several times as fast as copy.deepcopy, half the time of the linker
        node = type(value).__new__(type(value))
        vars(node).update({name: copy_of(inner) for name, inner in vars(value).items()})
        return node

    return cast(Node, copy_of(node))


def kind_of_call(name: str, kinds: list[str]) -> str:
    """Return the kind of the value of a word of the language whose arguments are of these kinds."""
    if name in ("at", "take", "spread"):
        return ELEMENT[kinds[0]]
    values = kinds[1:] if name == "where" else kinds
    return next(k for k in (REAL, WORD, INT, BOOL) if k in values)


def set_in(statements: list[ast.stmt]) -> set[str]:
    """Names of the variables that statements set."""
    every = (node for statement in statements for node in ast.walk(statement))
    return {node.id for node in every if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


class Rewriter(ast.NodeVisitor):
    """Rewrites one function, statement by statement, and keeps track of the kind of each expression.

    ``visit`` returns the lines of a statement, or text and kind of an expression.
    """

    def __init__(
        self, function: lang.Func, dialect: Dialect, filling: Filling,
        parameters_of: Callable[[lang.Func], list[tuple[str, str]]],
    ) -> None:
        self.dialect, self.filling, self.parameters_of = dialect, filling, parameters_of
        self.tree, self.scope = tree_of(function), function.function.__globals__
        self.records: set[str] = set()
        self.operations: dict[ast.BinOp, tuple[str, str, str]] = {}  # texts of left side, symbol and right side
        self.parameters: list[tuple[str, str]] = []
        for argument in self.tree.args.args:
            self.parameters += self.flatten(argument.arg, annotation(argument.annotation, function, filling))
        self.env: dict[str, str] = dict(self.parameters)

    def generic_visit(self, node: ast.AST) -> None:
        raise SyntaxError(f"{self.tree.name}: the kernel language has no {type(node).__name__}")

    # -- names

    def flatten(self, name: str, note: object) -> list[tuple[str, str]]:
        """Return flat name and kind of a variable, or of each field of a record, which is noted as one."""
        if not is_record(note):
            return [(name, KINDS[note])]
        self.records.add(name)
        return [field for inner, kind in lang.fields_of(note).items() for field in self.flatten(f"{name}_{inner}", kind)]

    def lookup(self, name: str) -> object:
        value = self.scope.get(name)
        return self.filling[name.lower()] if isinstance(value, (lang.Hole, lang.Constant)) else value

    def run(self) -> str:
        """Rewrite the function, without the parameters that it does not use."""
        body = self.block(self.tree.body)
        used = {word for line in body for word in re.findall(r"[A-Za-z_]\w*", line.partition(SOURCE)[0])}
        self.parameters = [(name, kind) for name, kind in self.parameters if name in used]
        shown = list(self.dialect.hidden) + [self.dialect.parameter(n, k) for n, k in self.parameters]
        lines = [*self.dialect.decorator.splitlines(), f"def {self.tree.name}({', '.join(shown)}):"]
        return "\n".join(lines + body) + "\n"

    # -- statements

    def block(self, statements: list[ast.stmt]) -> list[str]:
        return ["    " + line for line in self.lines(statements) or ["pass"]]

    def lines(self, statements: Iterable[ast.stmt]) -> list[str]:
        """Lines of statements, of which a dialect for debugging names the source."""
        out: list[str] = []
        for statement in statements:
            lines = self.visit(statement)
            if self.dialect.debugs and lines and SOURCE not in lines[0]:
                lines[0] += f"{SOURCE}{self.scope['__name__']}:{statement.lineno}"
            out += lines
        return out

    def visit_Assign(self, node: ast.Assign) -> list[str]:
        target, value = node.targets[0], node.value
        called = self.lookup(value.func.id) if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) else None
        if isinstance(called, lang.Stage) and isinstance(value, ast.Call):
            return self.inline(value, called, target)
        if is_record(called):
            # all are set to zero, since a compiler may not know a variable that only a branch sets
            fields = self.flatten(flat(target), called)
            self.env.update(fields)
            return [f"{name} = {self.text(ZEROS[kind])}" for name, kind in fields]
        text, kind = self.visit(value)
        accumulates = isinstance(target, ast.Name) and isinstance(value, ast.BinOp) and name_of(value.left) == target.id
        if kind == REAL and not accumulates:
            text = self.guard(value, text)
        if isinstance(target, ast.Name):
            self.env[target.id] = kind
        return [f"{self.text(target)} = {text}"]

    def visit_Expr(self, node: ast.Expr) -> list[str]:
        call = node.value
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name):
            called = self.lookup(call.func.id)
            if call.func.id in DEBUGGING:
                return [f"{call.func.id}({', '.join(map(self.text, call.args))})"] if self.dialect.debugs else []
            if called is None:
                return []
            if isinstance(called, lang.Stage):
                return self.inline(call, called)
        return [self.text(call)]

    def inline(self, call: ast.Call, stage: lang.Stage, target: ast.expr | None = None) -> list[str]:
        """Lines of a stage, written where it is called: its records and variables are the caller's.

        Variables of the stage alone are renamed, and also arguments that are no variables of the caller. Without
        a target, what the stage returns is left out.
        """
        tree, lines, meant = tree_of(stage), [], {}
        read = {node.id for statement in tree.body for node in ast.walk(statement) if isinstance(node, ast.Name)}
        for argument, parameter in zip(call.args, tree.args.args, strict=True):
            note = annotation(parameter.annotation, stage, self.filling)
            if is_record(note) or (isinstance(argument, ast.Name | ast.Attribute) and flat(argument) in self.env):
                meant[parameter.arg] = argument
            elif parameter.arg not in read:
                continue
            else:
                meant[parameter.arg] = ast.Name(f"{stage.__name__}_{parameter.arg}")
                lines += self.visit_Assign(ast.Assign([meant[parameter.arg]], argument))
        meant |= {name: ast.Name(f"{stage.__name__}_{name}") for name in set_in(tree.body) - meant.keys()}
        outside, self.scope = self.scope, stage.function.__globals__
        for written in tree.body:
            statement = rename(written, meant)
            if isinstance(statement, ast.Return):
                if target is None or statement.value is None:
                    continue
                statement = ast.Assign([target], statement.value)
            lines += self.lines([ast.copy_location(statement, written)])
        self.scope = outside
        return lines

    def visit_If(self, node: ast.If) -> list[str]:
        known = self.value_of_test(node.test)
        if known is not None:
            return self.lines(node.body if known else node.orelse)
        lines = [f"if {self.text(node.test)}:", *self.block(node.body)]
        if node.orelse:
            lines += ["else:", *self.block(node.orelse)]
        return lines

    def visit_While(self, node: ast.While) -> list[str]:
        return [f"while {self.text(node.test)}:", *self.block(node.body)]

    def visit_Return(self, node: ast.Return) -> list[str]:
        assert node.value is not None
        return [f"return {self.argument(node.value)}"]

    def value_of_test(self, test: ast.expr) -> object:
        """Value of a test that depends on constants and on numbers of its module alone; None for other tests."""
        names = {n.id for n in ast.walk(test) if isinstance(n, ast.Name)}
        known = {n: self.scope.get(n) for n in names if n not in self.env}
        values = {n: self.filling[n.lower()] for n, value in known.items() if isinstance(value, lang.Constant)}
        values |= {n: value for n, value in known.items() if isinstance(value, (int, float))}
        if not names or names != set(values):
            return None
        return eval(compile(ast.Expression(test), self.tree.name, "eval"), {}, values)

    def visit_For(self, node: ast.For) -> list[str]:
        target, call = node.target, node.iter
        assert isinstance(target, ast.Name) and isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
        if len(call.args) != 1:
            raise SyntaxError(f"{self.tree.name}: {ast.unparse(call)} does not count from 0: give the number of turns alone")
        self.env[target.id] = INT
        count, style = self.text(call.args[0]), call.func.id
        if style == "each" and self.dialect.each:
            opening = self.dialect.each(target.id, count)
            body = self.block(node.body)
            pad = "    " * (len(opening) - 1 - sum(not line.rstrip().endswith(":") for line in opening))
            return opening + [pad + line for line in body]
        styles = {"unrolled": self.dialect.unroll, "rolled": self.dialect.roll}
        header = styles[style](count) if style in styles else f"range({count})"
        return [f"for {target.id} in {header}:", *self.block(node.body)]

    # -- expressions

    def text(self, node: ast.expr) -> str:
        return self.visit(node)[0]

    def guard(self, node: ast.expr, text: str) -> str:
        if not (isinstance(node, ast.BinOp) and isinstance(node.op, FLOAT_OPERATIONS) and self.dialect.guard):
            return text
        return self.dialect.guard(*self.operations[node])

    def visit_Constant(self, node: ast.Constant) -> tuple[str, str]:
        if isinstance(node.value, float):
            return self.dialect.literal(node.value), REAL
        return repr(node.value), INT

    def visit_Name(self, node: ast.Name) -> tuple[str, str]:
        if node.id in self.env:
            return node.id, self.env[node.id]
        value = self.lookup(node.id)
        if isinstance(value, float):
            return self.dialect.literal(value), REAL
        if isinstance(value, (int, tuple)):
            return repr(int(value) if isinstance(value, int) else value), INT
        raise NameError(f"{self.tree.name}: {node.id} has no value yet")

    def visit_Attribute(self, node: ast.Attribute) -> tuple[str, str]:
        name = flat(node)
        return name, self.env[name]

    def visit_Subscript(self, node: ast.Subscript) -> tuple[str, str]:
        text, kind = self.visit(node.value)
        number = self.text(node.slice)
        if kind in (REALS, INTS) and not number.isdigit():
            number = self.dialect.index(number)
        return f"{text}[{number}]", ELEMENT[kind]

    def visit_UnaryOp(self, node: ast.UnaryOp) -> tuple[str, str]:
        text, kind = self.visit(node.operand)
        if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and isinstance(node.operand.value, float):
            return self.dialect.literal(-node.operand.value), REAL
        return f"({ast.unparse(ast.UnaryOp(node.op, ast.Name('_')))[:-1]}{text})", kind

    def visit_BinOp(self, node: ast.BinOp) -> tuple[str, str]:
        left, lk = self.visit(node.left)
        right, rk = self.visit(node.right)
        if {REAL, INT} == {lk, rk}:  # a compiler might go on with more digits than a real has
            raise SyntaxError(f"{self.tree.name}: {ast.unparse(node)} mixes reals and whole numbers: convert one of them")
        if REAL in (lk, rk):
            left, right = self.guard(node.left, left), self.guard(node.right, right)
        symbol = symbol_of(type(node.op))
        self.operations[node] = (left, symbol, right)
        kind = next(k for k in (REAL, WORD, BOOL, INT) if k in (lk, rk))
        text = self.dialect.logic(left, symbol, right) if kind == BOOL else f"({left} {symbol} {right})"
        if kind == WORD and self.dialect.wrap_words:
            text = self.dialect.spell["u32"](text)
        return text, kind

    def visit_Compare(self, node: ast.Compare) -> tuple[str, str]:
        if len(node.ops) > 1:
            raise SyntaxError(f"{self.tree.name}: {ast.unparse(node)} compares more than two values: join two comparisons")
        return f"({self.text(node.left)} {symbol_of(type(node.ops[0]))} {self.text(node.comparators[0])})", BOOL

    def arguments(self, node: ast.Call, callee: lang.Func) -> list[str]:
        """Texts of the arguments that the callee uses."""
        out: list[str] = []
        taken = {name for name, _ in self.parameters_of(callee)}
        for argument, parameter in zip(node.args, tree_of(callee).args.args, strict=True):
            path = flat(argument) if isinstance(argument, ast.Name | ast.Attribute) else ""
            if path in self.records:
                # the argument may be a record that extends the parameter's
                note = annotation(parameter.annotation, callee, self.filling)
                assert is_record(note)
                out += [path + name for name, _ in flat_fields("", note) if parameter.arg + name in taken]
            elif parameter.arg in taken:
                text = self.argument(argument)
                out.append(self.dialect.handed(text) if text.isdigit() else text)
        return out

    def argument(self, node: ast.expr) -> str:
        return self.guard_real(node, *self.visit(node))

    def guard_real(self, node: ast.expr, text: str, kind: str) -> str:
        return self.guard(node, text) if kind == REAL else text

    def visit_Call(self, node: ast.Call) -> tuple[str, str]:
        assert isinstance(node.func, ast.Name)
        callee = self.lookup(node.func.id)
        if isinstance(callee, lang.Func):
            kind = KINDS[annotation(tree_of(callee).returns, callee, self.filling)]
            hidden = [h.split(":")[0] for h in self.dialect.hidden]
            inner = ([] if callee.__name__ in self.dialect.replaced else hidden) + self.arguments(node, callee)
            return f"{callee.__name__}({', '.join(inner)})", kind
        name = node.func.id
        values = [self.visit(argument) for argument in node.args]
        texts = [self.guard_real(argument, *known) for argument, known in zip(node.args, values, strict=True)]
        return self.dialect.spell[name](*texts), RESULTS.get(name) or kind_of_call(name, [kind for _, kind in values])
