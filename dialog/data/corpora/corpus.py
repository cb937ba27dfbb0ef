"""The interface of a corpus, and the wrapper that turns errors of any corpus, also of a user's own,
into UserError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from dialog.data.dialogue import Dialogue, Entry, Malformed, Turn
from dialog.data.reading.parts import Part
from dialog.errors import UserError


class Corpus(Protocol):
    """A source of dialogues in the three splits of `dialog.data.dialogue.SPLITS`."""

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Yield the dialogues of a split, in the same order at every call."""

    def fingerprint(self) -> Mapping[str, str]:
        """Map each file to its SHA-256 and each setting to its value; equal if and only if the
        dialogues are equal.
        """


@runtime_checkable
class DivisibleCorpus(Corpus, Protocol):
    """A corpus of which several processes can each read a part."""

    def parts(self, split: str) -> Sequence[Part]:
        """Return the parts of a split in order; none if it cannot be divided, such as a compressed
        file.

        The dialogues of all parts, one after the other, are those of `dialogues(split)`.
        """

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        """Yield the dialogues of a part."""


@dataclass(frozen=True)
class ReadableCorpus:
    """Wrap a corpus: an ``OSError`` of its reader, or a value of another type than promised,
    becomes a `UserError`.
    """

    corpus: Corpus

    def dialogues(self, split: str) -> Iterator[Entry]:
        """See `Corpus.dialogues`."""
        return self._checked(lambda: self.corpus.dialogues(split))

    def parts(self, split: str) -> Sequence[Part]:
        """See `DivisibleCorpus.parts`; none if the corpus is not divisible."""
        if not isinstance(self.corpus, DivisibleCorpus):
            return ()
        with read_errors_as_user_errors():
            return self.corpus.parts(split)

    def part(self, split: str, part: Part) -> Iterator[Entry]:
        """See `DivisibleCorpus.part`."""
        corpus = self.corpus
        assert isinstance(corpus, DivisibleCorpus)
        return self._checked(lambda: corpus.part(split, part))

    def fingerprint(self) -> Mapping[str, str]:
        """See `Corpus.fingerprint`."""
        with read_errors_as_user_errors():
            fingerprint = self.corpus.fingerprint()
        if not isinstance(fingerprint, Mapping):
            raise UserError(
                f"{self._name}.fingerprint() returns a {type(fingerprint).__name__}; return a dict"
                ' of strings, such as {"version": "1"}, that changes whenever the dialogues do'
            )
        return fingerprint

    @property
    def _name(self) -> str:
        kind = type(self.corpus)
        return f"{kind.__module__}.{kind.__qualname__}"

    def _checked(self, read: Callable[[], Iterator[Entry]]) -> Iterator[Entry]:
        with read_errors_as_user_errors():
            for entry in read():
                self._check(entry)
                yield entry

    def _check(self, entry: object) -> None:
        if isinstance(entry, Malformed):
            return
        if not isinstance(entry, Dialogue):
            raise UserError(
                f"{self._name}.dialogues() yields a {type(entry).__name__}; "
                "yield dialog.Dialogue(id, (dialog.Turn(speaker, text), ...))"
            )
        for turn in (*entry.facts, *entry.turns):
            if not isinstance(turn, Turn):
                raise UserError(
                    f"{self._name}.dialogues() yields dialogue {entry.id!r} with a"
                    f" {type(turn).__name__} among its turns or facts; use dialog.Turn(speaker,"
                    " text)"
                )


@contextmanager
def read_errors_as_user_errors() -> Iterator[None]:
    """Re-raise an ``OSError`` as `UserError`."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"cannot read the corpus ({error}); set data.path to a readable folder or file"
        ) from error
