"""``dialog score``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from dialog.cli.json_lines import answer_lines
from dialog.cli.options import ablate_option, check_new_file, ensemble_option, trust_option
from dialog.config.trust import Trust


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--input", "source", default="-", help="File of JSON lines; - is standard input.")
@click.option(
    "--output", "target", default="-", help="New file for the scores; - is standard output."
)
@ensemble_option
@ablate_option
@trust_option
def score(
    run: Path,
    source: str,
    target: str,
    ensemble: tuple[Path, ...],
    ablate: tuple[str, ...],
    trust: Trust,
) -> None:
    """Score responses with a RUN: reads {"context": [TEXT, ...], "response": TEXT} per line.

    Writes each line with three more fields: "nll", -log p(response | context) in nats, end token
    included; "tokens", the number of tokens of the response, end token included; "bytes", its
    length in UTF-8. If the line has a "reference", as in the responses.jsonl of an evaluation, its
    "nll" is that of the reference, and the new fields are named "response_nll", "response_tokens"
    and "response_bytes".

    In a pipe, the score of a line is written before the next line is read. For an invalid line,
    {"id", "error"} is written instead, and the exit code is 2.

    Example: echo '{"context": ["How are you ?"], "response": "Fine ."}' | python -m dialog score
        runs/quickstart/...
    """
    if target != "-":
        check_new_file(Path(target), "--output")
    from dialog.runs.load import load

    loaded = load([run, *ensemble], trust=trust, ablate=ablate)

    def answer(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        likelihoods = loaded.likelihoods([(row["context"], row["response"]) for row in rows])
        return [
            {**row, **scores(row, *likelihood)}
            for row, likelihood in zip(rows, likelihoods, strict=True)
        ]

    answer_lines(source, target, answer, texts=["response"])


def scores(row: Mapping[str, Any], nll: float, tokens: int) -> dict[str, Any]:
    """Return the new fields of a line, with a prefix if it has a reference, whose fields have the
    plain names.
    """
    prefix = "response_" if "reference" in row else ""
    return {
        f"{prefix}nll": nll,
        f"{prefix}tokens": tokens,
        f"{prefix}bytes": len(row["response"].encode()),
    }
