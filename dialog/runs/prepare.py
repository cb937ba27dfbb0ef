"""Prepare the data of a recipe: its tokenizer and its token stores, in the cache."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from dialog.build import build_job
from dialog.config.schema import Recipe
from dialog.paths import cache
from dialog.runs.check import check_data

if TYPE_CHECKING:
    from dialog.data.preparation.job import Job


def prepare_data(
    recipe: Recipe, *, quiet: bool = True, engine: str = "processes", workers: int = 1, merges: bool = False
) -> Path:
    """Return the folder of the prepared data; it is built if it is missing, or merged from shards with ``merges``."""
    from dialog.data.preparation.prepare import merge_shards, prepare
    from dialog.report.progress import ProgressBars

    job = _checked_job(recipe)
    with ProgressBars(quiet=quiet) as bars:
        if merges:
            return merge_shards(job, cache(), bars.show)
        return prepare(job, cache(), engine=engine, workers=workers, progress=bars.show)


def prepare_part(recipe: Recipe, index: int, count: int) -> Path:
    """Prepare shard ``index`` of ``count``; return the folder that collects the shards."""
    from dialog.data.preparation.prepare import prepare_shard
    from dialog.report.progress import ProgressBars

    with ProgressBars() as bars:
        return prepare_shard(_checked_job(recipe), cache(), index, count, progress=bars.show)


def example_ids(recipe: Recipe, split: str, rows: Collection[int]) -> dict[int, str]:
    """Map rows of a prepared split to the ids of their examples, by reading the corpus again."""
    from dialog.data.preparation import example_ids as ids

    return ids.example_ids(_checked_job(recipe), split, rows)


def _checked_job(recipe: Recipe) -> Job:
    check_data(recipe)
    return build_job(recipe)
