"""The option ``--precision``, which respond, chat, serve, evaluate and benchmark share."""

from __future__ import annotations

import click

precision_option = click.option(
    "--precision",
    default="float32",
    show_default=True,
    help="Precision of generation: float32, bfloat16, float16 or int8.",
)
