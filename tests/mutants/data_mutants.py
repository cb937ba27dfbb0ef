"""Mistakes in prepared data and batches."""

from mutant import mutant

ONCE = "data/store/test_plan.py::test_each_example_once_in_equal_numbers_of_full_batches"
FULL = '    largest = np.argsort(-sizes, kind="stable")[:missing]  # only these can be halved\n'

MUTANTS = (
    mutant(
        "infra-6",
        "a share that just reaches the limit is refused",
        "cli/corpora/test_counts.py::test_more_than_max_dropped_is_an_error",
        (
            "data/preparation/merge.py",
            "dropped > max_dropped * read",
            "dropped >= max_dropped * read",
        ),
    ),
    mutant(
        "data-4",
        "batches are repeated so that every process has as many",
        ONCE,
        (
            "data/store/plan.py",
            FULL,
            "    return np.concatenate([batches, batches[:missing]])\n" + FULL,
        ),
    ),
    mutant(
        "training-6",
        "the last batches of an epoch, too few for a whole step, are dropped",
        ONCE,
        (
            "data/store/plan.py",
            "_split(sizes, widths, group=group)",
            "_split(sizes, widths, group=1)",
        ),
    ),
)
