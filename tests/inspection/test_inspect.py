"""An inspection as a whole: any corpus, progress, and what is read again."""

from __future__ import annotations

import json
import tracemalloc
from collections import Counter
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.dialogue import SPLITS, Dialogue, Entry, Turn
from dialog.data.examples import ExampleRules
from dialog.data.tokenizers import word
from dialog.inspection.findings import part_of, percent_of
from dialog.inspection.inspect import inspect
from dialog.inspection.sections.duplicates import DuplicateSection
from dialog.inspection.sections.generic import GenericSection
from dialog.inspection.sections.shape import LengthSection
from dialog.inspection.sections.tokens import TokenSection
from dialog.report.formats.numbers import counted

QUOTED = Dialogue("quoted", tuple(Turn("A", "text") for _ in range(6)))
utterances = st.sampled_from(["Hi .", "Where is the hat ?", "On the big table !", "", " "])
corpora = st.fixed_dictionaries(
    {split: st.lists(st.lists(utterances, max_size=4), max_size=5) for split in SPLITS}
)


@settings(max_examples=40)
@given(corpora)
def test_any_corpus_gives_the_same_json_in_any_chunks(
    make_corpus: Callable[..., Any], corpus: dict[str, list[list[str]]]
) -> None:
    first = inspect(make_corpus(**corpus), quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.text_matching.spilled.CHUNK", 3)
        patch.setattr("dialog.data.text_matching.spilled.RUN", 2)
        patch.setattr("dialog.inspection.sections.tokens.BATCH_LINES", 5)
        second = inspect(make_corpus(**corpus), quiet=True)
    assert json.loads(json.dumps(first.data(), allow_nan=False)) == json.loads(
        json.dumps(second.data())
    )
    for split, dialogues in corpus.items():
        turns = [sum(bool(text.strip()) for text in texts) for texts in dialogues]
        assert first.sizes[split] == {"dialogues": sum(map(bool, turns)), "turns": sum(turns)}
    assert list(first.sizes) == list(SPLITS)


def test_an_empty_corpus_has_all_sections(make_corpus: Callable[..., Any]) -> None:
    inspection = inspect(make_corpus(), quiet=True)
    assert all(size == {"dialogues": 0, "turns": 0} for size in inspection.sizes.values())
    assert {
        name for name, finding in inspection.findings.items() if finding.severity != "good"
    } == {"records"}


def test_rereading_stops_at_the_last_quoted_dialogue(make_corpus: Callable[..., Any]) -> None:
    class RecordingCorpus:
        def __init__(self) -> None:
            train = [["c", "d"], *([f"{n}", f"{n} !"] for n in range(50))]
            self.source = make_corpus(train=train, test=[["c", "d"]])
            self.reads: Counter[tuple[str, int]] = Counter()

        def dialogues(self, split: str) -> Iterator[Entry]:
            for number, dialogue in enumerate(self.source.dialogues(split)):
                self.reads[split, number] += 1
                yield dialogue

        def fingerprint(self) -> dict[str, str]:
            return {}

    corpus = RecordingCorpus()
    inspect(corpus, quiet=True)
    assert corpus.reads["train", 0] > corpus.reads["train", 50] == 1


def test_progress_without_a_terminal(
    make_corpus: Callable[..., Any], capsys: pytest.CaptureFixture[str]
) -> None:
    corpus = make_corpus(train=[["a", "b"]])
    inspect(corpus, quiet=True)
    assert capsys.readouterr().err == ""
    inspect(corpus)
    splits = [f"inspecting {split}" for split in ("validation", "test", "train")]
    assert capsys.readouterr().err.splitlines()[:4] == [*splits, "computing findings"]


def test_number_formats() -> None:
    assert part_of(0, 0) == "0"
    assert part_of(281, 1000) == "281 (28.1 %)"
    assert percent_of(1, 100_000) == "< 0.1 %"
    assert percent_of(0, 100_000) == "0.0 %"
    assert (counted(1, "turn"), counted(2000, "turn")) == ("1 turn", "2,000 turns")


def test_memory_does_not_grow_with_the_corpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sections that once held numbers for each turn; the others hold samples and counters."""
    monkeypatch.setattr("dialog.data.text_matching.spilled.CHUNK", 256)
    monkeypatch.setattr("dialog.data.text_matching.spilled.RUN", 1024)
    monkeypatch.setattr("dialog.data.text_matching.spilled.BUCKETS", 16)
    monkeypatch.setattr("dialog.inspection.sections.tokens.BATCH_LINES", 256)
    rules = ExampleRules(2, first_turns=False)
    tokenizer = word(["a b"])

    def peak(dialogues: int) -> int:
        random = Random(0)
        tracemalloc.start()
        try:
            sections = [
                DuplicateSection(rules),
                GenericSection(rules),
                LengthSection(),
                TokenSection(tokenizer, rules, max_source=9, max_target=9),
            ]
            for number in range(dialogues):
                texts = [f"{random.getrandbits(32)} a" for _ in range(6)]
                split = "test" if number < 9 else "train"
                turns = tuple(Turn("AB"[place % 2], text) for place, text in enumerate(texts))
                for section in sections:
                    section.add(split, Dialogue(f"{number}", turns))
            for section in sections:
                section.finding(lambda split, numbers: dict.fromkeys(numbers, QUOTED))
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    few = peak(200)
    many = peak(800)
    assert many < 1.3 * few
