"""The contract of an export format."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from dialog.data.tokenizers.tokenizer import EOS
from dialog.runs.folder import TOKENIZER

if TYPE_CHECKING:
    from dialog.models.seq2seq import Seq2Seq
    from dialog.runs.run import Run

Tokens = Sequence[int]
CODE = "modeling_dialog.py"
"""File of an exported folder with code of this package."""


def until_end(tokens: list[int]) -> list[int]:
    """Return the tokens up to the first end token, which is included."""
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


class Exported(Protocol):
    """An exported model, computed by the engine of its format, in float32 on a CPU.

    Batches are lists of token ids without padding. Targets and responses are without the begin
    token; targets end with the end token.
    """

    def log_probabilities(
        self, sources: Sequence[Tokens], targets: Sequence[Tokens]
    ) -> list[list[float]]:
        """Return log p(y_t | y_<t, source) in nats of each token of each target, computed as one
        batch.
        """

    def greedy(self, sources: Sequence[Tokens], length: int) -> list[list[int]]:
        """Return the most probable token, step by step, computed as one batch.

        A response ends with the end token, or has ``length`` tokens.
        """


class Format(ABC):
    """A format: what it can hold, how it is written, and the engine that computes it."""

    engine: str
    """Name of the engine, for people."""

    packages: tuple[str, ...]
    """Importable packages that the format needs, which the extra of its name installs; their
    versions are reported.
    """

    with_code = False
    """True if the folder has a file of code that opens it."""

    @abstractmethod
    def check(self, model: Seq2Seq) -> None:
        """Check that the format can hold a network.

        Raises:
            UserError: it cannot; the message names the key of the recipe and a format that can.
        """

    @abstractmethod
    def write(self, run: Run, folder: Path) -> None:
        """Write the network and what its engine needs into an existing folder.

        The tokenizer, the card and the parity report are written by `export`.
        """

    def write_tokenizer(self, run: Run, folder: Path) -> None:
        """Write `tokenizer.json` and what transformers reads beside it."""
        run.tokenizer.save(folder / TOKENIZER)

    @abstractmethod
    def load(self, folder: Path) -> Exported:
        """Open an exported folder with its engine."""

    def library(self, run: Run) -> str:
        """Return the library that opens the folder."""
        return self.packages[0]

    @abstractmethod
    def usage(self, run: Run) -> str:
        """Return the lines of Python that compute `response` (ids) from `source` (ids) in the
        folder, for the card.

        The card moves imports to the top, and has the `tokenizer`, of the package `tokenizers`.
        """
