"""Use of the context: change in likelihood of a response when its context is changed.

The changes are those of Sankar et al. 2019 (https://aclanthology.org/P19-1004) and others. Sankar's
leave a context of fewer than three turns as it is. A turn keeps its speaker wherever it moves. The
noun drop and the verb drop of the paper are left out, since they need a part-of-speech tagger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from hashlib import sha256
from itertools import chain, groupby
from random import Random
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from dialog.data.dialogue import Example, Turn
from dialog.metrics.likelihood import BitsPerByte, PerplexityToken
from dialog.metrics.words import words

# ------------------------------------------------------------------ a fixed sample

Group = tuple[bytes, list[Example]]


def draw_dialogues(examples: Iterable[Example], most: int) -> list[Example]:
    """Return the examples of as many whole dialogues as have at most `most` examples together.

    Dialogues are taken in the order of the SHA-256 of their ids, so the sample is the same in every
    run, whatever the order of the split. The first dialogue is always taken. The examples of a
    dialogue must be adjacent; memory does not grow with the split.
    """
    taken: list[Group] = []
    size = 0
    for dialogue_id, group in groupby(examples, key=lambda example: example.dialogue_id):
        rows = list(group)
        taken.append((sha256(dialogue_id.encode()).digest(), rows))
        size += len(rows)
        if size > 4 * most:
            taken = list(_first(taken, most))
            size = sum(len(rows) for _, rows in taken)
    return [example for _, rows in _first(taken, most) for example in rows]


def _first(groups: Sequence[Group], most: int) -> Iterator[Group]:
    """Yield groups in the order of their hash until their sizes exceed `most`; at least one."""
    size = 0
    for digest, rows in sorted(groups, key=lambda group: group[0]):
        size += len(rows)
        if size > most and size > len(rows):
            return
        yield digest, rows


# ------------------------------------------------------------------ changes of a context


Turns = tuple[Turn, ...]
LEAST_TURNS = 3
"""Contexts with fewer turns are not changed."""
DROPPED = 0.3
"""Probability with which `word_drop` removes a word."""


def only_last(turns: Turns, _: Random) -> Turns:
    """Keep the last turn."""
    return turns[-1:]


def shuffle(turns: Turns, random: Random) -> Turns:
    """Permute the turns at random; the order may stay as it was."""
    return tuple(random.sample(turns, len(turns)))


def reverse(turns: Turns, _: Random) -> Turns:
    """Reverse the order of the turns."""
    return turns[::-1]


def drop_first(turns: Turns, _: Random) -> Turns:
    """Remove the first turn."""
    return turns[1:]


def drop_last(turns: Turns, _: Random) -> Turns:
    """Remove the last turn."""
    return turns[:-1]


def word_drop(turns: Turns, random: Random) -> Turns:
    """Remove each word with probability `DROPPED`; a turn may become empty."""
    return _with_words(turns, lambda kept: [word for word in kept if random.random() >= DROPPED])


def word_shuffle(turns: Turns, random: Random) -> Turns:
    """Permute the words of each turn at random."""
    return _with_words(turns, lambda kept: random.sample(kept, len(kept)))


def word_reverse(turns: Turns, _: Random) -> Turns:
    """Reverse the order of the words of each turn."""
    return _with_words(turns, lambda kept: kept[::-1])


PERTURBATIONS: Mapping[str, Callable[[Turns, Random], Turns]] = MappingProxyType(
    {
        "only last": only_last,
        "shuffle": shuffle,
        "reverse": reverse,
        "drop first": drop_first,
        "drop last": drop_last,
        "word drop": word_drop,
        "word shuffle": word_shuffle,
        "word reverse": word_reverse,
    }
)


def perturb(example: Example, name: str) -> Example:
    """Return the example with a context changed by one of `PERTURBATIONS`, or as it is if it has
    too few turns.

    Random numbers are seeded by the perturbation and the example's id, so the result depends on
    nothing else.
    """
    if len(example.context) < LEAST_TURNS:
        return example
    return replace(
        example, context=PERTURBATIONS[name](example.context, Random(f"{name} {example.id}"))
    )


def drop_at_distance(example: Example, distance: int) -> Example | None:
    """Return the example without the turn `distance` turns before the response (1: the last of the
    context).

    None if the context has fewer than `distance` or fewer than `LEAST_TURNS` turns.
    """
    turns = example.context
    if len(turns) < max(distance, LEAST_TURNS):
        return None
    place = len(turns) - distance
    return replace(example, context=turns[:place] + turns[place + 1 :])


def _with_words(turns: Turns, change: Callable[[list[str]], list[str]]) -> Turns:
    """Change the words of each turn."""
    return tuple(replace(turn, text=_joined(change(words(turn.text)))) for turn in turns)


def _joined(kept: Iterable[str]) -> str:
    """Join words by spaces, except next to a letter of a script without spaces."""
    return reduce(lambda text, word: text + _separator(text, word) + word, kept, "")


def _separator(text: str, word: str) -> str:
    """Return a space if the last character of the text and the word are one word when written
    together.
    """
    return " " if text and len(words(text[-1] + word)) == 1 else ""


def with_random_contexts(examples: Sequence[Example]) -> list[Example]:
    """Return the examples, each with the context of an example of another dialogue.

    It is drawn from those with the same number of turns if there are any, so that the content of
    the context changes and its length does not. Contexts of any number of turns are replaced,
    except empty ones; the turns are spoken by the responder where they were spoken by the responder
    of their own dialogue. The draw is seeded by the example's id, so it depends on the sample only,
    not on its order.
    """
    donors: dict[int, list[Example]] = defaultdict(list)
    for example in sorted(examples, key=lambda example: example.id):
        if example.context:
            donors[len(example.context)].append(example)
    everyone = [donor for length in sorted(donors) for donor in donors[length]]
    return [_replaced(example, donors[len(example.context)], everyone) for example in examples]


def _replaced(
    example: Example, same_length: Sequence[Example], everyone: Sequence[Example]
) -> Example:
    if not example.context:
        return example
    random = Random(f"random context {example.id}")
    for donors in (same_length, everyone):
        others = [donor for donor in donors if donor.dialogue_id != example.dialogue_id]
        if others:
            return replace(example, context=_spoken_to(example, random.choice(others)))
    return example


def _spoken_to(example: Example, donor: Example) -> tuple[Turn, ...]:
    """Return the donor's context with the speakers of the example."""
    responder = example.response.speaker
    listener = next(
        (turn.speaker for turn in example.context if turn.speaker != responder), f"not {responder}"
    )
    own = donor.response.speaker
    return tuple(
        Turn(responder if turn.speaker == own else listener, turn.text) for turn in donor.context
    )


# ------------------------------------------------------------------ their effects


RANDOM = "random context"
DISTANCES = 6
"""Largest distance, in turns, of a dropped turn."""


class Likelihood(NamedTuple):
    """Negative log-likelihood of a reference in nats, and its target tokens."""

    nll: float
    tokens: int


Score = Callable[[Sequence[Example]], Sequence[Likelihood]]


def context_effects(examples: Sequence[Example], score: Score) -> dict[str, Any]:
    """Return the change in likelihood under every change of the context: value with the change
    minus value without.

    A positive change means that the model made use of what was taken away. "perturbations" are
    averaged over all examples, those included whose context is too short to be changed ("changed"
    counts the others), as in Sankar et al.
    2019. "distance" is averaged over the examples that have a turn at this distance, "examples" of
    them. Changes that change no context are left out. Every distinct context of an example is
    scored once. Each change in bits per byte is also given without each dialogue ("left_out"), for
    intervals over dialogues.

    Args:
        examples: A sample, with whole dialogues.
        score: Returns the likelihood of the reference of each example.
    """
    changes = {name: [perturb(example, name) for example in examples] for name in PERTURBATIONS}
    changes[RANDOM] = with_random_contexts(examples)
    distances = {
        distance: [drop_at_distance(example, distance) for example in examples]
        for distance in range(1, DISTANCES + 1)
    }
    table = _scored([examples, *changes.values(), *distances.values()], score)
    plain = [table[_key(example)] for example in examples]
    perturbations = []
    for name, variants in changes.items():
        changed = sum(
            _key(variant) != _key(example)
            for variant, example in zip(variants, examples, strict=True)
        )
        if changed:
            scored = [table[_key(variant)] for variant in variants]
            perturbations.append(
                {"perturbation": name, "changed": changed, **_change(examples, plain, scored)}
            )
    by_distance = []
    for distance, shortened in distances.items():
        rows = [
            (row, table[_key(variant)])
            for row, variant in enumerate(shortened)
            if variant is not None
        ]
        if rows:
            kept = [row for row, _ in rows]
            having = [examples[row] for row in kept]
            before = [plain[row] for row in kept]
            change = _change(having, before, [scored for _, scored in rows])
            by_distance.append({"distance": distance, "examples": len(rows), **change})
    return {
        "plain": _values(examples, plain),
        "perturbations": perturbations,
        "distance": by_distance,
    }


Key = tuple[str, tuple[tuple[str, str], ...]]


def _key(example: Example) -> Key:
    return example.id, tuple((turn.speaker, turn.text) for turn in example.context)


def _scored(lists: Sequence[Sequence[Example | None]], score: Score) -> dict[Key, Likelihood]:
    variants = filter(None, chain.from_iterable(lists))
    distinct = {_key(variant): variant for variant in variants}
    return dict(zip(distinct, score(list(distinct.values())), strict=True))


def _values(examples: Sequence[Example], scored: Sequence[Likelihood]) -> dict[str, float]:
    nll, tokens = (sum(column) for column in zip(*scored, strict=True))
    bits = BitsPerByte()
    perplexity = PerplexityToken()
    size = sum(map(_bytes, examples))
    return {
        "bits_per_byte": bits.value(nll, size, 0),
        "perplexity_token": perplexity.value(nll, tokens),
    }


def _change(
    examples: Sequence[Example], plain: Sequence[Likelihood], scored: Sequence[Likelihood]
) -> dict[str, float | list[float]]:
    """Return the changes, and that in bits per byte without each dialogue, in order of appearance
    ("left_out").
    """
    before = _values(examples, plain)
    after = _values(examples, scored)
    numbers: dict[str, int] = {}
    dialogues = [numbers.setdefault(example.dialogue_id, len(numbers)) for example in examples]
    nats = np.bincount(
        dialogues, [new.nll - old.nll for new, old in zip(scored, plain, strict=True)]
    )
    sizes = np.bincount(dialogues, [*map(_bytes, examples)])
    left_out = BitsPerByte().value(nats.sum() - nats, sizes.sum() - sizes, 0)
    return {**{key: after[key] - before[key] for key in before}, "left_out": left_out.tolist()}


def _bytes(example: Example) -> int:
    return len(example.response.text.encode())
