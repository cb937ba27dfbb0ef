"""Checkpoints that are whole or not there: written beside, synced and renamed, with their SHA-256 in a manifest."""

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
"""Of the checkpoints that are written here, and the newest that can be read."""

log = logging.getLogger("dialog")


class SafeCheckpointIO(CheckpointIO):
    """Lightning's checkpoints as ``torch.save`` files that are replaced whole and loaded without running code.

    The manifest beside them has the SHA-256 of each. It has a new file's too before that takes its name: what is whole
    is known by its hash, under whichever name it lies, so there is no moment at which a kill costs more than the file
    that was being written. ``last.ckpt`` is kept as ``previous.ckpt`` when a new one comes.
    """

    def save_checkpoint(
        self, checkpoint: dict[str, Any], path: str | os.PathLike[str], storage_options: object = None
    ) -> None:
        """Write a checkpoint of plain types and tensors.

        Raises:
            RunError: the disk is full, read-only or broken; what was there before is whole.
        """
        target = Path(path)
        marked = {**checkpoint, "dialog": {"format": FORMAT, "version": __version__}}
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside(target) as new:
                torch.save(marked, new)
                sync(new)
                self._replace(target, new)
        except (OSError, RuntimeError) as error:  # torch makes a RuntimeError of a full disk
            said = " ".join(str(error).split())[:200]
            raise RunError(f"{target}: cannot be saved ({said}); the checkpoint before it is as it was") from error

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = lambda storage, location: storage,  # noqa: ANN401 - Lightning's type
        weights_only: bool | None = True,
    ) -> dict[str, Any]:
        """Read a checkpoint that is whole; never anything but plain types and tensors.

        In place of a ``last.ckpt`` that is not, the one before is read, with a warning.

        Raises:
            UserError: there is no whole one, or it was written by a newer version.
        """
        source = Path(path)
        wrong = self.damage(source)
        if wrong and source.name == LAST and not self.damage(source.with_name(PREVIOUS)):
            log.warning("WARNING: %s; going on from the checkpoint before it, %s", wrong, PREVIOUS)
            source, wrong = source.with_name(PREVIOUS), None
        if wrong:
            raise UserError(f"{wrong}; without a whole checkpoint this run cannot go on")
        try:
            checkpoint: dict[str, Any] = torch.load(source, map_location=map_location, weights_only=True)
        except Exception as error:  # torch raises what it finds
            raise UserError(f"{source}: refused, {' '.join(str(error).split())[:300]}") from error
        made = checkpoint.pop("dialog", {"format": FORMAT, "version": __version__})
        if made["format"] > FORMAT:
            raise UserError(
                f"{source}: has format {made['format']}, written by dialog {made['version']}; this is dialog "
                f"{__version__}, which reads formats up to {FORMAT}; update it"
            )
        return checkpoint

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)

    def damage(self, path: Path) -> str | None:
        """What is wrong with a checkpoint, if anything; without a manifest its own checksums must do."""
        if not path.is_file():
            return f"{path}: is not there"
        hashes = read_manifest(path.parent)
        if hashes is None:
            return None if checksums_hold(path) else f"{path}: damaged, its checksums do not hold"
        return None if sha256(path) in hashes.values() else f"{path}: damaged, its SHA-256 is not in {MANIFEST}"

    def _replace(self, target: Path, new: Path) -> None:
        """Give a whole new file its name."""
        folder = target.parent
        hashes = {**(read_manifest(folder) or {}), new.name: sha256(new)}
        generations = target.name == LAST and LAST in hashes
        if generations:
            hashes[PREVIOUS] = hashes[LAST]
        write_manifest(folder, hashes)
        if generations:
            with beside(folder / PREVIOUS) as link:
                os.link(target, link)  # so that there is a last one at any moment
                os.replace(link, folder / PREVIOUS)
        rename(new, target)
        hashes[target.name] = hashes.pop(new.name)
        write_manifest(folder, {name: each for name, each in hashes.items() if (folder / name).exists()})


def newest(folder: Path) -> Path | None:
    """The checkpoint that a training goes on from, if it has come so far."""
    return folder / LAST if any((folder / name).exists() for name in (LAST, PREVIOUS)) else None


def sweep(folder: Path) -> None:
    """Remove what saves that were killed have left, and note under which names the whole checkpoints lie now."""
    for path in (*folder.glob(".*.ckpt.*"), *folder.glob(f".{MANIFEST}.*")):
        path.unlink()
    storage = SafeCheckpointIO()
    whole = {path.name: sha256(path) for path in sorted(folder.glob("*.ckpt")) if storage.damage(path) is None}
    if folder.is_dir():
        write_manifest(folder, whole)


def write_manifest(folder: Path, hashes: Mapping[str, str]) -> None:
    """Replace the manifest whole."""
    write_text(folder / MANIFEST, json.dumps(hashes, indent=1, sort_keys=True) + "\n")


def read_manifest(folder: Path) -> dict[str, str] | None:
    """The hashes of a folder's checkpoints by name; none if there is no manifest that can be read."""
    try:
        return dict(json.loads((folder / MANIFEST).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    except ValueError:
        log.warning("WARNING: %s: damaged; the checkpoints' own checksums must do", folder / MANIFEST)
        return None


def checksums_hold(path: Path) -> bool:
    """Whether a file is a ZIP archive, as ``torch.save`` writes them, whose parts have their CRC-32."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        return False
