"""Mistakes in the statistics of a comparison."""

from mutant import mutant

MEASURED = "comparison/statistics/measured.py"
INTERVAL = "comparison/statistics/interval.py"
MUTANTS = (
    mutant(
        "statistics-1",
        "the interaction of run and dialogue is counted twice",
        "comparison/statistics/test_interval.py::test_components_of_a_table_of_runs_and_dialogues",
        (INTERVAL, "jackknife - interaction", "jackknife"),
    ),
    mutant(
        "statistics-2",
        "responses are resampled instead of dialogues",
        "comparison/statistics/test_measured.py::test_sums_against_responses",
        (
            MEASURED,
            "names, rows = np.unique(labels, return_inverse=True)",
            "names = rows = np.arange(len(labels))",
        ),
    ),
    mutant(
        "statistics-3",
        "the swap is of one run only",
        "comparison/statistics/test_measured.py::test_sums_against_responses",
        (MEASURED, "b._values(b.sums - change)", "b._values(b.sums)"),
    ),
    mutant(
        "statistics-4",
        "swaps with exactly the observed difference do not count",
        "comparison/statistics/test_resampling.py::test_identical_runs_have_p_1",
        ("comparison/statistics/subset.py", "< least[place]", "<= least[place]"),
    ),
    mutant(
        "statistics-5",
        "Holm's correction is Bonferroni's step for each test alone",
        "comparison/decisions/test_family.py::test_primary_hypotheses_alone_are_holm",
        (
            "comparison/decisions/family.py",
            "largest = max(largest, min(",
            "largest = max(0.0, min(",
        ),
    ),
)
