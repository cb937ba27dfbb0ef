"""Prepare a raw corpus: a draft (filters, tokenizer), shards (token ids) and their merge into one
folder.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dialog.atomic import (
    folder_lock,
    partial_folder,
    publish,
    remove_partial_folders,
    remove_unlocked,
)
from dialog.data.preparation.draft import write_draft
from dialog.data.preparation.engines import ENGINES
from dialog.data.preparation.job import SHARDS, Job, Progress, Target, no_progress, target_of
from dialog.data.preparation.merge import check_counts, merge
from dialog.data.preparation.shards import write_shard
from dialog.data.store.manifest import fingerprint, read_manifest, write_manifest
from dialog.errors import UserError

MERGED = "whole"
"""Name of the merged data inside the partial folder."""


def prepare(
    job: Job,
    root: Path,
    *,
    engine: str = "processes",
    workers: int = 1,
    progress: Progress = no_progress,
) -> Path:
    """Return `<root>/<corpus name>-<fingerprint>-v<format>/` for a `Store`; build it if it is
    missing.

    The fingerprint covers the corpus (its own fingerprint, its component without `path`) and every
    setting; engine and workers change no byte. The tokenizer is trained on the training split only.
    The folder appears complete, by a rename. Leftovers of killed preparations are removed, except
    shards that another process is writing. Memory grows only with what the tokenizer and the
    filters hold, not with the corpus.

    Args:
        job: The corpus and its settings.
        root: The folder of all prepared data.
        engine: A member of `ENGINES`, which runs the shards.
        workers: Number of shards; with more than one, each runs in its own process.
        progress: Called with each task's progress.

    Raises:
        UserError: a setting out of range, a corpus that cannot be read or changes meanwhile, a
            split without examples, a disk that is full or read-only.
    """
    job.check()
    target = target_of(job, root)
    existing = is_prepared(target.folder)
    if not existing:
        with _writing(root), partial_folder(target.folder) as partial:
            shards = partial / SHARDS
            write_draft(job, shards, workers, progress)
            ENGINES[engine](job, shards, workers, progress)
            _finish(job, target, partial, shards, workers, progress)
    _remove_leftovers(target)
    return _checked(target.folder, job) if existing else target.folder


def prepare_shard(
    job: Job, root: Path, index: int, count: int, progress: Progress = no_progress
) -> Path:
    """Write shard `index` of `count` for `merge_shards`; return the shards' folder, or the prepared
    data if complete.

    Raises:
        UserError: as `prepare`.
    """
    job.check()
    target = target_of(job, root)
    if not is_prepared(target.folder):
        with _writing(root):
            target.shards.mkdir(parents=True, exist_ok=True)
            with folder_lock(target.shards, shared=True):
                write_draft(job, target.shards, count, progress)
                write_shard(job, target.shards, index, count, progress)
        if not is_prepared(target.folder):  # another preparation may have finished
            return target.shards
    _remove_leftovers(target)
    return _checked(target.folder, job)


def merge_shards(job: Job, root: Path, progress: Progress = no_progress) -> Path:
    """Return the prepared data, merged from shards that were all written with the same count.

    Raises:
        UserError: shards are missing, or as `prepare`.
    """
    job.check()
    target = target_of(job, root)
    if not is_prepared(target.folder):
        _merge(job, target, progress)
    shutil.rmtree(target.shards, ignore_errors=True)
    _remove_leftovers(target)
    return _checked(target.folder, job)


def _remove_leftovers(target: Target) -> None:
    """Remove what killed preparations left beside complete data; shards that a process is writing
    stay.
    """
    remove_unlocked(target.shards)
    remove_partial_folders(target.folder)


def _merge(job: Job, target: Target, progress: Progress) -> None:
    counts = {
        int(path.name.rpartition("-of-")[2]) for path in target.shards.glob("[0-9]*-of-[0-9]*")
    }
    if len(counts) != 1:
        existing = ", ".join(f"N = {count}" for count in sorted(counts)) or "none"
        fix = "remove all but those of one N" if counts else "run --shard I/N for every I below N"
        raise UserError(f"{target.shards}: shards of one N are needed, found: {existing}; {fix}")
    try:
        with _writing(target.folder.parent), partial_folder(target.folder) as partial:
            _finish(job, target, partial, target.shards, counts.pop(), progress)
    except UserError:
        if not is_prepared(target.folder):  # by another merge, which then removes the shards
            raise


def is_prepared(folder: Path) -> bool:
    """Return whether a folder holds complete prepared data."""
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


def _checked(folder: Path, job: Job) -> Path:
    """Return the folder after checking `max_dropped`, which is not part of the fingerprint."""
    manifest = read_manifest(folder)
    for split, counts in manifest["splits"].items():
        check_counts(split, Counter(counts), manifest["remarks"][split], job.max_dropped)
    return folder


def _finish(
    job: Job, target: Target, partial: Path, shards: Path, count: int, progress: Progress
) -> None:
    """Merge the shards into a folder inside `partial` and publish it, unless the corpus has
    changed.
    """
    merged = partial / MERGED
    merged.mkdir()
    content = merge(job, shards, count, merged, progress)
    if dict(job.corpus.fingerprint()) != target.settings["sources"]:
        raise UserError(
            f"{target.folder.name}: the corpus changed while it was read; prepare it again"
        )
    write_manifest(
        merged,
        {"fingerprint": fingerprint(target.settings), "settings": target.settings, **content},
    )
    if target.folder.exists() and not is_prepared(target.folder):
        shutil.rmtree(target.folder)
    publish(merged, target.folder)


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    """Re-raise errors of the disk as UserError."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{root}: prepared data cannot be written there ({error}); make room, or set"
            " DIALOG_CACHE to another folder"
        ) from error
