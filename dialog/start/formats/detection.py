"""Detect the format of a file or folder of chats."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dialog.config.compose import is_path
from dialog.data.corpora.convokit import CONVERSATIONS, UTTERANCES
from dialog.data.corpora.slack import DAY
from dialog.data.reading.files import find_names
from dialog.errors import UserError
from dialog.start.formats.json_format import json_format
from dialog.start.formats.sample import FileSample
from dialog.start.formats.table_format import table_format
from dialog.start.formats.text_formats import plain_text_format, whatsapp_format
from dialog.start.formats.verdict import Detected, Miss

NEAREST = 3
"""Formats that the error of an unknown file names."""

Check = Callable[[FileSample, Mapping[str, Any]], Detected | Miss]
CHECKS: tuple[Check, ...] = (json_format, whatsapp_format, table_format, plain_text_format)
"""Checks of a file, the most specific first."""

TRIED = "JSON lines, JSON, Telegram, WhatsApp, CSV and text"
SPLIT_FILES = {
    "train.jsonl": "jsonl",
    "train.csv": "csv",
    "train.tsv": "csv",
    "train.txt": "text",
}


def detect(path: Path, given: Mapping[str, Any]) -> Detected:
    """Return the corpus that reads a file or folder.

    Args:
        path: The file or folder.
        given: Arguments of the corpus that the user has set; with a `name`, nothing is detected.

    Raises:
        UserError: no format fits; the message has the nearest formats and why they do not fit.
    """
    if not path.exists():
        raise UserError(f"{path} does not exist; give a file or folder of chats")
    if is_path(str(path)):
        raise UserError(
            f"{path} is a recipe, not a file of chats; train it: python -m dialog train {path}"
        )
    if "name" in given:
        return Detected(dict(given), f"corpus {given['name']}, as you chose")
    if path.is_dir():
        return _folder(path, given)
    if zipfile.is_zipfile(path) and (archive := _archive(path, given)):
        return archive
    sample = FileSample.of(path)
    sample.check_text()
    misses = []
    for check in CHECKS:
        result = check(sample, given)
        if isinstance(result, Detected):
            return result
        if result.certain:  # another format would read its delimiters as text
            raise UserError(f"{path}: {result.format}: {result.reason}")
        misses.append(result)
    nearest = sorted(misses, key=lambda miss: -miss.nearness)[:NEAREST]
    reasons = "; ".join(f"{miss.format}: {miss.reason}" for miss in nearest)
    raise UserError(f"{path}: no known format (tried {TRIED}); nearest: {reasons}")


def _folder(path: Path, given: Mapping[str, Any]) -> Detected:
    if (path / UTTERANCES).exists() and (path / CONVERSATIONS).exists():
        return Detected({"name": "convokit", **given}, "a ConvoKit corpus")
    for name, corpus in SPLIT_FILES.items():
        if any(find_names(path, name)):
            return Detected({"name": corpus, **given}, f"a folder of splits ({name}, ...)")
    return _by_names(find_names(path, "**/*"), path, given)


def _archive(path: Path, given: Mapping[str, Any]) -> Detected | None:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    if any(name.endswith((".xml", ".rels")) for name in names):  # a workbook or document
        return None
    return _by_names(names, path, given)


def _by_names(names: list[str], path: Path, given: Mapping[str, Any]) -> Detected:
    """Return the format of an export by the names of its files."""
    ends = [name.rpartition("/")[2] for name in names]
    if "result.json" in ends:
        return Detected({"name": "telegram", **given}, "an export of Telegram")
    if any(map(DAY.fullmatch, ends)):
        return Detected({"name": "slack", **given}, "an export of Slack")
    texts = [name for name in names if name.endswith(".txt")]
    if texts and path.is_dir():
        result = whatsapp_format(FileSample.of(path / texts[0]), given)
        if isinstance(result, Detected):
            return result
        return Detected({"name": "text", **given}, f"a folder of {len(texts):,} texts")
    if texts:
        return Detected({"name": "whatsapp", **given}, "an export of WhatsApp")
    suffixes = {Path(name).suffix for name in ends}
    kinds = ", ".join(sorted(suffix for suffix in suffixes if suffix)[:5]) or "no files"
    raise UserError(
        f"{path}: no known format (it holds {kinds}); a folder or archive may be an export of"
        " WhatsApp (.txt), Telegram (result.json) or Slack (users.json), a ConvoKit corpus, or a"
        " folder of texts"
    )
