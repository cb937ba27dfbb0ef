"""Hierarchical encoder: tokens to turns, turns to a dialogue.

Shapes: B rows, S source tokens, U turns, L tokens of the longest turn, E embedding size, M memory
    size, H heads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn

from dialog.config.components import Component, Family, build
from dialog.models.contracts import AttentionHook, Encoded, Encoder, Only
from dialog.models.kernels.linear import Linear
from dialog.models.recurrence import MIXER_ENCODERS
from dialog.models.recurrent import GRU, LSTM, RecurrentEncoder
from dialog.models.transformer import EmbeddingEncoder, TransformerEncoder

SEQUENCE_ENCODERS: Family[Encoder] = Family(
    "encoder",
    {
        "lstm": partial(RecurrentEncoder, LSTM()),
        "gru": partial(RecurrentEncoder, GRU()),
        "transformer": TransformerEncoder,
        **MIXER_ENCODERS,
        "embedding": EmbeddingEncoder,
    },
    runtime=("input_size", "dropout", "activation_checkpointing"),
)
"""The encoders of token sequences; the hierarchical encoder is made of two of them."""


class HierarchicalEncoder(Encoder):
    """One encoder reads each turn, another the turns' summaries; HRED, Sordoni et al. 2015, Serban
    et al. 2016.

    Token j of turn u has the state W [h_j; d_u] from its own state and that of its turn in the
    dialogue, so attention over tokens depends on the dialogue. The summary is W [summary of the
    last turn; summary of the dialogue], the only input of a decoder without attention. Attention
    maps of the turn encoder are over turns; those of the token encoder are over the whole source, 0
    between turns.
    """

    needs = frozenset({"turns", "turn_shape"})

    def __init__(
        self,
        *,
        input_size: int,
        tokens: Component,
        turns: Component,
        dropout: float = 0.0,
        activation_checkpointing: bool = False,
    ) -> None:
        super().__init__()
        shared = {"dropout": dropout, "activation_checkpointing": activation_checkpointing}
        self.tokens = build(SEQUENCE_ENCODERS, tokens, input_size=input_size, **shared)
        self.turns = build(SEQUENCE_ENCODERS, turns, input_size=self.tokens.size, **shared)
        self.own_dropout = self.tokens.own_dropout
        self.size = self.turns.size
        self.join = Linear(self.tokens.size + self.turns.size, self.size)

    def forward(  # type: ignore[override]  # declared in needs
        self,
        inputs: Tensor,
        mask: Tensor,
        turns: Tensor,
        hook: AttentionHook | None = None,
        *,
        turn_shape: tuple[int, int] | None = None,
    ) -> Encoded:
        """Encode inputs [B, S, E], mask [B, S], turns [B, S] counted from 0 into states
        [B, S, M].
        """
        fold = Fold.of(turns, mask, turn_shape)
        within = self.tokens(
            fold.split(inputs).flatten(0, 1), fold.mask.flatten(0, 1), fold.watch(hook)
        )  # [B U, L, M']
        summaries = torch.unflatten(within.summary, 0, fold.mask.shape[:2])  # [B, U, M']
        dialogue = self.turns(summaries, fold.mask.any(2), hook)  # [B, U, M]
        token = fold.join(torch.unflatten(within.states, 0, fold.mask.shape[:2]))  # [B, S, M']
        place = fold.turns.unsqueeze(-1).expand(-1, -1, self.size)  # [B, S, M]
        states = self.join(torch.cat([token, dialogue.states.gather(1, place)], -1))  # [B, S, M]
        last = fold.turns.amax(1)[:, None, None].expand(-1, -1, summaries.shape[-1])  # [B, 1, M']
        # [B, M]
        summary = self.join(torch.cat([summaries.gather(1, last).squeeze(1), dialogue.summary], -1))
        return Encoded(states.masked_fill(~mask.unsqueeze(-1), 0.0), mask, summary)


@dataclass(frozen=True)
class Fold:
    """Position of each source token among and within the turns."""

    turns: Tensor  # [B, S], 0 at padding
    places: Tensor  # [B, S] within its turn, 0 at padding
    real: Tensor  # [B, S]
    mask: Tensor  # [B, U, L]

    @staticmethod
    def of(turns: Tensor, mask: Tensor, shape: tuple[int, int] | None = None) -> Fold:
        """Compute the positions from the turn of each token; turns begin with 0 and skip no number.

        The shape (U, L), if it is not given, is read from the device, which waits for it.
        """
        turns = turns.masked_fill(~mask, 0)
        steps = torch.arange(turns.shape[1], device=turns.device).expand_as(turns)  # [B, S]
        # [B, S]
        begins = (
            torch.cat([turns[:, :1] * 0, (turns.diff(dim=1) > 0) * steps[:, 1:]], 1)
            .cummax(1)
            .values
        )
        places = (steps - begins).masked_fill(~mask, 0)
        turn_count, length = shape or (torch.stack([turns.max(), places.max()]) + 1).tolist()
        real = mask.new_zeros(len(turns), turn_count * length + 1)
        slots = torch.where(mask, turns * length + places, turn_count * length)
        # [B, U, L]
        real = torch.unflatten(real.scatter(1, slots, True)[:, :-1], 1, (turn_count, length))
        return Fold(turns, places, mask, real)

    def split(self, states: Tensor) -> Tensor:
        """Arrange states [B, S, E] by turn: [B, U, L, E], 0 elsewhere."""
        rows, turns, length = self.mask.shape
        slots = torch.where(self.real, self.turns * length + self.places, turns * length)  # [B, S]
        empty = states.new_zeros(rows, turns * length + 1, states.shape[-1])
        filled = empty.scatter(1, slots.unsqueeze(-1).expand_as(states), states)
        return torch.unflatten(filled[:, :-1], 1, (turns, length))  # [B, U, L, E]

    def join(self, states: Tensor) -> Tensor:
        """Arrange states [B, U, L, E] by token again: [B, S, E]."""
        slots = self.turns * self.mask.shape[2] + self.places  # [B, S]
        flat = states.flatten(1, 2)  # [B, U L, E]
        return flat.gather(1, slots.unsqueeze(-1).expand(-1, -1, states.shape[-1]))

    def watch(self, hook: AttentionHook | None) -> AttentionHook | None:
        """Return a hook for weights within turns [B U, H, L, L] that passes them on over the source
        [B, H, S, S].
        """
        if hook is None:
            return None

        def show(module: nn.Module, weights: Tensor) -> None:
            inside = torch.unflatten(weights, 0, self.mask.shape[:2])  # [B, U, H, L, L]
            rows = torch.arange(len(self.turns), device=self.turns.device).unsqueeze(1)
            queries = inside.transpose(2, 3)[rows, self.turns, self.places]  # [B, S, H, L]
            columns = self.places[:, None, None].expand(-1, *queries.shape[1:3], -1)  # [B, S, H, S]
            both = self.real.unsqueeze(2) & self.real.unsqueeze(1)
            together = (self.turns.unsqueeze(2) == self.turns.unsqueeze(1)) & both  # [B, S, S]
            # [B, H, S, S]
            hook(module, (queries.gather(-1, columns) * together.unsqueeze(2)).transpose(1, 2))

        return Only(hook.module, show) if isinstance(hook, Only) else show


def turn_numbers(source: Tensor, turn_tokens: tuple[int, ...]) -> Tensor:
    """Return the turn of each token [B, S], counted from 0; a turn begins with one of the turn
    tokens.
    """
    begins = torch.zeros_like(source, dtype=torch.bool)
    for token in turn_tokens:
        begins |= source == token
    numbers = begins.cumsum(1)  # [B, S]
    return numbers - numbers[:, :1]
