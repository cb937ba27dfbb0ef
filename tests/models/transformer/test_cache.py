"""Buffers of the decoder's self-attention: who may write where."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from dialog.models.transformer.cache import SelfAttentionState


@pytest.fixture
def empty() -> Iterator[SelfAttentionState]:
    with torch.no_grad():
        yield SelfAttentionState.empty(2, like=torch.zeros(3, 2, 5, 4))


def token(number: float) -> Tensor:
    return torch.full((3, 2, 1, 4), float(number))


def step(state: SelfAttentionState, number: float) -> SelfAttentionState:
    """The state after one token whose keys and values are this number."""
    extension = state.extended(1)
    written = [
        (extension.write(keys, token(number)), extension.write(values, token(number)))
        for keys, values in state.layers
    ]
    return extension.state(tuple(written))


def numbers(state: SelfAttentionState) -> list[float]:
    rows = {
        tuple(each[row, head, : state.length, 0].tolist())
        for each in buffers(state)
        for row in (0, 2)
        for head in (0, 1)
    }
    return list(*rows)


def buffers(state: SelfAttentionState) -> list[Tensor]:
    return [buffer for layer in state.layers for buffer in layer]


def addresses(state: SelfAttentionState) -> list[int]:
    return [buffer.data_ptr() for buffer in buffers(state)]


def test_steps_write_in_place_and_copy_rarely(empty: SelfAttentionState) -> None:
    state, places = empty, []
    for number in range(100):
        state = step(state, number)
        places.append(addresses(state)[0])
    assert numbers(state) == list(range(100))
    assert len(set(places)) <= 6
    assert buffers(state)[0].shape[2] <= 125


def test_a_state_keeps_its_tokens_when_it_branches(empty: SelfAttentionState) -> None:
    one = step(empty, 1)
    two, other = step(one, 2), step(one, 3)
    assert addresses(two) == addresses(one)
    assert not set(addresses(other)) & set(addresses(one))
    step(two, 4)
    step(other, 5)
    assert [numbers(each) for each in (one, two, other, step(two, 6))] == [
        [1],
        [1, 2],
        [1, 3],
        [1, 2, 6],
    ]


def test_selected_rows_are_written_apart(empty: SelfAttentionState) -> None:
    one = step(empty, 1)
    rows = one.select(torch.tensor([2, 0, 0]))
    after = step(rows, 2)
    assert addresses(after) == addresses(rows)
    assert numbers(step(one, 3)) == [1, 3]
    assert numbers(after) == [1, 2]


def test_gradients_reach_every_token_of_a_state(empty: SelfAttentionState) -> None:
    before = step(empty, 1)
    with torch.enable_grad():
        extension = before.extended(1)
        new = token(2).requires_grad_()
        buffer = extension.write(before.layers[0][0], new)
        extension.filled(buffer).square().sum().backward()
    assert addresses(before)[0] != buffer.data_ptr()
    assert new.grad is not None
    assert new.grad.eq(4).all()


def test_a_state_of_inference_mode_goes_on_outside() -> None:
    with torch.inference_mode():
        state = step(SelfAttentionState.empty(1, like=torch.zeros(3, 2, 5, 4)), 1)
    with torch.no_grad():
        after = step(state, 2)
    with torch.inference_mode():
        assert numbers(step(after, 3)) == [1, 2, 3]
