"""Selecting and repeating the rows of a bundle."""

from dataclasses import FrozenInstanceError, dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.models.state import Rows


@dataclass(frozen=True)
class Leaf(Rows):
    value: Tensor


@dataclass(frozen=True)
class Tree(Rows):
    flat: Tensor
    layers: tuple[tuple[Tensor, Tensor], ...]
    inner: Leaf
    empty: tuple[()] = ()


def tree() -> Tree:
    numbers = torch.arange(3)
    deep = numbers.view(3, 1, 1) * torch.ones(3, 2, 4)
    return Tree(numbers, ((deep, deep + 10), (deep[:, :0], deep + 30)), Leaf(numbers + 100))


def tensors(bundle: Tree) -> list[Tensor]:
    return [
        bundle.flat,
        *(tensor for layer in bundle.layers for tensor in layer),
        bundle.inner.value,
    ]


@pytest.mark.parametrize("rows", [[0, 1, 2], [2, 0], [1, 1, 1, 0], []])
def test_select_picks_rows_of_every_tensor_in_order(rows: list[int]) -> None:
    before, picked = tree(), tree().select(torch.tensor(rows, dtype=torch.long))
    assert isinstance(picked, Tree)
    assert picked.empty == ()
    for one, other in zip(tensors(picked), tensors(before), strict=True):
        assert torch.equal(one, other[rows])


def test_repeat_keeps_the_copies_of_a_row_together() -> None:
    repeated = tree().repeat(2)
    assert repeated.flat.tolist() == [0, 0, 1, 1, 2, 2]
    assert repeated.inner.value.tolist() == [100, 100, 101, 101, 102, 102]
    assert repeated.layers[0][1][:, 1, 2].tolist() == [10, 10, 11, 11, 12, 12]
    assert repeated.layers[1][0].shape == (6, 0, 4)


def test_repeat_selects_each_row_several_times() -> None:
    for one, other in zip(
        tensors(tree().repeat(3)),
        tensors(tree().select(torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2]))),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_bundles_are_immutable() -> None:
    bundle = tree()
    bundle.select(torch.tensor([2]))
    bundle.repeat(2)
    for one, other in zip(tensors(bundle), tensors(tree()), strict=True):
        assert torch.equal(one, other)
    with pytest.raises(FrozenInstanceError):
        bundle.flat = torch.zeros(1)


@pytest.mark.parametrize(
    "value", [3, None, "rows", [torch.zeros(2)], {"a": torch.zeros(2)}, (torch.zeros(2), 1)]
)
def test_other_values_are_errors(value: Any) -> None:
    with pytest.raises(TypeError, match="a bundle of tensors cannot hold"):
        Leaf(value).select(torch.tensor([0]))
    with pytest.raises(TypeError, match="a bundle of tensors cannot hold"):
        Leaf(value).repeat(2)
