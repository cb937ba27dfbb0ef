"""A batch holds its examples, padded."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.batching import check_batch, collate
from dialog.data.tokenizers.tokenizer import BOS, EOS, PAD
from dialog.errors import UserError

IDS = st.lists(st.integers(1, 99), min_size=1, max_size=9)


@settings(max_examples=30)
@given(st.lists(st.tuples(IDS, IDS.map(lambda ids: [BOS, *ids])), min_size=1, max_size=6))
def test_a_batch_holds_its_padded_examples(pairs: list[tuple[list[int], list[int]]]) -> None:
    rows = list(range(10, 10 + len(pairs)))
    batch = collate(pairs, rows)
    assert batch.rows.tolist() == rows
    for tensor, side in ((batch.source, 0), (batch.target, 1)):
        longest = max(len(pair[side]) for pair in pairs)
        assert tensor.tolist() == [
            pair[side] + [PAD] * (longest - len(pair[side])) for pair in pairs
        ]
    assert batch.source_tokens == sum(len(source) for source, _ in pairs)
    assert batch.target_tokens == sum(len(target) - 1 for _, target in pairs)
    check_batch(batch, PAD, first=False)
    assert collate(pairs).rows.tolist() == list(range(len(pairs)))


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([], "at least one pair"),
        (
            [{"source": [7], "target": [BOS, EOS]}, {}],
            r"expected \[\(source_ids, target_ids\), ...\]",
        ),
        (
            [([7], [BOS, EOS]), ([7], [8, EOS])],
            r"target ids 1 are not <s> \(1\), ids, </s>: \[8, 2\]",
        ),
        ([([7], [BOS])], r"target ids 0 are not <s> \(1\)"),
        ([([7, PAD], [BOS, EOS])], "an id is 0, which is padding"),
    ],
)
def test_invalid_pairs_are_rejected(pairs: Any, message: str) -> None:
    with pytest.raises(UserError, match=f"^collate: .*{message}"):
        collate(pairs)


def test_invalid_batches_are_rejected() -> None:
    batch = collate([([7, 8], [BOS, 9, EOS]), ([7], [BOS, EOS])])
    with pytest.raises(UserError, match=r"yields a tuple, not a dialog\.Batch; set its collate_fn"):
        check_batch(tuple(batch), PAD, first=False)
    for wrong in (batch.target_tokens - 1, batch.target_tokens + len(batch.target)):
        with pytest.raises(
            UserError, match=f"^target_tokens of a batch is {wrong}, but its target has 3 tokens"
        ):
            check_batch(batch._replace(target_tokens=wrong), PAD, first=True)
