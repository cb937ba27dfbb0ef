"""Detect tables: delimiter, quotes, and the columns of dialogue, speaker and text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

from dialog.data.corpora.parsing.tables import Row, RowError, table
from dialog.errors import UserError
from dialog.report.terminal import truncate
from dialog.start.formats.columns import (
    LISTED,
    dialogue_column,
    guessed_dialogue_column,
    no_speaker,
    pair_of,
    speaker_columns,
    text_column,
)
from dialog.start.formats.sample import FileSample
from dialog.start.formats.verdict import Detected, Miss

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
ROWS = 2000
"""Rows that are looked at."""

MOST_COLUMNS = 200
MOST_BAD = 0.2
"""Fraction of rows that cannot be read from which a table is none."""

ROLES = ("dialogue", "speaker", "text", "context", "response")
"""Arguments of the corpus that name a column."""

SUFFIXES = {".csv", ".tsv"}
FEWEST_CELLS = 3
"""Cells that all lines of a text do not have by chance."""

LONGEST_NAME = 60
"""Characters of a column's name; a longer cell of the first row is a message."""

GUESSED = "  (a guess: its values repeat in consecutive rows; data.corpus.dialogue=COLUMN)"


def table_format(sample: FileSample, given: Mapping[str, Any]) -> Detected | Miss:
    """Check for a table with a column of texts, and one of dialogues or a pair of turns.

    A miss is certain if the file's name ends in `.csv` or `.tsv`, or all rows have the same number
    of cells, at least `FEWEST_CELLS`.

    Raises:
        UserError: it has more columns than `MOST_COLUMNS`, which no table of chats has; or a column
            that the user names does not exist.
    """
    by_name = not SUFFIXES.isdisjoint(suffix.lower() for suffix in sample.path.suffixes)
    delimiter = given.get("delimiter") or _delimiter(sample.lines)
    if delimiter is None:
        return Miss("CSV", 0.0, "the first lines have no common delimiter", by_name)
    width = sample.lines[0].count(delimiter) + 1
    if width > MOST_COLUMNS:
        raise UserError(
            f"{sample.path}: a table of at least {width:,} columns; one of chats has a column each"
            " for dialogue, speaker and text, and a row for each message"
        )
    best: tuple[list[dict[str, str]], bool] | None = None
    is_table = by_name
    reason = "its rows have different numbers of cells"
    for quotes in (True, False):
        try:
            rows = _rows(sample, delimiter, quotes=quotes)
        except UserError as error:
            reason = str(error).removeprefix(f"{sample.path}:")
            continue
        good = [row for row in rows if not isinstance(row, RowError)]
        if not rows:
            reason = "its first row names the columns, but no row follows"
        if not rows or len(good) < (1 - MOST_BAD) * len(rows):
            continue
        is_table |= len(good) == len(rows) and len(good[0]) >= FEWEST_CELLS
        if best is None or len(good) > 1.05 * len(best[0]):
            best = good, quotes
    if best is None:
        return Miss("CSV", 0.5, reason, by_name)
    rows_read, quotes = best
    options: dict[str, Any] = {}
    if delimiter not in (",", ";", "\t") or (delimiter == "\t" and sample.path.suffix != ".tsv"):
        options["delimiter"] = delimiter
    if not quotes:
        options["quotes"] = False
    if sample.encoding not in ("utf-8", "utf-16"):
        options["encoding"] = sample.encoding
    given = _existing_columns(sample, list(rows_read[0]), given)
    found = table_columns(rows_read, given)
    if isinstance(found, Miss):
        return found._replace(certain=is_table)
    component, columns = found
    shape = f"a table, separated by {DELIMITERS.get(delimiter, repr(delimiter))}"
    if sample.encoding != "utf-8":
        shape += f", in {sample.encoding}"
    dialogue = component.get("dialogue")
    if dialogue and is_interleaved(_ids(sample, dialogue, delimiter, quotes=quotes)):
        options["interleaved"] = True
        shape += "; rows of several dialogues alternate"
    return Detected({"name": "csv", **component, **options, **given}, shape, columns)


def _existing_columns(
    sample: FileSample, names: list[str], given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the given arguments with columns as the first row writes them.

    Raises:
        UserError: a named column does not exist.
    """
    found = dict(given)
    by_case = {name.strip().casefold(): name for name in reversed(names)}
    for role in ROLES:
        column = given.get(role)
        if column is None or column in names:
            continue
        if str(column).strip().casefold() not in by_case:
            raise UserError(
                f"{sample.path}: data.corpus.{role}={column}: no column has this name; the columns:"
                f" {truncate(', '.join(names), 3 * LISTED)}"
            )
        found[role] = by_case[str(column).strip().casefold()]
    return found


def table_columns(
    rows: list[dict[str, str]], given: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]] | Miss:
    """Return the arguments of the corpus, and the columns to show; given ones are kept."""
    names = list(rows[0])
    listed = truncate(", ".join(names), LISTED)
    if any(len(name) > LONGEST_NAME for name in names) or len(set(names)) < len(names):
        return Miss("CSV", 0.8, f"the first row does not name the columns: {listed}")
    chosen: dict[str, str | None] = {
        role: given.get(role) for role in ("dialogue", "speaker", "text")
    }
    pair = (
        (given["context"], given["response"])
        if {"context", "response"} <= given.keys()
        else pair_of(names)
    )
    dialogue = chosen["dialogue"] or dialogue_column(rows, names)
    rest = [name for name in names if name != dialogue]
    candidates = speaker_columns(rows, rest, dialogue if dialogue in names else None)
    speaker = chosen["speaker"] or next(iter(candidates), None)
    others = [name for name in candidates if name != speaker]
    rest = [name for name in rest if name != speaker]
    text = chosen["text"] or text_column(rows, rest)
    if pair and not (chosen["text"] or (dialogue and speaker)):
        pairs = dict(zip(("context", "response"), pair, strict=True))
        return pairs, pairs
    is_guess = not dialogue
    dialogue = dialogue or guessed_dialogue_column(rows, [name for name in rest if name != text])
    if not text:
        return Miss(
            "CSV",
            0.8,
            f"no column of texts recognised among {listed}; name it: data.corpus.text=COLUMN"
            " (dialogue and speaker likewise)",
        )
    if not dialogue:
        return Miss(
            "CSV",
            0.9,
            f"no column of dialogues recognised among {listed}; name it:"
            " data.corpus.dialogue=COLUMN (text and speaker likewise)",
        )
    unused = set(names) - {dialogue, text}
    shown = {
        "dialogue": f"{dialogue}{GUESSED if is_guess else ''}",
        "speaker": f"{speaker}{_unused(others)}" if speaker else no_speaker(unused),
        "text": text,
    }
    return {"dialogue": dialogue, "speaker": speaker, "text": text}, shown


def _unused(others: list[str]) -> str:
    listed = truncate(", ".join(others), LISTED)
    return f"  (unused: {listed}; data.corpus.speaker=COLUMN)" if others else ""


def _delimiter(lines: list[str]) -> str | None:
    """Return the delimiter that the first line has, and that most lines have as often."""
    first = lines[0]
    best = (0.0, "")
    for delimiter in DELIMITERS:
        if delimiter in first:
            counts = Counter(line.count(delimiter) for line in lines[1:200])
            same = counts[first.count(delimiter)] / max(1, counts.total())
            # quoted cells may hold further delimiters, but not fewer
            more = sum(n for times, n in counts.items() if times >= first.count(delimiter))
            score = same + more / max(1, counts.total()) + 0.01 * first.count(delimiter)
            best = max(best, (score, delimiter))
    return best[1] or None


def _rows(sample: FileSample, delimiter: str, *, quotes: bool) -> list[Row]:
    encoding = None if sample.encoding == "utf-16" else sample.encoding
    rows = table(sample.path, delimiter=delimiter, quotes=quotes, encoding=encoding)
    return [row for _, row in islice(rows, ROWS)]


def _ids(sample: FileSample, column: str, delimiter: str, *, quotes: bool) -> Iterable[str]:
    encoding = None if sample.encoding == "utf-16" else sample.encoding
    rows = table(sample.path, delimiter=delimiter, quotes=quotes, encoding=encoding)
    return (row[column] for _, row in rows if not isinstance(row, RowError))


def is_interleaved(ids: Iterable[str]) -> bool:
    """Return whether many ids of dialogues occur again after another id."""
    seen: set[str] = set()
    again: set[str] = set()
    last = None
    for id in ids:
        if id != last and id in seen:
            again.add(id)
        seen.add(id)
        last = id
    return len(again) > 0.05 * len(seen)
