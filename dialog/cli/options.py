"""Options of the command line: which were given, and whether their text is valid."""

from __future__ import annotations

import click
from click.core import ParameterSource

from dialog.errors import UserError
from dialog.report.terminal import is_unicode


def is_given(option: str) -> bool:
    """Return whether an option, by the name of its parameter, is on the command line."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def check_text(option: str, *texts: str) -> None:
    """Check that the texts of an option are Unicode; Python reads other bytes of an argument as lone surrogates.

    Raises:
        UserError: a byte that is not UTF-8.
    """
    if not all(map(is_unicode, texts)):
        raise UserError(f"{option}: the text is not UTF-8; check the encoding of the terminal")
