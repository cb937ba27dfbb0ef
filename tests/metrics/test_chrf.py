from __future__ import annotations

import numpy as np
import pytest
import sacrebleu as library
from hypothesis import given
from hypothesis import strategies as st

from dialog.metrics.overlap import ChrF

PAIRS = st.lists(
    st.tuples(*[st.text(st.sampled_from("abC \n"), max_size=12)] * 2), min_size=1, max_size=6
)


@given(PAIRS, st.booleans())
def test_chrf_equals_the_library(pairs: list[tuple[str, str]], lowercase: bool) -> None:
    """Also without characters, and of texts shorter than an n-gram."""
    responses, references = map(list, zip(*pairs, strict=True))
    metric = ChrF(lowercase=lowercase)
    metric.update(responses, references)
    expected = library.CHRF(lowercase=lowercase).corpus_score(responses, [references]).score
    assert metric.compute().item() == pytest.approx(expected, abs=1e-9)


def test_resamples_are_scored_from_sums() -> None:
    responses, references = ["how are you", "no", "fine"], ["how is he", "yes no", "fine thanks"]
    metric = ChrF()
    statistics = np.asarray(metric.statistics_of(responses, references))
    weights = np.array([[1, 1, 1], [2, 0, 1], [0, 3, 0]])
    for row, value in zip(weights, metric.value(*(weights @ statistics).T), strict=True):
        drawn = np.repeat(np.arange(3), row)
        expected = library.corpus_chrf(
            [responses[i] for i in drawn], [[references[i] for i in drawn]]
        ).score
        assert value == pytest.approx(expected, abs=1e-9)


def test_signature_states_the_settings() -> None:
    assert ChrF().signature.startswith("nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:")
    assert "case:lc" in ChrF(lowercase=True).signature
