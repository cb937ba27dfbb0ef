"""Command line: one file per verb, imported only when the verb is run.

Read first: `train.py`.
"""

from __future__ import annotations

import importlib
import logging
import os
import signal
import sys
import traceback
from typing import NoReturn

import click
from click.shell_completion import CompletionItem, add_completion_class

from dialog.errors import LostProcessError, RunError, UserError, disk_error, is_panic
from dialog.escaping import one_line
from dialog.signals import stopping
from dialog.version import __version__

VERBS = {
    "start": "From a file of chats to a conversation: write a recipe, train, chat.",
    "recipes": "List the shipped recipes.",
    "show": "Print a composed recipe, and where each value comes from.",
    "parts": "List the components of a recipe, with arguments and defaults.",
    "prepare": "Build the tokenizer and the token store of a corpus.",
    "inspect": "Check a corpus for leaks, duplicates and damage.",
    "contexts": "Print the examples of a corpus for other systems: JSON lines.",
    "tune": "Suggest a learning rate or a batch size for a recipe.",
    "train": "Train a recipe into a run folder.",
    "evaluate": "Compute metrics and responses of a run on one split.",
    "tune-generation": (
        "Measure searches on validation, plot quality against diversity, select one."
    ),
    "verify": "List the files of a run that have changed, and what can be rebuilt.",
    "respond": "Generate responses: JSON lines in, JSON lines out.",
    "chat": "Talk to a run, or to two, in the terminal.",
    "serve": "Serve a run over HTTP: chat, attention maps, web page.",
    "export": "Export a run to Hugging Face, CTranslate2 or ONNX, with a parity report.",
    "score": "Score given responses: JSON lines in, JSON lines out.",
    "attention": "Draw the attention maps of a response.",
    "benchmark": "Measure training and generation speed on this machine.",
    "sweep": "Sweep hyperparameters, with the same budget for each recipe.",
    "cache": "List or remove the copies of data that this program keeps.",
    "compare": "Train and evaluate recipes, and write one report.",
}

COMPLETION = "_DIALOG_SEQ2SEQ_COMPLETE"
"""Environment variable in which a shell asks for completions."""

SPIN_COUNT = "10000"
"""Rounds that a waiting thread of GNU's OpenMP spins; its own default is 300,000."""


class VerbGroup(click.Group):
    """Imports a verb's module only when the verb is run."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all verbs, in the order of their use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command ``dialog.cli.<name>.<name>``, with underscores for hyphens."""
        if cmd_name not in VERBS:
            return None
        name = cmd_name.replace("-", "_")
        command: click.Command = getattr(importlib.import_module(f"dialog.cli.{name}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a verb; an unknown one raises UserError with the nearest name."""
        from dialog.config.components import hint

        if (
            args
            and not ctx.resilient_parsing
            and not args[0].startswith("-")
            and args[0] not in VERBS
        ):
            raise UserError(f"unknown command {args[0]!r}{hint(args[0], VERBS)}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete a verb or an option, without importing the verbs."""
        verbs = [
            CompletionItem(verb, help=summary)
            for verb, summary in VERBS.items()
            if verb.startswith(incomplete)
        ]
        return [*verbs, *click.Command.shell_complete(self, ctx, incomplete)]

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb; a closed pipe exits with 141, as for any program; a full or read-only disk
        raises UserError.
        """
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            self._drop_output()
            raise click.exceptions.Exit(128 + signal.SIGPIPE) from None
        except OSError as error:
            expected = disk_error(error)
            if expected is None:
                raise
            self._drop_output()
            raise expected from error

    def _drop_output(self) -> None:
        """Redirect standard output to the null device, so that the interpreter's final flush
        succeeds.
        """
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write names and summaries, without importing the verbs."""
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group(cls=VerbGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="dialog-seq2seq")
def program() -> None:
    """Train, understand and fairly compare sequence-to-sequence dialogue models.

    Example: python -m dialog compare quickstart/lstm_bahdanau quickstart/transformer
    """


def main() -> NoReturn:
    """Run the command line; exit with 2 for a UserError, 1 for a RunError or an internal failure.

    After signals it exits with 130 (SIGINT), 129 (SIGHUP) or 143 (SIGTERM, SIGUSR1).
    """
    logging.basicConfig(stream=sys.stderr, format="%(message)s", level=logging.WARNING)
    logging.getLogger("dialog").setLevel(
        logging.DEBUG if os.environ.get("DIALOG_DEBUG") else logging.INFO
    )
    shorten_spinning()
    if COMPLETION in os.environ:
        from dialog.cli.completion import SettingsBashComplete

        add_completion_class(SettingsBashComplete)
    try:
        with stopping():
            code = program.main(sys.argv[1:] or ["--help"], standalone_mode=False)
    except UserError as error:
        leave(str(error), 2)
    except LostProcessError as error:
        leave(str(error), 1, at_once=True)
    except RunError as error:
        leave(str(error), 1)
    except click.NoSuchOption as error:
        from dialog.cli.options import no_such_option

        leave(no_such_option(error), 2)
    except click.ClickException as error:
        # click lists choices on lines of their own
        leave(" ".join(error.format_message().split()), 2)
    except (KeyboardInterrupt, click.Abort) as error:
        leave(str(error.__cause__ or "") or "interrupted", 130)
    except BaseException as error:  # the last resort
        if not isinstance(error, Exception) and not is_panic(error):
            raise
        leave(f"internal failure: {type(error).__name__}: {error} (DIALOG_DEBUG=1 shows where)", 1)
    sys.exit(code or 0)


def shorten_spinning() -> None:
    """Let OpenMP's waiting threads sleep early, unless the user chose otherwise; to be called
    before torch is imported.

    They spin by default, on the core that the last thread needs if another process holds the other
    one. benchmarks/README.md has the cost on an idle machine and the gain beside a busy process
    ("Spinning threads").
    """
    if not os.environ.keys() & {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"}:
        os.environ["GOMP_SPINCOUNT"] = SPIN_COUNT


def leave(message: str, code: int, *, at_once: bool = False) -> NoReturn:
    """Print one line on standard error and exit; `at_once` skips the finalization of the
    interpreter.
    """
    if os.environ.get("DIALOG_DEBUG"):
        traceback.print_exc()
    click.echo(f"dialog: {one_line(message)}", err=True)
    if at_once:
        try:
            sys.stdout.flush()
        finally:
            os._exit(code)
    sys.exit(code)
