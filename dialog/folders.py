"""Folders of runs and comparisons: new ones only, and what is written into them."""

from __future__ import annotations

import json
import random
from datetime import datetime
from pathlib import Path

from dialog.errors import UserError


def fresh_folder(root: str, name: str = "") -> Path:
    """The path ``<root>/<name>/<time>-<random>``."""
    return Path(root) / name / f"{datetime.now():%Y%m%d-%H%M%S}-{random.SystemRandom().randrange(16**4):04x}"


def make_folder(folder: Path) -> Path:
    """Make a new folder; what exists is never written over."""
    try:
        folder.mkdir(parents=True, exist_ok=False)
    except FileExistsError as error:
        raise UserError(f"{folder} exists; choose another --output") from error
    except OSError as error:
        raise UserError(f"{folder}: cannot be made ({error.strerror}); choose another --output") from error
    return folder


def write_json(path: Path, content: object) -> None:
    """Write a JSON file that people read."""
    path.write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
