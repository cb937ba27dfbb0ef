"""``dialog respond``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, Any

import click

from dialog.atomic import replacing
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.paths import check_new

BATCH = 64


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--input", "source", default="-", help="File of JSON lines, one context each; - is standard input.")
@click.option("--output", "target", default="-", help="New file for the responses; - is standard output.")
@click.option("--trust", is_flag=True, help="Allow the run's recipe to import code.")
def respond(run: Path, overrides: tuple[str, ...], source: str, target: str, trust: bool) -> None:
    """Generate responses with a RUN: reads {"context": [TEXT, ...]} per line, writes the line with its response.

    Example: echo '{"context": ["How are you ?"]}' | dialog-seq2seq respond runs/quickstart/transformer/...
    """
    if target != "-":
        check_new(Path(target))
    from dialog.runs.load import load

    loaded = load(run, overrides=overrides, trust=trust)
    from dialog.generation.responder import response_row

    search = loaded.recipe.generation.search
    try:
        with click.open_file(source, "rb") as lines, new_file(target) as out:
            questions = contexts(lines, source)
            while block := list(islice(questions, BATCH)):
                responses = loaded.responder.respond([context for _, context in block], search)
                for (name, context), candidate in zip(block, responses, strict=True):
                    out.write(to_json(response_row(name, context, candidate)) + "\n")
                out.flush()
    except BrokenPipeError:
        raise  # the reader has closed the pipe
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def new_file(target: str) -> Iterator[IO[str]]:
    """Open a file that appears under its name only when everything is written; - is standard output."""
    if target == "-":
        with click.open_file("-", "w", encoding="utf-8") as out:
            yield out
        return
    with replacing(Path(target)) as new, new.open("w", encoding="utf-8") as file:
        yield file


def contexts(lines: IO[bytes], file: str) -> Iterator[tuple[Any, list[str]]]:
    """Yield id and context of each line; an invalid line raises UserError with file:line."""
    for number, line in enumerate(lines, start=1):
        where = f"{'standard input' if file == '-' else file}:{number}"
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{where}: not UTF-8 at byte {error.start + 1}") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); write one object per line") from error
        context = row.get("context") if isinstance(row, dict) else None
        if not isinstance(context, list) or not context or not all(isinstance(turn, str) for turn in context):
            raise UserError(f'{where}: needs {{"context": [TEXT, ...]}} with at least one turn')
        if any("\ud800" <= char <= "\udfff" for turn in context for char in turn):
            raise UserError(f"{where}: lone surrogate (half a character) in the context; write both halves")
        yield row.get("id", str(number)), context
