"""The option ``--ensemble``, which respond, score, evaluate, serve, tune-generation and chat
share.
"""

from __future__ import annotations

from pathlib import Path

import click

ensemble_option = click.option(
    "--ensemble",
    multiple=True,
    type=click.Path(path_type=Path),
    metavar="RUN",
    help=(
        "A further run with the same tokenizer; the probabilities of all are averaged. May be"
        " repeated."
    ),
)
