"""The two networks that are exported, with flat inputs and outputs: the tensors of memory and state
by name.

torch.export traces the sizes of inputs as free numbers, but not sizes that are computed from data,
such as the number of turns of a hierarchical encoder. So it is traced with an input ``grid``
[U, L], and a further output computes [U, L] from the source; `writing.py` then replaces the input
by a tensor of that shape.

Shapes: B rows, S source tokens, T target tokens, H heads, V vocabulary, U turns, L tokens of the
    longest turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from dialog.analysis.attention.maps import is_self_attention
from dialog.models.contracts import Memory, State
from dialog.models.hierarchical import Fold, turn_numbers
from dialog.models.recurrence.decoder import MixerDecoder, MixerStates
from dialog.models.recurrence.layers import MixerDecoderLayer
from dialog.models.recurrence.mixers.mixer import START
from dialog.models.recurrent import LuongDecoder, PlainDecoder
from dialog.models.seq2seq import Seq2Seq, SourceMemory
from dialog.models.state import Rows
from dialog.models.transformer import DecoderOnlyTransformer, TransformerDecoder
from dialog.models.transformer.cache import Claim, Extension, SelfAttentionState

NEXT = "next_"
"""Prefix of a tensor of the new state; its name as an input follows."""
MAP = "attention."
"""Prefix of a cross-attention map; the name of its module follows."""
PAIR = ("keys", "values")
"""Names of the two tensors of a layer, which are a tuple in a tuple."""
Path = tuple[str | int, ...]


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
        computes them from the source.
        """
        shape = None if grid is None else (grid.shape[0], grid.shape[1])
        tensors = started(self.model, source, mask, shape).tensors()
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
            if not is_self_attention(module, name)
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


def turn_shape(
    source: Tensor, mask: Tensor, turn_tokens: tuple[int, ...], shape: tuple[int, int]
) -> Tensor:
    """Return [U, L] for sources [B, S] with mask [B, S]; ``shape`` is the same, as numbers that are
    traced.
    """
    fold = Fold.of(turn_numbers(source, turn_tokens), mask, shape)
    return torch.stack([fold.turns.max(), fold.places.max()]) + 1


def steps_any_length(model: Seq2Seq) -> bool:
    """Return whether a step of T tokens is one computation; else it is a loop, which an export
    would unroll.
    """
    decoder = model.decoder
    if isinstance(decoder, LuongDecoder):
        return not decoder.input_feeding and not getattr(decoder.attention, "is_stateful", False)
    return isinstance(decoder, PlainDecoder | TransformerDecoder | DecoderOnlyTransformer)


class ExactState(SelfAttentionState):
    """State whose buffers are full: a step concatenates, and copies no room for later tokens."""

    def extended(self, tokens: int) -> Extension:
        """Return the places of the next T tokens, which end the new buffers."""
        end = self.length + tokens
        return Extension(self.length, end, end, None, self.real_after(tokens))


class Structure(NamedTuple):
    """Memory and state of a network, whose tensors can be replaced."""

    memory: SourceMemory
    state: State

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors by their names; tensors without content [.., 0] are left out."""
        return {
            "memory.tokens": self.memory.tokens,
            **named(self.memory.decoder, "memory"),
            **named(self.state, "state"),
        }

    def filled(self, tensors: Mapping[str, Tensor], rows: int) -> tuple[Memory, State]:
        """Return memory and state of B rows that have these tensors."""
        fill = Filling(tensors, rows)
        memory = SourceMemory(tensors["memory.tokens"], fill(self.memory.decoder, ("memory",)))
        return memory, fill(self.state, ("state",))


def started(
    model: Seq2Seq, source: Tensor, mask: Tensor, turn_shape: tuple[int, int] | None = None
) -> Structure:
    """Encode sources [B, S] with mask [B, S]; states before all tokens have their tensors too.

    A mixer that has read nothing has a state without tensors. Its tensors are those after padding
    alone, which by its contract changes no state.
    """
    memory, state = model.start(source, mask, turn_shape=turn_shape)
    if isinstance(state, MixerStates) and START in state.layers:
        padding = torch.zeros_like(mask[:, :1])
        inputs = model.target_embedding(source[:, :1])  # [B, 1, E]
        layers = cast("MixerDecoder", model.decoder).layers
        mixers = (cast("MixerDecoderLayer", layer).mixer for layer in layers)
        state = MixerStates(tuple(mixer(inputs, START, padding)[1] for mixer in mixers))
    return Structure(memory, state)


def named(tree: Any, name: str) -> dict[str, Tensor]:
    """Return the tensors of a bundle, by names that begin with ``name``."""
    return {_name(path): tensor for path, tensor in _leaves(tree, (name,)) if tensor.shape[-1]}


def _name(path: Path) -> str:
    pairs = zip(("", *path), path, strict=False)
    words = (
        PAIR[part] if isinstance(part, int) and isinstance(before, int) else str(part)
        for before, part in pairs
    )
    return ".".join(words)


def _branches(tree: Any) -> dict[str | int, Any]:
    """Return the tensors, tuples and bundles directly inside a tuple or a bundle."""
    values = (
        dict(enumerate(tree))
        if isinstance(tree, tuple)
        else {i.name: getattr(tree, i.name) for i in fields(tree)}
    )
    return {
        label: branch
        for label, branch in values.items()
        if isinstance(branch, Tensor | tuple | Rows)
    }


def _leaves(tree: Any, path: Path) -> Iterator[tuple[Path, Tensor]]:
    if isinstance(tree, Tensor):
        yield path, tree
    else:
        for label, branch in _branches(tree).items():
            yield from _leaves(branch, (*path, label))


class Filling(NamedTuple):
    """Replaces the tensors of a tree by those of the same name."""

    tensors: Mapping[str, Tensor]
    rows: int

    def __call__(self, tree: Any, path: Path) -> Any:
        """Return a tree of the same structure; tensors without content are new."""
        if isinstance(tree, Tensor):
            return (
                self.tensors[_name(path)]
                if tree.shape[-1]
                else tree.new_zeros(self.rows, *tree.shape[1:])
            )
        branches = {
            label: self(branch, (*path, label)) for label, branch in _branches(tree).items()
        }
        if isinstance(tree, tuple):
            return tuple(branches.values())
        if isinstance(tree, SelfAttentionState):
            length = branches["layers"][0][0].shape[2]
            return ExactState(branches["layers"], length, Claim(length), branches.get("real"))
        return replace(tree, **{str(label): branch for label, branch in branches.items()})
