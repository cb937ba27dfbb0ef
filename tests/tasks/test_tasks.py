"""Tasks that only the right mechanism solves, learned in seconds by tiny networks in a plain loop;
seeds are fixed.

The whole table, by the package's own training and evaluation, is benchmarks/tasks.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from dialog.analysis.attention.batch_maps import Examples
from dialog.analysis.attention.statistics import statistics
from dialog.analysis.attention.token_kinds import TokenKinds
from dialog.config.components import Component
from dialog.data.corpora.builtin.synthetic_tasks import SyntheticTasks
from dialog.models.seq2seq import Seq2Seq

PADDING, BEGIN, END = range(3)
ADDITIVE: Component = {"name": "additive", "size": 32}
BILINEAR: Component = {"name": "bilinear"}
NONE: Component = {"name": "none"}
VOCABULARY: Component = {"name": "vocabulary"}


class Data(NamedTuple):
    """A split as token ids, one token per word."""

    source: Tensor  # [N, S]
    target: Tensor  # [N, T]
    # [N, T - 2], where in the source each word of the response stands; -1 after the last
    places: Tensor


class Result(NamedTuple):
    """Fractions of exact responses and of correct alignments on the test split."""

    exact: float
    aligned: float
    statistics: dict[str, Any]  # of the mean of all heads


def splits(corpus: SyntheticTasks) -> tuple[int, Data, Data]:
    """Return the size of the vocabulary, the training split and the test split."""
    number: dict[str, int] = {}

    def ids(words: Sequence[str]) -> list[int]:
        return [number.setdefault(word, 3 + len(number)) for word in words]

    found = []
    for split in ("train", "test"):
        rows: list[list[list[int]]] = [[], [], []]
        for dialogue in corpus.dialogues(split):
            context, response = (turn.text.split()[1:] for turn in dialogue.turns)
            starts = [copy.source for copy in dialogue.turns[1].copies]
            rows[0].append([*ids(context), END])
            rows[1].append([BEGIN, *ids(response), END])
            rows[2].append([dialogue.turns[0].text[:start].count(" ") - 1 for start in starts])
        padded = (
            nn.utils.rnn.pad_sequence(
                [torch.tensor(row) for row in each], batch_first=True, padding_value=padding
            )
            for each, padding in zip(rows, (PADDING, PADDING, -1), strict=True)
        )
        found.append(Data(*padded))
    return 3 + len(number), found[0], found[1]


def learn(
    corpus: SyntheticTasks,
    *,
    attention: Component = ADDITIVE,
    head: Component = VOCABULARY,
    size: int = 32,
    steps: int,
    learning_rate: float = 1e-2,
    alike: bool = False,
) -> Result:
    """Train on the training split, in batches of similar lengths if ``alike``, and measure on the
    test split.
    """
    vocabulary, train, test = splits(corpus)
    torch.manual_seed(0)
    model = Seq2Seq(
        vocabulary,
        padding=PADDING,
        embedding_size=size,
        encoder={"name": "lstm", "size": size},
        decoder={"name": "lstm", "size": size, "attention": attention},
        head=head,
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, learning_rate, total_steps=steps, pct_start=0.1
    )
    order = (train.source != PADDING).sum(1).argsort()
    for _ in range(steps):
        start = torch.randint(len(order) - 64, (1,)) if alike else 0
        rows = order[start : start + 64] if alike else torch.randint(len(order), (64,))
        source, target = train.source[rows], train.target[rows]
        source = source[:, : int((source != PADDING).sum(1).max())]
        logits = model(source, source != PADDING, target[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    return measure(model.eval(), test)


@torch.no_grad()
def measure(model: Seq2Seq, test: Data) -> Result:
    """Compare greedy responses with the reference, and the attention's maxima with the gold
    alignment.
    """
    seen: list[Tensor] = []
    memory, state = model.start(test.source, test.source != PADDING)
    output = test.target[:, :1]
    for _ in range(test.target.shape[1] - 1):
        logits, state = model.step(output[:, -1:], memory, state)
        output = torch.cat([output, logits[:, -1:].argmax(-1)], 1)
    exact = ((output == test.target) | (test.target == PADDING)).all(1)
    model(
        test.source,
        test.source != PADDING,
        test.target[:, :-1],
        lambda _, weights: seen.append(weights),
    )
    if not seen:
        return Result(exact.double().mean().item(), 0.0, {})
    argmax = seen[-1].mean(1).argmax(-1)[:, : test.places.shape[1]]  # [N, T - 2]
    aligned = test.places >= 0
    gold = [
        {target: place for target, place in enumerate(row) if place >= 0}
        for row in test.places.tolist()
    ]
    kinds = TokenKinds(torch.zeros(model.arguments["vocabulary"], dtype=torch.bool))
    rows = statistics(model, [Examples(test.source, test.target, gold=gold)], kinds)["rows"]
    (mean,) = (row for row in rows if row["module"] == "mean")
    return Result(
        exact.double().mean().item(), (argmax == test.places)[aligned].double().mean().item(), mean
    )


def test_attention_learns_to_reverse_and_to_align() -> None:
    found = learn(SyntheticTasks(task="reverse", symbols=12, lengths=[3, 6], size=4000), steps=400)
    assert found.exact > 0.99
    assert found.aligned > 0.99
    assert found.statistics["alignment_accuracy"] == pytest.approx(found.aligned)
    assert found.statistics["alignment_error_rate"] < 0.01
    # the end token's row included, which has no alignment
    assert found.statistics["sharpness"] > 0.6


@pytest.mark.endurance
def test_a_pointer_sorts() -> None:
    corpus = SyntheticTasks(task="sort", symbols=12, lengths=[3, 5], size=8000)
    found = learn(corpus, head={"name": "pointer"}, steps=700)
    assert found.exact > 0.99
    assert found.aligned > 0.99


@pytest.mark.endurance
def test_only_a_pointer_generator_copies_rare_words() -> None:
    corpus = SyntheticTasks(task="rare", values=400, lengths=[2, 4], size=4000)
    copying = learn(corpus, head={"name": "pointer_generator"}, steps=400)
    writing = learn(corpus, head=VOCABULARY, steps=400)
    assert copying.exact > 0.9
    assert writing.exact < 0.3


@pytest.mark.endurance
def test_attention_recalls_over_190_tokens() -> None:
    corpus = SyntheticTasks(
        task="recall", symbols=6, values=20, lengths=[1, 190], test_lengths=[190, 190], size=8000
    )
    attending, remembering = (
        learn(corpus, attention=each, size=48, steps=500, learning_rate=5e-3, alike=True)
        for each in (BILINEAR, NONE)
    )
    assert attending.exact > 0.7
    assert remembering.exact < 0.4
