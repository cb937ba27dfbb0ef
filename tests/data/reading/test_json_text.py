"""Incremental parsing of JSON files gives the members, and the errors, of parsing them whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialog.data.reading import files, json_text
from dialog.data.reading.json_text import json_members
from dialog.errors import UserError

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def single_bytes_of(path: Path) -> Iterator[bytes]:
    return (bytes([byte]) for chunk in files.read_chunks(path) for byte in chunk)


@pytest.fixture
def single_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files are read byte by byte, so that every position is a chunk boundary."""
    monkeypatch.setattr(json_text, "read_chunks", single_bytes_of)


@pytest.mark.usefixtures("single_bytes")
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(values) | st.dictionaries(st.text(), values), st.sampled_from([None, 1]), st.booleans()
)
def test_members_equal_those_of_json(
    tmp_path: Path, whole: object, indent: int | None, raw: bool
) -> None:
    file = tmp_path / "a.json"
    file.write_bytes(json.dumps(whole, indent=indent, ensure_ascii=raw).encode("utf-8", "replace"))
    read = json.loads(file.read_bytes())
    expected = (
        read.items()
        if isinstance(read, dict)
        else ((str(n), value) for n, value in enumerate(read, start=1))
    )
    assert list(json_members(file)) == list(expected)


ERRORS = [
    (b"", "not JSON at character 1: Expecting value"),
    (b"[1,\n 2,\n nil]", "not JSON at line 3, character 2: Expecting value"),
    (b"[1,\n 2\n 3]", "not JSON at line 3, character 2: Expecting ',' delimiter"),
    (b'{"a": [1],\n "b" 2}', "not JSON at line 2, character 6: Expecting ':' delimiter"),
    (
        b'{"a": 1, b: 2}',
        "not JSON at character 10: Expecting property name enclosed in double quotes",
    ),
    (b'{"a": 1,\n\n "a": 2}', "a.json:3: not JSON that can be read: the key 'a' is repeated"),
    (b"[1, 2", "not JSON at character 6: Expecting ',' delimiter"),
    (b"[1]\n[2]", "not JSON at line 2, character 1: Extra data"),
    (b"[1,\n" + b"[" * 100_000, "a.json:2: not JSON that can be read: "),
    (b"[1}", "not JSON at character 3: Expecting ',' delimiter"),
    (b'["a", "\xc3\xa4\xff"]', "byte 10 is not UTF-8"),
    (b'["a", "\xc3', "byte 8 is not UTF-8"),
    (b" 12", "holds no dialogues"),
]


@pytest.mark.parametrize("by_bytes", [False, True])
@pytest.mark.parametrize(("raw", "message"), ERRORS)
def test_errors_name_the_place_in_the_file(
    tmp_path: Path, raw: bytes, message: str, by_bytes: bool, request: pytest.FixtureRequest
) -> None:
    if by_bytes:
        request.getfixturevalue("single_bytes")
    (tmp_path / "a.json").write_bytes(raw)
    with pytest.raises(UserError) as error:
        list(json_members(tmp_path / "a.json"))
    assert message in str(error.value)


@pytest.mark.parametrize("by_bytes", [False, True])
@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (b'{"b": 1, "b": 2}', "the key 'b' is repeated"),
        (b"NaN", "NaN is not a JSON number"),
        (b'{"a": [-Infinity]}', "-Infinity is not a JSON number"),
        (b"1e999", "1e999 is too large"),
    ],
)
def test_a_member_that_is_not_strict_yields_its_error(
    tmp_path: Path, bad: bytes, message: str, by_bytes: bool, request: pytest.FixtureRequest
) -> None:
    if by_bytes:
        request.getfixturevalue("single_bytes")
    (tmp_path / "a.json").write_bytes(b"[1,\n" + bad + b",\n 3]")
    one, (_, error), three = json_members(tmp_path / "a.json")
    assert (one, three) == (("1", 1), ("3", 3))
    assert isinstance(error, UserError)
    assert str(error).startswith(f"{tmp_path / 'a.json'}:2: not JSON that can be read: {message}")
