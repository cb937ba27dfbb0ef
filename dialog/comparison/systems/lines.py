"""JSON lines of an adapter: contexts on standard input, responses on standard output."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from dialog.errors import UserError
from dialog.escaping import to_json

Number = TypeVar("Number", int, float)


def read_rows() -> Iterator[dict[str, Any]]:
    """Yield the lines of standard input."""
    for content in sys.stdin.buffer:
        if content.strip():
            yield json.loads(content)


def write_line(line: Mapping[str, Any]) -> None:
    """Write a line at once."""
    sys.stdout.write(to_json(line) + "\n")
    sys.stdout.flush()


def messages_of(context: Sequence[str]) -> list[dict[str, str]]:
    """Return the turns of a context as chat messages; without turns, one without text."""
    turns = list(context) or [""]
    roles = ["user" if place % 2 == 0 else "assistant" for place in range(len(turns))]
    return [{"role": role, "content": text} for role, text in zip(roles[::-1], turns, strict=True)]


def parse_options(words: Sequence[str], names: Sequence[str]) -> dict[str, str]:
    """Parse ``KEY=VALUE`` arguments of an adapter.

    Raises:
        UserError: an unknown key, or no value.
    """
    options = {}
    for word in words:
        key, _, value = word.partition("=")
        if key not in names or not value:
            raise UserError(f"{word}: unknown option; choose from {', '.join(names)}, as KEY=VALUE")
        options[key] = value
    return options


def parse_number(options: Mapping[str, str], key: str, default: Number, least: Number) -> Number:
    """Return a number of the options.

    Raises:
        UserError: it is no number, or below ``least``.
    """
    text = options.get(key, str(default))
    try:
        value = type(default)(text)
    except ValueError as error:
        raise UserError(f"{key}={text}: give a number") from error
    if not value >= least:
        raise UserError(f"{key}={text}: give at least {least}")
    return value


def leave(error: Exception) -> NoReturn:
    """Print an error in one line and exit with 2."""
    sys.exit(" ".join(str(error).split()) or type(error).__name__)
