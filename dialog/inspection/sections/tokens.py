"""Token lengths, truncation and unknown tokens with the recipe's tokenizer."""

from __future__ import annotations

from array import array
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
    Table,
    filled,
    part_of,
    percent_of,
    percentiles,
    severity,
    worst_split,
)
from dialog.report.formats.numbers import count

BATCH_LINES = 4096
ROWS = 10
TITLE = "Tokens and truncation"

Lengths = dict[str, Integers]
"""Number of ids of each example [N], for "source" and "target"."""


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
        self.line_lengths = {split: array("I") for split in SPLITS}
        self.examples = {split: array("q") for split in SPLITS}
        self.lines: Counter[str] = Counter()
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.unknown_words: Counter[str] = Counter()

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Queue a dialogue; lines are encoded in batches."""
        windows = list(example_windows(dialogue, self.rules))
        new = dialogue_lines(DialogueWindows(dialogue, windows))
        start = self.lines[split]
        self.examples[split].extend(start + line for example in new.examples for line in example)
        self.lines[split] += len(new.lines)
        self.waiting += [
            (split, line.text, number >= new.facts) for number, line in enumerate(new.lines)
        ]
        if len(self.waiting) >= BATCH_LINES:
            self._encode()

    def _encode(self) -> None:
        lines = self.tokenizer.encode_batch([text for _, text, _ in self.waiting])
        for (split, text, is_turn), ids in zip(self.waiting, lines, strict=True):
            self.line_lengths[split].append(len(ids))
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
        self.waiting = []

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return lengths and truncation of each split, and the fraction of unknown tokens in
        validation and test.
        """
        self._encode()
        lengths = {split: self._lengths(split) for split in SPLITS}
        needed = {split: self._lengths(split, with_facts=True) for split in SPLITS}
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

    def _lengths(self, split: str, *, with_facts: bool = False) -> Lengths:
        """Return lengths before truncation, ends included.

        `with_facts` returns the smallest limits that truncate nothing; facts may fill at most half
        of a source.
        """
        offsets = np.concatenate(
            [[0], np.cumsum(1 + np.array(self.line_lengths[split], dtype=np.int64))]
        )
        examples = np.array(self.examples[split], dtype=np.int64).reshape(-1, 4)
        whole = truncate(offsets, examples, max_source=None, max_target=None)
        sources = whole.lengths_in(self.layout)
        minimum = 2 * whole.facts_length - (whole.source_lengths - sources) if with_facts else 0
        return {"source": np.maximum(sources, minimum), "target": whole.target_lengths}

    def _truncated(self, split: str, needed: Lengths) -> dict[str, int]:
        """Return the number of truncated sources and targets; validation and test targets are never
        truncated.
        """
        numbers = {
            side: int((lengths > self.limits[side]).sum()) for side, lengths in needed.items()
        }
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
            side: percentiles(lengths)[PERCENTS.index(99)] for side, lengths in needed.items()
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
                for percent, size in zip(PERCENTS, percentiles(lengths[side]), strict=True)
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
                f"{side}_length": dict(zip(PERCENTILE_LABELS, percentiles(values), strict=True))
                for side, values in lengths.items()
            },
            **{
                key: counts[key]
                for key in ("tokens", "turns", "unknown", "turns_with_unknown", "parts")
            },
        }


def _length_table(lengths: dict[str, Lengths]) -> Table:
    rows = tuple(
        (f"{side}, {split}", *(count(size) for size in percentiles(lengths[split][side])))
        for side in ("source", "target")
        for split in SPLITS
    )
    return Table(
        "Tokens of examples before truncation, percentiles", ("", *PERCENTILE_LABELS), rows
    )
