"""The Self-dialogue Corpus: the official repository and a folder of topics, with columns in
alphabetical order.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from pathlib import Path

import pytest

from dialog.data.corpora.selfdialogue import SENTENCES, SelfDialogue
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError


def table(*rows: dict[str, str], end: str = "\n") -> str:
    """Rows with every field in quotes, as the corpus has them."""
    file = io.StringIO()
    columns = [*(name for name in rows[0] if name not in SENTENCES), *sorted(SENTENCES)]
    writer = csv.DictWriter(file, columns, restval="", quoting=csv.QUOTE_ALL, lineterminator=end)
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def row(number: int, worker: int, *texts: str, **fields: str) -> dict[str, str]:
    return {
        "AssignmentId": f"a{number}",
        "worker": f"w{worker}",
        **fields,
        **dict(zip(SENTENCES, texts, strict=False)),
    }


def raw(number: int, worker: int, *texts: str, reject: str = "") -> dict[str, str]:
    fields = row(number, worker, *texts, Reject=reject, RequesterFeedback="Dear all,\r\nthanks")
    return {"WorkerId" if name == "worker" else name: value for name, value in fields.items()}


FOLDER = {
    f"{topic}.csv": table(
        *(row(n, n % 40, f"Seen {n}?", 'No, "never"') for n in range(first, first + 60))
    )
    for topic, first in (("tea", 100), ("chess", 200))
}


def test_columns_are_read_in_the_order_of_turns(write_files: Callable[..., Path]) -> None:
    texts = [f"line {number}" for number in range(1, 21)]
    texts[2], texts[6] = "{}", ""
    folder = write_files(
        {"tea.csv": table(row(1, 1, *texts), row(2, 1), row(3, 1, "Hi", 'a "b", c'))}
    )
    long, nothing, short = (d for split in SPLITS for d in SelfDialogue(folder).dialogues(split))
    assert long.turns == tuple(
        Turn("AB"[index % 2], text) for index, text in enumerate(texts) if index not in (2, 6)
    )
    assert nothing == Dialogue("a2", (), {"topic": "tea", "author": "w1"})
    assert short == Dialogue(
        "a3", (Turn("A", "Hi"), Turn("B", 'a "b", c')), {"topic": "tea", "author": "w1"}
    )


def test_an_author_is_in_one_split(check_laws: Callable[..., dict[str, list[Dialogue]]]) -> None:
    splits = check_laws(SelfDialogue, FOLDER)
    authors = [{dialogue.meta["author"] for dialogue in dialogues} for dialogues in splits.values()]
    assert sum(map(len, splits.values())) == 120
    assert sum(map(len, authors)) == len(set.union(*authors)) == 40
    assert [d.meta["topic"] for d in splits["train"]] == sorted(
        str(d.meta["topic"]) for d in splits["train"]
    )


def test_rejected_rows_and_blocked_workers_are_skipped(
    check_laws: Callable[..., dict[str, list[Dialogue]]],
) -> None:
    rejected = raw(2, 1, "x", "y", reject="Duplicate")
    files = {
        "corpus/tea/b.csv": table(raw(4, 1, "d", "e"), end="\r\n"),
        "corpus/tea/a.csv": table(
            raw(1, 1, "a", "b"), rejected, raw(3, 2, "blocked", "too"), end="\r\n"
        ),
        "corpus/chess/only.csv": table(raw(5, 1, "f", "g"), end="\r\n"),
        "blocked_workers.txt": "w2\nw9\n",
    }
    splits = check_laws(SelfDialogue, files)
    assert [dialogue.id for dialogues in splits.values() for dialogue in dialogues] == [
        "a5",
        "a1",
        "a4",
    ]


def test_topics_can_be_chosen(write_files: Callable[..., Path]) -> None:
    corpus = SelfDialogue(write_files(FOLDER), topics=["chess"])
    assert {d.meta["topic"] for d in corpus.dialogues("train") if isinstance(d, Dialogue)} == {
        "chess"
    }
    assert list(corpus.fingerprint()) == ["chess.csv"]
    with pytest.raises(UserError, match="did you mean 'chess'"):
        SelfDialogue(write_files(FOLDER), topics=["ches"]).fingerprint()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('"a9","w1"\n', "2 columns, but"),
        ('"a9" oh,"w1"\n', "correct the row or its quotes"),
    ],
)
def test_malformed_rows_are_reported_and_the_rest_read(
    write_files: Callable[..., Path], line: str, message: str
) -> None:
    header, first, last = table(row(1, 1, "a", "b"), row(2, 1, "c\nd", "e")).split("\n", 2)
    folder = write_files({"tea.csv": f"{header}\n{first}\n{line}{last}"})
    entries = [entry for split in SPLITS for entry in SelfDialogue(folder).dialogues(split)]
    (bad,) = [entry for entry in entries if isinstance(entry, Malformed)]
    assert "tea.csv:3: " in bad.message
    assert message in bad.message
    assert {d.id: d.turns[0].text for d in entries if isinstance(d, Dialogue)} == {
        "a1": "a",
        "a2": "c\nd",
    }


def test_an_unclosed_quote_is_reported_with_its_line(write_files: Callable[..., Path]) -> None:
    folder = write_files({"tea.csv": table(row(1, 1, "a", "b")) + '"a2","w1\nand on\n'})
    bad = [
        entry for entry in SelfDialogue(folder).dialogues("train") if isinstance(entry, Malformed)
    ]
    assert len(bad) == 2
    assert "tea.csv:3: a quote is not closed" in bad[0].message
