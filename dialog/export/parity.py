"""Comparison of an exported model with its network: log-probabilities of given tokens, and greedy
responses.

Shapes: B rows, S source tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

import math
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, SELF, SPECIAL_TOKENS
from dialog.export.format import Exported, Tokens, learned_lengths, token_scores
from dialog.models.seq2seq import Seq2Seq

BATCHES = (1, 2, 7)
"""Sizes of the batches of the exported model; the network computes each source alone."""
SOURCE_LENGTHS = (1, 2, 5, 9, 17, 33, 48)
TARGET_LENGTHS = (1, 2, 4, 7, 12, 20, 31)
"""Tokens, end token included, of the sources and targets for each size of batches, in random order.

A source of one token is that of an empty context.
"""
GREEDY_LENGTH = 40
"""Most tokens of a greedy response."""
TOLERANCE = 1e-4
"""Largest difference of a log-probability, in nats, that rounding in float32 explains."""
EQUAL = "equal"
TIE = "tie"
DIFFERENT = "different"


@dataclass(frozen=True)
class Parity:
    """Differences between an exported model and its network."""

    sources: int
    longest_source: int
    batches: tuple[int, ...]
    tokens: int  # whose log-probabilities were compared
    largest_difference: float  # of a log-probability, in nats
    tolerance: float
    greedy_equal: int  # responses equal to the network's
    # responses that first differ where both tokens are as probable, up to twice the tolerance
    greedy_ties: int
    greedy_different: int

    @property
    def holds(self) -> bool:
        """True if the exported model computes what the network does, up to rounding."""
        return self.largest_difference <= self.tolerance and not self.greedy_different

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the result."""
        return {**asdict(self), "holds": self.holds}

    def __str__(self) -> str:
        sizes = f"{', '.join(map(str, self.batches[:-1]))} and {self.batches[-1]}"
        ties = f", {self.greedy_ties} differ only by a tie" if self.greedy_ties else ""
        return (
            f"{self.tokens:,} log-probabilities differ by at most {self.largest_difference:.1e}"
            f" nats (allowed {self.tolerance:.0e}), {self.greedy_equal} of {self.sources} greedy"
            f" responses are equal{ties}; batches of {sizes}, sources of up to"
            f" {self.longest_source} tokens"
        )


@torch.inference_mode()
def measure_parity(model: Seq2Seq, exported: Exported, *, max_source: int, seed: int = 0) -> Parity:
    """Compare an exported model with its network in float32, on sources and targets of random
    tokens.

    Sources are turns of random tokens with their roles, as in training, of up to ``max_source``
    tokens.
    """
    draw = random.Random(seed)
    vocabulary = len(model.target_embedding.table.weight)
    max_source = min([max_source, *learned_lengths(model.encoder)])
    max_target = min([sys.maxsize, *learned_lengths(model.decoder)])
    source_lengths = [min(length, max_source) for length in SOURCE_LENGTHS]
    target_lengths = [min(length, max_target) for length in TARGET_LENGTHS]
    greedy_length = min(GREEDY_LENGTH, max_target)
    differences: list[float] = []
    outcomes: Counter[str] = Counter()
    for size in BATCHES:
        sources = [random_source(draw, vocabulary, length) for length in source_lengths]
        targets = [[*random_tokens(draw, vocabulary, length - 1), EOS] for length in target_lengths]
        draw.shuffle(sources)
        draw.shuffle(targets)
        for start in range(0, len(sources), size):
            batch = sources[start : start + size]
            references = targets[start : start + size]
            computed = exported.log_probabilities(batch, references)
            for source, target, values in zip(batch, references, computed, strict=True):
                own = log_probabilities(model, source, target)
                differences += [abs(one - other) for one, other in zip(own, values, strict=True)]
            for source, response in zip(batch, exported.greedy(batch, greedy_length), strict=True):
                outcomes[greedy_outcome(model, source, response, greedy_length)] += 1
    return Parity(
        sources=sum(outcomes.values()),
        longest_source=max(source_lengths),
        batches=BATCHES,
        tokens=len(differences),
        # max() alone would skip a NaN
        largest_difference=max(math.inf if math.isnan(value) else value for value in differences),
        tolerance=TOLERANCE,
        greedy_equal=outcomes[EQUAL],
        greedy_ties=outcomes[TIE],
        greedy_different=outcomes[DIFFERENT],
    )


def random_tokens(draw: random.Random, vocabulary: int, number: int) -> list[int]:
    """Draw tokens of text."""
    return [draw.randrange(len(SPECIAL_TOKENS), vocabulary) for _ in range(number)]


def random_source(draw: random.Random, vocabulary: int, length: int) -> list[int]:
    """Draw turns with their roles and an end token, ``length`` tokens in all; one token alone is
    the end token.
    """
    tokens = random_tokens(draw, vocabulary, length - 1)
    starts = {0, *(place for place in range(length - 1) if draw.random() < 0.15)}
    roles = {
        place: (OTHER, SELF)[number % 2]
        for number, place in enumerate(sorted(starts, reverse=True))
    }
    return [*(roles.get(place, token) for place, token in enumerate(tokens)), EOS]


def log_probabilities(model: Seq2Seq, source: Tokens, target: Tokens) -> list[float]:
    """Return log p(y_t | y_<t, source) of the network in nats, for a target without begin token."""
    sources = torch.tensor([source])
    inputs = torch.tensor([[BOS, *target[:-1]]])
    logits = model(sources, torch.ones_like(sources, dtype=torch.bool), inputs)  # [1, T, V]
    [values] = token_scores(logits, [target])
    return values


def greedy_outcome(model: Seq2Seq, source: Tokens, response: Sequence[int], length: int) -> str:
    """Compare a greedy response with the network's, of at most ``length`` tokens: equal, a tie, or
    different.

    It is a tie if both are equally probable where they first differ, up to twice the tolerance.
    """
    sources = torch.tensor([source])
    memory, state = model.start(sources, torch.ones_like(sources, dtype=torch.bool))
    previous = BOS
    for place in range(length):
        logits, state = model.step(torch.tensor([[previous]]), memory, state)  # [1, 1, V]
        scores = logits.flatten().log_softmax(-1)  # [V]
        best = int(scores.argmax())
        if place == len(response):
            return DIFFERENT
        if response[place] != best:
            difference = float(scores[best] - scores[response[place]])
            return TIE if difference <= 2 * TOLERANCE else DIFFERENT
        if best == EOS:
            break
        previous = best
    return EQUAL if len(response) == place + 1 else DIFFERENT
