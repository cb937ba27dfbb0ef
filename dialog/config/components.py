"""Build objects from components, ``{name: ..., arguments}``: the only way from a recipe to an
object.
"""

from __future__ import annotations

import difflib
import importlib
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields, is_dataclass
from functools import lru_cache, partial
from numbers import Integral, Real
from pathlib import PurePath
from typing import Any, Generic, TypeVar

from dialog.config.trust import TrustedName, not_trusted
from dialog.errors import UserError

T = TypeVar("T")

Component = dict[str, Any]
"""A choice in a recipe: the ``name`` of a part, and that part's own arguments."""


class Family(Mapping[str, Callable[..., T]], Generic[T]):
    """The parts that fit one place of a recipe, by name.

    Args:
        kind: The noun for one part in messages, such as "encoder".
        parts: The constructor of each part, by name.
        runtime: Names of the values that the program passes to a part, such as the sizes that one
            part imposes on another. A constructor receives those that it names; a recipe cannot set
            them.

    A constructor with a parameter ``settings`` names the dataclass of that parameter in its class
    attribute ``Settings``; the fields of the dataclass are then arguments of the part, next to the
    constructor's others.
    """

    def __init__(
        self, kind: str, parts: Mapping[str, Callable[..., T]], *, runtime: Iterable[str] = ()
    ) -> None:
        self.kind = kind
        self._parts = dict(parts)
        self.runtime = frozenset(runtime)

    def __getitem__(self, name: str) -> Callable[..., T]:
        return self._parts[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._parts)

    def __len__(self) -> int:
        return len(self._parts)

    def constructor(self, name: str) -> Callable[..., T]:
        """Return the constructor of a part; a name with a dot is imported.

        Raises:
            UserError: unknown name, or one that cannot be imported.
        """
        return import_part(name) if "." in name else lookup(self._parts, name, self.kind)

    def arguments(self, name: str) -> dict[str, inspect.Parameter]:
        """Return the arguments of a part that a recipe may set."""
        accepted = parameters(self.constructor(name), name)
        return {key: parameter for key, parameter in accepted.items() if key not in self.runtime}


class ArgumentError(UserError):
    """An argument of a part that its signature does not accept."""

    def __init__(self, part: str, argument: str, value: object, reason: str) -> None:
        super().__init__(f"{part}: {reason}")
        self.part = part
        self.argument = argument
        self.value = value


CHECKED_TYPES: Mapping[str, tuple[type, ...]] = {
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "str": (str,),
    "int | None": (int, type(None)),
    "float | None": (int, float, type(None)),
}
"""Annotations that are checked before a part is built, with the types that they admit."""


def build(family: Family[T], component: Mapping[str, Any], **runtime: object) -> T:
    """Call the part that a component names, with the component's arguments and the runtime values
    that it takes.

    The constructor's signature is the schema of the arguments. A name with a dot is imported, so a
    user's own part needs no line here.

    Raises:
        UserError: unknown name, unknown or missing argument, or an argument that the part rejects.
    """
    construct = resolve(family, component, **runtime)
    try:
        return construct()
    except (ImportError, TypeError, ValueError) as error:
        raise UserError(f"{component['name']}: {error}") from error


def resolve(family: Family[T], component: Mapping[str, Any], **runtime: object) -> Callable[[], T]:
    """Check a component against the signature of its part, and return the call that builds the
    part.

    Raises:
        UserError: unknown name, unknown or missing argument, or an argument of the wrong type.
        TypeError: a runtime value that the family does not declare.
    """
    if undeclared := set(runtime) - family.runtime:
        raise TypeError(f"runtime values that the family does not declare: {sorted(undeclared)}")
    name, arguments = name_and_arguments(component)
    constructor = family.constructor(name)
    accepted = parameters(constructor, name)
    passed = {key: value for key, value in runtime.items() if key in accepted}
    for key in arguments:
        if key in family.runtime:
            reason = f"{key!r} is set by the recipe's other parts; remove it"
            raise ArgumentError(name, key, arguments[key], reason)
        if key not in accepted:
            advice = hint(key, family.arguments(name)) or "; it takes no arguments"
            raise ArgumentError(name, key, arguments[key], f"unknown argument {key!r}{advice}")
        check_type(name, accepted[key], arguments[key])
    missing = [
        key
        for key, parameter in accepted.items()
        if parameter.default is parameter.empty and key not in passed and key not in arguments
    ]
    if missing:
        raise UserError(f"{name}: missing required argument: {', '.join(missing)}")
    if settings_class(constructor) is None:
        return partial(constructor, **passed, **arguments)
    return partial(construct, constructor, **passed, **arguments)


def construct(constructor: Callable[..., T], /, **arguments: object) -> T:
    """Call a constructor; the fields of its ``Settings`` are passed as one object."""
    settings = settings_class(constructor)
    if settings is None:
        return constructor(**arguments)
    names = inspect.signature(settings).parameters
    values = {key: arguments.pop(key) for key in names if key in arguments}
    return constructor(settings=settings(**values), **arguments)


def settings_class(constructor: Callable[..., Any]) -> type | None:
    """Return the dataclass ``Settings`` of a class, or of the class of a partial constructor, if it
    has one.
    """
    settings: type | None = getattr(getattr(constructor, "func", constructor), "Settings", None)
    return settings if settings is not None and is_dataclass(settings) else None


def accepts(family: Family[Any], component: Mapping[str, Any], key: str) -> bool:
    """Return whether the constructor of a component's part has an argument ``key``."""
    name, _ = name_and_arguments(component)
    return key in parameter_names(family.constructor(name), name)


@lru_cache
def parameter_names(constructor: Callable[..., Any], name: str) -> frozenset[str]:
    """Return the names of `parameters`; a service needs those of a search for every request."""
    return frozenset(parameters(constructor, name))


def check_type(name: str, parameter: inspect.Parameter, value: object) -> None:
    """Check an argument against its annotation, where that is one of `CHECKED_TYPES`."""
    annotation = parameter.annotation
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", "")
    types = CHECKED_TYPES.get(text, (object,))
    if not isinstance(value, types) or (isinstance(value, bool) and int in types):
        raise ArgumentError(
            name, parameter.name, value, f"{parameter.name} must be {text}, not {value!r}"
        )


def parameters(constructor: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    """Return the parameters of a constructor that can be passed by keyword; fields of its
    ``Settings`` come first.
    """
    try:
        signature = inspect.signature(constructor)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} cannot be built: {error}") from error
    keyword_kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    accepted = {
        key: parameter
        for key, parameter in signature.parameters.items()
        if parameter.kind in keyword_kinds
    }
    settings = settings_class(constructor)
    if settings is None:
        return accepted
    del accepted["settings"]
    factories = {
        item.name: item.default_factory()
        for item in fields(settings)
        if item.default_factory is not MISSING
    }
    declared = inspect.signature(settings).parameters
    return {
        key: field.replace(default=factories.get(key, field.default))
        for key, field in declared.items()
    } | accepted


def name_and_arguments(component: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Split a component into its name and its arguments."""
    if not isinstance(component, Mapping):
        raise UserError(f"a component needs a name: give {{name: {component}}}, not {component!r}")
    arguments = dict(component)
    name = arguments.pop("name", None)
    if not isinstance(name, str):
        raise UserError(f"a component needs a name: {{name: ..., ...}}, not {dict(component)}")
    return name, arguments


def plain(value: object, key: str) -> Any:
    """Convert the value of a component to dicts, lists, strings and numbers, as checkpoints hold
    them.

    Raises:
        UserError: with the key; a value of another type.
    """
    if isinstance(value, Mapping):
        return {str(name): plain(item, f"{key}.{name}") for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(item, key) for item in value]
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Integral):  # also NumPy's
        return int(value)
    if isinstance(value, Real):
        return float(value)
    if isinstance(value, TrustedName):
        return value
    if isinstance(value, str | PurePath):
        return str(value)
    raise UserError(f"{key} is a {type(value).__name__}; give a string, a number, a list or a dict")


def lookup(table: Mapping[str, T], name: str, kind: str) -> T:
    """Return ``table[name]``, or raise UserError with the nearest name; ``kind`` is the noun in the
    message.
    """
    if name not in table:
        raise UserError(f"unknown {kind} {name!r}{hint(name, table)}")
    return table[name]


def import_part(dotted: str) -> Callable[..., Any]:
    """Import ``package.module.Name``, a name that the caller's `Trust` has allowed.

    Raises:
        UserError: a name that it has not allowed, or one that cannot be imported.
    """
    if not isinstance(dotted, TrustedName):
        raise UserError(not_trusted(dotted))
    module, _, name = dotted.rpartition(".")
    try:
        constructor: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except Exception as error:  # a user's module may raise anything
        raise UserError(
            f"cannot import {dotted!r}: {error}; check the name and PYTHONPATH"
        ) from error
    return constructor


def hint(word: str, choices: Iterable[str]) -> str:
    """Return the end of an error message: the nearest choice, or all choices, or nothing if there
    are none.
    """
    choices = list(choices)
    longer = [choice for choice in choices if word and choice.startswith(word)]
    near = difflib.get_close_matches(word, choices, n=1) or longer
    if near:
        return f"; did you mean {near[0]!r}?"
    return f"; choose from {', '.join(choices)}" if choices else ""
