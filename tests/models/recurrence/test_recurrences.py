"""Laws of the recurrences: chunks of tokens are steps of one token."""

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from dialog.models.recurrence.kernels.delta_rule import DeltaRule, VectorDeltaRule
from dialog.models.recurrence.kernels.recurrence import Memory, Recurrence, Signals
from dialog.models.recurrence.kernels.scalar_decay import ExponentialGates, ScalarDecay
from dialog.models.recurrence.kernels.scan import Scan
from dialog.models.recurrence.kernels.vector_decay import VectorDecay

B, H, K, V = 3, 2, 4, 5


class Case(NamedTuple):
    """A recurrence by its chunk, signals of T tokens for a strength of decay, and a memory."""

    build: Callable[[int], Recurrence]
    signals: Callable[[int, float], Signals]
    memory: Callable[[], Memory]


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def uniform(*shape: int) -> Tensor:
    return torch.rand(*shape, dtype=torch.float64)


def unit(*shape: int) -> Tensor:
    return F.normalize(normal(*shape), dim=-1)


def matrix() -> Memory:
    return (normal(B, H, K, V),)


def delta_signals(tokens: int, strength: float) -> Signals:
    key = unit(B, tokens, H, K)
    decay = -strength * uniform(B, tokens, H)
    return normal(*key.shape), key, normal(B, tokens, H, V), decay, 2 * uniform(B, tokens, H)


def vector_delta_signals(tokens: int, _: float) -> Signals:
    shape = (B, tokens, H, K)
    along = unit(*shape)
    decay = -0.6 * uniform(*shape)
    value = normal(B, tokens, H, V)
    return normal(*shape), normal(*shape), value, decay, -along, along * uniform(*shape)


CASES: dict[str, Case] = {
    "scan": Case(
        Scan,
        lambda t, s: ((-s * uniform(B, t, V)).exp(), normal(B, t, V)),
        lambda: (normal(B, V),),
    ),
    "scalar": Case(
        ScalarDecay,
        lambda t, s: (*(normal(B, t, H, n) for n in (K, K, V)), -s * uniform(B, t, H)),
        matrix,
    ),
    "shared keys": Case(
        ScalarDecay,
        lambda t, s: (
            *(normal(B, t, h, n) for h, n in ((1, K), (1, K), (H, V))),
            -s * uniform(B, t, H),
        ),
        matrix,
    ),
    "exponential": Case(
        ExponentialGates,
        lambda t, s: (
            *(normal(B, t, H, n) for n in (K, K, V)),
            20 * normal(B, t, H),
            F.logsigmoid(20 * normal(B, t, H)),
        ),
        lambda: (*matrix(), normal(B, H, K), 10 * normal(B, H)),
    ),
    "vector": Case(
        lambda chunk: VectorDecay(min(chunk, 32), lowest=-2.5),
        lambda t, s: (
            *(normal(B, t, H, n) for n in (K, K, V)),
            -min(s, 2.5) * uniform(B, t, H, K),
        ),
        matrix,
    ),
    "delta": Case(DeltaRule, delta_signals, matrix),
    "vector delta": Case(
        lambda chunk: VectorDeltaRule(chunk, lowest=-0.6065), vector_delta_signals, matrix
    ),
}
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def steps(recurrence: Recurrence, signals: Signals, memory: Memory) -> tuple[Tensor, Memory]:
    """The definition: a loop over tokens."""
    memory = memory or recurrence.start(signals)
    outputs = []
    for token in range(signals[0].shape[1]):
        output, memory = recurrence.step(tuple(each[:, token] for each in signals), memory)
        outputs.append(output)
    return torch.stack(outputs, 1), memory


def near(one: tuple[Tensor, Memory], other: tuple[Tensor, Memory], tolerance: float) -> None:
    for mine, yours in zip((one[0], *one[1]), (other[0], *other[1]), strict=True):
        assert mine.isfinite().all()
        scale = 1 + float(yours.abs().max())
        torch.testing.assert_close(mine.double(), yours.double(), rtol=0, atol=tolerance * scale)


def cut(signals: Signals, begin: int, end: int | None) -> Signals:
    return tuple(each[:, begin:end] for each in signals)


@every_case
@pytest.mark.parametrize(
    ("tokens", "chunk", "strength"),
    [(1, 1, 0.1), (2, 64, 1.0), (17, 5, 0.01), (17, 16, 10.0), (40, 64, 1.0), (70, 32, 0.1)],
)
def test_chunks_are_steps_from_any_memory(
    case: Case, tokens: int, chunk: int, strength: float
) -> None:
    torch.manual_seed(tokens + chunk)
    recurrence = case.build(chunk)
    signals = case.signals(tokens, strength)
    for memory in ((), case.memory()):
        expected = steps(recurrence, signals, memory)
        near(recurrence.chunk(signals, memory), expected, 1e-9)
        place = tokens // 3
        if place:
            first, middle = recurrence.chunk(cut(signals, 0, place), memory)
            second, last = recurrence.chunk(cut(signals, place, None), middle)
            near((torch.cat([first, second], 1), last), expected, 1e-9)


@every_case
def test_padding_is_the_identity(case: Case) -> None:
    """Whatever is there: outputs at real tokens and the last memory are those of each row alone."""
    torch.manual_seed(1)
    lengths = (23, 9, 0)
    mask = torch.arange(23) < torch.tensor(lengths).unsqueeze(1)
    signals = case.signals(23, 1.0)
    for chunk in (4, 16, 64):
        recurrence = case.build(chunk)
        memory = case.memory()
        outputs, last = recurrence.chunk(signals, memory, mask)
        fresh, from_start = recurrence.chunk(signals, (), mask)
        assert all(each.isfinite().all() for each in (outputs, fresh, *last, *from_start))
        for row, length in enumerate(lengths):
            own = tuple(each[row : row + 1] for each in memory)
            ends = tuple(each[row : row + 1] for each in last)
            if length == 0:
                near((outputs, ends), (outputs, own), 1e-9)
                continue
            alone = steps(recurrence, tuple(each[row : row + 1, :length] for each in signals), own)
            near((outputs[row : row + 1, :length], ends), alone, 1e-9)


@every_case
def test_gradients_of_chunks_are_those_of_steps(case: Case) -> None:
    torch.manual_seed(2)
    recurrence = case.build(4)
    leaves = [each.requires_grad_() for each in (*case.signals(19, 1.0), *case.memory())]
    count = len(leaves) - len(case.memory())
    signals, memory = tuple(leaves[:count]), tuple(leaves[count:])
    if len(memory) == 3:  # nothing depends on the scale of xLSTM's memory
        leaves.pop()
    gradients = []
    for outputs, last in (
        recurrence.chunk(signals, memory),
        steps(recurrence, signals, memory),
    ):
        loss = outputs.square().sum() + (last[0].square().sum() if len(memory) == 1 else 0)
        gradients.append(torch.autograd.grad(loss, leaves))
    for mine, yours in zip(*gradients, strict=True):
        torch.testing.assert_close(mine, yours, rtol=1e-8, atol=1e-8)


@every_case
def test_precision_of_float32_and_bfloat16(case: Case) -> None:
    """float32: 1e-5 of the largest value; bfloat16: the signals are read and the state is kept in
    float32, so all errors are those of the rounded signals.
    """
    torch.manual_seed(3)
    recurrence = case.build(32)
    exact = case.signals(200, 0.5)
    if case.build is ExponentialGates:  # gates of usual size
        exact = (*exact[:3], exact[3] / 20, exact[4] / 20)
    expected = steps(recurrence, exact, ())
    near(recurrence.run(tuple(each.float() for each in exact)), expected, 1e-5)
    low = tuple(each.bfloat16() for each in exact)
    outputs, memory = recurrence.run(low)
    assert {each.dtype for each in (outputs, *memory)} == {torch.float32}
    near((outputs, memory), steps(recurrence, tuple(each.double() for each in low), ()), 1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        near(recurrence.run(low), (outputs, memory), 1e-9)


@every_case
def test_a_later_token_leaves_earlier_outputs(case: Case) -> None:
    """Bit for bit: not even their rounding depends on it."""
    torch.manual_seed(4)
    recurrence = case.build(8)
    signals = case.signals(11, 1.0)
    changed = tuple(
        torch.cat([mine[:, :6], other[:, 6:]], 1)
        for mine, other in zip(signals, case.signals(11, 1.0), strict=True)
    )
    before, _ = recurrence.chunk(signals)
    after, _ = recurrence.chunk(changed)
    assert torch.equal(before[:, :6], after[:, :6])


@pytest.mark.parametrize("chunk", [0, -3])
def test_a_chunk_below_one_is_invalid(chunk: int) -> None:
    with pytest.raises(ValueError, match=f"chunk.*{chunk}"):
        ScalarDecay(chunk)


def test_a_chunk_that_overflows_is_invalid() -> None:
    with pytest.raises(ValueError, match=r"chunk.*64"):
        VectorDecay(65, lowest=-2.5)
