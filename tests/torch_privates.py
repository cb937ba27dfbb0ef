"""Find uses of torch's private and undocumented operators."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import torch


def private_operators(module: ast.Module) -> Iterator[str]:
    """Names in a file that begin at a module of torch and lead to an operator without
    documentation.
    """
    names = imported_from_torch(module)
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            root, _, rest = ast.unparse(node).partition(".")
            if root in names and is_private(f"{names[root]}.{rest}"):
                yield f"{node.lineno} {ast.unparse(node)}"
    yield from (name for name in names.values() if is_private(name))


def imported_from_torch(module: ast.Module) -> dict[str, str]:
    """Map the names of a file that are imported from torch to their full names."""
    names = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            names |= {
                alias.asname or "torch": alias.name if alias.asname else "torch"
                for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom):
            names |= {
                alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names
            }
    return {name: full for name, full in names.items() if full.partition(".")[0] == "torch"}


def is_private(name: str) -> bool:
    """Whether a dotted name has a private part, or is an operator that torch does not document."""
    parts = name.split(".")
    if any(part.startswith("_") and not part.endswith("__") for part in parts):
        return True
    if parts[1:2] == ["ops"]:
        return len(parts) > 3 and not (parts[2] == "aten" and is_documented(parts[3]))
    return (
        len(parts) == 2
        and parts[1] in dir(torch._C._VariableFunctions)
        and not is_documented(parts[1])
    )


def is_documented(function: str) -> bool:
    return bool(getattr(getattr(torch, function, None), "__doc__", None))
