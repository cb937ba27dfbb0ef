"""Names of the tensors of a network's memory and state, which are inputs and outputs of the
exported files.

Shapes: B rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, NamedTuple

from torch import Tensor

from dialog.models.contracts import Memory, State
from dialog.models.seq2seq import SourceMemory
from dialog.models.state import Rows
from dialog.models.transformer.cache import Claim, Extension, SelfAttentionState

PAIR = ("keys", "values")
"""Names of the two tensors of a layer, which are a tuple in a tuple."""
Path = tuple[str | int, ...]


class ExactState(SelfAttentionState):
    """State whose buffers are full: a step concatenates, and copies no room for later tokens."""

    def extended(self, tokens: int) -> Extension:
        """Return the places of the next T tokens, which end the new buffers."""
        return Extension(self.length, self.length + tokens, self.length + tokens, None)


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
            return ExactState(branches["layers"], length, Claim(length))
        return replace(tree, **{str(label): branch for label, branch in branches.items()})
