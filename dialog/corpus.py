"""The corpus of a recipe: where its files are, how it is read, and how it is prepared."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dialog.components import build, named, resolve, takes
from dialog.data.corpora import CORPORA, Corpus
from dialog.data.dialogue import Entry
from dialog.data.downloads import corpus_folder, provide
from dialog.data.filters import FILTERS
from dialog.errors import UserError, section
from dialog.folders import cache
from dialog.recipe import Recipe

if TYPE_CHECKING:
    from dialog.data.examples import Rules
    from dialog.data.shards import Job


def build_corpus(recipe: Recipe, *, read: bool = True) -> Corpus:
    """The corpus of a recipe, from ``data.path``, else ``$DIALOG_DATA/<corpus>``, else its official source.

    The source is downloaded, where it has not been yet, if the corpus is to be read.
    """
    with _readable(), section("data.corpus"):
        return Readable(_member(recipe.data.corpus, recipe.data.path, read=read))


@dataclass(frozen=True)
class Readable:
    """A corpus; that its files or folders cannot be read is the user's to mend, whichever of its readers finds it."""

    corpus: Corpus

    def dialogues(self, split: str) -> Iterator[Entry]:
        """Those of the corpus."""
        with _readable():
            yield from self.corpus.dialogues(split)

    def fingerprint(self) -> Mapping[str, str]:
        """That of the corpus."""
        with _readable():
            return self.corpus.fingerprint()


@contextmanager
def _readable() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UserError(f"the corpus cannot be read ({error}); give data.path a folder or file that can") from error


def _member(component: Mapping[str, Any], path: str | None = None, *, read: bool) -> Corpus:
    """A corpus, or one of a mixture's, which has its own ``path``."""
    name, arguments = named(component)
    downloads = cache() / "downloads"
    given = arguments.pop("path", path)
    if given and not takes(CORPORA, component, "path"):
        raise UserError(f"{name} reads no folder: leave the path {given} out, or give it to a corpus that does")
    if given and "\0" in str(given):
        raise UserError(f"the path {str(given)!r} holds a NUL, which no file's name does")
    folder = corpus_folder(name, given, downloads)
    member = partial(_member, read=read)
    corpus = build(CORPORA, {"name": name, **arguments}, path=folder, member=member)
    if read:
        provide(name, folder, downloads)
    return corpus


def check_data(recipe: Recipe) -> None:
    """Refuse a corpus, a tokenizer or a filter that there is not, or that takes other arguments."""
    from dialog.data.tokenizers import TOKENIZERS

    with section("data.corpus"):
        resolve(CORPORA, recipe.data.corpus, path=None, member=None)
    build_rules(recipe)
    with section("data.tokenizer"):
        resolve(TOKENIZERS, recipe.data.tokenizer, texts=())
    with section("data.filters"):
        for component in recipe.data.filters:
            resolve(FILTERS, component)


def build_rules(recipe: Recipe) -> Rules:
    """How the dialogues of a recipe's corpus become examples."""
    from dialog.data.examples import Rules

    return Rules(**{each.name: getattr(recipe.data, each.name) for each in fields(Rules)})


def build_job(recipe: Recipe) -> Job:
    """What is prepared for a recipe."""
    from dialog.data.shards import Job
    from dialog.data.writer import Limits

    data = recipe.data
    check_data(recipe)
    limits = Limits(data.max_source, data.max_target)
    rules, corpus = build_rules(recipe), build_corpus(recipe)
    return Job(corpus, data.corpus, data.tokenizer, rules, limits, data.max_dropped, tuple(data.filters))


def example_ids(recipe: Recipe, split: str, rows: Collection[int]) -> dict[int, str]:
    """The ids of examples of the prepared data, by their rows; the corpus is read again."""
    from dialog.data import naming

    return naming.example_ids(build_job(recipe), split, rows)


def prepare_data(
    recipe: Recipe, *, quiet: bool = True, engine: str = "processes", workers: int = 1, merges: bool = False
) -> Path:
    """Tokenizer and token stores of a recipe's corpus: the folder that holds them, built or merged if need be."""
    from dialog.data.prepare import merge_shards, prepare
    from dialog.report.progress import Bars

    job = build_job(recipe)
    with Bars(quiet=quiet) as bars:
        if merges:
            return merge_shards(job, cache(), bars.show)
        return prepare(job, cache(), engine=engine, workers=workers, progress=bars.show)


def prepare_part(recipe: Recipe, index: int, count: int) -> Path:
    """One of so many shards of the prepared data; the folder where they gather."""
    from dialog.data.prepare import prepare_shard
    from dialog.report.progress import Bars

    with Bars() as bars:
        return prepare_shard(build_job(recipe), cache(), index, count, progress=bars.show)
