"""Prepared data: the same examples as in the text, complete or not there, and built again only for a reason."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.batching import collate
from dialog.data.corpora import Corpus
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.corpora.dailydialog import DailyDialog
from dialog.data.corpora.jsonl import JsonLines
from dialog.data.dialogue import SPLITS, Dialogue, Example, Turn
from dialog.data.examples import DialogueWindows, ExampleRules, examples
from dialog.data.preparation.prepare import prepare
from dialog.data.preparation.shards import Job
from dialog.data.preparation.writer import Limits, encode
from dialog.data.store.layout import encode_example
from dialog.data.store.manifest import ids_dtype
from dialog.data.store.store import Store
from dialog.data.tokenizers import byte_bpe
from dialog.data.tokenizers.tokenizer import EOS, PAD, Tokenizer
from dialog.errors import UserError

SAMPLES = Path(__file__).parents[1] / "corpora" / "samples"
SETTINGS: dict[str, Any] = {
    "component": {"name": "toy"},
    "tokenizer": {"name": "byte_bpe", "vocabulary": 400},
    "max_dropped": 1.0,
}
RULES: dict[str, Any] = {"context_turns": 2, "first_turns": False}
LIMITS = {"max_source": 24, "max_target": 9}


class Toy:
    """Dialogues from memory."""

    def __init__(self, **splits: list[list[str]]) -> None:
        few = [["Hi .", "Hello ."]]
        self.splits = {split: splits.get(split, few) for split in SPLITS}

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        for number, texts in enumerate(self.splits[split]):
            yield Dialogue(f"{split}-{number}", tuple(Turn("AB"[i % 2], text) for i, text in enumerate(texts)))

    def fingerprint(self) -> Mapping[str, str]:
        return {"toy": json.dumps(self.splits)}


def built(root: Path, corpus: Corpus, **changed: object) -> Path:
    rules, limits, settings = (
        {key: changed.get(key, value) for key, value in defaults.items()} for defaults in (RULES, LIMITS, SETTINGS)
    )
    runtime = {key: changed[key] for key in changed.keys() & {"progress", "workers", "engine"}}
    return prepare(Job(corpus, rules=ExampleRules(**rules), limits=Limits(**limits), **settings), root, **runtime)


CORPORA = {
    "builtin": BuiltinDialogues(size=40),
    "dailydialog": DailyDialog(SAMPLES / "dailydialog"),
    "jsonl": JsonLines(SAMPLES / "jsonl"),
    "toy": Toy(train=[["a", " ", "b", "c c", "d"], ["alone"], [], ["long " * 40, "word " * 30, "x"]]),
}


@pytest.mark.parametrize("name", CORPORA)
@pytest.mark.parametrize("first_turns", [True, False])
def test_rows_are_the_examples_of_the_text(tmp_path: Path, name: str, first_turns: bool) -> None:
    corpus = CORPORA[name]
    folder = built(tmp_path, corpus, first_turns=first_turns)
    tokenizer = Tokenizer.load(folder / "tokenizer.json")
    for split in SPLITS:
        store = Store(folder, split)
        counts: Counter[str] = Counter()
        found = list(examples(corpus.dialogues(split), ExampleRules(2, first_turns=first_turns), counts))
        assert len(store) == len(found) > 0
        max_target = 9 if split == "train" else None
        for row, example in enumerate(found):
            source, target = encode_example(tokenizer, example, max_source=24, max_target=max_target)
            assert store.source(row).tolist() == source
            assert store.target(row).tolist() == target
            assert store.lengths[row].tolist() == [len(source), len(target) - 1]
            assert store.target_bytes([row]) == len(example.response.text.encode())
        assert (+counts).items() <= store.counts.items()
        assert [store.counts["source tokens"], store.counts["target tokens"]] == store.lengths.sum(0).tolist()
        assert store.counts["target bytes"] == store.target_bytes(range(len(store)))
        assert sorted(store.classes.order.tolist()) == list(range(len(store)))


def test_the_reasons_of_a_count(tmp_path: Path) -> None:
    counts = Store(built(tmp_path, CORPORA["toy"]), "train").counts
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
        "bytes": 1 + 1 + 3 + 1 + 200 + 150 + 1,
        "target bytes": 1 + 3 + 1 + 150 + 1,
        "truncated: source": 2,
        "truncated: target": 1,
    }
    assert 0 < tokens <= 5 * (24 + 9)


def test_targets_are_cut_in_training_only(tmp_path: Path) -> None:
    long = [["who ?", "a b c d e f g h i j k l m"]]
    folder = built(tmp_path, Toy(train=long, validation=long, test=long), max_target=4)
    train, validation, test = (Store(folder, split) for split in SPLITS)
    assert train.lengths[:, 1].tolist() == [4]
    assert train.target(0)[-1] == EOS
    assert validation.target(0).tolist() == test.target(0).tolist()
    assert validation.tokenizer.decode(validation.target(0).tolist()) == long[0][1]
    assert train.counts["truncated: target"] == 1
    assert "truncated: target" not in test.counts


def test_batches_hold_the_rows(tmp_path: Path) -> None:
    store = Store(built(tmp_path, CORPORA["builtin"]), "train")
    rows = [5, 0, 17]
    batch = store.batch(np.array(rows))
    assert batch.rows.tolist() == rows
    expected = collate([(store.source(row).tolist(), store.target(row).tolist()) for row in rows], rows)
    assert (batch.source == expected.source).all()
    assert (batch.target == expected.target).all()
    assert batch.source_tokens == int((batch.source != PAD).sum()) == store.lengths[rows, 0].sum()
    assert batch.target_tokens == int((batch.target != PAD).sum()) - 3 == store.lengths[rows, 1].sum()


texts = st.text("ab é日", min_size=1, max_size=9).filter(str.strip)
turns = st.lists(st.builds(Turn, st.sampled_from("ABC"), texts), min_size=1, max_size=6).map(tuple)
facts = st.lists(st.builds(Turn, st.sampled_from(["A", "B", ""]), texts), max_size=4).map(tuple)
dialogues = st.lists(st.builds(Dialogue, st.just("d"), turns, facts=facts), min_size=1, max_size=6)


class Given(Toy):
    """The same dialogues in every split."""

    def __init__(self, dialogues: list[Dialogue]) -> None:
        super().__init__()
        self.same = dialogues

    def dialogues(self, split: str) -> Iterator[Dialogue]:
        yield from self.same


@settings(max_examples=60)
@given(dialogues, st.integers(0, 4), st.integers(1, 60), st.integers(1, 12), st.integers(1, 9), st.randoms())
def test_what_is_read_at_once_is_what_each_text_says(
    dialogues: list[Dialogue], context_turns: int, max_source: int, max_target: int, block: int, random: Random
) -> None:
    dialogues = [replace(each, id=str(number)) for number, each in enumerate(dialogues)]
    corpus = Given(dialogues)
    limits = {"context_turns": context_turns, "max_source": max_source, "max_target": max_target}
    with TemporaryDirectory() as root, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.preparation.blocks.BLOCK", block)
        tokenizer = {"name": "byte_bpe", "vocabulary": 264}
        folder = built(Path(root), corpus, tokenizer=tokenizer, first_turns=True, **limits)
        for split in ("train", "test"):
            store = Store(folder, split)
            found = list(examples(dialogues, ExampleRules(context_turns, first_turns=True), Counter()))
            most = max_target if split == "train" else None
            pairs = [encode_example(store.tokenizer, each, max_source=max_source, max_target=most) for each in found]
            whole = [encode_example(store.tokenizer, each, max_source=10**6, max_target=None) for each in found]
            rows = random.choices(range(len(found)), k=5)
            known = [facts_length(store, found[row], max_source) for row in rows]
            expected = collate([pairs[row] for row in rows], rows, facts=known, target_bytes=store.target_bytes(rows))
            for one, other in zip(store.batch(rows), expected, strict=True):
                assert torch.equal(one, other) if isinstance(one, torch.Tensor) else one == other
            assert store.lengths.tolist() == [[len(source), len(target) - 1] for source, target in pairs]
            cut = [len(source) < len(everything) for (source, _), (everything, _) in zip(pairs, whole, strict=True)]
            assert store.counts.get("truncated: source", 0) == sum(cut)
            assert store.counts.get("facts", 0) == sum(len(dialogue.facts) for dialogue in dialogues)


def facts_length(store: Store, example: Example, max_source: int) -> int:
    """How many ids of a source are facts: a role and the ids of each, cut to half of the source."""
    return min(sum(1 + len(store.tokenizer.encode(fact.text)) for fact in example.facts), max_source // 2)


def test_what_everybody_knows_is_stored_once(tmp_path: Path) -> None:
    said = tuple(Turn("AB"[place % 2], "word") for place in range(6))
    shared, own = Turn("", "a fact of the world"), Turn("A", "mine")
    lines = []
    for name, facts in (("none", ()), ("shared", (shared,)), ("own", (shared, own))):
        folder = built(tmp_path / name, Given([Dialogue("d", said, facts=facts)]))
        lines.append(np.fromfile(folder / "train.speakers.bin", "<i4").size)
    assert lines == [6, 7, 9]


def test_facts_are_looked_through_once_for_each_speaker() -> None:
    class Counted(tuple[Turn, ...]):
        reads = 0

        def __iter__(self) -> Iterator[Turn]:
            Counted.reads += 1
            return super().__iter__()

    def reads(turns: int) -> int:
        Counted.reads = 0
        said = tuple(Turn("AB"[number % 2], "Hi .") for number in range(turns))
        dialogue = Dialogue("d", said, facts=Counted([Turn("", "Be kind ."), Turn("A", "I knit .")]))
        chosen = DialogueWindows(dialogue, [(0, response) for response in range(1, turns)])
        encode([chosen], byte_bpe(["Hi ."], vocabulary=300), Limits(24, 9), train=True)
        return Counted.reads

    assert reads(100) == reads(3)


def test_the_tokenizer_learns_from_the_training_split_only(tmp_path: Path) -> None:
    def learned(**splits: list[list[str]]) -> str:
        return Store(built(tmp_path, Toy(**splits)), "train").tokenizer.fingerprint

    plain, strange = [["Hi .", "Hello ."]], [["zyzzyva " * 9, "zyzzyva " * 9]]
    assert learned(train=plain, validation=strange) == learned(train=plain, test=strange) == learned(train=plain)
    assert learned(train=plain + strange) != learned(train=plain)


def test_the_same_data_are_built_once(tmp_path: Path) -> None:
    told: list[str] = []

    def tell(what: str, done: int, total: int | None) -> None:
        told.append(what)

    folder = built(tmp_path, Toy(), progress=tell)
    assert {"learning the tokenizer", "tokenising"} <= set(told)
    assert folder.parent == tmp_path
    assert folder.name.startswith("toy-")
    assert len(folder.name) == len("toy-") + 12
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    told.clear()
    assert built(tmp_path, Toy(), progress=tell) == folder
    assert not told
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]


def test_two_builds_are_equal_byte_for_byte(tmp_path: Path) -> None:
    one, two = (built(tmp_path / name, CORPORA["builtin"]) for name in ("one", "two"))
    assert one.name == two.name
    contents = [{path.name: path.read_bytes() for path in folder.iterdir()} for folder in (one, two)]
    assert contents[0] == contents[1]
    manifest = json.loads(contents[0].pop("manifest.json"))
    assert manifest["files"] == {
        name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in contents[0].items()
    }


@pytest.mark.parametrize(
    "changed",
    [
        {"context_turns": 3},
        {"first_turns": True},
        {"max_source": 23},
        {"max_target": 8},
        {"tokenizer": {"name": "byte_bpe", "vocabulary": 300}},
        {"component": {"name": "toy", "lower": True}},
    ],
)
def test_another_setting_is_another_folder(tmp_path: Path, changed: dict[str, Any]) -> None:
    assert built(tmp_path, Toy(), **changed) != built(tmp_path, Toy())


def test_another_given_tokenizer_is_another_folder_and_another_place_is_not(tmp_path: Path) -> None:
    def folder(name: str, text: str) -> Path:
        byte_bpe([text] * 2).save(tmp_path / name)
        return built(tmp_path / "prepared", Toy(), tokenizer={"name": "file", "path": str(tmp_path / name)})

    assert folder("here.json", "Hi .") == folder("there.json", "Hi .") != folder("here.json", "Hello .")


def test_another_input_is_another_folder_and_another_place_is_not(tmp_path: Path) -> None:
    def placed(name: str) -> Path:
        (tmp_path / name).mkdir()
        for file in (SAMPLES / "jsonl").iterdir():
            (tmp_path / name / file.name).write_bytes(file.read_bytes())
        return tmp_path / name

    def folder(data: Path) -> Path:
        component = {"name": "jsonl", "path": str(data)}
        return built(tmp_path / "prepared", JsonLines(data), component=component)

    here, there = placed("here"), placed("there")
    assert folder(here) == folder(there)
    with (there / "test.jsonl").open("a") as file:
        file.write('{"id": "new", "turns": ["One more ?", "One more ."]}\n')
    assert folder(here) != folder(there)
    assert len(Store(folder(there), "test")) == len(Store(folder(here), "test")) + 1


KILLED = """
import json, os, signal, sys
from pathlib import Path
from dialog.data.examples import ExampleRules
from dialog.data.dialogue import Dialogue, Turn
from dialog.data.preparation.prepare import prepare
from dialog.data.preparation.shards import Job
from dialog.data.preparation.writer import Limits

class Deadly:
    def dialogues(self, split):
        for number in range(3):
            if (split, number) == (sys.argv[2], 2):
                os.kill(os.getpid(), signal.SIGKILL)
            yield Dialogue(f"{split}-{number}", (Turn("A", "Hi ."), Turn("B", "Hello .")))

    def fingerprint(self):
        if sys.argv[2] == "end" and any(Path(sys.argv[1]).glob(".*/*/test.ids.bin")):
            os.kill(os.getpid(), signal.SIGKILL)
        return {"same": "always"}

job = Job(Deadly(), rules=ExampleRules(2, False), limits=Limits(24, 9), **json.loads(sys.argv[3]))
folder = prepare(job, Path(sys.argv[1]))
print(folder, "torch" in sys.modules)
"""


@pytest.mark.parametrize("moment", ["train", "validation", "end"])
def test_a_kill_never_looks_finished(tmp_path: Path, moment: str) -> None:
    def run(moment: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", KILLED, str(tmp_path), moment, json.dumps(SETTINGS)]
        return subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[3])

    assert run(moment).returncode == -signal.SIGKILL
    (left,) = tmp_path.iterdir()
    assert left.name.startswith(".toy-")
    assert left.name.endswith(".partial")
    with pytest.raises(UserError, match=r"no manifest\.json"):
        Store(left, "train")
    whole = run("never")
    assert whole.returncode == 0, whole.stderr
    folder, with_torch = whole.stdout.split()
    assert with_torch == "False", "preparing needs no torch"
    assert len(Store(Path(folder), "test")) == 3


@pytest.mark.parametrize("damage", ["cut", "gone", "manifest"])
def test_damaged_data_are_refused_and_built_again(tmp_path: Path, damage: str) -> None:
    folder = built(tmp_path, Toy())
    file = folder / ("manifest.json" if damage == "manifest" else "test.ids.bin")
    if damage == "gone":
        file.unlink()
    else:
        os.truncate(file, 1)
    with pytest.raises(UserError, match=rf"{file.name} is (missing or damaged|broken)"):
        Store(folder, "train")
    assert built(tmp_path, Toy()) == folder
    assert len(Store(folder, "test")) == 1


def test_an_error_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the split test gives no example"):
        built(tmp_path, Toy(test=[["nobody answers"], []]))
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_that_changes_meanwhile_is_refused(tmp_path: Path) -> None:
    class Restless(Toy):
        def dialogues(self, split: str) -> Iterator[Dialogue]:
            yield from super().dialogues(split)
            self.splits["test"].append(["late", "arrival"])

    with pytest.raises(UserError, match="changed while it was read"):
        built(tmp_path, Restless(test=[["Hi", "Ho"]]))
    assert list(tmp_path.iterdir()) == []


def test_whoever_finishes_first_wins(tmp_path: Path) -> None:
    class Overtaken(Toy):
        def dialogues(self, split: str) -> Iterator[Dialogue]:
            if split == "test":
                built(tmp_path, Toy())
            yield from super().dialogues(split)

    folder = built(tmp_path, Overtaken())
    assert list(tmp_path.iterdir()) == [folder] == [built(tmp_path, Toy())]


def test_nobody_sweeps_what_another_is_making(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Toy):
        def dialogues(self, split: str) -> Iterator[Dialogue]:
            raise UserError("broken")

    def interfere() -> None:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "mkdir", mkdir)
            with pytest.raises(UserError, match="broken"):
                built(tmp_path, Failing())

    class Interfered(Toy):
        def dialogues(self, split: str) -> Iterator[Dialogue]:
            interfere()
            yield from super().dialogues(split)

    mkdir = Path.mkdir

    def mkdir_and_interfere(path: Path, *arguments: object, **named: object) -> None:
        mkdir(path, *arguments, **named)
        interfere()

    monkeypatch.setattr(Path, "mkdir", mkdir_and_interfere)
    folder = built(tmp_path, Interfered())
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("changed", [{"context_turns": -1}, {"max_source": 0}, {"max_target": 0}])
def test_limits_out_of_range_are_refused_by_key(tmp_path: Path, changed: dict[str, int]) -> None:
    (key,) = changed
    with pytest.raises(UserError, match=rf"data\.{key}"):
        built(tmp_path, Toy(), **changed)


def test_blocks_join_without_a_seam(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = built(tmp_path / "whole", CORPORA["builtin"])
    monkeypatch.setattr("dialog.data.preparation.blocks.BLOCK", 5)
    pieces = built(tmp_path / "pieces", CORPORA["builtin"])
    assert {p.name: p.read_bytes() for p in whole.iterdir()} == {p.name: p.read_bytes() for p in pieces.iterdir()}


def test_large_vocabularies_get_wide_ids() -> None:
    assert np.iinfo(ids_dtype(65535)).max == 65535
    assert np.iinfo(ids_dtype(65536)).max > 65535


def test_a_folder_that_is_none_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere holds no prepared data"):
        Store(tmp_path / "nowhere", "train")
