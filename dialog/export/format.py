"""Contract of an export format, and what several formats write: the search, the sizes of tables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from dialog.config.components import Component, name_and_arguments
from dialog.config.schema import GenerationConfig, Recipe
from dialog.data.tokenizers.tokenizer import EOS, PAD
from dialog.models.seq2seq import Seq2Seq
from dialog.models.transformer import TransformerSettings
from dialog.runs.folder import TOKENIZER
from dialog.runs.run import Run

Tokens = Sequence[int]
CODE = "modeling_dialog.py"
"""File of an exported folder with code of this package."""
SHORTEST_TABLE = 1024
"""Smallest number of rows of a sinusoidal table; CTranslate2 reads at most 1024 tokens of a source
by default.
"""


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

    package: str
    """Distribution of the engine."""

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
        return self.package

    @abstractmethod
    def usage(self, run: Run) -> str:
        """Return the lines of Python that compute `response` (ids) from `source` (ids) in the
        folder, for the card.

        The card moves imports to the top, and has the `tokenizer`, of the package `tokenizers`.
        """


def search_and_limits(generation: GenerationConfig) -> tuple[Component, dict[str, Any]]:
    """Return the search and the constraints; those inside the search replace those beside it."""
    limits = asdict(generation)
    search: Component = limits.pop("search")
    own = {key: value for key, value in search.items() if key not in limits}
    return own, limits | {key: value for key, value in search.items() if key in limits}


def transformer_settings(model: Seq2Seq, side: str) -> TransformerSettings:
    """Return the settings of the encoder or the decoder, with the defaults of those that the recipe
    leaves out.
    """
    _, arguments = name_and_arguments(model.arguments[side])
    shared = {
        "input_size": model.arguments["embedding_size"],
        "dropout": model.arguments["dropout"],
    }
    return TransformerSettings(**(shared | arguments))


def learned_lengths(part: nn.Module) -> list[int]:
    """Return the number of rows of each learned table of positions."""
    return [
        len(table)
        for name, table in part.named_parameters()
        if name.endswith("positions.table.weight")
    ]


def table_length(recipe: Recipe) -> int:
    """Return the number of rows of a sinusoidal table: for the sources, targets and responses of
    the recipe.
    """
    data = recipe.data
    generation = recipe.generation
    _, limits = search_and_limits(generation)
    # 1: the begin token
    return max(SHORTEST_TABLE, data.max_source, data.max_target, 1 + int(limits["max_length"]))


def lacking_search(search: Component) -> list[str]:
    """Return the search of a recipe if it is not greedy, for an engine without it."""
    name = search["name"]
    return [] if name == "greedy" else [f"generation.search {name}, here greedy search"]


def lacking_limits(limits: Mapping[str, Any], supported: Collection[str]) -> list[str]:
    """Return the keys of the constraints that a recipe has, but an engine lacks."""
    nothing = asdict(GenerationConfig())
    return [
        f"generation.{key}"
        for key, value in limits.items()
        if key not in supported and value != nothing[key]
    ]


def until_end(tokens: list[int]) -> list[int]:
    """Return the tokens up to the first end token, which is included."""
    return tokens[: tokens.index(EOS) + 1] if EOS in tokens else tokens


def padded(rows: Sequence[Tokens]) -> tuple[Tensor, Tensor]:
    """Return rows of tokens with padding on the right, and the mask of real tokens, both [B, T]."""
    tokens = nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD
    )
    lengths = torch.tensor([len(row) for row in rows])
    return tokens, torch.arange(tokens.shape[1]) < lengths.unsqueeze(1)


def token_scores(logits: Tensor, targets: Sequence[Tokens]) -> list[list[float]]:
    """Return log p of each token of each target in nats, from logits [B, T, V]."""
    tokens, _ = padded(targets)
    values = logits.log_softmax(-1).gather(-1, tokens.unsqueeze(-1)).squeeze(-1)  # [B, T]
    return [row[: len(target)] for row, target in zip(values.tolist(), targets, strict=True)]
