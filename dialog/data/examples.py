"""Turn dialogues into examples, pairs of a context and a response.

In a dialogue of turns t_0, ..., t_n, every turn from t_1 on is a response. Its context is the turns
directly before it, at most `context_turns` of them. With `first_turns`, t_0 is a response too, with
an empty context. If a `responder` is named, only the turns of this speaker are responses; contexts
still hold the turns of all speakers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby
from typing import NamedTuple

from dialog.data.dialogue import WARNING, Copy, Dialogue, Entry, Example, Malformed, Turn
from dialog.errors import UserError

REFUSE = "refuse"
DROP = "drop"
NO_RESPONSES = "no turn of the responder"


@dataclass(frozen=True)
class ExampleRules:
    """Rules that turn the dialogues of a corpus into examples; the fields are keys of a recipe's
    `data` section.

    Args:
        context_turns: Most turns of a context; None for all earlier turns.
        first_turns: Whether the first turn of a dialogue is also a response, with an empty context.
        responder: The only speaker whose turns are responses; None for all speakers.
        normalise: Whether white space at the edges of turns and facts is removed.
        merge_turns: Whether consecutive turns of one speaker are joined by a space into one turn.
        reverse: Whether dialogues are reversed, to train a model that predicts the context from the
            response.
        silence: Text that precedes the context of every response of the dialogue's first speaker;
            None for nothing.
        max_turn_characters: Most characters of a turn or a fact; longer ones are truncated.
        malformed: "refuse" stops at the first malformed record; "drop" counts and skips them.
    """

    context_turns: int | None
    first_turns: bool
    responder: str | None = None
    normalise: bool = True
    merge_turns: bool = False
    reverse: bool = False
    max_turn_characters: int = 10_000
    malformed: str = REFUSE
    silence: str | None = None

    def __post_init__(self) -> None:
        if self.malformed not in (REFUSE, DROP):
            raise UserError(f"data.malformed is {self.malformed!r}; give {REFUSE} or {DROP}")
        for key, least in (("context_turns", 0), ("max_turn_characters", 1)):
            value = getattr(self, key)
            if value is not None and value < least:
                raise UserError(f"data.{key} is {value}; give at least {least}")


class DialogueWindows(NamedTuple):
    """A dialogue, and for each of its examples the turn indices (first turn of the context,
    response).
    """

    dialogue: Dialogue
    windows: list[tuple[int, int]]


def examples(
    entries: Iterable[Entry], rules: ExampleRules, counts: Counter[str]
) -> Iterator[Example]:
    """Yield the examples of a corpus in the order of its dialogues; update `counts` as
    `usable_dialogue` does.
    """
    for entry in entries:
        dialogue = usable_dialogue(entry, rules, counts)
        if dialogue is None:
            continue
        for first, response in example_windows(dialogue, rules):
            counts["examples"] += 1
            yield Example(
                id=f"{dialogue.id}#{response}",
                dialogue_id=dialogue.id,
                context=dialogue.turns[first:response],
                response=dialogue.turns[response],
                first=first,
                facts=facts_known_to(dialogue.facts, dialogue.turns[response].speaker),
            )


def usable_dialogue(entry: Entry, rules: ExampleRules, counts: Counter[str]) -> Dialogue | None:
    """Apply the rules to a dialogue; return None if it yields no example.

    The counts satisfy

        "dialogues read" = "dialogues" + the sum of all "dropped dialogues: ..."
        "turns read" = "turns" + the sum of all "dropped turns: ..."

    where a malformed record counts as a dialogue without turns. "cut: characters" counts truncated
    turns and facts, "warnings" dialogues, and "replaced characters" turns with U+FFFD. Turn indices
    (in ids, `first` and copies) refer to the remaining turns.

    Raises:
        UserError: the record is malformed and the rules do not drop such records.
    """
    counts["dialogues read"] += 1
    if isinstance(entry, Malformed):
        if rules.malformed == REFUSE:
            raise UserError(f"{entry.message} (data.malformed=drop counts and skips such records)")
        counts["dropped dialogues: malformed"] += 1
        return None
    counts["turns read"] += len(entry.turns)
    counts["warnings"] += WARNING in entry.meta
    dialogue = without_outer_space(entry) if rules.normalise else entry
    dialogue = without_empty_turns(dialogue, rules.max_turn_characters)
    counts["dropped turns: empty"] += len(entry.turns) - len(dialogue.turns)
    if rules.merge_turns:
        merged = with_merged_turns(dialogue)
        counts["dropped turns: merged"] += len(dialogue.turns) - len(merged.turns)
        dialogue = merged
    dialogue = _truncated(dialogue, rules.max_turn_characters, counts)
    counts["replaced characters"] += sum("\ufffd" in turn.text for turn in dialogue.turns)
    if rules.reverse:
        dialogue = replace(
            dialogue, turns=tuple(Turn(turn.speaker, turn.text) for turn in dialogue.turns[::-1])
        )
    if rules.silence is not None and dialogue.turns:
        silence = Turn(dialogue.turns[0].speaker, rules.silence)
        dialogue = replace(dialogue, facts=(*dialogue.facts, silence))
    reason = ""
    if not dialogue.turns:
        reason = "empty"
    elif len(dialogue.turns) == 1 and not rules.first_turns:
        reason = "single turn"
    elif not any(example_windows(dialogue, rules)):
        reason = NO_RESPONSES
    if reason:
        counts[f"dropped dialogues: {reason}"] += 1
        counts[f"dropped turns: {reason}"] += len(dialogue.turns)
        return None
    counts["dialogues"] += 1
    counts["turns"] += len(dialogue.turns)
    return dialogue


def example_windows(dialogue: Dialogue, rules: ExampleRules) -> Iterator[tuple[int, int]]:
    """Yield the turn indices (first turn of the context, response) of each example."""
    for response in range(0 if rules.first_turns else 1, len(dialogue.turns)):
        if rules.responder is None or dialogue.turns[response].speaker == rules.responder:
            yield (
                0 if rules.context_turns is None else max(0, response - rules.context_turns),
                response,
            )


def facts_known_to(facts: Iterable[Turn], speaker: str) -> tuple[Turn, ...]:
    """Return the facts of a speaker and those that everybody knows."""
    return tuple(fact for fact in facts if fact.speaker in (speaker, ""))


def without_outer_space(dialogue: Dialogue) -> Dialogue:
    """Remove white space at the edges of turns and facts; copies keep their characters."""
    if all(line.text == line.text.strip() for line in (*dialogue.facts, *dialogue.turns)):
        return dialogue
    removed = [len(turn.text) - len(turn.text.lstrip()) for turn in dialogue.turns]
    turns = []
    for turn, shift in zip(dialogue.turns, removed, strict=True):
        copies = (
            Copy(start - shift, end - shift, number, source - removed[number])
            for start, end, number, source in turn.copies
        )
        turns.append(replace(turn, text=turn.text.strip(), copies=tuple(copies)))
    facts = tuple(replace(fact, text=fact.text.strip()) for fact in dialogue.facts)
    return replace(dialogue, turns=tuple(turns), facts=facts)


def without_empty_turns(dialogue: Dialogue, characters: int | None = None) -> Dialogue:
    """Drop turns whose first `characters` characters are white space; copies of a dropped turn are
    removed.
    """
    kept = [index for index, turn in enumerate(dialogue.turns) if turn.text[:characters].strip()]
    if len(kept) == len(dialogue.turns):
        return dialogue
    new_indices = {old: new for new, old in enumerate(kept)}
    return replace(
        dialogue,
        turns=tuple(_with_moved_copies(dialogue.turns[index], new_indices) for index in kept),
    )


def with_merged_turns(dialogue: Dialogue) -> Dialogue:
    """Join consecutive turns of one speaker by spaces; merged turns lose their copies and can no
    longer be copied.
    """
    runs = [
        list(turns)
        for _, turns in groupby(enumerate(dialogue.turns), key=lambda item: item[1].speaker)
    ]
    if len(runs) == len(dialogue.turns):
        return dialogue
    new_indices = {run[0][0]: new for new, run in enumerate(runs) if len(run) == 1}
    joined = (
        Turn(run[0][1].speaker, " ".join(turn.text.strip() for _, turn in run)) for run in runs
    )
    pairs = zip(runs, joined, strict=True)
    turns = (
        _with_moved_copies(run[0][1], new_indices) if len(run) == 1 else turn for run, turn in pairs
    )
    return replace(dialogue, turns=tuple(turns))


def _truncated(dialogue: Dialogue, characters: int, counts: Counter[str]) -> Dialogue:
    long = sum(len(line.text) > characters for line in (*dialogue.facts, *dialogue.turns))
    if not long:
        return dialogue
    counts["cut: characters"] += long
    facts, turns = (
        tuple(replace(line, text=line.text[:characters]) for line in lines)
        for lines in (dialogue.facts, dialogue.turns)
    )
    return replace(dialogue, facts=facts, turns=turns)


def _with_moved_copies(turn: Turn, new_indices: dict[int, int]) -> Turn:
    copies = (
        copy._replace(turn=new_indices[copy.turn])
        for copy in turn.copies
        if copy.turn in new_indices
    )
    return replace(turn, copies=tuple(copies))
