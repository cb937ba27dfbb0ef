"""Responses of other systems: match a file to the test set, and measure it like an evaluation."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.analysis.measured import (
    RESPONSES,
    STATISTICS,
    example_bytes,
    metrics_of,
    numbered,
    write_statistics,
)
from dialog.atomic import write_text
from dialog.comparison.grid.folder import Cell, Contender, Grid
from dialog.comparison.grid.test_set import (
    PLAIN,
    TEST_SET,
    Row,
    examples_of,
    examples_of_file,
    plain_lines,
    read_contexts,
)
from dialog.comparison.systems.answers import NUMBERS, unusable, warn_of_control_characters
from dialog.config.components import Component
from dialog.config.trust import without_trust
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.escaping import json_copy, to_json
from dialog.json_files import read_json, read_json_lines
from dialog.runs.evaluation.evaluated import (
    METRICS,
    Evaluated,
    check_evaluation,
    replacing_evaluation,
)
from dialog.runs.folder import hash_of

if TYPE_CHECKING:
    from dialog.analysis.baselines.rows import Baselines

Key = tuple[str, ...]
SHARED = 20
"""Equal characters that a message shows before the first difference of two references."""
KEYS = ("id", "context", "reference")
"""Fields that name the example of a line."""


def read_test_set(grid: Grid, split: str, given: Sequence[Row] = ()) -> list[Row]:
    """Return the examples of the test set: of the corpus of the first recipe, else those that
    ``--references`` gives, else of the first file of responses.

    Args:
        grid: The contenders; its folder has the references that an earlier command has given.
        split: Split of the corpus.
        given: References that are not in the folder yet.

    Raises:
        UserError: the corpus or a file cannot be read, or nothing names a test set.
    """
    if (first := first_recipe(grid.contenders)) is not None:
        return list(examples_of(first.composed.recipe, split))
    if given:
        return list(given)
    if grid.references:
        if sha256(grid.folder / TEST_SET) != grid.references:
            raise UserError(
                f"{grid.folder / TEST_SET}: has changed since it was written; restore it from a"
                " copy"
            )
        return read_contexts(grid.folder / TEST_SET)
    files = [path for contender in grid.contenders for path in contender.files]
    if not files:
        raise UserError(
            f"{grid.contenders[0].name}: has no test set; give --references FILE, which dialog"
            " contexts writes, or another contender with a test set"
        )
    if files[0].endswith(PLAIN):
        raise UserError(f"{files[0]}: has no references; give --references FILE")
    return examples_of_file(Path(files[0]))


# ------------------------------------------------------------------ matching


def match_responses(path: Path, expected: Sequence[Row]) -> list[Row]:
    """Return a line for each expected example, in their order, with the response and likelihood of
    a file.

    Lines are matched by `id` if any id is that of an expected example, else by `context` and
    `reference`; several examples of equal text are matched in their order. Lines of text, and lines
    without any of these fields, are matched by their number.

    Raises:
        UserError: a line without response, key or matching example; an id listed twice; another
            reference than the test set's; an example without a response; or a number that is
            invalid, or missing in some lines only.
    """
    lines = read_lines(path, expected)
    ids = {row["id"] for row in expected}
    by_id = any(line.get("id") in ids for line in lines if isinstance(line.get("id"), str))
    places: dict[Key, list[int]] = {}
    for place, row in enumerate(expected):
        places.setdefault(key_of(row, by_id=by_id), []).append(place)
    matched: dict[int, Row] = {}
    for number, line in enumerate(lines, start=1):
        where = f"{path}:{number}"
        check_line(line, where, by_id=by_id)
        candidates = places.get(key := key_of(line, by_id=by_id))
        if candidates is None:
            raise UserError(
                f"{where}: {described(key, by_id=by_id)} is not in the test set of the other"
                " contenders"
            )
        free = [place for place in candidates if place not in matched]
        if not free:
            raise UserError(
                f"{where}: {described(key, by_id=by_id)} is listed twice; give each example one"
                " response"
            )
        place = free[0]
        reference = expected[place]["reference"]
        if line.get("reference", reference) != reference:
            raise UserError(
                f"{where}: the reference of {line['id']} has"
                f" {differing(line['reference'], reference)} where the test set of the other"
                f" contenders has {differing(reference, line['reference'])}; evaluate on the same"
                " test set"
            )
        matched[place] = line
    check_numbers(lines, path)
    if missing := [row["id"] for place, row in enumerate(expected) if place not in matched]:
        raise UserError(
            f"{path}: no response to {len(missing):,} of {len(expected):,} examples, such as"
            f" {missing[0]}; give a response to each"
        )
    fields = [field for field in NUMBERS if all(is_number(line.get(field)) for line in lines)]
    return [
        {
            **row,
            "response": matched[place]["response"],
            **{field: matched[place][field] for field in fields},
        }
        for place, row in enumerate(expected)
    ]


def read_lines(path: Path, expected: Sequence[Row]) -> list[Row]:
    """Read the lines of a file of responses; those without id, context and reference have the id of
    the example of their number.

    Raises:
        UserError: a line is damaged, or their number is not that of the examples that they have to
            be matched with.
    """
    if path.suffix == PLAIN:
        lines: list[Row] = [{"response": text} for text in plain_lines(path)]
    else:
        lines = [
            line if line.get("id") is None else numbered(line, number)
            for number, line in enumerate(read_json_lines(path), start=1)
        ]
    if any(line.get(field) is not None for line in lines for field in KEYS):
        return lines
    if len(lines) != len(expected):
        raise UserError(
            f"{path}: has {len(lines):,} lines without ids, and the test set has"
            f" {len(expected):,} examples; give one line for each, or ids"
        )
    return [{**line, "id": row["id"]} for line, row in zip(lines, expected, strict=True)]


def differing(text: object, other: object) -> str:
    """Return what a value has from shortly before its first difference from another one, for a
    message.
    """
    start = max(0, len(os.path.commonprefix([str(text), str(other)])) - SHARED)  # noqa: RUF071 - texts
    return to_json(text[start:] if isinstance(text, str) else text)[:60]


def check_line(line: Row, where: str, *, by_id: bool) -> None:
    """Check the types of the fields of a line that are read."""
    if "response" not in line:
        raise UserError(f"{where}: no response; give each line the response of the system")
    if reason := unusable(line["response"]):
        raise UserError(f"{where}: response {reason}")
    if by_id:
        if not isinstance(line.get("id"), str):
            raise UserError(
                f"{where}: no id, which other lines have; give each line the id of its example"
            )
    elif not isinstance(line.get("reference"), str) or not isinstance(line.get("context"), list):
        raise UserError(
            f"{where}: matches no example of the test set; give its id, or its context and"
            " reference"
        )


def check_numbers(lines: Sequence[Row], path: Path) -> None:
    """Check that each optional field is a finite number of at least 0, in all lines or in none."""
    for field in NUMBERS:
        values = [line.get(field) for line in lines]
        is_given = any(value is not None for value in values)
        for number, value in enumerate(values, start=1):
            if value is None and is_given:
                raise UserError(
                    f"{path}:{number}: no {field}, which other lines have; give it in every line or"
                    " in none"
                )
            if value is not None and not (is_number(value) and 0 <= value < math.inf):
                raise UserError(
                    f"{path}:{number}: {field} is {to_json(value)[:60]}; give a number of at"
                    " least 0"
                )


def key_of(row: Row, *, by_id: bool) -> Key:
    """Return the id of an example, or its context and reference."""
    return (row["id"],) if by_id else (*map(str, row["context"]), row["reference"])


def described(key: Key, *, by_id: bool) -> str:
    """Return an example's key for a message."""
    return f"id {key[0]!r}" if by_id else f"the example with the reference {to_json(key[-1])[:60]}"


def is_number(value: object) -> bool:
    """Return whether a JSON value is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


# ------------------------------------------------------------------ measuring


def first_recipe(contenders: Sequence[Contender]) -> Contender | None:
    """Return the contender whose recipe names the test set and the training split; None if all are
    files.
    """
    return next((contender for contender in contenders if contender.kind != "responses"), None)


def file_metrics(grid: Grid) -> Sequence[Component]:
    """Return the metrics of files of responses beside the standard ones: those of the first
    recipe, else of ``--metrics``.
    """
    first = first_recipe(grid.contenders)
    return grid.metrics if first is None else first.composed.recipe.metrics


def identity(cell: Cell, grid: Grid) -> str:
    """Return the hash of a file of responses, with that of what it is measured with: the first
    recipe or given references, and further metrics.
    """
    first = first_recipe(grid.contenders)
    test_set = grid.references if first is None else first.hash
    metrics = without_trust(list(file_metrics(grid)))
    inputs = [part for part in (test_set, metrics) if part]
    return hash_of([cell.file_hash, *inputs]) if inputs else cell.file_hash


def measured_responses(cell: Cell, grid: Grid, split: str) -> Evaluated | None:
    """Return the evaluation of a file of responses, if it is complete and was measured with the
    same test set.

    Raises:
        UserError: a file of the evaluation has changed since it was written.
    """
    evaluation = cell.folder / "evaluation" / split
    if not (evaluation / METRICS).is_file():
        return None
    metrics = read_json(evaluation / METRICS, "responses")
    if metrics["responses"] != identity(cell, grid):
        return None
    check_evaluation(evaluation)
    return Evaluated(evaluation, metrics)


def reference_rows(grid: Grid, split: str, language: str) -> Baselines | None:
    """Return leaks and reference rows of the test set; None without a recipe, which names the
    training split.
    """
    if (first := first_recipe(grid.contenders)) is None:
        return None
    from dialog.analysis.baselines.kept import find_baselines
    from dialog.build import build_job

    return find_baselines(
        build_job(first.composed.recipe), split, (), language=language, quiet=True
    )


def measure_responses(cell: Cell, grid: Grid, split: str, test_set: Sequence[Row]) -> Evaluated:
    """Write an evaluation of a file of responses, in the order of the test set."""
    from dialog.metrics import detect_language, words
    from dialog.metrics.measurement import Measurement, results
    from dialog.metrics.scores.family import components_of

    rows: list[Row] = match_responses(cell.file, test_set)
    warn_of_control_characters({row["id"]: row["response"] for row in rows}, cell.name)
    language = detect_language(row["reference"] for row in rows[:4096])
    components = file_metrics(grid)
    measurement = Measurement(metrics_of(components, language))
    measurement.add(rows)
    fingerprint = hashlib.sha256(b"".join(map(example_bytes, rows)))
    dialogues = [str(row.get("dialogue_id", row["id"])) for row in rows]
    metrics = {
        "split": split,
        "examples": len(rows),
        "dialogues": len(set(dialogues)),
        "fingerprint": fingerprint.hexdigest(),
        "words": sum(len(words(row["reference"])) for row in rows),
        "bytes": sum(len(row["reference"].encode()) for row in rows),
        **results(measurement),
        "responses": identity(cell, grid),
    }
    leaked = None
    if (baselines := reference_rows(grid, split, language)) is not None:
        metrics |= baselines.metrics(measurement, dialogues)
        leaked = baselines.is_leaked(dialogues)
    evaluation = cell.folder / "evaluation" / split
    with replacing_evaluation(
        evaluation, metrics, {"responses": cell.file_hash, "data": metrics["fingerprint"]}
    ):
        write_text(evaluation / RESPONSES, "".join(to_json(row) + "\n" for row in rows))
        write_statistics(
            evaluation / STATISTICS, measurement, components_of(components), language, leaked
        )
    return Evaluated(evaluation, json_copy(metrics))
