"""The job of a preparation: a corpus and every setting on which the prepared data depend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple

from dialog.config.components import build
from dialog.data.corpora import Corpus
from dialog.data.examples import ExampleRules
from dialog.data.filters import FILTERS, Filter
from dialog.data.store.layout import LAYOUTS, ROLES
from dialog.data.store.manifest import FORMAT, fingerprint
from dialog.data.tokenizers import tokenizer_identity
from dialog.errors import UserError

Progress = Callable[[str, int, int | None], None]
"""Called with a task's name, the records that are done, and their total or None."""

SHARDS = "shards"


def no_progress(task: str, done: int, total: int | None) -> None:
    """Report nothing."""


class Limits(NamedTuple):
    """Maximal source ids and target ids of an example; targets are truncated in the training split
    only.
    """

    max_source: int
    max_target: int


@dataclass(frozen=True)
class Job:
    """A corpus and the settings of its preparation.

    Args:
        corpus: The source of the dialogues.
        component: The recipe's component that built the corpus.
        tokenizer: A member of `TOKENIZERS` with its arguments.
        rules: How dialogues become examples.
        limits: Maximal ids of an example, end token included: sources are truncated from the left,
            training targets from the right.
        max_dropped: The maximal fraction of records, and of turns, that may be dropped as malformed
            or empty.
        filters: Members of `FILTERS` with their arguments, for the training split.
        layout: Member of `LAYOUTS`.
    """

    corpus: Corpus
    component: Mapping[str, object]
    tokenizer: Mapping[str, object]
    rules: ExampleRules
    limits: Limits
    max_dropped: float = 0.01
    filters: Sequence[Mapping[str, object]] = field(default_factory=tuple)
    layout: str = ROLES

    def build_filters(self) -> list[Filter]:
        """Return the filters; they have not surveyed the corpus."""
        return [build(FILTERS, component) for component in self.filters]

    def check(self) -> None:
        """Raise UserError for a setting out of range."""
        for key, value in self.limits._asdict().items():
            if value < 1:
                raise UserError(f"data.{key} is {value}; set it to at least 1")
        if self.layout not in LAYOUTS:
            raise UserError(f"data.layout is {self.layout!r}; give {' or '.join(LAYOUTS)}")
        if not 0 <= self.max_dropped <= 1:
            raise UserError(
                f"data.max_dropped is {self.max_dropped}; set it to a fraction from 0 to 1"
            )


class Target(NamedTuple):
    """The folder of a job's prepared data, and everything that its name depends on."""

    settings: Mapping[str, object]
    folder: Path  # <root>/<corpus name>-<fingerprint>-v<format>/
    shards: Path  # hidden beside it: what `prepare_shard` writes and `merge_shards` reads


def target_of(job: Job, root: Path) -> Target:
    """Return where a job's data are prepared below `root`; reads the corpus's fingerprint."""
    settings = {
        "corpus": without_paths(job.component),
        "sources": dict(job.corpus.fingerprint()),
        "tokenizer": tokenizer_identity(job.tokenizer),
        "filters": [dict(component) for component in job.filters],
        **asdict(job.rules),
        **job.limits._asdict(),
        "layout": job.layout,
    }
    name = f"{job.component['name']}-{fingerprint(settings)[:12]}-v{FORMAT}"
    return Target(settings, root / name, root / f".{name}.{SHARDS}")


def without_paths(component: object) -> object:
    """Return a component without `path` arguments, also of nested components: moving data changes
    no fingerprint.
    """
    if isinstance(component, Mapping):
        return {key: without_paths(value) for key, value in component.items() if key != "path"}
    if isinstance(component, list | tuple):
        return [without_paths(value) for value in component]
    return component
