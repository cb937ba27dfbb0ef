"""Parquet files, and a data set of the Hub without a network."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet

from dialog.config.components import build
from dialog.data.corpora import CORPORA
from dialog.data.corpora.huggingface import HuggingFace
from dialog.data.dialogue import SPLITS, Dialogue, Malformed, Turn
from dialog.errors import UserError

COMMIT = "0123456789abcdef0123456789abcdef01234567"
Row = dict[str, object]


def write(file: Path, rows: list[Row]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist(rows), file, row_group_size=2)
    return file


def folder(path: Path, train: list[Row]) -> Path:
    for split in SPLITS:
        write(path / f"{split}.parquet", train if split == "train" else train[:1])
    return path


def test_messages_become_turns_and_facts(tmp_path: Path) -> None:
    messages = [("system", "Be brief."), ("user", "Hi !"), ("assistant", "Hello .")]
    rows: list[Row] = [
        {"messages": [{"role": role, "content": text} for role, text in messages], "n": 1}
    ] * 5
    corpus = HuggingFace(folder(tmp_path, rows))
    dialogues = list(corpus.dialogues("train"))
    assert [entry.id for entry in dialogues] == [f"train-{n}" for n in range(1, 6)]
    assert dialogues[0].turns == (Turn("user", "Hi !"), Turn("assistant", "Hello ."))
    assert dialogues[0].facts == (Turn("", "Be brief."),)
    assert dialogues[4].place == f"{tmp_path / 'train.parquet'}:5"


@pytest.mark.parametrize(
    "keys",
    [("role", "content"), ("speaker", "text"), ("from", "value")],
    ids=["messages", "turns", "conversations"],
)
def test_common_keys_of_messages_are_read(tmp_path: Path, keys: tuple[str, str]) -> None:
    rows: list[Row] = [
        {
            "chat": [
                dict(zip(keys, values, strict=True)) for values in (("x", "Hi !"), ("y", "Hello ."))
            ]
        }
    ]
    (dialogue,) = HuggingFace(folder(tmp_path, rows), turns="chat").dialogues("train")
    assert dialogue.turns == (Turn("x", "Hi !"), Turn("y", "Hello ."))


def test_texts_alternate_and_a_pair_is_two_columns(tmp_path: Path) -> None:
    rows: list[Row] = [
        {"dialog": ["Hi !", "Hello .", "Bye ."], "asks": "Who ?", "says": "Me .", "key": 7}
    ]
    path = folder(tmp_path, rows)
    (dialogue,) = HuggingFace(path, turns="dialog", id="key").dialogues("train")
    assert (dialogue.id, dialogue.turns) == (
        "7",
        (Turn("A", "Hi !"), Turn("B", "Hello ."), Turn("A", "Bye .")),
    )
    (pair,) = HuggingFace(path, context="asks", response="says").dialogues("test")
    assert (pair.id, pair.turns) == ("test-1", (Turn("A", "Who ?"), Turn("B", "Me .")))


@pytest.mark.parametrize(
    "names",
    [
        ["train-00000-of-00002.parquet", "train-00001-of-00002.parquet"],
        ["data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"],
        ["train/0000.parquet", "train/0001.parquet"],
    ],
)
def test_the_shards_of_a_split_are_read_in_order(tmp_path: Path, names: list[str]) -> None:
    for number, name in enumerate(names):
        write(
            tmp_path / name, [{"messages": [f"Hi {number} {row}", "Hello ."]} for row in range(3)]
        )
    dialogues = list(HuggingFace(tmp_path).dialogues("train"))
    assert [entry.turns[0].text for entry in dialogues] == [
        f"Hi {n // 3} {n % 3}" for n in range(6)
    ]
    assert [entry.id for entry in dialogues] == [f"train-{n}" for n in range(1, 7)]
    with pytest.raises(UserError, match=r"validation\.parquet does not exist"):
        list(HuggingFace(tmp_path).dialogues("validation"))
    assert list(HuggingFace(tmp_path, validation="train", test="train").fingerprint()) == names
    write(tmp_path / "train.parquet", [{"messages": ["Hi !", "Hello ."]}])
    with pytest.raises(UserError, match="are both there"):
        list(HuggingFace(tmp_path).dialogues("train"))


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_missing_shards_and_two_counts_are_rejected(tmp_path: Path, missing: int) -> None:
    names = [f"train-{number:05}-of-00003.parquet" for number in range(3)]
    for name in names:
        write(tmp_path / name, [{"messages": ["Hi !", "Hello ."]}])
    assert len(list(HuggingFace(tmp_path).dialogues("train"))) == 3
    (tmp_path / names[missing]).unlink()
    with pytest.raises(
        UserError, match=rf"{names[missing]} is missing, one of 3 shards; download it again$"
    ):
        list(HuggingFace(tmp_path).dialogues("train"))
    write(tmp_path / "train-00000-of-00001.parquet", [{"messages": ["Hi !", "Hello ."]}])
    with pytest.raises(UserError, match=r"train-\*: shards of 1 and of 3; keep one set of files$"):
        list(HuggingFace(tmp_path).dialogues("train"))


@pytest.mark.parametrize("closed", ["data", "train", "."])
def test_an_unreadable_folder_of_shards_is_reported(
    tmp_path: Path, make_unreadable: Callable[[Path], None], closed: str
) -> None:
    write(tmp_path / "train.parquet", [{"messages": ["Hi !", "Hello ."]}])
    write(tmp_path / closed / "train-00000-of-00001.parquet", [{"messages": ["Who ?", "Me ."]}])
    make_unreadable(tmp_path / closed)
    with pytest.raises(
        UserError, match=rf"^{tmp_path / closed} cannot be read \(Permission denied\)"
    ):
        list(HuggingFace(tmp_path).dialogues("train"))


def test_one_file_or_one_name_for_all_splits_is_divided(tmp_path: Path) -> None:
    file = write(
        tmp_path / "train.parquet", [{"messages": [f"Hi {n}", "Hello ."]} for n in range(100)]
    )
    for corpus in (HuggingFace(file), HuggingFace(tmp_path, validation="train", test="train")):
        splits = [{entry.turns for entry in corpus.dialogues(split)} for split in SPLITS]
        assert all(splits)
        assert len(set().union(*splits)) == sum(map(len, splits)) == 100
    with pytest.raises(UserError, match="two splits have the same name"):
        HuggingFace(tmp_path, test="validation")


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ([{"role": "user", "content": None}], "message 1 has no content or text or value"),
        ([{"role": None, "content": "Hi !"}], "message 1 has no role or speaker or from"),
        (
            [
                {"role": "user", "content": "Hi !"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
            ],
            'message 2 has "tool_calls"',
        ),
        (
            [{"role": "assistant", "content": "x", "function_call": {"name": "f"}}],
            'message 1 has "function_call"',
        ),
        (None, "'messages' is NoneType, not a list"),
    ],
)
def test_malformed_records_are_reported_and_the_rest_read(
    tmp_path: Path, bad: object, message: str
) -> None:
    good = [{"role": "user", "content": "Hi !"}]
    first, second, third = HuggingFace(
        folder(tmp_path, [{"messages": messages} for messages in (good, bad, good)])
    ).dialogues("train")
    assert isinstance(second, Malformed)
    assert f"{tmp_path / 'train.parquet'}:2: " in second.message
    assert message in second.message
    assert first.turns == third.turns


@pytest.mark.parametrize("size", [2, 2000])
def test_text_that_is_not_utf8_is_reported_and_the_rest_read(tmp_path: Path, size: int) -> None:
    texts = [b"Hi !"] * (size // 2) + [b"caf\xe9"] + [b"Hi !"] * (size // 2)
    raw = pyarrow.array([[text, b"Hello ."] for text in texts])
    column = pyarrow.ListArray.from_arrays(raw.offsets, raw.values.view(pyarrow.string()))
    parquet.write_table(pyarrow.table({"messages": column}), tmp_path / "train.parquet")
    dialogues = list(HuggingFace(tmp_path).dialogues("train"))
    (bad,) = [entry.message for entry in dialogues if isinstance(entry, Malformed)]
    assert bad.startswith(f"{tmp_path / 'train.parquet'}:{size // 2 + 1}: a text is not UTF-8")
    assert [entry.id for entry in dialogues if isinstance(entry, Dialogue)] == [
        f"train-{number}" for number in range(1, size + 2) if number != size // 2 + 1
    ]


@pytest.mark.parametrize("role", ["system", "developer", "tool", "function"])
def test_late_system_messages_and_tools_are_malformed(tmp_path: Path, role: str) -> None:
    messages = [{"role": name, "content": "Hi !"} for name in ("user", role, "assistant")]
    (bad,) = HuggingFace(folder(tmp_path, [{"messages": messages}])).dialogues("train")
    assert isinstance(bad, Malformed)
    assert f"train.parquet:1: message 2 is of role {role!r}" in bad.message


def test_a_row_without_its_id_is_malformed(tmp_path: Path) -> None:
    rows: list[Row] = [{"messages": ["Hi !", "Hello ."], "key": key} for key in ("one", None)]
    good, bad = HuggingFace(folder(tmp_path, rows), id="key").dialogues("train")
    assert isinstance(good, Dialogue)
    assert isinstance(bad, Malformed)
    assert bad.message.startswith(f"{tmp_path / 'train.parquet'}:2: no 'key'")


def test_a_bare_text_is_not_a_list_of_turns(tmp_path: Path) -> None:
    (bad,) = HuggingFace(folder(tmp_path, [{"messages": "Hi !"}])).dialogues("train")
    assert isinstance(bad, Malformed)
    assert "'messages' is str, not a list" in bad.message


def test_a_missing_column_is_reported(tmp_path: Path) -> None:
    path = folder(tmp_path, [{"dialog": ["Hi !", "Hello ."]}])
    (bad,) = HuggingFace(path).dialogues("train")
    assert isinstance(bad, Malformed)
    assert "no column 'messages' among dialog" in bad.message


def test_files_that_are_not_whole_parquet_are_rejected(tmp_path: Path) -> None:
    path = folder(tmp_path, [{"messages": ["Hi !", "Hello ."]}] * 50)
    whole = (path / "train.parquet").read_bytes()
    for content in (b"", b"PAR1", whole[: len(whole) // 2], whole[:8] + b"\0" * 40 + whole[48:]):
        (path / "train.parquet").write_bytes(content)
        with pytest.raises(UserError, match=r"train\.parquet cannot be read as Parquet") as caught:
            list(HuggingFace(path).dialogues("train"))
        assert "\n" not in str(caught.value)
    write(path / "train.parquet", [])
    with pytest.raises(UserError, match=r"train\.parquet has no rows"):
        list(HuggingFace(path).dialogues("train"))


def test_the_fingerprint_follows_the_content_not_the_place(tmp_path: Path) -> None:
    rows: list[Row] = [{"messages": ["Hi !", "Hello ."]}]
    one, two = (
        HuggingFace(folder(tmp_path / "one", rows)),
        HuggingFace(folder(tmp_path / "two", rows)),
    )
    assert one.fingerprint() == two.fingerprint()
    folder(tmp_path / "two", [{"messages": ["Hi !", "Hello !"]}])
    assert one.fingerprint() != two.fingerprint()


def test_invalid_arguments_are_rejected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for revision in (None, "main", COMMIT[:7]):
        with pytest.raises(UserError, match="set revision to a commit of owner/name"):
            HuggingFace(None, dataset="owner/name", revision=revision)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "owner").mkdir()
    with pytest.raises(UserError, match=r"set it as data\.path"):
        HuggingFace(None, dataset="owner", revision=COMMIT)
    with pytest.raises(UserError, match="set both or neither"):
        HuggingFace(tmp_path, context="asks")
    with pytest.raises(UserError, match=r"^huggingface needs .*data\.path"):
        build(CORPORA, {"name": "huggingface"}, path=None)
    corpus = HuggingFace(None, dataset="owner/name", revision=COMMIT)
    assert corpus.fingerprint() == {"dataset": "owner/name", "config": "None", "revision": COMMIT}


def test_missing_packages_are_reported_with_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIALOG_OFFLINE", raising=False)
    path = folder(tmp_path, [{"messages": ["Hi !", "Hello ."]}])
    for module, corpus in (
        ("pyarrow.parquet", HuggingFace(path)),
        ("datasets", HuggingFace(None, dataset="owner/name", revision=COMMIT)),
    ):
        monkeypatch.setitem(sys.modules, module, None)
        with pytest.raises(UserError, match=r"install -e '.\[hf\]'"):
            list(corpus.dialogues("train"))


def test_a_data_set_is_streamed_from_its_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DIALOG_OFFLINE", raising=False)
    datasets = pytest.importorskip("datasets")
    path = folder(tmp_path, [{"messages": ["Hi !", "Hello ."]}, {"messages": ["Who ?", "Me ."]}])
    load, calls = datasets.load_dataset, []

    def from_folder(name: str, config: str | None, **arguments: object) -> object:
        calls.append((name, config, arguments))
        return load(str(path), config, **arguments)

    monkeypatch.setattr(datasets, "load_dataset", from_folder)
    corpus = HuggingFace(None, dataset="owner/name", revision=COMMIT)
    first, second = corpus.dialogues("train")
    assert isinstance(second, Dialogue)
    assert (first.id, first.place) == ("train-1", "owner/name:train:1")
    assert second.turns == (Turn("A", "Who ?"), Turn("B", "Me ."))
    assert calls == [
        ("owner/name", None, {"split": "train", "revision": COMMIT, "streaming": True})
    ]
    with pytest.raises(UserError, match=r"^owner/name cannot be read from the Hub"):
        list(
            HuggingFace(None, dataset="owner/name", revision=COMMIT, train="none such").dialogues(
                "train"
            )
        )


def test_offline_the_hub_is_not_queried(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(
        datasets, "load_dataset", lambda *_, **__: pytest.fail("the network was asked")
    )
    monkeypatch.setenv("DIALOG_OFFLINE", "1")
    with pytest.raises(
        UserError, match=r"^owner/name is on the Hub and DIALOG_OFFLINE forbids .*data\.path=DIR$"
    ):
        list(HuggingFace(None, dataset="owner/name", revision=COMMIT).dialogues("train"))
