"""Frozen bundles of tensors with the batch in dimension 0; the only code that selects, repeats and
joins their rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import reduce
from typing import Any, Self

import torch
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

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, which have one structure, in their order.

        Other dimensions that differ, such as the number of source tokens, are padded at their end
        with 0, which is False in a mask. The law: joined rows step as they do alone.
        """
        return replace(
            parts[0],
            **{
                item.name: _join([getattr(part, item.name) for part in parts])
                for item in fields(cls)
            },
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
    # [N, ..], added to scores: 0 at real tokens, the lowest number at padding; none without scores
    masks: tuple[Tensor, ...] = ()
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
        parts, masks = (
            tuple(part.index_select(0, sources) for part in group)
            for group in (self.parts, self.masks)
        )
        return replace(self, parts=parts, masks=masks, copies=copies)

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """Return the rows of all parts, each with a source of its own."""

        def columns(name: str) -> Iterator[list[Tensor]]:
            rows = (
                [
                    tensor if part.copies == 1 else tensor.repeat_interleave(part.copies, 0)
                    for tensor in getattr(part, name)
                ]
                for part in parts
            )
            return map(list, zip(*rows, strict=True))

        return cls(
            tuple(map(padded_rows, columns("parts"))),
            tuple(
                padded_rows(column, fill=torch.finfo(column[0].dtype).min)
                for column in columns("masks")
            ),
        )


def padded_rows(tensors: Sequence[Tensor], fill: float = 0) -> Tensor:
    """Concatenate tensors [N, ..] in dimension 0; shorter ones are padded at their ends."""
    if len(tensors) == 1:
        return tensors[0]
    shapes = {tensor.shape[1:] for tensor in tensors}
    if len(shapes) == 1:
        return torch.cat(list(tensors))
    dtype = reduce(torch.promote_types, (tensor.dtype for tensor in tensors))
    sizes = map(max, zip(*shapes, strict=True))
    joined = tensors[0].new_full((sum(map(len, tensors)), *sizes), fill, dtype=dtype)
    rows = joined.split_with_sizes([len(tensor) for tensor in tensors])
    for place, tensor in zip(rows, tensors, strict=True):
        place[tuple(slice(size) for size in tensor.shape)] = tensor
    return joined


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


def _join(trees: Sequence[Any]) -> Any:
    first = trees[0]
    if isinstance(first, Rows):
        return type(first).join(trees)
    if isinstance(first, tuple):
        return tuple(map(_join, zip(*trees, strict=True)))
    return padded_rows(trees)


def _map(change: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, Tensor | Rows):
        return change(tree)
    if isinstance(tree, tuple):
        return tuple(_map(change, branch) for branch in tree)
    raise TypeError(f"a bundle of tensors cannot hold {type(tree).__name__}")
