"""ConvoKit: chains of replies, dangling replies and malformed utterances."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.convokit import ConvoKit
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError


def utterance(
    id: str, reply_to: str | None, conversation: str = "c", **fields: object
) -> dict[str, object]:
    defaults = {
        "id": id,
        "conversation_id": conversation,
        "reply-to": reply_to,
        "speaker": f"speaker {id}",
    }
    return {**defaults, "text": f"text {id}", "meta": {}, "timestamp": None, **fields}


def entries(
    folder: Path, *utterances: object, meta: object = None, group: str | None = None
) -> list[Entry]:
    lines = (line if isinstance(line, str) else json.dumps(line) for line in utterances)
    (folder / "utterances.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "conversations.json").write_text(json.dumps(meta or {}))
    corpus = ConvoKit(folder, group=group)
    return [entry for split in SPLITS for entry in corpus.dialogues(split)]


def only_dialogue(folder: Path, *utterances: object, meta: object = None) -> Dialogue:
    (read,) = entries(folder, *utterances, meta=meta)
    assert isinstance(read, Dialogue)
    return read


def ids(dialogue: Dialogue) -> str:
    return "".join(turn.text.removeprefix("text ") for turn in dialogue.turns)


def test_a_chain_of_replies_is_a_dialogue_in_any_file_order(tmp_path: Path) -> None:
    read = only_dialogue(
        tmp_path,
        utterance("c", "b"),
        utterance("a", None),
        utterance("b", "a"),
        meta={"c": {"title": "x"}},
    )
    assert ids(read) == "abc"
    assert read.turns[0] == Turn("speaker a", "text a")
    assert (read.id, read.meta, read.place) == (
        "c",
        {"title": "x"},
        f"{tmp_path / 'utterances.jsonl'}:1",
    )


def test_older_field_names_and_newer_meta_are_read(tmp_path: Path) -> None:
    old = {"id": "a", "root": "c", "reply_to": None, "user": "Anna", "text": "Hi"}
    read = only_dialogue(
        tmp_path,
        old,
        {**old, "id": "b", "reply_to": "a"},
        meta={"c": {"meta": {"n": 1}, "vectors": []}},
    )
    assert read.turns == (Turn("Anna", "Hi"), Turn("Anna", "Hi"))
    assert read.meta == {"n": 1}


def test_without_replies_turns_are_in_file_order(tmp_path: Path) -> None:
    read = only_dialogue(tmp_path, utterance("b", None), utterance("a", None), utterance("c", None))
    assert (ids(read), dict(read.meta)) == ("bac", {})


def test_the_longest_chain_is_read_and_the_rest_counted(tmp_path: Path) -> None:
    tree = [("a", None), ("b", "a"), ("c", "a"), ("d", "c"), ("e", "b"), ("f", "a")]
    read = only_dialogue(tmp_path, *(utterance(*entry) for entry in tree))
    assert ids(read) == "acd", "of two as long, the one whose end comes first"
    assert "3 of 6 utterances are not in the longest chain" in str(read.meta[WARNING])


def test_dangling_replies_start_a_chain_and_are_counted(tmp_path: Path) -> None:
    read = only_dialogue(
        tmp_path,
        utterance("a", "a"),
        utterance("b", "a"),
        utterance("c", "gone"),
        utterance("d", "b"),
    )
    assert ids(read) == "abd"
    assert "1 of 4 utterances" in str(read.meta[WARNING])
    assert "2 reply to themselves or outside the conversation" in str(read.meta[WARNING])


@given(replies=st.lists(st.integers(-2, 30), min_size=1, max_size=30))
def test_no_chain_of_replies_is_longer(
    tmp_path_factory: pytest.TempPathFactory, replies: list[int]
) -> None:
    parents = {n: to if 0 <= to < n else None for n, to in enumerate(replies)}

    def chain(n: int) -> list[int]:
        to = parents[n]
        return [*(chain(to) if to is not None else []), n]

    def name(n: int, to: int) -> str | None:
        """Return the id of an earlier utterance or the same one, None, or an unknown id."""
        return None if to == -1 else str(to) if to <= n else "gone"

    lines = [utterance(str(n), name(n, to)) for n, to in enumerate(replies)]
    read = only_dialogue(tmp_path_factory.mktemp("convokit"), *lines)
    numbers = [int(turn.text.removeprefix("text ")) for turn in read.turns]
    longest = max(len(chain(n)) for n in parents)
    if longest == 1:
        assert numbers == list(parents)
    else:
        assert numbers == chain(numbers[-1])
        assert len(numbers) == longest
    left_out = len(replies) - len(numbers)
    assert left_out == 0 or f"{left_out} of {len(replies)} utterances" in str(read.meta[WARNING])


def test_conversations_may_be_interleaved(tmp_path: Path) -> None:
    lines = [utterance(f"{c}{n}", f"{c}{n - 1}" if n else None, c) for n in range(3) for c in "xyz"]
    read = entries(tmp_path, *lines)
    assert {entry.id: ids(entry) for entry in read if isinstance(entry, Dialogue)} == {
        c: f"{c}0{c}1{c}2" for c in "xyz"
    }


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (
            [utterance("a", "c", "x"), utterance("b", "a", "x"), utterance("c", "b", "x")],
            "jsonl:1: the replies of this conversation form a circle",
        ),
        ([utterance("a", None, "x"), utterance("a", None, "x")], "jsonl:1: two utterances"),
        ([utterance("a", None, "x", text=None)], "jsonl:1: its text is None"),
        ([utterance("a", None, "x", speaker=7)], "jsonl:1: its speaker is 7"),
        ([{"id": "a", "text": "x", "speaker": "y"}], "jsonl:1: its conversation_id is None"),
        (["[]"], "jsonl:1: not in this corpus's format"),
        (["{"], "jsonl:1: not JSON"),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, bad: list[object], message: str
) -> None:
    read = entries(tmp_path, *bad, utterance("a", None), utterance("b", "a"))
    (malformed,) = [entry.message for entry in read if isinstance(entry, Malformed)]
    assert message in malformed
    assert "\n" not in malformed
    assert [ids(entry) for entry in read if isinstance(entry, Dialogue)] == ["ab"]


def test_malformed_utterances_make_one_malformed_dialogue(tmp_path: Path) -> None:
    bad = [utterance("b", "a", text=None), utterance("c", "b", speaker=7)]
    read = entries(
        tmp_path, utterance("a", None), *bad, utterance("d", "c"), utterance("e", None, "other")
    )
    malformed, other = sorted(read, key=lambda entry: isinstance(entry, Dialogue))
    assert isinstance(malformed, Malformed)
    assert "jsonl:2: its text is None" in malformed.message
    assert isinstance(other, Dialogue)
    assert (other.id, ids(other)) == ("other", "e")


@pytest.mark.parametrize(
    "bad", [utterance("a", None, text=["x"] * 10**5), {"id": "a", "text": {"x" * 10**5: 1}}]
)
def test_messages_about_long_records_are_short(tmp_path: Path, bad: object) -> None:
    (malformed,) = entries(tmp_path, bad)
    assert isinstance(malformed, Malformed)
    assert malformed.message.startswith(f"{tmp_path / 'utterances.jsonl'}:1: its text is ")
    assert malformed.message.endswith("not text; write it in quotes")
    assert len(malformed.message) < 1000


def test_a_chain_of_thousands_of_replies_is_read(tmp_path: Path) -> None:
    lines = [utterance(str(n), str(n - 1) if n else None) for n in range(2000)]
    assert len(only_dialogue(tmp_path, *reversed(lines)).turns) == 2000


def test_a_group_is_in_one_split(tmp_path: Path) -> None:
    lines = [
        utterance(f"{n}-{k}", None if k == "a" else f"{n}-a", str(n))
        for n in range(200)
        for k in "ab"
    ]
    meta = {str(n): {"film": f"m{n % 40}"} for n in range(200)}
    entries(tmp_path, *lines, meta=meta)
    corpus = ConvoKit(tmp_path, group="film")
    films = [{entry.meta["film"] for entry in corpus.dialogues(split)} for split in SPLITS]
    assert sum(map(len, films)) == 40
    assert all(films)
    assert all(
        isinstance(entry, Malformed) for entry in entries(tmp_path, *lines[:4], group="film")
    )


def test_pickles_in_the_folder_are_not_opened(tmp_path: Path) -> None:
    (tmp_path / "parsed-bin.p").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (tmp_path / "index.json").write_text("{")
    assert only_dialogue(tmp_path, utterance("a", None)).id == "c"
    (tmp_path / "conversations.json").unlink()
    with pytest.raises(UserError, match=r"conversations\.json does not exist"):
        ConvoKit(tmp_path).fingerprint()


def test_utterances_with_an_empty_conversation_are_malformed(tmp_path: Path) -> None:
    (read,) = entries(tmp_path, utterance("a", None, ""), utterance("b", "a", ""))
    assert isinstance(read, Malformed)
    assert read.message.startswith(f"{tmp_path / 'utterances.jsonl'}:1: ")
