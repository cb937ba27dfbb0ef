"""Each section, held against a count by hand or against what was planted."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rensa import RMinHash, RMinHashLSH

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.data.filters import DropOpenPairs
from dialog.data.preparation.filtering import SurveyedFilter, UsableDialogues, filter_block
from dialog.data.text_matching.leaks import LeakDetector, hash_long_pairs
from dialog.data.text_matching.minhash import NearDuplicateIndex, ShingledText
from dialog.inspection.findings import Finding, rate, share
from dialog.inspection.inspect import Inspection, inspect
from dialog.inspection.sections.characters import kind
from dialog.inspection.sections.languages import Languages
from dialog.inspection.sections.lengths import SHARES, percentiles

Corpora = dict[str, list[list[str]]]
utterances = st.sampled_from(["Hi .", "hi", "Where is the hat ?", "where is  the hat ?", "On the big table !", "", " "])
corpora = st.fixed_dictionaries({split: st.lists(st.lists(utterances, max_size=4), max_size=5) for split in SPLITS})
told_type = Callable[..., Any]


def looked(told: told_type, **splits: Sequence[Any]) -> dict[str, Finding]:
    return inspect(told(**splits), quiet=True).findings


# ------------------------------------------------------------------ laws over any corpus

NORMALISED: dict[str, Callable[[str], str]] = {
    "verbatim": lambda text: " ".join(text.split()),
    "letters": lambda text: re.sub("[^a-z]", "", text.lower()),
}


@given(corpora, st.booleans(), st.sampled_from([None, "A", "B"]))
def test_repeats_are_those_of_texts(told: told_type, corpus: Corpora, first_turns: bool, responder: str | None) -> None:
    rules = ExampleRules(None, first_turns, responder)
    found = inspect(told(**corpus), rules=rules, quiet=True).findings["duplicates"].data
    first = 0 if first_turns else 1

    def spoken(texts: list[str]) -> tuple[list[str], list[int]]:
        kept = [(text, "AB"[at % 2]) for at, text in enumerate(texts) if text.strip()]
        answers = [at for at, (_, speaker) in enumerate(kept) if at >= first and responder in (None, speaker)]
        return [text for text, _ in kept], answers

    for name, normalise in NORMALISED.items():
        said = {
            split: [([normalise(text) for text in turns], answers) for turns, answers in map(spoken, told) if answers]
            for split, told in corpus.items()
        }
        kinds: dict[str, dict[str, list[Any]]] = {
            split: {
                "dialogues": [tuple(turns) for turns, _ in told],
                "histories": [tuple(turns[: at + 1]) for turns, answers in told for at in answers if at > 0],
                "pairs": [tuple(turns[at - 1 : at + 1]) for turns, answers in told for at in answers if at > 0],
                "responses": [turns[at] for turns, answers in told for at in answers if at > 0],
            }
            for split, told in said.items()
        }
        for kind_, learnt in kinds["train"].items():
            for split in ("validation", "test"):
                expected = sum(each in learnt for each in kinds[split][kind_])
                assert found["normalisations"][name]["in_train"][split][kind_] == expected
            asked, tuned = kinds["test"][kind_], kinds["validation"][kind_]
            for what, known in (("in_validation", tuned), ("in_train_or_validation", learnt + tuned)):
                assert found["normalisations"][name][what]["test"][kind_] == sum(each in known for each in asked)
            for split in SPLITS:
                each = kinds[split][kind_]
                assert found["normalisations"][name]["repeated"][split][kind_] == len(each) - len(set(each))
        assert found["distinct_dialogues"][name] == len(
            {each for split in SPLITS for each in kinds[split]["dialogues"]}
        )


@given(corpora, st.lists(st.sampled_from("AB"), min_size=4, max_size=4), st.booleans(), st.booleans())
def test_the_leak_is_that_of_the_filter_and_of_the_evaluation(
    told: told_type, corpus: Corpora, speakers: list[str], merge_turns: bool, reverse: bool
) -> None:
    from dialog.data.filters import DropLeakingDialogues

    source, rules = told(**corpus), ExampleRules(None, first_turns=False, merge_turns=merge_turns, reverse=reverse)
    for said in source.splits.values():
        said[:] = [replace(each, turns=tuple(map(Turn, speakers, (turn.text for turn in each.turns)))) for each in said]
    found = inspect(source, rules=rules, quiet=True).findings["leak"].data
    kept = {split: [each for _, each in UsableDialogues(source.dialogues, rules, split)] for split in SPLITS}
    for split in ("validation", "test"):
        detector = LeakDetector(kept[split])
        for each in kept["train"]:
            detector.add_training(hash_long_pairs(each))
        assert (found[split]["clean"], found[split]["leaked"]) == detector.report()
    filter = DropLeakingDialogues()
    known = filter.survey({split: list(enumerate(kept[split])) for split in SPLITS})
    dropped = [each for each in kept["train"] if filter.drops(known, 0, each)]
    assert found["train"]["leaking"] == len(dropped)
    assert found["train"]["turns_kept"] == sum(len(each.turns) for each in kept["train"] if each not in dropped)


@given(corpora)
def test_every_corpus_can_be_looked_at_and_told_as_json(told: told_type, corpus: Corpora) -> None:
    one, again = (inspect(told(**corpus), quiet=True) for _ in range(2))
    assert json.loads(json.dumps(one.data(), allow_nan=False)) == json.loads(json.dumps(again.data()))
    for split, texts in corpus.items():
        kept = [[text for text in each if text.strip()] for each in texts]
        assert one.sizes[split] == {"dialogues": sum(map(bool, kept)), "turns": sum(map(len, kept))}
    assert list(one.sizes) == list(SPLITS)


@given(st.lists(st.integers(0, 20), min_size=1))
def test_a_percentile_is_the_smallest_size_that_so_many_do_not_exceed(sizes: list[int]) -> None:
    for share_, found in zip(SHARES, percentiles(np.array(sizes)), strict=True):
        assert found in sizes
        assert 100 * sum(size <= found for size in sizes) >= share_ * len(sizes)
        assert 100 * sum(size < found for size in sizes) < share_ * len(sizes)


# ------------------------------------------------------------------ planted faults


def test_an_answer_that_was_learnt_is_a_leak_and_says_what_to_do(told: told_type) -> None:
    shared = ["Where is the hat ?", "On the big table ."]
    found = looked(told, train=[shared, ["a", "b"]], validation=[["c", "d"]], test=[["x", *shared], ["y", "z"]])["leak"]
    assert found.state == "bad"
    assert (found.data["test"]["clean"], found.data["test"]["leaked"]) == (["test-1"], ["test-0"])
    assert "data.filters=[{name: drop_leaking_dialogues}] drops 1 of 2" in found.advice
    assert looked(told, train=[["a", "b"]], test=[shared])["leak"].state == "good"


def test_where_a_character_is_a_word_the_advice_asks_for_more_of_them(told: told_type) -> None:
    shared, other = ["好的，非常感谢您的帮助。", "不用客气！"], ["帽子在哪里？", "在那张大桌子上。"]
    found = looked(told, train=[shared], validation=[other], test=[shared, ["Well ?", "Hm ."]])["leak"]
    assert "minimum_words: 8" in found.advice
    shared = ["Where is the hat ?", "On the big table ."]
    found = looked(told, train=[shared], validation=[shared], test=[other, shared])["leak"]
    assert found.advice
    assert "minimum_words" not in found.advice


def test_what_merged_turns_say_is_no_leak(told: told_type) -> None:
    def twice(id: str, *texts: str) -> Dialogue:
        return Dialogue(id, tuple(Turn(speaker, text) for speaker, text in zip("AABB", texts, strict=True)))

    shared = "Where is the hat ?", "On the big table ."
    source = told(train=[twice("learnt", *shared, "a", "b")], test=[twice("asked", *shared, "c", "d")])
    rules = ExampleRules(None, first_turns=False)
    leaks = [
        inspect(source, rules=replace(rules, merge_turns=merged), quiet=True).findings["leak"].data["train"]["leaking"]
        for merged in (False, True)
    ]
    assert leaks == [1, 0]


def test_a_dialogue_that_gives_no_example_is_counted_and_not_looked_at(told: told_type) -> None:
    source = told(train=[["a", "b"], ["alone"]], validation=[["a", "b"]], test=[["alone"]])
    found = inspect(source, rules=ExampleRules(None, first_turns=False), quiet=True)
    assert found.sizes["train"] == {"dialogues": 1, "turns": 2}
    assert found.findings["records"].data["train"]["unused_dialogues"] == 1
    assert found.findings["lengths"].data["train"]["dialogues_under_two_turns"] == 0
    assert found.findings["records"].headline == "no examples in test"


def test_repeats_show_where_they_are(told: told_type) -> None:
    found = looked(told, train=[["a", "b"], ["c", "d"], ["c", "d"]], test=[["e", "f"], ["c", " d"]])["duplicates"]
    assert found.shown[-1] == ("test-1 (test.txt:1) is train-1 (train.txt:1)", (("A", "c"), ("B", " d")))
    assert "drop_duplicates" in found.advice


def test_what_validation_and_test_share_is_bad(told: told_type) -> None:
    found = looked(told, train=[["a", "b"]], validation=[["e", "f"], ["c", "d"]], test=[["c", "d"]])["duplicates"]
    assert (found.state, found.headline[:42]) == ("bad", "1 test dialogues in train or validation; 0")
    assert found.shown[-1] == ("test-0 (test.txt:0) is validation-1 (validation.txt:1)", (("A", "c"), ("B", "d")))
    assert found.advice.startswith("Take out of validation what is in test")


SENTENCE = "I would like to go to the sea with you and your old dog on the last day of this long and hot summer"
LONG = SENTENCE.split()


def test_near_repeats_are_found_and_others_are_not(told: told_type) -> None:
    other = [word[::-1] for word in LONG]
    train = [["Well ?", " ".join(LONG)], ["So ?", " ".join(other)]]
    near, far = " ".join([*LONG[:-1], "winter"]), " ".join(LONG[::-1])
    found = looked(told, train=train, test=[["Well ?", near.upper()], ["Well ?", far], ["no", "no"]])["near_duplicates"]
    for kind_ in ("dialogues", "responses"):
        (one,) = found.data[kind_]["test"]["near"]
        assert one["id"].startswith("test-0")
        assert one["train"].startswith("train-0")
        assert 0.8 <= one["similarity"] < 1.0
        assert found.data[kind_]["test"]["compared"] == 2
    runs = [set(zip(*(said[at:] for at in range(2)), strict=False)) for said in (LONG, [*LONG[:-1], "winter"])]
    assert one["similarity"] == round(len(runs[0] & runs[1]) / len(runs[0] | runs[1]), 4)


def test_near_repeats_are_found_inside_a_split_and_of_validation_in_test(told: told_type) -> None:
    train = [[f"{n} {n}", " ".join(word + str(n) for word in LONG)] for n in range(50)]
    again = [[*said[:-1], f"{said[-1]} indeed"] for said in train]
    found = looked(told, train=[*train, *again])["near_duplicates"]
    near = found.data["repeated"]["train"]["near"]
    assert [(one["id"], one["earlier"]) for one in near] == [(f"train-{50 + n}", f"train-{n}") for n in range(50)]
    assert all(0.8 <= one["similarity"] < 1.0 for one in near)
    assert (found.state, "50 inside train" in found.headline) == ("look", True)
    found = looked(told, validation=train[:2], test=[again[1], train[3]])["near_duplicates"]
    for kind_ in ("dialogues", "pairs", "responses"):
        (one,) = found.data[kind_]["in_validation"]["test"]
        assert (one["id"][:6], one["validation"][:12]) == ("test-0", "validation-1")
    assert found.state == "bad"


lines = st.lists(st.sampled_from([LONG, LONG[1:], LONG[:-1], LONG[::-1], [*LONG[:9], "x", *LONG[9:]]]), max_size=8)


@given(lines, lines)
def test_a_text_among_its_repeats_is_near_to_what_it_would_be_near_to_alone(
    asked: list[list[str]], learnt: list[list[str]]
) -> None:
    together, alone = NearDuplicateIndex(), [NearDuplicateIndex() for _ in asked]
    for number, said in enumerate(asked):
        for index in (together, alone[number]):
            index.add(ShingledText(f"test-{number}", " ".join(said), said, 2))
    for number, said in enumerate(learnt):
        for index in (together, *alone):
            index.compare(ShingledText(f"train-{number}", " ".join(said), said, 2))
    assert together.near == {number: index.near[0] for number, index in enumerate(alone) if index.near}


def test_repeats_are_indexed_once_and_met_once() -> None:
    class Watched:
        def __init__(self, index: RMinHashLSH) -> None:
            self.index, self.calls = index, Counter[str]()

        def insert(self, key: int, hash: RMinHash) -> None:
            self.calls["insert"] += 1
            self.index.insert(key, hash)

        def query(self, hash: RMinHash) -> list[int]:
            found: list[int] = self.index.query(hash)
            self.calls["candidates"] += len(found)
            return found

    index = NearDuplicateIndex()
    index.index = watched = Watched(index.index)
    for number in range(50):
        index.add(ShingledText(f"test-{number}", SENTENCE, LONG, 2))
    for number in range(50):
        index.compare(ShingledText(f"train-{number}", SENTENCE, LONG[:-1], 2))
    assert watched.calls == {"insert": 1, "candidates": 1}
    assert [(near.id, near.other_id) for near in index.near.values()] == [(f"test-{n}", "train-0") for n in range(50)]


def test_generic_responses_are_those_that_the_filter_drops(told: told_type) -> None:
    train = [["a", "I see .", "b", "I see ."], ["c", "I see ."], ["d", "e"], ["d", "f"], ["d", "g"]]
    source = told(train=train)
    data = inspect(source, quiet=True).findings["generic"].data
    assert data["target"]["top"] == [{"text": "I see .", "bits": round(np.log2(3), 4), "count": 3}]
    assert data["source"]["top"] == [{"text": "d", "bits": round(np.log2(3), 4), "count": 3}]
    for side in ("target", "source"):
        filter = DropOpenPairs(side=side)
        splits = {split: list(enumerate(source.dialogues(split))) for split in SPLITS}
        known = filter.survey(splits)
        dropped = sum(turn > 0 for number, each in splits["train"] for turn in filter.drops(known, number, each))
        assert data[side]["pairs_above"] == dropped == 3


BY_RULES = st.builds(
    ExampleRules,
    st.none(),
    first_turns=st.booleans(),
    responder=st.sampled_from([None, "A", "B"]),
    merge_turns=st.booleans(),
    reverse=st.booleans(),
)


@given(st.lists(st.lists(st.tuples(st.sampled_from("AB"), st.sampled_from("abcd ")), max_size=5), max_size=9), BY_RULES)
def test_what_is_said_to_be_generic_is_what_a_preparation_drops(
    told: told_type, dialogues: list[list[tuple[str, str]]], rules: ExampleRules
) -> None:
    source = told(train=[Dialogue(str(n), tuple(Turn(*turn) for turn in each)) for n, each in enumerate(dialogues)])
    data = inspect(source, rules=rules, quiet=True).findings["generic"].data
    entries = list(source.dialogues("train"))
    assert data["pairs"] == sum(len(each.windows) for each in filter_block(0, entries, rules, []).dialogues)
    for side in ("target", "source"):
        filter = DropOpenPairs(side=side)
        known = filter.survey({split: UsableDialogues(source.dialogues, rules, split) for split in SPLITS})
        left = filter_block(0, entries, rules, [SurveyedFilter("entropy", filter, known)]).dialogues
        assert data[side]["pairs_above"] == data["pairs"] - sum(len(each.windows) for each in left)


def test_exactly_the_threshold_is_not_above_it_however_it_is_rounded(told: told_type) -> None:
    source = told(train=[[f"{n % 2} ?", "I see ."] for n in range(22)])
    found = inspect(source, quiet=True).findings["generic"]
    assert (found.data["target"]["pairs_above"], found.advice) == (0, "")


def test_speakers_and_echoes(told: told_type) -> None:
    alone = Dialogue("alone", (Turn("A", "one"), Turn("A", "two"), Turn("A", "three")))
    crowd = Dialogue("crowd", tuple(Turn(name, name) for name in "ABCA"))
    found = looked(told, train=[alone, crowd, ["Bye .", " Bye  .", "bye ."], ["Hm"]])["speakers"]
    assert found.data["train"] == {"one_sided": 1, "same_speaker": 2, "echoes": 1, "many_voices": 1}
    assert found.state == "bad"


@pytest.mark.parametrize(
    ("char", "expected"),
    [("\ufffd", "replacement"), ("\x7f", "control"), ("\x00", "control"), ("\u200b", "format"), ("\u202e", "format")]
    + [("\u00a0", "space"), ("\t", "space"), ("\u2028", "space"), ("\ue000", "private")]
    + [(each, "") for each in " aß你🙂’"],
)
def test_odd_characters_are_told_from_others(told: told_type, char: str, expected: str) -> None:
    assert kind(char) == expected
    found = looked(told, train=[["a", "b"], ["a", f"x{char}y{char}"]])["characters"].data
    odd = {f"U+{ord(char):04X}": ("train-1 (train.txt:1)", expected, 2)} if expected else {}
    assert {code: (about["first"], about["kind"], about["count"]) for code, about in found["odd"].items()} == odd


def test_scripts_and_garbled_text(told: told_type) -> None:
    garbled = "s’il vous plaît é".encode().decode("cp1252")
    found = looked(told, train=[["abc", "дом", "你好"]], test=[["é", garbled]], validation=[["Ânes à Évian"]])[
        "characters"
    ]
    assert found.data["scripts"]["Cyrillic"] == 3
    assert found.data["scripts"]["Cjk"] == 2
    assert found.data["mojibake_turns"] == {"train": 0, "validation": 0, "test": 1}
    assert found.state == "bad"


def test_marks_of_programs_are_reserved(told: told_type) -> None:
    found = looked(told, train=[["Hi __eou__ Hi", "I am <unk>"], ["<s>", "a<b"]], test=[["&amp; so", "[UNK]"]])[
        "reserved"
    ]
    counts = {mark: sum(about[split] for split in SPLITS) for mark, about in found.data.items()}
    assert counts == {"__eou__": 1, "<unk>": 1, "<s>": 1, "&amp;": 1, "[UNK]": 1}
    assert found.data["<unk>"]["first"] == "train-0 (train.txt:0)"
    assert looked(told, train=[["a < b > c", "s"]])["reserved"].state == "good"


def test_records_that_are_none_are_counted_and_named(told: told_type) -> None:
    odd = Dialogue("odd", (Turn("A", "a"), Turn("B", " ")), {WARNING: "x.txt:3: odd"})
    empty = Dialogue("odd", (Turn("A", ""),))
    found = looked(told, train=[Malformed("x.txt:1: not JSON; mend it"), odd, empty, ["a", "b"]], test=[["a", "b"]])
    data = found["records"].data
    expected = {
        "malformed": 1,
        "dialogues": 3,
        "empty_dialogues": 1,
        "unused_dialogues": 0,
        "empty_turns": 2,
        "warnings": 1,
        "repeated_ids": 1,
    }
    assert data["train"] == expected
    assert (data["first_malformed"], data["first_warnings"]) == (["x.txt:1: not JSON; mend it"], ["x.txt:3: odd"])
    assert found["records"].state == "bad"
    assert found["records"].headline == (
        "1 of 5 malformed, 1 ids that occur before in their split, no examples in validation"
    )


@pytest.mark.parametrize(
    ("odd", "headline", "advice"),
    [
        (Dialogue("x", (Turn("A", "a"), Turn("B", "b")), {WARNING: "odd"}), "1 dialogues read with a warning", "meant"),
        (Dialogue("x", (Turn("A", "a"), Turn("B", " "), Turn("B", "b"))), "1 turns without text", "without text"),
        (Dialogue("x", (Turn("A", "a"),)), "1 dialogues with text that give no example", "data.first_turns"),
        (Dialogue("train-0", (Turn("A", "c"), Turn("B", "d"))), "1 ids that occur before in their split", "its own"),
        (Dialogue("x", (Turn("A", "c"), Turn("B", "d"))), "0 of 4 malformed", ""),
    ],
    ids=["warning", "empty", "unused", "repeated", "good"],
)
def test_the_headline_of_records_is_what_makes_their_state(
    told: told_type, odd: Dialogue, headline: str, advice: str
) -> None:
    two = [["a", "b"]]
    source = told(train=[*two, odd], validation=two, test=two)
    found = inspect(source, rules=ExampleRules(None, first_turns=False), quiet=True).findings["records"]
    assert found.headline == headline
    assert advice in found.advice
    assert bool(advice) == bool(found.advice) == (found.state != "good")


def test_a_split_without_examples_is_named(told: told_type) -> None:
    found = looked(told, train=[["a", "b"]], validation=[["", " "]])["records"]
    assert (found.state, found.headline) == ("bad", "no examples in validation and test")
    assert "No examples in validation and test: such a corpus cannot be prepared." in found.summary
    assert found.advice == "Give validation and test dialogues of two turns or more."
    assert looked(told, **{split: [["a", "b"]] for split in SPLITS})["records"].state == "good"


def test_lengths_name_the_tail(told: told_type) -> None:
    found = looked(told, train=[["a b", "c"], ["x " * 600, "y"], ["z"]])["lengths"]
    assert found.data["train"]["words_a_turn"]["max"] == 600
    assert found.data["train"]["dialogues_under_two_turns"] == 1
    assert "max_words: 512" in found.advice


def test_a_sample_of_languages_is_drawn_evenly() -> None:
    section = Languages()
    for number in range(20_000):
        section.see("train", Dialogue(str(number), (Turn("A", "x"),)))
    numbers = sorted(int(id) for id, _ in section.sample["train"])
    assert len(set(numbers)) == 1000
    assert Counter(number // 5000 for number in numbers).keys() == {0, 1, 2, 3}
    assert abs(float(np.mean(numbers)) - 10_000) < 1000  # five standard errors


def test_languages(told: told_type) -> None:
    pytest.importorskip("py3langid")
    german = ["Guten Morgen, wie geht es Ihnen heute?", "Danke, mir geht es gut, und wie geht es Ihrer Schwester?"]
    english = ["Good morning, how are you doing today?", "I am fine, thank you, and how is your little sister?"]
    found = looked(told, train=[german, english], test=[german])["languages"]
    assert (found.data["train"], found.data["test"]) == ({"de": 1, "en": 1}, {"de": 1})
    assert found.state == "look"


def test_examples_are_read_again_only_as_far_as_needed(told: told_type) -> None:
    class Watched:
        def __init__(self) -> None:
            self.source = told(train=[["c", "d"]] + [[f"{n}", f"{n} !"] for n in range(50)], test=[["c", "d"]])
            self.read: list[tuple[str, int]] = []

        def dialogues(self, split: str) -> Iterator[Entry]:
            for number, each in enumerate(self.source.dialogues(split)):
                self.read.append((split, number))
                yield each

        def fingerprint(self) -> dict[str, str]:
            return {}

    corpus = Watched()
    inspect(corpus, quiet=True)
    assert Counter(corpus.read)["train", 50] == 1


def test_how_far_it_has_come_is_said_where_there_is_no_terminal(
    told: told_type, capsys: pytest.CaptureFixture[str]
) -> None:
    source = told(train=[["a", "b"]])
    inspect(source, quiet=True)
    assert capsys.readouterr().err == ""
    inspect(source)
    begun = [f"looking through {split}" for split in ("validation", "test", "train")]
    assert capsys.readouterr().err.splitlines() == [*begun, "summing up"]


def test_shares_of_nothing_and_of_almost_nothing() -> None:
    assert share(0, 0) == "0"
    assert rate(1, 100_000) == "< 0.1 %"
    assert rate(0, 100_000) == "0.0 %"
    assert share(281, 1000) == "281 (28.1 %)"


def test_an_inspection_of_nothing_has_all_sections(told: told_type) -> None:
    nothing: Inspection = inspect(told(), quiet=True)
    assert all(size == {"dialogues": 0, "turns": 0} for size in nothing.sizes.values())
    assert {name for name, finding in nothing.findings.items() if finding.state != "good"} == {"records"}
