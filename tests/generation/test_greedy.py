"""Greedy search against Markov chains that can be worked out by hand, and against real networks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.generation.greedy import Greedy
from dialog.generation.responder import Responder
from dialog.models.contracts import Memory, State
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import Rows
from dialog.runs.evaluator import Evaluator

END, START, A, B, C = range(5)
LINE = {  # the likeliest way is A B C END
    END: {END: 1.0},
    START: {A: 0.6, B: 0.3, END: 0.1},
    A: {B: 0.5, END: 0.4, C: 0.1},
    B: {C: 0.7, END: 0.2, A: 0.1},
    C: {END: 0.8, A: 0.15, B: 0.05},
}
SHY = LINE | {START: {END: 0.9, A: 0.06, B: 0.04}, A: {END: 0.6, B: 0.4}}
TALKER = LINE | {A: {A: 0.9, END: 0.1}}


@dataclass(frozen=True)
class Nothing(Rows):
    """A chain remembers nothing."""


@dataclass
class Chain:
    """A Markov chain as a step: p(next) depends on the last token alone."""

    rows: dict[int, dict[int, float]]
    table: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.table = torch.tensor([[self.rows[row].get(token, 0.0) for token in range(5)] for row in range(5)]).log()

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        return self.table[tokens], state


def search(chain: dict[int, dict[int, float]], starts: list[int] | None = None, **limits: object) -> tuple:
    greedy = Greedy(end=END, **{"min_length": 0, **limits})
    return tuple(greedy(Chain(chain), torch.tensor([starts or [START]]).T, Nothing(), Nothing()))


def test_the_likeliest_token_each_time() -> None:
    (tokens,), (score,), (finished,) = search(LINE)
    assert tokens == [A, B, C]
    assert score == pytest.approx(math.log(0.6 * 0.5 * 0.7 * 0.8), abs=1e-6)
    assert finished


def test_each_row_goes_its_own_way() -> None:
    tokens, scores, finished = search(LINE, [START, C, B, END])
    assert tokens == [[A, B, C], [], [C], []]
    assert scores == pytest.approx([math.log(each) for each in (0.6 * 0.5 * 0.7 * 0.8, 0.8, 0.7 * 0.8, 1.0)], abs=1e-6)
    assert all(finished)


@pytest.mark.parametrize(
    ("least", "tokens", "probability"),
    [
        (0, [], 0.9),
        (1, [A], 0.06 * 0.6),
        (2, [A, B, C], 0.06 * 0.4 * 0.7 * 0.8),
        (3, [A, B, C], 0.06 * 0.4 * 0.7 * 0.8),
    ],
)
def test_no_end_before_min_length(least: int, tokens: list[int], probability: float) -> None:
    found = search(SHY, min_length=least)
    assert found[0] == [tokens]
    assert found[1] == pytest.approx([math.log(probability)], abs=1e-6)  # of the model itself, not renormalised
    assert found[2] == [True]


@pytest.mark.parametrize("most", [1, 2, 7])
def test_max_length_stops(most: int) -> None:
    (tokens,), (score,), (finished,) = search(TALKER, max_length=most)
    assert tokens == [A] * most
    assert score == pytest.approx(math.log(0.6 * 0.9 ** (most - 1)), abs=1e-6)
    assert not finished


def test_the_end_may_follow_the_last_token_allowed() -> None:
    (tokens,), (score,), (finished,) = search(LINE, max_length=3)
    assert tokens == [A, B, C]
    assert finished
    assert score == pytest.approx(math.log(0.6 * 0.5 * 0.7 * 0.8), abs=1e-6)
    (tokens,), (score,), (finished,) = search(LINE, max_length=2)
    assert tokens == [A, B]
    assert not finished
    assert score == pytest.approx(math.log(0.6 * 0.5), abs=1e-6)


def test_what_is_banned_is_never_said_and_keeps_its_probability() -> None:
    (tokens,), (score,), _ = search(LINE, banned=[A])
    assert tokens == [B, C]
    assert score == pytest.approx(math.log(0.3 * 0.7 * 0.8), abs=1e-6)


@pytest.mark.parametrize("seed", range(20))
def test_laws_of_any_chain(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(5, 5, generator=generator).double().softmax(-1)
    chain = {row: dict(enumerate(table[row].tolist())) for row in range(5)}
    starts = [START, A, B, C] * 3
    found = search(chain, starts, banned=[START, C], min_length=2, max_length=6)
    for start, tokens, score, finished in zip(starts, *found, strict=True):
        assert 2 <= len(tokens) <= 6
        assert not {START, C, END} & set(tokens)
        way = [start, *tokens, *([END] if finished else [])]
        assert score == pytest.approx(sum(math.log(chain[a][b]) for a, b in itertools.pairwise(way)), abs=1e-5)
        assert finished or len(tokens) == 6


@pytest.mark.parametrize(
    "limits", [{"min_length": 3, "max_length": 2}, {"min_length": -1}, {"min_length": 0, "max_length": 0}]
)
def test_lengths_that_make_no_sense_are_refused(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="min_length"):
        Greedy(end=END, **limits)


# ------------------------------------------------------------------ compaction


@dataclass(frozen=True)
class Wanted(Rows):
    length: Tensor  # [N], how much each row has to say


@dataclass(frozen=True)
class Said(Rows):
    wanted: Tensor  # [N], the same, so that a mixed-up row shows
    length: Tensor  # [N]
    last: Tensor  # [N]


@dataclass
class Counting:
    """Says A, B, C in turn until a row's own length is reached, and notes how many rows it was called with."""

    calls: list[int] = field(default_factory=list)

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        assert torch.equal(memory.length, state.wanted)
        going = state.length <= state.wanted  # those that are done may be told anything
        assert torch.equal(tokens[going, 0], state.last[going])
        self.calls.append(len(tokens))
        said = torch.where(state.length < memory.length, A + (state.wanted + state.length) % 3, END)
        # the longer a row, the less sure it is: scores differ from row to row
        logits = torch.nn.functional.one_hot(said, 5) * (2.0 + 10.0 / memory.length.unsqueeze(-1))
        return logits.unsqueeze(1), Said(state.wanted, state.length + 1, said)


def count(lengths: list[int], most: int = 100) -> tuple[list[list[int]], list[float], list[bool], list[int]]:
    step, wanted = Counting(), torch.tensor(lengths)
    first = torch.full((len(lengths),), START)
    state = Said(wanted, torch.zeros_like(wanted), first)
    found = Greedy(end=END, min_length=0, max_length=most)(step, first.unsqueeze(1), Wanted(wanted), state)
    return found.tokens, found.scores, found.finished, step.calls


def test_leaving_the_batch_changes_nothing() -> None:
    lengths = [1, 90, 2, 3, 40, 120, 2, 2, 7, 1, 60, 5]
    together = count(lengths)
    assert [len(tokens) for tokens in together[0]] == [min(length, 100) for length in lengths]
    assert together[2] == [length <= 100 for length in lengths]
    for row, length in enumerate(lengths):
        alone = count([length])
        assert together[0][row] == alone[0][0]
        assert together[1][row] == pytest.approx(alone[1][0], abs=1e-9)
        assert together[2][row] == alone[2][0]


def test_finished_rows_cost_nothing_for_long() -> None:
    calls = count([1] * 31 + [64])[3]
    assert calls[0] == 32
    assert calls[-1] == 1
    assert sum(calls) < 32 * 3 + 64
    assert calls == sorted(calls, reverse=True)


# ------------------------------------------------------------------ real networks


VOCABULARY = 13
FAMILIES = {
    "lstm": (
        {"name": "lstm", "size": 10},
        {"name": "lstm", "size": 8, "layers": 2, "attention": {"name": "additive", "size": 6}},
    ),
    "transformer": (
        {"name": "transformer", "layers": 2, "heads": 2, "feed_forward_size": 16},
        {"name": "transformer", "layers": 2, "heads": 4, "feed_forward_size": 16},
    ),
}


@pytest.fixture(params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    """Random, with weights so large that what it says depends on the source and now and then comes to an end."""
    for seed in range(100):
        made = random_model(*FAMILIES[request.param], seed)
        tokens, _, finished = run(made, sources())
        if len({tuple(each) for each in tokens}) > 8 and 4 <= sum(finished) < len(finished) - 4:
            return made
    pytest.fail("no seed gives a network that has something to say")


def random_model(encoder: dict[str, Any], decoder: dict[str, Any], seed: int) -> Seq2Seq:
    torch.manual_seed(seed)
    made = Seq2Seq(VOCABULARY, padding=PAD, embedding_size=8, encoder=encoder, decoder=decoder, tie_embeddings=False)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return made.double().eval()


def sources() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(3, VOCABULARY, (24, 9), generator=generator)
    for row in range(len(source)):
        source[row, 1 + row % 9 :] = PAD
    return source


BANNED = [PAD, BOS]


def run(model: Seq2Seq, source: Tensor) -> tuple[list[list[int]], list[float], list[bool]]:
    memory, state = model.start(source, source != PAD)
    first = torch.full((len(source), 1), BOS)
    found = Greedy(end=EOS, banned=BANNED, min_length=1, max_length=15)(model.step, first, memory, state)
    return found.tokens, found.scores, found.finished


@torch.no_grad()
def whole_passes(model: Seq2Seq, source: Tensor) -> tuple[list[int], bool]:
    """One source, without padding; the whole response is read anew for each token."""
    source = source[source != PAD].unsqueeze(0)
    said: list[int] = []
    while True:
        scores = model(source, source != PAD, torch.tensor([[BOS, *said]]))[0, -1].clone()
        scores[BANNED + ([EOS] if not said else [])] = -torch.inf
        token = int(scores.argmax())
        if token == EOS:
            return said, True
        if len(said) == 15:
            return said, False
        said.append(token)


def test_steps_agree_with_whole_passes(model: Seq2Seq) -> None:
    source = sources()
    tokens, _, finished = run(model, source)
    assert [whole_passes(model, row) for row in source] == list(zip(tokens, finished, strict=True))


def test_score_is_what_the_evaluation_gives_the_response(model: Seq2Seq) -> None:
    source = sources()
    tokens, scores, finished = run(model, source)
    responder = Responder(model, None, 99, 1, 15)  # no text is read
    pairs = [(row[row != PAD].tolist(), [BOS, *said, EOS]) for row, said in zip(source, tokens, strict=True)]
    scored = Evaluator(responder, {"name": "greedy"}, 1).score(collate(pairs, range(len(pairs))))
    done = [place for place, each in enumerate(finished) if each]
    assert [scores[place] for place in done] == pytest.approx([-scored[place].nll for place in done], abs=1e-5)


def test_a_batch_says_what_each_row_says_alone(model: Seq2Seq) -> None:
    source = sources()
    together = run(model, source)
    for place, row in enumerate(source):
        alone = run(model, row[row != PAD].unsqueeze(0))
        assert alone[0][0] == together[0][place]
        assert alone[1][0] == pytest.approx(together[1][place], abs=1e-5)
        assert alone[2][0] == together[2][place]


def test_no_rows_no_responses(model: Seq2Seq) -> None:
    source = sources()[:0]
    assert run(model, source) == ([], [], [])
