"""Write checkpoints atomically (temporary file, sync, rename), with their SHA-256 in a manifest."""

from __future__ import annotations

import json
import logging
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO

from dialog.atomic import beside, rename, sync, write_text
from dialog.data.reading.files import sha256
from dialog.errors import RunError, UserError
from dialog.version import __version__

MANIFEST = "manifest.json"
LAST, PREVIOUS, BEST = "last.ckpt", "previous.ckpt", "best.ckpt"
FORMAT = 1
"""Format of checkpoints that are written, and the newest that can be read."""

log = logging.getLogger("dialog")


class SafeCheckpointIO(CheckpointIO):
    """Lightning's checkpoints as ``torch.save`` files, replaced atomically and loaded without running code.

    The manifest beside them lists the SHA-256 of each, a new file's before it is renamed. A file is intact if its hash
    is listed under any name, so a kill at any moment costs at most the file being written. The old ``last.ckpt`` is
    kept as ``previous.ckpt``.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: object = None
    ) -> None:
        """Write a checkpoint of plain types and tensors.

        Raises:
            RunError: the disk is full, read-only or broken; the old checkpoint is intact.
        """
        target = Path(path)
        marked = {**checkpoint, "dialog": {"format": FORMAT, "version": __version__}}
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside(target) as new:
                torch.save(marked, new)
                sync(new)
                self._replace(target, new)
        except (OSError, RuntimeError) as error:  # torch raises RuntimeError for a full disk
            reason = " ".join(str(error).split())[:200]
            raise RunError(
                f"{target}: cannot be saved ({reason}); the previous checkpoint is intact; repair or free the disk and "
                f"continue with: dialog-seq2seq train --resume {target.parent.parent}"
            ) from error

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = lambda storage, location: storage,  # noqa: ANN401 - Lightning's type
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Read an intact checkpoint of plain types and tensors, whatever ``weights_only`` is.

        In place of a damaged ``last.ckpt`` the previous one is read, with a warning.

        Raises:
            UserError: no checkpoint is intact, or a newer version wrote it.
        """
        source = Path(path)
        damage = self.damage(source)
        if damage and source.name == LAST and not self.damage(source.with_name(PREVIOUS)):
            log.warning("WARNING: %s; resuming from the previous checkpoint, %s", damage, PREVIOUS)
            source, damage = source.with_name(PREVIOUS), None
        if damage:
            raise UserError(f"{damage}; without an intact checkpoint this run cannot be resumed")
        try:
            checkpoint: dict[str, Any] = torch.load(source, map_location=map_location, weights_only=True)
        except Exception as error:  # torch raises errors of many kinds
            raise UserError(f"{source}: cannot be loaded, {' '.join(str(error).split())[:300]}") from error
        written = checkpoint.pop("dialog", {"format": FORMAT, "version": __version__})
        if written["format"] > FORMAT:
            raise UserError(
                f"{source}: has format {written['format']}, written by dialog {written['version']}; this is dialog "
                f"{__version__}, which reads formats up to {FORMAT}; update it"
            )
        return checkpoint

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)

    def damage(self, path: Path) -> str | None:
        """Return what is wrong with a checkpoint, or None; without a manifest, check the file's own checksums."""
        if not path.is_file():
            return f"{path}: does not exist"
        hashes = read_manifest(path.parent)
        if hashes is None:
            return None if checksums_match(path) else f"{path}: damaged, its checksums do not match"
        return None if sha256(path) in hashes.values() else f"{path}: damaged, its SHA-256 is not in {MANIFEST}"

    def _replace(self, target: Path, new: Path) -> None:
        """Rename a complete new file to its name, and keep the old last.ckpt."""
        folder = target.parent
        hashes = {**(read_manifest(folder) or {}), new.name: sha256(new)}
        keep_previous = target.name == LAST and LAST in hashes
        if keep_previous:
            hashes[PREVIOUS] = hashes[LAST]
        write_manifest(folder, hashes)
        if keep_previous:
            with beside(folder / PREVIOUS) as link:
                os.link(target, link)  # last.ckpt exists at any moment
                os.replace(link, folder / PREVIOUS)
        rename(new, target)
        hashes[target.name] = hashes.pop(new.name)
        write_manifest(folder, {name: sha for name, sha in hashes.items() if (folder / name).exists()})


def newest(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, or None before the first save."""
    return folder / LAST if any((folder / name).exists() for name in (LAST, PREVIOUS)) else None


def clean_up(folder: Path) -> None:
    """Remove temporary files of killed saves, and rewrite the manifest for the intact checkpoints."""
    for path in (*folder.glob(".*.ckpt.*"), *folder.glob(f".{MANIFEST}.*")):
        path.unlink()
    storage = SafeCheckpointIO()
    intact = {path.name: sha256(path) for path in sorted(folder.glob("*.ckpt")) if storage.damage(path) is None}
    if folder.is_dir():
        write_manifest(folder, intact)


def write_manifest(folder: Path, hashes: Mapping[str, str]) -> None:
    """Replace the manifest atomically."""
    write_text(folder / MANIFEST, json.dumps(hashes, indent=1, sort_keys=True) + "\n")


def read_manifest(folder: Path) -> dict[str, str] | None:
    """Return the hashes of a folder's checkpoints by name; None without a readable manifest."""
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("WARNING: %s: damaged; using the checkpoints' own checksums", folder / MANIFEST)
        return None


def checksums_match(path: Path) -> bool:
    """Return whether a file is a ZIP archive, as ``torch.save`` writes, whose members match their CRC-32."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        return False
