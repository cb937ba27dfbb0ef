"""The whole network: an encoder reads a source, a decoder says a response.

Shapes: B rows, S source tokens, T target tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, accepts, build, lookup
from dialog.models.contracts import AttentionHook, Decoder, Encoder, Only, State
from dialog.models.dropout import Dropout
from dialog.models.embedding import TokenEmbedding
from dialog.models.encoders import FLAT
from dialog.models.heads import HEADS, Decoded
from dialog.models.hierarchical import HierarchicalEncoder, turn_numbers
from dialog.models.recurrent import GRU, LSTM, BahdanauDecoder, LuongDecoder
from dialog.models.state import Rows
from dialog.models.transformer import TransformerDecoder

ENCODERS: Family[Encoder] = Family(
    "encoder",
    {**FLAT, "hierarchical": HierarchicalEncoder},
    runtime=("input_size", "dropout", "activation_checkpointing"),
)
DECODERS: Family[Decoder] = Family(
    "decoder",
    {
        "lstm": partial(BahdanauDecoder, LSTM()),
        "gru": partial(BahdanauDecoder, GRU()),
        "lstm_luong": partial(LuongDecoder, LSTM()),
        "gru_luong": partial(LuongDecoder, GRU()),
        "transformer": TransformerDecoder,
    },
    runtime=("input_size", "memory_size", "dropout", "activation_checkpointing"),
)
TIES = {"all": (True, True), "output": (False, True), "source": (True, False), "none": (False, False)}
"""Whether the target's embeddings are the source's, and whether the output layer's weights are the target's."""
WORDS: dict[bool | str, str] = {True: "all", False: "none"}
VOCABULARY: Component = {"name": "vocabulary"}


@dataclass(frozen=True)
class Source(Rows):
    """What stays fixed while a response is said."""

    tokens: Tensor  # [B, S]
    memory: Any  # the decoder's


class Seq2Seq(nn.Module):
    """p(target | source) = prod_t p(y_t | y_<t, source), with any encoder and any decoder.

    ``tie_embeddings``: source, target and output layer share one table (all, or true), target and output layer do
    (output), source and target do (source), or none do (none, or false); Press & Wolf 2017. A source's turns begin with
    one of the ``turn_tokens``. ``activation_checkpointing`` makes Transformers train in less memory, and slower.
    """

    def __init__(
        self,
        vocabulary: int,
        *,
        padding: int,
        embedding_size: int,
        encoder: Component,
        decoder: Component,
        head: Component = VOCABULARY,
        tie_embeddings: bool | str = True,
        turn_tokens: tuple[int, ...] = (),
        dropout: float = 0.0,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if activation_checkpointing and not any(
            accepts(table, part, "activation_checkpointing")
            for table, part in ((ENCODERS, encoder), (DECODERS, decoder))
        ):
            raise ValueError("activation_checkpointing is for Transformers, and there is none; leave it out")
        both = {"dropout": dropout, "activation_checkpointing": activation_checkpointing}
        one_table, tied = lookup(TIES, WORDS.get(tie_embeddings, str(tie_embeddings)), "tie_embeddings")
        self.source_embedding = TokenEmbedding(vocabulary, embedding_size, padding=padding, dropout=dropout)
        self.target_embedding = (
            self.source_embedding
            if one_table
            else TokenEmbedding(vocabulary, embedding_size, padding=padding, dropout=dropout)
        )
        self.encoder = build(ENCODERS, encoder, input_size=embedding_size, **both)
        self.decoder = build(DECODERS, decoder, input_size=embedding_size, memory_size=self.encoder.size, **both)
        self.dropout = Dropout(dropout)
        tied_to = self.target_embedding.table.weight if tied else None
        self.head = build(HEADS, head, vocabulary=vocabulary, size=embedding_size, tied=tied_to)
        if self.head.points and self.decoder.pointer is None:
            raise ValueError(f"the head {head['name']!r} points with the decoder's attention, and there is none")
        self.turn_tokens = turn_tokens
        self.tells_turns = "turns" in inspect.signature(self.encoder.forward).parameters

    def forward(self, source: Tensor, source_mask: Tensor, target: Tensor, hook: AttentionHook | None = None) -> Tensor:
        """Teacher forcing: source [B, S], source_mask [B, S] (True = real), target [B, T] -> logits [B, T, V].

        Logits t are for the token after target t, so a target begins with the token that begins a response.
        """
        memory, state = self.start(source, source_mask, hook)
        return self.step(target, memory, state, hook)[0]

    def start(self, source: Tensor, source_mask: Tensor, hook: AttentionHook | None = None) -> tuple[Source, State]:
        """Read a source [B, S]: what stays fixed for it, and the state before the first token."""
        turns = {"turns": turn_numbers(source, self.turn_tokens)} if self.tells_turns else {}
        encoded = self.encoder(self.source_embedding(source), source_mask, hook=hook, **turns)
        memory, state = self.decoder.start(encoded)
        return Source(source, memory), state

    def step(
        self, tokens: Tensor, memory: Source, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Go on by tokens [B, T], for any T >= 1: logits [B, T, V] and the state after them."""
        decoded, state = self.decode(tokens, memory, state, hook)
        logits: Tensor = self.head(decoded)  # [B, T, V]
        return logits, state

    def decode(
        self, tokens: Tensor, memory: Source, state: State, hook: AttentionHook | None = None
    ) -> tuple[Decoded, State]:
        """Go on by tokens [B, T] as far as the head: so that a loss may score the positions it wants."""
        inputs = self.target_embedding(tokens)  # [B, T, E]
        if not self.head.points:
            outputs, state = self.decoder(inputs, memory.memory, state, hook)
            nothing = outputs[..., :0]
            return Decoded(self.dropout(outputs), inputs, nothing, tokens.unsqueeze(-1)[..., :0]), state
        pointer = self.decoder.pointer
        assert pointer is not None  # seen to when it was built
        seen: list[Tensor] = []

        def watch(module: nn.Module, weights: Tensor) -> None:
            if hook is not None:
                hook(module, weights)
            if module is pointer:
                seen.append(weights)

        outputs, state = self.decoder(inputs, memory.memory, state, Only(pointer, watch) if hook is None else watch)
        weights = torch.cat(seen, 2).mean(1)  # [B, T, S], the mean over heads
        source = memory.tokens.unsqueeze(1).expand(-1, tokens.shape[1], -1)  # [B, T, S]
        return Decoded(self.dropout(outputs), inputs, weights, source), state


def count_parameters(model: Seq2Seq) -> dict[str, int]:
    """Parameters in all, in embeddings and output layer, and in the rest; shared ones count once."""
    tables = {
        id(parameter)
        for part in (model.source_embedding, model.target_embedding, model.head)
        for parameter in part.parameters()
    }
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = sum(parameter.numel() for parameter in model.parameters() if id(parameter) in tables)
    return {"total": total, "embeddings": embeddings, "rest": total - embeddings}
