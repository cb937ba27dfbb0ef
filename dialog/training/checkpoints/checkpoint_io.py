"""Write checkpoints atomically (temporary file, sync, rename), with their SHA-256 in a manifest."""

from __future__ import annotations

import logging
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.checkpoint_io import CheckpointIO

from dialog.errors import UserError
from dialog.training.checkpoints.manifest import (
    MANIFEST,
    is_intact,
    list_files,
    remove_temporaries,
    replacing_listed,
)
from dialog.version import __version__

LAST = "last.ckpt"
PREVIOUS = "previous.ckpt"
BEST = "best.ckpt"
FORMAT = 1
"""Format of checkpoints that are written, and the newest that can be read."""

log = logging.getLogger("dialog")


class SafeCheckpointIO(CheckpointIO):
    """Lightning's checkpoints as ``torch.save`` files, replaced atomically and loaded without
    running code.

    The manifest beside them lists the SHA-256 of each, so a kill at any moment costs at most the
    file being written. The old ``last.ckpt`` is kept as ``previous.ckpt``.

    Args:
        on_best: Called with the content of each new ``best.ckpt``.
    """

    def __init__(self, on_best: Callable[[dict[str, Any]], None] | None = None) -> None:
        self.on_best = on_best

    def save_checkpoint(
        self,
        checkpoint: dict[str, Any],
        path: str | os.PathLike[str],
        storage_options: object = None,
    ) -> None:
        """Write a checkpoint of plain types and tensors.

        Raises:
            UserError: the disk is full, read-only or broken; an old checkpoint is intact.
        """
        target = Path(path)
        marked = {**checkpoint, "dialog": {"format": FORMAT, "version": __version__}}
        with saving(target, target.parent.parent):
            target.parent.mkdir(parents=True, exist_ok=True)
            with replacing_listed(
                target, previous=PREVIOUS if target.name == LAST else None
            ) as new:
                write(marked, new)
        if self.on_best is not None and target.name == BEST:
            self.on_best(checkpoint)

    def load_checkpoint(
        self,
        path: str | os.PathLike[str],
        map_location: Any = lambda storage, location: storage,
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
            source = source.with_name(PREVIOUS)
            damage = None
        if damage:
            raise UserError(f"{damage}; without an intact checkpoint this run cannot be resumed")
        try:
            checkpoint: dict[str, Any] = torch.load(
                source, map_location=map_location, weights_only=True
            )
        except Exception as error:  # torch raises errors of many kinds
            reason = " ".join(str(error).split())[:300]
            # its message advises to run the file's code
            if type(error).__name__ == "UnpicklingError":
                reason = (
                    "it holds objects other than tensors and plain types; train again, or restore"
                    " it from a copy"
                )
            raise UserError(f"{source}: cannot be loaded, {reason}") from error
        written = checkpoint.pop("dialog", {"format": FORMAT, "version": __version__})
        if written["format"] > FORMAT:
            raise UserError(
                f"{source}: has format {written['format']}, written by dialog {written['version']};"
                f" this is dialog {__version__}, which reads formats up to {FORMAT}; update it"
            )
        return checkpoint

    def remove_checkpoint(self, path: str | os.PathLike[str]) -> None:
        """Delete a checkpoint."""
        Path(path).unlink(missing_ok=True)

    def damage(self, path: Path) -> str | None:
        """Return what is wrong with a checkpoint, or None; without a manifest, check the file's own
        checksums.
        """
        if not path.is_file():
            return f"{path}: does not exist"
        try:
            intact = is_intact(path)
        except UserError as error:
            log.warning("WARNING: %s; using the checkpoints' own checksums", error)
            intact = None
        if intact is None:
            return None if checksums_match(path) else f"{path}: damaged, its checksums do not match"
        return None if intact else f"{path}: damaged, its SHA-256 is not in {MANIFEST}"


def write(checkpoint: dict[str, Any], path: Path) -> None:
    """Write a ``torch.save`` file; torch hides the error of the disk behind its own, which is
    raised here.
    """
    try:
        with path.open("wb") as file:
            torch.save(checkpoint, file)
    except RuntimeError as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, OSError):
            cause = cause.__context__
        raise cause or error from None


@contextmanager
def saving(path: Path, run: Path) -> Iterator[None]:
    """Raise UserError for a disk that is full, read-only or broken, with the command that resumes
    the run.
    """
    try:
        yield
    except (OSError, RuntimeError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or " ".join(
            str(error).split()
        )[:200]
        previous = path.exists() or (path.name == LAST and path.with_name(PREVIOUS).exists())
        raise UserError(
            f"{path}: cannot be saved ({reason});"
            f" {'the previous one is intact; ' if previous else ''}free or repair the disk and"
            f" continue with: python -m dialog train --resume {run}"
        ) from error


def newest(folder: Path) -> Path | None:
    """Return the checkpoint to resume from, or None before the first save."""
    return folder / LAST if any((folder / name).exists() for name in (LAST, PREVIOUS)) else None


def clean_up(folder: Path) -> None:
    """Remove temporary files of killed saves, and rewrite the manifest for the intact
    checkpoints.
    """
    remove_temporaries(folder, ["*.ckpt"])
    storage = SafeCheckpointIO()
    if folder.is_dir():
        list_files(
            folder,
            [path.name for path in sorted(folder.glob("*.ckpt")) if storage.damage(path) is None],
        )


def checksums_match(path: Path) -> bool:
    """Return whether a file is a ZIP archive, as ``torch.save`` writes, whose members match their
    CRC-32.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.testzip() is None
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, NotImplementedError):
        return False
