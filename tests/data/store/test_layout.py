"""How an example lies in ids, and which source tokens a response repeats."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import Copy, Example, Turn
from dialog.data.examples import ExampleRules, examples
from dialog.data.gold_alignment import alignment
from dialog.data.store.layout import encode_example, source_ids, target_ids
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import BOS, EOS, OTHER, SELF, Tokenizer

ASK = Turn("A", "where is the red hat ?")
FOUND = Turn("B", "the green parrot")
REPLY = Turn("A", "a red hat", (Copy(2, 9, 0, 13),))
TOKENIZER = byte_bpe([ASK.text, FOUND.text, REPLY.text] * 2, vocabulary=400)
EXAMPLE = Example("d#2", "d", (ASK, FOUND), REPLY, 0)


def test_sources_name_whose_turn_it_is_and_end() -> None:
    source, target = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=100)
    assert source == [SELF, *TOKENIZER.encode(ASK.text), OTHER, *TOKENIZER.encode(FOUND.text), EOS]
    assert target == [BOS, *TOKENIZER.encode(REPLY.text), EOS]


def test_an_empty_context_is_an_end() -> None:
    source, _ = encode_example(TOKENIZER, replace(EXAMPLE, context=()), max_source=100, max_target=None)
    assert source == [EOS]


@pytest.mark.parametrize("limit", [1, 2, 5, 9, 100])
def test_sources_are_cut_from_the_left_and_targets_from_the_right(limit: int) -> None:
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=1000, max_target=None)
    ids = TOKENIZER.encode(REPLY.text)
    source, target = encode_example(TOKENIZER, EXAMPLE, max_source=limit, max_target=limit)
    assert source == whole[-limit:]
    assert len(source) == min(limit, len(whole))
    assert source[-1] == EOS
    assert target == [BOS, *ids[: limit - 1], EOS]
    assert len(target) - 1 <= limit


KNOWN = (Turn("A", "red"), Turn("", "hats are green"))


def test_facts_come_first_with_who_knows_them() -> None:
    source, _ = encode_example(TOKENIZER, replace(EXAMPLE, facts=KNOWN), max_source=100, max_target=None)
    plain, _ = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=None)
    assert source == [SELF, *TOKENIZER.encode("red"), OTHER, *TOKENIZER.encode("hats are green"), *plain]


@pytest.mark.parametrize("limit", range(1, 30))
def test_facts_take_half_the_room_at_most(limit: int) -> None:
    facts, turns = [(True, [11, 12]), (False, [13, 14, 15])], [(False, [21, 22, 23, 24]), (True, [25, 26])]
    read = source_ids(turns, max_source=99)
    known = source_ids(facts, max_source=99)[:-1]
    source = source_ids(turns, max_source=limit, facts=facts)
    kept = min(len(known), limit // 2)
    assert source[:kept] == known[:kept]
    assert source[kept:] == read[-(limit - kept) :]
    assert len(source) <= limit


def test_layouts_take_any_ids() -> None:
    assert source_ids([(True, [7, 8]), (False, [9])], max_source=99) == [SELF, 7, 8, OTHER, 9, EOS]
    assert target_ids([], max_target=1) == [BOS, EOS]
    assert target_ids([7, 8], max_target=1) == [BOS, EOS]


def aligned(example: Example, *, max_source: int = 1000, tokenizer: Tokenizer = TOKENIZER) -> list[tuple[str, str]]:
    source, target = encode_example(tokenizer, example, max_source=max_source, max_target=None)
    pairs = alignment(tokenizer, example, max_source=max_source)
    return [
        (tokenizer.decode([target[1 + t]]).strip(), tokenizer.decode([source[s]]).strip()) for t, s in pairs.items()
    ]


def test_repeated_words_point_at_their_first_statement() -> None:
    assert aligned(EXAMPLE) == [("red", "red"), ("hat", "hat")]
    assert alignment(TOKENIZER, EXAMPLE, max_source=1000) == {1: 4, 2: 5}


def test_source_positions_count_from_the_cut() -> None:
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=1000, max_target=None)
    for limit in range(1, len(whole) + 1):
        cut = len(whole) - limit
        expected = {t: s - cut for t, s in {1: 4, 2: 5}.items() if s >= cut}
        assert alignment(TOKENIZER, EXAMPLE, max_source=limit) == expected


@pytest.mark.parametrize("limit", range(2, 40))
def test_source_positions_count_the_facts(limit: int) -> None:
    known = replace(EXAMPLE, facts=KNOWN)
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=None)
    source, target = encode_example(TOKENIZER, known, max_source=limit, max_target=None)
    pairs = alignment(TOKENIZER, known, max_source=limit)
    facts = min(limit // 2, len(encode_example(TOKENIZER, known, max_source=100, max_target=None)[0]) - len(whole))
    shift = len(source) - len(whole)  # both end alike
    assert pairs == {t: s + shift for t, s in {1: 4, 2: 5}.items() if s + shift >= facts}
    assert all(TOKENIZER.decode([source[s]]) == TOKENIZER.decode([target[1 + t]]) for t, s in pairs.items())


def test_turns_outside_the_window_are_left_out() -> None:
    late = replace(EXAMPLE, context=(FOUND,), first=1)
    assert alignment(TOKENIZER, late, max_source=1000) == {}
    moved = replace(late, response=Turn("A", "parrot", (Copy(0, 6, 1, 10),)))
    assert aligned(moved, tokenizer=byte_bpe([], vocabulary=262)) == [(c, c) for c in "parrot"]


def test_bytes_of_a_character_point_at_their_like() -> None:
    bare = byte_bpe([], vocabulary=262)
    example = Example("d#1", "d", (Turn("A", "x日本"),), Turn("B", "本日", (Copy(0, 1, 0, 2), Copy(1, 2, 0, 1))), 0)
    assert alignment(bare, example, max_source=99) == {0: 5, 1: 6, 2: 7, 3: 2, 4: 3, 5: 4}


def test_the_builtin_corpus_aligns_word_by_word() -> None:
    dialogues = list(BuiltinDialogues(size=100).dialogues("train"))
    tokenizer = byte_bpe((turn.text for d in dialogues for turn in d.turns), vocabulary=2000)
    found = list(examples(dialogues, ExampleRules(8, first_turns=False), Counter()))
    copying = [example for example in found if example.response.copies]
    assert copying
    for example in copying:
        pairs = aligned(example, tokenizer=tokenizer)
        whole = [(target, source) for target, source in pairs if target == source]
        assert pairs
        assert all(
            source.startswith(target) or target.startswith(source) or target in source for target, source in pairs
        )
        assert len(whole) >= len(pairs) / 2
