"""Reply trees of ConvoKit."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from corpus_program import ANY, counts_of, error_line, prepare

from dialog.data.dialogue import SPLITS

if sys.version_info >= (3, 14):
    pass
else:
    pass


def convokit(*strange: dict[str, object]) -> dict[str, bytes]:
    """Sixty conversations, enough for every split, followed by these utterances."""
    plain = [
        {
            "id": f"{n}{end}",
            "conversation_id": f"{n}",
            "reply-to": above,
            "speaker": "Anna",
            "text": f"{end} {n}",
        }
        for n in range(60)
        for end, above in (("a", None), ("b", f"{n}a"))
    ]
    own = [
        {"conversation_id": "s", "reply-to": None, "speaker": "Bo", "text": "x", **each}
        for each in strange
    ]
    return {
        "utterances.jsonl": b"".join(json.dumps(each).encode() + b"\n" for each in (*plain, *own)),
        "conversations.json": b"{}\n",
    }


SELF = {"id": "s", "reply-to": "s"}
TREES = [
    (
        "a parent that is missing",
        [{"id": "s", "reply-to": "gone"}, {"id": "t", "reply-to": "s"}],
        1,
        "1 reply to themsel",
    ),
    (
        "a parent of its own",
        [SELF, {"id": "t", "reply-to": "s"}],
        1,
        "0 of 2 utterances are not in .* 1 reply to themsel",
    ),
    (
        "branches",
        [{"id": "s"}, *({"id": f"t{n}", "reply-to": "s"} for n in range(4))],
        1,
        "3 of 5 utterances are not in",
    ),
    (
        "a deep chain",
        [{"id": f"s{n}", "reply-to": f"s{n - 1}" if n else None} for n in range(5000)],
        1,
        "a dialogue of 5,000 turns",
    ),
]
NO_TREES: list[tuple[str, list[dict[str, object]], str]] = [
    (
        "a circle",
        [{"id": "s", "reply-to": "u"}, {"id": "t", "reply-to": "s"}, {"id": "u", "reply-to": "t"}],
        ":121: .*circle",
    ),
    ("an id twice", [{"id": "s"}, {"id": "s"}], ":121: two utterances"),
    ("a null speaker", [{"id": "s", "speaker": None}], ":121: its speaker is None, not text"),
    (
        "a speaker of another type",
        [{"id": "s"}, {"id": "t", "speaker": {"id": "Bo"}}],
        ":122: its speaker is",
    ),
    ("a text that is null", [{"id": "s", "text": None}], ":121: its text is None"),
    (
        "half a character",
        [{"id": "s", "text": "\ud83d"}, {"id": "t"}],
        ":121: holds half a character",
    ),
]


def write_convokit(*strange: dict[str, object]) -> None:
    Path("corpus").mkdir()
    for name, content in convokit(*strange).items():
        (Path("corpus") / name).write_bytes(content)


@pytest.mark.parametrize(
    ("strange", "more", "remark"), [row[1:] for row in TREES], ids=[row[0] for row in TREES]
)
def test_reply_tree_is_read(strange: list[dict[str, object]], more: int, remark: str) -> None:
    write_convokit(*strange)
    done = prepare("name: convokit", ANY)
    assert sum(counts_of(done, split)["dialogues read"] for split in SPLITS) == 60 + more
    remarks = json.loads(done.out)["remarks"].values()
    warnings = [line for kinds in remarks for line in kinds.get("warnings", ())]
    assert bool(warnings) == bool(remark)
    assert all(
        re.search(remark, line) and line.startswith("corpus/utterances.jsonl:121: ")
        for line in warnings
    )


@pytest.mark.parametrize(
    ("strange", "message"), [row[1:] for row in NO_TREES], ids=[row[0] for row in NO_TREES]
)
def test_invalid_reply_tree_is_an_error(strange: list[dict[str, object]], message: str) -> None:
    write_convokit(*strange)
    assert re.search(r"^corpus/utterances\.jsonl" + message, error_line(prepare("name: convokit")))
    counts = [
        counts_of(prepare("name: convokit", "data.malformed=drop", ANY), split) for split in SPLITS
    ]
    assert sum(each.get("dropped dialogues: malformed", 0) for each in counts) == 1
