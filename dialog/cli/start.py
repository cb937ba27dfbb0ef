"""``dialog start``."""

from __future__ import annotations

import shlex
import socket
import sys
from functools import partial
from pathlib import Path

import click

from dialog.cli.completion import settings
from dialog.errors import UserError
from dialog.escaping import to_json

PORT = 8000
"""Of `serve`, by default."""


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("overrides", nargs=-1, metavar="[KEY=VALUE]...", shell_complete=settings)
@click.option("--yes", is_flag=True, help="Do not ask whether the columns are right.")
@click.option(
    "--minutes",
    type=float,
    default=30.0,
    show_default=True,
    metavar="N",
    help="Time limit of the training.",
)
@click.option("--name", help="Name of the recipe [default: that of FILE].")
@click.option(
    "--pseudonyms",
    is_flag=True,
    help="Train on a copy without the speakers' names, numbers and addresses.",
)
@click.option("--serve", "serves", is_flag=True, help="Open the web page at the end.")
@click.option("--json", "as_json", is_flag=True, help="Print recipe, run and metrics as JSON.")
def start(
    file: Path,
    overrides: tuple[str, ...],
    yes: bool,
    minutes: float,
    name: str | None,
    pseudonyms: bool,
    serves: bool,
    as_json: bool,
) -> None:
    """From a FILE of chats to a conversation: detect the format, write a recipe, train, open a
    chat.

    FILE is a CSV, JSON or JSON-lines file, an export of WhatsApp, Telegram or Slack, a ConvoKit
    corpus, or a folder of texts. The columns and three dialogues are shown before anything is
    written. The recipe NAME.yaml is an ordinary one for train, compare and sweep; KEY=VALUE changes
    it, and data.corpus.text=COLUMN names a column that was not found.

    \b
    Example: python -m dialog start chats.csv
    Shorter:  python -m dialog start chats.csv --yes --minutes 5 --serve
    """  # noqa: D301 - click reads the character \b
    from dialog.start.start import StartRequest, next_commands
    from dialog.start.start import start as start_run

    say = partial(click.echo, err=as_json)

    def confirm(question: str) -> bool:
        if yes:
            return True
        if not sys.stdin.isatty():
            raise UserError(
                "there is no terminal to ask whether this is right; give --yes if it is"
            )
        return click.confirm(question, default=True, err=as_json)

    started = start_run(StartRequest(file, overrides, minutes, name, pseudonyms), say, confirm)
    if as_json:
        fields = {"recipe": str(started.recipe), "run": str(started.run)}
        click.echo(to_json({**fields, "metrics": started.metrics}, indent=1))
        return
    click.echo("\nNext:")
    for line in next_commands(started):
        click.echo(line)
    click.echo("")
    if serves:
        from dialog.cli.serve import serve

        serve.main([str(started.run), "--port", str(service_port())], standalone_mode=False)
    elif sys.stdin.isatty() and sys.stdout.isatty():
        from dialog.cli.chat import chat

        chat.main([str(started.run)], standalone_mode=False)
    else:
        command = f"python -m dialog chat {shlex.quote(str(started.run))}"
        click.echo(f"No terminal: no chat opened; {command} reads a turn from each line", err=True)


def service_port() -> int:
    """Return the usual port of `serve`, or 0, for any other, if it is in use: a training should not
    end with an error.
    """
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", PORT))
        except OSError:
            return 0
    return PORT
