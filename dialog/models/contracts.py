"""Contracts of encoders and decoders: any encoder fits any decoder.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, H heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from dialog.models.state import Rows

AttentionHook = Callable[[nn.Module, Tensor], None]
"""Called with an attention module and the weights [B, H, T, S] that it has just used."""


@final
class Only:
    """Hook for one module; all other modules keep their fastest path."""

    def __init__(self, module: nn.Module, hook: AttentionHook) -> None:
        self.module = module
        self.hook = hook

    def __call__(self, module: nn.Module, weights: Tensor) -> None:
        """Pass on the weights of that module; ignore all others."""
        if module is self.module:
            self.hook(module, weights)


def meant_for(hook: AttentionHook | None, module: nn.Module) -> AttentionHook | None:
    """Return the hook, or None if it is an `Only` for another module."""
    return None if isinstance(hook, Only) and hook.module is not module else hook


def declared_needs(part: object, offered: Collection[str]) -> frozenset[str]:
    """Return the extra inputs that a part declares in `needs`; a part without `needs` needs none.

    Raises:
        ValueError: the part needs an input that is not offered.
    """
    needs = frozenset(getattr(part, "needs", ()))
    if unsupported := needs.difference(offered):
        supported = ", ".join(sorted(offered)) or "none"
        raise ValueError(
            f"{type(part).__name__}.needs: unsupported input {', '.join(sorted(unsupported))};"
            f" supported: {supported}"
        )
    return needs


Memory = Any
"""Fixed for a source while its response is decoded: a bundle of rows."""

State = Any
"""Changes from token to token: a bundle of rows."""


@dataclass(frozen=True)
class Encoded(Rows):
    """Encoder output."""

    states: Tensor  # [B, S, M], 0 at padding
    mask: Tensor  # [B, S], True = real
    summary: Tensor  # [B, M], the whole source in one vector
    # last hidden [B, L, M] and cell state [B, L, C] of each layer, after `keep_final`
    final: tuple[Tensor, ...] = ()


@dataclass(frozen=True)
class FinalStates:
    """The last states of an encoder that a decoder starts from: of which cell, and of how many
    layers.
    """

    cell: str
    layers: int


class Encoder(nn.Module, ABC):
    """Encoder. The law: content and amount of padding change nothing at real tokens."""

    size: int
    """Width M of the states."""

    needs: frozenset[str] = frozenset()
    """Extra inputs of `forward`, passed by name: ``turns`` [B, S], the turn of each token, counted
    from 0, and ``turn_shape``, the largest number of turns of a source and of tokens of a turn, or
    None if the host does not know.
    """

    own_dropout: bool = False
    """True if it applies dropout to its inputs itself; else the network drops the embeddings."""

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Encode inputs [B, S, E] with mask [B, S] (True = real, padding on the right) into states
        [B, S, M].
        """

    def prepared(self, *, int8: bool) -> Encoder:
        """Return an encoder with the same results up to rounding that generates faster, or itself.

        Weights are laid out once; ``int8`` allows rounding to int8 or bfloat16.
        """
        return self

    def keep_final(self, needed: FinalStates) -> None:
        """Return `Encoded.final` from now on; the network calls this for a decoder with
        `needs_final`.

        Raises:
            ValueError: the encoder has no final states.
        """
        raise ValueError(
            "decoder.bridge final: the encoder has no final states; use a recurrent encoder, or"
            " another bridge"
        )


class Decoder(nn.Module, ABC):
    """Decoder: one output vector for each target token.

    The law: ``decode(xs + ys, s)`` is ``decode(xs, s)`` and then ``decode(ys, s')``. Teacher
    forcing passes all tokens at once, generation one at a time, through the same code. A state is a
    value: a step may share its tensors and write where no earlier state reads, but every state can
    be stepped again (a beam that branches).
    """

    @property
    @abstractmethod
    def pointer(self) -> nn.Module | None:
        """The module whose weights [B, H, T, S] over the source a head may point with; None without
        attention.
        """

    @property
    def shows_source(self) -> bool:
        """True if a hook gets weights over the source."""
        return self.pointer is not None

    needs_final: FinalStates | None = None
    """The states that it starts from, if it starts from `Encoded.final`."""

    own_dropout: bool = False
    """True if it applies dropout to its inputs and outputs itself; else the network drops
    embeddings and outputs.
    """

    stepwise: bool = False
    """True if teacher forcing runs token by token too, so that single steps cost no more."""

    @property
    def preparable(self) -> bool:
        """True if `prepared` returns a decoder."""
        return False

    def prepared(self, *, int8: bool) -> Decoder:
        """Return a decoder with the same results up to rounding that generates faster.

        Weights are laid out once; products are in the weights' precision, or in int8. Only
        generation uses it, never training. A subclass with another formula returns False for
        `preparable`, or its own form here.
        """
        raise TypeError(f"{type(self).__name__} is not preparable")

    @abstractmethod
    def start(self, encoded: Encoded) -> tuple[Memory, State]:
        """Return the memory of a source and the state before the first token."""

    @abstractmethod
    def forward(
        self, inputs: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Map inputs [B, T, E], T >= 1, to outputs [B, T, E]; return them and the new state."""
