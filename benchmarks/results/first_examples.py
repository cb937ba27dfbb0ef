"""Run ``dialog`` on the first 500 examples of every split; --reproduce evaluates and compares with it.

    python benchmarks/results/first_examples.py evaluate RUN

The reader of examples is replaced, so it works with the older versions of the package too. A version that reads them
elsewhere would have the metrics of other examples, and thus count as not reproduced.
"""

from __future__ import annotations

import itertools
import runpy
from collections import Counter
from collections.abc import Iterable, Iterator

from dialog.data import examples as reader

COUNT = 500
all_examples = reader.examples


def first_examples(
    entries: Iterable[reader.Entry], rules: reader.ExampleRules, counts: Counter[str]
) -> Iterator[reader.Example]:
    """Yield the first examples of a split."""
    return itertools.islice(all_examples(entries, rules, counts), COUNT)


if __name__ == "__main__":
    reader.examples = first_examples
    runpy.run_module("dialog", run_name="__main__", alter_sys=True)
