from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter, defaultdict
from itertools import islice, pairwise

import pytest

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.builtin.scenarios import SCENARIOS, VALUES, Scenario
from dialog.data.dialogue import SPLITS, Dialogue, Turn
from dialog.data.text_matching.leaks import hash_all_long_pairs
from dialog.errors import UserError

WINDOW = 6
DIALOGUES = list(BuiltinDialogues(size=2500).dialogues("train"))


def words(turns: tuple[Turn, ...]) -> str:
    return " ".join(re.findall(r"\w+", " ".join(turn.text for turn in turns).lower()))


def masked(turn: Turn) -> str:
    """Return the answer with its copied facts replaced by *."""
    text = turn.text
    for copy in sorted(turn.copies, reverse=True):
        text = f"{text[: copy.start]}*{text[copy.end :]}"
    return text


def answers(dialogue: Dialogue) -> list[int]:
    return [index for index, turn in enumerate(dialogue.turns) if turn.copies]


def test_dialogues_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "from dialog.data.corpora.builtin.builtin_dialogues import"
        " BuiltinDialogues\nprint([list(BuiltinDialogues(size=60, seed=3).dialogues(split)) for"
        " split in ('train', 'validation', 'test')])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    here = [list(BuiltinDialogues(size=60, seed=3).dialogues(split)) for split in SPLITS]
    assert outputs == {f"{here}{os.linesep}".encode()}


def test_another_seed_gives_other_dialogues() -> None:
    one, other = (
        {words(d.turns) for d in BuiltinDialogues(size=200, seed=seed).dialogues("train")}
        for seed in (0, 1)
    )
    assert len(one & other) < 5


@pytest.mark.parametrize("split", SPLITS)
def test_a_smaller_corpus_is_a_prefix_of_a_larger_one(split: str) -> None:
    small = list(BuiltinDialogues(size=50).dialogues(split))
    assert small == list(islice(BuiltinDialogues(size=500).dialogues(split), len(small)))


@pytest.mark.parametrize(("size", "held_out"), [(1, 1), (9, 1), (30, 3), (257, 25)])
def test_validation_and_test_hold_a_tenth_each(size: int, held_out: int) -> None:
    corpus = BuiltinDialogues(size=size)
    assert [sum(1 for _ in corpus.dialogues(split)) for split in SPLITS] == [
        size,
        held_out,
        held_out,
    ]


def test_ids_are_unique_and_two_passes_are_equal() -> None:
    corpus = BuiltinDialogues(size=300)
    assert len({dialogue.id for dialogue in corpus.dialogues("train")}) == 300
    assert list(corpus.dialogues("test")) == list(corpus.dialogues("test"))


@pytest.mark.parametrize("size", [0, -3])
def test_a_size_below_one_is_rejected(size: int) -> None:
    with pytest.raises(UserError, match=rf"size is {size}.*1 or more"):
        BuiltinDialogues(size=size)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_splits_share_no_pair_of_turns_even_across_seeds(scenario: str) -> None:
    pairs: dict[str, set[int]] = {}
    for split in SPLITS:
        dialogues = [
            dialogue
            for seed in (0, 1)
            for dialogue in BuiltinDialogues(size=1000, seed=seed, scenarios=[scenario]).dialogues(
                split
            )
        ]
        pairs[split] = set(hash_all_long_pairs(dialogues).tolist())
    assert all(pairs.values())
    assert sum(map(len, pairs.values())) == len(set.union(*pairs.values()))


def test_what_added_exchanges_stand_between_is_of_one_split_too() -> None:
    turns = {
        split: {
            (dialogue.turns[answer - 1].text, dialogue.turns[answer].text)
            for dialogue in BuiltinDialogues(
                size=1000, memory=1, distractors=1, corrections=0.5
            ).dialogues(split)
            for answer in answers(dialogue)
        }
        for split in SPLITS
    }
    assert sum(map(len, turns.values())) == len(set.union(*turns.values()))


@pytest.mark.parametrize("split", SPLITS)
def test_every_question_of_every_scenario_occurs_in_every_split(split: str) -> None:
    asked: dict[object, set[str]] = defaultdict(set)
    for dialogue in BuiltinDialogues(size=3_000).dialogues(split):
        forms = {masked(dialogue.turns[place]) for place in answers(dialogue)}
        asked[dialogue.meta["scenario"]] |= forms
    for name, scenario in SCENARIOS.items():
        assert asked[name] == {re.sub(r"{\w+}", "*", answer) for _, answer in scenario.questions}


def test_dialogues_within_a_split_rarely_repeat() -> None:
    assert len({words(dialogue.turns) for dialogue in DIALOGUES}) >= 0.99 * len(DIALOGUES)


def test_ten_million_dialogues_are_streamed() -> None:
    corpus = BuiltinDialogues(size=10_000_000)
    for split in SPLITS:
        assert next(corpus.dialogues(split)).id == f"{split}-0"


def test_two_speakers_alternate_in_plain_text() -> None:
    for dialogue in DIALOGUES:
        speakers = [turn.speaker for turn in dialogue.turns]
        assert 6 <= len(speakers) <= 7
        assert len(set(speakers)) == 2
        assert all(one != other for one, other in pairwise(speakers))
        for turn in dialogue.turns:
            assert turn.text.isascii()
            assert re.fullmatch(r"\S+( \S+)*[.?]", turn.text)
            assert "{" not in turn.text


def test_each_dialogue_ends_with_two_questions_and_their_answers() -> None:
    for dialogue in DIALOGUES:
        last = len(dialogue.turns) - 1
        assert answers(dialogue) == [last - 2, last]
        assert all(dialogue.turns[index - 1].text.endswith("?") for index in answers(dialogue))


def test_a_copy_repeats_whole_words_of_a_turn_in_the_window() -> None:
    for dialogue in DIALOGUES:
        for index in answers(dialogue):
            answer = dialogue.turns[index].text
            for start, end, turn, source in dialogue.turns[index].copies:
                assert index - WINDOW <= turn < index
                text = dialogue.turns[turn].text
                assert answer[start:end] == text[source : source + end - start]
                assert answer[start - 1] == text[source - 1] == " "
                assert not answer[end].isalnum()
                assert not text[source + end - start].isalnum()


def test_a_copied_fact_occurs_once_before_its_answer() -> None:
    for dialogue in DIALOGUES:
        for index in answers(dialogue):
            before = " ".join(turn.text for turn in dialogue.turns[:index])
            for copy in dialogue.turns[index].copies:
                fact = dialogue.turns[index].text[copy.start : copy.end]
                assert len(re.findall(rf"\b{fact}\b", before)) == 1, (fact, dialogue)


def test_an_answer_is_a_function_of_its_context() -> None:
    replies: dict[tuple[str, ...], set[str]] = defaultdict(set)
    wordings: dict[tuple[object, str], set[str]] = defaultdict(set)
    for dialogue in BuiltinDialogues(size=6000).dialogues("train"):
        for index in answers(dialogue):
            replies[
                tuple(turn.text for turn in dialogue.turns[max(index - WINDOW, 0) : index])
            ].add(dialogue.turns[index].text)
            question = re.split(r"(?<=\.) ", dialogue.turns[index - 1].text)[-1]
            wordings[dialogue.meta["scenario"], question].add(masked(dialogue.turns[index]))
    assert all(len(texts) == 1 for texts in replies.values())
    assert all(len(texts) == 1 for texts in wordings.values())


def test_no_answer_can_be_guessed_without_the_context() -> None:
    replies_to: dict[tuple[object, str], Counter[str]] = defaultdict(Counter)
    for dialogue in DIALOGUES:
        for index in answers(dialogue):
            replies_to[dialogue.meta["scenario"], masked(dialogue.turns[index])][
                dialogue.turns[index].text
            ] += 1
    assert {scenario for scenario, _ in replies_to} == set(SCENARIOS)
    for form, counts in replies_to.items():
        assert counts.total() > 50
        assert counts.most_common(1)[0][1] < 0.25 * counts.total(), (
            form
        )  # a day of the week: 1 of 7


def test_questions_ask_for_either_of_two_facts_of_a_kind() -> None:
    questions_for: Counter[tuple[object, bool]] = Counter()
    for dialogue in DIALOGUES:
        if dialogue.meta["scenario"] in {"dinner", "pets", "weekend"}:
            copy = dialogue.turns[answers(dialogue)[0]].copies[0]
            rivals = rivals_of(dialogue, copy.turn, copy.source, copy.end - copy.start)
            assert rivals
            questions_for[dialogue.meta["scenario"], max(rivals) > (copy.turn, copy.source)] += 1
    for scenario in ("dinner", "pets", "weekend"):
        earlier, later = questions_for[scenario, True], questions_for[scenario, False]
        assert 0.4 < earlier / (earlier + later) < 0.6


def rivals_of(dialogue: Dialogue, turn: int, source: int, length: int) -> list[tuple[int, int]]:
    """Return (turn, character) of the other facts of the copied kind, in the turns before the first
    question.
    """
    fact = dialogue.turns[turn].text[source : source + length]
    kinds = [set(values) for values in VALUES.values() if fact in values]
    others = set.union(*kinds) - {fact}
    opening = dialogue.turns[: answers(dialogue)[0] - 1]
    return [
        (index, match.start())
        for index, turn in enumerate(opening)
        for match in re.finditer(r"\w+", turn.text)
        if match.group() in others
    ]


def test_the_fingerprint_depends_on_the_settings() -> None:
    prints = [
        BuiltinDialogues(size=size, seed=seed).fingerprint()
        for size, seed in ((10, 0), (10, 1), (11, 0))
    ]
    assert all(one != other for one, other in pairwise(prints))
    assert prints[0] == BuiltinDialogues(size=10).fingerprint()
    assert all(isinstance(value, str) for value in prints[0].values())
    assert BuiltinDialogues(size=10, scenarios=["pets"]).fingerprint() != prints[0]


def test_only_the_chosen_scenarios_occur() -> None:
    chosen = BuiltinDialogues(size=60, scenarios=["table", "pets"])
    assert {dialogue.meta["scenario"] for dialogue in chosen.dialogues("train")} == {
        "table",
        "pets",
    }
    with pytest.raises(UserError, match="did you mean 'pets'"):
        BuiltinDialogues(scenarios=["pet"])
    with pytest.raises(UserError):
        BuiltinDialogues(scenarios=[])


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_all_phrasings_of_a_turn_have_the_same_slots(scenario: Scenario) -> None:
    stated: list[str] = []
    for phrasings in scenario.opening:
        slots = {tuple(sorted(re.findall(r"\{(\w+)\}", line))) for line in phrasings}
        assert len(slots) == 1
        stated += slots.pop()
    assert len(stated) == len(set(stated))
    assert {slot.rstrip("2") for slot in stated} <= set(VALUES)
    assert {
        slot for _, answer in scenario.questions for slot in re.findall(r"\{(\w+)\}", answer)
    } == set(stated)
