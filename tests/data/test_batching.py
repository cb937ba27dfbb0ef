"""A batch holds its examples, padded."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from dialog.data.batching import collate
from dialog.data.tokenizers.tokenizer import PAD


@settings(max_examples=30)
@given(st.lists(st.tuples(*[st.lists(st.integers(1, 99), min_size=1, max_size=9)] * 2), min_size=1, max_size=6))
def test_a_batch_holds_its_padded_examples(pairs: list[tuple[list[int], list[int]]]) -> None:
    rows = list(range(10, 10 + len(pairs)))
    batch = collate(pairs, rows)
    assert batch.rows.tolist() == rows
    for tensor, side in ((batch.source, 0), (batch.target, 1)):
        longest = max(len(pair[side]) for pair in pairs)
        assert tensor.tolist() == [pair[side] + [PAD] * (longest - len(pair[side])) for pair in pairs]
    assert batch.source_tokens == sum(len(source) for source, _ in pairs)
    assert batch.target_tokens == sum(len(target) - 1 for _, target in pairs)
