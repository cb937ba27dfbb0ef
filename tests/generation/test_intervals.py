"""On a GPU a search reads only now and then which rows have ended; that changes no response."""

from __future__ import annotations

import pytest
from chains import END, START, Sourced
from torch import Tensor

from dialog.generation import search as search_module
from dialog.generation.constraints import Constraints
from dialog.generation.search import Search
from dialog.generation.searches.beam import Beam
from dialog.generation.searches.beam_variants import DelayedBeam, DiverseBeam
from dialog.generation.searches.contrastive import Contrastive
from dialog.generation.searches.greedy import Greedy
from dialog.generation.searches.hypotheses import BeamSettings
from dialog.generation.searches.sampling import Sampling
from dialog.models.contracts import Memory, State

LIMITS = Constraints(end=END, special=(START,), min_length=1, max_length=10, no_repeat_ngram=2)
FOUR = BeamSettings(width=4, candidates=3)
SEARCHES = [
    Greedy(constraints=LIMITS),
    Sampling(constraints=LIMITS, candidates=2),
    Contrastive(constraints=LIMITS, top_k=3),
    Beam(FOUR, constraints=LIMITS),
    DiverseBeam(FOUR, constraints=LIMITS, groups=2),
    DelayedBeam(FOUR, constraints=LIMITS),
]


@pytest.mark.parametrize("search", SEARCHES, ids=lambda search: type(search).__name__)
def test_the_interval_changes_no_response(monkeypatch: pytest.MonkeyPatch, search: Search) -> None:
    chains = Sourced.draw(8, range(40))
    expected = chains.search(search)
    assert len({len(best.tokens) for best, *_ in expected}) > 3
    for interval in (3, 8, 100):
        monkeypatch.setitem(search_module.INTERVALS, "cpu", interval)
        assert chains.search(search) == expected


def test_no_token_behind_the_end_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shown(Sourced):
        shows_tokens = True

        def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
            read.append(int(tokens))
            return super().__call__(tokens, memory, state)

    monkeypatch.setitem(search_module.INTERVALS, "cpu", 8)
    lengths = []
    for seed in range(8):
        read: list[int] = []
        ((reply,),) = Shown.draw(8, [seed]).search(Greedy(constraints=LIMITS))
        assert read == [START, *reply.tokens]
        lengths.append(len(read))
    assert min(lengths) < 5
