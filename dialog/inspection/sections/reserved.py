"""Reserved strings in the text: turn markers, special tokens and HTML entities."""

from __future__ import annotations

import re
from collections import Counter

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS
from dialog.inspection.findings import Finding, Quotation, ReadDialogues, Table, location
from dialog.report.formats.numbers import count, counted

RESERVED = re.compile(
    "|".join(
        [
            *map(re.escape, SPECIAL_TOKENS),
            r"__(?:SILENCE|eou|eot|start|end|null|unk|url|p1|p2)__",
            r"<(?:sos|eos|bos|go|eou|eot|sep|url|number|person|u|/u|br)>",
            r"\[(?:CLS|SEP|PAD|MASK|UNK|deleted|removed)\]",
            r"(?<!\w)_(?:UNK|EOS|GO|PAD)(?!\w)",
            r"\+\+\+\$\+\+\+",
            r"<\|(?:endoftext|im_start|im_end)\|>",
            r"&(?:amp|quot|lt|gt|nbsp|#39);",
        ]
    )
)
EXAMPLES = 8


class ReservedSection:
    """Counts our special tokens, those of other systems, and HTML entities.

    Text never becomes a special token, so the tokenizer learns these strings as words and models
    generate them.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.examples: dict[str, tuple[str, str]] = {}

    def add(self, split: str, dialogue: Dialogue) -> None:
        """Count the reserved strings of a dialogue."""
        for turn in dialogue.turns:
            strings = RESERVED.findall(turn.text)
            self.counts[split].update(strings)
            for string in strings:
                self.examples.setdefault(string, (location(dialogue), turn.text))

    def finding(self, read_dialogues: ReadDialogues) -> Finding:
        """Return each string with its counts and its first turn."""
        total = sum(self.counts.values(), Counter[str]())
        strings = [string for string, _ in total.most_common()]
        rows = tuple(
            (string, *(count(self.counts[split][string]) for split in SPLITS)) for string in strings
        )
        examples = tuple(self.examples[string] for string in strings[:EXAMPLES])
        occurrences = counted(total.total(), "occurrence")
        return Finding(
            "Reserved strings",
            "bad" if total else "good",
            occurrences,
            (
                f"{occurrences} of turn markers, special tokens or HTML entities."
                if total
                else "The text contains no turn markers, special tokens or HTML entities."
            ),
            (
                "Remove them from the corpus: the tokenizer learns them as words, and the model"
                " generates them."
                if total
                else ""
            ),
            (
                (
                    Table("Strings", ("", *SPLITS), rows),
                    Quotation("First turn with each string", examples),
                )
                if total
                else ()
            ),
            {
                string: {
                    "first": self.examples[string][0],
                    **{split: self.counts[split][string] for split in SPLITS},
                }
                for string in strings
            },
        )
