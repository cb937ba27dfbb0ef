"""Layers of a recipe: values read from YAML or the command line, each with its place
(file:line).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from dialog.config.components import hint
from dialog.errors import UserError

MAX_DEPTH = 32
"""Limit of nesting in YAML, because parsing and merging are recursive."""

LONGEST_INTEGER = 64
"""Limit of an integer's characters: Python converts neither text of more than 4,300 digits to a
number nor back.
"""
INTEGER = re.compile(r"[-+]?(0x[0-9a-fA-F_]+|0b[01_]+|[0-9_:]+)")

LONGEST_SHOWN = 200
"""Characters of an override that a message quotes."""

COMMAND_LINE = "command line"

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(frozen=True)
class Layer:
    """Some values of a recipe, and the place of each by dotted key."""

    values: dict[str, Any]
    origin: dict[str, str]


# ------------------------------------------------------------------ reading


def display_path(path: Path) -> str:
    """Return a path for messages: relative to the working folder if it lies below it."""
    return os.path.relpath(path) if path.resolve().is_relative_to(Path.cwd()) else str(path)


def read_yaml(path: Path) -> Layer:
    """Read a YAML file with the line of each key.

    Raises:
        UserError: with the file and usually the line: not readable, not UTF-8, or not a plain
            mapping.
    """
    name = display_path(path)
    try:
        content = path.read_bytes()
        text = content.decode("utf-8-sig")
        root = parse_nodes(text)
        if root is not None and not isinstance(root, yaml.MappingNode):
            raise UserError(
                f"{name}:{root.start_mark.line + 1}: must be a mapping of keys to values"
            )
        values = with_text_keys(undo_base_60(root, OmegaConf.to_container(OmegaConf.create(text))))
    except OSError as error:
        raise UserError(f"{name}: cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UserError(
            f"{name}:{line}: byte {error.start + 1} of the file is not UTF-8; save it as UTF-8"
        ) from error
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        raise UserError(f"{name}:{line}: {error.problem}") from error
    except (OmegaConfBaseException, yaml.YAMLError) as error:
        raise UserError(f"{name}: {first_line(error)}") from error
    lines = {key: f"{name}:{line}" for key, line in key_lines(root)}
    for key, value in leaves(values):
        check_no_interpolation(value, f"{place_of(lines, key, name)}: {key}")
    return Layer(values, lines)


def parse_nodes(text: str) -> yaml.Node | None:
    """Parse YAML into nodes.

    Raises:
        yaml.MarkedYAMLError: nested deeper than `MAX_DEPTH`, or an integer of more than
            `LONGEST_INTEGER` characters.
    """
    depth = 0
    for event in yaml.parse(text, LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(
            event, yaml.CollectionEndEvent
        )
        problem = ""
        if depth > MAX_DEPTH:
            problem = f"nested more than {MAX_DEPTH} levels deep"
        elif isinstance(event, yaml.ScalarEvent) and len(event.value) > LONGEST_INTEGER:
            # without quotes, or with the tag of integers
            integer = event.implicit[0] or event.tag == "tag:yaml.org,2002:int"
            if integer and INTEGER.fullmatch(event.value):
                problem = (
                    f"an integer of {len(event.value):,} characters, the longest may have"
                    f" {LONGEST_INTEGER}"
                )
        if problem:
            raise yaml.MarkedYAMLError(problem=problem, problem_mark=event.start_mark)  # type: ignore[arg-type]
    root: yaml.Node | None = yaml.compose(text, LOADER)
    return root


def key_lines(node: yaml.Node | None, prefix: str = "") -> Iterator[tuple[str, int]]:
    """Yield each dotted key of a YAML mapping with its line, counted from 1."""
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            dotted = f"{prefix}{key.value}"
            yield dotted, key.start_mark.line + 1
            yield from key_lines(value, f"{dotted}.")


def parse_value(override: str, text: str) -> Any:
    """Parse the value of an override as YAML."""
    shown = repr(override if len(override) <= LONGEST_SHOWN else f"{override[:LONGEST_SHOWN]}...")
    try:
        source = f"value: {text}" if text else "value: ''"
        values = with_text_keys(
            undo_base_60(parse_nodes(source), OmegaConf.to_container(OmegaConf.create(source)))
        )
    except yaml.MarkedYAMLError as error:
        raise UserError(f"override {shown}: {error.problem}; put quotes around text") from error
    except UnicodeEncodeError as error:
        raise UserError(
            f"override {shown} is not UTF-8; rename the path, or use a symbolic link"
        ) from error
    except (yaml.YAMLError, OmegaConfBaseException, ValueError) as error:
        raise UserError(f"override {shown}: {first_line(error)}") from error
    if set(values) != {"value"}:
        raise UserError(f"override {shown}: more than one value; give one override for each key")
    check_no_interpolation(values["value"], f"override {shown}")
    return values["value"]


def check_no_interpolation(value: object, place: str) -> None:
    """Reject ${...}: a recipe depends neither on the environment nor on its own values."""
    if "${" in str(value):
        raise UserError(f"{place}: interpolations (${{...}}) are not supported; write the value")


def undo_base_60(node: yaml.Node | None, value: Any) -> Any:
    """Restore scalars such as 1:30:00: text in YAML 1.2, a number to the base 60 in YAML 1.1."""
    if isinstance(node, yaml.MappingNode) and isinstance(value, dict):
        nodes = {key.value: child for key, child in node.value}
        return {key: undo_base_60(nodes.get(key), item) for key, item in value.items()}
    if isinstance(node, yaml.SequenceNode) and isinstance(value, list):
        return [undo_base_60(*pair) for pair in zip(node.value, value, strict=True)]
    if isinstance(node, yaml.ScalarNode) and isinstance(value, int | float) and ":" in node.value:
        return node.value
    return value


def with_text_keys(values: object) -> dict[str, Any]:
    """Convert the keys of a mapping to text."""
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its type."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def invalid_value(error: Exception) -> str:
    """Return why the schema rejects a value, without the class names of OmegaConf."""
    line = first_line(error)
    if "is not a ListConfig" in line:
        return "give a list, such as [one, two]"
    return "give a mapping, such as {name: ...}" if line.startswith("Cannot assign") else line


# ------------------------------------------------------------------ merging


def leaves(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield each value that is not a mapping with its dotted key; an empty mapping is a value."""
    for key, value in values.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def nest(dotted: str, value: object) -> dict[str, Any]:
    """Return {a: {b: value}} for the key ``a.b``."""
    for key in reversed(dotted.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def merge_layer(
    values: dict[str, Any], origin: dict[str, str], layer: Layer, prefix: str = ""
) -> None:
    """Merge a layer into values and origin in place; a component whose name changes is replaced,
    not merged.
    """
    for key, value in layer.values.items():
        dotted = f"{prefix}{key}"
        if not isinstance(value, dict):
            drop_places(origin, dotted)
            values[key] = value
            origin[dotted] = place_of(layer.origin, dotted)
            continue
        old = values.get(key)
        if not isinstance(old, dict) or ("name" in value and value["name"] != old.get("name")):
            drop_places(origin, dotted)
            values[key] = {}
        merge_layer(values[key], origin, Layer(value, layer.origin), f"{dotted}.")


def place_of(origin: Mapping[str, str], dotted: str, default: str = "?") -> str:
    """Return the place of a key, or of its nearest parent that has one."""
    while dotted not in origin and "." in dotted:
        dotted = dotted.rpartition(".")[0]
    return origin.get(dotted, default)


def drop_places(origin: dict[str, str], dotted: str) -> None:
    """Delete the places of a key and of the keys below it."""
    for key in [key for key in origin if key == dotted or key.startswith(f"{dotted}.")]:
        del origin[key]


def remove_key(values: dict[str, Any], origin: dict[str, str], dotted: str) -> None:
    """Remove a key, so that the default of the schema or of the part applies."""
    *path, last = dotted.split(".")
    for key in path:
        inner = values.get(key)
        values = inner if isinstance(inner, dict) else {}
    if last not in values:
        raise UserError(f"~{dotted}: the recipe does not set {dotted!r}{hint(last, values)}")
    del values[last]
    drop_places(origin, dotted)
