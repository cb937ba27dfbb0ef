"""Contrastive search against its formula, token by token."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from chains import END, START, Chain

from dialog.generation.constraints import Constraints
from dialog.generation.searches.contrastive import Contrastive
from dialog.generation.searches.greedy import Greedy

VOCABULARY, TOP_K = 7, 3


def by_formula(chain: Chain, alpha: float, longest: int) -> list[int]:
    """Decode with argmax_v (1 - alpha) p(v) - alpha max_j cos(h_v, h_j); the vectors h of a chain
    are its logits.
    """
    before, last, tokens = START, START, list[int]()
    seen = [chain.logits[before, last].float()]
    while True:
        logits = chain.logits[before, last].float()
        scores = logits.log_softmax(-1)
        scores[START] = -torch.inf
        best, ids = scores.topk(TOP_K)
        values = []
        for log_probability, token in zip(best, ids.tolist(), strict=True):
            similar = max(
                float(F.cosine_similarity(chain.logits[last, token].float(), vector, 0))
                for vector in seen
            )
            values.append((1 - alpha) * float(log_probability.exp()) - alpha * similar)
        token = int(ids[int(torch.tensor(values).argmax())])
        if token == END or len(tokens) == longest:
            return tokens
        tokens.append(token)
        seen.append(chain.logits[last, token].float())
        before, last = last, token


@pytest.mark.parametrize("alpha", [0.2, 0.6, 0.9])
def test_choices_follow_the_formula(alpha: float) -> None:
    constraints = Constraints(end=END, special=(START,), min_length=0, max_length=8)
    search = Contrastive(constraints=constraints, top_k=TOP_K, alpha=alpha)
    chains = [Chain.draw(VOCABULARY, seed) for seed in range(20)]
    responses = [chain.search(search)[0][0].tokens for chain in chains]
    assert responses == [by_formula(chain, alpha, 8) for chain in chains]
    greedy = [chain.search(Greedy(constraints=constraints))[0][0].tokens for chain in chains]
    assert responses != greedy
    without = Contrastive(constraints=constraints, top_k=TOP_K, alpha=0.0)
    assert [chain.search(without)[0][0].tokens for chain in chains] == greedy
