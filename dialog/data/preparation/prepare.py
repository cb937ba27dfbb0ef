"""Raw corpus to tokenizer and token store: passes to learn (a filter, the tokenizer), one over every split to write."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from dialog.atomic import folder_lock, partial_folder, publish, remove_unlocked
from dialog.data.preparation.checks import check_counts
from dialog.data.preparation.engines import ENGINES
from dialog.data.preparation.shards import Job, Progress, draft, merge, nothing, write_shard
from dialog.data.store.manifest import fingerprint, read_manifest, write_manifest
from dialog.data.tokenizers import tokenizer_identity
from dialog.errors import UserError

PARTS, WHOLE = "shards", "whole"
"""In the hidden folder of a preparation the shards, and what is made of them."""


def prepare(job: Job, root: Path, *, engine: str = "processes", workers: int = 1, progress: Progress = nothing) -> Path:
    """Build `<root>/<corpus name>-<fingerprint>/` for a `Store`, or return it where it is.

    The fingerprint covers the corpus (its own fingerprint, its component but for a `path`) and every setting; engine
    and workers change no byte. The tokenizer learns from the training split only. The folder appears at once and
    complete, by a rename; the hidden folder that a kill leaves is removed by the next preparation, and shards that
    nobody writes any more with it. The memory needed does not grow with the corpus but for what the tokenizer and the
    filters hold.

    Args:
        job: What is prepared.
        root: Where prepared data lie.
        engine: A member of `ENGINES`, which runs the shards.
        workers: How many shards there are, each in a process of its own if there are more than one.
        progress: Told what is being done.

    Raises:
        UserError: a setting out of range, a corpus that cannot be read or changes meanwhile, a split without examples,
            a disk that is full or read-only.
    """
    _check(job)
    sources = dict(job.corpus.fingerprint())
    folder = root / _name(job, sources)
    there = finished(folder)
    if not there:
        with _writing(root), partial_folder(folder) as partial:
            draft(job, partial / PARTS, progress)
            ENGINES[engine](job, partial / PARTS, workers, progress)
            _finish(job, partial, partial / PARTS, workers, sources, folder, progress)
    remove_unlocked(_shards(job, root, sources))
    return _checked(folder, job) if there else folder


def prepare_shard(job: Job, root: Path, index: int, count: int, progress: Progress = nothing) -> Path:
    """Write one of `count` shards for a later `merge_shards`; the folder where they lie, or that of the prepared data.

    Raises:
        UserError: as `prepare`.
    """
    _check(job)
    sources = dict(job.corpus.fingerprint())
    folder, parts = root / _name(job, sources), _shards(job, root, sources)
    if not finished(folder):
        with _writing(root):
            parts.mkdir(parents=True, exist_ok=True)
            with folder_lock(parts, shared=True):
                draft(job, parts, progress)
                write_shard(job, parts, index, count, progress)
        if not finished(folder):  # by another preparation meanwhile
            return parts
    remove_unlocked(parts)
    return _checked(folder, job)


def merge_shards(job: Job, root: Path, progress: Progress = nothing) -> Path:
    """The prepared data from shards that were all written with the same count.

    Raises:
        UserError: shards are missing, or as `prepare`.
    """
    _check(job)
    sources = dict(job.corpus.fingerprint())
    folder, parts = root / _name(job, sources), _shards(job, root, sources)
    if not finished(folder):
        _merge(job, parts, sources, folder, progress)
    shutil.rmtree(parts, ignore_errors=True)
    return _checked(folder, job)


def _merge(job: Job, parts: Path, sources: Mapping[str, str], folder: Path, progress: Progress) -> None:
    counts = {int(path.name.rpartition("-of-")[2]) for path in parts.glob("[0-9]*-of-[0-9]*")}
    if len(counts) != 1:
        found = ", ".join(f"N = {count}" for count in sorted(counts)) or "none"
        mend = "remove all but those of one" if counts else "run --shard I/N for every I below N"
        raise UserError(f"{parts}: shards of one N are needed, there are: {found}; {mend}")
    try:
        with _writing(folder.parent), partial_folder(folder) as partial:
            _finish(job, partial, parts, counts.pop(), sources, folder, progress)
    except UserError:
        if not finished(folder):  # by another merge, which then takes the shards away
            raise


def finished(folder: Path) -> bool:
    """Whether a folder holds prepared data, whole."""
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


# ------------------------------------------------------------------ names


def _check(job: Job) -> None:
    for key, value in job.limits._asdict().items():
        if value < 1:
            raise UserError(f"data.{key} is {value}; give at least 1")
    if not 0 <= job.max_dropped <= 1:
        raise UserError(f"data.max_dropped is {job.max_dropped}; give a share from 0 to 1")


def _checked(folder: Path, job: Job) -> Path:
    """The folder, unless more was dropped for it than the job allows: that is no part of the fingerprint."""
    manifest = read_manifest(folder)
    for split, counts in manifest["splits"].items():
        check_counts(split, Counter(counts), manifest["remarks"][split], job.max_dropped)
    return folder


def _settings(job: Job, sources: Mapping[str, str]) -> dict[str, object]:
    return {
        "corpus": without_paths(job.component),
        "sources": sources,
        "tokenizer": tokenizer_identity(job.tokenizer),
        "filters": [dict(component) for component in job.filters],
        **asdict(job.rules),
        **job.limits._asdict(),
    }


def without_paths(component: object) -> object:
    """A component without its `path` and those of its parts: data are the same wherever they lie."""
    if isinstance(component, Mapping):
        return {key: without_paths(value) for key, value in component.items() if key != "path"}
    if isinstance(component, list | tuple):
        return [without_paths(value) for value in component]
    return component


def _name(job: Job, sources: Mapping[str, str]) -> str:
    return f"{job.component['name']}-{fingerprint(_settings(job, sources))[:12]}"


def _shards(job: Job, root: Path, sources: Mapping[str, str]) -> Path:
    return root / f".{_name(job, sources)}.{PARTS}"


# ------------------------------------------------------------------ folders


def _finish(
    job: Job,
    partial: Path,
    parts: Path,
    count: int,
    sources: Mapping[str, str],
    folder: Path,
    progress: Progress,
) -> None:
    """Merge the shards into `<partial>/whole/` and publish it, unless the corpus has changed."""
    whole = partial / WHOLE
    whole.mkdir()
    content = merge(job, parts, count, whole, progress)
    if dict(job.corpus.fingerprint()) != sources:
        raise UserError(f"{folder.name}: the corpus changed while it was read; prepare it again")
    settings = _settings(job, sources)
    write_manifest(whole, {"fingerprint": fingerprint(settings), "settings": settings, **content})
    _publish(whole, folder)


@contextmanager
def _writing(root: Path) -> Iterator[None]:
    """What goes wrong while files are written is the user's to mend."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"{root}: prepared data cannot be written there ({error}); make room, or set DIALOG_CACHE to another folder"
        ) from error


def _publish(whole: Path, folder: Path) -> None:
    """Rename a complete folder into place, unless another process was faster."""
    if folder.exists() and not finished(folder):
        shutil.rmtree(folder)
    publish(whole, folder)
