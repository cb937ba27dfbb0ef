"""Dialogues become examples: which turns are responses, to how much of what was said before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from dialog.data.dialogue import WARNING, Dialogue, Entry, Example, Malformed, Turn
from dialog.errors import UserError

REFUSE, DROP = "refuse", "drop"
OTHERS_ONLY = "no turn of the responder"


@dataclass(frozen=True)
class Rules:
    """How the dialogues of a corpus become examples, by the keys of a recipe's `data`.

    Args:
        context_turns: The most turns that a context holds; None for all that were said before.
        first_turns: Whether the first turn of a dialogue is a response too, to an empty context.
        responder: The speaker whose turns alone are responses; None for everybody's.
        merge_turns: Whether consecutive turns of a speaker become one, joined by a space.
        reverse: Whether dialogues run backwards, for a model that guesses what a response answers.
        max_turn_characters: The most characters of a turn or a fact; more are cut from its end.
        malformed: "refuse" ends with the first malformed record; "drop" counts them.
    """

    context_turns: int | None
    first_turns: bool
    responder: str | None = None
    merge_turns: bool = False
    reverse: bool = False
    max_turn_characters: int = 10_000
    malformed: str = REFUSE

    def __post_init__(self) -> None:
        if self.malformed not in (REFUSE, DROP):
            raise UserError(f"data.malformed is {self.malformed!r}; give {REFUSE} or {DROP}")
        for key, least in (("context_turns", 0), ("max_turn_characters", 1)):
            value = getattr(self, key)
            if value is not None and value < least:
                raise UserError(f"data.{key} is {value}; give at least {least}")


class Chosen(NamedTuple):
    """A dialogue, and the (first turn of the context, response) of its examples."""

    dialogue: Dialogue
    windows: list[tuple[int, int]]


def examples(entries: Iterable[Entry], rules: Rules, counts: Counter[str]) -> Iterator[Example]:
    """Yield an example for every turn that answers another, in the order of the dialogues; `counts` as in `usable`."""
    for entry in entries:
        dialogue = usable(entry, rules, counts)
        if dialogue is None:
            continue
        for first, response in windows(dialogue, rules):
            counts["examples"] += 1
            yield Example(
                id=f"{dialogue.id}#{response}",
                dialogue_id=dialogue.id,
                context=dialogue.turns[first:response],
                response=dialogue.turns[response],
                first=first,
                facts=known(dialogue.facts, dialogue.turns[response].speaker),
            )


def usable(entry: Entry, rules: Rules, counts: Counter[str]) -> Dialogue | None:
    """A dialogue by the rules, or None where it gives no example.

    Of what comes in,

        "dialogues read" = "dialogues" + every "dropped dialogues: ..."
        "turns read" = "turns" + every "dropped turns: ..."

    where a malformed record is a dialogue without turns. Indices (in ids, `first` and copies) count the turns that
    stay. "cut: characters" counts turns and facts, "warnings" dialogues, "replaced characters" turns with U+FFFD.

    Raises:
        UserError: a malformed record, unless the rules drop them.
    """
    counts["dialogues read"] += 1
    if isinstance(entry, Malformed):
        if rules.malformed == REFUSE:
            raise UserError(f"{entry.message} (data.malformed=drop counts such records and goes on)")
        counts["dropped dialogues: malformed"] += 1
        return None
    counts["turns read"] += len(entry.turns)
    counts["warnings"] += WARNING in entry.meta
    dialogue = without_empty_turns(entry, rules.max_turn_characters)
    counts["dropped turns: empty"] += len(entry.turns) - len(dialogue.turns)
    if rules.merge_turns:
        merged = with_merged_turns(dialogue)
        counts["dropped turns: merged"] += len(dialogue.turns) - len(merged.turns)
        dialogue = merged
    dialogue = _bounded(dialogue, rules.max_turn_characters, counts)
    counts["replaced characters"] += sum("\ufffd" in turn.text for turn in dialogue.turns)
    if rules.reverse:
        dialogue = replace(dialogue, turns=tuple(Turn(turn.speaker, turn.text) for turn in dialogue.turns[::-1]))
    reason = _unusable(dialogue, rules)
    if reason:
        counts[f"dropped dialogues: {reason}"] += 1
        counts[f"dropped turns: {reason}"] += len(dialogue.turns)
        return None
    counts["dialogues"] += 1
    counts["turns"] += len(dialogue.turns)
    return dialogue


def _unusable(dialogue: Dialogue, rules: Rules) -> str | None:
    if not dialogue.turns:
        return "empty"
    if len(dialogue.turns) == 1 and not rules.first_turns:
        return "single turn"
    return None if any(windows(dialogue, rules)) else OTHERS_ONLY


def windows(dialogue: Dialogue, rules: Rules) -> Iterator[tuple[int, int]]:
    """Yield (first turn of the context, response) for each response."""
    for response in range(0 if rules.first_turns else 1, len(dialogue.turns)):
        if rules.responder is None or dialogue.turns[response].speaker == rules.responder:
            yield 0 if rules.context_turns is None else max(0, response - rules.context_turns), response


def known(facts: Iterable[Turn], speaker: str) -> tuple[Turn, ...]:
    """The facts that a speaker knows: his own and everybody's."""
    return tuple(fact for fact in facts if fact.speaker in (speaker, ""))


def without_empty_turns(dialogue: Dialogue, characters: int | None = None) -> Dialogue:
    """The dialogue without turns of white space, as far as so many characters; what repeats one is no copy then."""
    kept = [index for index, turn in enumerate(dialogue.turns) if turn.text[:characters].strip()]
    if len(kept) == len(dialogue.turns):
        return dialogue
    moved = {old: new for new, old in enumerate(kept)}
    return replace(dialogue, turns=tuple(_renumbered(dialogue.turns[index], moved) for index in kept))


def with_merged_turns(dialogue: Dialogue) -> Dialogue:
    """The dialogue with what a speaker says in a row in one turn, joined by spaces; such turns' copies are lost."""
    runs = [list(turns) for _, turns in groupby(enumerate(dialogue.turns), key=lambda item: item[1].speaker)]
    if len(runs) == len(dialogue.turns):
        return dialogue
    moved = {run[0][0]: new for new, run in enumerate(runs) if len(run) == 1}
    joined = (Turn(run[0][1].speaker, " ".join(turn.text.strip() for _, turn in run)) for run in runs)
    turns = (_renumbered(run[0][1], moved) if len(run) == 1 else turn for run, turn in zip(runs, joined, strict=True))
    return replace(dialogue, turns=tuple(turns))


def _bounded(dialogue: Dialogue, characters: int, counts: Counter[str]) -> Dialogue:
    long = sum(len(line.text) > characters for line in (*dialogue.facts, *dialogue.turns))
    if not long:
        return dialogue
    counts["cut: characters"] += long
    facts, turns = (
        tuple(replace(line, text=line.text[:characters]) for line in lines)
        for lines in (dialogue.facts, dialogue.turns)
    )
    return replace(dialogue, facts=facts, turns=turns)


def _renumbered(turn: Turn, moved: dict[int, int]) -> Turn:
    copies = (copy._replace(turn=moved[copy.turn]) for copy in turn.copies if copy.turn in moved)
    return replace(turn, copies=tuple(copies))
