"""Pairs of responses of two contenders to the same context, drawn from a finished comparison."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from dialog.analysis.measured import RESPONSES, all_references, read_responses
from dialog.atomic import lock, write_json
from dialog.comparison.results.samples import with_context
from dialog.comparison.statistics.interval import LEVEL, Runs, interval, variances
from dialog.comparison.statistics.measured import Sums
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.report.files import write_reports
from dialog.report.formats.results import RESULTS, Results, as_read, read_results

CHOICES = ("a", "b", "tie")
"""The better response of a pair."""
SCORES = {"a": 1.0, "b": 0.0, "tie": 0.5}
"""Score of the first response for each choice; its mean is the preference share."""
EVEN = 0.5
"""Preference share of equal contenders."""
Responses = Sequence[Mapping[str, Any]]
"""Lines of a responses.jsonl."""

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class ResponsePair:
    """Responses of contenders a and b to one context.

    Attributes:
        run: Number of the pair of runs, from 0.
        example: Id in the test set.
        dialogue: Id of the dialogue, the example's own without one.
    """

    a: str
    b: str
    run: int
    example: str
    dialogue: str
    context: tuple[str, ...]
    references: tuple[str, ...]
    responses: tuple[str, str]

    @property
    def is_equal(self) -> bool:
        """Whether both responses are the same text."""
        return self.responses[0] == self.responses[1]

    @property
    def key(self) -> tuple[str, str, int, str]:
        """Contenders, pair of runs and example."""
        return (self.a, self.b, self.run, self.example)


# ------------------------------------------------------------------ results.json


def change_results(folder: Path, change: Callable[[Results], Results]) -> Results:
    """Change results.json, write the reports again, and return it.

    Args:
        folder: Folder of the comparison.
        change: Returns the new results, given the present ones.
    """
    with lock(folder / ".report.lock", wait=True):
        results = as_read(change(read_results(folder)))
        write_reports(results, folder)
        write_json(folder / RESULTS, results)
    return results


def sources_of(results: Results) -> dict[str, tuple[str, ...]]:
    """Return the SHA-256 of the responses of each contender's runs."""
    return {
        model.name: tuple(run.hashes[RESPONSES] for run in model.runs if run.hashes)
        for model in results.models
    }


def kept_sections(path: Path, results: Results) -> dict[str, Any]:
    """Return the judgements and ratings of an earlier results.json whose responses are the present
    ones, as fields of the new one; none, with a warning, from a file that is damaged or of another
    version.
    """
    if not path.is_file():
        return {}
    try:
        earlier = read_results(path.parent)
    except UserError:
        log.warning(
            "%s: is damaged or of another version, so ratings and judgements in it are left out;"
            " add them again with --ratings and --judge",
            path,
        )
        return {}
    present = sources_of(results)
    judges = tuple(one for one in earlier.judges if is_present(one.sources, present))
    rated = is_present(earlier.ratings.sources, present)
    return {"judges": judges} | ({"ratings": earlier.ratings} if rated else {})


def is_present(sources: Mapping[str, Any], present: Mapping[str, Any]) -> bool:
    """Return whether the contenders still have these responses."""
    return all(present.get(name) == tuple(hashes) for name, hashes in sources.items())


# ------------------------------------------------------------------ sampling


def read_contenders(folder: Path, results: Results) -> dict[str, list[Responses]]:
    """Return the responses of each evaluated run of each contender.

    Raises:
        UserError: a file is missing, or has changed since the report.
    """
    contenders: dict[str, list[Responses]] = {}
    for model in results.models:
        for run in model.runs:
            if not run.evaluation:
                continue
            path = folder / run.folder / run.evaluation / RESPONSES
            if path.is_file() and sha256(path) != run.hashes.get(RESPONSES):
                raise UserError(f"{path}: has changed since the report; run compare {folder} first")
            contenders.setdefault(model.name, []).append(read_responses(path))
    return contenders


def draw_pairs(
    contenders: Mapping[str, Sequence[Responses]], number: int, *, equal: bool = True
) -> dict[tuple[str, str], list[ResponsePair]]:
    """Return about `number` pairs of responses, at least one for each pair of runs, of each two
    contenders.

    All pairs of runs answer the same examples: one of each dialogue in random order, then a second
    one of each. Runs of both contenders are paired in their order; those of a contender with a
    single run have it in common. Examples without context are left out if others have one.

    Args:
        contenders: Responses of the runs of each contender.
        number: Number of pairs of responses.
        equal: Keep pairs of equal responses; else others take their place.
    """
    order = draw_examples(next(iter(contenders.values()))[0])
    drawn = {}
    for a, b in combinations(contenders, 2):
        runs = paired_runs(contenders[a], contenders[b])
        pairs = (
            response_pair((a, b), run, (one[place], other[place]))
            for place in order
            for run, (one, other) in enumerate(runs)
        )
        wanted = max(1, number // len(runs)) * len(runs)
        drawn[a, b] = list(islice((pair for pair in pairs if equal or not pair.is_equal), wanted))
    return drawn


def pair_of(
    contenders: Mapping[str, Sequence[Responses]], key: tuple[str, str, int, str]
) -> ResponsePair:
    """Return the pair with this `ResponsePair.key`."""
    a, b, run, example = key
    one, other = paired_runs(contenders[a], contenders[b])[run]
    place = next(place for place, row in enumerate(one) if row["id"] == example)
    return response_pair((a, b), run, (one[place], other[place]))


def draw_examples(rows: Responses) -> list[int]:
    """Return the places of the examples in random order, those of different dialogues first."""
    chance = random.Random(0)
    places = with_context(rows)
    chance.shuffle(places)
    dialogues: dict[str, list[int]] = {}
    for place in places:
        dialogues.setdefault(dialogue_of(rows[place]), []).append(place)
    rounds = chain.from_iterable(zip_longest(*dialogues.values()))
    return [place for place in rounds if place is not None]


def paired_runs(
    a: Sequence[Responses], b: Sequence[Responses]
) -> list[tuple[Responses, Responses]]:
    """Pair the runs of two contenders in their order; a single run is paired with each."""
    sizes = (len(a), len(b))
    number = max(sizes) if 1 in sizes else min(sizes)
    return [(a[run % len(a)], b[run % len(b)]) for run in range(number)]


def dialogue_of(row: Mapping[str, Any]) -> str:
    """Return the id of the dialogue, or that of the example if it has none."""
    return str(row.get("dialogue_id", row["id"]))


def response_pair(
    names: tuple[str, str], run: int, rows: tuple[Mapping[str, Any], Mapping[str, Any]]
) -> ResponsePair:
    """Return the pair of two lines of responses to one example."""
    return ResponsePair(
        *names,
        run,
        rows[0]["id"],
        dialogue_of(rows[0]),
        tuple(rows[0]["context"]),
        tuple(all_references(rows[0])),
        (rows[0]["response"], rows[1]["response"]),
    )


# ------------------------------------------------------------------ preference


def preference(
    pairs: Sequence[ResponsePair], scores: Sequence[float]
) -> tuple[float, list[float] | None]:
    """Return the preference share of contender a, the mean score, and its interval over dialogues
    and pairs of runs; None for a single dialogue.

    Args:
        pairs: Pairs of the same two contenders; all pairs of runs have the same examples.
        scores: Score of each.
    """
    numbers: dict[str, int] = {}
    labels = np.array([numbers.setdefault(pair.dialogue, len(numbers)) for pair in pairs])
    runs = np.array([pair.run for pair in pairs])
    values = np.array(scores)
    if len(numbers) < 2:
        return float(values.mean()), None
    sums = [
        Sums(
            np.stack([values[runs == run], np.ones((runs == run).sum())], axis=1),
            labels[runs == run],
            lambda total, number: total / number,
        )
        for run in np.unique(runs)
    ]
    shares = Runs(
        np.array([one.value() for one in sums]), np.stack([one.leave_one_out() for one in sums])
    )
    even = Runs(np.full(1, EVEN), np.full((1, len(numbers)), EVEN))
    result = interval(shares, even, variances(shares, even), LEVEL)
    limits = (result.low + EVEN, result.high + EVEN)
    return result.difference + EVEN, [min(max(limit, 0.0), 1.0) for limit in limits]
