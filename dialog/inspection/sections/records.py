"""Records that are no dialogues, and dialogues that are odd as records."""

from __future__ import annotations

from array import array
from collections import Counter

import numpy as np

from dialog.data.dialogue import SPLITS, WARNING, Dialogue, Entry, Malformed
from dialog.data.text_matching.fingerprints import hash_texts, repeats_earlier
from dialog.inspection.findings import Finding, Quoted, State, Table, share
from dialog.report.measures import count

KINDS = {
    "malformed": "malformed records",
    "dialogues": "dialogues",
    "empty_dialogues": "dialogues without a turn",
    "unused_dialogues": "dialogues with text that give no example",
    "empty_turns": "turns without text",
    "warnings": "dialogues read with a warning",
    "repeated_ids": "ids that occur before in their split",
}
BAD = {
    "malformed": "Mend or remove the malformed records; each says how.",
    "repeated_ids": "Give each dialogue of a split an id of its own.",
}
ODD = {
    "unused_dialogues": "See whether the dialogues that give no example should: data.responder and data.first_turns "
    "say which turns are responses.",
    "empty_turns": "Turns without text are left out; see whether something is missing there.",
    "warnings": "See whether the dialogues read with a warning were read as they are meant.",
}
"""Kinds that harm, and that are worth a look, with what to do."""
SHOWN = 10


class Records:
    """Counts the entries of a corpus as they come, before anything is taken out."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.ids = {split: array("Q") for split in SPLITS}
        self.malformed: list[str] = []
        self.warnings: list[str] = []

    def see(self, split: str, entry: Entry, used: Dialogue | None) -> None:
        """Take in a record, and the dialogue that the rules make of it, if any."""
        counts = self.counts[split]
        if isinstance(entry, Malformed):
            counts["malformed"] += 1
            self.malformed += [entry.message][: SHOWN - len(self.malformed)]
            return
        empty = sum(not turn.text.strip() for turn in entry.turns)
        counts.update(dialogues=1, empty_turns=empty)
        if used is not None:
            counts.update(used_dialogues=1, used_turns=len(used.turns))
        elif empty < len(entry.turns):
            counts["unused_dialogues"] += 1
        else:
            counts["empty_dialogues"] += 1
        self.ids[split].frombytes(hash_texts([entry.id]).tobytes())
        if WARNING in entry.meta:
            counts["warnings"] += 1
            self.warnings += [str(entry.meta[WARNING])][: SHOWN - len(self.warnings)]

    def finding(self) -> Finding:
        """Counts by split, with the first messages."""
        for split in SPLITS:
            self.counts[split]["repeated_ids"] = int(repeats_earlier(np.array(self.ids[split], dtype=np.uint64)).sum())
        total = sum(self.counts.values(), Counter[str]())
        seen = total["malformed"] + total["dialogues"]
        silent = [split for split, size in self.sizes().items() if not size["dialogues"]]
        empty = f"no examples in {' and '.join(silent)}" if silent else ""
        state, causes = _causes(total, seen, silent)
        rows = tuple((label, *(count(self.counts[split][kind]) for split in SPLITS)) for kind, label in KINDS.items())
        quoted = (("Malformed, the first", self.malformed), ("Warnings, the first", self.warnings))
        return Finding(
            "Records",
            state,
            ", ".join(cause for cause, _ in causes) or f"0 of {count(seen)} malformed",
            f"{share(total['malformed'], seen)} of {count(seen)} records are malformed; {count(total['empty_turns'])} "
            f"turns have no text; {count(total['warnings'])} dialogues are read with a warning."
            + (f" {empty.capitalize()}: such a corpus cannot be prepared." if silent else ""),
            " ".join(advice for _, advice in causes),
            (
                Table("By split", ("", *SPLITS), rows),
                *(Quoted(caption, tuple(("", line) for line in lines)) for caption, lines in quoted if lines),
            ),
            {
                **{split: {kind: self.counts[split][kind] for kind in KINDS} for split in SPLITS},
                "first_malformed": self.malformed,
                "first_warnings": self.warnings,
            },
        )

    def sizes(self) -> dict[str, dict[str, int]]:
        """Dialogues that give examples and their turns, by split."""
        return {
            split: {"dialogues": counts["used_dialogues"], "turns": counts["used_turns"]}
            for split, counts in self.counts.items()
        }


def _causes(total: Counter[str], seen: int, silent: list[str]) -> tuple[State, list[tuple[str, str]]]:
    """The state of the records, what makes it, and what to do about each."""
    of = {"malformed": f"of {count(seen)} malformed"}
    bad, odd = (
        [(f"{count(total[kind])} {of.get(kind, KINDS[kind])}", advice) for kind, advice in kinds.items() if total[kind]]
        for kinds in (BAD, ODD)
    )
    if silent:
        names = " and ".join(silent)
        bad.append((f"no examples in {names}", f"Give {names} dialogues of two turns or more."))
    return ("bad", bad) if bad else ("look", odd) if odd else ("good", [])
