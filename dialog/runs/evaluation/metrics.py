"""Metrics of a split, collected example by example."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from torchmetrics import Metric

from dialog.analysis.attention.alignment import AlignmentCounts
from dialog.analysis.calibration import SIZE, calibration
from dialog.analysis.measured import example_bytes
from dialog.analysis.training_responses import TrainingResponses
from dialog.errors import UserError
from dialog.escaping import to_json
from dialog.metrics.measurement import Measurement, results
from dialog.runs.evaluator import BLOCK, Answered

UNITS = ("tokens", "words", "bytes")


class Evaluation:
    """Metrics of a split, and what else metrics.json states of it.

    Args:
        metrics: Metrics by their key in metrics.json.
        training: Responses of the training split; None if it is unknown.
        ranks: Rank of the reference among candidates, by the index of the example; None if it is
            not measured.
    """

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        *,
        training: TrainingResponses | None = None,
        ranks: Mapping[int, int] | None = None,
    ) -> None:
        self.measurement = Measurement(metrics)
        self.training = training
        self.ranks = ranks
        if training is None:
            self.measurement.left_out["train_copy_ratio"] = (
                "the responses of the training split are not known"
            )
        if ranks is None:
            self.measurement.left_out["hits_1_of_20"] = (
                "the references are not ranked; it takes 20 different ones"
            )
        self.counts: Counter[str] = Counter()
        self.dialogue_ids: list[str] = []
        self.lossless = True
        self.confidences = np.zeros(SIZE)
        self.fingerprint = hashlib.sha256()
        self._answers: list[tuple[int, int]] = []  # right, and question
        self._rows: list[dict[str, Any]] = []

    def add(self, answered: Answered) -> dict[str, Any]:
        """Add one example; return its line of responses.jsonl."""
        example = answered.example
        row = answered.row()
        if self.training is not None:
            row["train_copy"] = int(self.training.contain([row["response"]])[0])
        if self.ranks is not None:
            row["candidate_rank"] = self.ranks.get(self.counts["examples"])
        self.counts.update(examples=1, **{unit: row[f"reference_{unit}"] for unit in UNITS})
        self.lossless = self.lossless and answered.scored.lossless
        self.confidences += answered.scored.confidences
        self.dialogue_ids.append(example.dialogue_id)
        question = bool(example.response.copies) or example.response.is_answer
        self._answers.append((question and answered.exact, question))
        self.counts.update(questions=question)
        self.fingerprint.update(example_bytes(row))
        self._rows.append(row)
        if len(self._rows) >= BLOCK:
            self._update()
        return row

    def _update(self) -> None:
        """Pass the collected rows to the metrics."""
        self.measurement.add(self._rows)
        self._rows = []

    def write(self, answers: Iterable[Answered], path: Path) -> None:
        """Add all answers and write them as JSON lines."""
        with path.open("w", encoding="utf-8") as file:
            for answered in answers:
                file.write(to_json(self.add(answered)) + "\n")

    def metrics(self, split: str, aligned: AlignmentCounts | None = None) -> dict[str, Any]:
        """Return the content of metrics.json.

        Args:
            split: Name of the split.
            aligned: Counts of correctly aligned tokens of all examples.

        Raises:
            UserError: the references have no token, word or byte.
        """
        self._update()
        if self.counts["questions"]:
            self.measurement.give("answer_accuracy", np.array(self._answers, dtype=np.float64))
        if aligned is not None and aligned.hits:
            self.measurement.give("alignment_accuracy", aligned.statistics(self.counts["examples"]))
        for unit in UNITS:
            if not self.counts[unit]:
                raise UserError(
                    f"likelihood is undefined: the references have no {unit}; "
                    "check data.path for an empty split or empty responses"
                )
        metrics: dict[str, Any] = {
            "split": split,
            "examples": self.counts["examples"],
            "dialogues": len(set(self.dialogue_ids)),
            "fingerprint": self.fingerprint.hexdigest(),
            **{unit: self.counts[unit] for unit in UNITS},
            "lossless": self.lossless,
            **results(self.measurement),
        }
        reliability = calibration(self.confidences.tolist())
        metrics |= {
            "calibration_error": reliability["error"],
            "calibration": {"bins": reliability["bins"]},
        }
        if questions := self.counts["questions"]:
            metrics["questions"] = questions
        return metrics | (aligned.metrics() if aligned is not None else {})
