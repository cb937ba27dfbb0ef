"""What goes wrong in a way that the user can mend."""

from __future__ import annotations


class UserError(Exception):
    """Something the user can mend: one line that says what, where (file:line or key) and how.

    The command line prints it without a traceback and exits with 2.
    """
