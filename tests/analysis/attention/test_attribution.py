"""Erasure and gradients of models whose answers are known."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from dialog.analysis.attention.attribution import erasure, gradient
from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.models.contracts import AttentionHook
from dialog.models.inference.ensemble import Ensemble
from dialog.models.seq2seq import Seq2Seq

READ, VOCABULARY = 9, 12
TRANSFORMER = {"name": "transformer", "heads": 2, "feed_forward_size": 12, "layers": 1}
ADDITIVE = {"name": "additive", "size": 5}
LSTM = {"name": "lstm", "size": 8}
FAMILIES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (LSTM, {**LSTM, "attention": ADDITIVE}),
    (LSTM, {"name": "lstm_luong", "size": 8, "attention": {"name": "multi_head", "heads": 2}}),
    (TRANSFORMER, TRANSFORMER),
]


class OneToken(nn.Module):
    """Model that reads a single token of the source, and attends to it or to the first token."""

    turn_tokens, needs_turns = (4, 5), False

    def __init__(self, *, honest: bool) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(VOCABULARY, 1)
        self.decoder = nn.ModuleDict({"attention": nn.Identity()})
        self.honest = honest
        nn.init.zeros_(self.source_embedding.weight)
        nn.init.ones_(self.source_embedding.weight[READ])

    @property
    def members(self) -> tuple[nn.Module, ...]:
        return (self,)

    def start(
        self, source: Tensor, _: Tensor, __: AttentionHook | None = None
    ) -> tuple[Tensor, Tensor]:
        return source, self.source_embedding(source).sum((1, 2))

    def decode(self, target: Tensor, source: Tensor, _: Tensor, hook: AttentionHook) -> None:
        weights = (
            (source == READ)
            if self.honest
            else torch.arange(source.shape[1]).expand_as(source) == 0
        )
        hook(
            self.decoder["attention"],
            weights.float()[:, None, None].expand(-1, 1, target.shape[1], -1),
        )

    def step(self, target: Tensor, _: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        scores = torch.arange(VOCABULARY) * state[:, None, None]
        return scores.expand(-1, target.shape[1], -1), state

    def forward(self, source: Tensor, mask: Tensor, target: Tensor) -> Tensor:
        return self.step(target, *self.start(source, mask))[0]


@pytest.mark.parametrize(("honest", "correlation"), [(True, 1.0), (False, -1 / 4)])
def test_a_model_that_reads_one_token(honest: bool, correlation: float) -> None:
    model: Any = OneToken(honest=honest)
    source, target = torch.tensor([4, 7, READ, 8, 2]), torch.tensor([1, 6, 11, 2])
    for measure in (erasure, gradient):
        assert (
            measure(model, source, target, rows=2).bool().tolist()
            == [[False, False, True, False, False]] * 3
        )
    example = Examples(source.unsqueeze(0), target.unsqueeze(0))
    kinds = TokenKinds(torch.zeros(VOCABULARY, dtype=torch.bool))
    result = statistics(model, [example], kinds, sample=[example])
    rows = {row["module"]: row for row in result["rows"]}
    assert {key: rows["decoder.attention"][key] for key in ("erasure", "gradient")} == {
        "erasure": pytest.approx(correlation),
        "gradient": pytest.approx(correlation),
    }
    assert result["sample"] == {"examples": 1, "erasure_and_gradient": pytest.approx(1)}
    assert "erasure" not in rows["uniform"]


def networks(*families: tuple[dict[str, Any], dict[str, Any]]) -> Iterator[Seq2Seq]:
    for encoder, decoder in families:
        yield (
            Seq2Seq(VOCABULARY, padding=0, embedding_size=8, encoder=encoder, decoder=decoder)
            .double()
            .eval()
        )


@pytest.mark.parametrize(
    "family", [0, 1, 2, None], ids=["additive", "luong", "transformer", "ensemble"]
)
def test_both_equal_their_definitions(family: int | None) -> None:
    """Erasure by one source at a time; gradient x input by scaling one embedding, of all networks
    of an ensemble.
    """
    torch.manual_seed(0)
    model = (
        Ensemble(list(networks(*FAMILIES))) if family is None else next(networks(FAMILIES[family]))
    )
    source, target = torch.tensor([4, 7, 8, 2]), torch.tensor([1, 6, 11, 2])
    changes, products = (
        erasure(model, source, target, rows=3),
        gradient(model, source, target, rows=2),
    )
    step = 1e-5

    def log_p(tokens: Tensor, place: int = 0, factor: float = 1.0) -> Tensor:
        def scaled(_: nn.Module, __: tuple[Tensor, ...], output: Tensor) -> Tensor:
            factors = torch.ones(len(tokens), 1, dtype=torch.double)
            factors[place] = factor
            return output * factors

        hooks = [
            network.source_embedding.register_forward_hook(scaled) for network in model.members
        ]
        memory, state = model.start(tokens.unsqueeze(0), tokens.unsqueeze(0) != 0)
        for hook in hooks:
            hook.remove()
        logits = model.step(target[:-1].unsqueeze(0), memory, state)[0][0]
        return logits.log_softmax(-1)[torch.arange(3), target[1:]]

    for place in range(4):
        shorter = torch.cat([source[:place], source[place + 1 :]])
        torch.testing.assert_close(changes[:, place], (log_p(source) - log_p(shorter)).abs())
        product = (log_p(source, place, 1 + step) - log_p(source, place, 1 - step)) / (2 * step)
        torch.testing.assert_close(products[:, place], product.abs(), rtol=1e-5, atol=1e-9)
