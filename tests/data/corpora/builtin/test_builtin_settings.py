from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from itertools import islice, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.builtin.scenarios import (
    CHECKS,
    CONSENT,
    SCENARIOS,
    SMALL_TALK,
    SORRY,
    VALUES,
    Scenario,
)
from dialog.data.dialogue import SPLITS, Copy, Dialogue
from dialog.errors import UserError

HARD: dict[str, Any] = {"memory": 2, "distractors": 2, "corrections": 0.3}
DIALOGUES = list(BuiltinDialogues(size=1000, **HARD).dialogues("train"))
LAST = 4
"""Number of final turns with the two questions and their answers."""

OTHERS = re.compile(rf"\b[Mm]y ({'|'.join(VALUES['person'])})\b")
CORRECTED = re.compile("|".join(SORRY))

# A reader that knows English but not the generator. A fact has who states it, and its phrasings.
FACTS: dict[str, tuple[str, tuple[str, ...]]] = {
    "seats": ("I", (r"[Aa] table for (\w+), please", r"I need (\w+) seats")),
    "name": ("I", (r"[Mm]y name is (\w+)", r"(?:my table|I booked) under (\w+)")),
    "day": ("you", (r"Please come\b.*? on (\w+)", r"you should come on (\w+)")),
    "time": ("you", (r"Please come\b.*? at (\w+)", r"you should come at (\w+)")),
    "band": ("you", (r"he band plays at (\w+)",)),
    "nights": ("I", (r"I booked (\w+) nights",)),
    "room": ("you", (r"[Yy]ou are in the (\w+) room",)),
    "breakfast": ("you", (r"reakfast is at (\w+)",)),
    "item": ("you", (r"I lost my (?:\w+ )?(\w+)\.", r"find a \w+ (\w+)")),
    "colour": ("you", (r"(?:lost my|find a) (\w+) \w+", r"what I lost was (\w+)")),
    "place": ("you", (r"I was at the (\w+)",)),
    "lost_on": ("you", (r"I was at .* on (\w+)", r"On (\w+) I was", r"I lost it on (\w+)")),
    "my_dish": ("I", (r"I will have\b.*? the (\w+)",)),
    "your_dish": ("you", (r"(?:I will have|For me)\b.*? the (\w+)",)),
    "my_drink": ("I", (r"I will (?:have|drink)\b.*? some (\w+)",)),
    "your_drink": ("you", (r"(?:I will drink|For me)\b.*? some (\w+)",)),
}
for day in ("Saturday", "Sunday"):
    FACTS[f"{day}_place"] = ("you", (rf"n {day} I (?:met \w+|was) at the (\w+)",))
    FACTS[f"{day}_name"] = ("you", (rf"n {day} I (?:met|was at the \w+ with) (\w+)",))
for pet in ("cat", "dog"):
    called = (rf"My {pet} (\w+) is", rf"I have\b.* a {pet} called (\w+)")
    FACTS[f"{pet}_name"] = ("you", (*called, rf"my {pet} is called (\w+)"))
    old = (
        rf"(?:My {pet} \w+|my {pet}) is (\w+) years",
        rf"I have\b.* a {pet} called \w+, who is (\w+)",
    )
    FACTS[f"{pet}_age"] = ("you", old)
ANSWERS = {
    "How many seats do I have?": "You have {seats} seats, {name}.",
    "Which day is it?": "It is on {day} at {time}.",
    "When should I come?": "Please come at {time} on {day}.",
    "When does the band play?": "The band plays at {band} on {day}.",
    "How many nights did I book?": "You booked {nights} nights, {name}.",
    "Which room is mine?": "Yours is the {room} room, with breakfast at {breakfast}.",
    "When is breakfast?": "Breakfast is at {breakfast}, for the {room} room.",
    "What did you lose?": "I lost my {colour} {item}.",
    "What colour is it?": "The colour of the {item} is {colour}.",
    "Where did you lose it?": "I lost it at the {place} on {lost_on}.",
    "Which day was it?": "It was on {lost_on}, at the {place}.",
    "What will I eat?": "You will have the {my_dish}, with some {my_drink}.",
    "What will you eat?": "I will have the {your_dish}, with some {your_drink}.",
    "What will I drink?": "You will have some {my_drink}, with the {my_dish}.",
    "What will you drink?": "I will have some {your_drink}, with the {your_dish}.",
    "Where were you on Saturday?": "I was at the {Saturday_place} with {Saturday_name}.",
    "Where were you on Sunday?": "I was at the {Sunday_place} with {Sunday_name}.",
    "Who was there on Saturday?": "I met {Saturday_name} at the {Saturday_place}.",
    "Who was there on Sunday?": "I met {Sunday_name} at the {Sunday_place}.",
    "What is the name of your cat?": "The name is {cat_name}, who is {cat_age}.",
    "What is the name of your dog?": "The name is {dog_name}, who is {dog_age}.",
    "How old is your cat?": "My {cat_name} is {cat_age} years old.",
    "How old is your dog?": "My {dog_name} is {dog_age} years old.",
}
UNDER_WHAT_NAME = {
    "table": "It is under {name}, for {seats}.",
    "hotel": "It is under {name}, for {nights} nights.",
}
"""Answers to a question of two scenarios."""


def read(dialogue: Dialogue, index: int) -> tuple[str, tuple[Copy, ...]]:
    """Return the answer expected as turn `index` and its copies, from the last statements by the
    right speaker.
    """
    question = re.split(r"(?<=\.) ", dialogue.turns[index - 1].text)[-1]
    answer = ANSWERS.get(question) or UNDER_WHAT_NAME[str(dialogue.meta["scenario"])]
    copies = []
    for fact in re.findall(r"{(\w+)}", answer):
        number, start, value = last_statement(dialogue, index, fact)
        at = answer.index(f"{{{fact}}}")
        answer = answer.replace(f"{{{fact}}}", value)
        copies.append(Copy(at, at + len(value), number, start))
    return answer, tuple(copies)


def last_statement(dialogue: Dialogue, index: int, fact: str) -> tuple[int, int, str]:
    """Return turn, character and value of the last statement of a fact before the questions."""
    turns = dialogue.turns
    who, patterns = FACTS[fact]
    knows = turns[index - 1 if who == "I" else index].speaker
    statements = []
    for number, turn in enumerate(turns[:-LAST]):
        if turn.speaker == knows:
            found = [re.finditer(pattern, turn.text) for pattern in patterns]
            statements += [(number, one.start(1), one[1]) for each in found for one in each]
    return max(statements)


def settings() -> st.SearchStrategy[dict[str, Any]]:
    few = st.integers(0, 30)
    chance = st.sampled_from([0.0, 0.3, 1.0])
    return st.fixed_dictionaries(
        {"memory": few, "distractors": few, "corrections": chance, "seed": st.integers()}
    )


def texts_before_questions(dialogue: Dialogue) -> list[str]:
    """The texts before the first question."""
    return [turn.text for turn in dialogue.turns[:-LAST]]


def count(pattern: re.Pattern[str], dialogue: Dialogue) -> int:
    return sum(bool(pattern.search(text)) for text in texts_before_questions(dialogue))


@given(settings(), st.sampled_from(SPLITS), st.sampled_from(sorted(SCENARIOS)))
def test_a_reader_finds_every_answer_and_its_source(
    settings_drawn: dict[str, Any], split: str, scenario: str
) -> None:
    for dialogue in islice(
        BuiltinDialogues(scenarios=[scenario], **settings_drawn).dialogues(split), 4
    ):
        last = len(dialogue.turns) - 1
        assert [index for index, turn in enumerate(dialogue.turns) if turn.copies] == [
            last - 2,
            last,
        ]
        for index in (last - 2, last):
            assert (dialogue.turns[index].text, dialogue.turns[index].copies) == read(
                dialogue, index
            )


def test_a_reader_finds_every_answer_of_the_default_corpus() -> None:
    for dialogue in BuiltinDialogues(size=500).dialogues("train"):
        for index in (-3, -1):
            number = index % len(dialogue.turns)
            assert (dialogue.turns[index].text, dialogue.turns[index].copies) == read(
                dialogue, number
            )


def test_the_reader_knows_every_question() -> None:
    assert {*ANSWERS, "Under what name is it?"} == {
        question for scenario in SCENARIOS.values() for question, _ in scenario.questions
    }


@given(settings(), st.sampled_from(SPLITS))
def test_the_settings_give_the_number_of_exchanges(
    settings_drawn: dict[str, Any], split: str
) -> None:
    for dialogue in islice(BuiltinDialogues(**settings_drawn).dialogues(split), 4):
        scenario = SCENARIOS[str(dialogue.meta["scenario"])]
        facts = sum(map(len, scenario.corrections))
        corrections = count(CORRECTED, dialogue)
        assert corrections <= 2 * facts * (settings_drawn["corrections"] > 0)
        assert settings_drawn["corrections"] < 1 or corrections == 2 * facts
        assert (
            sum(text in dict(SMALL_TALK) for text in texts_before_questions(dialogue))
            == settings_drawn["memory"]
        )
        exchanges = settings_drawn["memory"] + settings_drawn["distractors"] + corrections
        assert len(dialogue.turns) == len(scenario.opening) + 2 * exchanges + LAST
        assert dialogue.turns[-LAST].text.startswith(scenario.back) == (exchanges > 0)


@given(settings())
def test_harder_dialogues_are_plain_text_of_two_speakers(settings_drawn: dict[str, Any]) -> None:
    for dialogue in islice(BuiltinDialogues(**settings_drawn).dialogues("train"), 4):
        assert all(one.speaker != other.speaker for one, other in pairwise(dialogue.turns))
        assert {turn.speaker for turn in dialogue.turns} == set(
            SCENARIOS[str(dialogue.meta["scenario"])].speakers
        )
        for turn in dialogue.turns:
            assert re.fullmatch(r"[A-Z][A-Za-z,]*([.?]? [A-Za-z,]+)*[.?]", turn.text)


def test_a_copied_fact_is_stated_once_and_about_no_other() -> None:
    for dialogue in DIALOGUES:
        for turn in dialogue.turns:
            for copy in turn.copies:
                fact = turn.text[copy.start : copy.end]
                statements = [
                    text
                    for text in texts_before_questions(dialogue)
                    for _ in re.findall(rf"\b{fact}\b", text)
                ]
                assert statements == [dialogue.turns[copy.turn].text]
                assert not OTHERS.search(statements[0])


def test_distractors_state_facts_of_the_questioned_kinds() -> None:
    rivals: Counter[tuple[object, str]] = Counter()
    for dialogue in DIALOGUES:
        others = " ".join(
            text
            for exchange in pairwise(texts_before_questions(dialogue))
            for text in exchange
            if OTHERS.search(text)
        )
        for turn in dialogue.turns:
            for copy in turn.copies:
                fact = turn.text[copy.start : copy.end]
                kinds = {kind for kind, values in VALUES.items() if fact in values}
                if any(set(VALUES[kind]) & set(re.findall(r"\w+", others)) for kind in kinds):
                    rivals[dialogue.meta["scenario"], min(kinds)] += 1
    assert {scenario for scenario, _ in rivals} == set(SCENARIOS)
    assert min(rivals.values()) > 2


def test_corrections_occur_with_their_probability() -> None:
    corrected: Counter[int] = Counter()
    dialogues = list(
        BuiltinDialogues(size=3000, scenarios=["pets"], corrections=0.3).dialogues("train")
    )
    for dialogue in dialogues:
        corrected[
            len([text for text in texts_before_questions(dialogue) if "my cat is called" in text])
        ] += 1
    assert 0.67 < corrected[0] / len(dialogues) < 0.73
    assert 0.26 < corrected[2] / (corrected[1] + corrected[2]) < 0.34


def test_small_talk_and_people_repeat_only_after_all_others() -> None:
    corpus = BuiltinDialogues(memory=len(SMALL_TALK) + 1, distractors=len(VALUES["person"]) + 1)
    for dialogue in islice(corpus.dialogues("train"), 20):
        talk = Counter(
            text for text in texts_before_questions(dialogue) if text in dict(SMALL_TALK)
        )
        assert sorted(talk.values()) == [1] * (len(SMALL_TALK) - 1) + [2]
        people = Counter(
            person for text in texts_before_questions(dialogue) for person in OTHERS.findall(text)
        )
        assert sorted(people.values()) == [1] * (len(VALUES["person"]) - 1) + [2]


def test_exchanges_come_in_any_order() -> None:
    dialogues = list(BuiltinDialogues(size=1000, memory=1, distractors=1).dialogues("train"))
    first = [
        bool(OTHERS.search(" ".join(texts_before_questions(dialogue)[-4:-2])))
        for dialogue in dialogues
    ]
    assert 0.45 < sum(first) / len(dialogues) < 0.55


@pytest.mark.parametrize("split", SPLITS)
def test_a_smaller_harder_corpus_is_a_prefix_of_a_larger_one(split: str) -> None:
    small = list(BuiltinDialogues(size=10, **HARD).dialogues(split))
    assert len(small) == (10 if split == "train" else 1)
    assert small == list(
        islice(BuiltinDialogues(size=10_000_000, **HARD).dialogues(split), len(small))
    )


def test_the_fingerprint_lists_settings_that_add_turns() -> None:
    easy = BuiltinDialogues(size=10).fingerprint()
    assert easy == BuiltinDialogues(size=10, memory=0, distractors=0, corrections=0.0).fingerprint()
    for name, value in HARD.items():
        assert BuiltinDialogues(size=10, **{name: value}).fingerprint() == {
            **easy,
            name: str(value),
        }


@pytest.mark.parametrize(
    "wrong", [{"memory": -1}, {"distractors": -2}, {"corrections": 1.5}, {"corrections": -0.1}]
)
def test_a_setting_out_of_range_is_rejected(wrong: dict[str, Any]) -> None:
    ((name, value),) = wrong.items()
    with pytest.raises(UserError, match=rf"corpus builtin: .*{name} (is )?{value}.*0 or more"):
        BuiltinDialogues(**wrong)


def slots(*lines: str) -> list[str]:
    return [slot for line in lines for slot in re.findall(r"\{(\w+)\}", line)]


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_each_fact_has_a_correction_by_its_speaker(scenario: Scenario) -> None:
    asker = len(scenario.opening) % 2
    stated: dict[bool, list[str]] = {True: [], False: []}
    for number, phrasings in enumerate(scenario.opening):
        stated[number % 2 == asker] += slots(phrasings[0])
    for mine, lines in zip((True, False), scenario.corrections, strict=True):
        assert sorted(slots(*lines)) == sorted(stated[mine])
        assert all(len(slots(line)) == 1 for line in lines)


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_asides_about_others_cover_every_questioned_kind(scenario: Scenario) -> None:
    for exchange in scenario.asides:
        others = slots(*exchange)
        assert others.count("person") == 1
        assert len(others) > 1
        assert all(slot == "person" or slot.endswith("3") for slot in others)
    kinds = {slot.rstrip("23") for exchange in scenario.asides for slot in slots(*exchange)}
    assert kinds - {"person"} == {
        slot.rstrip("2") for _, answer in scenario.questions for slot in slots(answer)
    }


def values_in(kinds: Iterable[str], *lines: str) -> set[str]:
    """Return the words of the lines that are values of one of the kinds."""
    values = {value.lower() for kind in kinds for value in VALUES[kind]}
    return values & set(re.findall(r"\w+", re.sub(r"\{\w+\}", "", " ".join(lines)).lower()))


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_added_lines_have_values_only_in_slots(scenario: Scenario) -> None:
    exchanges = [line for exchange in scenario.asides for line in exchange]
    kinds = {slot.rstrip("23") for slot in slots(*exchanges)}
    assert not values_in(
        kinds, scenario.back, *scenario.corrections[0], *scenario.corrections[1], *exchanges
    )


def test_small_talk_contains_no_value() -> None:
    talk = [line for exchange in SMALL_TALK for line in exchange]
    assert not values_in(VALUES, *SORRY, *CHECKS, *CONSENT, *talk)
    assert len(set(talk)) == len(talk)
