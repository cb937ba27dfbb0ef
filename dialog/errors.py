"""Expected errors: printed as one line, without a traceback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Invalid input: one line that states what is wrong, where (file:line or key) and how to fix it.

    The command line exits with 2.
    """


class RunError(Exception):
    """A valid run that cannot continue: one line that states what failed, where, and what may help.

    The command line exits with 1.
    """


@contextmanager
def section(key: str) -> Iterator[None]:
    """Re-raise build errors as UserError, prefixed with the recipe section."""
    try:
        yield
    except (UserError, ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{key}: {error}") from error
