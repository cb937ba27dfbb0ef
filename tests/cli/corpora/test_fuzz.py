"""Random corpora are read or rejected in one line."""

from __future__ import annotations

import json
import sys
import tempfile
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from corpus_program import ANY, FORMATS, counts_of, error_line, leftovers, prepare, turns
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dialog.data.store.store import Store

if sys.version_info >= (3, 14):
    pass
else:
    pass


@contextmanager
def elsewhere() -> Iterator[None]:
    """A new working folder for one example."""
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("cache").mkdir()
        yield


good_lines = st.builds(
    turns, st.just("Hi"), st.text("abc é\u3000", min_size=1, max_size=5).filter(str.strip)
)
bad_lines = st.sampled_from(
    [
        b"\n",
        b"{\n",
        b"3\n",
        b"\xff\n",
        b'{"turns": 1}\n',
        b'{"turns": ["\\ud800", "a"]}\n',
        b"[" * 5000 + b"\n",
    ]
)
odd_lines = st.sampled_from(
    [turns("alone"), turns(), turns(" ", "\u00a0"), turns("a", "", "b"), turns("", "a")]
)


@settings(max_examples=15)
@given(st.lists(st.one_of(good_lines, bad_lines, odd_lines), min_size=1, max_size=12))
def test_exactly_the_valid_dialogues_are_read(lines: list[bytes]) -> None:
    with elsewhere():
        FORMATS["jsonl"].write(turns("Hi", "first") + b"".join(lines))
        done = prepare("jsonl", "data.malformed=drop", ANY, "data.tokenizer={name: characters}")
        counts = counts_of(done)
        assert counts["dialogues read"] == 1 + sum(line != b"\n" for line in lines)
        expected = [[t.strip() for t in _texts(line) if t.strip()] for line in lines]
        kept = [["Hi", "first"], *(texts for texts in expected if len(texts) > 1)]
        store = Store(Path(json.loads(done.out)["folder"]), "train")
        replies = [
            store.tokenizer.decode(store.target(row).tolist()[1:-1]) for row in range(len(store))
        ]
        assert replies == [
            unicodedata.normalize("NFC", text) for texts in kept for text in texts[1:]
        ]
        malformed = sum(line in BAD for line in lines)
        assert counts.get("dropped dialogues: malformed", 0) == malformed
        refusing = prepare("jsonl", ANY)
        assert refusing.code == (2 if malformed else 0)
        if malformed:
            first = 2 + next(n for n, line in enumerate(lines) if line in BAD)
            assert error_line(refusing).startswith(f"corpus/train.jsonl:{first}: ")


BAD = {
    b"{\n",
    b"3\n",
    b"\xff\n",
    b'{"turns": 1}\n',
    b'{"turns": ["\\ud800", "a"]}\n',
    b"[" * 5000 + b"\n",
}


def _texts(line: bytes) -> list[str]:
    return [] if line in BAD or line == b"\n" else json.loads(line)["turns"]


PIECES = [
    *(
        b"\n",
        b"\r",
        b"\r\n",
        b"\t",
        b" ",
        b",",
        b'"',
        b":",
        b"|",
        b"\\",
        b"\0",
        b"\xff",
        b"\xef\xbb\xbf",
        b"\xed\xa0\xbd",
    ),
    *(
        b"__eou__",
        b"Anna: ",
        b"text:",
        b"labels:",
        b"episode_done:True",
        b"1 ",
        b"2 ",
        b"your persona: ",
        b"a",
        b"b",
    ),
    *(
        b"{",
        b"}",
        b"[",
        b"]",
        b'"turns"',
        b'"messages"',
        b'"role"',
        b'"user"',
        b'"content"',
        b"null",
        b"1e999",
        b"NaN",
    ),
    *(b"dialogue,speaker,text\n", "\u2028\u0085\u3000\u0301".encode(), b"__SILENCE__", b"__PIPE__"),
]
mess = st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=3)), max_size=20).map(
    b"".join
)


@pytest.mark.parametrize("name", FORMATS)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_random_bytes_are_read_or_rejected_in_one_line(name: str, data: st.DataObject) -> None:
    form = FORMATS[name]
    begins = [data.draw(st.sampled_from([good, b""])) for good in form.good]
    train = [
        begin + data.draw(mess) + data.draw(st.sampled_from([good, b""]))
        for begin, good in zip(begins, form.good, strict=True)
    ]
    mode = data.draw(st.sampled_from(["refuse", "drop"]))
    with elsewhere():
        form.write(*train)
        done = prepare(name, f"data.malformed={mode}", ANY)
        if done.code:
            error_line(done)
            assert leftovers() == []
        else:
            counts_of(done)
