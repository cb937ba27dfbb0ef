"""A store's rows are the examples of the text, one by one and in batches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.batching import collate, with_turn_shape
from dialog.data.corpora import Corpus
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import SPLITS, Dialogue, Example, Turn
from dialog.data.examples import DialogueWindows, ExampleRules, examples
from dialog.data.preparation.encoding import encode
from dialog.data.preparation.job import Limits
from dialog.data.store.layout import encode_example
from dialog.data.store.manifest import read_manifest
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import EOS, PAD, Tokenizer
from dialog.errors import UserError

SAMPLES = Path(__file__).parents[1] / "corpora" / "samples"
CORPORA = {
    "builtin": BuiltinDialogues(size=40),
    "dailydialog": DailyDialog(SAMPLES / "dailydialog"),
    "jsonl": JsonLines(SAMPLES / "jsonl"),
    "toy": None,
}
TEXTS = [["a", " ", "b", "c c", "d"], ["alone"], [], ["long " * 40, "word " * 30, "x"]]
Built = Callable[..., Path]
Toys = Callable[..., Corpus]


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("first_turns", [True, False])
def test_rows_are_the_examples_of_the_text(
    tmp_path: Path, built: Built, toy: Toys, name: str, first_turns: bool
) -> None:
    corpus = CORPORA[name] or toy(train=TEXTS)
    folder = built(tmp_path, corpus, first_turns=first_turns)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    for split in SPLITS:
        store = Store(folder, split)
        counts: Counter[str] = Counter()
        expected = list(
            examples(corpus.dialogues(split), ExampleRules(2, first_turns=first_turns), counts)
        )
        assert len(store) == len(expected) > 0
        max_target = 9 if split == "train" else None
        for row, example in enumerate(expected):
            source, target = encode_example(
                tokenizer, example, max_source=24, max_target=max_target
            )
            assert store.source(row).tolist() == source
            assert store.target(row).tolist() == target
            assert store.lengths[row].tolist() == [len(source), len(target) - 1]
            assert store.target_bytes([row]) == len(example.response.text.encode())
        assert (+counts).items() <= store.counts.items()
        assert [store.counts["source tokens"], store.counts["target tokens"]] == store.lengths.sum(
            0
        ).tolist()
        assert store.counts["target bytes"] == store.target_bytes(range(len(store)))
        assert sorted(store.classes.order[:].tolist()) == list(range(len(store)))


def test_counts_name_their_reasons(tmp_path: Path, built: Built, toy: Toys) -> None:
    counts = Store(built(tmp_path, toy(train=TEXTS)), "train").counts
    tokens = counts["source tokens"] + counts["target tokens"]
    assert {reason: counts[reason] for reason in counts if "tokens" not in reason} == {
        "dialogues read": 4,
        "dialogues": 2,
        "dropped dialogues: single turn": 1,
        "dropped dialogues: empty": 1,
        "turns read": 9,
        "turns": 7,
        "dropped turns: empty": 1,
        "dropped turns: single turn": 1,
        "examples": 5,
        "bytes": 1 + 1 + 3 + 1 + 199 + 149 + 1,
        "target bytes": 1 + 3 + 1 + 149 + 1,
        "truncated: source": 2,
        "truncated: target": 1,
    }
    assert 0 < tokens <= 5 * (24 + 9)


def test_targets_are_truncated_in_training_only(tmp_path: Path, built: Built, toy: Toys) -> None:
    long = [["who ?", "a b c d e f g h i j k l m"]]
    folder = built(tmp_path, toy(train=long, validation=long, test=long), max_target=4)
    train, validation, test = (Store(folder, split) for split in SPLITS)
    assert train.lengths[:, 1].tolist() == [4]
    assert train.target(0)[-1] == EOS
    assert validation.target(0).tolist() == test.target(0).tolist()
    assert validation.tokenizer.decode(validation.target(0).tolist()) == long[0][1]
    assert train.counts["truncated: target"] == 1
    assert "truncated: target" not in test.counts


def test_batches_hold_the_rows(tmp_path: Path, built: Built) -> None:
    store = Store(built(tmp_path, CORPORA["builtin"]), "train")
    rows = [5, 0, 17]
    batch = store.batch(np.array(rows))
    assert batch.rows.tolist() == rows
    expected = collate(
        [(store.source(row).tolist(), store.target(row).tolist()) for row in rows], rows
    )
    assert (batch.source == expected.source).all()
    assert (batch.target == expected.target).all()
    assert batch.source_tokens == int((batch.source != PAD).sum()) == store.lengths[rows, 0].sum()
    assert (
        batch.target_tokens == int((batch.target != PAD).sum()) - 3 == store.lengths[rows, 1].sum()
    )


texts = st.text("ab é日", min_size=1, max_size=9).filter(str.strip)
turns = st.lists(st.builds(Turn, st.sampled_from("ABC"), texts), min_size=1, max_size=6).map(tuple)
facts = st.lists(st.builds(Turn, st.sampled_from(["A", "B", ""]), texts), max_size=4).map(tuple)
dialogues = st.lists(st.builds(Dialogue, st.just("d"), turns, facts=facts), min_size=1, max_size=6)


class Same:
    """The same dialogues in every split."""

    def __init__(self, dialogues: list[Dialogue]) -> None:
        self.same = dialogues

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        yield from self.same

    def fingerprint(self) -> dict[str, str]:
        return {"same": "always"}


@settings(max_examples=40)
@given(
    dialogues,
    st.integers(0, 4),
    st.integers(1, 60),
    st.integers(1, 12),
    st.integers(1, 9),
    st.randoms(),
)
def test_batches_are_the_encoded_texts(
    built: Built,
    dialogues: list[Dialogue],
    context_turns: int,
    max_source: int,
    max_target: int,
    block: int,
    random: Random,
) -> None:
    dialogues = [replace(dialogue, id=str(number)) for number, dialogue in enumerate(dialogues)]
    limits = {"context_turns": context_turns, "max_source": max_source, "max_target": max_target}
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.preparation.filtering.BLOCK", block)
        tokenizer = {"name": "byte_bpe", "vocabulary": 264}
        folder = built(Path(root), Same(dialogues), tokenizer=tokenizer, first_turns=True, **limits)
        for split in ("train", "test"):
            store = Store(folder, split)
            expected = list(
                examples(dialogues, ExampleRules(context_turns, first_turns=True), Counter())
            )
            most = max_target if split == "train" else None
            pairs = [
                encode_example(store.tokenizer, one, max_source=max_source, max_target=most)
                for one in expected
            ]
            whole = [
                encode_example(store.tokenizer, one, max_source=10**6, max_target=None)
                for one in expected
            ]
            rows = random.choices(range(len(expected)), k=5)
            lengths = [facts_length(store, expected[row], max_source) for row in rows]
            target_bytes = store.target_bytes(rows)
            batch = with_turn_shape(
                collate(
                    [pairs[row] for row in rows], rows, facts=lengths, target_bytes=target_bytes
                )
            )
            for one, other in zip(store.batch(rows), batch, strict=True):
                assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert store.lengths.tolist() == [
                [len(source), len(target) - 1] for source, target in pairs
            ]
            truncated = [
                len(source) < len(full) for (source, _), (full, _) in zip(pairs, whole, strict=True)
            ]
            assert store.counts.get("truncated: source", 0) == sum(truncated)
            assert store.counts.get("facts", 0) == sum(
                len(dialogue.facts) for dialogue in dialogues
            )


def facts_length(store: Store, example: Example, max_source: int) -> int:
    """Ids of the facts of a source, roles included, truncated to half of the source."""
    return min(
        sum(1 + len(store.tokenizer.encode(fact.text)) for fact in example.facts), max_source // 2
    )


def test_facts_of_all_speakers_are_stored_once(tmp_path: Path, built: Built) -> None:
    turns = tuple(Turn("AB"[place % 2], "word") for place in range(6))
    shared, own = Turn("", "a fact of the world"), Turn("A", "mine")
    lines = []
    for name, facts in (("none", ()), ("shared", (shared,)), ("own", (shared, own))):
        folder = built(tmp_path / name, Same([Dialogue("d", turns, facts=facts)]))
        lines.append(read_manifest(folder)["arrays"]["train"]["speakers"][1])
    assert lines == [6, 7, 9]


def test_facts_are_read_once_for_each_speaker() -> None:
    class Counted(tuple[Turn, ...]):
        reads = 0

        def __iter__(self) -> Iterator[Turn]:
            Counted.reads += 1
            return super().__iter__()

    def reads(number: int) -> int:
        Counted.reads = 0
        turns = tuple(Turn("AB"[place % 2], "Hi .") for place in range(number))
        dialogue = Dialogue(
            "d", turns, facts=Counted([Turn("", "Be kind ."), Turn("A", "I knit .")])
        )
        chosen = DialogueWindows(dialogue, [(0, response) for response in range(1, number)])
        encode([chosen], byte_bpe(["Hi ."], vocabulary=300), Limits(24, 9), train=True)
        return Counted.reads

    assert reads(100) == reads(3)


def test_a_folder_without_data_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere holds no prepared data"):
        Store(tmp_path / "nowhere", "train")
