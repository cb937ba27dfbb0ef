"""Lines of the tokens of a source: the same as if every line had a token of its own."""

from hypothesis import given
from hypothesis import strategies as st

from dialog.data.store.layout import LAYOUTS, lines_of_source, source_ids
from dialog.data.tokenizers.tokenizer import EOS, OTHER, SELF, UNK

LENGTHS = st.lists(st.integers(0, 4), max_size=4)
FIRST = 100


@given(LENGTHS, LENGTHS, st.integers(1, 24), st.sampled_from(LAYOUTS))
def test_lines_agree_with_marked_tokens(
    facts: list[int], turns: list[int], limit: int, layout: str
) -> None:
    marked = [(True, [FIRST + line] * length) for line, length in enumerate([*facts, *turns])]
    ids = source_ids(
        marked[len(facts) :], max_source=limit, facts=marked[: len(facts)], layout=layout
    )
    located = lines_of_source(facts, turns, max_source=limit, layout=layout)
    assert located.separators == [token in (SELF, OTHER, UNK) for token in ids]
    assert [line for line, token in zip(located.lines, ids, strict=True) if token >= FIRST] == [
        token - FIRST for token in ids if token >= FIRST
    ]
    assert [place for place, token in enumerate(ids) if token == EOS] == [
        place
        for place, line in enumerate(located.lines)
        if line < 0 and not located.separators[place]
    ]
    assert located.dropped == sum(facts) + sum(turns) - sum(token >= FIRST for token in ids)


def test_roles_belong_to_the_line_that_they_begin() -> None:
    assert lines_of_source([1], [2, 0, 1], max_source=20).lines == [0, 0, 1, 1, 1, 2, 3, 3, -1]
