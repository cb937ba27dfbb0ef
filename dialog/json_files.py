"""Read the JSON files that this program has written."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from dialog.errors import UserError
from dialog.escaping import json_keys

T = TypeVar("T")


def read_json(path: Path, *keys: str) -> dict[str, Any]:
    """Read a file that holds one JSON object with these keys.

    Raises:
        UserError: the file is missing, unreadable or damaged.
    """
    try:
        return _json_object(path.read_bytes(), str(path), keys)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def read_json_lines(path: Path, *keys: str) -> Iterator[dict[str, Any]]:
    """Read a file that holds one JSON object with these keys per line.

    Raises:
        UserError: the file is missing or unreadable, or a line is damaged.
    """
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                yield _json_object(line, f"{path}:{number}", keys)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error


def _json_object(content: bytes, where: str, keys: tuple[str, ...]) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: damaged ({error}); restore the file from a copy") from error
    missing = [key for key in keys if not isinstance(value, dict) or key not in value]
    if missing or not isinstance(value, dict):
        raise UserError(
            f"{where}: damaged (no {missing[0] if missing else 'object'}); restore the file from a"
            " copy"
        )
    return value


# ------------------------------------------------------------------ typed content


def parsed(kind: type[T], value: object, error: str, advice: str) -> T:
    """Return a JSON value as an object of a type, with the types of all parts checked.

    A dataclass is an object with its fields; those with a default may be missing, others are
    ignored. ``Mapping[str, X]`` is an object, ``tuple[X, ...]`` a list; ``X | None`` may be null; a
    float may be a whole number; ``Any`` is not checked.

    Raises:
        UserError: a part has another type: ``error (place: ...); advice``.
    """
    try:
        return cast(T, _converted(kind, value, ""))
    except TypeError as mismatch:
        raise UserError(f"{error} ({mismatch}); {advice}") from mismatch


def _converted(kind: Any, value: object, place: str) -> object:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if is_dataclass(kind) and isinstance(value, dict):
        return _object(cast(type, kind), value, place)
    if origin is UnionType:
        if value is None:
            return value
        (kind,) = (part for part in get_args(kind) if part is not NoneType)
        return _converted(kind, value, place)
    if origin is tuple and isinstance(value, list):
        (part, _) = get_args(kind)
        return tuple(_converted(part, item, f"{place}[{n}]") for n, item in enumerate(value))
    if origin is Mapping and isinstance(value, dict):
        (_, part) = get_args(kind)
        return {key: _converted(part, item, f"{place}.{key}") for key, item in value.items()}
    if type(value) is kind or (kind is float and type(value) is int):
        return value
    raise TypeError(f"{place[1:]}: not {getattr(kind, '__name__', kind)}")


def _object(kind: type, content: Mapping[str, object], place: str) -> object:
    values = {}
    for name, key, type_, required in _fields_of(kind):
        if key in content:
            values[name] = _converted(type_, content[key], f"{place}.{key}")
        elif required:
            raise TypeError(f"{place[1:]}: no {key}".removeprefix(": "))
    return kind(**values)


@cache
def _fields_of(kind: type) -> list[tuple[str, str, Any, bool]]:
    """Return name, key, type and whether there is no default, for each field of a dataclass."""
    types = get_type_hints(kind)
    keys = json_keys(kind)
    return [
        (
            item.name,
            keys[item.name],
            types[item.name],
            item.default is MISSING and item.default_factory is MISSING,
        )
        for item in fields(kind)
    ]
