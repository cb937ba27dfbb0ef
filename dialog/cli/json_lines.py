"""JSON lines in, JSON lines out: what `respond` and `score` share."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from dialog.atomic import replacing
from dialog.errors import UserError
from dialog.escaping import is_unicode, to_json
from dialog.report.formats.numbers import counted

BATCH = 64
"""Lines of a file that are answered together; a pipe or terminal is answered line by line."""

MOST_LEVELS = 100
"""Limit of nesting in a line, because writing JSON is recursive."""

Answer = Callable[[Sequence[Mapping[str, Any]]], Sequence[dict[str, Any]]]
"""From input lines, each with its ``id``, to output lines; one with an ``error`` counts as failed.
"""


class InputLine(NamedTuple):
    """Input line with its id, or what is wrong with it."""

    row: dict[str, Any]
    error: str | None = None


def answer_lines(source: str, target: str, answer: Answer, *, texts: Sequence[str] = ()) -> None:
    """Answer every line that is not blank, in order; ``texts`` are fields that a line needs besides
    ``context``.

    Raises:
        UserError: at the end, if a line could not be answered; its place holds {"id", "error"}.
    """
    errors: list[str] = []
    with open_input(source, texts) as file, new_file(target) as out:
        size = BATCH if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else 1
        lines = read_lines(file, source, texts)
        while block := list(islice(lines, size)):
            valid = [line.row for line in block if line.error is None]
            answers = iter(answer(valid) if valid else ())
            for line in block:
                row = (
                    next(answers)
                    if line.error is None
                    else {"id": line.row["id"], "error": line.error}
                )
                if "error" in row:
                    errors.append(line.error or f"{row['id']}: {row['error']}")
                out.write(to_json(row) + "\n")
            out.flush()
    if errors:
        raise UserError(
            f"{errors[0]}"
            + (f" (and {counted(len(errors) - 1, 'more line')})" if errors[1:] else "")
        )


def open_input(source: str, texts: Sequence[str]) -> IO[bytes]:
    """Open a file to read; - is standard input, at a terminal with an example of a line."""
    if source == "-":
        check_standard_input()
        if sys.stdin.isatty():
            click.echo(f"reading lines such as {example(texts)} from standard input", err=True)
    try:
        file: IO[bytes] = click.open_file(source, "rb")
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from error
    return file


def example(texts: Sequence[str]) -> str:
    """Return a line that can be answered."""
    return to_json({"context": ["Hi ."], **dict.fromkeys(texts, "Hello .")})


def check_standard_input() -> None:
    """Raise UserError if the process was started with standard input closed."""
    if sys.stdin is None:
        raise UserError(
            "standard input is closed; connect a terminal, a file or a pipe, or use < /dev/null"
        )


@contextmanager
def new_file(target: str) -> Iterator[IO[str]]:
    """Open a file that appears under its name only when everything is written; - is standard
    output.
    """
    if target == "-":
        with click.open_file("-", "w", encoding="utf-8") as out:
            yield out
        return
    with replacing(Path(target)) as new, new.open("w", encoding="utf-8") as file:
        yield file


def read_lines(lines: IO[bytes], file: str, texts: Sequence[str]) -> Iterator[InputLine]:
    """Yield each line that is not blank; the default id is the number of the line, counted
    from 1.
    """
    for number, content in enumerate(lines, start=1):
        if content.strip():
            yield read_line(
                content, number, f"{'standard input' if file == '-' else file}:{number}", texts
            )


def read_line(content: bytes, number: int, where: str, texts: Sequence[str]) -> InputLine:
    """Parse a line; what is wrong with it is prefixed with file:line."""
    unnamed = {"id": str(number)}
    try:
        row = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return InputLine(unnamed, f"{where}: not UTF-8 at byte {error.start + 1}")
    except (ValueError, RecursionError) as error:
        reason = (
            f"{error.msg} at character {error.pos + 1}"
            if isinstance(error, json.JSONDecodeError)
            else error
        )
        return InputLine(unnamed, f"{where}: not JSON ({reason}); write {example(texts)}")
    if nested_deeper(row, MOST_LEVELS):
        name = row.get("id") if isinstance(row, dict) else None
        kept = {"id": name} if isinstance(name, str | int) else unnamed
        return InputLine(kept, f"{where}: nested more than {MOST_LEVELS} levels deep")
    row = {**unnamed, **row} if isinstance(row, dict) else unnamed
    context = row.get("context")
    others = [row.get(name) for name in texts]
    turns: list[Any] = [*context, *others] if isinstance(context, list) else [None]
    if not all(isinstance(text, str) for text in turns):
        fields = "".join(f', "{name}": TEXT' for name in texts)
        return InputLine(row, f'{where}: needs {{"context": [TEXT, ...]{fields}}}')
    if not all(map(is_unicode, turns)):
        fields = " or ".join(["the context", *texts])
        return InputLine(
            row, f"{where}: lone surrogate (half a character) in {fields}; write both halves"
        )
    return InputLine(row)


def nested_deeper(value: object, levels: int) -> bool:
    """Return whether lists and objects are nested in more levels; without recursion."""
    layer = [value]
    for _ in range(levels + 1):
        inner = [
            item.values() if isinstance(item, dict) else item
            for item in layer
            if isinstance(item, dict | list)
        ]
        layer = [child for items in inner for child in items]
    return bool(inner)
