"""ParlAI's layout of a source: turns with one `<unk>` between them, and the silence before the
first turn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.config.schema import GenerationConfig
from dialog.data.batching import collate
from dialog.data.corpora import Corpus
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import SEPARATED, encode_example, source_ids
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import UNK
from dialog.generation.responder import Responder

TURNS = [(False, [10, 11]), (True, [12]), (False, [13, 14])]
FACTS = [(True, [20]), (False, [21])]
DIALOGUE = Dialogue("d", tuple(Turn(*turn) for turn in [("A", "a b"), ("B", "c"), ("A", "d")]))
Built = Callable[..., Path]
Toys = Callable[..., Corpus]


@pytest.mark.parametrize(
    ("limit", "facts", "expected"),
    [
        (99, [], [10, 11, UNK, 12, UNK, 13, 14]),
        (7, [], [10, 11, UNK, 12, UNK, 13, 14]),
        (6, [], [11, UNK, 12, UNK, 13, 14]),
        (1, [], [14]),
        (99, FACTS, [20, UNK, 21, UNK, 10, 11, UNK, 12, UNK, 13, 14]),
        (9, FACTS, [20, UNK, 21, UNK, UNK, 12, UNK, 13, 14]),
    ],
)
def test_source_by_hand(
    limit: int, facts: list[tuple[bool, list[int]]], expected: list[int]
) -> None:
    source = source_ids(TURNS, max_source=limit, facts=facts, layout=SEPARATED)
    assert source == expected


@pytest.mark.parametrize("turns", [[], [(False, [])]])
def test_a_source_without_ids_is_one_separator(turns: list[tuple[bool, list[int]]]) -> None:
    assert source_ids(turns, max_source=9, layout=SEPARATED) == [UNK]


def test_silence_precedes_the_first_speakers_responses_only() -> None:
    tokenizer = byte_bpe(["a b c d SILENCE"], vocabulary=300)
    rules = ExampleRules(None, first_turns=True, silence="SILENCE")
    found = [
        encode_example(tokenizer, example, max_source=99, max_target=None, layout=SEPARATED)[0]
        for example in examples([DIALOGUE], rules, Counter())
    ]
    silence, a, b, c = (tokenizer.encode(text) for text in ("SILENCE", "a b", "c", "d"))
    assert found == [silence, a, [*silence, UNK, *a, UNK, *b]]
    assert c not in found
    responder = Responder(
        None, tokenizer, 99, GenerationConfig(), layout=SEPARATED, silence="SILENCE"
    )
    contexts: list[list[str]] = [[], ["a b"], ["a b", "c"]]
    assert [responder.encode(responder.example(context))[0] for context in contexts] == found


@pytest.mark.parametrize("max_source", [2, 5, 24, 300])
@pytest.mark.parametrize("silence", [None, "quiet please"])
def test_stored_rows_are_the_encoded_examples(
    tmp_path: Path, built: Built, toy: Toys, max_source: int, silence: str | None
) -> None:
    for corpus in (
        toy(train=[["a b", "\u200b", "c", "d e f " * 9], ["alone"]]),
        BuiltinDialogues(size=30),
    ):
        rules = ExampleRules(4, first_turns=True, silence=silence)
        changed = {
            "context_turns": 4,
            "first_turns": True,
            "silence": silence,
            "max_source": max_source,
        }
        store = Store(built(tmp_path, corpus, **changed, layout=SEPARATED), "train")
        limits = {"max_source": max_source, "max_target": 9}
        expected = [
            encode_example(store.tokenizer, example, **limits, layout=SEPARATED)
            for example in examples(corpus.dialogues("train"), rules, Counter())
        ]
        batch = store.batch(range(len(store)))
        whole = collate(expected)
        assert batch.source.tolist() == whole.source.tolist()
        assert batch.target.tolist() == whole.target.tolist()
        assert store.lengths[:, 0].tolist() == [len(source) for source, _ in expected]
        assert [store.source(row).tolist() for row in range(5)] == [
            source for source, _ in expected[:5]
        ]


def test_alignment_points_to_the_copied_tokens() -> None:
    corpus = BuiltinDialogues(size=30, memory=1)
    rules = ExampleRules(None, first_turns=False)
    tokenizer = byte_bpe(
        [turn.text for entry in corpus.dialogues("train") for turn in entry.turns], vocabulary=500
    )
    pairs = 0
    for example in examples(corpus.dialogues("train"), rules, Counter()):
        for limit in (20, 400):
            source, target = encode_example(
                tokenizer, example, max_source=limit, max_target=None, layout=SEPARATED
            )
            aligned = alignment(tokenizer, example, max_source=limit, layout=SEPARATED)
            pairs += sum(source[place] == target[1 + token] for token, place in aligned.items())
            assert all(0 <= place < len(source) for place in aligned.values())
    assert pairs > 50
