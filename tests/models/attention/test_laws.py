"""Laws of the attention with every scorer."""

import pytest
import torch
from attention_cases import (
    CASES,
    FORMATS,
    LENGTHS,
    MEMORY,
    QUERY,
    STEPS,
    Draw,
    Stir,
    attention_of,
    encoded,
    every_scorer,
    query_size,
    seen_by,
    tensors,
)
from torch import Tensor, nn

from dialog.models.attention import Attention, NoAttention, build_attention
from dialog.models.contracts import Encoded


class Reading(nn.Module):
    """All outputs of an attention for two queries at once, then one more."""

    def __init__(self, attention: Attention, lengths: list[int]) -> None:
        super().__init__()
        self.attention, self.lengths = attention, lengths

    def forward(self, query: Tensor, states: Tensor) -> tuple[Tensor, ...]:
        shown: list[Tensor] = []
        hook = seen_by(shown, self.attention)
        memory, state = self.attention.start(encoded(states, self.lengths))
        first, state = self.attention(query[:, :2], memory, state, hook)
        second, state = self.attention(query[:, 2:], memory, state, hook)
        return first, second, *shown, *tensors(state)


@every_scorer
def test_gradients_are_correct(case: str, draw: Draw, stir: Stir) -> None:
    reading = stir(Reading(attention_of(case), [3, 2, 0]))
    names = [name for name, _ in reading.named_parameters()]

    def outputs(query: Tensor, states: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(
            reading, dict(zip(names, weights, strict=True)), (query, states)
        )

    inputs = [
        draw(3, 3, query_size(case)),
        draw(3, 3, MEMORY),
        *(each.detach() for each in reading.parameters()),
    ]
    assert torch.autograd.gradcheck(
        outputs, [each.clone().requires_grad_() for each in inputs], fast_mode=True
    )


@every_scorer
def test_hook_gets_distributions_over_real_tokens(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    source = encoded(10 * draw(4, 5, MEMORY), [*LENGTHS, 0])
    query = 10 * draw(4, STEPS, query_size(case))
    shown: list[Tensor] = []
    hooked, after = attention(query, *attention.start(source), seen_by(shown, attention))
    (weights,) = shown
    assert weights.shape == (4, CASES[case].get("heads", 1), STEPS, 5)
    assert (weights >= 0).all()
    real = source.mask[:, None, None].expand_as(weights)
    assert not weights[~real].any()
    expected = source.mask.any(1).double()[:, None, None].expand(weights.shape[:-1])
    torch.testing.assert_close(weights.sum(-1), expected, rtol=0, atol=1e-12)
    plain, unseen = attention(query, *attention.start(source))
    assert torch.equal(hooked, plain)
    assert all(torch.equal(a, b) for a, b in zip(tensors(after), tensors(unseen), strict=True))


@every_scorer
def test_padding_is_never_read(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, source = draw(3, STEPS, query_size(case)), encoded(draw(3, 5, MEMORY), LENGTHS)
    contexts, _ = attention(query, *attention.start(source))
    garbage = torch.where(source.mask.unsqueeze(-1), source.states, 50 * draw(3, 5, MEMORY))
    wider = torch.cat([garbage, 50 * draw(3, 4, MEMORY)], 1)
    for states in (garbage, wider):
        output, _ = attention(query, *attention.start(encoded(states, LENGTHS)))
        torch.testing.assert_close(output, contexts, rtol=0, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        alone, _ = attention(
            query[row, None], *attention.start(encoded(source.states[row, None, :length], [length]))
        )
        torch.testing.assert_close(alone[0], contexts[row], rtol=0, atol=1e-12)


@every_scorer
def test_all_queries_at_once_equal_one_after_the_other(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, source = draw(3, STEPS, query_size(case)), encoded(draw(3, 5, MEMORY), LENGTHS)
    memory, start = attention.start(source)
    whole: list[Tensor] = []
    contexts, end = attention(query, memory, start, seen_by(whole, attention))
    for sizes in ([1] * STEPS, *([cut, STEPS - cut] for cut in range(1, STEPS))):
        state, parts, shown = start, [], []
        for part in query.split(sizes, 1):
            read, state = attention(part, memory, state, seen_by(shown, attention))
            parts.append(read)
        output = [torch.cat(parts, 1), torch.cat(shown, 2), *tensors(state)]
        torch.testing.assert_close(output, [contexts, whole[0], *tensors(end)], rtol=0, atol=1e-12)


@every_scorer
def test_rows_can_be_selected_between_reads(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, source = draw(3, STEPS, query_size(case)), encoded(draw(3, 5, MEMORY), LENGTHS)
    memory, state = attention.start(source)
    contexts, _ = attention(query, memory, state)
    _, halfway = attention(query[:, :2], memory, state)
    rows = torch.tensor([2, 0, 0])
    picked, _ = attention(query[rows, 2:], memory.select(rows), halfway.select(rows))
    torch.testing.assert_close(picked, contexts[rows, 2:], rtol=0, atol=1e-12)
    beam, _ = attention(query[:, 2:].repeat_interleave(2, 0), memory.repeat(2), halfway.repeat(2))
    torch.testing.assert_close(beam, contexts[:, 2:].repeat_interleave(2, 0), rtol=0, atol=1e-12)


@every_scorer
@pytest.mark.parametrize("dtype", FORMATS, ids=str)
def test_rows_without_real_tokens_are_finite(
    case: str, dtype: torch.dtype, draw: Draw, stir: Stir
) -> None:
    attention = stir(attention_of(case)).to(dtype)
    query = draw(3, STEPS, query_size(case)).to(dtype).requires_grad_()
    states = draw(3, 4, MEMORY).to(dtype).requires_grad_()
    with torch.autograd.set_detect_anomaly(True):  # no NaN in between either
        contexts, state = attention(query, *attention.start(encoded(states, [4, 0, 0])))
        contexts.float().square().sum().backward()
    assert contexts.dtype is dtype
    leaves = [query, states, *attention.parameters()]
    assert all(each.isfinite().all() for each in [contexts, *tensors(state)])
    assert all(each.grad is None or each.grad.isfinite().all() for each in leaves)
    assert query.grad is not None
    assert query.grad[0].any()
    assert not query.grad[1:].any()
    assert states.grad is not None
    assert not states.grad[1:].any()
    output = getattr(attention.scorer, "output", None)
    expected = output.bias if isinstance(output, nn.Linear) else torch.zeros(MEMORY, dtype=dtype)
    torch.testing.assert_close(contexts[1:], expected.expand(2, STEPS, -1), rtol=0, atol=0)


@every_scorer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_softmax_of_half_scores_is_float32(
    case: str, dtype: torch.dtype, draw: Draw, stir: Stir
) -> None:
    """Weights of 300 tokens, each rounded to a half, would not sum to 1."""
    attention = stir(attention_of(case)).to(dtype)
    query, states = (
        draw(2, length, size).to(dtype) for length, size in ((2, query_size(case)), (300, MEMORY))
    )
    shown: list[Tensor] = []
    attention(
        query,
        *attention.start(encoded(states, [300, 260])),
        lambda _, weights: shown.append(weights),
    )
    assert shown[0].dtype is torch.float32
    torch.testing.assert_close(shown[0].sum(-1), torch.ones(shown[0].shape[:-1]), rtol=0, atol=1e-5)


@every_scorer
def test_autocast_stays_near_float32(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case)).float()
    query, states = (
        draw(3, STEPS, query_size(case)).float().requires_grad_(),
        draw(3, 5, MEMORY).float(),
    )
    source = encoded(states.requires_grad_(), LENGTHS)
    expected, _ = attention(query, *attention.start(source))
    with torch.autocast("cpu", torch.bfloat16):
        output, state = attention(query, *attention.start(source))
        output.float().sum().backward()
    assert all(each.isfinite().all() for each in (output, *tensors(state)))
    assert (output.float() - expected).norm() < 0.03 * expected.norm()
    for leaf in (query, states, *attention.parameters()):
        assert leaf.grad is None or leaf.grad.isfinite().all()
    assert states.grad is not None
    assert states.grad.any()


@every_scorer
def test_keys_are_projected_once_unless_the_source_changes(
    case: str, draw: Draw, stir: Stir
) -> None:
    attention, calls = stir(attention_of(case)), []
    keys = attention.scorer.keys
    attention.scorer.keys = lambda states: calls.append(1) or keys(states)
    memory, state = attention.start(encoded(draw(3, 5, MEMORY), LENGTHS))
    attention(draw(3, STEPS, query_size(case)), memory, state)
    assert len(calls) == (1 + STEPS if case.startswith("interactive") else 1)


def test_no_attention_returns_the_summary(draw: Draw) -> None:
    attention = build_attention({"name": "none"}, query_size=QUERY, key_size=MEMORY)
    assert isinstance(attention, NoAttention)
    source = Encoded(draw(3, 5, MEMORY), torch.ones(3, 5, dtype=torch.bool), draw(3, MEMORY))
    memory, state = attention.start(source)
    shown: list[Tensor] = []
    contexts, after = attention(draw(3, 2, QUERY), memory, state, seen_by(shown, attention))
    assert torch.equal(contexts, source.summary.unsqueeze(1).expand(-1, 2, -1))
    assert not shown
    assert not attention.has_weights
    rows = torch.tensor([2, 0])
    picked, _ = attention(draw(2, 1, QUERY), memory.select(rows), after.select(rows))
    assert torch.equal(picked[:, 0], source.summary[rows])
