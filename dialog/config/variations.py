"""Variations ``KEY=A,B`` of the command line: one recipe, or one setting, for each value."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import product

from dialog.config.yaml_layers import parse_value
from dialog.errors import UserError

UNSAFE = re.compile(r"[^\w.,=+\[\] -]+")
"""Characters of a value that do not belong in the name of a folder."""


def parse_variation(text: str, option: str = "--vary") -> tuple[str, list[str]]:
    """Split ``KEY=A,B`` at the commas outside of brackets.

    Raises:
        UserError: no key, an empty value, or a value listed twice.
    """
    key, _, listed = text.partition("=")
    values = [""]
    depth = 0
    for character in listed:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and not depth:
            values.append("")
        else:
            values[-1] += character
    values = [value.strip() for value in values]
    if not key or not all(values):
        raise UserError(f"{option} {text!r}: give KEY=A,B, such as model.dropout=0.1,0.2")
    if len(set(values)) < len(values):
        raise UserError(f"{option} {text!r}: a value is listed twice")
    return key, values


def short_names(keys: Sequence[str], option: str = "--vary") -> dict[str, str]:
    """Return the last parts of dotted keys, as many as tell them apart.

    Raises:
        UserError: a key listed twice.
    """
    if len(set(keys)) < len(keys):
        raise UserError(
            f"{option} {max(keys, key=list(keys).count)}: listed twice; give its values in one list"
        )
    parts = {key: key.removesuffix(".name").split(".") for key in keys}
    length = 1
    while len({".".join(part[-length:]) for part in parts.values()}) < len(keys):
        length += 1
    return {key: ".".join(part[-length:]) for key, part in parts.items()}


def combinations(variations: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return a label and the overrides of each combination of the values of ``KEY=A,B``; one
    without variations.

    Raises:
        UserError: no key, an empty value, or a key or value listed twice.
    """
    return [
        (
            ", ".join(f"{short}={value}" for _, short, value in settings),
            [f"{key}={value}" for key, _, value in settings],
        )
        for settings in _products(variations, "--vary")
    ]


def recipe_variations(
    variations: Sequence[str], leaves: Container[str], option: str = "--vary"
) -> list[tuple[str, list[str]]]:
    """Return the same for a recipe; a plain value of a component is the name of a part.

    Args:
        variations: ``KEY=A,B``.
        leaves: Dotted keys of the recipe.
        option: Option of the command line that has the variations, for messages.

    Returns:
        Labels that may be names of folders, such as ``attention=location size=32`` for
        ``model.decoder.attention={name: location, size: 32}``; and overrides.
    """
    return [
        (
            ", ".join(f"{short}={_value_label(key, value)}" for key, short, value in settings),
            [
                f"{key}.name={value}"
                if f"{key}.name" in leaves and "{" not in value
                else f"{key}={value}"
                for key, _, value in settings
            ],
        )
        for settings in _products(variations, option)
    ]


def _products(variations: Sequence[str], option: str) -> list[list[tuple[str, str, str]]]:
    """Return key, short key and value of each setting of each combination."""
    parsed = [parse_variation(text, option) for text in variations]
    keys = [key for key, _ in parsed]
    short = short_names(keys, option)
    return [
        [(key, short[key], value) for key, value in zip(keys, values, strict=True)]
        for values in product(*(values for _, values in parsed))
    ]


def _value_label(key: str, value: str) -> str:
    parsed = parse_value(f"{key}={value}", value)
    if isinstance(parsed, dict):
        value = " ".join(
            str(item) if key == "name" else f"{key}={item}" for key, item in parsed.items()
        )
    return UNSAFE.sub("_", value)
