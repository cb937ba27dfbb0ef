"""Token lengths, truncation and unknown tokens with the recipe's tokenizer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import DialogueWindows, ExampleRules, example_windows
from dialog.data.preparation.encoding import dialogue_lines
from dialog.data.store.layout import ROLES, truncate
from dialog.data.text_matching.fingerprints import Integers
from dialog.data.tokenizers.tokenizer import UNK, Tokenizer
from dialog.inspection.findings import (
    EVALUATED,
    PERCENTILE_LABELS,
    PERCENTS,
    WORST_FIRST,
    BarChart,
    Finding,
    ReadDialogues,
    SizeDistribution,
    Table,
    filled,
    part_of,
    percent_of,
    severity,
    worst_split,
)
from dialog.report.formats.numbers import count

BATCH_LINES = 4096
ROWS = 10
TITLE = "Tokens and truncation"

Lengths = dict[str, SizeDistribution]
"""Distribution of the number of ids of an example, for "source" and "target"."""


class UncountedTokenSection:
    """Replaces the token section if the data cannot be prepared.

    Args:
        error: Message of the error.
    """

    def __init__(self, error: str) -> None:
        self.error = error

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Ignore the dialogue."""

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return the error."""
        return Finding(TITLE, "look", "not counted", f"The data cannot be prepared: {self.error}")


class TokenSection:
    """Counts the tokens of every turn, and the examples that the recipe truncates, laid out as in
    the token store.

    A token is a character part if it holds no whole character: one byte of an emoji that has no
    token of its own.

    Args:
        tokenizer: Tokenizer of the recipe.
        rules: Rules that turn dialogues into examples.
        max_source: Limit of source ids, end included.
        max_target: Limit of target ids of a training response, end included.
        layout: Layout of the sources, a member of `LAYOUTS`.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        rules: ExampleRules,
        *,
        max_source: int,
        max_target: int,
        layout: str = ROLES,
    ) -> None:
        self.tokenizer = tokenizer
        self.layout = layout
        self.rules = rules
        self.limits = {"source": max_source, "target": max_target}
        replacement = tokenizer.encode("\ufffd")
        self.is_part = np.array(
            [
                set(tokenizer.decode([id])) == {"\ufffd"} and [id] != replacement
                for id in range(len(tokenizer))
            ],
            dtype=bool,
        )
        self.waiting: list[tuple[str, str, bool]] = []  # split, text, is a turn
        self.waiting_examples: dict[str, list[tuple[int, ...]]] = {split: [] for split in SPLITS}
        self.waiting_lines: Counter[str] = Counter()
        self.lengths = {split: _no_lengths() for split in SPLITS}
        """Before truncation, ends included."""
        self.needed = {split: _no_lengths() for split in SPLITS}
        """Smallest limits that truncate nothing; facts may fill at most half of a source."""
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.unknown_words: Counter[str] = Counter()

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Queue a dialogue; lines are encoded in batches."""
        windows = list(example_windows(dialogue, self.rules))
        new = dialogue_lines(DialogueWindows(dialogue, windows))
        start = self.waiting_lines[split]
        self.waiting_examples[split] += [
            tuple(start + line for line in example) for example in new.examples
        ]
        self.waiting_lines[split] += len(new.lines)
        self.waiting += [
            (split, line.text, number >= new.facts) for number, line in enumerate(new.lines)
        ]
        if len(self.waiting) >= BATCH_LINES:
            self._encode()

    def _encode(self) -> None:
        lines = self.tokenizer.encode_batch([text for _, text, _ in self.waiting])
        line_lengths: dict[str, list[int]] = {split: [0] for split in SPLITS}
        for (split, text, is_turn), ids in zip(self.waiting, lines, strict=True):
            line_lengths[split].append(1 + len(ids))
            if not is_turn:
                continue
            unknown = ids.count(UNK)
            parts = int(self.is_part[ids].sum())
            counts = self.counts[split]
            counts.update(tokens=len(ids), unknown=unknown, parts=parts, turns=1)
            if unknown:
                counts["turns_with_unknown"] += 1
                if split in EVALUATED:
                    spans = zip(ids, self.tokenizer.offsets(text), strict=True)
                    self.unknown_words.update(
                        text[start:end] for id, (start, end) in spans if id == UNK
                    )
        for split in SPLITS:
            self._measure(split, np.cumsum(line_lengths[split]))
        self.waiting = []
        self.waiting_lines.clear()

    def _measure(self, split: str, offsets: Integers) -> None:
        """Count the lengths of the waiting examples from the offsets of their lines."""
        examples = np.array(self.waiting_examples[split], dtype=np.int64).reshape(-1, 4)
        self.waiting_examples[split] = []
        whole = truncate(offsets, examples, max_source=None, max_target=None)
        sources = whole.lengths_in(self.layout)
        needed = np.maximum(sources, 2 * whole.facts_length - (whole.source_lengths - sources))
        for sizes, lengths in ((self.lengths, sources), (self.needed, needed)):
            sizes[split]["source"].add(lengths.tolist())
            sizes[split]["target"].add(whole.target_lengths.tolist())

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return lengths and truncation of each split, and the fraction of unknown tokens in
        validation and test.
        """
        self._encode()
        lengths = self.lengths
        needed = self.needed
        truncated = {split: self._truncated(split, needed[split]) for split in SPLITS}
        test = self.counts["test"]
        train = truncated["train"]
        examples = len(lengths["train"]["source"])
        sources = {
            split: (truncated[split]["source"], len(lengths[split]["source"])) for split in SPLITS
        }
        unknowns = {
            split: (self.counts[split]["unknown"], self.counts[split]["tokens"])
            for split in WORST_FIRST
        }
        longest = worst_split(sources)
        least_known = worst_split(unknowns)
        unknown = unknowns[least_known][0] / max(unknowns[least_known][1], 1)
        most_truncated = max(
            sources[longest][0] / max(sources[longest][1], 1),
            max(train.values()) / max(examples, 1),
        )
        return Finding(
            TITLE,
            severity(
                bad=unknown > 0.05 or most_truncated > 0.1, look=max(unknown, most_truncated) > 0.01
            ),
            f"{percent_of(*sources[longest])} of {longest} contexts truncated, "
            f"{percent_of(*unknowns[least_known])} of {least_known} tokens unknown",
            f"{part_of(train['source'], examples)} of the training contexts have more than"
            f" {self.limits['source']} tokens (data.max_source) and lose their beginning;"
            f" {part_of(train['target'], examples)} of the training responses have more than"
            f" {self.limits['target']} (data.max_target) and lose their end. Of the test tokens,"
            f" {part_of(test['unknown'], test['tokens'])} are unknown to the tokenizer, and"
            f" {percent_of(test['parts'], test['tokens'])} are parts of characters, such as one"
            " byte of an emoji.",
            " ".join(self._advice(needed[longest], needed["train"], unknown, most_truncated)),
            (
                *self._charts(lengths["train"]),
                _length_table(lengths),
                self._table(truncated, lengths),
                *filled(self._unknown_table()),
            ),
            {
                "vocabulary": len(self.tokenizer),
                "limits": self.limits,
                **{split: self._data(split, truncated[split], lengths[split]) for split in SPLITS},
                "most_frequent_unknown": dict(self.unknown_words.most_common(100)),
            },
        )

    def _truncated(self, split: str, needed: Lengths) -> dict[str, int]:
        """Return the number of truncated sources and targets; validation and test targets are never
        truncated.
        """
        numbers = {side: lengths.above(self.limits[side]) for side, lengths in needed.items()}
        return numbers if split == "train" else {**numbers, "target": 0}

    def _advice(
        self, needed: Lengths, train: Lengths, unknown: float, most_truncated: float
    ) -> Iterator[str]:
        if most_truncated > 0.01:
            limits = self._recommended_limits(
                {"source": needed["source"], "target": train["target"]}
            )
            yield f"To keep 99 % untruncated: {limits}"
        if unknown > 0.01:
            yield "data.tokenizer={name: byte_bpe} has no unknown tokens."

    def _recommended_limits(self, needed: Lengths) -> str:
        limits = {
            side: lengths.percentiles()[PERCENTS.index(99)] for side, lengths in needed.items()
        }
        return " ".join(
            f"data.max_{side}={limit}"
            for side, limit in limits.items()
            if limit > self.limits[side]
        )

    def _charts(self, lengths: Lengths) -> Iterator[BarChart]:
        for side, label in (("source", "contexts"), ("target", "responses")):
            bars = [
                (
                    f"{percent} % have at most" if percent < 100 else "longest",
                    float(size),
                    count(size),
                )
                for percent, size in zip(PERCENTS, lengths[side].percentiles(), strict=True)
            ]
            limit = (f"max_{side}", float(self.limits[side]), count(self.limits[side]))
            yield BarChart(f"Tokens of training {label}", (*bars, limit))

    def _table(self, truncated: dict[str, dict[str, int]], lengths: dict[str, Lengths]) -> Table:
        rows = [
            (
                f"{side}s truncated by max_{side}",
                *(part_of(truncated[split][side], len(lengths[split][side])) for split in SPLITS),
            )
            for side in self.limits
        ]
        for label, key, total in (
            ("unknown tokens", "unknown", "tokens"),
            ("turns with an unknown token", "turns_with_unknown", "turns"),
            ("tokens that are parts of characters", "parts", "tokens"),
        ):
            cells = (
                part_of(self.counts[split][key], self.counts[split][total]) for split in SPLITS
            )
            rows.append((label, *cells))
        return Table("Truncated and unknown", ("", *SPLITS), tuple(rows))

    def _unknown_table(self) -> Table:
        words = self.unknown_words.most_common(ROWS)
        rows = tuple((word, count(number)) for word, number in words)
        return Table("Most frequent unknown words of validation and test", ("", "count"), rows)

    def _data(self, split: str, truncated: dict[str, int], lengths: Lengths) -> dict[str, Any]:
        counts = self.counts[split]
        return {
            "examples": len(lengths["source"]),
            **{f"{side}_cut": truncated[side] for side in lengths},
            **{
                f"{side}_length": dict(zip(PERCENTILE_LABELS, values.percentiles(), strict=True))
                for side, values in lengths.items()
            },
            **{
                key: counts[key]
                for key in ("tokens", "turns", "unknown", "turns_with_unknown", "parts")
            },
        }


def _no_lengths() -> Lengths:
    return {"source": SizeDistribution(), "target": SizeDistribution()}


def _length_table(lengths: dict[str, Lengths]) -> Table:
    rows = tuple(
        (f"{side}, {split}", *(count(size) for size in lengths[split][side].percentiles()))
        for side in ("source", "target")
        for split in SPLITS
    )
    return Table(
        "Tokens of examples before truncation, percentiles", ("", *PERCENTILE_LABELS), rows
    )
