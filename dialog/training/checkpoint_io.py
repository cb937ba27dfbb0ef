"""Checkpoints that are whole or not there: written beside, synced, renamed, with their SHA-256 in a manifest."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO

from dialog.errors import UserError

MANIFEST = "manifest.json"


def write_atomically(path: Path, write: Callable[[Path], None]) -> None:
    """Write a file under another name in the same folder, sync it and rename it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    os.close(handle)
    try:
        write(Path(name))
        with open(name, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def sha256(path: Path) -> str:
    """The hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class SafeCheckpointIO(CheckpointIO):
    """Lightning's checkpoints as ``torch.save`` files that are replaced whole and loaded without running code.

    The manifest beside them holds each one's SHA-256; a file that does not match is refused.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: object = None
    ) -> None:
        """Write the checkpoint, then the manifest."""
        target = Path(path)
        digest = ""

        def save(temporary: Path) -> None:
            nonlocal digest
            torch.save(checkpoint, temporary)
            digest = sha256(temporary)

        write_atomically(target, save)
        hashes = {**self._hashes(target.parent), target.name: digest}
        there = {name: each for name, each in sorted(hashes.items()) if (target.parent / name).exists()}
        text = json.dumps(there, indent=1)
        write_atomically(target.parent / MANIFEST, lambda temporary: _write_text(temporary, text))

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = lambda storage, location: storage,  # noqa: ANN401 - Lightning's type
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Read a checkpoint whose hash is the manifest's; never anything but plain types and tensors."""
        source = Path(path)
        expected = self._hashes(source.parent).get(source.name)
        if expected is not None and sha256(source) != expected:
            raise UserError(f"{source}: damaged, its SHA-256 is not the one in {MANIFEST}")
        checkpoint: dict[str, Any] = torch.load(source, map_location=map_location, weights_only=True)
        return checkpoint

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)

    def _hashes(self, folder: Path) -> dict[str, str]:
        manifest = folder / MANIFEST
        return dict(json.loads(manifest.read_text(encoding="utf-8"))) if manifest.exists() else {}


def _write_text(path: Path, text: str) -> None:
    path.write_text(text + "\n", encoding="utf-8")
