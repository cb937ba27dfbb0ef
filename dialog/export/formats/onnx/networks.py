"""The two networks that are exported, with flat inputs and outputs.

Shapes: B rows, S source tokens, T target tokens, H heads, V vocabulary, U turns, L tokens of the
    longest turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from dialog.export.formats.onnx.tensors import Structure, named
from dialog.export.formats.onnx.turns import turn_shape
from dialog.models.recurrent import LuongDecoder, PlainDecoder
from dialog.models.seq2seq import Seq2Seq
from dialog.models.transformer import TransformerDecoder

NEXT = "next_"
"""Prefix of a tensor of the new state; its name as an input follows."""
MAP = "attention."
"""Prefix of a cross-attention map; the name of its module follows."""


class EncoderNetwork(nn.Module):
    """From a source to the tensors of memory and first state that the steps need."""

    def __init__(self, model: Seq2Seq, names: Sequence[str]) -> None:
        super().__init__()
        self.model = model
        self.names = tuple(names)

    def forward(
        self, source: Tensor, mask: Tensor, grid: Tensor | None = None
    ) -> tuple[Tensor, ...]:
        """Map source [B, S] and mask [B, S] (True = real) to the tensors of these names.

        A ``grid`` [U, L] tells a hierarchical encoder the sizes U and L; the last output then
        computes them from the source: see `turns.py`.
        """
        shape = None if grid is None else (grid.shape[0], grid.shape[1])
        tensors = Structure(*self.model.start(source, mask, turn_shape=shape)).tensors()
        # an input, or a tensor twice, is no output
        kept = tuple(tensors[name].clone() for name in self.names)
        return (
            kept
            if shape is None
            else (*kept, turn_shape(source, mask, self.model.turn_tokens, shape))
        )


class StepNetwork(nn.Module):
    """Some target tokens: logits, new state and the cross-attention maps."""

    def __init__(self, model: Seq2Seq, structure: Structure) -> None:
        super().__init__()
        self.model = model
        self.structure = structure
        self.names = {
            module: name
            for name, module in model.named_modules()
            if not name.endswith("self_attention")
        }

    def forward(self, tokens: Tensor, past: list[Tensor]) -> tuple[Tensor, ...]:
        """Return the values of `outputs`."""
        return tuple(output.clone() for output in self.outputs(tokens, past).values())

    def outputs(self, tokens: Tensor, past: Sequence[Tensor]) -> dict[str, Tensor]:
        """Map tokens [B, T] and the tensors of memory and state to logits [B, T, V], new state and
        maps [B, H, T, S].

        The result is by name; the maps are those that a hook gets, except self-attention.
        """
        maps: dict[str, Tensor] = {}

        def record(module: nn.Module, weights: Tensor) -> None:
            if module in self.names:
                maps[MAP + self.names[module]] = weights

        tensors = dict(zip(self.structure.tensors(), past, strict=True))
        memory, state = self.structure.filled(tensors, tokens.shape[0])
        logits, state = self.model.step(tokens, memory, state, record)
        return {
            "logits": logits,
            **{NEXT + name: tensor for name, tensor in named(state, "state").items()},
            **maps,
        }


def steps_any_length(model: Seq2Seq) -> bool:
    """Return whether a step of T tokens is one computation; else it is a loop, which an export
    would unroll.
    """
    decoder = model.decoder
    if isinstance(decoder, LuongDecoder):
        return not decoder.input_feeding and not getattr(decoder.attention, "is_stateful", False)
    return isinstance(decoder, PlainDecoder | TransformerDecoder)
