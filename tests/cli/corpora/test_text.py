"""Text comes back unchanged from prepared data, and prepared data follow their corpus."""

from __future__ import annotations

import json
import sys
import unicodedata
from pathlib import Path

import pytest
from corpus_program import FORMATS, GOOD, counts_of, error_line, leftovers, prepare, turns

from dialog.data.store.store import Store
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS

if sys.version_info >= (3, 14):
    pass
else:
    pass

ODD = {
    "right to left": "שלום עולם! مرحبا",
    "bidirectional controls": "a\u202eb\u202c \u2066c\u2069 \u200f",
    "joined emoji": "👩‍👩‍👧‍👦 🏳️‍🌈 👍🏽",
    "zero width": "a\u200bb\u200cc\u2060d\ufeffe",
    "combining": "e\u0301 n\u0303 \u1100\u1161\u11a8 q\u0307\u0323",
    "controls": "\0\x01\x1b[2J\x7f\x9b31m",
    "separators": "a\u2028b\u0085c\x0bd\x1ce",
    "noncharacters": "\ufffe\uffff\U0010ffff \ue000",
    "special tokens": " ".join(
        (*SPECIAL_TOKENS, "__SILENCE__", "__unk__", "[CLS]", "<|endoftext|>")
    ),
    "special tokens together": "".join(SPECIAL_TOKENS * 3),
}


@pytest.mark.parametrize("tokenizer", ["{name: byte_bpe, vocabulary: 300}", "{name: characters}"])
def test_text_is_restored_and_never_a_special_token(tokenizer: str) -> None:
    FORMATS["jsonl"].write(turns("Hi", *ODD.values()))
    done = prepare(
        "jsonl", f"data.tokenizer={tokenizer}", "data.max_target=1000", "data.max_source=1000"
    )
    assert counts_of(done)["examples"] == len(ODD)
    store = Store(Path(json.loads(done.out)["folder"]), "train")
    for row, (what, text) in enumerate(ODD.items()):
        start, *ids, end = store.target(row).tolist()
        assert store.tokenizer.decode(ids) == unicodedata.normalize("NFC", text), what
        assert min(ids) >= len(SPECIAL_TOKENS), what
        assert (start, end) == (1, 2)


def test_text_without_tokens_still_has_an_end_token(
    monkeypatch: pytest.MonkeyPatch, here: Path
) -> None:
    (here / "deaf.py").write_text(
        "from dialog.data.tokenizers.trained import word\n"
        "def deaf(texts, *, pattern: str = '[a-z]+'):\n"
        "    import json, dialog.data.tokenizers.tokenizer as t\n"
        "    whole = json.loads(word(texts).json)\n"
        "    whole['pre_tokenizer']['pattern'] = {'Regex': pattern}\n"
        "    return t.Tokenizer(json.dumps(whole))\n"
    )
    monkeypatch.syspath_prepend(str(here))
    FORMATS["jsonl"].write(turns("???", "hello", "!!!", "..."))
    done = prepare("jsonl", "data.tokenizer={name: deaf.deaf}")
    assert counts_of(done)["examples"] == 3
    store = Store(Path(json.loads(done.out)["folder"]), "train")
    assert store.lengths[:, 1].tolist() == [2, 1, 1]
    assert all(store.source(row)[-1] == 2 for row in range(3))


def test_prepared_data_follow_the_corpus() -> None:
    FORMATS["jsonl"].write(GOOD)
    first = json.loads(prepare("jsonl").out)["folder"]
    assert json.loads(prepare("jsonl").out)["folder"] == first
    FORMATS["jsonl"].write(GOOD * 2)
    second = prepare("jsonl")
    assert json.loads(second.out)["folder"] != first
    assert counts_of(second)["dialogues"] == 2
    FORMATS["jsonl"].write(GOOD)
    assert json.loads(prepare("jsonl").out)["folder"] == first


CHANGES = {
    "grows": "path.write_text(path.read_text() * 2)",
    "shrinks": "path.write_text('')",
    "goes": "path.unlink()",
    "becomes a folder": "path.unlink(); path.mkdir()",
}


@pytest.mark.parametrize("moment", ["train", "validation", "test"])
@pytest.mark.parametrize("change", CHANGES)
def test_file_that_changes_during_preparation(
    monkeypatch: pytest.MonkeyPatch, here: Path, change: str, moment: str
) -> None:
    module = f"restless_{moment}_{change.replace(' ', '_')}"
    (here / f"{module}.py").write_text(
        "from pathlib import Path\n"
        "from dialog.data.corpora.jsonl import JsonLines\n"
        "class Restless(JsonLines):\n"
        "    def dialogues(self, split):\n"
        "        yield from super().dialogues(split)\n"
        f"        path = Path('corpus/{moment}.jsonl')\n"
        f"        if split == '{moment}' and path.is_file() and path.stat().st_size:\n"
        f"            {CHANGES[change]}\n"
    )
    monkeypatch.syspath_prepend(str(here))
    FORMATS["jsonl"].write()
    line = error_line(prepare(f"name: {module}.Restless"))
    assert "the corpus changed while it was read" in line or f"corpus/{moment}.jsonl" in line
    assert leftovers() == []
