"""Detect exported chats of WhatsApp, and plain text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from statistics import fmean, median
from typing import Any

from dialog.data.corpora.whatsapp import HEAD, MARKS, NAME
from dialog.start.formats.sample import FileSample
from dialog.start.formats.verdict import Detected, Miss

LINES = 500
"""Lines that are looked at."""

FEWEST_HEADS = 0.25
"""Fraction of lines that begin with a date, in chats with long messages."""

SPOKEN = re.compile(r"[^:\n]{1,40}: \S")
MOST_SPOKEN = 0.9
LONGEST_LINE = 300
"""Mean characters of a line beyond which a text is prose, not turns."""


def whatsapp_format(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    """Check for lines that begin with date, time and speaker."""
    lines = sample.lines[:LINES]
    plain = [MARKS.sub("", line) for line in lines]
    heads = [(line, match) for line in plain if (match := HEAD.match(line))]
    named = sum(bool(NAME.match(line, match.end())) for line, match in heads)
    share = len(heads) / len(lines)
    if share >= FEWEST_HEADS and named >= 0.5 * len(heads):
        return Detected({"name": "whatsapp", **given}, "an export of WhatsApp")
    reason = f"{len(heads)} of {len(lines)} lines begin with date, time and a name"
    return Miss("WhatsApp", 0.2 + share if heads else 0.0, reason)


def plain_text_format(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    """Check for lines that begin with a speaker, or short lines in blocks."""
    lines = sample.lines[:LINES]
    encoding = {} if sample.encoding == "utf-8" else {"encoding": sample.encoding}
    component = {"name": "text", **encoding, **given}
    spoken = [line.partition(":")[0] for line in lines if SPOKEN.match(line)]
    text = sample.head.decode(sample.encoding.partition(":")[0], "replace")
    blocks = [block.splitlines() for block in re.split(r"\n\s*\n", text.strip())]
    if len(spoken) >= MOST_SPOKEN * len(lines) and 1 < len(set(spoken)) <= len(lines) / 2:
        return Detected({**component, "speakers": True}, "text, `Name: message` on each line")
    sizes = [len(block) for block in blocks]
    if len(blocks) > 1 and median(sizes) >= 2 and fmean(map(len, lines)) <= LONGEST_LINE:
        return Detected(component, "text, a turn on each line, blank lines between dialogues")
    reason = (
        f"{len(blocks)} blocks between blank lines, and {len(spoken)} of {len(lines)} lines begin"
        " with `Name: `; give a turn a line, and a blank line between dialogues"
    )
    return Miss("text", 0.1 + 0.5 * len(spoken) / len(lines), reason)
