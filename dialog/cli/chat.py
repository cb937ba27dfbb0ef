"""``dialog chat``."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from dialog.cli.completion import runs_and_settings
from dialog.cli.json_lines import check_standard_input
from dialog.cli.options import (
    ablate_option,
    check_text,
    ensemble_option,
    precision_option,
    trust_option,
)
from dialog.config.compose import split_overrides
from dialog.config.trust import Trust
from dialog.errors import UserError


@click.command()
@click.argument(
    "runs",
    nargs=-1,
    required=True,
    metavar="RUN [RUN] [KEY=VALUE]...",
    shell_complete=runs_and_settings,
)
@click.option(
    "--self-chat",
    "turns",
    type=click.IntRange(1),
    metavar="N",
    help="Let the runs talk for N turns.",
)
@click.option(
    "--start", metavar="TEXT", help="First turn of --self-chat [default: an empty context]."
)
@click.option("--json", "as_json", is_flag=True, help="Print the result of --self-chat as JSON.")
@ensemble_option
@precision_option
@ablate_option
@trust_option
def chat(
    runs: tuple[str, ...],
    turns: int | None,
    start: str | None,
    as_json: bool,
    ensemble: tuple[Path, ...],
    precision: str,
    ablate: tuple[str, ...],
    trust: Trust,
) -> None:
    """Talk to a RUN, or to two at a time, in the terminal; /help lists the commands.

    Each line that you type is a turn; each run responds with the search of its recipe.
    search=beam5, temperature=0.7 and other overrides apply to every run. Two runs respond to the
    same lines, and the context of each contains its own earlier responses. The context is truncated
    as in training. Ctrl-C stops a response, Ctrl-D ends the chat. In a pipe, every line of text
    gives one output line per run, a command one line with tabs between its parts, and a blank line
    none.

    --self-chat lets two runs, or one run with itself, talk to each other. At the end it prints the
    fractions of turns and trigrams that repeat earlier ones, and distinct-2.

    --ablate removes heads of the last RUN. To see their effect, give one run twice.

    \b
    Example: python -m dialog chat runs/quickstart/transformer/...
    Two runs:   python -m dialog chat RUN RUN2 search=beam5
    Self-chat:  python -m dialog chat RUN RUN2 --self-chat 20 --start "Hello ."
    """  # noqa: D301 - click reads the character \b
    folders, overrides = split_overrides(runs)
    if not 1 <= len(folders) <= 2:
        raise UserError(f"{len(folders)} runs; give one or two run folders")
    if ensemble and len(folders) > 1:
        raise UserError("--ensemble: only with one run")
    if turns is None and (as_json or start is not None):
        raise UserError(f"{'--json' if as_json else '--start'}: only with --self-chat N")
    check_text("--start", start or "")
    if turns is None:
        check_standard_input()
    from dialog.runs.load import load

    heads = [()] * (len(folders) - 1) + [ablate]
    loaded = [
        load(
            [folder, *ensemble],
            overrides=overrides,
            precision=precision,
            trust=trust,
            ablate=removed,
        )
        for folder, removed in zip(folders, heads, strict=True)
    ]
    if turns is not None:
        from dialog.chat.self_chat import print_self_chat

        print_self_chat(loaded, turns, start, as_json=as_json)
        return
    from dialog.chat.session import Session
    from dialog.chat.terminal import chat_in_pipe, chat_in_terminal

    if sys.stdin.isatty() and sys.stdout.isatty():
        chat_in_terminal(Session(loaded, trust=trust))
    else:
        chat_in_pipe(Session(loaded, trust=trust), sys.stdin.buffer)
