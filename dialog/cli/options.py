"""Options that verbs share, and checks of options."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
from click.core import ParameterSource

from dialog.config.trust import trust_of
from dialog.errors import UserError
from dialog.escaping import is_unicode

trust_option = click.option(
    "--trust",
    is_flag=True,
    callback=lambda context, parameter, value: trust_of(value),
    help="Allow recipes to import code by dotted names.",
)
"""The flag of a caller who trusts the author of a run, a comparison or a recipe; its value is a
`Trust`.
"""


def is_given(option: str) -> bool:
    """Return whether an option, by the name of its parameter, is on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def check_only_with(needed: str, value: object, *options: str) -> None:
    """Check that options, by the names of their parameters, are on the command line only with what
    they belong to.

    Raises:
        UserError: one of them would be ignored.
    """
    for option in options:
        if is_given(option) and not value:
            raise UserError(f"--{option.replace('_', '-')}: only with {needed}")


def check_text(option: str, *texts: str) -> None:
    """Check that the texts of an option are Unicode; Python reads other bytes of an argument as
    lone surrogates.

    Raises:
        UserError: a byte that is not UTF-8.
    """
    if not all(map(is_unicode, texts)):
        raise UserError(f"{option}: the text is not UTF-8; check the encoding of the terminal")


def no_such_option(error: click.NoSuchOption) -> str:
    """Return the message of an unknown option; if it is a setting, with the way in which settings
    are written.
    """
    message = " ".join(error.format_message().split())
    command = error.ctx.command if error.ctx else None
    if (
        command is None
        or error.possibilities
        or all(item.name != "overrides" for item in command.params)
    ):
        return message
    from dialog.config.schema import Recipe, to_dict

    name = error.option_name.lstrip("-").replace("-", "_")
    sections = {key: value for key, value in to_dict(Recipe()).items() if key != "about"}
    inner = [
        f"{key}.{name}"
        for key, value in sections.items()
        if isinstance(value, dict) and name in value
    ]
    key = name if name in sections else next(iter(inner), "")
    example = f": {key}=..." if key else ", such as trainer.max_epochs=3"
    return f"{message.removesuffix('.')}; settings are written KEY=VALUE{example}"


ablate_option = click.option(
    "--ablate",
    multiple=True,
    metavar="MODULE.HEAD",
    help="Remove an attention head, such as decoder.layers.0.cross_attention.3; may be repeated.",
)


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


precision_option = click.option(
    "--precision",
    default="float32",
    show_default=True,
    help="Precision of generation: float32, bfloat16, float16 or int8.",
)


# ------------------------------------------------------------------ files for output


def check_new_file(path: Path, option: str) -> None:
    """Check that a file does not exist and can be created, before any work is done for it.

    Raises:
        UserError: with the option that names another path.
    """
    with writable(path, option):
        try:
            path.open("x").close()
        except FileExistsError as error:
            raise UserError(f"{path} exists; choose another {option}") from error
        path.unlink()


@contextmanager
def writable(path: Path, option: str) -> Iterator[None]:
    """Re-raise errors of writing a file as UserError, with the option that names another path."""
    try:
        yield
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path}: cannot be written ({reason}); choose another {option}") from error
