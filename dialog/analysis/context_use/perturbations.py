"""Changes of a context: those of Sankar et al. 2019 (https://aclanthology.org/P19-1004), and two
more.

Sankar's changes leave a context of fewer than three turns as it is. A turn keeps its speaker
wherever it moves. The noun drop and the verb drop of the paper are left out, since they need a
part-of-speech tagger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from random import Random
from types import MappingProxyType

from dialog.data.dialogue import Example, Turn
from dialog.metrics.words import words

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
