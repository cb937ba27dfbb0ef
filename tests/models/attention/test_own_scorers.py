"""Scorers of a user's own module, and components that cannot be built."""

from typing import Any

import pytest
import torch
from attention_cases import LENGTHS, MEMORY, QUERY, STEPS, Draw, Stir, encoded, seen_by
from torch import Tensor, nn

from dialog.config.trust import trusted
from dialog.errors import UserError
from dialog.models.attention import Attention, build_attention


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
    """Not a module: attends to the first token."""

    def keys(self, states: Tensor) -> Tensor:
        return states[..., :1]

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        places = torch.arange(keys.shape[1]).to(keys)
        return (-1000 * places).expand(len(query), query.shape[1], -1)


class Final(First):
    """Needs the mask: attends to the last real token."""

    needs = frozenset({"mask"})

    def __call__(self, query: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        places = mask.cumsum(1).to(keys)
        return (1000 * places).unsqueeze(1).expand(-1, query.shape[1], -1)


class Next(First):
    """Needs coverage: attends to the first token without earlier attention."""

    needs = frozenset({"coverage"})

    def __call__(self, query: Tensor, keys: Tensor, coverage: Tensor) -> Tensor:
        assert query.shape[1] == 1
        return (super().__call__(query, keys) - 1e6 * coverage.unsqueeze(1)).to(keys)


class Two(First):
    """Two heads, on the first and on the last token, joined by their difference."""

    needs = frozenset({"mask", "last"})

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
    """Has keys, but cannot be called."""

    def keys(self, states: Tensor) -> Tensor:
        return states

    def forward(self, query: Tensor, keys: Tensor) -> Tensor:
        return query @ keys.transpose(1, 2)


def own(scorer: type) -> Attention:
    return Attention(
        trusted({"name": f"{__name__}.{scorer.__name__}"}), query_size=QUERY, key_size=MEMORY
    )


def test_own_module_is_trained(draw: Draw, stir: Stir) -> None:
    attention = stir(own(Near))
    query, states, shown = draw(3, STEPS, QUERY), draw(3, 5, MEMORY), []
    contexts, _ = attention(
        query, *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention)
    )
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
def test_scorer_gets_the_inputs_that_it_needs(
    scorer: type, places: list[list[int]], draw: Draw
) -> None:
    attention, states, shown = own(scorer), draw(3, 5, MEMORY), []
    contexts, _ = attention(
        draw(3, 4, QUERY), *attention.start(encoded(states, LENGTHS)), seen_by(shown, attention)
    )
    assert shown[0].argmax(-1)[:, 0].tolist() == places
    expected = states[torch.arange(3).unsqueeze(1), torch.tensor(places)]
    torch.testing.assert_close(contexts, expected, rtol=0, atol=1e-12)


def test_own_scorer_with_heads_and_state(draw: Draw) -> None:
    attention, states, shown = own(Two), draw(3, 5, MEMORY), []
    memory, state = attention.start(encoded(states, LENGTHS))
    contexts, state = attention(draw(3, 4, QUERY), memory, state, seen_by(shown, attention))
    assert shown[0].shape == (3, 2, 4, 5)
    finals = states[torch.arange(3), torch.tensor(LENGTHS) - 1]
    torch.testing.assert_close(contexts, (2 * finals - states[:, 0]).unsqueeze(1).expand(-1, 4, -1))
    assert state.last.tolist() == [[0.5, 0, 0, 0, 0.5], [0.5, 0.5, 0, 0, 0], [1, 0, 0, 0, 0]]
    assert torch.equal(state.coverage, 4 * state.last)


class Needy(First):
    needs = frozenset({"mask", "turns"})


class Summed(First):
    """Forgets the dimension of the queries."""

    def __call__(self, query: Tensor, keys: Tensor) -> Tensor:
        return super().__call__(query, keys).sum(1)


def test_scores_of_a_wrong_shape_name_the_expected_shape(draw: Draw) -> None:
    attention = own(Summed)
    with pytest.raises(UserError) as raised:
        attention(draw(3, 4, QUERY), *attention.start(encoded(draw(3, 5, MEMORY), LENGTHS)))
    assert (
        str(raised.value)
        == f"attention {__name__}.Summed: scores have the shape [3, 5]; return [B, T, S], here [3,"
        " 4, 5]"
    )


@pytest.mark.parametrize(
    ("scorer", "message"),
    [
        (Keyless, "Keyless: no method keys(states)"),
        (Mute, "Mute: cannot be called with (query, keys)"),
    ],
)
def test_class_that_is_no_scorer_is_one_clear_line(scorer: type, message: str) -> None:
    with pytest.raises(TypeError) as raised:
        own(scorer)
    assert message in str(raised.value)
    assert "see AttentionScorer" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_unsupported_need_is_named() -> None:
    with pytest.raises(
        ValueError,
        match=r"^Needy\.needs: unsupported input turns; supported: coverage, last, mask$",
    ):
        own(Needy)
    inner = trusted({"name": f"{__name__}.Final"})
    with pytest.raises(UserError, match=r"Final\.needs: unsupported input mask; supported: none$"):
        build_attention(
            {"name": "local", "size": 2, "scorer": inner}, query_size=QUERY, key_size=MEMORY
        )


# ------------------------------------------------------------------ invalid components


@pytest.mark.parametrize(
    ("component", "message"),
    [
        (
            {"name": "dot"},
            "dot: the query has size 3, the source 4; make them equal or use bilinear",
        ),
        ({"name": "scaled_dot"}, "scaled_dot: the query has size 3, the source 4"),
        (
            {"name": "local", "size": 2, "scorer": {"name": "dot"}},
            "dot: the query has size 3, the source 4",
        ),
        (
            {"name": "interactive", "scorer": {"name": "scaled_dot"}},
            "scaled_dot: the query has size 3, the source 4",
        ),
        (
            {"name": "location", "size": 2, "width": 4},
            "location: width must be odd and at least 1, not 4",
        ),
        (
            {"name": "location", "size": 2, "width": 0},
            "location: width must be odd and at least 1, not 0",
        ),
        (
            {"name": "location", "size": 2, "width": -1},
            "location: width must be odd and at least 1, not -1",
        ),
        (
            {"name": "location", "size": 2, "filters": 0},
            "location: filters must be at least 1, not 0",
        ),
        ({"name": "local", "size": 2, "window": 0}, "local: window must be at least 1, not 0"),
        (
            {"name": "local", "size": 2, "scorer": {"name": "location", "size": 2}},
            "unknown scorer 'location'",
        ),
        ({"name": "interactive"}, "interactive: missing required argument: scorer"),
        (
            {"name": "multi_head", "heads": 2, "join": "sum"},
            "join must be one of concatenation, mean, max, not 'sum'",
        ),
        (
            {"name": "multi_head", "heads": 3},
            "multi_head: size 4 and the source's size 4 must be multiples of 3 heads",
        ),
        (
            {"name": "multi_head", "heads": 3, "size": 6},
            "size 6 and the source's size 4 must be multiples of 3 heads",
        ),
        (
            {"name": "multi_head", "heads": 3, "size": 4, "join": "max"},
            "size 4 and the source's size 4 must be multiples",
        ),
        ({"name": "multi_head", "heads": 0}, "must be multiples of 0 heads"),
        ({"name": "aditive", "size": 2}, "unknown attention 'aditive'; did you mean 'additive'?"),
        ({"name": "none", "size": 2}, "none: unknown argument 'size'"),
    ],
)
def test_invalid_component_is_one_clear_line(component: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as raised:
        build_attention(component, query_size=QUERY, key_size=MEMORY)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)
