"""The content of results.json of a comparison, which comparisons write and reports read.

Each class is an object of the file, with its fields: user guide, docs/comparison.md. What is open
by nature, such as the metrics of a run, stays a mapping.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dialog.errors import UserError
from dialog.escaping import KEY, json_copy
from dialog.json_files import parsed, read_json
from dialog.report.formats.preferences import HumanRatings, JudgeResults

RESULTS = "results.json"
VERSION = 6

NOT_TESTED = "not tested: "
"""Beginning of the method of a difference without an interval; the reason follows."""

# ------------------------------------------------------------------ contenders


@dataclass(frozen=True)
class CurvePoint:
    """Losses at a step of training, and what it has cost until then."""

    step: int
    epoch: int
    target_tokens: int
    seconds: float
    loss: float | None = field(default=None, metadata={KEY: "train/loss"})
    bits_per_byte: float | None = field(default=None, metadata={KEY: "validation/bits_per_byte"})


@dataclass(frozen=True)
class RunResults:
    """One run of a contender; its costs are missing if it was not trained here.

    `metrics` is the content of metrics.json, empty without an evaluation.
    """

    seed: int | None
    folder: str = ""
    evaluation: str = ""
    steps: int | None = None
    seconds: float | None = None
    target_tokens: int | None = None
    diverged: bool = False
    metrics: Mapping[str, Any] = field(default_factory=dict)
    hashes: Mapping[str, str] = field(default_factory=dict)
    verified: bool | None = None
    curve: tuple[CurvePoint, ...] = ()

    def subset(self, name: str) -> Mapping[str, Any]:
        """Return the metrics on a subset of the test set other than "all"; empty without them."""
        metrics: Mapping[str, Any] = self.metrics.get("subsets", {}).get(name, {})
        return metrics

    def signature(self, metric: str) -> str:
        """Return the signature of a metric; empty without one."""
        return self.metrics.get("signatures", {}).get(metric) or ""

    @property
    def validations(self) -> list[CurvePoint]:
        """Points of the curve with a validation."""
        return [point for point in self.curve if point.bits_per_byte is not None]


@dataclass(frozen=True)
class SeedMean:
    """A metric over the n runs of a contender: mean, and sample standard deviation of several."""

    mean: float
    std: float | None
    n: int


@dataclass(frozen=True)
class TimeToValue:
    """Seconds of training until the validation reached a number of bits per byte."""

    bits_per_byte: float
    seconds: float


@dataclass(frozen=True)
class Cost:
    """Cost of a contender; None: no run has recorded it."""

    tokens_per_second: float | None = None
    seconds_to: TimeToValue | None = None
    milliseconds_per_response: float | None = None
    peak_memory_bytes: int | None = None


@dataclass(frozen=True)
class ModelResults:
    """A contender with its runs.

    Attributes:
        name: Its name.
        kind: "recipe", "runs" or "responses"; the last has no training.
        tokenizer: Hash of its tokenizer.
        parameters: Numbers of parameters: "total", "embeddings", "rest".
        flops_per_target_token: FLOPs of training per target token.
        state_bytes: Bytes of the state of generation, by tokens of the context.
        trials: Number of tuning trials.
        runs: Its runs.
        summary: Means over runs, by subset and metric.
        cost: Its cost.
        system: What answered, if it is a program.
    """

    name: str
    kind: str
    tokenizer: str | None = None
    parameters: Mapping[str, int] = field(default_factory=dict)
    flops_per_target_token: float | None = None
    state_bytes: Mapping[str, int | None] = field(default_factory=dict)
    trials: int | None = None
    runs: tuple[RunResults, ...] = ()
    summary: Mapping[str, Mapping[str, SeedMean]] = field(default_factory=dict)
    cost: Cost = Cost()
    system: Mapping[str, Any] | None = None

    @property
    def trained(self) -> bool:
        """True for a contender with a recipe."""
        return self.kind != "responses"

    def means(self, subset: str = "all") -> Mapping[str, SeedMean]:
        """Return the means on a subset, by metric."""
        return self.summary.get(subset, {})


@dataclass(frozen=True)
class TuningTrial:
    """A trial of ``--tune``, with its lowest validation."""

    model: str
    values: str
    seed: int | None
    bits_per_byte: float | None
    diverged: bool
    chosen: bool
    seconds: float | None
    folder: str


@dataclass(frozen=True)
class ParitySetting:
    """A setting of all contenders; a fair comparison `must` have equal values."""

    what: str
    equal: bool
    must: bool
    values: tuple[Any, ...]


# ------------------------------------------------------------------ statistics


@dataclass(frozen=True)
class Difference:
    """Difference of two contenders in a metric: a's mean over runs minus b's.

    `method` names the test, or is `NOT_TESTED` and a reason; then only the difference may have a
    value. `p` is missing if the metric is only shown; `p_holm` is p after the correction
    for all tests of a report. `decided` means: it is at most 1 - level, and the interval excludes
    0.
    """

    metric: str
    a: str
    b: str
    subset: str
    method: str
    difference: float | None = None
    interval: tuple[float, ...] = ()
    p: float | None = None
    p_holm: float | None = None
    decided: bool = False
    standard_error: float | None = None
    degrees_of_freedom: float | None = None
    improvement_probability: float | None = None
    detectable_difference: float | None = None

    @property
    def pair(self) -> tuple[str, str]:
        """Both contenders."""
        return self.a, self.b

    @property
    def measured(self) -> bool:
        """True with an interval."""
        return not self.method.startswith(NOT_TESTED)

    @property
    def why_untested(self) -> str:
        """The reason without an interval."""
        return self.method.removeprefix(NOT_TESTED)


@dataclass(frozen=True)
class Ranked:
    """A contender in the ranking by a metric; those that share a letter are not distinguished."""

    name: str
    mean: float
    groups: str


@dataclass(frozen=True)
class LookedAt:
    """A hypothesis with the p-value that a report had, before correction."""

    a: str
    b: str
    metric: str
    subset: str
    p: float


@dataclass(frozen=True)
class LookEntry:
    """A report on new seeds."""

    date: str
    seeds: Mapping[str, tuple[int | None, ...]]
    tests: tuple[LookedAt, ...]


@dataclass(frozen=True)
class StatisticsSettings:
    """Level, resamples, planned looks, and the number of runs of each contender."""

    level: float
    resamples: int
    looks: int
    seeds: Mapping[str, int]


@dataclass(frozen=True)
class Crossing:
    """Who is ahead in the learning curves of two contenders."""

    a: str
    b: str
    axis: str
    text: str
    crosses: bool


# ------------------------------------------------------------------ analyses


@dataclass(frozen=True)
class ContextChange:
    """Change in bits per byte over the runs of a contender, with a 95 % interval if known."""

    mean: float
    std: float | None
    interval: tuple[float, ...]
    n: int
    perplexity_token: float | None = None


@dataclass(frozen=True)
class Perturbation:
    """Changes in bits per byte under a perturbation of the contexts, by contender."""

    perturbation: str
    changed: int
    values: Mapping[str, ContextChange]


@dataclass(frozen=True)
class DroppedTurn:
    """Changes in bits per byte without the turn at a distance, by contender."""

    distance: int
    examples: int
    values: Mapping[str, ContextChange]


@dataclass(frozen=True)
class ContextUse:
    """Use of the context on a sample of the test set."""

    examples: int = 0
    rows: tuple[Perturbation, ...] = ()
    distance: tuple[DroppedTurn, ...] = ()


@dataclass(frozen=True)
class ExactShare:
    """Share of responses that are the reference: mean, and standard deviation of several runs."""

    mean: float
    std: float | None


@dataclass(frozen=True)
class Bucket:
    """Examples with one label of a property, and by contender the bits per byte ("values"), F1 and
    share of exact responses.
    """

    label: str
    examples: int
    values: Mapping[str, float | None]
    f1: Mapping[str, float | None]
    exact: Mapping[str, ExactShare | None]


@dataclass(frozen=True)
class Breakdown:
    """Quality by a property of the examples."""

    by: str
    buckets: tuple[Bucket, ...]


@dataclass(frozen=True)
class CalibrationBin:
    """Tokens of similar confidence."""

    confidence: float
    accuracy: float
    tokens: int


@dataclass(frozen=True)
class Calibration:
    """Expected calibration error and reliability diagram."""

    error: float | None
    bins: tuple[CalibrationBin, ...]


@dataclass(frozen=True)
class ShownExample:
    """An example with the response of each contender; `bits_per_byte` of the reference, if it was
    chosen for that.
    """

    id: str
    context: tuple[str, ...]
    reference: str
    responses: tuple[str, ...]
    bits_per_byte: tuple[float | None, ...] = ()


@dataclass(frozen=True)
class AttentionExample:
    """A reference and the cross-attention of the runs: "model", "seed", and the JSON of
    ``dialog attention``.
    """

    id: str
    context: tuple[str, ...]
    response: str
    models: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class AttentionStatistics:
    """Attention statistics of a run: "module", "head", and the statistics by name."""

    model: str
    seed: int | None
    rows: tuple[Mapping[str, Any], ...]


@dataclass(frozen=True)
class AttentionResults:
    """Maps of a few references, and statistics of the test split."""

    examples: tuple[AttentionExample, ...] = ()
    statistics: tuple[AttentionStatistics, ...] = ()


# ------------------------------------------------------------------ the file


@dataclass(frozen=True)
class Results:
    """Content of results.json.

    `references` has the metrics of reference systems, by subset and name; `ranking` the contenders
    of each tested metric, the best first.
    """

    version: int
    command: str
    environment: Mapping[str, Any]
    split: str
    fingerprint: str
    dialogues: int
    examples: int
    seconds: float
    warnings: tuple[str, ...]
    models: tuple[ModelResults, ...]
    tuning: tuple[TuningTrial, ...]
    references: Mapping[str, Mapping[str, Mapping[str, Any]]]
    parity: tuple[ParitySetting, ...]
    primary: str
    looks: tuple[LookEntry, ...]
    verdict: str
    ranking: Mapping[str, tuple[Ranked, ...]]
    differences: tuple[Difference, ...]
    statistics: StatisticsSettings
    crossings: tuple[Crossing, ...]
    context_use: ContextUse
    breakdown: tuple[Breakdown, ...]
    calibration: Mapping[str, Calibration]
    samples: tuple[ShownExample, ...]
    disagreements: tuple[ShownExample, ...]
    attention: AttentionResults
    ratings: HumanRatings = field(default_factory=HumanRatings)
    judges: tuple[JudgeResults, ...] = ()

    @property
    def names(self) -> list[str]:
        """Names of the contenders."""
        return [model.name for model in self.models]

    @property
    def runs(self) -> list[RunResults]:
        """Runs of all contenders."""
        return [run for model in self.models for run in model.runs]


def read_results(folder: Path) -> Results:
    """Read results.json of a finished comparison.

    Raises:
        UserError: the file is missing or damaged, or another version has written it.
    """
    path = folder / RESULTS
    if not path.is_file():
        raise UserError(f"{folder}: is not a finished comparison ({RESULTS} is missing)")
    return results_of_json(read_json(path, "models"), path)


def as_read(results: Results) -> Results:
    """Return results as a reader of the file gets them, without numbers that are not finite."""
    return results_of_json(json_copy(results))


def results_of_json(content: Mapping[str, Any], path: Path = Path(RESULTS)) -> Results:
    """Return the content of results.json.

    Raises:
        UserError: a field has another type, or another version has written the file.
    """
    again = f"write it again with: compare {path.parent}"
    version = content.get("version", "before 1")
    if version != VERSION:
        raise UserError(f"{path}: has version {version}, and this program reads {VERSION}; {again}")
    return parsed(Results, content, f"{path}: damaged", again)
