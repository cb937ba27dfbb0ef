from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from itertools import chain, islice

import pytest

from dialog.config.compose import compose, shipped_recipes
from dialog.data.corpora.builtin.synthetic_tasks import COPYING, TASKS, SyntheticTasks
from dialog.data.dialogue import SPLITS, Dialogue, Example
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import encode_example
from dialog.data.tokenizers import byte_bpe
from dialog.errors import UserError

SETTINGS: dict[str, dict[str, object]] = {
    "recall": {"lengths": [2, 20], "symbols": 5},
    "rare": {"lengths": [4, 8], "values": 400},
    "multi_recall": {"lengths": [2, 20]},
    "selective_copy": {"lengths": [6, 12]},
    "counting": {"lengths": [3, 12], "symbols": 5},
    "permutations": {"lengths": [3, 12]},
}
VOCABULARY = 2000


def corpus(task: str, size: int = 600, **settings: object) -> SyntheticTasks:
    return SyntheticTasks(**{"task": task, "size": size, **SETTINGS.get(task, {}), **settings})


def words_of(dialogue: Dialogue) -> tuple[list[str], list[str]]:
    """The words of both turns, without the mark."""
    context, response = (turn.text.split() for turn in dialogue.turns)
    assert context.pop(0) == response.pop(0) == ">"
    return context, response


def test_dialogues_do_not_depend_on_the_hash_seed() -> None:
    script = (
        "from dialog.data.corpora.builtin.synthetic_tasks import TASKS, SyntheticTasks\ncorpora ="
        " [SyntheticTasks(task=task, size=20, seed=3) for task in"
        " TASKS]\nprint([list(each.dialogues(split)) for each in corpora for split in ('train',"
        " 'validation', 'test')])"
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
    corpora = [SyntheticTasks(task=task, size=20, seed=3) for task in TASKS]
    here = [list(member.dialogues(split)) for member in corpora for split in SPLITS]
    assert outputs == {f"{here}{os.linesep}".encode()}


@pytest.mark.parametrize("task", TASKS)
def test_splits_share_no_dialogue_across_seeds(task: str) -> None:
    texts = [
        {dialogue.turns[0].text for dialogue in corpus(task, seed=seed).dialogues(split)}
        for seed, split in zip((0, 1, 2), SPLITS, strict=True)
    ]
    assert sum(map(len, texts)) == len(set.union(*texts))


@pytest.mark.parametrize("task", TASKS)
def test_a_smaller_corpus_is_a_prefix_of_a_larger_one(task: str) -> None:
    for split, size in zip(SPLITS, (50, 5, 5), strict=True):
        small = list(corpus(task, size=50).dialogues(split))
        assert len(small) == size
        assert small == list(islice(corpus(task).dialogues(split), size))


@pytest.mark.parametrize("task", COPYING)
@pytest.mark.parametrize("split", SPLITS)
def test_copies_point_to_the_source_of_each_word(task: str, split: str) -> None:
    for dialogue in corpus(task, size=200).dialogues(split):
        requested, answer = dialogue.turns
        words = [answer.text[copy.start : copy.end] for copy in answer.copies]
        assert words == [
            requested.text[copy.source : copy.source + copy.end - copy.start]
            for copy in answer.copies
        ]
        assert words == words_of(dialogue)[1]
        assert {copy.turn for copy in answer.copies} == {0}
        assert all(re.fullmatch(r"\w+", word) for word in words)


def test_responses_are_correct() -> None:
    right = {"reverse": lambda words: words[::-1], "copy": list, "sort": sorted}
    for task, answer in right.items():
        for dialogue in corpus(task).dialogues("train"):
            context, response = words_of(dialogue)
            assert response == answer(context)
            assert task != "sort" or len(set(context)) == len(context)
    keys = {words_of(dialogue)[0][-1] for dialogue in corpus("recall").dialogues("train")}
    assert len(keys) == 5
    for dialogue in corpus("recall").dialogues("train"):
        *words, ask, key = words_of(dialogue)[0]
        assert ask == "?"
        assert words.count(key) == 1
        assert words_of(dialogue)[1] == [words[words.index(key) + 1]]
        assert not set(words_of(dialogue)[1]) & keys
    for dialogue in corpus("rare").dialogues("train"):
        context, response = words_of(dialogue)
        assert response == [context[context.index("?") + 1]]
        assert len(set(context)) == len(context)


def recall(words: list[str]) -> list[str]:
    """Each word after "?" is a key that the words before it have once; its value follows it."""
    asked = words.index("?")
    before = words[:asked]
    assert all(before.count(key) == 1 for key in words[asked + 1 :])
    return [before[before.index(key) + 1] for key in words[asked + 1 :]]


@pytest.mark.parametrize("task", ["multi_recall", "needle"])
def test_an_oracle_reads_the_values_of_all_keys(task: str) -> None:
    answers = []
    for dialogue in corpus(task, values=10).dialogues("train"):
        context, response = words_of(dialogue)
        asked = context[context.index("?") + 1 :]
        values = response if task == "needle" else response[1::2]
        assert recall(context) == values
        assert task == "needle" or response[::2] == asked
        assert len(asked) == len(set(asked)) == len(values)
        answers += values
    most_frequent = max(map(answers.count, set(answers))) / len(answers)
    assert most_frequent < 0.2, "a constant answer is no better than chance"


def test_selective_copies_are_symbols_in_order() -> None:
    few = {word for each in corpus("copy").dialogues("train") for word in words_of(each)[0]}
    for dialogue in corpus("selective_copy").dialogues("train"):
        context, response = words_of(dialogue)
        assert len(response) == 4
        assert [word for word in context if word in few] == response


@pytest.mark.parametrize(("task", "order"), [("counting", 5), ("permutations", 6)])
def test_answers_are_products_in_a_group(task: str, order: int) -> None:
    pairs = corpus(task, lengths=[2, 2], size=2000)
    products: dict[tuple[str, str], str] = {}
    for split in SPLITS:
        for (first, second), (answer,) in map(words_of, pairs.dialogues(split)):
            assert products.setdefault((first, second), answer) == answer
    assert len(products) == order**2
    assert len(set(products.values())) == order
    commutes = [products[a, b] == products[b, a] for a, b in products]
    assert all(commutes) == (task == "counting")
    for dialogue in corpus(task).dialogues("train"):
        context, (answer,) = words_of(dialogue)
        assert functools.reduce(lambda state, word: products[state, word], context) == answer


@pytest.mark.parametrize("task", TASKS)
def test_lengths_are_in_the_chosen_range(task: str) -> None:
    limited = corpus(
        task, lengths=[4, 6], test_lengths=[7, 8], symbols=4 if task == "recall" else 26
    )
    lengths = {
        "recall": lambda length: {length + 4 + 2},
        "rare": lambda length: {length + 1},
        "multi_recall": lambda length: {2 * length + 1 + 4},
        "needle": lambda length: {length + 4},
    }
    for split, wanted in zip(SPLITS, ((4, 5, 6), (4, 5, 6), (7, 8)), strict=True):
        words = {len(words_of(dialogue)[0]) for dialogue in limited.dialogues(split)}
        expected = lengths.get(task, lambda length: {length})
        assert words == set().union(*map(expected, wanted))


def test_the_test_asks_only_for_words_never_asked_in_training() -> None:
    turns = {
        split: [*map(words_of, corpus("rare", size=3000).dialogues(split))] for split in SPLITS
    }
    requested = {split: {response[0] for _, response in pairs} for split, pairs in turns.items()}
    seen = {word for context, _ in turns["train"] for word in context}
    assert len(requested["train"]) == 360
    assert len(requested["test"]) == 40
    assert not requested["test"] & (requested["train"] | requested["validation"])
    assert requested["test"] < seen


@pytest.mark.parametrize("task", COPYING)
def test_each_word_is_one_token_with_a_gold_alignment(task: str) -> None:
    training = list(corpus(task, size=2000).dialogues("train"))
    tokenizer = byte_bpe(
        (turn.text for dialogue in training for turn in dialogue.turns), vocabulary=VOCABULARY
    )
    assert len(tokenizer) < VOCABULARY
    for dialogue in [*training[:100], *corpus(task, size=2000).dialogues("test")]:
        for turn in dialogue.turns:
            assert len(tokenizer.encode(turn.text)) == len(turn.text.split())
        example = Example(dialogue.id, dialogue.id, dialogue.turns[:1], dialogue.turns[1], 0)
        source, target = encode_example(tokenizer, example, max_source=512, max_target=None)
        gold = alignment(tokenizer, example, max_source=512)
        assert list(gold) == list(range(1, len(target) - 2))  # all but the mark and the end
        assert all(source[place] == target[position + 1] for position, place in gold.items())


@pytest.mark.parametrize(
    "name", [name for name in shipped_recipes() if name.startswith("reverse/")]
)
def test_the_recipes_tokenizers_have_a_token_for_each_word(name: str) -> None:
    data = compose(name).recipe.data
    settings = {key: value for key, value in data.corpus.items() if key != "name"}
    training = list(SyntheticTasks(**{**settings, "size": 500}).dialogues("train"))
    tokenizer = byte_bpe(
        (turn.text for dialogue in training for turn in dialogue.turns),
        vocabulary=data.tokenizer["vocabulary"],
    )
    words = {word for dialogue in training for word in words_of(dialogue)[0]}
    assert len(words) == settings.get("symbols", 26)
    assert all(len(tokenizer.encode(f"> {word}")) == 2 for word in words)


def test_the_fingerprint_depends_on_the_settings() -> None:
    settings: list[dict[str, object]] = [
        {},
        {"task": "copy"},
        {"size": 10},
        {"seed": 1},
        {"symbols": 9},
        {"values": 9},
        {"lengths": [3, 4]},
        {"test_lengths": [3, 4]},
        {"task": "selective_copy"},
        {"task": "selective_copy", "answers": 3},
    ]
    prints = [SyntheticTasks(**arguments).fingerprint() for arguments in settings]
    assert all(one != other for place, one in enumerate(prints) for other in prints[:place])
    assert prints[0] == SyntheticTasks().fingerprint()
    assert all(isinstance(value, str) for value in prints[0].values())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"task": "revers"}, "unknown task 'revers'; did you mean 'reverse'"),
        ({"size": 0}, "size is 0"),
        ({"symbols": 2000, "values": 1000}, "at most 2474"),
        ({"lengths": [5, 4]}, "lengths are"),
        ({"lengths": [0, 4]}, "from 1"),
        ({"lengths": [4]}, "the fewest and the most"),
        ({"test_lengths": [4, 0]}, "lengths are"),
        ({"task": "sort", "symbols": 10, "lengths": [3, 11]}, "from 1 to 10"),
        ({"task": "rare", "values": 5, "lengths": [3, 6]}, "from 1 to 5"),
        ({"task": "selective_copy", "answers": 5, "lengths": [4, 6]}, "from 5"),
        ({"task": "selective_copy", "answers": 0}, "answers 0"),
    ],
)
def test_invalid_settings_are_rejected(settings: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        SyntheticTasks(**settings)


def test_a_split_that_stays_empty_is_rejected() -> None:
    one = SyntheticTasks(symbols=1, lengths=[1, 1], size=1)  # its only dialogue falls to one split
    with pytest.raises(UserError, match=r"no \w+ dialogue in 10,000 draws"):
        list(chain.from_iterable(map(one.dialogues, SPLITS)))
