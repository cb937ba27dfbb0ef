"""Options of the command line: which were given, whether their text is valid, and settings written
as options.
"""

from __future__ import annotations

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
