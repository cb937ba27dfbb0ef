"""Find uses of private Lightning names, read from Lightning's own sources so that the list never
goes stale.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import torch
from source_code import FILES, imported, nodes, tree


class Privates(NamedTuple):
    """Private names in Lightning's sources: those of each class with its bases, and all that torch
    has not too.
    """

    classes: dict[str, set[str]]
    everywhere: set[str]


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__") and name.strip("_") != ""


def private_names(node: ast.AST) -> set[str]:
    """The private names that a module or class defines: functions, classes, variables and
    attributes of ``self``.
    """
    names = set()
    for inside in ast.walk(node):
        if isinstance(inside, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(inside.name)
        elif isinstance(inside, ast.Attribute) and isinstance(inside.ctx, ast.Store):
            names.add(inside.attr)
    return set(filter(is_private, names))


def base_names(node: ast.ClassDef) -> list[str]:
    return [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]


@cache
def lightning_privates() -> Privates:
    spec = find_spec("lightning")
    assert spec is not None
    assert spec.origin is not None
    root = Path(spec.origin).parent
    paths = [path for part in ("pytorch", "fabric") for path in (root / part).rglob("*.py")]
    modules = [ast.parse(path.read_text(encoding="utf-8")) for path in paths]
    nodes = {
        node.name: node
        for module in modules
        for node in ast.walk(module)
        if isinstance(node, ast.ClassDef)
    }

    def inherited(name: str, below: frozenset[str] = frozenset()) -> set[str]:
        if name not in nodes or name in below:
            return set()
        bases = (inherited(base, below | {name}) for base in base_names(nodes[name]))
        return private_names(nodes[name]).union(*bases)

    torch_own = {*dir(torch.Tensor), *vars(torch.nn.Module())}
    everywhere = set().union(*map(private_names, modules)) - torch_own
    return Privates({name: inherited(name) for name in nodes}, everywhere)


@cache
def lightning_classes() -> dict[str, set[str]]:
    """The private names that each class gets from Lightning, classes of the package that derive
    from it included.
    """
    classes = dict(lightning_privates().classes)
    package_classes = [
        node for file in FILES for node in nodes(tree(file)) if isinstance(node, ast.ClassDef)
    ]
    for _ in range(3):  # bases before the classes that derive from them
        for node in package_classes:
            bases = [classes[base] for base in base_names(node) if base in classes]
            if bases:
                classes[node.name] = set().union(*bases)
    return classes


def private_uses(module: ast.Module) -> Iterator[str]:
    """Uses of private Lightning names in a file: imports, attributes of other objects, and names of
    a base class.
    """
    for name in imported(module):
        if name.partition(".")[0] in ("lightning", "pytorch_lightning") and any(
            map(is_private, name.split("."))
        ):
            yield name
    own = private_names(module)
    for node in nodes(module):
        if (
            isinstance(node, ast.Attribute)
            and is_private(node.attr)
            and ast.unparse(node.value) not in ("self", "cls")
        ):
            if node.attr in lightning_privates().everywhere and node.attr not in own:
                yield ast.unparse(node)
        elif isinstance(node, ast.ClassDef):
            inherited = set().union(
                *(lightning_classes().get(base, set()) for base in base_names(node))
            )
            used = {
                inside.attr for inside in ast.walk(node) if isinstance(inside, ast.Attribute)
            } | private_names(node)
            yield from (
                f"{node.name}.{name}"
                for name in sorted(filter(is_private, used))
                if name in inherited
            )
