"""Read the file of an offline run of Weights & Biases."""

from __future__ import annotations

import json
import struct
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass
class Offline:
    """Labels, config and logged rows of an offline run."""

    folder: Path
    config: dict[str, Any]
    rows: list[dict[str, Any]]
    labels: tuple[str, str, set[str]]  # name, group and tags
    artifacts: list[tuple[str, set[str]]]  # type and names of files
    summaries: dict[str, set[str]]  # kinds of summary by metric
    alerts: list[str]  # titles

    def values(self, key: str) -> list[Any]:
        return [row[key] for row in self.rows if key in row]


def messages(content: bytes) -> Iterator[bytes]:
    """Yield the records of a log in LevelDB's format: a header of 7 bytes, then blocks of 32 KiB,
    records in parts.
    """
    assert content[:4] == b":W&B"
    place, message = 7, b""
    while place + 7 <= len(content):
        left = 32768 - place % 32768
        if left < 7:  # filler at the end of a block
            place += left
            continue
        _, size, part = struct.unpack_from("<IHB", content, place)
        chunk = content[place + 7 : place + 7 + size]
        place += 7 + size
        message = chunk if part in (1, 2) else message + chunk
        if part in (1, 4):
            yield message


def read_offline(folder: Path) -> Offline:
    from wandb.proto import wandb_internal_pb2

    for _ in range(200):  # the service may write it after the run's process has ended
        if files := [*folder.glob("*.wandb")]:
            break
        time.sleep(0.1)
    (file,) = files
    config: dict[str, Any] = {}
    rows = []
    artifacts = []
    summaries: dict[str, set[str]] = {}
    alerts = []
    for message in messages(file.read_bytes()):
        record = wandb_internal_pb2.Record()
        record.ParseFromString(message)
        kind = record.WhichOneof("record_type")
        if kind == "history":
            rows.append(insert({}, record.history.item))
        if kind in ("config", "run"):
            insert(config, record.config.update if kind == "config" else record.run.config.update)
        if kind == "run":
            labels = (record.run.display_name, record.run.run_group, set(record.run.tags))
        if kind == "artifact":
            names = {entry.path for entry in record.artifact.manifest.contents}
            artifacts.append((record.artifact.type, names))
        if kind == "metric":
            metric = record.metric
            kinds = {name.name for name, chosen in metric.summary.ListFields() if chosen is True}
            summaries[metric.name] = kinds
        if kind == "alert":
            alerts.append(record.alert.title)
    return Offline(folder, config, rows, labels, artifacts, summaries, alerts)


def insert(tree: dict[str, Any], items: Any) -> dict[str, Any]:
    """Insert values into a tree by key, or by path of keys."""
    for item in items:
        *path, last = [item.key] if item.key else item.nested_key
        branch = tree
        for key in path:
            branch = branch.setdefault(key, {})
        branch[last] = json.loads(item.value_json)
    return tree
