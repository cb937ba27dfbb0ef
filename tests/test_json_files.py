"""Our own JSON files: a damaged one is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from dialog.comparison.results.systems import learning_curve
from dialog.errors import UserError
from dialog.escaping import KEY, json_copy
from dialog.json_files import parsed, read_json, read_json_lines
from dialog.runs.folder import check_same_data, read_summary

DAMAGED = [
    b"",
    b'{"steps": 8, "sec',
    b"[" * 100_000,
    b"[8]",
    b'{"step": 8}',
    b'{"steps": "\xff"}',
    b"\0" * 20,
]


@pytest.mark.parametrize("content", DAMAGED)
def test_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    for name, read in READERS.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=rf"^{tmp_path / name}(:1)?: damaged \(") as error:
            read(tmp_path)
        assert "\n" not in str(error.value)
        assert str(error.value).endswith("restore the file from a copy")


READERS: dict[str, Callable[[Path], Any]] = {
    "summary.json": read_summary,
    "environment.json": lambda folder: check_same_data(folder, {"data": "0" * 64}),
    "metrics.jsonl": lambda folder: (
        list(read_json_lines(folder / "metrics.jsonl", "steps"))
        or read_json(folder / "metrics.jsonl")
    ),
}


def test_damaged_line_is_named_by_its_number(tmp_path: Path) -> None:
    lines = '{"step": 1, "epoch": 0, "time": 0.5, "train/loss": 3.5}\n{"step": 2, "ep'
    (tmp_path / "metrics.jsonl").write_text(lines, encoding="utf-8")
    with pytest.raises(
        UserError, match=rf"^{tmp_path / 'metrics.jsonl'}:2: damaged \(Unterminated string"
    ):
        learning_curve(tmp_path)


@dataclass(frozen=True)
class Part:
    size: float
    name: str | None = None
    words: tuple[str, ...] = ()


@dataclass(frozen=True)
class Whole:
    parts: Mapping[str, Part]
    count: int = field(default=3, metadata={KEY: "the/count"})
    open: Any = None


def test_typed_content_is_that_of_the_json() -> None:
    content = {"parts": {"a": {"size": 1, "words": ["x"]}}, "the/count": 4, "open": [{}], "new": 0}
    whole = parsed(Whole, content, "f.json", "write it again")
    assert whole == Whole({"a": Part(1, None, ("x",))}, 4, [{}])
    assert parsed(Whole, json_copy(whole), "f.json", "write it again") == whole


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ([], ""),
        ({}, "no parts"),
        ({"parts": {"a": {}}}, "parts.a: no size"),
        ({"parts": {"a": {"size": "1"}}}, "parts.a.size"),
        ({"parts": {"a": {"size": True}}}, "parts.a.size"),
        ({"parts": {"a": {"size": None}}}, "parts.a.size"),
        ({"parts": {"a": {"size": 1, "words": ["x", 3]}}}, "parts.a.words[1]"),
        ({"parts": [], "the/count": 1}, "parts"),
        ({"parts": {}, "the/count": 1.5}, "the/count"),
    ],
)
def test_content_of_another_type_is_named(content: object, place: str) -> None:
    with pytest.raises(UserError) as error:
        parsed(Whole, content, "f.json: damaged", "write it again")
    assert str(error.value).startswith(f"f.json: damaged ({place}")
    assert str(error.value).endswith("; write it again")


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=rf"^{tmp_path / 'none.json'}: No such file or directory$"):
        read_json(tmp_path / "none.json")
