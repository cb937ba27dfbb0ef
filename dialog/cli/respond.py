"""``dialog respond``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dialog.cli.completion import settings
from dialog.cli.json_lines import answer_lines
from dialog.cli.options import (
    ablate_option,
    check_new_file,
    ensemble_option,
    precision_option,
    trust_option,
)
from dialog.config.trust import Trust


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option(
    "--input",
    "source",
    default="-",
    help="File of JSON lines, one context each; - is standard input.",
)
@click.option(
    "--output", "target", default="-", help="New file for the responses; - is standard output."
)
@ensemble_option
@precision_option
@ablate_option
@trust_option
def respond(
    run: Path,
    overrides: tuple[str, ...],
    source: str,
    target: str,
    ensemble: tuple[Path, ...],
    precision: str,
    ablate: tuple[str, ...],
    trust: Trust,
) -> None:
    """Generate responses with a RUN: reads {"context": [TEXT, ...]} per line.

    Writes {"id", "context", "response", "candidates"} for each line; other fields of the line are
    dropped. "candidates" lists all responses that the search returns, best first. search=beam5 or
    temperature=0.7 chooses the search.
    The responses.jsonl of an evaluation is valid input.

    In a pipe, the response to a line is written before the next line is read. For an invalid line,
    {"id", "error"} is written instead, and the exit code is 2. Blank lines are skipped.

    Example: echo '{"context": ["How are you ?"]}' | python -m dialog respond
        runs/quickstart/transformer/...
    """
    if target != "-":
        check_new_file(Path(target), "--output")
    from dialog.runs.load import load

    loaded = load(
        [run, *ensemble], overrides=overrides, precision=precision, trust=trust, ablate=ablate
    )
    from dialog.generation.responder import response_row

    def answer(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        responses = loaded.responder.respond(
            [row["context"] for row in rows], ids=[str(row["id"]) for row in rows]
        )
        return [
            response_row(row["id"], row["context"], candidates)
            for row, candidates in zip(rows, responses, strict=True)
        ]

    answer_lines(source, target, answer)
