"""JSON that is valid and that controls no terminal."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from dialog.escaping import COMMANDS, to_json

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values)
def test_json_reads_back_without_control_characters(value: object) -> None:
    text = to_json(value)
    assert json.loads(text) == value
    assert not COMMANDS.search(text)


def test_numbers_that_are_not_finite_are_null() -> None:
    numbers = [float("nan"), float("inf"), -float("inf"), 1.5]
    assert json.loads(to_json({"a": numbers, "b": tuple(numbers)})) == {
        key: [None, None, None, 1.5] for key in "ab"
    }
