"""However the work is shared, the same bytes; whatever is killed, nothing half done that looks finished."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues
from dialog.data.dialogue import WARNING, Dialogue, Entry, Malformed, Turn
from dialog.data.examples import ExampleRules
from dialog.data.preparation.blocks import BLOCK, Sieve, choose
from dialog.data.preparation.checks import ambiguous
from dialog.data.preparation.prepare import merge_shards, prepare, prepare_shard
from dialog.data.preparation.shards import Job, tell_read
from dialog.data.preparation.writer import Limits
from dialog.data.store.store import Store
from dialog.errors import UserError

SIZE = 3 * BLOCK + 7
SLOW = """
import time
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues

class Slow(BuiltinDialogues):
    def __init__(self):
        super().__init__(size=2100)

    def dialogues(self, split):
        for number, dialogue in enumerate(super().dialogues(split)):
            if number % 100 == 0:
                time.sleep(0.05)
            yield dialogue
"""
HELD = """
import time
from multiprocessing import parent_process
from pathlib import Path
from dialog.data.corpora.builtin.builtin_dialogues import BuiltinDialogues

class Held(BuiltinDialogues):
    def __init__(self, until):
        super().__init__(size=2100)
        self.until = Path(until)

    def dialogues(self, split):
        for number, dialogue in enumerate(super().dialogues(split)):
            while (split, number) == ("train", 2090) and parent_process() and not self.until.exists():
                time.sleep(0.02)
            yield dialogue
"""
RECIPE = ("quickstart/transformer", "data.corpus={name: slow.Slow}", "data.tokenizer.vocabulary=400")


def job(corpus: object = None, **changed: object) -> Job:
    settings = {"max_dropped": 1.0} | changed
    return Job(
        corpus or BuiltinDialogues(size=SIZE),
        {"name": "builtin", "size": SIZE},
        {"name": "byte_bpe", "vocabulary": 400},
        ExampleRules(3, first_turns=False, malformed="drop"),
        Limits(60, 20),
        **settings,
    )


def contents(folder: Path) -> dict[str, str]:
    return {path.name: sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What one process prepares."""
    return contents(prepare(job(), tmp_path_factory.mktemp("alone")))


@pytest.mark.parametrize("workers", [2, 3])
def test_any_number_of_processes_gives_the_same_bytes(tmp_path: Path, alone: dict[str, str], workers: int) -> None:
    folder = prepare(job(), tmp_path, workers=workers)
    assert contents(folder) == alone
    assert list(tmp_path.iterdir()) == [folder]


@pytest.mark.parametrize("count", [1, 4, 7])
def test_shards_merge_to_the_same_bytes_in_whatever_order_they_are_made(
    tmp_path: Path, alone: dict[str, str], count: int
) -> None:
    with pytest.raises(UserError, match="run --shard I/N for every I"):
        merge_shards(job(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    for index in reversed(range(count)):
        if index == 0 and count > 1:
            with pytest.raises(UserError, match=rf"shard 0 of {count} is missing"):
                merge_shards(job(), tmp_path)
        prepare_shard(job(), tmp_path, index, count)
        prepare_shard(job(), tmp_path, index, count)
    folder = merge_shards(job(), tmp_path)
    assert contents(folder) == alone
    assert list(tmp_path.iterdir()) == [folder]
    assert merge_shards(job(), tmp_path) == folder == prepare_shard(job(), tmp_path, 0, count)
    assert list(tmp_path.iterdir()) == [folder]


def test_shards_of_what_is_prepared_meanwhile_go(tmp_path: Path) -> None:
    prepare_shard(job(), tmp_path, 0, 2)
    folder = prepare(job(), tmp_path)
    assert list(tmp_path.iterdir()) == [folder]
    assert merge_shards(job(), tmp_path) == folder
    assert list(tmp_path.iterdir()) == [folder]


class Interrupted(BuiltinDialogues):
    """Something else happens while a shard is written."""

    def __init__(self, does: Callable[[], object]) -> None:
        super().__init__(size=SIZE)
        self.does = does

    def dialogues(self, split: str) -> Iterator[Entry]:
        if split == "validation":
            self.does()
        yield from super().dialogues(split)


def test_a_shard_that_is_written_outlives_what_is_prepared_meanwhile(tmp_path: Path) -> None:
    def prepares() -> None:
        prepare(job(), tmp_path)
        assert list(tmp_path.glob(".*.shards/.0-of-2.*.partial"))

    folder = prepare_shard(job(Interrupted(prepares)), tmp_path, 0, 2)
    assert list(tmp_path.iterdir()) == [folder]
    assert folder == prepare(job(), tmp_path)


def test_what_a_killed_shard_leaves_is_swept_and_what_another_writes_is_not(tmp_path: Path) -> None:
    def writes_too() -> None:
        (written,) = parts.glob(".0-of-2.*")
        prepare_shard(job(), tmp_path, 0, 2)
        assert list(parts.glob(".0-of-2.*")) == [written]

    parts = prepare_shard(job(), tmp_path, 1, 2)
    (parts / ".0-of-2.abcd1234.partial").mkdir()
    assert prepare_shard(job(Interrupted(writes_too)), tmp_path, 0, 2) == parts
    assert {path.name for path in parts.iterdir()} == {"draft", "0-of-2", "1-of-2", "lock"}


def test_of_two_merges_the_later_finds_what_the_other_has_made(tmp_path: Path) -> None:
    class Overtaken(BuiltinDialogues):
        passes = 0

        def fingerprint(self) -> dict[str, str]:
            self.passes += 1
            if self.passes == 2:  # at the end of the merge
                merge_shards(job(), tmp_path)
            return super().fingerprint()

    prepare_shard(job(), tmp_path, 0, 1)
    folder = merge_shards(job(Overtaken(size=SIZE)), tmp_path)
    assert list(tmp_path.iterdir()) == [folder]


def test_shards_of_two_counts_are_no_whole(tmp_path: Path) -> None:
    prepare_shard(job(), tmp_path, 0, 2)
    prepare_shard(job(), tmp_path, 0, 3)
    with pytest.raises(UserError, match=r"there are: N = 2, N = 3; remove all but those of one"):
        merge_shards(job(), tmp_path)


class Growing(BuiltinDialogues):
    """A split has another dialogue at each pass, whatever the fingerprint says."""

    def __init__(self, split: str) -> None:
        super().__init__(size=2 * BLOCK)
        self.split = split
        self.passes = 0

    def dialogues(self, split: str) -> Iterator[Entry]:
        yield from super().dialogues(split)
        if split == self.split:
            self.passes += 1
            yield from (said(f"late-{number}", "a", "b") for number in range(self.passes))


def test_a_corpus_that_is_another_at_the_second_pass_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"train: the corpus changed while it was read: .* 2,049 .* 2,050"):
        prepare(job(Growing("train")), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_shards_of_a_corpus_that_changed_between_them_are_no_whole(tmp_path: Path) -> None:
    growing = Growing("validation")
    for index in range(2):
        prepare_shard(job(growing), tmp_path, index, 2)
    with pytest.raises(UserError, match=r"validation: the corpus changed while it was read"):
        merge_shards(job(growing), tmp_path)


# ------------------------------------------------------------------ progress

SMALL = 2 * (SIZE // 10)


class Told:
    """What a preparation says of itself."""

    def __init__(self) -> None:
        self.said: dict[str, list[tuple[int, int | None]]] = {}

    def __call__(self, what: str, done: int, total: int | None) -> None:
        self.said.setdefault(what, []).append((done, total))


def test_the_time_left_is_known_for_all_splits_once_the_small_ones_are_read(tmp_path: Path) -> None:
    whole, *parts, merging = (Told() for _ in range(4))
    prepare(job(), tmp_path / "whole", progress=whole)
    for index, part in enumerate(parts):
        prepare_shard(job(), tmp_path, index, 2, part)
    merge_shards(job(), tmp_path, merging)
    trained = [SMALL + min(done, SIZE) for done in range(0, SIZE + BLOCK, BLOCK)]
    for told in (whole, *parts):
        steps = told.said["tokenising"]
        assert steps == [*((done, None) for done in (0, 307, 307, 614)), *((done, SMALL + SIZE) for done in trained)]
    for told in (whole, merging):
        joined = [min(done, SIZE) for done in range(BLOCK, SIZE + BLOCK, BLOCK)] + [SIZE + SMALL // 2, SIZE + SMALL]
        assert told.said["joining"] == [(done, SIZE + SMALL) for done in joined]


def test_every_pass_before_the_writing_says_how_many_records_it_has_read(tmp_path: Path) -> None:
    names = ("drop_duplicates", "length", "drop_leaking_dialogues", "entropy")
    told = Told()
    prepare(job(filters=tuple({"name": name} for name in names)), tmp_path, progress=told)
    read = [*range(0, SIZE, BLOCK), SIZE]
    first, again = ([(done, SIZE if known or done == SIZE else None) for done in read] for known in (False, True))
    small = [(0, None), (SMALL // 2, SMALL // 2)]
    assert list(told.said.items())[:6] == [
        ("filter drop_duplicates", first),
        ("filter drop_leaking_dialogues, validation", small),
        ("filter drop_leaking_dialogues, test", small),
        ("filter entropy", again),
        ("learning the tokenizer", again),
        ("training the tokenizer", [(0, None)]),
    ]


def test_a_tokenizer_that_is_given_is_not_trained(tmp_path: Path) -> None:
    told = Told()
    prepared = prepare(job(), tmp_path)
    given = {"name": "file", "path": str(prepared / "tokenizer.json")}
    prepare(replace(job(), tokenizer=given), tmp_path, progress=told)
    assert list(told.said) == ["learning the tokenizer", "tokenising", "joining"]


def test_how_far_shards_are_is_their_mean(tmp_path: Path) -> None:
    def write(folder: str, **records: int) -> None:
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "records.json").write_text(json.dumps(records) if records else "")

    told = Told()
    write("draft", train=1000)
    for folder, records in {
        ".0-of-4.a": {"validation": 90, "test": 10},
        ".0-of-4.b": {"validation": 50},  # begun again, after a worker was killed
        ".1-of-4.c": {},
        "0-of-3": {"validation": 90, "test": 70, "train": 900},
    }.items():
        write(folder, **records)
    tell_read(tmp_path, 4, told)
    write("3-of-4", validation=90, test=70, train=1000)
    tell_read(tmp_path, 4, told)
    assert told.said == {"tokenising": [(25, None), (315, 1160)]}


def test_workers_show_how_far_they_are_before_one_is_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "held.py").write_text(HELD)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])]))
    until, cache = tmp_path / "until", tmp_path / "cache"
    corpus = f"data.corpus={{name: held.Held, until: {until}}}"
    shown = bytearray()
    with terminal(shown) as err:
        process = begin(cache, "--workers", "2", corpus, stderr=err)
        try:
            wait_for(lambda: b"2468/2520" in shown)  # validation, test and two blocks of train
            assert not list(cache.glob(".*.partial/shards/[0-9]*-of-2"))
        finally:
            until.touch()
            ended(process)
        wait_for(lambda: b"2520/2520" in shown)


@contextmanager
def terminal(shown: bytearray) -> Iterator[int]:
    """A terminal; what is written to it is kept."""
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 100))

    def read() -> None:
        with suppress(OSError):  # its end
            while more := os.read(ours, 4096):
                shown.extend(more)

    threading.Thread(target=read, daemon=True).start()
    try:
        yield theirs
    finally:
        os.close(theirs)


# ------------------------------------------------------------------ real processes


@pytest.fixture
def slow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A corpus of the user's that takes its time."""
    (tmp_path / "slow.py").write_text(SLOW)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(Path(__file__).parents[3])]))
    return tmp_path


def begin(cache: Path, *arguments: str, stderr: int = subprocess.PIPE, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "dialog", "prepare", *RECIPE, "--json", *arguments],
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
        env={**os.environ, "DIALOG_CACHE": str(cache), **environment},
    )


def ended(process: subprocess.Popen[str]) -> Path:
    out, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    return Path(json.loads(out)["folder"])


def test_neither_locale_nor_hash_seed_nor_time_zone_changes_a_byte(slow: Path) -> None:
    one = begin(slow / "one", LC_ALL="C", PYTHONHASHSEED="1", TZ="Asia/Tokyo", PYTHONUTF8="0")
    two = begin(slow / "two", "--workers", "2", PYTHONHASHSEED="2", TZ="America/New_York")
    assert contents(ended(one)) == contents(ended(two))


def test_a_kill_of_all_processes_leaves_nothing_that_looks_finished_and_is_swept(slow: Path) -> None:
    cache = slow / "cache"
    process = begin(cache, "--workers", "2")
    wait_for(lambda: any(cache.glob(".*.partial/shards/.*-of-2.*")))
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert [path for path in cache.iterdir() if not path.name.startswith(".")] == []
    folder = ended(begin(cache))
    assert list(cache.iterdir()) == [folder]


def test_a_worker_that_is_killed_is_one_line(slow: Path) -> None:
    cache = slow / "cache"
    process = begin(cache, "--workers", "2")
    wait_for(lambda: any(cache.glob(".*.partial/shards/.*-of-2.*")))
    os.kill(int(children(process.pid, "spawn_main")[0]), signal.SIGKILL)
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2
    assert err.splitlines()[-1].startswith("dialog: a process of the preparation was killed")
    assert list(cache.iterdir()) == []


def test_no_worker_outlives_the_preparation_that_is_killed(slow: Path) -> None:
    cache = slow / "cache"
    process = begin(cache, "--workers", "2")
    wait_for(lambda: any(cache.glob(".*.partial/shards/.*-of-2.*")))
    workers = children(process.pid, "spawn_main")
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert len(workers) == 2
    wait_for(lambda: not any(lives(each) for each in workers), seconds=5)
    process.communicate()


def test_ray_runs_a_killed_worker_s_shard_again_and_gives_the_same_bytes(slow: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    process = begin(slow / "ray", "--engine", "ray", "--workers", "4", RAY_USAGE_STATS_ENABLED="0")
    wait_for(lambda: running("ray::write_shard"), seconds=120)
    os.kill(running("ray::write_shard")[0], signal.SIGKILL)
    here = ended(begin(slow / "here"))
    assert contents(ended(process)) == contents(here)


@pytest.mark.parametrize(("dies", "message"), [(False, "f:1: broken"), (True, "Ray lost a task .* --workers")])
def test_what_goes_wrong_in_a_ray_task_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dies: bool, message: str
) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    here = os.getpid()

    class Wrong(BuiltinDialogues):
        def dialogues(self, split: str) -> Iterator[Entry]:
            if os.getpid() != here:
                if dies:
                    os._exit(1)
                raise UserError("f:1: broken")
            yield from super().dialogues(split)

    with pytest.raises(UserError, match=f"^{message}") as refused:
        prepare(job(Wrong(size=20)), tmp_path, engine="ray", workers=1)
    assert "\n" not in str(refused.value)
    assert list(tmp_path.iterdir()) == []


def wait_for(condition: object, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.02)


def lives(process: int) -> bool:
    """Whether a process is there, and no zombie, which has no command."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


def running(name: str) -> list[int]:
    """Processes whose command begins so."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if (folder / "cmdline").read_bytes().startswith(name.encode()):
                found.append(int(folder.name))
        except OSError:
            continue
    return found


def children(parent: int, name: str) -> list[int]:
    """Children of a process whose command holds a word."""
    ids = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    return [int(each) for each in ids if name.encode() in Path(f"/proc/{each}/cmdline").read_bytes()]


# ------------------------------------------------------------------ what is counted, and refused


class Given:
    """Records from memory, in train."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = entries

    def dialogues(self, split: str) -> Iterator[Entry]:
        few = Dialogue(f"{split}-few", (Turn("A", "Hi"), Turn("B", "Hello")))
        yield from self.entries if split == "train" else (few,)

    def fingerprint(self) -> dict[str, str]:
        return {"given": repr(self.entries)}


def said(id: str, *texts: str, place: str = "", meta: dict[str, object] | None = None) -> Dialogue:
    return Dialogue(id, tuple(Turn("AB"[n % 2], text) for n, text in enumerate(texts)), meta or {}, place=place)


def test_an_id_stands_for_one_dialogue(tmp_path: Path) -> None:
    same = [said("x", "a", "b"), said("y", "c", "d"), said("x", "a", "b")]
    assert len(Store(prepare(job(Given(*same)), tmp_path), "train")) == 3
    other = [said("x", "a", "b", place="f:1"), said("y", "c", "d"), said("x", "a", "e", place="f:3")]
    with pytest.raises(UserError, match=r"f:3: the id 'x' occurs twice in train, for other words at f:1"):
        prepare(job(Given(*other)), tmp_path)
    persona = replace(said("x", "a", "b", place="f:3"), facts=(Turn("A", "I knit ."),))
    with pytest.raises(UserError, match=r"f:3: the id 'x' occurs twice in train, for other words at f:1"):
        prepare(job(Given(other[0], persona)), tmp_path)


marks = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 2)), min_size=1, max_size=20)


@given(marks, st.integers(1, 8))
def test_an_id_of_different_words_is_found_however_few_are_looked_at_at_a_time(
    marks: list[tuple[int, int]], at_once: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dialog.data.preparation.checks.MARKS_AT_ONCE", at_once)
        found = ambiguous(np.array(marks, dtype=np.uint64).reshape(-1, 2))
    expected = {id for id, words in marks for other, others in marks if id == other and words != others}
    assert found in expected if expected else found is None


def test_too_much_that_is_malformed_or_empty_is_refused_with_the_first_place(tmp_path: Path) -> None:
    entries = [*(said(f"{n}", "a", "b") for n in range(97)), Malformed("f:98: broken"), Malformed("f:99: too")]
    corpus = Given(*entries, said("empty"))
    for share in (1.0, 0.03):
        prepare(job(corpus, max_dropped=share), tmp_path)
    with pytest.raises(UserError, match=r"train: 3 of 100 dialogues are malformed or empty, .*=0\.02 .*f:98: broken"):
        prepare(job(corpus, max_dropped=0.02), tmp_path)
    gaps = Given(
        said("odd", "a", "b", meta={WARNING: "f:1: odd"}), said("gaps", *(["a", "b"] * 8), "a", " ", "b", place="f:7")
    )
    with pytest.raises(UserError, match=r"train: 1 of 21 turns are empty.*; first: f:7: 1 of 19 turns are empty"):
        prepare(job(gaps, max_dropped=0.04), tmp_path)


def test_a_responder_whom_nobody_is_called_is_refused_with_the_speakers(tmp_path: Path) -> None:
    corpus = Given(Malformed("f:1: broken"), said("x", "a", "b"))
    with pytest.raises(UserError, match=r"train gives no example .* data\.responder to one who answers, of 'A', 'B'$"):
        prepare(replace(job(corpus), rules=ExampleRules(3, False, responder="Bot", malformed="drop")), tmp_path)


def test_remarks_are_kept_with_their_places(tmp_path: Path) -> None:
    corpus = Given(
        said("odd", "a", "b", meta={WARNING: "f:1: odd"}), *(Malformed(f"f:{n}: broken") for n in range(2, 20))
    )
    store = Store(prepare(job(corpus), tmp_path), "train")
    assert store.manifest["remarks"]["train"] == {
        "warnings": ["f:1: odd"],
        "malformed": [f"f:{n}: broken" for n in range(2, 7)],
    }
    assert store.counts["dropped dialogues: malformed"] == 18
    assert store.counts["warnings"] == 1


class Even:
    """Drops the responses of odd turns, and every third dialogue."""

    def survey(self, splits: object) -> np.ndarray:
        return np.array([number for number, _ in splits["train"] if number % 3 == 0])

    def drops(self, known: np.ndarray, number: int, dialogue: Dialogue) -> list[int]:
        turns = range(len(dialogue.turns))
        return list(turns if number in known else turns[1::2])


@pytest.mark.parametrize("workers", [1, 2])
def test_filters_are_for_training_and_counted_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, workers: int
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    corpus = BuiltinDialogues(size=2 * BLOCK + 5)
    filtered = job(corpus, filters=({"name": "test_shards.Even"},))
    plain = Store(prepare(job(corpus), tmp_path), "train").counts
    folder = prepare(filtered, tmp_path, workers=workers)
    train, test = Store(folder, "train"), Store(folder, "test")
    name = "test_shards.Even"
    assert train.counts[f"dropped dialogues: {name}"] == -(-plain["dialogues"] // 3)
    assert train.counts["dialogues"] + train.counts[f"dropped dialogues: {name}"] == plain["dialogues"]
    assert train.counts["turns"] + train.counts[f"dropped turns: {name}"] == plain["turns"]
    left = plain["examples"] - len(train) - train.counts[f"dropped examples: {name}"]
    assert left == train.counts[f"dropped turns: {name}"] - train.counts[f"dropped dialogues: {name}"]
    assert not [key for key in test.counts if name in key]


class First:
    """Drops the response of the first turn that answers."""

    def drops(self, known: object, number: int, dialogue: Dialogue) -> list[int]:
        return [1]


class Short:
    """Drops dialogues of fewer than four turns."""

    def drops(self, known: object, number: int, dialogue: Dialogue) -> list[int]:
        return list(range(len(dialogue.turns))) if len(dialogue.turns) < 4 else []


def test_examples_of_a_dialogue_that_a_later_filter_drops_are_not_dropped_examples() -> None:
    sieves = [Sieve(name, each, np.empty(0)) for name, each in (("first", First()), ("short", Short()))]
    block = choose(0, [said("stays", *"abcd"), said("goes", *"abc")], ExampleRules(3, first_turns=False), sieves)
    assert sum(len(each.windows) for each in block.chosen) == 2
    assert block.counts["dropped examples: first"] == 1
    assert (block.counts["dropped dialogues: first"], block.counts["dropped dialogues: short"]) == (0, 1)
