"""What goes wrong in a way that the user can mend."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something the user can mend: one line that says what, where (file:line or key) and how.

    The command line prints it without a traceback and exits with 2.
    """


class RunError(Exception):
    """A run that cannot go on, though it was begun rightly: one line that says what, where and what may help.

    The command line prints it without a traceback and exits with 1.
    """


@contextmanager
def section(key: str) -> Iterator[None]:
    """What a recipe's section cannot be built with is the user's to mend, under its key."""
    try:
        yield
    except (UserError, ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{key}: {error}") from error
