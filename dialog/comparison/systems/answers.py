"""Answers of a system, one line each in the order in which they came, and what answered.

answers.jsonl    {"id", "response", ...} of each example that is answered so far
system.json      the command, hashes of its files, and for each start what the program reported
system.log       standard error of the program
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, ClassVar

from dialog.atomic import write_json
from dialog.errors import UserError
from dialog.escaping import COMMANDS, is_unicode, json_copy, one_line, to_json
from dialog.json_files import read_json

ANSWERS = "answers.jsonl"
SYSTEM = "system.json"
LOG = "system.log"
MOST_CHARACTERS = 100_000
"""Longest response."""
NUMBERS = (
    "nll",
    "reference_tokens",
    "reference_correct",
    "reference_unknown",
    "reference_unknown_bytes",
)
"""Optional fields: likelihood of the reference, in nats and tokens."""

Line = dict[str, Any]
log = logging.getLogger("dialog")


def unusable(response: object) -> str:
    """Return why a value is no response, for a message; empty if it is one."""
    if not isinstance(response, str):
        return f"is {to_json(response)[:60]}; give a string"
    if len(response) > MOST_CHARACTERS:
        return f"has {len(response):,} characters; give at most {MOST_CHARACTERS:,}"
    if not is_unicode(response):
        return "has a lone surrogate (half a character); write both halves"
    return ""


def warn_of_control_characters(responses: Mapping[str, str], name: str) -> None:
    """Log one line if responses have control characters, which are measured as they are and shown
    escaped.
    """
    wrong = [key for key, text in responses.items() if COMMANDS.search(text)]
    if wrong:
        log.warning(
            "WARNING: %s: %d of %d responses have control characters, such as that to %s",
            name,
            len(wrong),
            len(responses),
            one_line(wrong[0]),
        )


def answered(folder: Path) -> tuple[int, int]:
    """Return the number of answers of a system and that of its test set; zeros before it has
    begun.
    """
    try:
        number = read_json(folder / SYSTEM, "examples")["examples"]
        with (folder / ANSWERS).open("rb") as file:
            return sum(1 for _ in file), int(number)
    except (OSError, UserError, TypeError, ValueError):
        return 0, 0


def warn_of_changed_files(folder: Path, name: str, present: Mapping[str, str]) -> None:
    """Log one line if a file of a program has changed since all of its answers were given.

    Args:
        folder: Folder of the system.
        name: Name of the system, for the message.
        present: SHA-256 of the files that the command names now.
    """
    path = folder / SYSTEM
    before = read_json(path, "files")["files"] if path.is_file() else present
    if changed := changed_files(before, present):
        log.warning(
            "WARNING: %s: %s has changed since all contexts were answered; these answers are kept"
            " and it is not run; to run it, use another name or --output",
            name,
            changed[0],
        )


def changed_files(before: Mapping[str, str], present: Mapping[str, str]) -> list[str]:
    """Return the files whose SHA-256 differ, or which only one of both has."""
    return [file for file in {**before, **present} if before.get(file) != present.get(file)]


class Answers:
    """The answers of a program in its folder, which is created.

    Args:
        folder: Folder of the files.
        name: Name of the system, for messages.
        ids: Ids of the test set.

    Raises:
        UserError: an earlier answer is not of this test set.
    """

    field: ClassVar[str] = "response"
    """Field of an answer."""
    unit: ClassVar[str] = "contexts"
    """Name of the items that are answered, for messages."""
    keeps_others: ClassVar[bool] = False
    """Whether the files may have answers to other questions from before."""

    def __init__(self, folder: Path, name: str, ids: Collection[str]) -> None:
        self.folder = folder
        self.name = name
        self.ids = set(ids)
        folder.mkdir(parents=True, exist_ok=True)
        self.lines: dict[str, Line] = {}
        self.reports: list[dict[str, Any]] = []
        path = folder / ANSWERS
        if not path.is_file():
            return
        complete = path.read_bytes().rpartition(b"\n")[0]
        for number, content in enumerate(complete.split(b"\n") if complete else [], start=1):
            try:
                line = json.loads(content)
                if self.keeps_others and isinstance(line, dict):
                    self.ids.add(str(line.get("id")))
                self._accept(line)
            except (ValueError, RecursionError, UserError) as error:
                raise UserError(
                    f"{path}:{number}: not an answer to these {self.unit} ({error}); remove the"
                    " line, or the file"
                ) from error
        os.truncate(path, len(complete) + bool(complete))  # what a kill left half written

    def check_same(self, fingerprint: Mapping[str, Any]) -> None:
        """Check that the earlier answers are of the same program.

        Raises:
            UserError: a file of the command has changed.
        """
        path = self.folder / SYSTEM
        before = read_json(path, "files", "sessions") if path.is_file() else None
        changed = changed_files(before["files"], fingerprint["files"]) if before else []
        if self.lines and changed:
            raise UserError(
                f"{self.name}: {changed[0]} has changed since the first {len(self.lines):,}"
                f" answers; restore it, or remove {self.folder} to have all contexts answered again"
            )
        self.reports = before["sessions"] if before is not None else []
        self.fingerprint = dict(fingerprint)
        self.save()

    def save(self) -> None:
        """Write system.json."""
        content = {**self.fingerprint, "examples": len(self.ids), "sessions": self.reports}
        write_json(self.folder / SYSTEM, content)

    def add(self, content: bytes) -> None:
        """Keep a line of the program.

        Raises:
            UserError: it is no answer to an open example.
        """
        try:
            line = json.loads(content)
            if isinstance(line, dict) and "id" not in line and isinstance(line.get("system"), dict):
                self.reports[-1] |= json_copy(line["system"])
                return
            kept = self._accept(line)
        except (ValueError, RecursionError) as error:
            shown = to_json(content[:60].decode(errors="replace"))
            raise UserError(f"{self.name}: wrote {shown}, which is not JSON ({error})") from error
        with (self.folder / ANSWERS).open("a", encoding="utf-8", newline="\n") as file:
            file.write(to_json(kept) + "\n")

    def _accept(self, line: object) -> Line:
        if not isinstance(line, dict) or "id" not in line:
            raise UserError(f"{self.name}: wrote {to_json(line)[:60]}, which has no id")
        key = str(line["id"])
        shown = to_json(key)[:60]
        if key not in self.ids:
            raise UserError(f"{self.name}: answered id {shown}, which is not in the test set")
        if key in self.lines:
            raise UserError(f"{self.name}: answered id {shown} twice")
        if "error" in line and self.field not in line:
            raise UserError(f"{self.name}: id {shown}: {one_line(str(line['error']))[:200]}")
        if reason := self.unusable(line.get(self.field)):
            raise UserError(f"{self.name}: the {self.field} to id {shown} {reason}")
        numbers = {field: line[field] for field in NUMBERS if line.get(field) is not None}
        self.lines[key] = {"id": key, self.field: line[self.field], **numbers}
        return self.lines[key]

    def unusable(self, value: object) -> str:
        """Return why a value is no answer, for a message; empty if it is one."""
        return unusable(value)
