"""The cache folder: only what this program has written is listed, and may be removed."""

from __future__ import annotations

import json
from pathlib import Path

from dialog.runs.cached import cache_entries, remove


def write(path: Path, content: object) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_only_marked_entries_are_listed_and_removed(tmp_path: Path) -> None:
    mark = "0123456789ab"
    manifest = {"fingerprint": mark + "cdef", "settings": {"sources": {"chats.csv": "1"}}}
    write(tmp_path / f"csv-{mark}" / "manifest.json", manifest)
    reference = f"csv-test-{mark}0123.json"
    write(tmp_path / "baselines" / reference, {"settings": {}, "sha256": "x"})
    write(tmp_path / "baselines" / reference.replace(".json", ".lock"), "")
    write(tmp_path / "downloads" / "taskmaster" / "a.json", "{}")
    write(tmp_path / "chat_history", "+Hi")
    kept = [
        write(tmp_path / "csv-ffffffffffff" / "manifest.json", manifest),  # of another folder
        write(tmp_path / f"mine-{mark}" / "notes.txt", "mine"),
        write(tmp_path / "baselines" / f"csv-test-{mark}9999.json", "mine"),
        write(tmp_path / "downloads" / "mine" / "a.json", "{}"),
        write(tmp_path / "letters.txt", "mine"),
        write(tmp_path.with_name(f"{tmp_path.name}-else") / "manifest.json", manifest),
    ]
    (tmp_path / f"jsonl-{mark}").symlink_to(kept[-1].parent)
    entries = cache_entries(tmp_path)
    assert [entry.name for entry in entries] == [
        f"csv-{mark}",
        f"baselines/{reference}",
        "downloads/taskmaster",
        "chat_history",
    ]
    assert entries[0].source == "chats.csv"
    assert all(entry.bytes > 0 for entry in entries)
    for entry in entries:
        remove(tmp_path, entry)
    assert cache_entries(tmp_path) == []
    assert all(path.exists() for path in kept)
    assert not list((tmp_path / "baselines").glob("*.lock"))
    assert cache_entries(tmp_path / "nowhere") == []
