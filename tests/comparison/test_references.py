"""Reference rows of a comparison, and the warning about models worse than an n-gram model."""

from __future__ import annotations

from typing import Any

from dialog.comparison.references import ngram_warnings, references_of
from dialog.report.formats.results import ModelResults, SeedMean

METRICS: dict[str, Any] = {
    "bits_per_byte": 1.3,
    "baselines": {"human": {"f1": 100.0, "chrf": None}, "ngram_1": {"bits_per_byte": 2.2}},
    "subsets": {
        "clean": {
            "examples": 5,
            "bits_per_byte": 1.5,
            "baselines": {"ngram_1": {"bits_per_byte": 2.1}},
        },
        "leaked": {"examples": 0},
    },
}


def model(name: str, **values: float | None) -> ModelResults:
    """A model with a mean on each subset, or without bits per byte."""
    f1 = SeedMean(3.0, None, 1)
    summary = {
        subset: {"f1": f1} | ({} if value is None else {"bits_per_byte": SeedMean(value, None, 1)})
        for subset, value in values.items()
    }
    return ModelResults(name, "recipe", summary=summary)


def ngrams(*values: float) -> dict[str, dict[str, float]]:
    return {
        f"ngram_{order}": {"bits_per_byte": value} for order, value in enumerate(values, start=1)
    }


def test_rows_of_every_subset() -> None:
    assert references_of(METRICS) == {
        "all": {"human": {"f1": 100.0}, "ngram_1": {"bits_per_byte": 2.2}},
        "clean": {"ngram_1": {"bits_per_byte": 2.1}},
        "leaked": {},
    }
    assert references_of({"bits_per_byte": 1.3}) == {"all": {}, "clean": {}, "leaked": {}}


def test_worse_than_the_best_order_on_the_same_subset() -> None:
    references = {
        "all": {**ngrams(2.0, 1.4, 1.3), "human": {"f1": 100.0}},
        "clean": ngrams(2.0, 1.5, 1.6),
        "leaked": ngrams(2.0, 1.1),
    }
    models = [
        model("good", all=1.2, clean=1.4, leaked=1.0),
        model("equal", all=1.3, clean=1.5, leaked=1.1),
        model("mixed", all=1.31, clean=1.49, leaked=1.25),
        model("undefined", all=None, clean=None),
        model("another system", all=None),
    ]
    assert ngram_warnings(models, references) == [
        "mixed has more bits per byte than an n-gram model that does not read the context: 1.310"
        " against 1.300 (3-gram) on all dialogues, 1.250 against 1.100 (2-gram) on leaked"
        " dialogues, but 1.490 against 1.500 (2-gram) on clean dialogues."
    ]


def test_models_worse_on_the_same_subsets_share_a_warning() -> None:
    models = [
        model("a", all=1.5, clean=1.0),
        model("b", all=1.4, clean=1.0),
        model("c", all=1.6, clean=1.7),
    ]
    references = {"all": ngrams(1.3), "clean": ngrams(1.2), "leaked": {}}
    first, second = ngram_warnings(models, references)
    assert first.startswith(
        "a and b have more bits per byte than an n-gram model that does not read the context: "
    )
    end = (
        "1.400 to 1.500 against 1.300 (1-gram) on all dialogues, but 1.000 against 1.200 (1-gram)"
        " on clean dialogues."
    )
    assert first.endswith(f"context: {end}")
    assert second.startswith("c has more")


def test_a_warning_contrasts_different_numbers_only() -> None:
    """Without leaks the clean dialogues are all dialogues."""
    (warning,) = ngram_warnings(
        [model("a", all=1.5, clean=1.5)], {"all": ngrams(1.3), "clean": ngrams(1.3)}
    )
    assert warning.endswith("context: 1.500 against 1.300 (1-gram) on all dialogues.")


def test_a_warning_about_all_of_many_models_names_none() -> None:
    (warning,) = ngram_warnings([model(name, all=1.5) for name in "abcde"], {"all": ngrams(1.3)})
    assert warning.startswith("All 5 contenders have more bits per byte")
    assert (
        "5 contenders"
        not in ngram_warnings([model(name, all=1.5) for name in "abc"], {"all": ngrams(1.3)})[0]
    )


def test_no_warning_without_reference_rows() -> None:
    assert ngram_warnings([model("any", all=9.0)], references_of({})) == []
