"""Buckets of examples: by context turns, response words, rarest word of the reference, and dialogue
act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple

from dialog.data.dialogue import Entry, Malformed
from dialog.data.examples import ExampleRules, example_windows, usable_dialogue
from dialog.metrics.words import words

Edges = Sequence[tuple[int, str]]
"""The lowest value of each bucket, ascending, with its label."""
CONTEXT_TURNS: Edges = ((0, "0"), (1, "1"), (2, "2"), (3, "3"), (4, "4-5"), (6, "6+"))
CONTEXT_WORDS: Edges = (
    (0, "0-7"),
    (8, "8-15"),
    (16, "16-31"),
    (32, "32-63"),
    (64, "64-127"),
    (128, "128-255"),
    (256, "256-511"),
    (512, "512+"),
)
RESPONSE_WORDS: Edges = ((0, "0"), (1, "1-3"), (4, "4-7"), (8, "8-15"), (16, "16+"))
RAREST_WORD: Edges = ((0, "0"), (1, "1-9"), (10, "10-99"), (100, "100+"))
MOST_NAMED_ACTS = 8
"""Number of dialogue acts with a bucket of their own; the rarer ones are "other"."""


def label_of(value: int, edges: Edges) -> str:
    """Return the label of the bucket that a value is in."""
    return [label for lowest, label in edges if lowest <= value][-1]


def rarest_word_count(reference: str, train_counts: Mapping[str, int]) -> int | None:
    """Return how often the rarest word of a reference, in lower case, is in train; None without
    words.
    """
    return min((train_counts.get(word, 0) for word in words(reference.lower())), default=None)


class TrainingText(NamedTuple):
    """Counts of the lower-case words of train, and the number of words of its longest context."""

    counts: Counter[str]
    longest_context: int


def training_text(entries: Iterable[Entry], rules: ExampleRules) -> TrainingText:
    """Count the words of all turns of a split and of its longest context, after the rules for
    examples.
    """
    counts: Counter[str] = Counter()
    longest = 0
    for entry in entries:
        dialogue = usable_dialogue(entry, rules, Counter())
        if dialogue is None:
            continue
        turns = [words(turn.text.lower()) for turn in dialogue.turns]
        counts.update(chain.from_iterable(turns))
        before = [0, *accumulate(map(len, turns))]  # words before each turn
        for first, response in example_windows(dialogue, rules):
            longest = max(longest, before[response] - before[first])
    return TrainingText(counts, longest)


def response_acts(entries: Iterable[Entry], rules: ExampleRules) -> dict[str, str]:
    """Return the dialogue act of each response, by the example's id; empty without `meta["acts"]`.

    `meta["acts"]` lists an act, or a list of acts, for each turn. Dialogues from which the rules
    removed turns are left out, since their acts no longer match their turns. Only the
    `MOST_NAMED_ACTS` most frequent acts keep their name.
    """
    acts: dict[str, str] = {}
    for entry in entries:
        labels = None if isinstance(entry, Malformed) else entry.meta.get("acts")
        if not isinstance(labels, list) or rules.reverse:  # reversed turns match no longer
            continue
        dialogue = usable_dialogue(entry, rules, Counter())
        if dialogue is None or len(labels) != len(dialogue.turns):
            continue
        for _, response in example_windows(dialogue, rules):
            acts[f"{dialogue.id}#{response}"] = act_label(labels[response])
    frequent = {label for label, _ in Counter(acts.values()).most_common(MOST_NAMED_ACTS)}
    return {name: label if label in frequent else "other" for name, label in acts.items()}


def act_label(act: object) -> str:
    """Return the label of a turn's act: its distinct parts, sorted and joined by "+".

    Of a part that is a list, the first entry: ``[["inform", "food"], "thank"]`` is "inform+thank".
    """
    if isinstance(act, list):
        return "+".join(
            sorted({str(part[0]) if isinstance(part, list) and part else str(part) for part in act})
        )
    return str(act)
