"""Measure settings of the search on the validation split of runs, and write the selected one; it
can be interrupted.

A run folder keeps what was measured and what was selected:

    generation/settings.jsonl                a line per setting: metrics, seconds, responses
    generation/manifest.json                 its SHA-256
    configs/generation/tuned.yaml            the selected setting: ``generation=tuned``
    configs/generation/tuned_ensemble.yaml   the same for an ensemble of this run with others
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dialog.atomic import lock, write_text
from dialog.config.schema import to_dict
from dialog.config.trust import FULL_TRUST
from dialog.data.reading.files import sha256
from dialog.errors import UserError
from dialog.escaping import one_line, to_json
from dialog.json_files import read_json_lines
from dialog.paths import check_links, recipe_name
from dialog.report.formats.metrics import metric_display
from dialog.report.progress import ProgressBars
from dialog.runs.evaluation.evaluated import with_reverse_weights
from dialog.runs.folder import WEIGHTS, hash_of
from dialog.runs.run import Run, run_names
from dialog.signals import stopping
from dialog.training.checkpoints.manifest import check_intact, replacing_listed
from dialog.tuning.generation.decoding_setting import DecodingSetting
from dialog.tuning.generation.rule import SelectionRule, on_frontier
from dialog.tuning.generation.sample import DIVERSITY, SPLIT, Sample

FORMAT = 3
"""Version of the lines of settings.jsonl; lines of another version are measured again."""
RECORD = "generation/settings.jsonl"
SELECTED = "configs/generation/tuned.yaml"
ENSEMBLE = "configs/generation/tuned_ensemble.yaml"

log = logging.getLogger("dialog")


@dataclass(frozen=True)
class TuningTask:
    """A run, the settings to measure, and the examples to measure them on."""

    run: Run
    settings: Sequence[DecodingSetting]
    sample: Sample

    def __post_init__(self) -> None:
        """Check that no link leads out of the folders of the run that are written; raise UserError
        otherwise.
        """
        if self.run.trust != FULL_TRUST:
            for path in (RECORD, SELECTED):
                check_links(self.run.folder, Path(path).parts[0])


def tune_generation(tasks: Sequence[TuningTask], rule: SelectionRule) -> dict[str, Any]:
    """Measure every setting that a run folder has not recorded yet, and write the setting that the
    rule selects.

    The same call continues after an interruption.

    Returns:
        The content of results.json.

    Raises:
        UserError: runs with different validation examples, a folder in use by another process, or
            scores that are not numbers.
    """
    check_same_examples(tasks)
    human = tasks[0].sample.human()
    names = run_names([task.run for task in tasks])
    names = [
        " + ".join([name, *map(recipe_name, task.run.others)])
        for name, task in zip(names, tasks, strict=True)
    ]
    with (
        stopping("run the same command again to continue"),
        ProgressBars() as bars,
        ExitStack() as locks,
    ):
        for task in tasks:  # before the records are read, and until the settings are written
            locks.enter_context(locked(task.run.folder))
        records = [Record(task) for task in tasks]
        total = sum(len(record.missing()) * len(record.task.sample.examples) for record in records)
        done = 0

        def advance(count: int) -> None:
            nonlocal done
            done += count
            bars.show("tune-generation (responses)", done, total)

        advance(0)
        for record in records:
            for setting in record.missing():
                record.measure(setting, advance)
        runs = [
            record.select(name, rule, human) for name, record in zip(names, records, strict=True)
        ]
    return {
        "split": SPLIT,
        "examples": len(tasks[0].sample.examples),
        "available": tasks[0].sample.available,
        "fingerprint": tasks[0].sample.fingerprint,
        "rule": {
            "text": rule.text,
            "words": rule.describe(human),
            "conditions": [
                {
                    "metric": condition.metric,
                    "relation": condition.relation,
                    "bound": condition.bound(human),
                }
                for condition in rule.conditions
            ],
        },
        "human": human,
        "runs": runs,
    }


def check_same_examples(tasks: Sequence[TuningTask]) -> None:
    """Check that all runs are measured on the same references.

    Raises:
        UserError: they differ.
    """
    first, *others = tasks
    for other in others:
        if other.sample.fingerprint != first.sample.fingerprint:
            raise UserError(
                f"{other.run.folder}: has other validation examples than {first.run.folder}; tune"
                " runs of one corpus together, others one by one"
            )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a run folder's record.

    Raises:
        UserError: another process measures settings of this run.
    """
    path = folder / RECORD
    path.parent.mkdir(exist_ok=True)
    with lock(path.parent / ".lock") as held:
        if not held:
            raise UserError(f"{folder}: another process measures its settings; wait until it ends")
        yield


class Record:
    """The measured settings of a run, by fingerprint; those of other weights, data or examples are
    kept too.

    Args:
        task: The run, its settings and its examples.

    Raises:
        UserError: the file of the settings is damaged, or has changed since it was written.
    """

    def __init__(self, task: TuningTask) -> None:
        self.task = task
        self.path = task.run.folder / RECORD
        keys = "fingerprint", "setting", "metrics", "seconds", "responses"
        if self.path.is_file():
            check_intact(
                self.path, "restore it from a copy, or remove it to measure the settings again"
            )
        lines = read_json_lines(self.path, *keys) if self.path.is_file() else ()
        self.lines = {line["fingerprint"]: line for line in lines}
        run = task.run
        recipe = to_dict(run.recipe)
        data = [recipe["data"][key] for key in ("max_source", "layout", "silence", "normalise")]
        self.others = [sha256(folder / WEIGHTS) for folder in run.others]
        self.common = [FORMAT, run.weights, self.others, recipe["model"], data, task.sample.inputs]
        self.selected = run.folder / (ENSEMBLE if run.others else SELECTED)

    def fingerprint(self, setting: DecodingSetting) -> str:
        """Return the SHA-256 of everything that the responses depend on."""
        search = with_reverse_weights(setting.generation["search"])
        return hash_of([*self.common, {**setting.generation, "search": search}])

    def missing(self) -> list[DecodingSetting]:
        """Return the settings that have not been measured."""
        return [
            setting for setting in self.task.settings if self.fingerprint(setting) not in self.lines
        ]

    def measure(self, setting: DecodingSetting, progress: Callable[[int], object]) -> None:
        """Measure a setting and write all lines; at any moment the file is complete."""
        sample = self.task.sample
        fingerprint = self.fingerprint(setting)
        decoded = sample.decode(self.task.run, setting.component, progress)
        self.lines[fingerprint] = {
            "fingerprint": fingerprint,
            "setting": setting.name,
            "generation": setting.chosen(),
            "examples": len(sample.examples),
            "metrics": sample.measure(decoded.responses),
            "seconds": round(decoded.seconds, 3),
            "responses": decoded.responses,
        }
        with replacing_listed(self.path) as new:
            text = "".join(to_json(line) + "\n" for line in self.lines.values())
            new.write_text(text, encoding="utf-8", newline="\n")

    def select(self, name: str, rule: SelectionRule, human: dict[str, float]) -> dict[str, Any]:
        """Write the setting that a rule selects; return the settings of this run for
        results.json.
        """
        lines = [self.lines[self.fingerprint(setting)] for setting in self.task.settings]
        values = [line["metrics"] for line in lines]
        place = rule.select(values, human)
        frontier = on_frontier([(line[DIVERSITY], line["f1"]) for line in values])
        met = rule.shortfall(values[place], human) == 0
        write_selected(
            self.selected, self.task.settings[place], values[place], rule, human, met=met
        )
        rows = [
            {
                "name": setting.name,
                "generation": line["generation"],
                "seconds": line["seconds"],
                **line["metrics"],
                "frontier": best,
                "selected": number == place,
                "responses": line["responses"],
            }
            for number, (setting, line, best) in enumerate(
                zip(self.task.settings, lines, frontier, strict=True)
            )
        ]
        return {
            "run": str(self.task.run.folder),
            "name": name,
            "weights": self.task.run.weights,
            "ensemble": self.others,
            "selected": self.task.settings[place].name,
            "conditions_met": met,
            "file": str(self.selected),
            "settings": rows,
        }


def write_selected(
    path: Path,
    setting: DecodingSetting,
    values: dict[str, float],
    rule: SelectionRule,
    human: dict[str, float],
    *,
    met: bool,
) -> None:
    """Write a setting as a file of the group ``generation``, with the rule that selected it.

    The path of a reverse model is made absolute, so that the file is valid in any working folder.
    """
    shown = ("f1", "bleu_2", DIVERSITY, "entropy_2", "length_mean")
    displays = {name: metric_display(name) for name in shown}
    numbers = ", ".join(
        f"{display.label} {display.format(values[name])}" for name, display in displays.items()
    )
    note = "" if met else "# No setting meets the conditions; this one comes nearest.\n"
    path.parent.mkdir(parents=True, exist_ok=True)
    head = (
        f"# {one_line(setting.name)}: selected on validation as {rule.describe(human)}.\n{note}#"
        f" {numbers}.\n"
    )
    chosen = setting.chosen()
    if "reverse" in chosen["search"]:
        reverse = str(Path(chosen["search"]["reverse"]).resolve())
        chosen["search"] = {**chosen["search"], "reverse": reverse}
    write_text(path, head + "".join(f"{key}: {to_json(value)}\n" for key, value in chosen.items()))
