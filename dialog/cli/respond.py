"""``dialog respond``."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

from dialog.atomic import replacing
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.paths import check_new

BATCH = 64
"""Lines of a file that are answered together; a pipe or terminal is answered line by line."""


class Question(NamedTuple):
    """Input line: its id, and a context or what is wrong with it."""

    id: Any
    context: list[str]
    error: str | None = None


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "source", default="-", help="File of JSON lines, one context each; - is standard input.")
@click.option("--output", "target", default="-", help="New file for the responses; - is standard output.")
@click.option("--trust", is_flag=True, help="Allow the run's recipe to import code.")
def respond(run: Path, overrides: tuple[str, ...], source: str, target: str, trust: bool) -> None:
    """Generate responses with a RUN: reads {"context": [TEXT, ...]} per line, writes the line with its response.

    Each line of a pipe is answered before the next one is read. A line that cannot be answered gets {"id", "error"} in
    its place; the exit code is then 2. Blank lines are skipped. The responses.jsonl of an evaluation is valid input.

    Example: echo '{"context": ["How are you ?"]}' | dialog-seq2seq respond runs/quickstart/transformer/...
    """
    if target != "-":
        check_new(Path(target))
    from dialog.runs.load import load

    loaded = load(run, overrides=overrides, trust=trust)
    from dialog.generation.responder import response_row

    errors: list[str] = []
    with open_input(source) as file, new_file(target) as out:
        size = BATCH if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else 1
        lines = read_lines(file, source)
        while block := list(islice(lines, size)):
            contexts = [line.context for line in block if line.error is None]
            candidates = iter(loaded.responder.respond(contexts))
            for line in block:
                if line.error is None:
                    row = response_row(line.id, line.context, next(candidates))
                else:
                    row = {"id": line.id, "error": line.error}
                if "error" in row:
                    errors.append(f"{row['id']}: {row['error']}" if line.error is None else line.error)
                out.write(to_json(row) + "\n")
            out.flush()
    if errors:
        raise UserError(f"{errors[0]}" + (f" (and {len(errors) - 1} more lines)" if errors[1:] else ""))


def open_input(source: str) -> IO[bytes]:
    """Open a file to read; - is standard input."""
    try:
        file: IO[bytes] = click.open_file(source, "rb")
    except OSError as error:
        raise UserError(f"{source}: {error.strerror}") from error
    return file


@contextmanager
def new_file(target: str) -> Iterator[IO[str]]:
    """Open a file that appears under its name only when everything is written; - is standard output."""
    if target == "-":
        with click.open_file("-", "w", encoding="utf-8") as out:
            yield out
        return
    with replacing(Path(target)) as new, new.open("w", encoding="utf-8") as file:
        yield file


def read_lines(lines: IO[bytes], file: str) -> Iterator[Question]:
    """Yield each line that is not blank; the default id is the number of the line, counted from 1."""
    for number, content in enumerate(lines, start=1):
        if content.strip():
            yield read_line(content, number, f"{'standard input' if file == '-' else file}:{number}")


def read_line(content: bytes, number: int, where: str) -> Question:
    """Parse a line; what is wrong with it is prefixed with file:line."""
    try:
        row = json.loads(content.decode("utf-8-sig" if number == 1 else "utf-8"))
    except UnicodeDecodeError as error:
        return Question(str(number), [], f"{where}: not UTF-8 at byte {error.start + 1}")
    except (ValueError, RecursionError) as error:
        return Question(str(number), [], f"{where}: not JSON ({error}); write one object per line")
    if not isinstance(row, dict):
        row = {}
    name, context = row.get("id", str(number)), row.get("context")
    if not isinstance(context, list) or not all(isinstance(turn, str) for turn in context):
        return Question(name, [], f'{where}: needs {{"context": [TEXT, ...]}}')
    if any("\ud800" <= char <= "\udfff" for turn in context for char in turn):
        return Question(name, [], f"{where}: lone surrogate (half a character) in the context; write both halves")
    return Question(name, context)
