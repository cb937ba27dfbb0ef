"""ConvoKit: conversations out of utterances that reply to each other, or should."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialog.data.corpora.convokit import ConvoKit
from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed, Turn
from dialog.errors import UserError


def utterance(id: str, reply_to: str | None, conversation: str = "c", **fields: object) -> dict[str, object]:
    known = {"id": id, "conversation_id": conversation, "reply-to": reply_to, "speaker": f"speaker {id}"}
    return {**known, "text": f"text {id}", "meta": {}, "timestamp": None, **fields}


def entries(folder: Path, *utterances: object, meta: object = None, group: str | None = None) -> list[Entry]:
    lines = (line if isinstance(line, str) else json.dumps(line) for line in utterances)
    (folder / "utterances.jsonl").write_text("".join(f"{line}\n" for line in lines))
    (folder / "conversations.json").write_text(json.dumps(meta or {}))
    corpus = ConvoKit(folder, group=group)
    return [entry for split in SPLITS for entry in corpus.dialogues(split)]


def one(folder: Path, *utterances: object, meta: object = None) -> Dialogue:
    (found,) = entries(folder, *utterances, meta=meta)
    assert isinstance(found, Dialogue)
    return found


def ids(dialogue: Dialogue) -> str:
    return "".join(turn.text.removeprefix("text ") for turn in dialogue.turns)


def test_a_line_of_replies_is_a_dialogue_whatever_the_order_of_the_file(tmp_path: Path) -> None:
    found = one(tmp_path, utterance("c", "b"), utterance("a", None), utterance("b", "a"), meta={"c": {"title": "x"}})
    assert ids(found) == "abc"
    assert found.turns[0] == Turn("speaker a", "text a")
    assert (found.id, found.meta, found.place) == ("c", {"title": "x"}, f"{tmp_path / 'utterances.jsonl'}:1")


def test_older_names_of_fields_and_newer_meta_are_read(tmp_path: Path) -> None:
    old = {"id": "a", "root": "c", "reply_to": None, "user": "Anna", "text": "Hi"}
    found = one(tmp_path, old, {**old, "id": "b", "reply_to": "a"}, meta={"c": {"meta": {"n": 1}, "vectors": []}})
    assert found.turns == (Turn("Anna", "Hi"), Turn("Anna", "Hi"))
    assert found.meta == {"n": 1}


def test_where_none_replies_the_order_is_the_files(tmp_path: Path) -> None:
    found = one(tmp_path, utterance("b", None), utterance("a", None), utterance("c", None))
    assert (ids(found), dict(found.meta)) == ("bac", {})


def test_of_a_tree_the_longest_chain_is_read_and_the_rest_is_counted(tmp_path: Path) -> None:
    tree = [("a", None), ("b", "a"), ("c", "a"), ("d", "c"), ("e", "b"), ("f", "a")]
    found = one(tmp_path, *(utterance(*each) for each in tree))
    assert ids(found) == "acd", "of two as long, the one whose end comes first"
    assert "3 of 6 utterances are not in the longest chain" in str(found.meta[WARNING])


def test_orphans_and_replies_to_oneself_open_a_chain_and_are_counted(tmp_path: Path) -> None:
    found = one(tmp_path, utterance("a", "a"), utterance("b", "a"), utterance("c", "gone"), utterance("d", "b"))
    assert ids(found) == "abd"
    assert "1 of 4 utterances" in str(found.meta[WARNING])
    assert "2 reply to themselves or outside the conversation" in str(found.meta[WARNING])


@given(replies=st.lists(st.integers(-2, 30), min_size=1, max_size=30))
def test_the_chain_is_one_of_replies_and_none_is_longer(
    tmp_path_factory: pytest.TempPathFactory, replies: list[int]
) -> None:
    above = {n: to if 0 <= to < n else None for n, to in enumerate(replies)}

    def chain(n: int) -> list[int]:
        to = above[n]
        return [*(chain(to) if to is not None else []), n]

    def name(n: int, to: int) -> str | None:
        """Of an earlier utterance or the same, else of none, or of one that is not there."""
        return None if to == -1 else str(to) if to <= n else "gone"

    lines = [utterance(str(n), name(n, to)) for n, to in enumerate(replies)]
    found = one(tmp_path_factory.mktemp("convokit"), *lines)
    said = [int(turn.text.removeprefix("text ")) for turn in found.turns]
    longest = max(len(chain(n)) for n in above)
    if longest == 1:
        assert said == list(above)
    else:
        assert said == chain(said[-1])
        assert len(said) == longest
    left_out = len(replies) - len(said)
    assert left_out == 0 or f"{left_out} of {len(replies)} utterances" in str(found.meta[WARNING])


def test_conversations_may_be_mixed_in_the_file(tmp_path: Path) -> None:
    lines = [utterance(f"{c}{n}", f"{c}{n - 1}" if n else None, c) for n in range(3) for c in "xyz"]
    found = entries(tmp_path, *lines)
    assert {each.id: ids(each) for each in found if isinstance(each, Dialogue)} == {c: f"{c}0{c}1{c}2" for c in "xyz"}


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
def test_what_is_malformed_is_named_and_the_rest_is_read(tmp_path: Path, bad: list[object], message: str) -> None:
    found = entries(tmp_path, *bad, utterance("a", None), utterance("b", "a"))
    (malformed,) = [entry.message for entry in found if isinstance(entry, Malformed)]
    assert message in malformed
    assert "\n" not in malformed
    assert [ids(entry) for entry in found if isinstance(entry, Dialogue)] == ["ab"]


def test_a_conversation_with_malformed_utterances_is_malformed_once(tmp_path: Path) -> None:
    bad = [utterance("b", "a", text=None), utterance("c", "b", speaker=7)]
    found = entries(tmp_path, utterance("a", None), *bad, utterance("d", "c"), utterance("e", None, "other"))
    malformed, other = sorted(found, key=lambda entry: isinstance(entry, Dialogue))
    assert isinstance(malformed, Malformed)
    assert "jsonl:2: its text is None" in malformed.message
    assert isinstance(other, Dialogue)
    assert (other.id, ids(other)) == ("other", "e")


@pytest.mark.parametrize("bad", [utterance("a", None, text=["x"] * 10**5), {"id": "a", "text": {"x" * 10**5: 1}}])
def test_what_is_said_of_a_record_is_short_however_long_it_is(tmp_path: Path, bad: object) -> None:
    (malformed,) = entries(tmp_path, bad)
    assert isinstance(malformed, Malformed)
    assert malformed.message.startswith(f"{tmp_path / 'utterances.jsonl'}:1: its text is ")
    assert malformed.message.endswith("not text; write it in quotes")
    assert len(malformed.message) < 1000


def test_a_chain_of_many_thousand_replies_is_read(tmp_path: Path) -> None:
    lines = [utterance(str(n), str(n - 1) if n else None) for n in range(5000)]
    assert len(one(tmp_path, *reversed(lines)).turns) == 5000


def test_what_belongs_together_is_in_one_split(tmp_path: Path) -> None:
    lines = [utterance(f"{n}-{k}", None if k == "a" else f"{n}-a", str(n)) for n in range(200) for k in "ab"]
    meta = {str(n): {"film": f"m{n % 40}"} for n in range(200)}
    entries(tmp_path, *lines, meta=meta)
    corpus = ConvoKit(tmp_path, group="film")
    films = [{each.meta["film"] for each in corpus.dialogues(split)} for split in SPLITS]
    assert sum(map(len, films)) == 40
    assert all(films)
    assert all(isinstance(entry, Malformed) for entry in entries(tmp_path, *lines[:4], group="film"))


def test_no_pickle_of_the_folder_is_opened(tmp_path: Path) -> None:
    (tmp_path / "parsed-bin.p").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    (tmp_path / "index.json").write_text("{")
    assert one(tmp_path, utterance("a", None)).id == "c"
    (tmp_path / "conversations.json").unlink()
    with pytest.raises(UserError, match=r"conversations\.json does not exist"):
        ConvoKit(tmp_path).fingerprint()
