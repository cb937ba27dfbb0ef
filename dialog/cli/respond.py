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
@click.option("--input", "source", default="-", help="JSON lines with a context each; - is standard input.")
@click.option("--output", "target", default="-", help="Where responses go; - is standard output.")
@click.option("--trust", is_flag=True, help="Let the run's recipe import code.")
def respond(run: Path, overrides: tuple[str, ...], source: str, target: str, trust: bool) -> None:
    """Answer contexts with a RUN: {"context": [TEXT, ...]} a line in, the response added a line out.

    Example: echo '{"context": ["How are you ?"]}' | dialog-seq2seq respond runs/quickstart/transformer/...
    """
    if target != "-":
        check_new(Path(target))
    from dialog.runs.load import load

    loaded = load(run, overrides=overrides, trust=trust)
    from dialog.generation.responder import response_row

    search = loaded.recipe.generation.search
    try:
        with click.open_file(source, "rb") as lines, whole(target) as out:
            questions = contexts(lines, source)
            while block := list(islice(questions, BATCH)):
                found = loaded.responder.respond([context for _, context in block], search)
                for (name, context), candidate in zip(block, found, strict=True):
                    out.write(to_json(response_row(name, context, candidate)) + "\n")
                out.flush()
    except BrokenPipeError:
        raise  # whoever reads has enough
    except OSError as error:
        raise UserError(f"{error.filename}: {error.strerror}") from error


@contextmanager
def whole(target: str) -> Iterator[IO[str]]:
    """A file that is there when all is written, and not before."""
    if target == "-":
        with click.open_file("-", "w", encoding="utf-8") as out:
            yield out
        return
    with replacing(Path(target)) as new, new.open("w", encoding="utf-8") as file:
        yield file


def contexts(lines: IO[bytes], file: str) -> Iterator[tuple[Any, list[str]]]:
    """Id and context of each line."""
    for number, line in enumerate(lines, start=1):
        where = f"{'standard input' if file == '-' else file}:{number}"
        try:
            row = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
        except UnicodeDecodeError as error:
            raise UserError(f"{where}: not UTF-8 at byte {error.start + 1}") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{where}: not JSON ({error}); give one object a line") from error
        context = row.get("context") if isinstance(row, dict) else None
        if not isinstance(context, list) or not context or not all(isinstance(turn, str) for turn in context):
            raise UserError(f'{where}: needs {{"context": [TEXT, ...]}} with one turn or more')
        if any("\ud800" <= char <= "\udfff" for turn in context for char in turn):
            raise UserError(f"{where}: half a character (a lone surrogate) in the context; write both halves")
        yield row.get("id", str(number)), context
