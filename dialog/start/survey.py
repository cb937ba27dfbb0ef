"""Counts of a corpus from one pass, and checks that a model can learn from it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from dialog.data.corpora import Corpus
from dialog.data.corpora.parsing.chat_log import LEFT_OUT
from dialog.data.dialogue import SPLITS, Dialogue, Malformed
from dialog.data.examples import DROP, ExampleRules, example_windows, usable_dialogue
from dialog.errors import UserError
from dialog.report.formats.numbers import count, counted

RULES = ExampleRules(3, first_turns=False, merge_turns=True, malformed=DROP)
"""Rules of the recipe that is written; see `recipe_text.py`."""

FEWEST_DIALOGUES = 30
"""With a tenth of them each, validation and test hold about three."""

FEWEST_REPLIES = 100
"""Training responses below which nothing but a few sentences can be learned."""

SHOWN = 3
MOST_MALFORMED = 0.2
"""Fraction of malformed records from which the format is probably another one."""


@dataclass
class Survey:
    """Counts of a corpus.

    Args:
        counts: Counts of `usable_dialogue`, over all splits.
        replies: Number of examples of each split.
        words: Number of words of the training split.
        bytes: UTF-8 bytes of the training split.
        speakers: Number of dialogues of each speaker.
        facts: Number of system prompts, which are no turns.
        left_out: Messages without text that the reader left out, by kind.
        malformed: The first messages about malformed records.
        distinct: Some distinct training responses.
        shown: The first dialogues.
    """

    counts: Counter[str] = field(default_factory=Counter)
    replies: Counter[str] = field(default_factory=Counter)
    words: int = 0
    bytes: int = 0
    speakers: Counter[str] = field(default_factory=Counter)
    facts: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    malformed: list[str] = field(default_factory=list)
    distinct: set[str] = field(default_factory=set)
    shown: list[Dialogue] = field(default_factory=list)

    @property
    def merges(self) -> bool:
        """True if consecutive turns of one speaker occur."""
        return self.counts["dropped turns: merged"] > 0

    @property
    def max_dropped(self) -> float:
        """The key `data.max_dropped` with which this corpus can be prepared."""
        dropped = max(
            (self.counts["dropped dialogues: malformed"] + self.counts["dropped dialogues: empty"])
            / max(1, self.counts["dialogues read"]),
            self.counts["dropped turns: empty"] / max(1, self.counts["turns read"]),
        )
        # a split may have more than the whole
        return max(0.01, min(1.0, round(3 * dropped + 0.005, 2))) if dropped else 0.01

    @property
    def kept(self) -> int:
        """Number of dialogues with at least one reply."""
        return self.counts["dialogues"]

    @property
    def is_enough(self) -> bool:
        """True if there are enough dialogues and replies."""
        return self.kept >= FEWEST_DIALOGUES and self.replies["train"] >= FEWEST_REPLIES

    def check_readable(self, path: str) -> None:
        """Check that most records are dialogues.

        Raises:
            UserError: with the first malformed record.
        """
        bad = self.counts["dropped dialogues: malformed"]
        if bad > MOST_MALFORMED * self.counts["dialogues read"]:
            raise UserError(
                f"{path}: {bad:,} of {self.counts['dialogues read']:,} records cannot be read;"
                f" first: {self.malformed[0]}"
            )

    def check_learnable(self, path: str, *, has_pauses: bool) -> None:
        """Check that there are enough different replies of several speakers, in every split.

        Args:
            path: File, for messages.
            has_pauses: Whether `data.corpus.gap_hours` divides the corpus into dialogues.

        Raises:
            UserError: with what is missing.
        """
        several = "; a conversation has at least two speakers"
        check = "" if has_pauses else ": check the column of speakers"
        if len(self.speakers) == 1:
            speaker = next(iter(self.speakers))
            raise UserError(f"{path}: all messages are by {speaker!r}{several}{check}")
        if self.kept == 0 and self.counts["dropped dialogues: single turn"]:
            reason = "no dialogue has messages of two speakers"
            check += ", and that of dialogues" if check else ""
            raise UserError(f"{path}: {reason}{several}{check}")
        if not self.is_enough:
            replies = self.replies["train"]
            shorter = self._shorter_pauses() if has_pauses else ""
            raise UserError(
                f"{path}: too little to learn from: {counted(self.kept, 'dialogue')}, with"
                f" {count(replies)} training {'reply' if replies == 1 else 'replies'}; at least"
                f" {FEWEST_DIALOGUES} and {FEWEST_REPLIES} are needed{shorter}"
            )
        if len(self.distinct) == 1:
            raise UserError(
                f"{path}: all replies are {next(iter(self.distinct))!r}; there is nothing to learn"
            )
        for split in SPLITS:
            if not self.replies[split]:
                raise UserError(
                    f"{path}: no dialogue falls into {split}, as many dialogues have equal texts;"
                    " give more different ones"
                )

    def _shorter_pauses(self) -> str:
        turns = self.counts["turns read"]
        if self.kept >= FEWEST_DIALOGUES or turns < 10 * FEWEST_DIALOGUES:
            return ""
        return "; data.corpus.gap_hours=1 divides the chat into more dialogues"


def survey(corpus: Corpus, responder: str | None = None) -> Survey:
    """Read a corpus once; only the turns of the ``responder`` are replies, if there is one."""
    found = Survey()
    rules = replace(RULES, responder=responder)
    for split in SPLITS:
        for entry in corpus.dialogues(split):
            if isinstance(entry, Malformed):
                found.malformed += [entry.message] * (len(found.malformed) < SHOWN)
            else:
                _add_raw(found, entry)
            dialogue = usable_dialogue(entry, rules, found.counts)
            if dialogue is not None:
                _add_usable(found, split, dialogue, rules)
    return found


def _add_raw(found: Survey, dialogue: Dialogue) -> None:
    found.speakers.update({turn.speaker for turn in dialogue.turns})
    found.facts += len(dialogue.facts)
    left_out = dialogue.meta.get(LEFT_OUT)
    if isinstance(left_out, dict):
        found.left_out.update(left_out)


def _add_usable(found: Survey, split: str, dialogue: Dialogue, rules: ExampleRules) -> None:
    windows = list(example_windows(dialogue, rules))
    found.replies[split] += len(windows)
    if split != "train":
        return
    if len(found.shown) < SHOWN:
        found.shown.append(dialogue)
    for turn in dialogue.turns:
        found.words += len(turn.text.split())
        found.bytes += len(turn.text.encode())
    if len(found.distinct) < SHOWN:
        found.distinct.update(dialogue.turns[index].text for _, index in windows)
