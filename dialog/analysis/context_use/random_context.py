"""Contexts taken from other examples of a sample."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from dialog.data.dialogue import Example, Turn


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
