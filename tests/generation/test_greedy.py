"""Greedy search on Markov chains with results worked out by hand, and on real networks."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import Any

import pytest
import torch
from torch import Tensor

from dialog.config.schema import GenerationConfig
from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.generation.constraints import Constraints
from dialog.generation.responder import Responder
from dialog.generation.search import Replies
from dialog.generation.searches.greedy import Greedy
from dialog.models.contracts import Memory, State
from dialog.models.seq2seq import Seq2Seq
from dialog.models.state import Rows
from dialog.runs.evaluator import Evaluator

END, START, A, B, C = range(5)
LINE = {  # the greedy path is A B C END
    END: {END: 1.0},
    START: {A: 0.6, B: 0.3, END: 0.1},
    A: {B: 0.5, END: 0.4, C: 0.1},
    B: {C: 0.7, END: 0.2, A: 0.1},
    C: {END: 0.8, A: 0.15, B: 0.05},
}
SHORT = LINE | {START: {END: 0.9, A: 0.06, B: 0.04}, A: {END: 0.6, B: 0.4}}
ENDLESS = LINE | {A: {A: 0.9, END: 0.1}}


@dataclass(frozen=True)
class Nothing(Rows):
    """Empty memory and state: a chain depends on the last token only."""


@dataclass
class Chain:
    """Markov chain as a step: p(next token | last token)."""

    rows: dict[int, dict[int, float]]
    table: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.table = torch.tensor(
            [[self.rows[row].get(token, 0.0) for token in range(5)] for row in range(5)]
        ).log()

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        return self.table[tokens], state


def search(
    chain: dict[int, dict[int, float]], starts: list[int] | None = None, **limits: object
) -> tuple:
    greedy = Greedy(constraints=Constraints(end=END, **{"min_length": 0, **limits}))
    first = torch.tensor([starts or [START]]).T
    return columns(greedy(Chain(chain), first, Nothing(), Nothing(), first))


def columns(replies: Replies) -> tuple[list[list[int]], list[float], list[bool]]:
    """Return tokens, scores and whether it is finished, of the only reply to each source."""
    best = [reply for (reply,) in replies]
    return (
        [reply.tokens for reply in best],
        [reply.score for reply in best],
        [reply.finished for reply in best],
    )


def test_the_most_probable_token_at_each_step() -> None:
    (tokens,), (score,), (finished,) = search(LINE)
    assert tokens == [A, B, C]
    assert score == pytest.approx(math.log(0.6 * 0.5 * 0.7 * 0.8), abs=1e-6)
    assert finished


def test_rows_are_independent() -> None:
    tokens, scores, finished = search(LINE, [START, C, B, END])
    assert tokens == [[A, B, C], [], [C], []]
    assert scores == pytest.approx(
        [math.log(p) for p in (0.6 * 0.5 * 0.7 * 0.8, 0.8, 0.7 * 0.8, 1.0)], abs=1e-6
    )
    assert all(finished)


@pytest.mark.parametrize(
    ("min_length", "tokens", "probability"),
    [
        (0, [], 0.9),
        (1, [A], 0.06 * 0.6),
        (2, [A, B, C], 0.06 * 0.4 * 0.7 * 0.8),
        (3, [A, B, C], 0.06 * 0.4 * 0.7 * 0.8),
    ],
)
def test_no_end_before_min_length(min_length: int, tokens: list[int], probability: float) -> None:
    replies = search(SHORT, min_length=min_length)
    assert replies[0] == [tokens]
    assert replies[1] == pytest.approx([math.log(probability)], abs=1e-6)  # not renormalised
    assert replies[2] == [True]


@pytest.mark.parametrize("max_length", [1, 2, 7])
def test_decoding_stops_at_max_length(max_length: int) -> None:
    (tokens,), (score,), (finished,) = search(ENDLESS, max_length=max_length)
    assert tokens == [A] * max_length
    assert score == pytest.approx(math.log(0.6 * 0.9 ** (max_length - 1)), abs=1e-6)
    assert not finished


def test_the_end_token_may_follow_max_length_tokens() -> None:
    (tokens,), (score,), (finished,) = search(LINE, max_length=3)
    assert tokens == [A, B, C]
    assert finished
    assert score == pytest.approx(math.log(0.6 * 0.5 * 0.7 * 0.8), abs=1e-6)
    (tokens,), (score,), (finished,) = search(LINE, max_length=2)
    assert tokens == [A, B]
    assert not finished
    assert score == pytest.approx(math.log(0.6 * 0.5), abs=1e-6)


def test_special_tokens_are_masked_without_renormalisation() -> None:
    (tokens,), (score,), _ = search(LINE, special=[A])
    assert tokens == [B, C]
    assert score == pytest.approx(math.log(0.3 * 0.7 * 0.8), abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_laws_of_any_chain(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    table = torch.rand(5, 5, generator=generator).double().softmax(-1)
    chain = {row: dict(enumerate(table[row].tolist())) for row in range(5)}
    starts = [START, A, B, C] * 3
    replies = search(chain, starts, special=[START, C], min_length=2, max_length=6)
    for start, tokens, score, finished in zip(starts, *replies, strict=True):
        assert 2 <= len(tokens) <= 6
        assert not {START, C, END} & set(tokens)
        path = [start, *tokens, *([END] if finished else [])]
        assert score == pytest.approx(
            sum(math.log(chain[a][b]) for a, b in itertools.pairwise(path)), abs=1e-5
        )
        assert finished or len(tokens) == 6


@pytest.mark.parametrize(
    "limits",
    [{"min_length": 3, "max_length": 2}, {"min_length": -1}, {"min_length": 0, "max_length": 0}],
)
def test_invalid_lengths_are_rejected(limits: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="min_length"):
        Constraints(end=END, **limits)


# ------------------------------------------------------------------ compaction


@dataclass(frozen=True)
class Lengths(Rows):
    length: Tensor  # [N], number of tokens of each reply


@dataclass(frozen=True)
class Progress(Rows):
    target: Tensor  # [N], equal to the length in memory unless rows are mixed up
    length: Tensor  # [N]
    last: Tensor  # [N]


@dataclass
class Counting:
    """Emits A, B, C in turn up to the length of each row, and records the batch size of each
    call.
    """

    calls: list[int] = field(default_factory=list)

    def __call__(self, tokens: Tensor, memory: Memory, state: State) -> tuple[Tensor, State]:
        assert torch.equal(memory.length, state.target)
        unfinished = state.length <= state.target
        assert torch.equal(tokens[unfinished, 0], state.last[unfinished])
        self.calls.append(len(tokens))
        chosen = torch.where(
            state.length < memory.length, A + (state.target + state.length) % 3, END
        )
        # longer replies have lower logits, so that scores differ from row to row
        logits = torch.nn.functional.one_hot(chosen, 5) * (2.0 + 10.0 / memory.length.unsqueeze(-1))
        return logits.unsqueeze(1), Progress(state.target, state.length + 1, chosen)


def decode_lengths(
    lengths: list[int],
) -> tuple[list[list[int]], list[float], list[bool], list[int]]:
    step, target = Counting(), torch.tensor(lengths)
    first = torch.full((len(lengths),), START)
    state = Progress(target, torch.zeros_like(target), first)
    greedy = Greedy(constraints=Constraints(end=END, min_length=0, max_length=100))
    replies = greedy(step, first.unsqueeze(1), Lengths(target), state, first.unsqueeze(1))
    return *columns(replies), step.calls


def test_removing_finished_rows_changes_no_reply() -> None:
    lengths = [1, 90, 2, 3, 40, 120, 2, 2, 7, 1, 60, 5]
    together = decode_lengths(lengths)
    assert [len(tokens) for tokens in together[0]] == [min(length, 100) for length in lengths]
    assert together[2] == [length <= 100 for length in lengths]
    for row, length in enumerate(lengths):
        alone = decode_lengths([length])
        assert together[0][row] == alone[0][0]
        assert together[1][row] == pytest.approx(alone[1][0], abs=1e-9)
        assert together[2][row] == alone[2][0]


def test_finished_rows_leave_the_batch() -> None:
    calls = decode_lengths([1] * 31 + [64])[3]
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


@pytest.fixture(scope="module", params=FAMILIES)
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    """Random network with large weights, so that replies depend on the source and some of
    them end.
    """
    for seed in range(100):
        network = random_model(*FAMILIES[request.param], seed)
        tokens, _, finished = decode(network, sources())
        if len(set(map(tuple, tokens))) > 8 and 4 <= sum(finished) < len(finished) - 4:
            return network
    pytest.fail("no seed gives varied replies")


def random_model(encoder: dict[str, Any], decoder: dict[str, Any], seed: int) -> Seq2Seq:
    torch.manual_seed(seed)
    network = Seq2Seq(
        VOCABULARY,
        padding=PAD,
        embedding_size=8,
        encoder=encoder,
        decoder=decoder,
        tie_embeddings=False,
    )
    with torch.no_grad():
        for parameter in network.parameters():
            if parameter.dim() > 1:
                parameter.mul_(4)
    return network.double().eval()


def sources() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    source = torch.randint(3, VOCABULARY, (24, 9), generator=generator)
    for row in range(len(source)):
        source[row, 1 + row % 9 :] = PAD
    return source


BANNED = [PAD, BOS]


def decode(model: Seq2Seq, source: Tensor) -> tuple[list[list[int]], list[float], list[bool]]:
    memory, state = model.start(source, source != PAD)
    first = torch.full((len(source), 1), BOS)
    greedy = Greedy(constraints=Constraints(end=EOS, special=BANNED, min_length=1, max_length=15))
    return columns(greedy(model.step, first, memory, state, source))


@torch.no_grad()
def decode_without_state(model: Seq2Seq, source: Tensor) -> tuple[list[int], bool]:
    """Decode one source without padding; each token takes a forward pass over the whole
    response.
    """
    source = source[source != PAD].unsqueeze(0)
    tokens: list[int] = []
    while True:
        scores = model(source, source != PAD, torch.tensor([[BOS, *tokens]]))[0, -1].clone()
        scores[BANNED + ([EOS] if not tokens else [])] = -torch.inf
        token = int(scores.argmax())
        if token == EOS:
            return tokens, True
        if len(tokens) == 15:
            return tokens, False
        tokens.append(token)


def test_steps_agree_with_full_forward_passes(model: Seq2Seq) -> None:
    source = sources()
    tokens, _, finished = decode(model, source)
    assert [decode_without_state(model, row) for row in source] == list(
        zip(tokens, finished, strict=True)
    )


def test_score_equals_the_likelihood_of_the_evaluation(model: Seq2Seq) -> None:
    source = sources()
    tokens, scores, finished = decode(model, source)
    responder = Responder(model, None, 99, GenerationConfig(max_length=15))  # needs no tokenizer
    pairs = [
        (row[row != PAD].tolist(), [BOS, *reply, EOS])
        for row, reply in zip(source, tokens, strict=True)
    ]
    references = Evaluator(responder, {"name": "greedy"}, 1).score(
        collate(pairs, range(len(pairs)))
    )
    rows = [row for row, ended in enumerate(finished) if ended]
    assert [scores[row] for row in rows] == pytest.approx(
        [-references[row].nll for row in rows], abs=1e-5
    )


def test_batched_equals_single(model: Seq2Seq) -> None:
    source = sources()
    together = decode(model, source)
    for row, ids in enumerate(source):
        alone = decode(model, ids[ids != PAD].unsqueeze(0))
        assert alone[0][0] == together[0][row]
        assert alone[1][0] == pytest.approx(together[1][row], abs=1e-5)
        assert alone[2][0] == together[2][row]


def test_an_empty_batch_has_no_replies(model: Seq2Seq) -> None:
    assert decode(model, sources()[:0]) == ([], [], [])
