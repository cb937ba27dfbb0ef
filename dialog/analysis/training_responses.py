"""The responses of the training split as hashes, to find responses that a model has copied
from it.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dialog.data.examples import examples
from dialog.data.preparation.job import Job, without_paths
from dialog.data.store.manifest import fingerprint
from dialog.data.text_matching.fingerprints import Hashes, collapse_whitespace, hash_texts
from dialog.errors import UserError

BLOCK = 65_536
"""Responses that are hashed at once."""

log = logging.getLogger("dialog")


class TrainingResponses(NamedTuple):
    """The different responses of a training split, 8 bytes each."""

    hashes: Hashes  # sorted, each once

    def contain(self, responses: Sequence[str]) -> NDArray[np.bool_]:
        """Return whether each response is equal to a training response up to white space [N]."""
        hashes = hash_texts(map(collapse_whitespace, responses))
        places = np.searchsorted(self.hashes, hashes).clip(max=len(self.hashes) - 1)
        return np.asarray(self.hashes[places] == hashes)


@dataclass(frozen=True)
class _Marked:
    """A job, equal to another one with the same fingerprint."""

    fingerprint: str
    job: Job = field(compare=False)


def read_training_responses(job: Job) -> TrainingResponses | None:
    """Read the responses of the training split, before filters; None, with a warning, if it is
    missing or empty.

    A process keeps those that it read last, so the runs of a comparison read them once; they are
    read again if the files, the corpus's arguments or the rules differ, or if a file of another
    split is missing.
    """
    mark = _fingerprint(job)
    try:
        hashes = _hashes(job) if mark is None else _latest_hashes(_Marked(mark, job))
    except UserError as error:
        log.warning(
            "train_copy_ratio: it is left out, since the training split cannot be read: %s", error
        )
        return None
    return TrainingResponses(hashes) if len(hashes) else None


@lru_cache(maxsize=1)
def _latest_hashes(marked: _Marked) -> Hashes:
    return _hashes(marked.job)


def _hashes(job: Job) -> Hashes:
    hashes = np.empty(0, dtype=np.uint64)
    texts = (
        example.response.text
        for example in examples(job.corpus.dialogues("train"), job.rules, Counter())
    )
    while block := list(islice(texts, BLOCK)):
        hashes = np.union1d(hashes, hash_texts(map(collapse_whitespace, block)))
    return hashes


def _fingerprint(job: Job) -> str | None:
    """Return the hash of everything that determines the responses; None if a file of the corpus is
    missing.
    """
    try:
        sources = dict(job.corpus.fingerprint())
    except UserError:
        return None
    return fingerprint(
        {"corpus": without_paths(job.component), "sources": sources, "rules": asdict(job.rules)}
    )
