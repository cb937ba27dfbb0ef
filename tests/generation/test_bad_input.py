"""Settings that contradict each other, and scores that are no numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from chains import END, START, Sourced

from dialog.config.components import build
from dialog.config.schema import GenerationConfig
from dialog.data.tokenizers.tokenizer import Tokenizer
from dialog.errors import UserError
from dialog.generation.build import build_search
from dialog.generation.constraints import Constraints
from dialog.generation.searches.family import SEARCHES

SEARCH = [
    {"name": "greedy"},
    {"name": "beam", "width": 3, "candidates": 3},
    {"name": "diverse_beam", "width": 4, "groups": 2},
    {"name": "delayed_beam", "width": 3, "top_k": 0},
    {"name": "sampling", "candidates": 3},
    {"name": "contrastive"},
    {"name": "anti_lm"},
]


@pytest.mark.parametrize("search", SEARCH, ids=lambda search: search["name"])
def test_scores_that_are_no_numbers_spoil_their_row_only(search: dict[str, Any]) -> None:
    constraints = Constraints(end=END, special=(START,), min_length=0, max_length=4)
    decode = build(SEARCHES, search, constraints=constraints, empty_source=[3])
    step = Sourced.draw(5, range(4))
    sound = step.search(decode)
    step.tables = step.tables.clone()
    step.tables[1] = math.nan
    broken = step.search(decode)
    assert broken[1] == []
    assert [[reply.tokens for reply in broken[row]] for row in (0, 2)] == [
        [reply.tokens for reply in sound[row]] for row in (0, 2)
    ]


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ({"name": "beam", "width": 301}, "beam: width is 301; the vocabulary has 262 tokens"),
        (
            {"name": "anti_lm", "search": {"name": "beam", "width": 999}},
            "anti_lm: width is 999; the vocabulary",
        ),
        ({"name": "greedy", "repetition_penalty": math.nan}, "repetition_penalty is nan"),
        ({"name": "greedy", "frequency_penalty": math.inf}, "frequency_penalty is inf"),
        (
            {"name": "greedy", "min_length": 9, "max_length": 5},
            "min_length is 9, max_length is 5; give 0 <= ",
        ),
        (
            {"name": "greedy", "required": ["Hi"], "banned": ["hi"]},
            "required word 'Hi' contains the banned word 'hi'",
        ),
        (
            {"name": "greedy", "prefix": "One two .", "max_length": 2},
            "prefix has 9 tokens, more than max_length 2",
        ),
        ({"name": "sampling", "temperature": 0.0}, "temperature is 0.0; give a number above 0"),
    ],
)
def test_one_line_before_decoding(
    search: dict[str, Any], message: str, tokenizer: Tokenizer
) -> None:
    with pytest.raises(UserError, match=message):
        build_search(search, GenerationConfig(), tokenizer)


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    from dialog.data.tokenizers import TOKENIZERS

    return build(TOKENIZERS, {"name": "byte_bpe", "vocabulary": 262}, texts=["One two three ."])


def test_a_prefix_of_unknown_words_is_not_lost() -> None:
    from dialog.data.tokenizers import TOKENIZERS

    words = build(TOKENIZERS, {"name": "word", "vocabulary": 20}, texts=["One two three ."] * 3)
    build_search({"name": "greedy", "prefix": "two"}, GenerationConfig(), words)
    with pytest.raises(
        UserError, match="prefix 'Xyzzy two' has words that the vocabulary does not have"
    ):
        build_search({"name": "greedy", "prefix": "Xyzzy two"}, GenerationConfig(), words)


def test_no_temperature_overflows() -> None:
    constraints = Constraints(end=END, special=(START,), min_length=0, max_length=9)
    step = Sourced.draw(5, range(20))
    greedy, cold = (
        step.search(build(SEARCHES, search, constraints=constraints))
        for search in ({"name": "greedy"}, {"name": "sampling", "temperature": 1e-44})
    )
    assert [row[0].tokens for row in greedy] == [row[0].tokens for row in cold]
    assert not torch.isnan(torch.tensor([row[0].score for row in cold])).any()
