"""What the recipe's tokenizer makes of the text: lengths, what truncation cuts, and what it has no token for."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import DialogueWindows, ExampleRules, example_windows
from dialog.data.preparation.encoding import dialogue_lines
from dialog.data.store.layout import truncate
from dialog.data.text_matching.fingerprints import Integers
from dialog.data.tokenizers.tokenizer import UNK, Tokenizer
from dialog.inspection.findings import Bars, Finding, Quote, Table, rate, share
from dialog.inspection.sections.lengths import LABELS, SHARES, percentiles
from dialog.report.measures import count

BLOCK = 4096
EVALUATED = ("validation", "test")
SHOWN = 10
TITLE = "Tokens and truncation"


class Uncounted:
    """In the place of tokens that cannot be counted: why."""

    def __init__(self, why: str) -> None:
        self.why = why

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Nothing is counted."""

    def finding(self, quote: Quote) -> Finding:
        """Why nothing is."""
        return Finding(TITLE, "look", "not counted", f"The data cannot be prepared: {self.why}")


class Tokens:
    """Counts the tokens of every turn, and the examples that the recipe would cut, which lie as prepared ones do.

    A part of a character is a token that holds no whole one: a byte of an emoji for which there is nothing better.

    Args:
        tokenizer: The recipe's.
        rules: How dialogues become examples.
        max_source: The most source ids, the end included.
        max_target: The most target ids of a training response, the end included.
    """

    def __init__(self, tokenizer: Tokenizer, rules: ExampleRules, *, max_source: int, max_target: int) -> None:
        self.tokenizer = tokenizer
        self.rules = rules
        self.limits = {"source": max_source, "target": max_target}
        whole = tokenizer.encode("\ufffd")
        self.parts = np.array(
            [set(tokenizer.decode([id])) == {"\ufffd"} and [id] != whole for id in range(len(tokenizer))], dtype=bool
        )
        self.waiting: list[tuple[str, str, bool]] = []  # split, text, whether it is a turn
        self.lengths = {split: array("I") for split in SPLITS}
        self.examples = {split: array("q") for split in SPLITS}
        self.lines: Counter[str] = Counter()
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.unknown: Counter[str] = Counter()

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Put a dialogue in line; many are encoded at once."""
        laid, start = (
            dialogue_lines(DialogueWindows(dialogue, list(example_windows(dialogue, self.rules)))),
            self.lines[split],
        )
        self.examples[split].extend(start + line for example in laid.examples for line in example)
        self.lines[split] += len(laid.lines)
        self.waiting += [(split, line.text, place >= laid.facts) for place, line in enumerate(laid.lines)]
        if len(self.waiting) >= BLOCK:
            self._encode()

    def _encode(self) -> None:
        ids = self.tokenizer.encode_batch([text for _, text, _ in self.waiting])
        for (split, text, said), found in zip(self.waiting, ids, strict=True):
            self.lengths[split].append(len(found))
            if not said:
                continue
            unknown, parts = found.count(UNK), int(self.parts[found].sum())
            counts = self.counts[split]
            counts.update(tokens=len(found), unknown=unknown, parts=parts, turns=1)
            if unknown:
                counts["turns_with_unknown"] += 1
                if split in EVALUATED:
                    spans = zip(found, self.tokenizer.offsets(text), strict=True)
                    self.unknown.update(text[start:end] for id, (start, end) in spans if id == UNK)
        self.waiting = []

    def finding(self, quote: Quote) -> Finding:
        """Lengths and cuts of each split, and the share of unknown tokens in validation and test."""
        self._encode()
        sides = {split: self._sides(split) for split in SPLITS}
        needs = {split: self._sides(split, needed=True) for split in SPLITS}
        cuts = {split: self._cuts(split, needs[split]) for split in SPLITS}
        test, train, whole = self.counts["test"], cuts["train"], len(sides["train"]["source"])
        tokens = max(test["tokens"], 1)
        unknown, cut = test["unknown"] / tokens, max(train.values()) / max(whole, 1)
        return Finding(
            TITLE,
            "bad" if unknown > 0.05 or cut > 0.1 else "look" if unknown > 0.01 or cut > 0.01 else "good",
            f"{rate(train['source'], whole)} of contexts cut, {rate(test['unknown'], tokens)} of tokens unknown",
            f"max_source={self.limits['source']} cuts the start of {share(train['source'], whole)} training contexts, "
            f"max_target={self.limits['target']} the end of {share(train['target'], whole)} responses. In test "
            f"{share(test['unknown'], tokens)} tokens are unknown, "
            f"{rate(test['parts'], tokens)} parts of characters.",
            f"To keep 99 % whole: {self._enough(needs['train'])}" if cut > 0.01 else "",
            (*self._charts(sides["train"]), _lengths(sides), self._table(cuts, sides), *self._unknown()),
            {
                "vocabulary": len(self.tokenizer),
                "limits": self.limits,
                **{split: self._data(split, cuts[split], sides[split]) for split in SPLITS},
                "most_frequent_unknown": dict(self.unknown.most_common(100)),
            },
        )

    def _sides(self, split: str, *, needed: bool = False) -> dict[str, Integers]:
        """Uncut lengths of sources and targets, their ends included, or the least limits that leave them so [N]."""
        offsets = np.concatenate([[0], np.cumsum(1 + np.array(self.lengths[split], dtype=np.int64))])
        examples = np.array(self.examples[split], dtype=np.int64).reshape(-1, 4)
        whole = truncate(offsets, examples, max_source=None, max_target=None)
        facts = 2 * whole.facts_length if needed else 0  # they may fill half of a source
        return {"source": np.maximum(whole.source_lengths, facts), "target": whole.target_lengths}

    def _cuts(self, split: str, needs: dict[str, Integers]) -> dict[str, int]:
        """How many sources, and in train targets, need more than their limit: references stay whole."""
        cuts = {side: int((found > self.limits[side]).sum()) for side, found in needs.items()}
        return cuts if split == "train" else {**cuts, "target": 0}

    def _enough(self, needs: dict[str, Integers]) -> str:
        sizes = {side: percentiles(found)[SHARES.index(99)] for side, found in needs.items()}
        return " ".join(f"data.max_{side}={size}" for side, size in sizes.items() if size > self.limits[side])

    def _charts(self, sides: dict[str, Integers]) -> Iterator[Bars]:
        for side, label in (("source", "contexts"), ("target", "responses")):
            shares = zip(SHARES, percentiles(sides[side]), strict=True)
            bars = [
                (f"{each} % have at most" if each < 100 else "the longest", size, count(size)) for each, size in shares
            ]
            limit = (f"max_{side}", self.limits[side], count(self.limits[side]))
            yield Bars(f"Tokens of training {label}", (*((a, float(b), c) for a, b, c in bars), limit))

    def _table(self, cuts: dict[str, dict[str, int]], sides: dict[str, dict[str, Integers]]) -> Table:
        rows = [
            (
                f"{side}s that max_{side} cuts",
                *(share(cuts[split][side], len(sides[split][side])) for split in SPLITS),
            )
            for side in self.limits
        ]
        for label, key, whole in (
            ("unknown tokens", "unknown", "tokens"),
            ("turns with an unknown token", "turns_with_unknown", "turns"),
            ("parts of characters", "parts", "tokens"),
        ):
            rows.append((label, *(share(self.counts[split][key], self.counts[split][whole]) for split in SPLITS)))
        return Table("Cut and unknown", ("", *SPLITS), tuple(rows))

    def _unknown(self) -> Iterator[Table]:
        if self.unknown:
            rows = tuple((word, count(times)) for word, times in self.unknown.most_common(SHOWN))
            yield Table("Unknown in validation and test, the most frequent", ("", "times"), rows)

    def _data(self, split: str, cuts: dict[str, int], sides: dict[str, Integers]) -> dict[str, Any]:
        counts = self.counts[split]
        return {
            "examples": len(sides["source"]),
            **{f"{side}_cut": cuts[side] for side in sides},
            **{f"{side}_length": dict(zip(LABELS, percentiles(found), strict=True)) for side, found in sides.items()},
            **{key: counts[key] for key in ("tokens", "turns", "unknown", "turns_with_unknown", "parts")},
        }


def _lengths(sides: dict[str, dict[str, Integers]]) -> Table:
    rows = tuple(
        (f"{side}, {split}", *(count(size) for size in percentiles(sides[split][side])))
        for side in ("source", "target")
        for split in SPLITS
    )
    return Table("Tokens of examples before they are cut, percentiles", ("", *LABELS), rows)
