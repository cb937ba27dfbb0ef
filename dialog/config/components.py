"""Build objects from components, ``{name: ..., arguments}``: the only way from a recipe to an object."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from dialog.errors import UserError

T = TypeVar("T")

Component = dict[str, Any]
"""A choice in a recipe: the ``name`` of a part, and that part's own arguments."""


class Family(Mapping[str, Callable[..., T]], Generic[T]):
    """The parts that fit one place of a recipe, by name, and the runtime values that this place offers them.

    Runtime values, such as the sizes that one part imposes on another, are never set by the recipe. Each part's
    constructor takes those that it names.
    """

    def __init__(self, parts: Mapping[str, Callable[..., T]], *, runtime: Iterable[str] = ()) -> None:
        self._parts = dict(parts)
        self.runtime = frozenset(runtime)

    def __getitem__(self, name: str) -> Callable[..., T]:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def arguments(self, name: str) -> dict[str, inspect.Parameter]:
        """Return the arguments of a part that a recipe may set."""
        factory = locate(name) if "." in name else lookup(self, name)
        return {key: each for key, each in parameters(factory, name).items() if key not in self.runtime}


KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
}
"""What an argument may be whose annotation is a plain one."""


def build(family: Family[T], component: Mapping[str, Any], **runtime: object) -> T:
    """Call the part that a component names, with the component's arguments and the runtime values it takes.

    The constructor's signature is the schema of the arguments. A name with a dot is imported, so a user's own part
    needs no line here.

    Raises:
        UserError: unknown name, unknown or missing argument, or an argument that the part rejects.
    """
    make = resolve(family, component, **runtime)
    try:
        return make()
    except (ImportError, TypeError, ValueError) as error:
        raise UserError(f"{component['name']}: {error}") from error


def resolve(family: Family[T], component: Mapping[str, Any], **runtime: object) -> Callable[[], T]:
    """Return the call that `build` makes, checked against the part's signature but not yet made.

    Raises:
        UserError: unknown name, unknown or missing argument, or an argument of the wrong type.
        TypeError: a runtime value that the family does not declare.
    """
    if undeclared := set(runtime) - family.runtime:
        raise TypeError(f"runtime values that the family does not declare: {sorted(undeclared)}")
    name, arguments = named(component)
    factory = locate(name) if "." in name else lookup(family, name)
    accepted = parameters(factory, name)
    offered = {key: value for key, value in runtime.items() if key in accepted}
    for key in arguments:
        if key in family.runtime:
            raise UserError(f"{name}: {key!r} is set by the recipe's other parts; leave it out")
        if key not in accepted:
            raise UserError(f"{name} takes no {key!r}{hint(key, family.arguments(name))}")
        check_kind(name, accepted[key], arguments[key])
    missing = [
        key
        for key, parameter in accepted.items()
        if parameter.default is parameter.empty and key not in offered and key not in arguments
    ]
    if missing:
        raise UserError(f"{name} needs {', '.join(missing)}")
    return partial(factory, **offered, **arguments)


def takes(family: Family[Any], component: Mapping[str, Any], key: str) -> bool:
    """Return whether the constructor of a component's part has an argument of that name."""
    name, _ = named(component)
    return key in parameters(locate(name) if "." in name else lookup(family, name), name)


def check_kind(name: str, parameter: inspect.Parameter, value: object) -> None:
    """Refuse an argument of another type than its annotation, where that is a plain one."""
    annotation = parameter.annotation
    word = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    kinds = KINDS.get(word, (object,))
    if not isinstance(value, kinds) or (isinstance(value, bool) and int in kinds):
        raise UserError(f"{name}: {parameter.name} must be {word}, not {value!r}")


def parameters(factory: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """What a part can be given by name."""
    try:
        signature = inspect.signature(factory)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be built: {error}") from error
    named_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return {key: each for key, each in signature.parameters.items() if each.kind in named_kinds}


def named(component: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of a component and its arguments."""
    arguments = dict(component)
    name = arguments.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"a component needs a name: {{name: ..., ...}}, not {dict(component)}")
    return name, arguments


def lookup(table: Mapping[str, T], name: str) -> T:
    """``table[name]``, or an error that names the nearest."""
    if name not in table:
        raise UserError(f"there is no {name!r}{hint(name, table)}")
    return table[name]


def locate(dotted: str) -> Callable[..., Any]:
    """Import ``package.module.Name``."""
    module, _, name = dotted.rpartition(".")
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as error:  # a module of the user's may raise anything
        raise UserError(f"cannot import {dotted!r}: {error}; PYTHONPATH says where modules are") from error
    return found


def hint(word: str, known: Iterable[str]) -> str:
    """What may have been meant: the nearest of the known words, or all of them."""
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]!r}?" if near else f"; there is: {', '.join(known) or 'nothing'}"
