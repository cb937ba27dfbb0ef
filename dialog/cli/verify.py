"""``dialog verify``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import click

from dialog.errors import UserError
from dialog.escaping import one_line, to_json


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the files as JSON.")
def verify(run: Path, as_json: bool) -> None:
    """List the files of a RUN and its evaluations that have changed since they were written, and
    what can be rebuilt.

    Exits with 2 if a file has changed or is missing.

    Example: python -m dialog verify runs/quickstart/transformer/20260101-120000-abcd
    """
    from dialog.runs.verify import DAMAGE
    from dialog.runs.verify import verify as verify_run

    files = verify_run(run)
    if as_json:
        click.echo(to_json([asdict(file) for file in files], indent=1))
    else:
        names = [one_line(file.file) for file in files]
        width = max(map(len, names))
        for name, file in zip(names, files, strict=True):
            click.echo(f"{name:<{width}}  {file.state:<10}  {file.remedy}".rstrip())
    damaged = [file.file for file in files if file.state in DAMAGE]
    if damaged:
        raise UserError(
            f"{run}: {len(damaged)} of {len(files)} files have changed or are missing:"
            f" {', '.join(damaged)}"
        )
