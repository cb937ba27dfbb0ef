"""The layers that a recipe is composed of: values from a file or the command line, and the place of each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dialog.config.components import hint
from dialog.errors import UserError

DEPTH = 32
"""The most levels of a YAML text: what reads and merges it calls itself once a level."""

COMMAND_LINE = "command line"

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Layer:
    """Some values of a recipe, and where each one stands."""

    values: dict[str, Any]
    origin: dict[str, str]


# ------------------------------------------------------------------ reading


def shown(path: Path) -> str:
    """A path as messages name it: from the working folder where it lies there."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)


def read(path: Path) -> Layer:
    """One YAML file, with the line of each key.

    Raises:
        UserError: with the file and mostly the line, whatever is not a plain YAML mapping in UTF-8.
    """
    name = shown(path)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
        root = nodes(text)
        if root is not None and not isinstance(root, yaml.MappingNode):
            raise UserError(f"{name}:{root.start_mark.line + 1}: must be a mapping of keys to values")
        values = plain(as_written(root, OmegaConf.to_container(OmegaConf.create(text))))
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(f"{name}:{line}: byte {error.start + 1} of the file is not UTF-8; save it as UTF-8") from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{name}:{line}: {error.problem}") from error
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise UserError(f"{name}: {first_line(error)}") from error
    lines = {key: f"{name}:{line}" for key, line in key_lines(root)}
    for key, value in leaves(values):
        refuse_interpolation(value, f"{nearest(lines, key, name)}: {key}")
    return Layer(values, lines)


def nodes(text: str) -> yaml.Node | None:
    """The nodes of a YAML text, which is not nested deeper than they can be walked."""
    depth = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > DEPTH:
            raise yaml.MarkedYAMLError(problem=f"nested more than {DEPTH} levels deep", problem_mark=event.start_mark)  # type: ignore[arg-type]
    root: yaml.Node | None = yaml.compose(text, LOADER)
    return root


def key_lines(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Each key of a YAML mapping, dotted, with its line."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            dotted = f"{prefix}{key.value}"
            yield dotted, key.start_mark.line + 1
            yield from key_lines(value, f"{dotted}.")


def scalar(override: str, text: str) -> Any:  # noqa: ANN401 - whatever YAML says
    """The value of an override, read as YAML."""
    try:
        source = f"value: {text}" if text else "value: ''"
        values = plain(as_written(nodes(source), OmegaConf.to_container(OmegaConf.create(source))))
    except yaml.MarkedYAMLError as error:
        raise UserError(f"override {override!r}: {error.problem}; quote what is meant as text") from error
    except UnicodeEncodeError as error:
        raise UserError(f"override {override!r} is not UTF-8; give a path another name, or a link to it") from error
    except (yaml.YAMLError, OmegaConfBaseException) as error:
        raise UserError(f"override {override!r}: {first_line(error)}") from error
    if set(values) != {"value"}:
        raise UserError(f"override {override!r}: more than one value")
    refuse_interpolation(values["value"], f"override {override!r}")
    return values["value"]


def refuse_interpolation(value: object, place: str) -> None:
    """A recipe says what it says: it reads neither the environment nor itself."""
    if "${" in str(value):
        raise UserError(f"{place}: interpolations (${{...}}) are not used in recipes; write the value")


def as_written(node: yaml.Node | None, value: Any) -> Any:  # noqa: ANN401 - whatever YAML says
    """YAML 1.1 takes 1:30:00 for a number to the base 60, which nobody means: as in YAML 1.2, it is text."""
    if isinstance(node, yaml.MappingNode) and isinstance(value, dict):
        inside = {key.value: each for key, each in node.value}
        return {key: as_written(inside.get(key), each) for key, each in value.items()}
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        return [as_written(*pair) for pair in zip(node.value, value, strict=True)]
    if isinstance(node, yaml.ScalarNode) and isinstance(value, int | float) and ":" in node.value:
        return node.value
    return value


def plain(values: object) -> dict[str, Any]:
    """A mapping with text for keys."""
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def first_line(error: Exception) -> str:
    """The first line of a message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


# ------------------------------------------------------------------ laying one over another


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each value that is not a mapping, with its dotted key."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nest(dotted: str, value: object) -> dict[str, Any]:
    """``a.b`` and 1 as {a: {b: 1}}."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def lay(values: dict[str, Any], origin: dict[str, str], layer: Layer, prefix: str = "") -> None:
    """Lay one layer over what is there; a component that is renamed starts afresh."""
    for key, value in layer.values.items():
        dotted = f"{prefix}{key}"
        if not isinstance(value, dict):
            forget(origin, dotted)
            values[key] = value
            origin[dotted] = nearest(layer.origin, dotted)
            continue
        old = values.get(key)
        if not isinstance(old, dict) or ("name" in value and value["name"] != old.get("name")):
            forget(origin, dotted)
            values[key] = {}
        lay(values[key], origin, Layer(value, layer.origin), f"{dotted}.")


def nearest(origin: Mapping[str, str], dotted: str, default: str = "?") -> str:
    """The place of a key, or of the nearest key above it."""
    while dotted not in origin and "." in dotted:
        dotted = dotted.rpartition(".")[0]
    return origin.get(dotted, default)


def forget(origin: dict[str, str], dotted: str) -> None:
    """Drop the places of all that stands under a key."""
    for key in [key for key in origin if key == dotted or key.startswith(f"{dotted}.")]:
        del origin[key]


def remove(values: dict[str, Any], origin: dict[str, str], dotted: str) -> None:
    """Take a key out, so that the default of its part holds."""
    *path, last = dotted.split(".")
    for key in path:
        inner = values.get(key)
        values = inner if isinstance(inner, dict) else {}
    if last not in values:
        raise UserError(f"~{dotted}: the recipe sets no {dotted!r}{hint(last, values)}")
    del values[last]
    forget(origin, dotted)
