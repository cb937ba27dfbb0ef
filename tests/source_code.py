"""Read the package's source code: imports, code lines, calls.

The rules about them are in test_house.py.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Iterator, Mapping, Set
from functools import cache
from pathlib import Path

import dialog

ROOT = Path(dialog.__file__).parent
FILES = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.rglob("*.py"))
FILLING = {
    "add",
    "append",
    "clear",
    "extend",
    "insert",
    "pop",
    "popitem",
    "remove",
    "setdefault",
    "update",
}
CONTAINERS = {"list", "dict", "set", "defaultdict", "Counter", "deque"}
CODE_RUNNERS = {"eval", "exec", "compile", "__import__", "os.system"}
OPERANDS = ast.Name | ast.Attribute | ast.Subscript
NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


@cache
def text(file: str) -> str:
    return (ROOT / file).read_text(encoding="utf-8")


@cache
def tree(file: str) -> ast.Module:
    return ast.parse(text(file), file)


@cache
def nodes(module: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a module, walked once."""
    return tuple(ast.walk(module))


# ------------------------------------------------------------------ imports


def module_name(file: str) -> str:
    """``data/examples.py`` is ``dialog.data.examples``, ``data/__init__.py`` is ``dialog.data``."""
    parts = ("dialog", *Path(file).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported(source: ast.AST) -> Iterator[str]:
    """Full names of all imports: at the top, inside functions, for type checkers only."""
    for node in nodes(source):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"line {node.lineno}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def modules() -> dict[str, str]:
    """The file of each module of the package."""
    return {module_name(file): file for file in FILES}


@cache
def imported_files(file: str) -> frozenset[str]:
    """The files of the package that a file imports."""
    files = set()
    for name in imported(tree(file)):
        if name.partition(".")[0] == "dialog":
            module = name if name in modules() else name.rpartition(".")[0]
            assert module in modules(), f"{file} imports {name}, which is not a file"
            files.add(modules()[module])
    return frozenset(files - {file})


def cycle(graph: Mapping[str, Set[str]]) -> list[str] | None:
    """A path that returns to its start, if there is one."""
    done: set[str] = set()

    def visit(node: str, path: list[str]) -> list[str] | None:
        if node in path:
            return [*path[path.index(node) :], node]
        if node in done:
            return None
        closed = next(
            (closed for other in sorted(graph[node]) if (closed := visit(other, [*path, node]))),
            None,
        )
        done.add(node)
        return closed

    return next((closed for node in sorted(graph) if (closed := visit(node, []))), None)


# ------------------------------------------------------------------ code


def code_lines(text: str) -> int:
    """Number of lines that are neither blank nor comment nor docstring."""
    lines: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in NO_CODE:
            lines.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            lines.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(lines)


def functions(source: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in nodes(source) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )


def clauses(node: ast.AST) -> int:
    """Number of ``for`` and ``if`` of a comprehension; 0 for other nodes."""
    generators = getattr(node, "generators", [])
    return len(generators) + sum(len(generator.ifs) for generator in generators)


def is_packed(node: ast.Assign) -> bool:
    """Whether an assignment is ``a, b = x, y``, where neither value needs the other's old one."""
    target = node.targets[0]
    if not (isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple)):
        return False
    targets = {ast.unparse(element) for element in target.elts}
    values = ast.walk(node.value)
    used = {ast.unparse(part) for part in values if isinstance(part, OPERANDS)}
    return not targets & used


def mutations(module: ast.Module) -> Iterator[int]:
    """Lines that change a module-level name, or create an empty container at module level."""
    tops = set()
    for node in module.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        tops |= {target.id for target in targets if isinstance(target, ast.Name)}
        value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
        if value is not None and ast.unparse(value) in ("[]", "{}"):
            yield node.lineno
        if (
            isinstance(value, ast.Call)
            and ast.unparse(value.func).rpartition(".")[2] in CONTAINERS
            and not value.args
        ):
            yield node.lineno
    for function in functions(module):
        inside = list(ast.walk(function))
        stored = (
            node
            for node in inside
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
        local = {node.id for node in stored} | {
            node.arg for node in inside if isinstance(node, ast.arg)
        }
        for node in inside:
            target = changed(node)
            if isinstance(node, ast.Global) or (
                isinstance(target, ast.Name) and target.id in tops - local
            ):
                yield node.lineno


def changed(node: ast.AST) -> ast.expr | None:
    """The expression that a node changes in place, if any."""
    if isinstance(node, ast.Subscript | ast.Attribute) and not isinstance(node.ctx, ast.Load):
        return node.value
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in FILLING
    ):
        return node.func.value
    return None


def unsafe_calls(module: ast.Module) -> Iterator[int]:
    """Lines that run code, or load weights without ``weights_only=True``."""
    for node in nodes(module):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            if called in CODE_RUNNERS or (
                called == "torch.load" and options.get("weights_only") != "True"
            ):
                yield node.lineno


# ------------------------------------------------------------------ words


def calls_in_asserts(module: ast.Module, harmless: set[str]) -> Iterator[int]:
    """Lines of asserts that call a function other than a harmless one: ``python -O`` would skip the
    call.
    """
    for node in nodes(module):
        if isinstance(node, ast.Assert):
            calls = (call for call in ast.walk(node.test) if isinstance(call, ast.Call))
            if any(ast.unparse(call.func) not in harmless for call in calls):
                yield node.lineno
