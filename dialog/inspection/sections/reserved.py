"""Strings in the text that mean something else to some program: marks of turns and ends, unknown words, markup."""

from __future__ import annotations

import re
from collections import Counter

from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.tokenizers.tokenizer import SPECIAL_TOKENS
from dialog.inspection.findings import Finding, Quote, Quoted, Table, place
from dialog.report.measures import count

OTHERS = (
    *(
        "__SILENCE__",
        "__eou__",
        "__eot__",
        "__start__",
        "__end__",
        "__null__",
        "__unk__",
        "__url__",
        "__p1__",
        "__p2__",
    ),
    *(
        "<sos>",
        "<eos>",
        "<bos>",
        "<go>",
        "<eou>",
        "<eot>",
        "<sep>",
        "<url>",
        "<number>",
        "<person>",
        "<u>",
        "</u>",
        "<br>",
    ),
    *("[CLS]", "[SEP]", "[PAD]", "[MASK]", "[UNK]", "[deleted]", "[removed]", "_UNK", "_EOS", "_GO", "_PAD", "+++$+++"),
    *("<|endoftext|>", "<|im_start|>", "<|im_end|>", "&amp;", "&quot;", "&lt;", "&gt;", "&nbsp;", "&#39;"),
)
RESERVED = re.compile("|".join(re.escape(each) for each in (*SPECIAL_TOKENS, *OTHERS)))
SHOWN = 8


class Reserved:
    """Looks for our own special tokens, those of other systems, and escapes of HTML.

    Text never becomes a special token of ours, so they are learnt as words: a model then says them.
    """

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = {split: Counter() for split in SPLITS}
        self.examples: dict[str, tuple[str, str]] = {}

    def see(self, split: str, dialogue: Dialogue) -> None:
        """Look through a dialogue."""
        for turn in dialogue.turns:
            found = RESERVED.findall(turn.text)
            self.counts[split].update(found)
            for each in found:
                self.examples.setdefault(each, (place(dialogue), turn.text))

    def finding(self, quote: Quote) -> Finding:
        """Each string with its counts and the first turn that has it."""
        every = Counter[str]()
        for counts in self.counts.values():
            every.update(counts)
        rows = tuple((each, *(count(self.counts[split][each]) for split in SPLITS)) for each, _ in every.most_common())
        shown = tuple(self.examples[each] for each, _ in every.most_common(SHOWN))
        return Finding(
            "Reserved strings",
            "bad" if every else "good",
            f"{count(every.total())} in the text",
            f"{count(every.total())} places in the text look like marks of a program."
            if every
            else "No marks of turns, unknown words or markup in the text.",
            "They are learnt as words, so a model will say them: take them out of the corpus." if every else "",
            (Table("Strings", ("", *SPLITS), rows), Quoted("First turn with each", shown)) if every else (),
            {
                each: {"first": self.examples[each][0], **{split: self.counts[split][each] for split in SPLITS}}
                for each, _ in every.most_common()
            },
        )
