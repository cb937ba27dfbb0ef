"""The one road from a component of a recipe, ``{name, arguments}``, to an object."""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, TypeVar

from dialog.errors import UserError

T = TypeVar("T")

Component = dict[str, Any]
"""A place in a recipe where one of several things fits: its ``name``, and that thing's own arguments."""

Table = Mapping[str, Callable[..., T]]
"""A literal dict from the names that a recipe may use to the classes or functions that they mean."""


KINDS: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
}
"""What an argument may be whose annotation is a plain one."""


def build(table: Table[T], component: Mapping[str, Any], **runtime: object) -> T:
    """Call ``table[name]`` with the component's arguments and those runtime values that it takes.

    The signature is the schema: each argument must be one of its parameters, and what it needs must be there. Runtime
    values (sizes that one part imposes on another) are offered: a part takes those that it names. A name with a dot
    is imported, so a part of your own needs no line here.

    Raises:
        UserError: unknown name, unknown or missing argument, or an argument that the part refuses.
    """
    make = resolve(table, component, **runtime)
    try:
        return make()
    except (ImportError, TypeError, ValueError) as error:
        raise UserError(f"{component['name']}: {error}") from error


def resolve(table: Table[T], component: Mapping[str, Any], **runtime: object) -> Callable[[], T]:
    """The call that :func:`build` makes, checked against the signature and not yet made.

    Raises:
        UserError: unknown name, unknown or missing argument, or one of another type than the signature says.
    """
    name, arguments = named(component)
    factory = locate(name) if "." in name else lookup(table, name)
    takes = parameters(factory, name)
    offered = {key: value for key, value in runtime.items() if key in takes}
    for key in arguments:
        if key in offered:
            raise UserError(f"{name}: {key!r} is set by the recipe's other parts; leave it out")
        if key not in takes:
            open_to = [parameter for parameter in takes if parameter not in runtime]
            raise UserError(f"{name} takes no {key!r}{hint(key, open_to)}")
        check_kind(name, takes[key], arguments[key])
    missing = [
        key
        for key, parameter in takes.items()
        if parameter.default is parameter.empty and key not in offered and key not in arguments
    ]
    if missing:
        raise UserError(f"{name} needs {', '.join(missing)}")
    return partial(factory, **offered, **arguments)


def takes(table: Table[T], component: Mapping[str, Any], key: str) -> bool:
    """Whether a component can be given a value of that name."""
    name, _ = named(component)
    return key in parameters(locate(name) if "." in name else lookup(table, name), name)


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
