"""Turn read errors of any corpus into UserError."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from dialog.data.corpora.contract import Corpus
from dialog.data.dialogue import Entry
from dialog.errors import UserError


@dataclass(frozen=True)
class ReadableCorpus:
    """Wrap a corpus so that an ``OSError`` from any of its readers becomes a `UserError`."""

    corpus: Corpus

    def dialogues(self, split: str) -> Iterator[Entry]:
        """See `Corpus.dialogues`."""
        with read_errors_as_user_errors():
            yield from self.corpus.dialogues(split)

    def fingerprint(self) -> Mapping[str, str]:
        """See `Corpus.fingerprint`."""
        with read_errors_as_user_errors():
            return self.corpus.fingerprint()


@contextmanager
def read_errors_as_user_errors() -> Iterator[None]:
    """Re-raise an ``OSError`` as `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot read the corpus ({error}); set data.path to a readable folder or file") from error
