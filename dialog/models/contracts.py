"""What an encoder and a decoder promise, so that any one of them fits any other.

Shapes: B rows, S source tokens, T target tokens, E embedding size, M memory size, H heads.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from dialog.models.state import Rows

AttentionHook = Callable[[nn.Module, Tensor], None]
"""Called with an attention module and the weights [B, H, T, S] that it has just used."""


@dataclass(frozen=True)
class Only:
    """A hook for one module, so that all others keep their fused kernels; a module asks :func:`meant_for`."""

    module: nn.Module
    hook: AttentionHook

    def __call__(self, module: nn.Module, weights: Tensor) -> None:
        """Weights [B, H, T, S] of any module: those of another one are not shown."""
        if module is self.module:
            self.hook(module, weights)


def meant_for(hook: AttentionHook | None, module: nn.Module) -> AttentionHook | None:
    """The hook that a module has to show its weights to, if there is one."""
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
        """Inputs [B, S, E] and mask [B, S] (True = real, padding on the right) -> states [B, S, M]."""


class Decoder(nn.Module, ABC):
    """Turns a source and the tokens said so far into one vector for each token.

    The law: ``decode(xs + ys, s)`` is ``decode(xs, s)`` and then ``decode(ys, s')``. Teacher forcing gives all tokens
    at once, generation one at a time; there is no second code path to disagree with.
    """

    @abstractmethod
    def start(self, encoded: Encoded) -> tuple[Memory, State]:
        """What stays fixed for a source, and the state before its first token."""

    @abstractmethod
    def forward(
        self, inputs: Tensor, memory: Memory, state: State, hook: AttentionHook | None = None
    ) -> tuple[Tensor, State]:
        """Inputs [B, T, E], for any T >= 1 -> outputs [B, T, E] and the state after them."""
