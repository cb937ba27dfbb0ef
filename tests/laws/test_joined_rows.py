"""The law of `Rows.join`: rows that join in the middle of their responses step as they do alone."""

import pytest
import torch
from mixer_cases import DECODER_ONLY
from test_models import HALF_CASES, PAD, Component, label, make
from torch import Tensor

from dialog.models.inference import can_prepare, prepare
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import Rows, tensors_of

SOURCES = ([4, 9, 5, 7, 8, 4, 6], [4, 5, 9, 11], [4])
TARGETS = torch.tensor([[1, 7, 8, 9, 10], [2, 15, 9, 20, 7], [3, 6, 6, 12, 21]])


def begun(net: Seq2Seq, row: int, read: int) -> tuple[Rows, Rows]:
    """Memory and state of a row that has read some tokens."""
    source = torch.tensor([SOURCES[row]])
    memory, state = net.start(source, source != PAD)
    for step in range(read):
        _, state = net.step(TARGETS[row : row + 1, step : step + 1], memory, state)
    return memory, state


def joined(parts: list[tuple[Rows, Rows]]) -> tuple[Rows, Rows]:
    memories, states = zip(*parts, strict=True)
    return type(memories[0]).join(memories), type(states[0]).join(states)


def check(net: Seq2Seq, expected: Tensor, precision: float) -> None:
    """Three rows join after 1, 2 and 1 tokens, one leaves, and it joins again from its start."""

    def step(memory: Rows, state: Rows, places: list[tuple[int, int]]) -> Rows:
        rows, at = zip(*places, strict=True)
        logits, after = net.step(TARGETS[rows, at].unsqueeze(1), memory, state)
        torch.testing.assert_close(logits[:, 0], expected[rows, at], rtol=0, atol=precision)
        return after

    memory, state = joined([begun(net, row, read) for row, read in ((0, 1), (1, 2), (2, 1))])
    state = step(memory, state, [(0, 1), (1, 2), (2, 1)])
    kept = torch.tensor([2, 0])
    late = begun(net, 1, 0)
    first = 0
    if len(list(tensors_of(late[1]))) < len(list(tensors_of(state))):  # a mixer before all tokens
        late = begun(net, 1, 1)
        first = 1
    memory, state = joined([(memory.select(kept), state.select(kept)), late])
    state = step(memory, state, [(2, 2), (0, 2), (1, first)])
    step(memory, state, [(2, 3), (0, 3), (1, first + 1)])


@pytest.mark.parametrize("case", HALF_CASES, ids=lambda case: "+".join(map(label, case)))
@torch.inference_mode()
def test_joined_rows_step_as_they_do_alone(case: tuple[Component, ...]) -> None:
    torch.manual_seed(3)
    net = make(*case).double().eval()
    source = torch.tensor([[*tokens, *[PAD] * (7 - len(tokens))] for tokens in SOURCES])
    expected = net(source, source != PAD, TARGETS)
    check(net, expected, 1e-11)
    if can_prepare(net.float()):
        check(prepare(net), expected.float(), 1e-4)
        check(net, expected.float(), 1e-4)


@torch.inference_mode()
def test_places_that_no_row_needs_are_left_out() -> None:
    net = make({"name": "embedding"}, DECODER_ONLY[0], HALF_CASES[0][2]).eval()
    memory, state = joined([begun(net, 0, 3), begun(net, 2, 1)])
    assert state.length == len(SOURCES[0]) + 3
    last = torch.tensor([1])
    _, state = joined([(memory.select(last), state.select(last))])
    assert (state.length, state.real) == (len(SOURCES[2]) + 1, None)
