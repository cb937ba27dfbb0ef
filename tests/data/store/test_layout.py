"""Layout of an example as token ids, and the source tokens that a response repeats."""

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
ANSWER = Turn("B", "the green parrot")
REPLY = Turn("A", "a red hat", (Copy(2, 9, 0, 13),))
TOKENIZER = byte_bpe([ASK.text, ANSWER.text, REPLY.text] * 2, vocabulary=400)
EXAMPLE = Example("d#2", "d", (ASK, ANSWER), REPLY, 0)


def test_sources_have_roles_and_an_end() -> None:
    source, target = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=100)
    assert source == [SELF, *TOKENIZER.encode(ASK.text), OTHER, *TOKENIZER.encode(ANSWER.text), EOS]
    assert target == [BOS, *TOKENIZER.encode(REPLY.text), EOS]


def test_an_empty_context_is_the_end_token() -> None:
    source, _ = encode_example(
        TOKENIZER, replace(EXAMPLE, context=()), max_source=100, max_target=None
    )
    assert source == [EOS]


@pytest.mark.parametrize("limit", [1, 2, 5, 9, 100])
def test_sources_lose_their_start_and_targets_their_end(limit: int) -> None:
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=1000, max_target=None)
    ids = TOKENIZER.encode(REPLY.text)
    source, target = encode_example(TOKENIZER, EXAMPLE, max_source=limit, max_target=limit)
    lost = max(0, len(whole) - limit)
    role = [SELF if lost <= len(TOKENIZER.encode(ASK.text)) else OTHER] if limit > 1 else []
    assert source == [*role, *whole[lost + len(role) :]]
    assert len(source) == min(limit, len(whole))
    assert source[-1] == EOS
    assert target == [BOS, *ids[: limit - 1], EOS]
    assert len(target) - 1 <= limit


FACTS = (Turn("A", "red"), Turn("", "hats are green"))


def test_facts_come_first_with_their_roles() -> None:
    source, _ = encode_example(
        TOKENIZER, replace(EXAMPLE, facts=FACTS), max_source=100, max_target=None
    )
    plain, _ = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=None)
    assert source == [
        SELF,
        *TOKENIZER.encode("red"),
        OTHER,
        *TOKENIZER.encode("hats are green"),
        *plain,
    ]


@pytest.mark.parametrize("limit", range(1, 30))
def test_facts_take_at_most_half_of_a_source(limit: int) -> None:
    facts, turns = (
        [(True, [11, 12]), (False, [13, 14, 15])],
        [(False, [21, 22, 23, 24]), (True, [25, 26])],
    )
    context = source_ids(turns, max_source=99)
    fact_ids = source_ids(facts, max_source=99)[:-1]
    source = source_ids(turns, max_source=limit, facts=facts)
    kept = min(len(fact_ids), limit // 2)
    assert source[:kept] == fact_ids[:kept]
    lost = max(0, len(context) - (limit - kept))
    role = [OTHER if lost < 5 else SELF] if lost < 8 else []
    assert source[kept:] == [*role, *context[lost + len(role) :]]
    assert len(source) <= limit


@pytest.mark.parametrize("limit", range(6, 30))
def test_a_truncated_turn_does_not_run_into_the_facts(limit: int) -> None:
    facts, turns = [(True, [11, 12])], [(False, [21] * 9), (True, [22] * 9)]
    source = source_ids(turns, max_source=limit, facts=facts)
    speakers, speaker = {11: SELF, 12: SELF, 21: OTHER, 22: SELF}, None
    for token in source[:-1]:
        speaker = token if token in (SELF, OTHER) else speaker
        assert speakers.get(token, speaker) == speaker
    assert source[3] in (SELF, OTHER)


def test_layout_of_plain_ids() -> None:
    assert source_ids([(True, [7, 8]), (False, [9])], max_source=99) == [SELF, 7, 8, OTHER, 9, EOS]
    assert target_ids([], max_target=1) == [BOS, EOS]
    assert target_ids([7, 8], max_target=1) == [BOS, EOS]


def aligned(
    example: Example, *, max_source: int = 1000, tokenizer: Tokenizer = TOKENIZER
) -> list[tuple[str, str]]:
    source, target = encode_example(tokenizer, example, max_source=max_source, max_target=None)
    pairs = alignment(tokenizer, example, max_source=max_source)
    return [
        (tokenizer.decode([target[1 + t]]).strip(), tokenizer.decode([source[s]]).strip())
        for t, s in pairs.items()
    ]


def test_repeated_words_align_with_the_first_mention() -> None:
    assert aligned(EXAMPLE) == [("red", "red"), ("hat", "hat")]
    assert alignment(TOKENIZER, EXAMPLE, max_source=1000) == {1: 4, 2: 5}


def test_source_positions_follow_the_truncation() -> None:
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=1000, max_target=None)
    for limit in range(1, len(whole) + 1):
        lost = len(whole) - limit
        # the first position is a role
        expected = {t: s - lost for t, s in {1: 4, 2: 5}.items() if s > lost}
        assert alignment(TOKENIZER, EXAMPLE, max_source=limit) == expected


@pytest.mark.parametrize("limit", range(2, 40))
def test_source_positions_include_the_facts(limit: int) -> None:
    example = replace(EXAMPLE, facts=FACTS)
    whole, _ = encode_example(TOKENIZER, EXAMPLE, max_source=100, max_target=None)
    source, target = encode_example(TOKENIZER, example, max_source=limit, max_target=None)
    pairs = alignment(TOKENIZER, example, max_source=limit)
    facts = min(
        limit // 2,
        len(encode_example(TOKENIZER, example, max_source=100, max_target=None)[0]) - len(whole),
    )
    shift = len(source) - len(whole)  # both have the same end
    assert pairs == {t: s + shift for t, s in {1: 4, 2: 5}.items() if s + shift > facts}
    assert all(
        TOKENIZER.decode([source[s]]) == TOKENIZER.decode([target[1 + t]]) for t, s in pairs.items()
    )


def test_turns_outside_the_window_are_not_aligned() -> None:
    late = replace(EXAMPLE, context=(ANSWER,), first=1)
    assert alignment(TOKENIZER, late, max_source=1000) == {}
    moved = replace(late, response=Turn("A", "parrot", (Copy(0, 6, 1, 10),)))
    assert aligned(moved, tokenizer=byte_bpe([], vocabulary=262)) == [(c, c) for c in "parrot"]


def test_bytes_of_a_character_align_in_order() -> None:
    bare = byte_bpe([], vocabulary=262)
    example = Example(
        "d#1",
        "d",
        (Turn("A", "x日本"),),
        Turn("B", "本日", (Copy(0, 1, 0, 2), Copy(1, 2, 0, 1))),
        0,
    )
    assert alignment(bare, example, max_source=99) == {0: 5, 1: 6, 2: 7, 3: 2, 4: 3, 5: 4}


def test_the_builtin_corpus_aligns_by_words() -> None:
    dialogues = list(BuiltinDialogues(size=100).dialogues("train"))
    tokenizer = byte_bpe((turn.text for d in dialogues for turn in d.turns), vocabulary=2000)
    all_examples = list(examples(dialogues, ExampleRules(8, first_turns=False), Counter()))
    copying = [example for example in all_examples if example.response.copies]
    assert copying
    for example in copying:
        pairs = aligned(example, tokenizer=tokenizer)
        whole = [(target, source) for target, source in pairs if target == source]
        assert pairs
        assert all(
            source.startswith(target) or target.startswith(source) or target in source
            for target, source in pairs
        )
        assert len(whole) >= len(pairs) / 2
