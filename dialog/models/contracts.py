"""What an encoder and a decoder promise, so that any one of them fits any other.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, H heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, final

from torch import Tensor, nn

from dialog.models.state import Rows

AttentionHook = Callable[[nn.Module, Tensor], None]
"""Called with an attention module and the weights [B, H, T, S] that it has just used."""


@final
class Only:
    """A hook for one module: all others take their fastest path."""

    def __init__(self, module: nn.Module, hook: AttentionHook) -> None:
        self.module = module
        self.hook = hook

    def __call__(self, module: nn.Module, weights: Tensor) -> None:
        """Pass on what the one module shows."""
        if module is self.module:
            self.hook(module, weights)


def meant_for(hook: AttentionHook | None, module: nn.Module) -> AttentionHook | None:
    """The hook, unless it is for another module only."""
    return None if isinstance(hook, Only) and hook.module is not module else hook


Memory = Any
"""What stays fixed for a source while its response is decoded: a bundle of rows."""

State = Any
"""What changes from token to token: a bundle of rows."""


@dataclass(frozen=True)
class Encoded(Rows):
    """A source that has been read."""

    states: Tensor  # [B, S, M], 0 at padding
    mask: Tensor  # [B, S], True = real
    summary: Tensor  # [B, M], the whole source in one vector


class Encoder(nn.Module, ABC):
    """Reads a source. The law: what stands at padding, and how much of it, changes nothing at real tokens."""

    size: int
    """Width M of the states."""

    @abstractmethod
    def forward(self, inputs: Tensor, mask: Tensor, hook: AttentionHook | None = None) -> Encoded:
        """Inputs [B, S, E] and mask [B, S] (True = real, padding on the right) -> states [B, S, M].

        It may also name ``turns`` [B, S], the number of each token's turn counted from 0, and is given it.
        """


class Decoder(nn.Module, ABC):
    """Turns a source and the tokens said so far into one vector for each token.

    The law: ``decode(xs + ys, s)`` is ``decode(xs, s)`` and then ``decode(ys, s')``. Teacher forcing gives all tokens
    at once, generation one at a time; there is no second code path to disagree with.
    """

    @property
    @abstractmethod
    def pointer(self) -> nn.Module | None:
        """The module whose weights [B, H, T, S] over the source a head may point with; none without attention."""

    stepwise: bool = False
    """Whether it works token by token under teacher forcing too, so that a step costs no more alone."""

    @abstractmethod
    def start(self, encoded: Encoded) -> tuple[Memory, State]:
        """What stays fixed for a source, and the state before its first token."""

    @abstractmethod
    def forward(
        self, inputs: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Inputs [B, T, E], for any T >= 1 -> outputs [B, T, E] and the state after them."""
