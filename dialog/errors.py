"""Expected errors: printed as one line, without a traceback."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
READ_ONLY = (errno.EROFS, errno.EACCES, errno.EPERM)
OUT_OF_MEMORY = (
    "out of memory",  # of a GPU
    "can't allocate memory",  # torch's CPU allocator
    "not enough memory",  # the system's
    "CUDNN_STATUS_NOT_SUPPORTED",  # https://github.com/pytorch/pytorch/issues/4107
)
"""Parts of the messages of torch, which has a class for errors of GPUs only."""


def install(extra: str) -> str:
    """Return how to install an extra; the distribution is not on the package index."""
    return f"pip install -e '.[{extra}]' in the checkout"


class UserError(Exception):
    """Invalid input: one line that states what is wrong, where (file:line or key) and how to fix
    it.

    The command line exits with 2.
    """


class RunError(Exception):
    """A valid run that cannot continue: one line that states what failed, where, and what may help.

    The command line exits with 1.
    """


class LostProcessError(RunError):
    """A distributed training that another process has left.

    Threads of the broken collective sometimes abort the interpreter while it ends, so the command
    line skips that.
    """


class DivergedError(RunError):
    """A training whose loss or gradient is not finite; its checkpoints are of good steps."""


def is_panic(error: BaseException) -> bool:
    """Return whether an error is a panic of a library in Rust; its class is not an Exception and
    cannot be imported.
    """
    return type(error).__name__ == "PanicException"


def disk_error(error: OSError, remedy: str = "run it again") -> UserError | None:
    """Return the UserError for a disk that is full, read-only or without locks; None for other
    errors.
    """
    file = error.filename or "standard output"
    if error.errno in FULL:
        return UserError(f"{file}: {error.strerror}; free disk space and {remedy}")
    if error.errno in READ_ONLY:
        return UserError(f"{file}: {error.strerror}; make it writable, or use a copy, and {remedy}")
    if error.errno == errno.ENOLCK:
        return UserError(
            f"{file}: {error.strerror}; use a folder on a file system that has locks, and {remedy}"
        )
    return None


def out_of_memory(error: BaseException) -> bool:
    """Return whether an error is Python's or torch's for memory that cannot be allocated."""
    if isinstance(error, RuntimeError):
        return any(words in str(error) for words in OUT_OF_MEMORY)
    return isinstance(error, MemoryError)


@contextmanager
def section(key: str) -> Iterator[None]:
    """Re-raise build errors as UserError, prefixed with the recipe section."""
    try:
        yield
    except (UserError, ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise UserError(f"{key}: {error}") from error
