"""Near duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from rensa import RMinHash, RMinHashLSH

from dialog.data.text_matching.minhash import NearDuplicateIndex, ShingledText
from dialog.inspection.findings import Finding

SENTENCE = (
    "I would like to go to the sea with you and your old dog on the last day of this long and hot"
    " summer"
)
WORDS = SENTENCE.split()
CHANGED = [*WORDS[:-1], "winter"]
variants = st.sampled_from(
    [WORDS, WORDS[1:], WORDS[:-1], WORDS[::-1], [*WORDS[:9], "x", *WORDS[9:]]]
)


def shingles(words: list[str]) -> set[tuple[str, str]]:
    return set(pairwise(words))


def test_similarity_is_that_of_the_shingles(find: Callable[..., dict[str, Finding]]) -> None:
    other = " ".join(word[::-1] for word in WORDS)
    test = [["Well ?", " ".join(CHANGED).upper()], ["Well ?", " ".join(WORDS[::-1])], ["no", "no"]]
    data = find(train=[["Well ?", SENTENCE], ["So ?", other]], test=test)["near_duplicates"].data
    for unit in ("dialogues", "responses"):
        (near,) = data[unit]["test"]["near"]
        assert near["id"].startswith("test-0")
        assert near["train"].startswith("train-0")
        assert 0.8 <= near["similarity"] < 1.0
        assert data[unit]["test"]["compared"] == 2
    union, intersection = shingles(WORDS) | shingles(CHANGED), shingles(WORDS) & shingles(CHANGED)
    assert near["similarity"] == round(len(intersection) / len(union), 4)


def test_a_mark_has_its_reason_beside_it(find: Callable[..., dict[str, Finding]]) -> None:
    """Here responses alone are near duplicates: their dialogues differ."""
    finding = find(train=[[" ".join(WORDS[::-1]), SENTENCE]], test=[["Well ?", " ".join(CHANGED)]])[
        "near_duplicates"
    ]
    assert (finding.severity, finding.headline) == ("look", "1 response in train")
    clean = find(train=[["Well ?", SENTENCE]], test=[["no", "no"]])["near_duplicates"]
    assert (clean.severity, clean.headline[:2]) == ("good", "0 ")


def test_near_duplicates_within_a_split(find: Callable[..., dict[str, Finding]]) -> None:
    train = [[f"{n} {n}", " ".join(word + str(n) for word in WORDS)] for n in range(20)]
    changed = [[first, f"{second} indeed"] for first, second in train]
    finding = find(train=[*train, *changed])["near_duplicates"]
    near = finding.data["repeated"]["train"]["near"]
    assert [(item["id"], item["earlier"]) for item in near] == [
        (f"train-{20 + n}", f"train-{n}") for n in range(20)
    ]
    assert all(0.8 <= item["similarity"] < 1.0 for item in near)
    assert (finding.severity, "20 dialogues within train" in finding.headline) == ("look", True)


def test_a_near_duplicate_of_test_in_validation_is_bad(
    find: Callable[..., dict[str, Finding]],
) -> None:
    texts = [[f"{n} {n}", " ".join(word + str(n) for word in WORDS)] for n in range(3)]
    test = [[texts[1][0], f"{texts[1][1]} indeed"], texts[2]]
    finding = find(validation=texts[:2], test=test)["near_duplicates"]
    for unit in ("dialogues", "pairs", "responses"):
        (near,) = finding.data[unit]["in_validation"]["test"]
        assert (near["id"][:6], near["validation"][:12]) == ("test-0", "validation-1")
    assert finding.severity == "bad"


@settings(max_examples=50)
@given(st.lists(variants, max_size=8), st.lists(variants, max_size=8))
def test_indexed_duplicates_do_not_change_matches(
    test: list[list[str]], train: list[list[str]]
) -> None:
    together, alone = NearDuplicateIndex(), [NearDuplicateIndex() for _ in test]
    for number, words in enumerate(test):
        for index in (together, alone[number]):
            index.add(ShingledText(f"test-{number}", " ".join(words), words, 2))
    for number, words in enumerate(train):
        for index in (together, *alone):
            index.compare(ShingledText(f"train-{number}", " ".join(words), words, 2))
    assert together.near == {
        number: index.near[0] for number, index in enumerate(alone) if index.near
    }


def test_equal_texts_are_indexed_and_compared_once() -> None:
    class CountingIndex:
        def __init__(self, index: RMinHashLSH) -> None:
            self.index, self.calls = index, Counter[str]()

        def insert(self, key: int, hash: RMinHash) -> None:
            self.calls["insert"] += 1
            self.index.insert(key, hash)

        def query(self, hash: RMinHash) -> list[int]:
            candidates: list[int] = self.index.query(hash)
            self.calls["candidates"] += len(candidates)
            return candidates

    index = NearDuplicateIndex()
    index.index = counting = CountingIndex(index.index)
    for number in range(50):
        index.add(ShingledText(f"test-{number}", SENTENCE, WORDS, 2))
    for number in range(50):
        index.compare(ShingledText(f"train-{number}", SENTENCE, WORDS[:-1], 2))
    assert counting.calls == {"insert": 1, "candidates": 1}
    assert [(near.id, near.other_id) for near in index.near.values()] == [
        (f"test-{n}", "train-0") for n in range(50)
    ]
