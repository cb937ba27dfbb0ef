"""Ubuntu: a file a dialogue, split by the lists of version 2 or by hash."""

from __future__ import annotations

from pathlib import Path

import pytest

from dialog.data.corpora.ubuntu import Ubuntu
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError

GOOD = (
    "2004-11-23T11:49:00.000Z\tstuNNed\t\tany ideas"
    " ?\n2004-11-23T11:50:00.000Z\tcrimsun\tstuNNed\tyes\n"
)
LISTS = {"train": "trainfiles", "validation": "valfiles", "test": "testfiles"}


def write(folder: Path, dialogues: dict[str, str], **lists: str) -> Ubuntu:
    for name, content in dialogues.items():
        (folder / "dialogs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "dialogs" / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    for split, content in lists.items():
        (folder / "meta").mkdir(exist_ok=True)
        (folder / "meta" / f"{LISTS[split]}.csv").write_text(content)
    return Ubuntu(folder)


def test_lists_determine_splits_and_their_order(tmp_path: Path) -> None:
    odd = '1\ta\t\t"so\u2028" it\n2\ta\tb\tsaid\t"twice\n3\tb\ta\t\n'
    dialogues = {"3/1.tsv": GOOD, "3/10.tsv": odd, "4/1.tsv": GOOD, "5/1.tsv": GOOD}
    corpus = write(
        tmp_path,
        dialogues,
        train="10.tsv,3\n1.tsv,3\n9.tsv,9\n",
        validation="1.tsv,4\n",
        test="1.tsv,5\n",
    )
    first, second, missing = corpus.dialogues("train")
    assert (first.id, second.id) == ("3/10", "3/1")
    assert first.turns == (Turn("a", '"so\u2028" it'), Turn("a", 'said\t"twice'), Turn("b", ""))
    assert second.turns == (Turn("stuNNed", "any ideas ?"), Turn("crimsun", "yes"))
    assert second.place == str(tmp_path / "dialogs" / "3" / "1.tsv")
    assert isinstance(missing, Malformed)
    assert (
        f"9.tsv does not exist; {tmp_path / 'meta' / 'trainfiles.csv'}:3 names it"
        in missing.message
    )
    assert [dialogue.id for dialogue in corpus.dialogues("test")] == ["5/1"]
    (tmp_path / "meta" / "testfiles.csv").unlink()
    with pytest.raises(UserError, match=r"testfiles\.csv does not exist"):
        list(corpus.dialogues("train"))


def test_without_lists_dialogues_are_hashed_into_splits(tmp_path: Path) -> None:
    names = [f"{n % 7}/{n}.tsv" for n in range(200)]
    corpus = write(tmp_path, {name: GOOD + f"3\tx\t\t{name}\n" for name in names})
    splits = [[dialogue.id for dialogue in corpus.dialogues(split)] for split in SPLITS]
    assert sorted(id for ids in splits for id in ids) == sorted(
        name.removesuffix(".tsv") for name in names
    )
    assert all(splits)
    assert all(ids == sorted(ids, key=lambda id: id.split("/")) for ids in splits)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("", "3/2.tsv is empty"),
        ("2004\ta\tb\n", "3/2.tsv:1: not a time"),
        ("2004\t\t\thi\n", "3/2.tsv:1: not a time"),
        (f"{GOOD}caf\udce9\ta\t\thi\n", "3/2.tsv:3: byte 4"),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, bad: str, message: str
) -> None:
    corpus = write(tmp_path, {"3/1.tsv": GOOD, "3/2.tsv": bad, "3/3.tsv": GOOD})
    entries = [entry for split in SPLITS for entry in corpus.dialogues(split)]
    assert [entry.id for entry in entries if isinstance(entry, Dialogue)] == ["3/1", "3/3"]
    (malformed,) = [entry.message for entry in entries if isinstance(entry, Malformed)]
    assert message in malformed


def test_the_fingerprint_covers_lists_names_and_contents(tmp_path: Path) -> None:
    corpus = write(tmp_path, {"3/1.tsv": GOOD})
    seen = [corpus.fingerprint()]
    assert list(seen[0]) == ["dialogs"]
    (tmp_path / "dialogs" / "3" / "1.tsv").rename(tmp_path / "dialogs" / "3" / "2.tsv")
    seen.append(corpus.fingerprint())
    write(tmp_path, {"3/1.tsv": GOOD})
    seen.append(corpus.fingerprint())
    write(tmp_path, {}, train="1.tsv,3\n", validation="2.tsv,3\n", test="2.tsv,3\n")
    seen.append(corpus.fingerprint())
    assert all(one != other for index, one in enumerate(seen) for other in seen[:index])
    assert len(seen[-1]) == 4


def test_a_folder_without_dialogues_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"dialogs cannot be read .*data\.path"):
        list(Ubuntu(tmp_path).dialogues("train"))
    (tmp_path / "dialogs" / "3").mkdir(parents=True)
    with pytest.raises(UserError, match="dialogs holds no dialogue"):
        Ubuntu(tmp_path).fingerprint()
