"""Reserved strings."""

from __future__ import annotations

from collections.abc import Callable

from dialog.data.dialogue import SPLITS
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS
from dialog.inspection.findings import Finding
from dialog.inspection.sections.text import RESERVED

RESERVED_STRINGS = (
    "__SILENCE__ __eou__ __eot__ __start__ __end__ __null__ __unk__ __url__ __p1__ __p2__ <sos>"
    " <eos> <bos> <go> <eou> <eot> <sep> <url> <number> <person> <u> </u> <br> [CLS] [SEP] [PAD]"
    " [MASK] [UNK] [deleted] [removed] _UNK _EOS _GO _PAD +++$+++ <|endoftext|> <|im_start|>"
    " <|im_end|> &amp; &quot; &lt; &gt; &nbsp; &#39;"
)


def test_each_reserved_string_matches_as_a_whole() -> None:
    text = " ".join([*SPECIAL_TOKENS, RESERVED_STRINGS])
    assert RESERVED.findall(text) == text.split()
    assert RESERVED.findall("SAFE_PADDING LET_GO MY_GOAL _GO_") == []


def test_reserved_strings_are_counted_and_located(find: Callable[..., dict[str, Finding]]) -> None:
    train, test = [["Hi __eou__ Hi", "I am <unk>"], ["<s>", "a<b"]], [["&amp; so", "[UNK]"]]
    data = find(train=train, test=test)["reserved"].data
    counts = {string: sum(about[split] for split in SPLITS) for string, about in data.items()}
    assert counts == {"__eou__": 1, "<unk>": 1, "<s>": 1, "&amp;": 1, "[UNK]": 1}
    assert data["<unk>"]["first"] == "train-0 (train.txt:0)"
    assert find(train=[["a < b > c", "s"]])["reserved"].severity == "good"
