from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain, islice

import pytest

from dialog.config.compose import compose, shipped_recipes
from dialog.data.corpora.builtin.synthetic import TASKS, Synthetic
from dialog.data.dialogue import SPLITS, Dialogue, Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import encode_example
from dialog.data.tokenizers import byte_bpe
from dialog.errors import UserError

SETTINGS: dict[str, dict[str, object]] = {
    "recall": {"lengths": [2, 20], "symbols": 5},
    "rare": {"lengths": [4, 8], "values": 400},
}
VOCABULARY = 2000


def corpus(task: str, size: int = 1000, **settings: object) -> Synthetic:
    return Synthetic(**{"task": task, "size": size, **SETTINGS.get(task, {}), **settings})


def said(dialogue: Dialogue) -> tuple[list[str], list[str]]:
    """The words of both turns, without the mark."""
    context, response = (turn.text.split() for turn in dialogue.turns)
    assert context.pop(0) == response.pop(0) == ">"
    return context, response


def test_the_same_settings_give_the_same_dialogues_whatever_the_hash_seed() -> None:
    script = (
        "from dialog.data.corpora.builtin.synthetic import TASKS, Synthetic\n"
        "corpora = [Synthetic(task=task, size=20, seed=3) for task in TASKS]\n"
        "print([list(each.dialogues(split)) for each in corpora for split in ('train', 'validation', 'test')])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script], env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    corpora = [Synthetic(task=task, size=20, seed=3) for task in TASKS]
    here = [list(each.dialogues(split)) for each in corpora for split in SPLITS]
    assert outputs == {f"{here}{os.linesep}".encode()}


@pytest.mark.parametrize("task", TASKS)
def test_splits_share_no_dialogue_whatever_their_seeds(task: str) -> None:
    texts = [
        {dialogue.turns[0].text for dialogue in corpus(task, seed=seed).dialogues(split)}
        for seed, split in zip((0, 1, 2), SPLITS, strict=True)
    ]
    assert sum(map(len, texts)) == len(set.union(*texts))


@pytest.mark.parametrize("task", TASKS)
def test_a_smaller_corpus_is_the_beginning_of_a_larger(task: str) -> None:
    for split, size in zip(SPLITS, (50, 5, 5), strict=True):
        small = list(corpus(task, size=50).dialogues(split))
        assert len(small) == size
        assert small == list(islice(corpus(task).dialogues(split), size))


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("split", SPLITS)
def test_every_word_of_a_response_is_copied_from_where_it_says(task: str, split: str) -> None:
    for dialogue in corpus(task, size=200).dialogues(split):
        asked, answer = dialogue.turns
        words = [answer.text[copy.start : copy.end] for copy in answer.copies]
        assert words == [asked.text[copy.source : copy.source + copy.end - copy.start] for copy in answer.copies]
        assert words == said(dialogue)[1]
        assert {copy.turn for copy in answer.copies} == {0}
        assert all(re.fullmatch(r"\w+", word) for word in words)


def test_responses_are_right() -> None:
    right = {"reverse": lambda words: words[::-1], "copy": list, "sort": sorted}
    for task, answer in right.items():
        for dialogue in corpus(task).dialogues("train"):
            context, response = said(dialogue)
            assert response == answer(context)
            assert task != "sort" or len(set(context)) == len(context)
    keys = {said(dialogue)[0][-1] for dialogue in corpus("recall").dialogues("train")}
    assert len(keys) == 5
    for dialogue in corpus("recall").dialogues("train"):
        *words, ask, key = said(dialogue)[0]
        assert ask == "?"
        assert words.count(key) == 1
        assert said(dialogue)[1] == [words[words.index(key) + 1]]
        assert not set(said(dialogue)[1]) & keys
    for dialogue in corpus("rare").dialogues("train"):
        context, response = said(dialogue)
        assert response == [context[context.index("?") + 1]]
        assert len(set(context)) == len(context)


@pytest.mark.parametrize("task", TASKS)
def test_lengths_are_the_chosen_ones(task: str) -> None:
    chosen = corpus(task, lengths=[2, 4], test_lengths=[5, 6], symbols=2 if task == "recall" else 26)
    for split, wanted in zip(SPLITS, ({2, 3, 4}, {2, 3, 4}, {5, 6}), strict=True):
        words = {len(said(dialogue)[0]) for dialogue in chosen.dialogues(split)}
        more = {"recall": 2 + 2, "rare": 1}.get(task, 0)
        assert words == {length + more for length in wanted}


def test_rare_words_are_asked_for_hardly_ever_in_training_and_the_tests_never() -> None:
    asked = {
        split: {said(dialogue)[1][0] for dialogue in corpus("rare", size=3000).dialogues(split)} for split in SPLITS
    }
    seen = {word for dialogue in corpus("rare", size=3000).dialogues("train") for word in said(dialogue)[0]}
    assert len(asked["train"]) == 360
    assert len(asked["test"]) == 40
    assert not asked["test"] & (asked["train"] | asked["validation"])
    assert asked["test"] < seen


@pytest.mark.parametrize("task", TASKS)
def test_each_word_is_one_token_and_the_right_alignment_is_known(task: str) -> None:
    training = list(corpus(task, size=2000).dialogues("train"))
    tokenizer = byte_bpe((turn.text for each in training for turn in each.turns), vocabulary=VOCABULARY)
    assert len(tokenizer) < VOCABULARY
    for dialogue in [*training[:100], *corpus(task, size=2000).dialogues("test")]:
        for turn in dialogue.turns:
            assert len(tokenizer.encode(turn.text)) == len(turn.text.split())
        example = Example(dialogue.id, dialogue.id, dialogue.turns[:1], dialogue.turns[1], 0)
        source, target = encode_example(tokenizer, example, max_source=512, max_target=None)
        known = alignment(tokenizer, example, max_source=512)
        assert list(known) == list(range(1, len(target) - 2))  # all but the mark and the end
        assert all(source[place] == target[position + 1] for position, place in known.items())


@pytest.mark.parametrize("name", [each for each in shipped_recipes() if each.startswith("reverse/")])
def test_the_tokenizer_of_a_shipped_recipe_has_room_for_each_word(name: str) -> None:
    data = compose(name).recipe.data
    settings = {key: value for key, value in data.corpus.items() if key != "name"}
    training = list(Synthetic(**{**settings, "size": 500}).dialogues("train"))
    tokenizer = byte_bpe(
        (turn.text for each in training for turn in each.turns), vocabulary=data.tokenizer["vocabulary"]
    )
    words = {word for dialogue in training for word in said(dialogue)[0]}
    assert len(words) == settings.get("symbols", 26)
    assert all(len(tokenizer.encode(f"> {word}")) == 2 for word in words)


def test_the_fingerprint_tells_settings_apart() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"task": "copy"},
        {"size": 10},
        {"seed": 1},
        {"symbols": 9},
        {"values": 9},
        {"lengths": [3, 4]},
        {"test_lengths": [3, 4]},
    ]
    prints = [Synthetic(**each).fingerprint() for each in settings]
    assert all(one != other for place, one in enumerate(prints) for other in prints[:place])
    assert prints[0] == Synthetic().fingerprint()
    assert all(isinstance(value, str) for value in prints[0].values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "revers"}, "no task 'revers'; did you mean 'reverse'"),
        ({"size": 0}, "size is 0"),
        ({"symbols": 2000, "values": 1000}, "2500 in all or fewer"),
        ({"lengths": [5, 4]}, "lengths are"),
        ({"lengths": [0, 4]}, "from 1"),
        ({"lengths": [4]}, "the fewest and the most"),
        ({"test_lengths": [4, 0]}, "lengths are"),
        ({"task": "sort", "symbols": 10, "lengths": [3, 11]}, "from 1 to 10"),
        ({"task": "rare", "values": 5, "lengths": [3, 6]}, "from 1 to 5"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Synthetic(**settings)


def test_a_split_without_dialogues_is_refused_not_sought_for_ever() -> None:
    one = Synthetic(symbols=1, lengths=[1, 1], size=1)  # its only dialogue falls to one split
    with pytest.raises(UserError, match="finds no dialogue"):
        list(chain.from_iterable(map(one.dialogues, SPLITS)))
