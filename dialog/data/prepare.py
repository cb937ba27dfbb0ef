"""Raw corpus to tokenizer and token store, in one pass over the training texts and one over every split."""

from __future__ import annotations

import os
import secrets
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from dialog.components import build
from dialog.data.corpora import Corpus
from dialog.data.dialogue import SPLITS, Dialogue
from dialog.data.examples import usable
from dialog.data.manifest import TOKENIZER, fingerprint, read_manifest, write_manifest
from dialog.data.tokenizers import TOKENIZERS, identity
from dialog.data.writer import Limits, SplitWriter
from dialog.errors import UserError

BLOCK = 8192
"""Turns that are encoded and written at a time."""

Progress = Callable[[str], None]


def prepare(
    corpus: Corpus,
    *,
    corpus_component: Mapping[str, object],
    tokenizer: Mapping[str, object],
    context_turns: int,
    first_turns: bool,
    max_source: int,
    max_target: int,
    root: Path,
    progress: Progress | None = None,
) -> Path:
    """Build `<root>/<corpus name>-<fingerprint>/` for a `Store`, or return it where it is.

    The fingerprint covers the corpus (its own fingerprint, its component but for a `path`) and every setting. The
    tokenizer learns from the training split only. The folder appears at once and complete, by a rename; what a kill
    leaves is a hidden folder `.<name>.*.partial`. The memory needed does not grow with the corpus but for its words.

    Args:
        corpus: Where the dialogues come from.
        corpus_component: The part of the recipe that chose `corpus`.
        tokenizer: A member of `TOKENIZERS` with its arguments.
        context_turns: The most turns of a context.
        first_turns: Whether first turns are responses too.
        max_source: The most source ids, the end included; more are cut from the left.
        max_target: The most target ids, the end included; in the training split more are cut from the right.
        root: Where prepared data lie.
        progress: Called with a line about what is being done.

    Raises:
        UserError: a setting out of range, a corpus that cannot be read or changes meanwhile, a split without examples.
    """
    limits = {"context_turns": context_turns, "max_source": max_source, "max_target": max_target}
    _check(limits)
    sources = dict(corpus.fingerprint())
    settings: dict[str, object] = {
        "corpus": {key: value for key, value in corpus_component.items() if key != "path"},
        "sources": sources,
        "tokenizer": identity(tokenizer),
        "first_turns": first_turns,
        **limits,
    }
    mark = fingerprint(settings)
    name = f"{corpus_component['name']}-{mark[:12]}"
    if _finished(root / name):
        return root / name
    partial = _partial_folder(root, name)
    try:
        report = progress or (lambda line: None)
        content = _build(corpus, partial, tokenizer, first_turns=first_turns, limits=limits, progress=report)
        if dict(corpus.fingerprint()) != sources:
            raise UserError(f"{name}: the corpus changed while it was read; prepare it again")
        write_manifest(partial, {"fingerprint": mark, "settings": settings, **content})
        _publish(partial, root / name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return root / name


def _check(limits: Limits) -> None:
    for key, value in limits.items():
        least = 0 if key == "context_turns" else 1
        if value < least:
            raise UserError(f"data.{key} is {value}; give at least {least}")


def _finished(folder: Path) -> bool:
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True


def _partial_folder(root: Path, name: str) -> Path:
    partial = root / f".{name}.{secrets.token_hex(4)}.partial"
    try:
        partial.mkdir(parents=True)
    except OSError as error:
        raise UserError(
            f"{root}: cannot write prepared data there ({error.strerror}); choose another folder"
        ) from error
    return partial


def _build(
    corpus: Corpus,
    folder: Path,
    component: Mapping[str, object],
    *,
    first_turns: bool,
    limits: Limits,
    progress: Progress,
) -> dict[str, object]:
    progress("learning the tokenizer")
    training = usable(corpus.dialogues("train"), first_turns=first_turns, counts=Counter())
    tokenizer = build(TOKENIZERS, component, texts=(turn.text for dialogue in training for turn in dialogue.turns))
    tokenizer.save(folder / TOKENIZER)
    splits = {}
    for split in SPLITS:
        counts: Counter[str] = Counter()
        dialogues = usable(corpus.dialogues(split), first_turns=first_turns, counts=counts)
        with SplitWriter(folder, split, tokenizer, first_turns=first_turns, limits=limits) as writer:
            for block in _blocks(dialogues):
                counts.update(writer.write(block))
                progress(f"{split}: {counts['dialogues']:,} dialogues")
        if not counts["examples"]:
            raise UserError(f"the split {split} gives no example ({dict(counts)}); give dialogues of two turns or more")
        splits[split] = dict(counts)
    return {"vocabulary": len(tokenizer), "tokenizer": tokenizer.fingerprint, "splits": splits}


def _blocks(dialogues: Iterable[Dialogue]) -> Iterator[list[Dialogue]]:
    block: list[Dialogue] = []
    turns = 0
    for dialogue in dialogues:
        block.append(dialogue)
        turns += len(dialogue.turns)
        if turns >= BLOCK:
            yield block
            block, turns = [], 0
    if block:
        yield block


def _publish(partial: Path, folder: Path) -> None:
    """Rename a complete folder into place, unless another process was faster."""
    for path in (*partial.iterdir(), partial):
        _sync(path)
    if folder.exists() and not _finished(folder):
        shutil.rmtree(folder)
    try:
        partial.replace(folder)
    except OSError:
        if not _finished(folder):
            raise
    _sync(folder.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
