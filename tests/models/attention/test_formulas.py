"""Every scorer against a loop over single numbers in float64."""

import math
from typing import Any

import pytest
import torch
from attention_cases import (
    CASES,
    LENGTHS,
    MEMORY,
    QUERY,
    STEPS,
    Agree,
    Draw,
    Stir,
    attention_of,
    encoded,
    every_scorer,
    query_size,
    seen_by,
)
from torch import Tensor, nn

from dialog.models.attention import SCORERS, AdditiveScorer, Attention, MultiHeadScorer

Vector = list[Tensor]


def test_cases_cover_all_scorers() -> None:
    assert {case.partition(",")[0] for case in CASES} == set(SCORERS)


def dot(one: Vector, other: Vector) -> Tensor:
    return sum(
        (a * b for a, b in zip(one, other, strict=True)), start=torch.zeros((), dtype=torch.float64)
    )


def times(layer: nn.Linear, vector: Vector) -> Vector:
    products = [dot(list(row), vector) for row in layer.weight]
    return (
        products
        if layer.bias is None
        else [a + b for a, b in zip(products, layer.bias, strict=True)]
    )


def plus(*vectors: Vector) -> Vector:
    return [sum(numbers[1:], start=numbers[0]) for numbers in zip(*vectors, strict=True)]


def compared(scorer: nn.Module, query: Vector, source: Vector) -> Tensor:
    """Bahdanau et al. 2015, A.1.2; Luong et al. 2015, equation 8; Vaswani et al. 2017,
    equation 1.
    """
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
                query[i] * scorer.key.weight[i, j] * source[j]
                for i in range(len(query))
                for j in range(len(source))
            )
    raise AssertionError(scorer)


def normalised(energies: Vector) -> Vector:
    return [energy / sum(energies) for energy in energies]


def content_weights(scorer: nn.Module, query: Vector, sources: list[Vector]) -> Vector:
    return normalised([compared(scorer, query, source).exp() for source in sources])


def location_weights(
    scorer: nn.Module, query: Vector, sources: list[Vector], past: list[Vector]
) -> Vector:
    """Chorowski et al. 2015, equations 8 and 9, with coverage as a second channel; past is [last,
    coverage].
    """
    # [filters, 2, width]
    filters, reach = scorer.filters.weight, scorer.filters.weight.shape[-1] // 2
    energies = []
    for j, source in enumerate(sources):
        near = [
            (step, j + step - reach)
            for step in range(2 * reach + 1)
            if 0 <= j + step - reach < len(sources)
        ]
        features = [
            sum(
                kernel[channel, step] * past[channel][place]
                for channel in range(2)
                for step, place in near
            )
            for kernel in filters
        ]
        mixed = plus(
            times(scorer.query, query), times(scorer.key, source), times(scorer.location, features)
        )
        energies.append(dot(list(scorer.energy.weight[0]), [each.tanh() for each in mixed]).exp())
    return normalised(energies)


def local_weights(scorer: nn.Module, query: Vector, sources: list[Vector]) -> Vector:
    """Luong et al. 2015, equations 9 and 10, with places from 0 to n - 1, and all normalised again
    at the end.
    """
    hidden = [each.tanh() for each in times(scorer.place[0], query)]
    place = (len(sources) - 1) * dot(list(scorer.place[2].weight[0]), hidden).sigmoid()
    softmax = content_weights(scorer.scorer, query, sources)
    deviation = scorer.window / 2
    return normalised(
        [
            weight
            * (-((j - place) ** 2) / (2 * deviation**2)).exp()
            * (abs(j - place.item()) <= scorer.window)
            for j, weight in enumerate(softmax)
        ]
    )


def heads_of(
    scorer: MultiHeadScorer, query: Vector, sources: list[Vector]
) -> tuple[list[Vector], Vector]:
    """Vaswani et al. 2017, 3.2.2: the weights of each head, and their contexts joined."""
    queries, keys = times(scorer.query, query), [times(scorer.key, source) for source in sources]
    values = [times(scorer.value, source) for source in sources]
    size, width = len(queries) // scorer.heads, len(values[0]) // scorer.heads
    weights, contexts = [], []
    for head in range(scorer.heads):
        of_head, of_value = (slice(head * each, (head + 1) * each) for each in (size, width))
        scores = [dot(queries[of_head], key[of_head]) / math.sqrt(size) for key in keys]
        weights.append(normalised([score.exp() for score in scores]))
        contexts.append(mean(weights[-1], [value[of_value] for value in values]))
    if scorer.pool == "concatenation":
        return weights, times(scorer.output, [number for context in contexts for number in context])
    pool = {
        "mean": lambda numbers: sum(numbers) / len(numbers),
        "max": lambda numbers: max(numbers),
    }[scorer.pool]
    return weights, [pool(numbers) for numbers in zip(*contexts, strict=True)]


def features_of(scorer: nn.Module, query: Vector, sources: list[Vector]) -> tuple[Vector, Vector]:
    """Choi et al. 2018: the mean weights over the features, and the context."""
    projected = [plus(times(scorer.query, query), times(scorer.key, source)) for source in sources]
    hidden = [[each.tanh() for each in row] for row in projected]
    energies = [times(scorer.energy, each) for each in hidden]  # [S][M]
    # [M][S]
    weights = [normalised([energy[d].exp() for energy in energies]) for d in range(len(sources[0]))]
    context = [dot(row, [source[d] for source in sources]) for d, row in enumerate(weights)]
    return [sum(row[j] for row in weights) / len(weights) for j in range(len(sources))], context


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
            case "fine_grained":
                weights, context = features_of(scorer, query, sources)
                contexts.append(context)
                shown.append([weights])
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


def stack(numbers: Any) -> Tensor:
    return (
        numbers if isinstance(numbers, Tensor) else torch.stack([stack(each) for each in numbers])
    )


@every_scorer
def test_attention_follows_the_formula_of_its_paper(
    case: str, draw: Draw, stir: Stir, agree: Agree
) -> None:
    attention = stir(attention_of(case))
    query = draw(3, STEPS, query_size(case)).requires_grad_()
    states = draw(3, max(LENGTHS), MEMORY).requires_grad_()  # not 0 at padding
    shown: list[Tensor] = []
    contexts, _ = attention(
        query, *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention)
    )
    (weights,) = shown
    ours, theirs = [], []
    for row, length in enumerate(LENGTHS):
        expected = read_by_hand(
            case,
            attention.scorer,
            [list(each) for each in query[row]],
            [list(each) for each in states[row, :length]],
        )
        assert not weights[row, ..., length:].any()
        ours += [contexts[row], weights[row, ..., :length].transpose(0, 1)]
        theirs += [stack(each) for each in expected]
    agree(ours, theirs, [query, states, *attention.parameters()])


@pytest.mark.parametrize("case", ["location", "interactive"])
def test_reference_depends_on_earlier_reads(case: str, draw: Draw, stir: Stir) -> None:
    attention = stir(attention_of(case))
    query, states = draw(1, 1, query_size(case)).expand(1, 3, -1), draw(1, 5, MEMORY)
    contexts, _ = attention(query, *attention.start(encoded(states, [5])))
    assert all((contexts[0, i] - contexts[0, i + 1]).abs().max() > 1e-3 for i in range(2))


def test_additive_scorer_has_the_promised_parameters() -> None:
    shapes = {
        name: tuple(parameter.shape)
        for name, parameter in AdditiveScorer(3, 4, 5).named_parameters()
    }
    assert shapes == {"query.weight": (5, 3), "key.weight": (5, 4), "energy.weight": (1, 5)}


@pytest.mark.parametrize("window", [1, 2, 3])
def test_local_attention_is_0_outside_its_window(window: int, draw: Draw, stir: Stir) -> None:
    component = {"name": "local", "size": 2, "window": window}
    attention = stir(Attention(component, query_size=QUERY, key_size=MEMORY))
    query, states, shown = draw(40, 1, QUERY), draw(40, 9, MEMORY), []
    attention(query, *attention.start(encoded(states, [9] * 40)), seen_by(shown, attention))
    positions = (shown[0].flatten(1) > 0).sum(1)
    assert set(positions.tolist()) <= {*range(window, 2 * window + 1)}
    assert (positions == 2 * window).any()


@pytest.mark.parametrize("join", ["concatenation", "mean", "max"])
def test_multi_head_scorer_agrees_with_torch(
    join: str, draw: Draw, stir: Stir, agree: Agree
) -> None:
    heads = 2
    width = MEMORY if join == "concatenation" else heads * MEMORY  # where it is the same to torch
    component = {"name": "multi_head", "heads": heads, "join": join, "size": width}
    attention = stir(Attention(component, query_size=width, key_size=MEMORY))
    scorer = attention.scorer
    theirs = nn.MultiheadAttention(
        width, heads, kdim=MEMORY, vdim=MEMORY, batch_first=True
    ).double()
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
        "in_proj_bias": torch.cat(
            [scorer.query.bias, torch.zeros(width).double(), scorer.value.bias]
        ),
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


def test_fine_grained_with_equal_features_is_additive(draw: Draw, stir: Stir) -> None:
    additive, fine = stir(attention_of("additive")), attention_of("fine_grained").double()
    fine.scorer.query, fine.scorer.key = additive.scorer.query, additive.scorer.key
    fine.scorer.energy.weight.data = additive.scorer.energy.weight.data.expand(MEMORY, -1)
    query, source = draw(3, STEPS, QUERY), encoded(draw(3, max(LENGTHS), MEMORY), LENGTHS)
    expected, _ = additive(query, *additive.start(source))
    torch.testing.assert_close(fine(query, *fine.start(source))[0], expected, rtol=0, atol=1e-12)
