"""Frozen bundles of tensors with the batch in dimension 0; the only code that selects and repeats
their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """Bundle of tensors, tuples and bundles; every tensor has the batch in dimension 0."""

    def select(self, rows: Tensor) -> Self:
        """Return the rows [N] in this order, to reorder a beam or to drop finished rows."""
        return self._map(
            lambda part: part.select(rows) if isinstance(part, Rows) else part.index_select(0, rows)
        )

    def repeat(self, times: int) -> Self:
        """Repeat each row, copies side by side: one source for a whole beam."""
        return self._map(
            lambda part: (
                part.repeat(times) if isinstance(part, Rows) else part.repeat_interleave(times, 0)
            )
        )

    def _map(self, change: Callable[[Any], Any]) -> Self:
        """Change each tensor and each bundle."""
        return replace(
            self, **{item.name: _map(change, getattr(self, item.name)) for item in fields(self)}
        )


@dataclass(frozen=True)
class SharedRows(Rows):
    """Bundle of N sources that stands for N K rows; K consecutive rows share a source, which is
    stored once.
    """

    parts: tuple[Tensor, ...]  # each [N, ..]
    copies: int = 1  # K

    def repeat(self, times: int) -> Self:
        """Let ``times`` as many rows share each source."""
        return replace(self, copies=self.copies * times)

    def select(self, rows: Tensor) -> Self:
        """Return the sources of rows; they stay shared if all rows of each source are selected
        together.
        """
        sources = rows.div(self.copies, rounding_mode="floor")
        copies = self.copies
        if copies > 1:
            groups = sources.view(-1, copies) if len(rows) % copies == 0 else sources.view(-1, 1)
            is_whole = groups.shape[1] == copies and bool((groups == groups[:, :1]).all())
            sources, copies = (groups[:, 0], copies) if is_whole else (sources, 1)
        return replace(
            self, parts=tuple(part.index_select(0, sources) for part in self.parts), copies=copies
        )


def tensors_of(tree: Any) -> Iterator[Tensor]:
    """Yield a tensor itself, or those of a bundle or of a tuple of bundles."""
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, tuple):
        for branch in tree:
            yield from tensors_of(branch)
    elif isinstance(tree, Rows):
        for item in fields(tree):
            yield from tensors_of(getattr(tree, item.name))


def _map(change: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, Tensor | Rows):
        return change(tree)
    if isinstance(tree, tuple):
        return tuple(_map(change, branch) for branch in tree)
    raise TypeError(f"a bundle of tensors cannot hold {type(tree).__name__}")
