"""Variations ``KEY=A,B`` of the command line: one recipe, or one setting, for each value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from dialog.errors import UserError


def parse_variation(text: str) -> tuple[str, list[str]]:
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
        raise UserError(f"--vary {text!r}: give KEY=A,B, such as model.dropout=0.1,0.2")
    if len(set(values)) < len(values):
        raise UserError(f"--vary {text!r}: a value is listed twice")
    return key, values


def short_names(keys: Sequence[str]) -> dict[str, str]:
    """Return the last parts of dotted keys, as many as tell them apart.

    Raises:
        UserError: a key listed twice.
    """
    if len(set(keys)) < len(keys):
        raise UserError(
            f"--vary {max(keys, key=list(keys).count)}: listed twice; give its values in one list"
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
    parsed = [parse_variation(text) for text in variations]
    short = short_names([key for key, _ in parsed])
    keys = [key for key, _ in parsed]
    return [
        (
            ", ".join(f"{short[key]}={value}" for key, value in zip(keys, values, strict=True)),
            [f"{key}={value}" for key, value in zip(keys, values, strict=True)],
        )
        for values in product(*(values for _, values in parsed))
    ]
