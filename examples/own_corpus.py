"""Train on your own corpus.

Run `python examples/own_corpus.py [KEY=VALUE ...]`. The keys of data.corpus are the arguments of
the class; one named `path` receives data.path.
"""

import random
import sys
from collections.abc import Iterator

import dialog


class Sums:
    """Dialogues in which one speaker adds up the numbers that the other one gives."""

    def __init__(self, size: int) -> None:
        self.size = size

    def dialogues(self, split: str) -> Iterator[dialog.Dialogue]:
        """Yield the dialogues of a split, in the same order at every call."""
        numbers = random.Random(split)
        for index in range(self.size if split == "train" else self.size // 10):
            total = numbers.randrange(50)
            turns = [dialog.Turn("A", f"I think of {total} .")]
            for term in numbers.sample(range(25), 2):
                total += term
                turns += [dialog.Turn("B", f"Add {term} ."), dialog.Turn("A", f"{total} .")]
            yield dialog.Dialogue(id=f"{split}-{index}", turns=tuple(turns))

    def fingerprint(self) -> dict[str, str]:
        """Return what determines the dialogues; prepared data are reused as long as it is equal."""
        return {"size": str(self.size), "version": "1"}


if __name__ == "__main__":
    corpus = "data.corpus={name: own_corpus.Sums, size: 2000}"
    composed = dialog.compose("quickstart/transformer", [corpus, *sys.argv[1:]], trust=True)
    print(dialog.train(composed).folder)
