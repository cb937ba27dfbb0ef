"""Files of ratings: JSON lines of a study's pages, CSV of its pairs, and blind votes of ``dialog
serve``.
"""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialog.comparison.preference.pairs import CHOICES, is_present, sources_of
from dialog.comparison.preference.study import read_key
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.report.formats.results import Results

RATER_COLUMNS = ("annotator", "workerid", "worker_id", "rater")
"""Columns with the name of a rater in CSV of Label Studio and of crowd platforms; the first counts.
"""
Pair = tuple[str, str, int, str]


@dataclass(frozen=True)
class Rating:
    """A choice of a rater: between contenders `pair[:2]`, or in an attention check.

    Attributes:
        rater: Name of the rater.
        choice: Response chosen, as shown: "a", "b" or "tie".
        key: What the key says about the question.
    """

    rater: str
    choice: str
    key: Mapping[str, Any]

    @property
    def pair(self) -> Pair:
        """Contenders, pair of runs and example."""
        a, b, run, example = self.key["pair"]
        return a, b, run, example

    @property
    def winner(self) -> str:
        """Contender chosen, "a" or "b" as in `pair`, or "tie"."""
        first_is_a = self.key["first"] == self.key["pair"][0]
        return self.choice if self.choice == "tie" or first_is_a else "ba"["ab".index(self.choice)]


class RatingReader:
    """Reads the ratings of a comparison.

    Args:
        folder: Folder of the comparison, with the keys of its studies.
        results: Content of its results.json.
    """

    def __init__(self, folder: Path, results: Results) -> None:
        self.folder = folder
        self.present = sources_of(results)
        runs = [(model.name, run.hashes) for model in results.models for run in model.runs]
        self.contenders = {hashes["weights"]: name for name, hashes in runs if "weights" in hashes}
        self.keys: dict[str, dict[str, Any]] = {}

    def read(self, files: Sequence[Path]) -> list[Rating]:
        """Read files of ratings. Votes on two runs of one contender are left out.

        Raises:
            UserError: a line is invalid, with its file and number; a rater has answered an id
                or rated a pair twice; or there are no ratings.
        """
        lines: dict[tuple[str, str, str], str] = {}
        pairs: dict[tuple[str, Pair], str] = {}
        ratings = []
        for file in files:
            for where, row in rows_of(file):
                try:
                    study, name, rater, choice = fields_of(row, file.stem)
                    if first := lines.get((study, name, rater)):
                        raise UserError(
                            f"{to_json(rater)[:60]} has answered id {to_json(name)[:60]} already in"
                            f" {first}; remove one of the lines"
                        )
                    key = self._vote(row, name) if is_vote(row) else self._question(study, name)
                    rating = Rating(rater, choice, key)
                    if (
                        "pair" in key
                        and (first := pairs.setdefault((rater, rating.pair), where)) != where
                    ):
                        raise UserError(
                            f"{to_json(rater)[:60]} has rated this pair of responses already in"
                            f" {first}; the ids of a study begin with the number of the rater, who"
                            " answers those only"
                        )
                except UserError as error:
                    raise UserError(f"{where}: {error}") from error
                lines[study, name, rater] = where
                if key:
                    ratings.append(rating)
        if not ratings:
            raise UserError(f"{', '.join(map(str, files))}: no ratings")
        return ratings

    def _question(self, study: str, name: str) -> Mapping[str, Any]:
        """Return what the key of a study says about a question."""
        if study not in self.keys:
            self.keys[study] = read_key(self.folder, study)
        key = self.keys[study]
        if not is_present(key["sources"], self.present):
            raise UserError(
                f"the responses of the comparison have changed since study {study}; make a new one"
            )
        question: Mapping[str, Any] | None = key["questions"].get(name)
        if question is None:
            raise UserError(f"id {to_json(name)[:60]} is not in study {study}")
        return question

    def _vote(self, row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
        """Return the key of a vote; empty for two runs of one contender."""
        weights = row["weights"]
        if not isinstance(weights, list) or len(weights) != 2:
            raise UserError("weights is no list of two hashes")
        unknown = [one for one in weights if str(one) not in self.contenders]
        if unknown:
            raise UserError(
                f"the model with the weights {to_json(unknown[0])[:20]} is no contender of"
                f" {self.folder}"
            )
        first, second = (self.contenders[one] for one in weights)
        if first == second:
            return {}
        a, b = sorted((first, second), key=list(self.present).index)
        dialogue = str(row.get("chat") or name)
        return {"pair": [a, b, 0, name], "dialogue": dialogue, "first": first, "outside": True}


def is_vote(row: Mapping[str, Any]) -> bool:
    """Return whether a line is a vote of ``dialog serve``."""
    return "weights" in row


def rows_of(file: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the lines of a file with their place.

    Raises:
        UserError: the file cannot be read, or a line is damaged.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is not UTF-8 ({error.reason})") from error
    if file.suffix.lower() == ".csv":
        reader = csv.DictReader(text.splitlines(keepends=True), strict=True)
        try:
            for row in reader:
                # Input.id and Answer.choice on a crowd platform
                yield (
                    f"{file}:{reader.line_num}",
                    {str(name).rpartition(".")[2].lower(): value for name, value in row.items()},
                )
        except csv.Error as error:
            raise UserError(f"{file}:{reader.line_num}: damaged ({error})") from error
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}:{number}: damaged ({error})") from error
        if not isinstance(row, dict):
            raise UserError(f"{file}:{number}: damaged (no object)")
        yield f"{file}:{number}", row


def fields_of(row: Mapping[str, Any], stem: str) -> tuple[str, str, str, str]:
    """Return study, id, rater and choice of a line; the rater is the name of the file if no column
    names one. The id of a vote is a hash, and a chat without a name is a rater.

    Raises:
        UserError: one is missing or no text, or the choice is none of `CHOICES`.
    """
    if is_vote(row):
        texts = json.dumps([row.get(name) for name in ("time", "chat", "context", "responses")])
        digest = hashlib.sha256(texts.encode()).hexdigest()[:16]
        chat = f"chat {row['chat']}" if row.get("chat") else stem
        row = {**row, "study": "", "id": digest, "rater": row.get("rater") or chat}
    values = []
    for name in ("study", "id", "choice"):
        if not isinstance(row.get(name), str):
            raise UserError(f"{name} is {to_json(row.get(name))[:60]}; give a text")
        values.append(row[name].strip())
    study, question, choice = values
    if choice.lower() not in CHOICES:
        raise UserError(f"choice {to_json(choice)[:60]} is none of {', '.join(CHOICES)}")
    rater = next((str(row[name]).strip() for name in RATER_COLUMNS if row.get(name)), "")
    return study, question, rater or stem, choice.lower()
