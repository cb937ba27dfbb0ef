"""Trust: the caller's permission to import the code that files name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from dialog.errors import UserError

T = TypeVar("T")


class TrustedName(str):
    """Dotted name of a part that may be imported; only `Trust.allow` makes it."""

    __slots__ = ()


@dataclass(frozen=True)
class Trust:
    """Permission to import parts by their dotted names, that is, to run code that a file names.

    Only the caller of a command or function gives it: with ``--trust``, with ``trust=True`` in
    Python, or by naming the recipe to run. It marks the names in values that were read from files,
    and `import_part` imports marked names only, so a value that no trust has passed imports
    nothing.

    Args:
        names: The dotted names that may be imported; None for all.
    """

    names: frozenset[str] | None = frozenset()

    def permits(self, name: str) -> bool:
        """Return whether a part may be used: it is shipped, or its dotted name may be imported."""
        return "." not in name or self.names is None or name in self.names

    def allow(self, tree: T) -> T:
        """Return plain values or a recipe with the names marked that may be imported."""
        return _with_names(
            tree, lambda name: TrustedName(name) if "." in name and self.permits(name) else name
        )

    def within(self, *trees: object) -> Trust:
        """Return the same permission, limited to the dotted names of some values."""
        names = frozenset(name for tree in trees for name in imported_names(tree))
        return Trust(names if self.names is None else names & self.names)


NO_TRUST = Trust()
"""Nothing is imported."""
FULL_TRUST = Trust(None)
"""Everything may be imported; for the flag or the recipe of a caller, never for a folder that was
only read.
"""


def trust_of(caller: bool | Trust) -> Trust:
    """Return the trust that a caller gives, as a flag or as the trust that it was given itself."""
    if isinstance(caller, Trust):
        return caller
    return FULL_TRUST if caller else NO_TRUST


def trusted(tree: T) -> T:
    """Return components whose dotted names may be imported:
    ``trusted({"name": "my_lab.Sgd", "lr": 0.1})``.

    For values that the calling program itself contains, not for what it has read.
    """
    return FULL_TRUST.allow(tree)


def check_importable(tree: object, where: str) -> None:
    """Check that values, or a recipe, name no code whose import the caller has not allowed.

    Raises:
        UserError: with the place and the name.
    """
    for name in imported_names(tree):
        if not isinstance(name, TrustedName):
            raise UserError(f"{where}: {not_trusted(name)}")


def not_trusted(name: str) -> str:
    """Return the message for a dotted name whose import the caller has not allowed."""
    return f"imports {name!r}; pass --trust (in Python trust=True) if you trust its author"


def imported_names(tree: object) -> list[str]:
    """Return the names of components that contain a dot, and are thus imported."""
    if is_dataclass(tree) and not isinstance(tree, type):
        return imported_names(asdict(tree))
    if isinstance(tree, Mapping):
        own = [tree["name"]] if isinstance(tree.get("name"), str) and "." in tree["name"] else []
        return own + [name for value in tree.values() for name in imported_names(value)]
    if isinstance(tree, list | tuple):
        return [name for value in tree for name in imported_names(value)]
    return []


def without_trust(tree: T) -> T:
    """Return the same values with plain names, as they are written to files."""
    return _with_names(tree, str)


def _with_names(tree: T, change: Callable[[str], str], key: object = None) -> T:
    """Return a copy of nested values in which every text under the key ``name`` has changed."""
    changed: Any = tree
    if isinstance(tree, str):
        changed = change(tree) if key == "name" else tree
    elif is_dataclass(tree) and not isinstance(tree, type):
        values = {
            item.name: _with_names(getattr(tree, item.name), change, item.name)
            for item in fields(tree)
        }
        changed = replace(tree, **values)
    elif isinstance(tree, Mapping):
        changed = {name: _with_names(value, change, name) for name, value in tree.items()}
    elif isinstance(tree, list | tuple):
        changed = type(tree)(_with_names(value, change) for value in tree)
    return cast(T, changed)
