"""One file of source code with the classes of a module and all that they use of this package.

The text of each class, function and constant is that of the package, comments included, so nothing
is written twice.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import NamedTuple

PACKAGE = "dialog"
Name = tuple[str, str]
"""Module and name of a class, function, constant or import at its top level."""


class Definition(NamedTuple):
    """Statement at the top level of a module, with the comments before and the docstring
    after it.
    """

    lines: list[str]
    tree: ast.stmt
    first: int  # line number of the first of `lines`, counted from 1

    @property
    def uses(self) -> set[str]:
        """All names that the statement reads or writes, local ones included."""
        return {node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name)}

    def renamed(self, names: Mapping[str, str]) -> str:
        """Return the text with other names for some names of its module."""
        lines = [line.encode() for line in self.lines]
        places = [
            place
            for node in ast.walk(self.tree)
            for place in _places(node, names, self.lines, self.first)
        ]
        for row, column, name in sorted(set(places), reverse=True):
            line = lines[row - self.first]
            lines[row - self.first] = (
                line[:column] + names[name].encode() + line[column + len(name.encode()) :]
            )
        return b"\n".join(lines).decode()


class Module:
    """Source code of a module of this package.

    Args:
        name: With dots.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = _source(name).read_text(encoding="utf-8")
        self.tree = ast.parse(self.text)

    @cached_property
    def definitions(self) -> dict[str, Definition]:
        """The statement that defines each name."""
        lines = self.text.splitlines()
        body = self.tree.body
        definitions: dict[str, Definition] = {}
        for statement, following in zip(body, [*body[1:], ast.Pass()], strict=True):
            names = list(_defined(statement))
            if not names:
                continue
            decorators = (
                statement.decorator_list
                if isinstance(statement, ast.FunctionDef | ast.ClassDef)
                else []
            )
            start = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
            while lines[start - 2].startswith("#") and not lines[start - 2].startswith("# ---"):
                start -= 1
            last = following if _is_text(following) else statement
            definition = Definition(lines[start - 1 : last.end_lineno], statement, start)
            definitions |= dict.fromkeys(names, definition)
        return definitions

    @cached_property
    def imports(self) -> dict[str, tuple[str, str]]:
        """The module and the name that each imported name stands for; the name is empty for a
        module itself.
        """
        names: dict[str, tuple[str, str]] = {}
        for statement in self.tree.body:
            if isinstance(statement, ast.Import):
                names |= {
                    alias.asname or alias.name.partition(".")[0]: (alias.name, "")
                    for alias in statement.names
                }
            elif isinstance(statement, ast.ImportFrom):
                source = statement.module or ""
                names |= {
                    alias.asname or alias.name: (source, alias.name) for alias in statement.names
                }
        return names


def single_file(names: Mapping[str, Sequence[str]], head: str) -> str:
    """Return the source code of a file that defines some names and imports nothing of this package.

    Args:
        names: Classes, functions or constants, by their module of this package.
        head: Docstring of the file.

    Raises:
        ValueError: the code of a definition imports a module of this package under another name or
            in a function, or two modules mean different things by an imported name.
    """
    needed, external = _needed([(module, name) for module, own in names.items() for name in own])
    renamings = _renamings(needed)
    parts = [
        f'"""{head}"""',
        "from __future__ import annotations",
        "\n".join(_import_lines(external)),
    ]
    for source in _in_order(names):
        own = [name for name in _module(source).definitions if (source, name) in needed]
        definitions = {_module(source).definitions[name].first: name for name in own}
        if not definitions:
            continue
        visible = _visible(source, renamings)
        parts.append(f"# {'-' * 66} {source.replace('.', '/')}.py")
        parts += [
            _module(source).definitions[name].renamed(visible)
            for _, name in sorted(definitions.items())
        ]
    return "\n\n\n".join(parts) + "\n"


def _needed(names: Iterable[Name]) -> tuple[set[Name], dict[str, tuple[str, str]]]:
    """Return the definitions that names depend on, and the imports from other packages."""
    waiting = list(names)
    needed = set[Name]()
    external: dict[str, tuple[str, str]] = {}
    while waiting:
        source, name = waiting.pop()
        module = _module(source)
        if (source, name) in needed:
            continue
        if name in module.definitions:
            needed.add((source, name))
            definition = module.definitions[name]
            _check_imports(source, definition)
            waiting += [(source, used) for used in definition.uses]
        elif name in module.imports:
            origin, original = module.imports[name]
            if _is_own(origin):
                if original != name:
                    raise ValueError(f"{source}: imports {original or origin} as {name}")
                waiting.append((origin, name))
            elif external.setdefault(name, (origin, original)) != (origin, original):
                raise ValueError(
                    f"{source}: imports {name} from {origin}, another module from"
                    f" {external[name][0]}"
                )
    return needed, external


def _renamings(needed: Iterable[Name]) -> dict[Name, str]:
    """Return a new name, with the module's, for each name that several modules define."""
    by_name: dict[str, list[str]] = {}
    for source, name in sorted(needed):
        by_name.setdefault(name, []).append(source)
    shared = {name: sources for name, sources in by_name.items() if len(sources) > 1}
    return {
        (source, name): f"{name}_of_{source.rpartition('.')[2]}"
        for name, sources in shared.items()
        for source in sources
    }


def _visible(source: str, renamings: Mapping[Name, str]) -> dict[str, str]:
    """Return the new names of what a module defines or imports, by the name that its code has for
    it.
    """
    names = {name: new for (module, name), new in renamings.items() if module == source}
    for name, (origin, _) in _module(source).imports.items():
        while _is_own(origin) and name not in _module(origin).definitions:
            origin = _module(origin).imports[name][0]  # a package that only passes the name on
        if (origin, name) in renamings:
            names[name] = renamings[origin, name]
    return names


def _in_order(sources: Iterable[str], seen: set[str] | None = None) -> Iterator[str]:
    """Yield modules and all of this package that they import, imported ones first."""
    seen = set() if seen is None else seen
    for source in sources:
        if source not in seen:
            seen.add(source)
            yield from _in_order(
                [origin for origin, _ in _module(source).imports.values() if _is_own(origin)], seen
            )
            yield source


def _import_lines(imports: Mapping[str, tuple[str, str]]) -> Iterator[str]:
    """Yield the import statements, without those of names that Python defines at the top of each
    file.
    """
    members: dict[str, list[str]] = {}
    for name, (origin, original) in sorted(imports.items(), key=lambda item: item[1]):
        if original:
            members.setdefault(origin, []).append(
                original + (f" as {name}" if name != original else "")
            )
        else:
            yield f"import {origin}" + (f" as {name}" if name != origin.partition(".")[0] else "")
    for origin, names in sorted(members.items()):
        if origin != "__future__":
            yield f"from {origin} import {', '.join(names)}"


def _check_imports(source: str, definition: Definition) -> None:
    for node in ast.walk(definition.tree):
        if isinstance(node, ast.ImportFrom) and _is_own(node.module or ""):
            raise ValueError(f"{source}: imports {node.module} inside a function")


def _places(
    node: ast.AST, names: Mapping[str, str], lines: Sequence[str], first: int
) -> Iterator[tuple[int, int, str]]:
    """Yield the line, column in bytes and name of each place of some names."""
    if isinstance(node, ast.Name) and node.id in names:
        yield node.lineno, node.col_offset, node.id
    elif isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name in names:
        line = lines[node.lineno - first].encode()
        yield node.lineno, line.index(node.name.encode(), node.col_offset), node.name


def _defined(statement: ast.stmt) -> Iterator[str]:
    """Yield the names that a statement defines, imports aside."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        nodes = (node for target in targets for node in ast.walk(target))
        yield from (node.id for node in nodes if isinstance(node, ast.Name))


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _is_own(module: str) -> bool:
    return module.partition(".")[0] == PACKAGE


@cache
def _module(name: str) -> Module:
    return Module(name)


def _source(name: str) -> Traversable:
    """Return the file of a module."""
    _, *parts = name.split(".")
    folder = files(PACKAGE)
    for part in parts[:-1]:
        folder = folder / part
    file = folder / f"{parts[-1]}.py"
    return file if file.is_file() else folder / parts[-1] / "__init__.py"
