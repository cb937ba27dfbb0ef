"""KdConv: arrays of three domains, and the knowledge that turns use."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.knowledge_grounded import KdConv
from dialog.data.dialogue import Dialogue, Malformed, Turn
from dialog.errors import UserError

LENGTH = {"attrname": "片长", "attrvalue": "90分钟", "name": "小城"}
KIND = {"attrname": "类型", "attrvalue": "剧情", "name": "小城"}


def talk(number: int) -> dict[str, object]:
    messages = [
        {"message": f"看过第{number}部吗？"},
        {"attrs": [LENGTH, KIND], "message": "看过。"},
        {"attrs": [KIND, LENGTH], "message": "我也是。"},
    ]
    return {"messages": messages, "name": "小城"}


FILES = {
    f"data/{domain}/{name}.json": json.dumps(
        [talk(n) for n in range(count)], ensure_ascii=False, indent=2
    )
    for domain in ("film", "music", "travel")
    for name, count in (("train", 3), ("dev", 2), ("test", 1))
}


def test_reads_the_format(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    splits = check_laws(KdConv, FILES)
    assert [dialogue.id for dialogue in splits["validation"]] == [
        f"{domain}-{number}" for domain in ("film", "music", "travel") for number in (1, 2)
    ]
    first = splits["train"][0]
    assert first.turns == (Turn("A", "看过第0部吗？"), Turn("B", "看过。"), Turn("A", "我也是。"))
    length, kind = ("小城", "片长", "90分钟"), ("小城", "类型", "剧情")
    assert first.meta == {
        "domain": "film",
        "name": "小城",
        "attrs": [[], [length, kind], [kind, length]],
    }
    assert first.facts == ()


def test_knowledge_can_be_facts_known_to_both(write_files: Callable[..., Path]) -> None:
    folder = write_files(FILES)
    (dialogue,) = KdConv(folder / "data", domains=["music"], knowledge=True).dialogues("test")
    assert isinstance(dialogue, Dialogue)
    assert dialogue.facts == (Turn("", "小城 片长 90分钟"), Turn("", "小城 类型 剧情"))
    assert KdConv(folder, knowledge=True).fingerprint() != KdConv(folder).fingerprint()


def test_domains_are_read_in_the_given_order(write_files: Callable[..., Path]) -> None:
    folder = write_files(FILES)
    corpus = KdConv(folder, domains=["travel", "film"])
    assert [d.id for d in corpus.dialogues("test") if isinstance(d, Dialogue)] == [
        "travel-1",
        "film-1",
    ]
    assert corpus.fingerprint() != KdConv(folder, domains=["film", "travel"]).fingerprint()
    with pytest.raises(
        UserError, match=r"books/train\.json does not exist; .* film, music, travel"
    ):
        KdConv(folder, domains=["books"]).fingerprint()


def test_malformed_records_are_reported_and_the_rest_read(write_files: Callable[..., Path]) -> None:
    broken = [
        talk(0),
        {"messages": [{"text": "?"}]},
        {"messages": [{"message": "a", "attrs": [{}]}]},
        talk(1),
    ]
    entries = [
        *KdConv(
            write_files({**FILES, "data/film/train.json": json.dumps(broken)}), domains=["film"]
        ).dialogues("train")
    ]
    assert [type(entry) for entry in entries] == [Dialogue, Malformed, Malformed, Dialogue]
    assert "film/train.json: record 2: not in this corpus's format (KeyError: 'message')" in str(
        entries[1]
    )
