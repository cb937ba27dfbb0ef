"""Dialogues become examples: which turns are responses, to how much of what was said before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

from dialog.data.dialogue import Dialogue, Example, Turn

EMPTY_DIALOGUE = "dropped: empty dialogue"
EMPTY_TURN = "dropped: empty turn"
SINGLE_TURN = "dropped: single turn"


def examples(
    dialogues: Iterable[Dialogue], *, context_turns: int, first_turns: bool, counts: Counter[str]
) -> Iterator[Example]:
    """Yield an example for every turn that answers another, in the order of the dialogues.

    `counts` is added to while the iterator runs. Of the dialogues and turns that come in,

        dialogues = "dialogues" + "dropped: empty dialogue" + "dropped: single turn"
        turns = "turns" + "dropped: empty turn" + "dropped: single turn"

    and "examples" = "turns" - "dialogues", or "turns" with `first_turns`.

    Args:
        dialogues: Turns without text are taken out first; indices (in ids, `first` and copies) count those that stay.
        context_turns: The most turns that a context holds.
        first_turns: Whether the first turn of a dialogue is a response too, to an empty context.
        counts: Kept and dropped, by reason.
    """
    for dialogue in usable(dialogues, first_turns=first_turns, counts=counts):
        for first, response in windows(len(dialogue.turns), context_turns=context_turns, first_turns=first_turns):
            counts["examples"] += 1
            yield Example(
                id=f"{dialogue.id}#{response}",
                dialogue_id=dialogue.id,
                context=dialogue.turns[first:response],
                response=dialogue.turns[response],
                first=first,
                facts=known(dialogue.facts, dialogue.turns[response].speaker),
            )


def usable(dialogues: Iterable[Dialogue], *, first_turns: bool, counts: Counter[str]) -> Iterator[Dialogue]:
    """Yield the dialogues that give an example, without their empty turns; `counts` as in `examples`."""
    for dialogue in dialogues:
        kept = without_empty_turns(dialogue)
        if len(kept.turns) < len(dialogue.turns):
            counts[EMPTY_TURN] += len(dialogue.turns) - len(kept.turns)
        if not kept.turns:
            counts[EMPTY_DIALOGUE] += 1
        elif len(kept.turns) == 1 and not first_turns:
            counts[SINGLE_TURN] += 1
        else:
            counts["dialogues"] += 1
            counts["turns"] += len(kept.turns)
            yield kept


def windows(turns: int, *, context_turns: int, first_turns: bool) -> Iterator[tuple[int, int]]:
    """Yield (first turn of the context, response) as indices into a dialogue of so many turns."""
    for response in range(0 if first_turns else 1, turns):
        yield max(0, response - context_turns), response


def known(facts: Iterable[Turn], speaker: str) -> tuple[Turn, ...]:
    """The facts that a speaker knows: his own and everybody's."""
    return tuple(fact for fact in facts if fact.speaker in (speaker, ""))


def without_empty_turns(dialogue: Dialogue) -> Dialogue:
    """The dialogue without turns of nothing but white space; what repeats such a turn is no copy any more."""
    kept = [index for index, turn in enumerate(dialogue.turns) if turn.text.strip()]
    if len(kept) == len(dialogue.turns):
        return dialogue
    moved = {old: new for new, old in enumerate(kept)}
    return replace(dialogue, turns=tuple(_renumbered(dialogue.turns[index], moved) for index in kept))


def _renumbered(turn: Turn, moved: dict[int, int]) -> Turn:
    copies = (copy._replace(turn=moved[copy.turn]) for copy in turn.copies if copy.turn in moved)
    return replace(turn, copies=tuple(copies))
