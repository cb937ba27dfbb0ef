"""Every scorer, and the attention that all of them share, against loops over single numbers, in float64."""

import math
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.errors import UserError
from dialog.models.attention import SCORERS, AdditiveScorer, Attention, MultiHeadScorer, NoAttention, build_attention
from dialog.models.contracts import AttentionHook, Encoded
from dialog.models.state import Rows

Draw = Callable[..., Tensor]
Stir = Callable[[nn.Module], nn.Module]
Agree = Callable[..., None]
Vector = list[Tensor]

FORMATS = [torch.float64, torch.float32, torch.bfloat16, torch.float16]
QUERY, MEMORY, STEPS = 3, 4, 4
LENGTHS = [5, 2, 1]
ADDITIVE = {"name": "additive", "size": 2}
CASES: dict[str, dict[str, Any]] = {
    "additive": {"size": 3},
    "dot": {},
    "scaled_dot": {},
    "bilinear": {},
    "multi_head": {"heads": 2},
    "multi_head, six wide": {"heads": 2, "size": 6},
    "multi_head, mean": {"heads": 3, "size": 6, "join": "mean"},
    "multi_head, max": {"heads": 3, "size": 3, "join": "max"},
    "location": {"size": 3, "filters": 2, "width": 3},
    "location, wide": {"size": 2, "filters": 1, "width": 11},
    "local": {"size": 2, "window": 1},
    "local, wide": {"size": 2, "window": 3},
    "local, additive": {"size": 2, "window": 2, "scorer": ADDITIVE},
    "local, dot": {"size": 2, "window": 2, "scorer": {"name": "dot"}},
    "interactive": {"scorer": ADDITIVE},
    "interactive, scaled_dot": {"scorer": {"name": "scaled_dot"}},
}
every_scorer = pytest.mark.parametrize("case", CASES)


def query_size(case: str) -> int:
    return MEMORY if "dot" in case else QUERY


def attention_of(case: str) -> Attention:
    component = {"name": case.partition(",")[0], **CASES[case]}
    return Attention(component, query_size=query_size(case), key_size=MEMORY)


def encoded(states: Tensor, lengths: list[int]) -> Encoded:
    return Encoded(states, torch.arange(states.shape[1]) < torch.tensor(lengths).unsqueeze(1), states[:, 0])


def seen_by(shown: list[Tensor], attention: nn.Module) -> AttentionHook:
    def hook(module: nn.Module, weights: Tensor) -> None:
        assert module is attention
        shown.append(weights)

    return hook


def tensors(bundle: Rows) -> list[Tensor]:
    found: list[Tensor] = []
    for field in fields(bundle):
        value = getattr(bundle, field.name)
        found += value if isinstance(value, tuple) else [value]
    return found


def test_no_scorer_is_left_out() -> None:
    assert {case.partition(",")[0] for case in CASES} == set(SCORERS)


# ------------------------------------------------------------------ formulas, number by number


def dot(one: Vector, other: Vector) -> Tensor:
    return sum((a * b for a, b in zip(one, other, strict=True)), start=torch.zeros((), dtype=torch.float64))


def times(layer: nn.Linear, vector: Vector) -> Vector:
    products = [dot(list(row), vector) for row in layer.weight]
    return products if layer.bias is None else [a + b for a, b in zip(products, layer.bias, strict=True)]


def plus(*vectors: Vector) -> Vector:
    return [sum(numbers[1:], start=numbers[0]) for numbers in zip(*vectors, strict=True)]


def compared(scorer: nn.Module, query: Vector, source: Vector) -> Tensor:
    """Bahdanau et al. 2015, A.1.2; Luong et al. 2015, equation 8; Vaswani et al. 2017, equation 1."""
    match type(scorer).__name__:
        case "AdditiveScorer":
            mixed = plus(times(scorer.query, query), times(scorer.key, source))
            return dot(list(scorer.energy.weight[0]), [each.tanh() for each in mixed])
        case "DotScorer":
            return dot(query, source)
        case "ScaledDotScorer":
            return dot(query, source) / math.sqrt(len(query))
        case "BilinearScorer":
            return sum(
                query[i] * scorer.key.weight[i, j] * source[j] for i in range(len(query)) for j in range(len(source))
            )
    raise AssertionError(scorer)


def normalised(energies: Vector) -> Vector:
    return [energy / sum(energies) for energy in energies]


def content_weights(scorer: nn.Module, query: Vector, sources: list[Vector]) -> Vector:
    return normalised([compared(scorer, query, source).exp() for source in sources])


def location_weights(scorer: nn.Module, query: Vector, sources: list[Vector], past: list[Vector]) -> Vector:
    """Chorowski et al. 2015, equations 8 and 9, with coverage as a second channel; past is [last, coverage]."""
    filters, reach = scorer.filters.weight, scorer.filters.weight.shape[-1] // 2  # [filters, 2, width]
    energies = []
    for j, source in enumerate(sources):
        near = [(step, j + step - reach) for step in range(2 * reach + 1) if 0 <= j + step - reach < len(sources)]
        features = [
            sum(kernel[channel, step] * past[channel][place] for channel in range(2) for step, place in near)
            for kernel in filters
        ]
        mixed = plus(times(scorer.query, query), times(scorer.key, source), times(scorer.location, features))
        energies.append(dot(list(scorer.energy.weight[0]), [each.tanh() for each in mixed]).exp())
    return normalised(energies)


def local_weights(scorer: nn.Module, query: Vector, sources: list[Vector]) -> Vector:
    """Luong et al. 2015, equations 9 and 10, with places from 0 to n - 1, and all normalised again at the end."""
    hidden = [each.tanh() for each in times(scorer.place[0], query)]
    place = (len(sources) - 1) * dot(list(scorer.place[2].weight[0]), hidden).sigmoid()
    softmax = content_weights(scorer.scorer, query, sources)
    deviation = scorer.window / 2
    return normalised(
        [
            weight * (-((j - place) ** 2) / (2 * deviation**2)).exp() * (abs(j - place.item()) <= scorer.window)
            for j, weight in enumerate(softmax)
        ]
    )


def heads_of(scorer: MultiHeadScorer, query: Vector, sources: list[Vector]) -> tuple[list[Vector], Vector]:
    """Vaswani et al. 2017, 3.2.2: the weights of each head, and their contexts joined."""
    asked, keys = times(scorer.query, query), [times(scorer.key, source) for source in sources]
    values = [times(scorer.value, source) for source in sources]
    size, width = len(asked) // scorer.heads, len(values[0]) // scorer.heads
    weights, contexts = [], []
    for head in range(scorer.heads):
        of_head, of_value = (slice(head * each, (head + 1) * each) for each in (size, width))
        scores = [dot(asked[of_head], key[of_head]) / math.sqrt(size) for key in keys]
        weights.append(normalised([score.exp() for score in scores]))
        contexts.append(mean(weights[-1], [value[of_value] for value in values]))
    if scorer.pool == "concatenation":
        return weights, times(scorer.output, [number for context in contexts for number in context])
    pool = {"mean": lambda numbers: sum(numbers) / len(numbers), "max": lambda numbers: max(numbers)}[scorer.pool]
    return weights, [pool(numbers) for numbers in zip(*contexts, strict=True)]


def written(scorer: nn.Module, query: Vector, sources: list[Vector], last: Vector) -> list[Vector]:
    """Meng et al. 2016, 3.2."""
    forget = [each.sigmoid() for each in times(scorer.forget, query)]
    update = [each.sigmoid() for each in times(scorer.update, query)]
    return [
        [k * (1 - weight * f) + weight * u for k, f, u in zip(source, forget, update, strict=True)]
        for weight, source in zip(last, sources, strict=True)
    ]


def mean(weights: Vector, values: list[Vector]) -> Vector:
    return [dot(weights, [value[i] for value in values]) for i in range(len(values[0]))]


def read_by_hand(
    case: str, scorer: nn.Module, queries: list[Vector], sources: list[Vector]
) -> tuple[list[Vector], list[list[Vector]]]:
    """Contexts [T][M] and weights [T][H][S] of one row that holds its real tokens only."""
    last, coverage = ([torch.zeros((), dtype=torch.float64) for _ in sources] for _ in range(2))
    contexts, shown = [], []
    for query in queries:
        match case.partition(",")[0]:
            case "multi_head":
                weights, context = heads_of(scorer, query, sources)
                contexts.append(context)
                shown.append(weights)
                continue
            case "location":
                last = location_weights(scorer, query, sources, [last, coverage])
            case "local":
                last = local_weights(scorer, query, sources)
            case "interactive":
                sources = written(scorer, query, sources, last)
                last = content_weights(scorer.scorer, query, sources)
            case _:
                last = content_weights(scorer, query, sources)
        coverage = plus(coverage, last)
        contexts.append(mean(last, sources))
        shown.append([last])
    return contexts, shown


def stack(numbers: Any) -> Tensor:  # noqa: ANN401 - lists of lists of numbers, as deep as they are
    return numbers if isinstance(numbers, Tensor) else torch.stack([stack(each) for each in numbers])


@every_scorer
def test_attention_is_the_formula_of_its_paper(case: str, draw: Draw, stir: Stir, agree: Agree) -> None:
    attention = stir(attention_of(case))
    query = draw(3, STEPS, query_size(case)).requires_grad_()
    states = draw(3, max(LENGTHS), MEMORY).requires_grad_()  # not 0 at padding
    shown: list[Tensor] = []
    contexts, _ = attention(query, *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention))
    (weights,) = shown
    ours, theirs = [], []
    for row, length in enumerate(LENGTHS):
        expected = read_by_hand(
            case, attention.scorer, [list(each) for each in query[row]], [list(each) for each in states[row, :length]]
        )
        assert not weights[row, ..., length:].any()
        ours += [contexts[row], weights[row, ..., :length].transpose(0, 1)]
        theirs += [stack(each) for each in expected]
    agree(ours, theirs, [query, states, *attention.parameters()])


@pytest.mark.parametrize("case", ["location", "interactive"])
def test_the_reference_knows_what_was_read_before(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, states = draw(1, 1, query_size(case)).expand(1, 3, -1), draw(1, 5, MEMORY)
    contexts, _ = attention(query, *attention.start(encoded(states, [5])))
    assert all((contexts[0, i] - contexts[0, i + 1]).abs().max() > 1e-3 for i in range(2))


def test_additive_scorer_has_the_promised_parameters() -> None:
    shapes = {name: tuple(parameter.shape) for name, parameter in AdditiveScorer(3, 4, 5).named_parameters()}
    assert shapes == {"query.weight": (5, 3), "key.weight": (5, 4), "energy.weight": (1, 5)}


@pytest.mark.parametrize("window", [1, 2, 3])
def test_outside_its_window_local_attention_does_not_look(window: int, draw: Draw, stir: Stir) -> None:
    component = {"name": "local", "size": 2, "window": window}
    attention = stir(Attention(component, query_size=QUERY, key_size=MEMORY))
    query, states, shown = draw(40, 1, QUERY), draw(40, 9, MEMORY), []
    attention(query, *attention.start(encoded(states, [9] * 40)), seen_by(shown, attention))
    looked = (shown[0].flatten(1) > 0).sum(1)
    assert set(looked.tolist()) <= {*range(window, 2 * window + 1)}
    assert (looked == 2 * window).any()


@pytest.mark.parametrize("join", ["concatenation", "mean", "max"])
def test_multi_head_scorer_agrees_with_torch(join: str, draw: Draw, stir: Stir, agree: Agree) -> None:
    heads = 2
    width = MEMORY if join == "concatenation" else heads * MEMORY  # where it is the same to torch
    component = {"name": "multi_head", "heads": heads, "join": join, "size": width}
    attention = stir(Attention(component, query_size=width, key_size=MEMORY))
    scorer = attention.scorer
    theirs = nn.MultiheadAttention(width, heads, kdim=MEMORY, vdim=MEMORY, batch_first=True).double()
    theirs_is_packed = theirs.in_proj_weight is not None
    weights = {"q": scorer.query.weight, "k": scorer.key.weight, "v": scorer.value.weight}
    projections = (
        {"in_proj_weight": torch.cat([*weights.values()])}
        if theirs_is_packed
        else {f"{name}_proj_weight": weight for name, weight in weights.items()}
    )
    joined = join == "concatenation"
    named = {
        **projections,
        "in_proj_bias": torch.cat([scorer.query.bias, torch.zeros(width).double(), scorer.value.bias]),
        "out_proj.weight": scorer.output.weight if joined else torch.eye(width).double(),
        "out_proj.bias": scorer.output.bias if joined else torch.zeros(width).double(),
    }
    query, states = draw(3, STEPS, width).requires_grad_(), draw(3, 5, MEMORY).requires_grad_()
    source, shown = encoded(states, LENGTHS), []
    contexts, _ = attention(query, *attention.start(source), seen_by(shown, attention))
    expected, maps = torch.func.functional_call(
        theirs,
        named,
        (query, states, states),
        {"key_padding_mask": ~source.mask, "average_attn_weights": False},
    )
    if not joined:
        each = torch.unflatten(expected, -1, (heads, MEMORY))
        expected = each.mean(2) if join == "mean" else each.amax(2)
    agree([contexts, shown[0]], [expected, maps], [query, states, *attention.parameters()])


# ------------------------------------------------------------------ laws of all scorers


class Reading(nn.Module):
    """An attention from its inputs to all that comes of it: two queries at once, then one more."""

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
def test_gradients_of_attention_are_right(case: str, draw: Draw, stir: Stir) -> None:
    reading = stir(Reading(attention_of(case), [3, 2, 0]))
    names = [name for name, _ in reading.named_parameters()]

    def outputs(query: Tensor, states: Tensor, *weights: Tensor) -> tuple[Tensor, ...]:
        return torch.func.functional_call(reading, dict(zip(names, weights, strict=True)), (query, states))

    inputs = [draw(3, 3, query_size(case)), draw(3, 3, MEMORY), *(each.detach() for each in reading.parameters())]
    assert torch.autograd.gradcheck(outputs, [each.clone().requires_grad_() for each in inputs], fast_mode=False)


@every_scorer
def test_what_a_hook_is_shown_are_distributions_over_what_is_real(case: str, draw: Draw, stir: Stir) -> None:
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
def test_what_stands_at_padding_is_never_read(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, source = draw(3, STEPS, query_size(case)), encoded(draw(3, 5, MEMORY), LENGTHS)
    contexts, _ = attention(query, *attention.start(source))
    garbage = torch.where(source.mask.unsqueeze(-1), source.states, 50 * draw(3, 5, MEMORY))
    wider = torch.cat([garbage, 50 * draw(3, 4, MEMORY)], 1)
    for states in (garbage, wider):
        found, _ = attention(query, *attention.start(encoded(states, LENGTHS)))
        torch.testing.assert_close(found, contexts, rtol=0, atol=1e-12)
    for row, length in enumerate(LENGTHS):
        alone, _ = attention(query[row, None], *attention.start(encoded(source.states[row, None, :length], [length])))
        torch.testing.assert_close(alone[0], contexts[row], rtol=0, atol=1e-12)


@every_scorer
def test_all_queries_at_once_are_one_after_the_other(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, source = draw(3, STEPS, query_size(case)), encoded(draw(3, 5, MEMORY), LENGTHS)
    memory, begun = attention.start(source)
    whole: list[Tensor] = []
    contexts, end = attention(query, memory, begun, seen_by(whole, attention))
    for sizes in ([1] * STEPS, *([cut, STEPS - cut] for cut in range(1, STEPS))):
        state, parts, shown = begun, [], []
        for part in query.split(sizes, 1):
            read, state = attention(part, memory, state, seen_by(shown, attention))
            parts.append(read)
        found = [torch.cat(parts, 1), torch.cat(shown, 2), *tensors(state)]
        torch.testing.assert_close(found, [contexts, whole[0], *tensors(end)], rtol=0, atol=1e-12)


@every_scorer
def test_rows_can_be_picked_between_two_reads(case: str, draw: Draw, stir: Stir) -> None:
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
def test_rows_with_nothing_real_are_finite(case: str, dtype: torch.dtype, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case)).to(dtype)
    query = draw(3, STEPS, query_size(case)).to(dtype).requires_grad_()
    states = draw(3, 4, MEMORY).to(dtype).requires_grad_()
    with torch.autograd.set_detect_anomaly(True):  # NaN nowhere on the way either
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
def test_the_softmax_of_half_scores_is_float32(case: str, dtype: torch.dtype, draw: Draw, stir: Stir) -> None:
    """Weights of 300 tokens, each rounded to a half, would not sum to 1."""
    attention = stir(attention_of(case)).to(dtype)
    query, states = (draw(2, length, size).to(dtype) for length, size in ((2, query_size(case)), (300, MEMORY)))
    shown: list[Tensor] = []
    attention(query, *attention.start(encoded(states, [300, 260])), lambda _, weights: shown.append(weights))
    assert shown[0].dtype is torch.float32
    torch.testing.assert_close(shown[0].sum(-1), torch.ones(shown[0].shape[:-1]), rtol=0, atol=1e-5)


@every_scorer
def test_it_stays_near_float32_under_autocast(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case)).float()
    query, states = draw(3, STEPS, query_size(case)).float().requires_grad_(), draw(3, 5, MEMORY).float()
    source = encoded(states.requires_grad_(), LENGTHS)
    expected, _ = attention(query, *attention.start(source))
    with torch.autocast("cpu", torch.bfloat16):
        found, state = attention(query, *attention.start(source))
        found.float().sum().backward()
    assert all(each.isfinite().all() for each in (found, *tensors(state)))
    assert (found.float() - expected).norm() < 0.03 * expected.norm()
    for leaf in (query, states, *attention.parameters()):
        assert leaf.grad is None or leaf.grad.isfinite().all()
    assert states.grad is not None
    assert states.grad.any()


@every_scorer
def test_keys_are_made_once_for_a_source_unless_it_is_written_to(case: str, draw: Draw, stir: Stir) -> None:
    attention, calls = stir(attention_of(case)), []
    keys = attention.scorer.keys
    attention.scorer.keys = lambda states: calls.append(1) or keys(states)
    memory, state = attention.start(encoded(draw(3, 5, MEMORY), LENGTHS))
    attention(draw(3, STEPS, query_size(case)), memory, state)
    assert len(calls) == (1 + STEPS if case.startswith("interactive") else 1)


def test_no_attention_is_the_summary(draw: Draw) -> None:
    attention = build_attention({"name": "none"}, query_size=QUERY, key_size=MEMORY)
    assert isinstance(attention, NoAttention)
    source = Encoded(draw(3, 5, MEMORY), torch.ones(3, 5, dtype=torch.bool), draw(3, MEMORY))
    memory, state = attention.start(source)
    shown: list[Tensor] = []
    contexts, after = attention(draw(3, 2, QUERY), memory, state, seen_by(shown, attention))
    assert torch.equal(contexts, source.summary.unsqueeze(1).expand(-1, 2, -1))
    assert not shown
    assert not attention.shows
    rows = torch.tensor([2, 0])
    picked, _ = attention(draw(2, 1, QUERY), memory.select(rows), after.select(rows))
    assert torch.equal(picked[:, 0], source.summary[rows])


# ------------------------------------------------------------------ scorers of one's own


class Near(nn.Module):
    """A module: -|q - W k|^2."""

    def __init__(self, query_size: int, key_size: int) -> None:
        super().__init__()
        self.key = nn.Linear(key_size, query_size)

    def keys(self, states: Tensor) -> Tensor:
        return self.key(states)

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return -(query.unsqueeze(2) - keys.unsqueeze(1)).square().sum(-1)


class First:
    """No module at all: the first token that it finds."""

    def keys(self, states: Tensor) -> Tensor:
        return states[..., :1]

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        places = torch.arange(keys.shape[1]).to(keys)
        return (-1000 * places).expand(len(query), query.shape[1], -1)


class Final(First):
    """One that names mask: the last real token."""

    def __call__(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        places = mask.cumsum(1).to(keys)
        return (1000 * places).unsqueeze(1).expand(-1, query.shape[1], -1)


class Next(First):
    """One that names coverage: the first token that was not read yet."""

    def __call__(self, query: Tensor, keys: Tensor, coverage: Tensor) -> Tensor:
        assert query.shape[1] == 1
        return (super().__call__(query, keys) - 1e6 * coverage.unsqueeze(1)).to(keys)


class Two(First):
    """Two heads that look at the first and at the last token, joined by their difference."""

    def __call__(self, query: Tensor, keys: Tensor, mask: Tensor, last: Tensor) -> Tensor:
        assert last.shape == mask.shape
        return torch.stack([First()(query, keys), Final()(query, keys, mask)], 1)

    def values(self, states: Tensor) -> Tensor:
        return torch.stack([states, 2 * states], 1)

    def join(self, contexts: Tensor) -> Tensor:
        return contexts[:, 1] - contexts[:, 0]


class Keyless(nn.Module):
    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


class Mute:
    """It has keys, but cannot be called."""

    def keys(self, states: Tensor) -> Tensor:
        return states

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


def own(scorer: type) -> Attention:
    return Attention({"name": f"{__name__}.{scorer.__name__}"}, query_size=QUERY, key_size=MEMORY)


def test_a_module_of_ones_own_is_trained(draw: Draw, stir: Stir) -> None:
    attention = stir(own(Near))
    query, states, shown = draw(3, STEPS, QUERY), draw(3, 5, MEMORY), []
    contexts, _ = attention(query, *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention))
    contexts.sum().backward()
    assert {name for name, each in attention.named_parameters() if each.grad is not None} == {
        "scorer.key.weight",
        "scorer.key.bias",
    }
    distances = (query[1, 0] - attention.scorer.key(states[1, :2])).square().sum(-1)
    torch.testing.assert_close(shown[0][1, 0, 0, :2], (-distances).softmax(-1), rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("scorer", "places"),
    [
        (First, [[0, 0, 0, 0], [0, 0, 0, 0], [0, 0, 0, 0]]),
        (Final, [[4, 4, 4, 4], [1, 1, 1, 1], [0, 0, 0, 0]]),
        (Next, [[0, 1, 2, 3], [0, 1, 0, 1], [0, 0, 0, 0]]),
    ],
)
def test_a_scorer_need_be_no_module_and_is_given_what_it_names(
    scorer: type, places: list[list[int]], draw: Draw
) -> None:
    attention, states, shown = own(scorer), draw(3, 5, MEMORY), []
    contexts, _ = attention(draw(3, 4, QUERY), *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention))
    assert shown[0].argmax(-1)[:, 0].tolist() == places
    expected = states[torch.arange(3).unsqueeze(1), torch.tensor(places)]
    torch.testing.assert_close(contexts, expected, rtol=0, atol=1e-12)


def test_a_scorer_of_ones_own_may_have_heads_and_a_past(draw: Draw) -> None:
    attention, states, shown = own(Two), draw(3, 5, MEMORY), []
    memory, state = attention.start(encoded(states, LENGTHS))
    contexts, state = attention(draw(3, 4, QUERY), memory, state, seen_by(shown, attention))
    assert shown[0].shape == (3, 2, 4, 5)
    finals = states[torch.arange(3), torch.tensor(LENGTHS) - 1]
    torch.testing.assert_close(contexts, (2 * finals - states[:, 0]).unsqueeze(1).expand(-1, 4, -1))
    assert state.last.tolist() == [[0.5, 0, 0, 0, 0.5], [0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert torch.equal(state.coverage, 4 * state.last)


@pytest.mark.parametrize(
    ("scorer", "message"),
    [(Keyless, "Keyless has no keys(states)"), (Mute, "Mute cannot be called with (query, keys)")],
)
def test_what_is_no_scorer_is_refused_in_one_line(scorer: type, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        own(scorer)
    assert message in str(raised.value)
    assert "see AttentionScorer" in str(raised.value)
    assert "\n" not in str(raised.value)


# ------------------------------------------------------------------ what does not fit


@pytest.mark.parametrize(
    ("component", "message"),
    [
        ({"name": "dot"}, "dot: the query has size 3, the source 4; make them equal or take bilinear"),
        ({"name": "scaled_dot"}, "scaled_dot: the query has size 3, the source 4"),
        ({"name": "local", "size": 2, "scorer": {"name": "dot"}}, "dot: the query has size 3, the source 4"),
        ({"name": "interactive", "scorer": {"name": "scaled_dot"}}, "scaled_dot: the query has size 3, the source 4"),
        ({"name": "location", "size": 2, "width": 4}, "location: width 4 of the filters must be odd"),
        ({"name": "location", "size": 2, "width": 0}, "location: width 0 of the filters must be odd"),
        ({"name": "location", "size": 2, "width": -1}, "location: width -1 of the filters must be odd"),
        ({"name": "location", "size": 2, "filters": 0}, "location: filters must be at least 1, not 0"),
        ({"name": "local", "size": 2, "window": 0}, "local: window must be at least 1, not 0"),
        ({"name": "local", "size": 2, "scorer": {"name": "location", "size": 2}}, "unknown scorer 'location'"),
        ({"name": "interactive"}, "interactive: missing required argument: scorer"),
        ({"name": "multi_head", "heads": 2, "join": "sum"}, "join must be one of concatenation, mean, max, not 'sum'"),
        ({"name": "multi_head", "heads": 3}, "multi_head: size 4 and the source's 4 must be multiples of 3 heads"),
        ({"name": "multi_head", "heads": 3, "size": 6}, "size 6 and the source's 4 must be multiples of 3 heads"),
        ({"name": "multi_head", "heads": 3, "size": 4, "join": "max"}, "size 4 and the source's 4 must be multiples"),
        ({"name": "multi_head", "heads": 0}, "must be multiples of 0 heads"),
        ({"name": "aditive", "size": 2}, "unknown scorer 'aditive'; did you mean 'additive'?"),
        ({"name": "none", "size": 2}, "none: unknown argument 'size'"),
    ],
)
def test_what_does_not_fit_is_one_clear_line(component: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        build_attention(component, query_size=QUERY, key_size=MEMORY)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
