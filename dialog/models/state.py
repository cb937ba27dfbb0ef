"""Frozen bundles of tensors with the batch in dimension 0, and how their rows are picked: written once for all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """A bundle of tensors, tuples and bundles, in which every tensor has the batch in dimension 0."""

    def select(self, rows: Tensor) -> Self:
        """The given rows [N], in their order: reordering a beam, or dropping what is finished."""
        return self._map(lambda tensor: tensor.index_select(0, rows))

    def repeat(self, times: int) -> Self:
        """Each row ``times`` times in a row: one source for a whole beam."""
        return self._map(lambda tensor: tensor.repeat_interleave(times, 0))

    def _map(self, change: Callable[[Tensor], Tensor]) -> Self:
        return replace(self, **{item.name: _map(change, getattr(self, item.name)) for item in fields(self)})


def _map(change: Callable[[Tensor], Tensor], tree: Any) -> Any:  # noqa: ANN401 - a tree of tensors
    """Change every tensor of a tree."""
    if isinstance(tree, Tensor):
        return change(tree)
    if isinstance(tree, tuple):
        return tuple(_map(change, branch) for branch in tree)
    if isinstance(tree, Rows):
        return tree._map(change)
    raise TypeError(f"a bundle of tensors cannot hold {type(tree).__name__}")
