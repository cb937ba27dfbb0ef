"""Option of verbs that can remove attention heads."""

from __future__ import annotations

import click

ablate_option = click.option(
    "--ablate",
    multiple=True,
    metavar="MODULE.HEAD",
    help="Remove an attention head, such as decoder.layers.0.cross_attention.3; may be repeated.",
)
