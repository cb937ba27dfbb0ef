"""The whole network: an encoder reads a source, a decoder generates a response.

Shapes: B rows, S source tokens, T target tokens, E embedding size, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, accepts, build, lookup, plain
from dialog.models.contracts import (
    AttentionHook,
    Decoder,
    Encoder,
    Memory,
    Only,
    State,
    declared_needs,
)
from dialog.models.heads import HEADS, Decoded
from dialog.models.hierarchical import SEQUENCE_ENCODERS, HierarchicalEncoder, turn_numbers
from dialog.models.recurrence import MIXER_DECODERS
from dialog.models.recurrent import GRU, LSTM, BahdanauDecoder, LuongDecoder, PlainDecoder
from dialog.models.state import Rows
from dialog.models.transformer import DecoderOnlyTransformer, TransformerDecoder

ENCODERS: Family[Encoder] = Family(
    "encoder",
    {**SEQUENCE_ENCODERS, "hierarchical": HierarchicalEncoder},
    runtime=("input_size", "dropout", "activation_checkpointing"),
)
DECODERS: Family[Decoder] = Family(
    "decoder",
    {
        "lstm": partial(BahdanauDecoder, LSTM()),
        "gru": partial(BahdanauDecoder, GRU()),
        "lstm_luong": partial(LuongDecoder, LSTM()),
        "gru_luong": partial(LuongDecoder, GRU()),
        "lstm_plain": partial(PlainDecoder, LSTM()),
        "gru_plain": partial(PlainDecoder, GRU()),
        "transformer": TransformerDecoder,
        **MIXER_DECODERS,
        "decoder_only": DecoderOnlyTransformer,
    },
    runtime=("input_size", "memory_size", "dropout", "activation_checkpointing"),
)
TIES = {
    "all": (True, True),
    "output": (False, True),
    "source": (True, False),
    "none": (False, False),
}
"""By the value of `tie_embeddings`: target and source share embeddings, output layer and target
share weights.
"""
TIE_ALIASES: dict[bool | str, str] = {True: "all", False: "none"}
VOCABULARY: Component = {"name": "vocabulary"}


@dataclass(frozen=True)
class SourceMemory(Rows):
    """Fixed for a source while its response is decoded."""

    tokens: Tensor  # [B, S]
    decoder: Any  # the decoder's memory


class TokenEmbedding(nn.Module):
    """Embedding: sqrt(E) times a row of N(0, 1 / E), Vaswani et al. 2017, 3.4; or, not ``scaled``,
    a row of N(0, 1).

    Vectors enter the network with unit variance. The scaled table as output layer gives scores of
    unit variance (Press & Wolf 2017); Adam changes its vectors sqrt(E) times as fast. The padding
    token's row starts as zeros and gets no gradient from here; as output weights, it gets that of
    the output layer.
    """

    def __init__(self, vocabulary: int, size: int, *, padding: int, scaled: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(vocabulary, size, padding_idx=padding)
        self.scale = size**0.5 if scaled else 1.0
        nn.init.normal_(self.table.weight, std=1 / self.scale)
        with torch.no_grad():
            self.table.weight[padding] = 0.0

    def forward(self, tokens: Tensor) -> Tensor:
        """Map tokens [B, T] to vectors [B, T, E]."""
        vectors: Tensor = self.table(tokens)  # [B, T, E]
        return vectors if self.scale == 1.0 else vectors * self.scale


class Seq2Seq(nn.Module):
    """p(target | source) = prod_t p(y_t | y_<t, source), with any encoder and any decoder.

    `arguments` are those of the constructor, in plain containers.

    ``tie_embeddings``: source, target and output layer share one table (``all`` or true), target
    and output layer do (``output``), source and target do (``source``), or none do (``none`` or
    false); Press & Wolf 2017.
    ``scale_embeddings``: see `TokenEmbedding`. Each turn of a
    source begins with one of the ``turn_tokens``. ``activation_checkpointing`` trains Transformers
    in less memory, but slower.
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
        scale_embeddings: bool = True,
        turn_tokens: Sequence[int] = (),
        dropout: float = 0.0,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        if activation_checkpointing and not any(
            accepts(table, part, "activation_checkpointing")
            for table, part in ((ENCODERS, encoder), (DECODERS, decoder))
        ):
            raise ValueError(
                "activation_checkpointing: neither encoder nor decoder is a Transformer; remove it"
            )
        shared = {"dropout": dropout, "activation_checkpointing": activation_checkpointing}
        one_table, tied = lookup(
            TIES, TIE_ALIASES.get(tie_embeddings, str(tie_embeddings)), "tie_embeddings"
        )
        table = partial(
            TokenEmbedding, vocabulary, embedding_size, padding=padding, scaled=scale_embeddings
        )
        self.source_embedding = table()
        self.target_embedding = self.source_embedding if one_table else table()
        self.encoder = build(ENCODERS, encoder, input_size=embedding_size, **shared)
        self.decoder = build(
            DECODERS, decoder, input_size=embedding_size, memory_size=self.encoder.size, **shared
        )
        if self.decoder.needs_final:
            self.encoder.keep_final(self.decoder.needs_final)
        self.dropout = nn.Dropout(dropout)
        tied_to = self.target_embedding.table.weight if tied else None
        self.head = build(HEADS, head, vocabulary=vocabulary, size=embedding_size, tied=tied_to)
        if self.head.points and self.decoder.pointer is None:
            raise ValueError(
                f"head {head['name']!r} points with the decoder's attention to the source, but the"
                " decoder has none; set model.decoder.attention or cross_attention, or use another"
                " head or decoder"
            )
        self.turn_tokens = tuple(turn_tokens)
        self.arguments: dict[str, Any] = plain(
            {
                "vocabulary": vocabulary,
                "padding": padding,
                "embedding_size": embedding_size,
                "encoder": encoder,
                "decoder": decoder,
                "head": head,
                "tie_embeddings": tie_embeddings,
                "scale_embeddings": scale_embeddings,
                "turn_tokens": turn_tokens,
                **shared,
            },
            "model",
        )
        self.encoder_needs = declared_needs(self.encoder, ("turns", "turn_shape"))

    def forward(
        self, source: Tensor, source_mask: Tensor, target: Tensor, hook: AttentionHook | None = None
    ) -> Tensor:
        """Teacher forcing: source [B, S], source_mask [B, S] (True = real), target [B, T] -> logits
        [B, T, V].

        Logits t predict target t + 1, so a target begins with the begin token.
        """
        memory, state = self.start(source, source_mask, hook)
        return self.step(target, memory, state, hook)[0]

    @property
    def members(self) -> tuple[Seq2Seq, ...]:
        """The networks that generate: this one, or those of an ensemble."""
        return (self,)

    @property
    def needs_turns(self) -> bool:
        """True if the encoder reads turn by turn."""
        return "turns" in self.encoder_needs

    def start(
        self,
        source: Tensor,
        source_mask: Tensor,
        hook: AttentionHook | None = None,
        *,
        turn_shape: tuple[int, int] | None = None,
    ) -> tuple[Memory, State]:
        """Encode a source [B, S]; return its memory and the state before the first token.

        A ``turn_shape`` that the host knows (see `Encoder.needs`) saves a hierarchical encoder a
        wait for the device.
        """
        offered: dict[str, Any] = {"turn_shape": turn_shape}
        if self.needs_turns:
            offered["turns"] = turn_numbers(source, self.turn_tokens)
        extra = {name: offered[name] for name in self.encoder_needs}
        encoded = self.encoder(
            self._dropped(self.source_embedding(source), self.encoder),
            source_mask,
            hook=hook,
            **extra,
        )
        memory, state = self.decoder.start(encoded)
        return SourceMemory(source, memory), state

    def step(
        self, tokens: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Advance by T >= 1 tokens [B, T]; return logits [B, T, V] and the new state."""
        decoded, state = self.decode(tokens, memory, state, hook)
        logits: Tensor = self.head(decoded)  # [B, T, V]
        return logits, state

    def decode(
        self, tokens: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Decoded, State]:
        """Advance by tokens [B, T] without the head, so that a loss can score selected
        positions.
        """
        inputs = self._dropped(self.target_embedding(tokens), self.decoder)  # [B, T, E]
        if not self.head.points:
            outputs, state = self.decoder(inputs, memory.decoder, state, hook)
            empty = outputs[..., :0]
            return (
                Decoded(
                    self._dropped(outputs, self.decoder),
                    inputs,
                    empty,
                    tokens.unsqueeze(-1)[..., :0],
                ),
                state,
            )
        pointer = self.decoder.pointer
        assert pointer is not None  # checked in __init__
        seen: list[Tensor] = []

        def watch(module: nn.Module, weights: Tensor) -> None:
            if hook is not None:
                hook(module, weights)
            if module is pointer:
                seen.append(weights)

        outputs, state = self.decoder(
            inputs, memory.decoder, state, Only(pointer, watch) if hook is None else watch
        )
        weights = torch.cat(seen, 2).mean(1)  # [B, T, S], the mean over heads
        source = memory.tokens.unsqueeze(1).expand(-1, tokens.shape[1], -1)  # [B, T, S]
        return Decoded(self._dropped(outputs, self.decoder), inputs, weights, source), state

    def _dropped(self, states: Tensor, part: Encoder | Decoder) -> Tensor:
        """Apply dropout to inputs or outputs of a part that does not do so itself."""
        dropped: Tensor = states if part.own_dropout else self.dropout(states)
        return dropped


def count_parameters(model: Seq2Seq) -> dict[str, int]:
    """Count all parameters, those of embeddings and head, and the rest; shared parameters count
    once.
    """
    tables = {
        id(parameter)
        for part in (model.source_embedding, model.target_embedding, model.head)
        for parameter in part.parameters()
    }
    total = sum(parameter.numel() for parameter in model.parameters())
    embeddings = sum(
        parameter.numel() for parameter in model.parameters() if id(parameter) in tables
    )
    return {"total": total, "embeddings": embeddings, "rest": total - embeddings}
