"""Test set of a comparison: from a corpus, from files of references, or from the first file of
responses.

An example is a mapping with `id`, `context` and `reference`; with `dialogue_id` if the dialogue is
known, and with `references`, the first of which is `reference`, if there are several.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from dialog.analysis.measured import all_references, numbered, read_responses
from dialog.config.schema import Recipe
from dialog.errors import UserError
from dialog.escaping import is_unicode, to_json
from dialog.json_files import read_json_lines

Row = Mapping[str, Any]
PLAIN = ".txt"
"""Suffix of files with one text per line, as sacrebleu reads them."""
TEST_SET = "test_set.jsonl"
"""File of a comparison folder: the examples that ``--references`` has given."""
FIELDS = {"context": "a list of strings", "references": "a list of strings that is not empty"}


def examples_of(recipe: Recipe, split: str) -> Iterator[Row]:
    """Yield the examples of a split of a recipe's corpus."""
    from dialog.build import build_corpus, build_rules
    from dialog.data.examples import examples

    stream = examples(build_corpus(recipe).dialogues(split), build_rules(recipe), Counter())
    for example in stream:
        yield {
            "id": example.id,
            "dialogue_id": example.dialogue_id,
            "context": [turn.text for turn in example.context],
            "reference": example.response.text,
        }


def examples_of_file(path: Path) -> list[Row]:
    """Return the examples of a file of responses whose lines have context and reference.

    Without `dialogue_id`, the id before the last # names the dialogue.
    """
    return [with_references(example_of(row), all_references(row)) for row in read_responses(path)]


def example_of(row: Row) -> dict[str, Any]:
    """Return an example with its dialogue, as far as it is known; without its references."""
    example = {"id": row["id"], "context": row["context"]}
    dialogue = row.get("dialogue_id", str(row["id"]).rpartition("#")[0])
    return example if dialogue in (None, "") else {**example, "dialogue_id": str(dialogue)}


def with_references(example: Row, references: Sequence[str]) -> Row:
    """Return an example with one reference or several."""
    several = {"references": [*references]} if len(references) > 1 else {}
    return {**example, "reference": references[0], **several}


def system_input(row: Row) -> dict[str, Any]:
    """Return an example as a line of ``dialog contexts``."""
    dialogue = {"dialogue_id": row["dialogue_id"]} if "dialogue_id" in row else {}
    return {
        "id": row["id"],
        **dialogue,
        "context": row["context"],
        "references": all_references(row),
    }


# ------------------------------------------------------------------ files of references


def read_references(paths: Sequence[Path]) -> list[Row]:
    """Read a test set: one file of JSON lines as ``dialog contexts`` writes it, or texts with one
    reference per line.

    Raises:
        UserError: a file cannot be read, is empty, or has another number of lines than the first.
    """
    if any(path.suffix != PLAIN for path in paths):
        if len(paths) > 1:
            raise UserError(
                f"--references: give one file of JSON lines, or several {PLAIN} files, one for each"
                " reference of an example"
            )
        return read_contexts(paths[0])
    columns = [plain_lines(path) for path in paths]
    for path, column in zip(paths, columns, strict=True):
        if len(column) != len(columns[0]):
            raise UserError(
                f"{path}: has {len(column):,} lines and {paths[0]} has {len(columns[0]):,}; give"
                " each example one line in every file"
            )
    return [
        with_references({"id": str(number), "context": []}, references)
        for number, references in enumerate(zip(*columns, strict=True), start=1)
    ]


def plain_lines(path: Path) -> list[str]:
    """Return the lines of a text file, without white space at their ends; an empty line is an empty
    text.

    Raises:
        UserError: the file cannot be read, is empty, or is not UTF-8.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}") from error
    if not lines[-1]:
        del lines[-1]
    if not lines:
        raise UserError(f"{path}: is empty; give one line for each example")
    texts = []
    for number, line in enumerate(lines, start=1):
        try:
            texts.append(line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip())
        except UnicodeDecodeError as error:
            raise UserError(f"{path}:{number}: not UTF-8 at byte {error.start + 1}") from error
    return texts


def read_contexts(path: Path) -> list[Row]:
    """Read examples as ``dialog contexts`` writes them; `reference` is read in place of a single
    one of `references`, and the number of the line in place of a missing id.

    Raises:
        UserError: the file cannot be read, is empty, a field is missing or invalid, or an id is
            listed twice.
    """
    rows: list[Row] = []
    lines: dict[str, int] = {}
    for number, line in enumerate(read_json_lines(path), start=1):
        row = {"context": [], "references": [line.get("reference")], **numbered(line, number)}
        for field, expected in FIELDS.items():
            if not is_texts(row[field]) or (field == "references" and not row[field]):
                raise UserError(
                    f"{path}:{number}: {field} is {to_json(row[field])[:60]}; give {expected}"
                )
        first = lines.setdefault(row["id"], number)
        if first != number:
            raise UserError(
                f"{path}:{number}: id {row['id']!r} is also in line {first}; give each example a"
                " different id"
            )
        rows.append(with_references(example_of(row), row["references"]))
    if not rows:
        raise UserError(f"{path}: is empty; give one line for each example")
    return rows


def is_texts(value: object) -> bool:
    """Return whether a JSON value is a list of texts that UTF-8 can encode."""
    return isinstance(value, list) and all(
        isinstance(text, str) and is_unicode(text) for text in value
    )
