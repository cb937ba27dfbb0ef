from __future__ import annotations

from typing import Any

import pytest

HOSTILE = "</script></title><img src=//evil.example onerror=alert(1)>"


def reading(
    context: list[str], lines: list[int], response: list[str], weights: list[list[list[float]]]
) -> dict[str, Any]:
    """Return the JSON of `dialog attention` with one cross-attention map and no other."""
    kinds = [
        "role" if token in ("<self>", "<other>") else "end" if token == "</s>" else "word"
        for token in context
    ]
    return {
        "context_tokens": context,
        "response_tokens": response,
        "maps": [
            {
                "name": "decoder.attention",
                "kind": "cross",
                "side": "target",
                "columns": "source",
                "weights": weights,
            }
        ],
        "response": " ".join(response),
        "turns": [
            {"speaker": "self", "text": "Hi ."},
            {"speaker": "other", "text": "How are you ?"},
        ],
        "context_lines": lines,
        "context_kinds": [
            "punctuation" if token in (".", "▁.", "▁?") else kind
            for token, kind in zip(context, kinds, strict=True)
        ],
        "response_kinds": ["word"] * len(response),
        "dropped_tokens": 0,
        "unread_turns": [],
    }


@pytest.fixture
def two_heads() -> dict[str, Any]:
    """Two turns and the end token, three response tokens, two heads."""
    context = ["<self>", "▁Hi", "▁.", "<other>", "▁you", "▁?", "</s>"]
    one = [
        [0.1, 0.5, 0.0, 0.0, 0.2, 0.0, 0.2],
        [0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0],
        [0.0, 0.1, 0.0, 0.0, 0.1, 0.0, 0.8],
    ]
    other = [[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]] * 3
    return reading(context, [0, 0, 0, 1, 1, 1, -1], ["▁I", "▁do", "</s>"], [one, other])


@pytest.fixture
def hostile_maps() -> dict[str, Any]:
    """Tokens and turns that try to end their element."""
    maps = reading(
        [HOSTILE, "\u202eb", "</s>"], [0, 0, -1], [HOSTILE, "</s>"], [[[0.5, 0.25, 0.25]] * 2]
    )
    maps["turns"] = [{"speaker": "other", "text": HOSTILE}]
    return maps
