"""One Transformer that reads context and response as one sequence.

Shapes: B rows, S source tokens, T target tokens, T' target tokens so far, E embedding size (= D
width), M memory size, H heads, G heads of keys and values.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from dialog.models.contracts import AttentionHook, Decoder, Encoded, Encoder, meant_for
from dialog.models.kernels.linear import Linear
from dialog.models.positions import Turn
from dialog.models.state import Rows
from dialog.models.transformer.cache import Extension, KeysValues, SelfAttentionState
from dialog.models.transformer.layers import checkpointed
from dialog.models.transformer.transformer_settings import TransformerSettings

PREFIX = "prefix"
CAUSAL = "causal"
CONTEXTS = (PREFIX, CAUSAL)


class EmbeddingEncoder(Encoder):
    """The embeddings themselves, for a decoder that reads the source in its own layers; the summary
    is their mean.
    """

    def __init__(self, *, input_size: int) -> None:
        super().__init__()
        self.size = input_size

    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Return inputs [B, S, E], mask [B, S] as states [B, S, M]."""
        real = mask.unsqueeze(-1)
        states = inputs.masked_fill(~real, 0.0)
        return Encoded(states, mask, states.sum(1) / real.sum(1).clamp(min=1))


@dataclass(frozen=True)
class SourceLength(Rows):
    """The source's places, whose number divides a row of weights into source and target."""

    mask: Tensor  # [B, S]


class PrefixLayer(nn.Module):
    """Self-attention over source and target, then the feed-forward network.

    A hook gets the weights in two parts, as if the layer had two attentions: those over the source
    [B, H, T, S] from ``source_attention``, which computes nothing, and those over the target from
    ``self_attention``. Each part is divided by its sum.
    """

    def __init__(self, settings: TransformerSettings) -> None:
        super().__init__()
        self.self_attention = settings.attention()
        self.source_attention = nn.Identity()
        self.feed_forward = settings.feed_forward()
        self.self_residual, self.feed_residual = (settings.residual() for _ in range(2))

    def forward(
        self,
        states: Tensor,
        past: KeysValues,
        extension: Extension,
        *,
        causal: bool,
        turn: Turn,
        source: int = 0,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, KeysValues]:
        """Map states [B, T, D] to [B, T, D]; also return the buffers of all keys (turned) and
        values.

        ``source`` is the number of the first places that are the source's.
        """
        watch = None if hook is None else self._in_parts(hook, source)
        x = self.self_residual.normed(states)
        keys, values = self.self_attention.keys_values(x)  # [B, G, T, D / H]
        written = extension.write(past[0], turn(keys)), extension.write(past[1], values)
        so_far = map(extension.filled, written)  # [B, G, S + T', D / H]
        attended = self.self_attention(
            x, *so_far, extension.mask, causal=causal, hook=watch, turn=turn
        )
        states = self.self_residual.added(states, attended)
        states = self.feed_residual(states, self.feed_forward)
        return states, written  # [B, T, D]

    def _in_parts(self, hook: AttentionHook, source: int) -> AttentionHook:
        """Return a hook that passes on the weights over the source and over the target."""

        def watch(_: nn.Module, weights: Tensor) -> None:
            parts = {
                self.source_attention: weights[..., :source],
                self.self_attention: weights[..., source:],
            }
            for module, part in parts.items():
                if (wanted := meant_for(hook, module)) is not None:
                    smallest = torch.finfo(part.dtype).tiny
                    wanted(module, part / part.sum(-1, keepdim=True).clamp(min=smallest))

        return watch


class DecoderOnlyTransformer(Decoder):
    """Layers of self-attention over source and target, with one set of weights for both: a language
    model with a prefix; Raffel et al. 2020, 3.2.1.

    ``context``: ``prefix`` (source tokens attend to the whole source) or ``causal`` (to those
    before them). The target's positions continue after each row's last source token. `start` runs
    the layers over the source, and the state keeps its keys and values. No module attends to the
    source alone, so there is no pointer; maps of the source are parts of those of the whole
    sequence, see `PrefixLayer`. The loss is that of the response.

    Raises:
        ValueError: an unknown ``context``.
    """

    Settings = TransformerSettings
    own_dropout = True
    pointer = None
    shows_source = True

    def __init__(
        self, settings: TransformerSettings, *, memory_size: int, context: str = PREFIX
    ) -> None:
        super().__init__()
        if context not in CONTEXTS:
            raise ValueError(f"context must be {' or '.join(CONTEXTS)}, not {context!r}")
        size = settings.input_size
        self.positions = settings.position_encoding()
        self.dropout = nn.Dropout(settings.dropout)
        self.bridge = nn.Identity() if memory_size == size else Linear(memory_size, size)
        self.layers = nn.ModuleList(PrefixLayer(settings) for _ in range(settings.layers))
        self.layer_drop = settings.drop_layers()
        self.activation_checkpointing = settings.activation_checkpointing
        self.norm = settings.last_norm()
        self.causal = context == CAUSAL

    def start(self, encoded: Encoded) -> tuple[SourceLength, SelfAttentionState]:
        """Run the layers over the source; return its keys and values as state, with its mask."""
        states = self.bridge(encoded.states)
        attention = cast("PrefixLayer", self.layers[0]).self_attention
        keys, _ = attention.keys_values(states[:, :0])  # [B, G, 0, D / H]
        empty = SelfAttentionState.empty(len(self.layers), like=keys)
        extension = replace(empty.extended(states.shape[1]), real=encoded.mask)
        _, state = self._run(states, empty, extension, causal=self.causal)
        return SourceLength(encoded.mask), state

    def forward(
        self,
        inputs: Tensor,
        memory: SourceLength,
        state: SelfAttentionState,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Map inputs [B, T, E] to outputs [B, T, E]; a hook needs rows that were not joined."""
        extension = state.extended(inputs.shape[1])
        self.positions.check_length(extension.end)
        source = memory.mask.shape[1]
        states, state = self._run(inputs, state, extension, causal=True, source=source, hook=hook)
        return self.norm(states), state

    def _run(
        self,
        inputs: Tensor,
        state: SelfAttentionState,
        extension: Extension,
        *,
        causal: bool,
        source: int = 0,
        hook: AttentionHook | None = None,
    ) -> tuple[Tensor, SelfAttentionState]:
        """Run all layers over inputs [B, T, D], whose places behind the state's are in the
        extension.
        """
        position = state.position
        states = self.dropout(self.positions(inputs, position))
        turn = self.positions.turn_at(inputs, position)
        buffers = []
        for layer, past in zip(self.layers, state.layers, strict=True):
            run = checkpointed(layer, hook=hook) if self.activation_checkpointing else layer
            after, written = run(
                states, past, extension, causal=causal, turn=turn, source=source, hook=hook
            )
            states = self.layer_drop(states, after)
            buffers.append(written)
        return states, extension.state(tuple(buffers))
